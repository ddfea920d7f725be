//! Where a turn is written: Enter sends, Shift+Enter breaks the line, an Enter that ends a composition does neither. Escape is the page's.

use leptos::html::Textarea;
use leptos::prelude::*;
use shared::limits;

use super::icon::{Icon, Shape};
use crate::browser;
use crate::i18n::t;

/// The key code of every key that an input method takes for itself; Safari gives it for the Enter that ends a composition.
const TAKEN_BY_INPUT_METHOD: u32 = 229;

/// Where a turn is written.
#[component]
pub(crate) fn Composer(
    /// What is being written.
    draft: RwSignal<String>,
    /// Whether a turn runs.
    is_running: Signal<bool>,
    /// Whether the session is connected.
    is_connected: Signal<bool>,
    /// How many turns wait at the machine.
    queued: Signal<usize>,
    /// How many turns wait here.
    waiting: Signal<usize>,
    /// The draft changed.
    on_draft: impl Fn(String) + Copy + Send + Sync + 'static,
    /// Send the turn.
    on_send: impl Fn(String) + Copy + Send + Sync + 'static,
    /// End the turn that runs.
    on_interrupt: impl Fn() + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let field = NodeRef::<Textarea>::new();
    let is_blank = move || draft.with(|text| text.trim().is_empty());
    let is_long = move || draft.with(|text| text.len() > limits::TEXT_BYTES);
    let send = move || {
        if untrack(|| is_blank() || is_long()) {
            return;
        }
        let text = draft.get_untracked().trim_end().to_owned();
        draft.set(String::new());
        on_send(text);
        if let Some(field) = field.get_untracked() {
            let _ = field.focus();
        }
    };
    Effect::new(move |_| {
        if let Some(field) = field.get()
            && !browser::has_coarse_pointer()
        {
            let _ = field.focus();
        }
    });
    Effect::new(move |_| on_draft(draft.get()));
    let pressed = move |event: leptos::ev::KeyboardEvent| {
        if event.is_composing() || event.key_code() == TAKEN_BY_INPUT_METHOD {
            return;
        }
        if event.key() == "Enter" && !event.shift_key() && !event.alt_key() {
            event.prevent_default();
            send();
        }
    };
    let state = move || {
        let queued = queued.get();
        let waiting = waiting.get();
        if is_long() {
            Some(t().too_long().to_owned())
        } else if queued > 0 {
            Some(t().queued(queued))
        } else if waiting > 0 && !is_connected.get() {
            Some(t().pending().to_owned())
        } else {
            None
        }
    };
    view! {
        <form
            class="composer"
            on:submit=move |event| {
                event.prevent_default();
                send();
            }
        >
            <label class="visually-hidden" for="composer">
                {t().composer()}
            </label>
            <div class="composer-box">
                <textarea
                    id="composer"
                    data-test="composer"
                    node_ref=field
                    rows="1"
                    enterkeyhint="send"
                    placeholder=t().composer_placeholder()
                    aria-describedby="composer-state"
                    aria-invalid=move || is_long().to_string()
                    prop:value=move || draft.get()
                    on:input=move |event| draft.set(event_target_value(&event))
                    on:keydown=pressed
                ></textarea>
                <Show when=move || is_running.get()>
                    <button
                        type="button"
                        class="interrupt"
                        data-test="interrupt"
                        title=format!("{} ({})", t().interrupt(), t().interrupt_hint())
                        disabled=move || !is_connected.get()
                        on:click=move |_| on_interrupt()
                    >
                        <Icon shape=Shape::Square/>
                        <span class="interrupt-word">{t().interrupt()}</span>
                    </button>
                </Show>
                <button
                    type="submit"
                    class="send"
                    data-test="send"
                    aria-label=t().send()
                    title=t().send()
                    disabled=move || is_blank() || is_long()
                >
                    <Icon shape=Shape::Up/>
                </button>
            </div>
            <p class="composer-state" id="composer-state" role="status">
                {state}
            </p>
        </form>
    }
}
