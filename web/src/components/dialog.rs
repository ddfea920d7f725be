//! A question that is answered before anything else.

use leptos::html::Dialog;
use leptos::prelude::*;

use crate::i18n::t;

/// What a dialog says when it closes with a yes; every other way to close it is a no.
const YES: &str = "yes";

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
    on_no: impl Fn() + 'static,
) -> impl IntoView {
    let dialog = NodeRef::<Dialog>::new();
    let opened = StoredValue::new_local(None::<web_sys::HtmlDialogElement>);
    Effect::new(move |_| {
        if let Some(dialog) = dialog.get() {
            let _ = dialog.show_modal();
            opened.set_value(Some(dialog));
        }
    });
    // Closed before it leaves the page, so that the focus goes back to where it was.
    on_cleanup(move || {
        if let Some(Some(dialog)) = opened.try_update_value(Option::take) {
            dialog.close();
        }
    });
    let close = move |answer: &str| {
        if let Some(dialog) = dialog.get_untracked() {
            dialog.close_with_return_value(answer);
        }
    };
    let closed = move |_| {
        let answer = dialog.get_untracked().map(|dialog| dialog.return_value()).unwrap_or_default();
        if answer == YES { on_yes() } else { on_no() }
    };
    view! {
        <dialog
            class="confirm"
            node_ref=dialog
            aria-labelledby="confirm-title"
            aria-describedby="confirm-text"
            on:close=closed
        >
            <h2 id="confirm-title">{title}</h2>
            <p id="confirm-text">{text}</p>
            <div class="actions">
                <button class="danger" data-test="confirm-yes" on:click=move |_| close(YES)>
                    {yes}
                </button>
                <button data-test="confirm-no" autofocus on:click=move |_| close("")>
                    {t().cancel()}
                </button>
            </div>
        </dialog>
    }
}
