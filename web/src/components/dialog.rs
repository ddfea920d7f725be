//! A question that is answered before anything else.

use leptos::html::Dialog;
use leptos::prelude::*;

use crate::i18n::t;

/// Asks for a yes or no.
#[component]
pub(crate) fn Confirm(
    /// The question.
    title: &'static str,
    /// What a yes means.
    text: &'static str,
    /// The word on the button that does it.
    yes: &'static str,
    /// Do it.
    on_yes: impl Fn() + 'static,
    /// Leave it.
    on_no: impl Fn() + Copy + 'static,
) -> impl IntoView {
    let dialog = NodeRef::<Dialog>::new();
    Effect::new(move |_| {
        if let Some(dialog) = dialog.get() {
            let _ = dialog.show_modal();
        }
    });
    view! {
        <dialog
            class="confirm"
            node_ref=dialog
            aria-labelledby="confirm-title"
            aria-describedby="confirm-text"
            on:close=move |_| on_no()
        >
            <h2 id="confirm-title">{title}</h2>
            <p id="confirm-text">{text}</p>
            <div class="actions">
                <button class="danger" data-test="confirm-yes" on:click=move |_| on_yes()>
                    {yes}
                </button>
                <button data-test="confirm-no" autofocus on:click=move |_| on_no()>
                    {t().cancel()}
                </button>
            </div>
        </dialog>
    }
}
