//! The browser client of aude.
//!
//! Marks for tests, as `data-test`: `pair-input`, `pair-name`, `pair-button`, `pair-error`; `connection` (with `data-state`: `connecting`,
//! `connected`, `waiting`, `offline`, `refused`, `other-machine`), `connect-now`; `session-row` (with `data-session`, `data-state`), `session-name`,
//! `session-state` (with `data-state`); `new-session`, `start-name`, `start-harness`, `start-directory`, `start-text`, `start-button`, `start-error`;
//! `transcript`, `item` (with `data-kind`, `data-sequence` unless live, `data-live`), `earlier`, `latest`, `restarted`, `gone`; `composer`, `send`,
//! `interrupt`, `pending` (with `data-state`: `waiting`, `taken`, `refused`, `failed`), `pending-retry`, `pending-edit`, `pending-discard`; `stop`,
//! `remove`, `confirm-yes`, `confirm-no`; `toast`.
#![expect(unreachable_pub, reason = "the component macro makes its properties public")]

mod app;
mod browser;
mod components;
mod i18n;
mod link;
mod pages;
mod state;
mod store;

use leptos::mount::mount_to_body;

fn main() {
    // Before anything else: the secret leaves the address bar and the history.
    let pairing = browser::take_pairing().map(|secret| secret.to_string());
    std::panic::set_hook(Box::new(|panic| {
        console_error_panic_hook::hook(panic);
        browser::show_end(i18n::t().crashed());
    }));
    mount_to_body(move || app::page(pairing));
}
