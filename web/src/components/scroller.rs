//! The scrolling part of a transcript: it follows the end while the reader is there, and else stays where the reader is.

use std::cell::Cell;
use std::rc::Rc;

use leptos::html::Div;
use leptos::prelude::*;
use wasm_bindgen::JsCast;
use wasm_bindgen::prelude::Closure;

use super::icon::{Icon, Shape};
use crate::browser;
use crate::i18n::t;
use crate::state::session::Following;

/// How far from the end still counts as the end, in pixels.
const NEAR: i32 = 40;

/// The transcript's scrolling part.
#[component]
pub(crate) fn Scroller(
    /// Whether the reader follows the end.
    is_following: RwSignal<bool>,
    /// Items that came while the reader did not.
    unseen: RwSignal<usize>,
    /// The reader scrolled to the end, or away from it.
    on_scrolled: impl Fn(Following) + Copy + Send + Sync + 'static,
    /// What scrolls.
    children: Children,
) -> impl IntoView {
    let outer = NodeRef::<Div>::new();
    let inner = NodeRef::<Div>::new();
    let last_top = Rc::new(Cell::new(0));
    let to_end = move || {
        if let Some(outer) = outer.get_untracked() {
            outer.set_scroll_top(outer.scroll_height());
        }
    };
    // Whatever makes the content longer or the window smaller (text, a picture of the keyboard, an opened fold), the end stays in sight.
    Effect::new(move |_| {
        let (Some(outer), Some(inner)) = (outer.get(), inner.get()) else { return };
        let grown = Closure::<dyn FnMut()>::new(move || {
            if is_following.try_get_untracked() == Some(true) {
                to_end();
            }
        });
        if let Ok(observer) = web_sys::ResizeObserver::new(grown.as_ref().unchecked_ref()) {
            observer.observe(&outer);
            observer.observe(&inner);
            let kept = StoredValue::new_local(Some((observer, grown)));
            on_cleanup(move || {
                if let Some(Some((observer, _))) = kept.try_update_value(Option::take) {
                    observer.disconnect();
                }
            });
        }
    });
    // A person who sends something, or asks for the latest, follows from then on.
    Effect::new(move |_| {
        if is_following.get() {
            to_end();
        }
    });
    let scrolled = move |_| {
        let Some(outer) = outer.get_untracked() else { return };
        let top = outer.scroll_top();
        let is_up = top < last_top.replace(top);
        let is_end = outer.scroll_height() - top - outer.client_height() <= NEAR;
        if is_end {
            on_scrolled(Following::End);
        } else if is_up {
            // Content that grew under a reader at the end is no sign that the reader left it.
            on_scrolled(Following::Elsewhere);
        }
    };
    let jump = move |_| {
        on_scrolled(Following::End);
        to_end();
        if let Some(outer) = outer.get_untracked() {
            browser::focus(&outer);
        }
    };
    view! {
        <div class="scroll-frame">
            <div
                class="scroller"
                node_ref=outer
                on:scroll=scrolled
                role="log"
                aria-live="off"
                aria-label=t().transcript()
                tabindex="0"
                data-test="transcript"
            >
                <div class="transcript" node_ref=inner>
                    {children()}
                </div>
            </div>
            <Show when=move || !is_following.get()>
                <button class="latest" data-test="latest" on:click=jump>
                    <Icon shape=Shape::Down/>
                    {move || t().new_items(unseen.get())}
                </button>
            </Show>
        </div>
    }
}
