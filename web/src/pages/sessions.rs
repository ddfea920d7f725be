//! The list of sessions.

use leptos::prelude::*;
use shared::attention::in_order;
use shared::ids::SessionId;
use shared::record::Record;

use crate::components::icon::{Icon, Shape};
use crate::components::state_chip::StateChip;
use crate::i18n::t;
use crate::state::{App, Connection, Route};
use shared::markdown::words;

/// Every session of the machine, those that need a person first.
#[component]
pub(crate) fn SessionList() -> impl IntoView {
    let app = expect_context::<App>();
    let ids = Memo::new(move |_| app.records.with(|records| in_order(records.values())));
    view! {
        <div class="side-head">
            <h2>{t().sessions()}</h2>
            <a class="button small" data-test="new-session" href=Route::New.link()>
                <Icon shape=Shape::Plus/>
                {t().new_session()}
            </a>
        </div>
        <Show when=move || app.is_listed.get() fallback=move || {
                view! {
                    <p class="placeholder small">
                        {move || {
                            if app.machine_connection.get() == Connection::Connected {
                                t().loading(0, 0)
                            } else {
                                t().waiting_for_machine().to_owned()
                            }
                        }}
                    </p>
                }
            }>
            <Show
                when=move || !ids.with(Vec::is_empty)
                fallback=|| {
                    view! {
                        <div class="placeholder small">
                            <p>{t().no_sessions()}</p>
                            <p class="hint">{t().no_sessions_hint()}</p>
                        </div>
                    }
                }
            >
                <ul class="rows">
                    <For each=move || ids.get() key=|id| *id let:id>
                        <SessionRow id=id/>
                    </For>
                </ul>
            </Show>
        </Show>
    }
}

#[component]
fn SessionRow(id: SessionId) -> impl IntoView {
    let app = expect_context::<App>();
    let record = Memo::new(move |_| app.records.with(|records| records.get(&id).cloned()));
    let is_shown = move || app.route.get() == Route::Session(id);
    let is_unread = Memo::new(move |_| {
        let sequence = record.with(|record| record.as_ref().map_or(0, |record| record.sequence));
        // A session that was never opened here is not news.
        !is_shown()
            && app.places.with(|places| places.get(&id).is_some_and(|place| place.sequence < sequence))
    });
    let age = Memo::new(move |_| {
        let updated = record.with(|record| record.as_ref().map(|record| record.updated.milliseconds()));
        updated.map(|updated| t().updated((app.clock.get() - updated) / 1000))
    });
    let last = Memo::new(move |_| {
        let last = record.with(|record| record.as_ref().and_then(|record| record.last.clone()));
        last.map_or_else(|| t().no_answer_yet().to_owned(), |last| words(&last))
    });
    let field = move |read: fn(&Record) -> String| record.with(|record| record.as_ref().map(read));
    view! {
        <li>
            <a
                class="row"
                href=Route::Session(id).link()
                data-test="session-row"
                data-session=id.to_string()
                data-state=move || field(|record| record.work.state.word())
                aria-current=move || is_shown().then_some("page")
            >
                <span class="row-top">
                    <Show when=move || is_unread.get()>
                        <span class="unread" title=t().unread()>
                            <span class="visually-hidden">{t().unread()}</span>
                        </span>
                    </Show>
                    <span class="row-name" data-test="session-name">{move || field(|record| record.name.clone())}</span>
                    <time class="row-age">{move || age.get()}</time>
                </span>
                <span class="row-state">
                    {move || record.with(|record| record.as_ref().map(|record| view! { <StateChip record=record.clone()/> }))}
                    <span class="row-harness">{move || field(|record| record.harness.clone())}</span>
                    <span class="row-folder" title=move || field(|record| record.working_directory.clone())>
                        {move || field(|record| short_path(&record.working_directory))}
                    </span>
                </span>
                <span class="row-last">
                    {move || last.get()}
                </span>
            </a>
        </li>
    }
}

/// The last two parts of a path: what tells folders apart.
pub(crate) fn short_path(path: &str) -> String {
    let mut parts: Vec<&str> = path.rsplit('/').filter(|part| !part.is_empty()).take(2).collect();
    parts.reverse();
    if parts.is_empty() { path.to_owned() } else { parts.join("/") }
}
