//! The form that starts a session.

use leptos::prelude::*;
use shared::ids::SubmissionId;
use shared::kind::Empty;
use shared::limits;
use shared::request::{Request, Response, Start};
use wasm_bindgen_futures::spawn_local;

use crate::i18n::t;
use crate::state::{App, Connection, Route};

/// Harnesses that are offered by name; any other may be typed.
const HARNESSES: [&str; 2] = ["claude", "aura"];

/// The form that starts a session.
#[component]
pub(crate) fn StartPage() -> impl IntoView {
    let app = expect_context::<App>();
    let last = app.records.with_untracked(|records| {
        records
            .values()
            .max_by_key(|record| record.updated)
            .map(|record| (record.harness.clone(), record.working_directory.clone()))
    });
    let (last_harness, last_directory) = last.unwrap_or_else(|| ("claude".to_owned(), String::new()));
    let name = RwSignal::new(String::new());
    let harness = RwSignal::new(last_harness);
    let directory = RwSignal::new(last_directory);
    let text = RwSignal::new(String::new());
    let directories = RwSignal::new(Vec::<String>::new());
    let problem = RwSignal::new(None::<String>);
    let is_busy = RwSignal::new(false);
    // The same id for every try of this form: a session whose answer was lost is not started twice.
    let request = StoredValue::new(SubmissionId::random());

    Effect::new(move |asked: Option<bool>| {
        let is_connected = app.machine_connection.get() == Connection::Connected;
        if is_connected && asked != Some(true) {
            spawn_local(async move {
                if let Ok(Response::Directories(found)) = app.ask(Request::Directories(Empty {})).await {
                    if directory.with_untracked(String::is_empty)
                        && let Some(first) = found.first()
                    {
                        directory.set(first.clone());
                    }
                    directories.set(found);
                }
            });
        }
        is_connected || asked == Some(true)
    });

    let submit = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        if is_busy.get_untracked() {
            return;
        }
        if text.with_untracked(String::len) > limits::TEXT_BYTES {
            return problem.set(Some(t().too_long().to_owned()));
        }
        is_busy.set(true);
        problem.set(None);
        let start = Start {
            name: name.get_untracked(),
            harness: harness.get_untracked().trim().to_owned(),
            working_directory: directory.get_untracked().trim().to_owned(),
            text: Some(text.get_untracked()).filter(|text| !text.trim().is_empty()),
            request: Some(request.get_value()),
            ..Start::default()
        };
        spawn_local(async move {
            let answer = app.ask(Request::Start(Box::new(start))).await;
            is_busy.set(false);
            match answer {
                Ok(Response::Started(record) | Response::Continued(record)) => {
                    let id = record.id;
                    app.records.update(|records| {
                        records.insert(id, *record);
                    });
                    app.go(Route::Session(id));
                }
                Ok(Response::Refused(refused)) => {
                    // Nothing was started under the id, and a mended form is another request.
                    request.set_value(SubmissionId::random());
                    problem.set(Some(t().refused(refused.word.known().copied(), refused.detail.as_deref())));
                }
                Ok(Response::Failed(failed)) => {
                    problem.set(Some(t().failed(failed.word.known().copied(), failed.detail.as_deref())));
                }
                Ok(
                    Response::Taken(_)
                    | Response::Window(_)
                    | Response::Paired(_)
                    | Response::Reach(_)
                    | Response::Directories(_),
                )
                | Err(_) => problem.set(Some(t().link_lost().to_owned())),
            }
        });
    };

    view! {
        <section class="form-page">
            <h1>{t().start_title()}</h1>
            <form on:submit=submit>
                <label for="start-name">{t().start_name()}</label>
                <input
                    id="start-name"
                    data-test="start-name"
                    required
                    maxlength="48"
                    autocomplete="off"
                    placeholder=t().start_name_placeholder()
                    prop:value=move || name.get()
                    on:input=move |event| name.set(event_target_value(&event))
                />
                <label for="start-harness">{t().start_harness()}</label>
                <input
                    id="start-harness"
                    data-test="start-harness"
                    required
                    list="harnesses"
                    autocomplete="off"
                    autocapitalize="none"
                    spellcheck="false"
                    aria-describedby="start-harness-hint"
                    prop:value=move || harness.get()
                    on:input=move |event| harness.set(event_target_value(&event))
                />
                <datalist id="harnesses">{HARNESSES.map(|name| view! { <option value=name></option> })}</datalist>
                <p class="hint" id="start-harness-hint">
                    {t().start_harness_hint()}
                </p>
                <label for="start-directory">{t().start_directory()}</label>
                <input
                    id="start-directory"
                    data-test="start-directory"
                    required
                    list="directories"
                    autocomplete="off"
                    autocapitalize="none"
                    spellcheck="false"
                    aria-describedby="start-directory-hint"
                    prop:value=move || directory.get()
                    on:input=move |event| directory.set(event_target_value(&event))
                />
                <datalist id="directories">
                    {move || {
                        directories.get().into_iter().map(|path| view! { <option value=path></option> }).collect_view()
                    }}
                </datalist>
                <p class="hint" id="start-directory-hint">
                    {t().start_directory_hint()}
                </p>
                <label for="start-text">{t().start_text()}</label>
                <textarea
                    id="start-text"
                    data-test="start-text"
                    rows="5"
                    placeholder=t().start_text_placeholder()
                    prop:value=move || text.get()
                    on:input=move |event| text.set(event_target_value(&event))
                ></textarea>
                <div role="alert">
                    {move || problem.get().map(|problem| view! { <p class="error" data-test="start-error">{problem}</p> })}
                </div>
                <div class="actions">
                    <button class="primary" data-test="start-button" type="submit" disabled=move || is_busy.get()>
                        {move || if is_busy.get() { t().starting() } else { t().start_button() }}
                    </button>
                    <a class="button quiet" href=Route::Home.link()>
                        {t().cancel()}
                    </a>
                </div>
            </form>
        </section>
    }
}
