//! A turn that is on its way.

use leptos::prelude::*;

use crate::i18n::t;
use crate::store::{Outgoing, OutgoingState};

/// A turn that is on its way, or was not taken.
#[component]
pub(crate) fn Pending(
    /// The turn.
    outgoing: Outgoing,
    /// Whether it can leave now.
    is_connected: Signal<bool>,
    /// Send it again.
    on_retry: impl Fn() + 'static,
    /// Put it back into the composer.
    on_edit: impl Fn() + 'static,
    /// Forget it.
    on_discard: impl Fn() + 'static,
) -> impl IntoView {
    let (word, problem) = match &outgoing.state {
        OutgoingState::Waiting => ("waiting", None),
        OutgoingState::Taken => ("taken", None),
        OutgoingState::Refused(sentence) => ("refused", Some(sentence.clone())),
        OutgoingState::Failed(sentence) => ("failed", Some(sentence.clone())),
    };
    let is_taken = outgoing.state == OutgoingState::Taken;
    let state = move || match (is_taken, is_connected.get()) {
        (true, _) => t().taken(),
        (false, true) => t().pending_connected(),
        (false, false) => t().pending(),
    };
    let decisions = problem.map(|problem| {
        view! {
            <p class="error" role="alert">
                {problem}
            </p>
            <div class="actions">
                <button class="small" data-test="pending-retry" on:click=move |_| on_retry()>
                    {t().retry()}
                </button>
                <button class="small" data-test="pending-edit" on:click=move |_| on_edit()>
                    {t().edit()}
                </button>
                <button class="small quiet" data-test="pending-discard" on:click=move |_| on_discard()>
                    {t().discard()}
                </button>
            </div>
        }
        .into_any()
    });
    view! {
        <article class="item user own pending" data-test="pending" data-state=word>
            <div class="bubble">{outgoing.text}</div>
            {decisions.unwrap_or_else(|| view! { <p class="pending-state">{state}</p> }.into_any())}
        </article>
    }
}
