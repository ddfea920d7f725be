//! How the connection stands, in words and by a mark.

use leptos::prelude::*;

use crate::browser;
use crate::i18n::t;
use crate::state::Connection;

/// How the connection stands, with the way to try again at once.
#[component]
pub(crate) fn ConnectionBadge(
    /// The connection.
    connection: Signal<Connection>,
    /// The seconds, for the countdown.
    clock: RwSignal<i64>,
    /// Whether the browser believes that it has a network.
    is_online: RwSignal<bool>,
    /// A person asks to connect now.
    on_now: impl Fn() + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let word = move || match connection.get() {
        Connection::Connecting => "connecting",
        Connection::Connected => "connected",
        Connection::Waiting { .. } if !is_online.get() => "offline",
        Connection::Waiting { .. } => "waiting",
        Connection::Refused(_) => "refused",
        Connection::OtherMachine => "other-machine",
    };
    let sentence = move || match connection.get() {
        Connection::Connecting => t().connecting().to_owned(),
        Connection::Connected => t().connected().to_owned(),
        Connection::Waiting { until } => {
            clock.track();
            let seconds = until.saturating_sub(browser::steady()).div_ceil(1000).max(1);
            let wait = t().reconnecting(seconds);
            if is_online.get() { wait } else { format!("{} · {wait}", t().offline()) }
        }
        Connection::Refused(failure) => t().connection_refused(&failure.detail),
        Connection::OtherMachine => t().other_machine().to_owned(),
    };
    let can_try = move || match connection.get() {
        Connection::Waiting { .. } | Connection::Refused(_) | Connection::OtherMachine => true,
        Connection::Connecting | Connection::Connected => false,
    };
    // A screen reader hears that the connection was lost or is there again, not each second of a countdown.
    let spoken = Memo::new(move |_| match connection.get() {
        Connection::Connecting | Connection::Waiting { .. } => t().connecting().to_owned(),
        Connection::Connected => t().connected().to_owned(),
        Connection::Refused(failure) => t().connection_refused(&failure.detail),
        Connection::OtherMachine => t().other_machine_help().to_owned(),
    });
    view! {
        <div class="connection" data-test="connection" data-state=word>
            <span class="dot" aria-hidden="true"></span>
            <span class="connection-words" aria-hidden="true">
                {sentence}
            </span>
            <span class="visually-hidden" role="status">
                {move || spoken.get()}
            </span>
            <Show when=can_try>
                <button class="small" data-test="connect-now" on:click=move |_| on_now()>
                    {move || {
                        if matches!(connection.get(), Connection::Waiting { .. }) {
                            t().reconnect_now()
                        } else {
                            t().try_again()
                        }
                    }}
                </button>
            </Show>
        </div>
    }
}
