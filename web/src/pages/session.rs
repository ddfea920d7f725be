//! One session: its head, its transcript, the turns on their way, and the composer.

use leptos::prelude::*;
use shared::failure::FailureCode;
use shared::ids::SessionId;
use shared::record::Record;
use shared::request::{Request, Response};
use wasm_bindgen_futures::spawn_local;

use crate::browser;
use crate::components::composer::Composer;
use crate::components::dialog::Confirm;
use crate::components::icon::{Icon, Shape};
use crate::components::item::ItemView;
use crate::components::pending::Pending;
use crate::components::questions::{Questions, by_key};
use crate::components::scroller::Scroller;
use crate::components::settings::SettingsChoice;
use crate::components::state_chip::StateChip;
use crate::i18n::t;
use crate::state::session::{Row, SessionState};
use crate::state::{App, Connection, Route};
use crate::store::OutgoingState;

/// The page of one session.
#[component]
pub(crate) fn SessionPage(id: SessionId) -> impl IntoView {
    let app = expect_context::<App>();
    let session = SessionState::open(app, id);
    // The machine's own record knows what this link was not told, such as a host that died.
    Effect::new(move |_| {
        let newer = app.records.with(|records| records.get(&id).cloned());
        if let Some(newer) = newer {
            let is_newer = session.record.with_untracked(|record| {
                record.as_ref().is_none_or(|record| {
                    newer.sequence > record.sequence
                        || (newer.sequence == record.sequence && *record != newer)
                })
            });
            if is_newer {
                session.record.set(Some(newer));
            }
        }
    });
    Effect::new(move |_| {
        let title =
            session.record.with(|record| record.as_ref().map(|record| t().session_title(&record.name)));
        let others = app.waiting_but(Some(id));
        let needs_answer = !session.open.with(Vec::is_empty);
        if let Some(title) = title {
            let title = match (needs_answer, others) {
                (true, _) => t().waiting_title(0, &title),
                (false, 0) => title,
                (false, others) => t().waiting_title(others, &title),
            };
            browser::set_title(&title);
        }
    });
    let decide = window_event_listener(leptos::ev::keydown, move |event| {
        let is_free = !event.is_composing() && !event.default_prevented() && !browser::has_dialog();
        let is_alone = event.alt_key() && !event.ctrl_key() && !event.meta_key() && !event.shift_key();
        if !is_free || !is_alone || event.repeat() || !can_answer(app, session) {
            return;
        }
        let decided = session.open.with_untracked(|open| {
            let first = open.first()?;
            Some((first.input.clone(), by_key(first, &event.key(), &event.code())?))
        });
        if let Some((input, decision)) = decided {
            event.prevent_default();
            session.answer(&input, &decision);
        }
    });
    on_cleanup(move || decide.remove());
    let escape = window_event_listener(leptos::ev::keydown, move |event| {
        let is_free = !event.is_composing() && !event.default_prevented() && !browser::has_dialog();
        let is_running = untrack(|| session.running().is_some());
        let is_connected = app.session_connection.get_untracked() == Some(Connection::Connected);
        if event.key() == "Escape" && is_free && is_running && is_connected {
            event.prevent_default();
            session.interrupt();
        }
    });
    on_cleanup(move || escape.remove());
    view! {
        <section class="session">
            <Show
                when=move || session.gone.get().is_none()
                fallback=move || view! { <Gone code=session.gone/> }
            >
                <Head session=session/>
                <Transcript session=session/>
                <Foot session=session/>
            </Show>
        </section>
    }
}

/// Whether an answer that is given now reaches the machine and means what it points at.
fn can_answer(app: App, session: SessionState) -> bool {
    app.session_connection.get_untracked() == Some(Connection::Connected) && session.is_steady.get_untracked()
}

#[component]
fn Gone(code: RwSignal<Option<FailureCode>>) -> impl IntoView {
    view! {
        <div class="placeholder" data-test="gone">
            <h1>{t().gone_title()}</h1>
            <p>{move || if code.get() == Some(FailureCode::Retired) { t().gone_retired() } else { t().gone_not_found() }}</p>
            <a class="button" href=Route::Home.link()>
                {t().back()}
            </a>
        </div>
    }
}

/// What a person is asked about before it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Stop,
    Remove,
}

#[component]
fn Head(session: SessionState) -> impl IntoView {
    let app = expect_context::<App>();
    let asked = RwSignal::new(None::<Asked>);
    let id = session.id;
    let field = move |read: fn(&Record) -> String| session.record.with(|record| record.as_ref().map(read));
    let is_alive =
        move || session.record.with(|record| record.as_ref().is_some_and(|record| record.host.is_some()));
    let ends = Memo::new(move |_| if is_alive() { Asked::Stop } else { Asked::Remove });
    let end_word = move || if ends.get() == Asked::Stop { t().stop() } else { t().remove() };
    let is_known = move || session.record.with(Option::is_some);
    let is_connected = move || app.machine_connection.get() == Connection::Connected;
    let confirmed = move |what: Asked| {
        asked.set(None);
        spawn_local(async move {
            let request = match what {
                Asked::Stop => Request::Stop(id),
                Asked::Remove => Request::Remove(id),
            };
            match app.ask(request).await {
                Ok(Response::Refused(refused)) => {
                    app.say(t().refused(refused.word.known().copied(), refused.detail.as_deref()));
                }
                Ok(Response::Failed(failed)) => {
                    app.say(t().failed(failed.word.known().copied(), failed.detail.as_deref()));
                }
                Ok(
                    Response::Taken(_)
                    | Response::Started(_)
                    | Response::Continued(_)
                    | Response::Window(_)
                    | Response::Paired(_)
                    | Response::Reach(_)
                    | Response::Directories(_),
                ) => {
                    if what == Asked::Remove {
                        browser::replace_with(&Route::Home.fragment());
                    }
                }
                Err(_) => app.say(t().link_lost()),
            }
        });
    };
    let others = move || {
        let mut names: Vec<String> = session.others.get().into_iter().map(|origin| origin.name).collect();
        names.sort();
        names.dedup();
        (!names.is_empty()).then(|| t().others(&names))
    };
    view! {
        <header class="session-head">
            <div class="session-title">
                <h1>{move || field(|record| record.name.clone())}</h1>
                <span class="session-state" data-test="session-state" data-state=move || field(|record| record.work.state.word())>
                    {move || {
                        session.record.with(|record| record.as_ref().map(|record| view! { <StateChip record=record.clone()/> }))
                    }}
                </span>
            </div>
            <p class="session-facts">
                <span>{move || field(|record| record.harness.clone())}</span>
                <span>
                    {move || {
                        session
                            .record
                            .with(|record| {
                                let settings = record.as_ref()?.settings.as_ref()?;
                                settings.alias.clone().or_else(|| settings.model.clone())
                            })
                    }}
                </span>
                <span class="path">{move || field(|record| record.working_directory.clone())}</span>
                <span>{move || session.record.with(|record| record.as_ref().and_then(|record| record.branch.clone()))}</span>
                <span>{others}</span>
            </p>
            <SettingsChoice
                settings=Signal::derive(move || {
                    session.record.with(|record| record.as_ref().and_then(|record| record.settings.clone()))
                })
                wish=Signal::derive(move || session.wish.with(|wish| wish.as_ref().map(|wish| wish.configure.clone())))
                can_choose=Signal::derive(move || {
                    is_alive() && app.session_connection.get() == Some(Connection::Connected)
                })
                on_choose=move |configure| session.configure(configure)
            />
            <div class="session-actions">
                <Show when=is_known>
                    // One button in both states, so that it keeps the focus when the session ends.
                    <button
                        class="icon-button"
                        data-test=move || if ends.get() == Asked::Stop { "stop" } else { "remove" }
                        aria-label=end_word
                        title=end_word
                        disabled=move || !is_connected()
                        on:click=move |_| asked.set(Some(ends.get_untracked()))
                    >
                        {move || view! { <Icon shape=if ends.get() == Asked::Stop { Shape::Power } else { Shape::Bin }/> }}
                    </button>
                </Show>
            </div>
            {move || {
                asked
                    .get()
                    .map(|what| {
                        let (title, text, yes) = match what {
                            Asked::Stop => (t().stop_title(), t().stop_text(), t().stop()),
                            Asked::Remove => (t().remove_title(), t().remove_text(), t().remove()),
                        };
                        view! {
                            <Confirm
                                title=title
                                text=text
                                yes=yes
                                on_yes=move || confirmed(what)
                                on_no=move || asked.set(None)
                            />
                        }
                    })
            }}
        </header>
    }
}

#[component]
fn Transcript(session: SessionState) -> impl IntoView {
    let app = expect_context::<App>();
    let id = session.id;
    let pending = Memo::new(move |_| {
        app.outgoing.with(|all| all.iter().filter(|one| one.session == id).cloned().collect::<Vec<_>>())
    });
    let is_empty = move || {
        session.loading.get().is_none()
            && session.rows.with(Vec::is_empty)
            && session.live.with(Vec::is_empty)
            && pending.with(Vec::is_empty)
    };
    let row = move |row: Row| {
        let is_own = row.item.with_untracked(|item| session.is_own(item));
        view! { <ItemView key=row.key item=row.item is_own=is_own/> }
    };
    view! {
        <Scroller
            is_following=session.is_following
            unseen=session.unseen
            on_scrolled=move |following| session.follow_end(following)
        >
            <Show when=move || session.was_restarted.get()>
                <p class="strip" data-test="restarted" role="status">
                    {t().restarted()}
                    <button class="quiet small" on:click=move |_| session.was_restarted.set(false)>
                        {t().dismiss()}
                    </button>
                </p>
            </Show>
            {move || {
                session
                    .loading
                    .get()
                    .map(|(done, count)| {
                        view! {
                            <div class="loading">
                                <p>
                                    {move || {
                                        if app.session_connection.get() == Some(Connection::Connected) {
                                            t().loading(done, count)
                                        } else {
                                            t().waiting_for_machine().to_owned()
                                        }
                                    }}
                                </p>
                                {(count > 0).then(|| view! { <progress max=count value=done></progress> })}
                            </div>
                        }
                    })
            }}
            <Show when=move || { session.earlier.get() > 0 }>
                <button class="earlier" data-test="earlier" on:click=move |_| session.show_earlier()>
                    {move || t().earlier(session.earlier.get())}
                </button>
            </Show>
            <Show when=is_empty>
                <p class="placeholder">{t().empty_transcript()}</p>
            </Show>
            <For each=move || session.rows.get() key=|row| row.key.clone() children=row/>
            <For each=move || session.live.get() key=|row| row.key.clone() children=row/>
            <For each=move || pending.get() key=|one| (one.id.clone(), format!("{:?}", one.state)) let:outgoing>
                {
                    let (again, edit, discard) = (outgoing.id.clone(), outgoing.clone(), outgoing.id.clone());
                    view! {
                        <Pending
                            outgoing=outgoing
                            is_connected=Signal::derive(move || app.session_connection.get() == Some(Connection::Connected))
                            on_retry=move || app.submit_again(&again)
                            on_edit=move || {
                                let draft = browser::draft(id);
                                let text = if draft.trim().is_empty() {
                                    edit.text.clone()
                                } else {
                                    format!("{}\n{draft}", edit.text)
                                };
                                app.discard_outgoing(&edit.id);
                                session.draft.set(text);
                            }
                            on_discard=move || app.discard_outgoing(&discard)
                        />
                    }
                }
            </For>
        </Scroller>
    }
}

#[component]
fn Foot(session: SessionState) -> impl IntoView {
    let app = expect_context::<App>();
    let id = session.id;
    let is_connected = Signal::derive(move || app.session_connection.get() == Some(Connection::Connected));
    let is_running = Signal::derive(move || session.running().is_some());
    let queued = Signal::derive(move || {
        session.record.with(|record| {
            record.as_ref().and_then(|record| record.host.as_ref()).map_or(0, |host| host.queue.len())
        })
    });
    let is_settled = |state: &OutgoingState| *state == OutgoingState::Taken;
    let waiting = Memo::new(move |_| {
        app.outgoing.with(|all| all.iter().filter(|one| one.session == id && !is_settled(&one.state)).count())
    });
    let answers = Signal::derive(move || {
        session.answers.with(|all| all.iter().map(|(id, state)| (*id, state.clone())).collect::<Vec<_>>())
    });
    view! {
        <Questions
            open=session.open
            answers=answers
            can_answer=Signal::derive(move || is_connected.get() && session.is_steady.get())
            on_decide=move |input, decision| session.answer(input, &decision)
        />
        <Composer
            draft=session.draft
            is_running=is_running
            is_connected=is_connected
            queued=queued
            waiting=Signal::derive(move || waiting.get())
            on_draft=move |text: String| browser::keep_draft(id, &text)
            on_send=move |text: String| {
                app.submit(id, text);
                session.follow_end(crate::state::session::Following::End);
            }
            on_interrupt=move || session.interrupt()
        />
    }
}
