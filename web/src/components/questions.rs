//! The questions and approvals that are open, each whole, above the composer.

use leptos::prelude::*;
use shared::decision::{Ask, Confirm, Decision, Matter, Verdict, visible};
use shared::entry::Input;
use shared::ids::InputId;
use shared::kind::Open;
use shared::limits;

use crate::i18n::t;
use crate::state::session::{AnswerState, Asked};

/// What a person decides about an input as it is shown.
pub(crate) trait Decide: Fn(&Input, Decision) + Copy + Send + Sync + 'static {}

impl<F: Fn(&Input, Decision) + Copy + Send + Sync + 'static> Decide for F {}

/// All that is open, oldest first.
#[component]
pub(crate) fn Questions<D: Decide>(
    /// What is open.
    open: RwSignal<Vec<Asked>>,
    /// How the answers stand.
    answers: Signal<Vec<(InputId, AnswerState)>>,
    /// Whether a press counts now.
    can_answer: Signal<bool>,
    /// Answer one.
    on_decide: D,
) -> impl IntoView {
    view! {
        <Show when=move || !open.with(Vec::is_empty)>
            <section class="questions" data-test="questions" aria-label=t().open_questions() tabindex="-1">
                <Show when=move || { open.with(Vec::len) > 1 }>
                    <p class="hint">{move || t().open_count(open.with(Vec::len))}</p>
                </Show>
                <For each=move || open.get() key=|asked| asked.input.input let:asked>
                    {
                        let id = asked.input.input;
                        let state = Memo::new(move |_| {
                            answers.with(|all| all.iter().find(|(of, _)| *of == id).map(|(_, state)| state.clone()))
                        });
                        let is_first = Signal::derive(move || {
                            open.with(|all| all.first().is_some_and(|first| first.input.input == id))
                        });
                        view! {
                            <Question asked=asked state=state is_first=is_first can_answer=can_answer on_decide=on_decide/>
                        }
                    }
                </For>
            </section>
        </Show>
    }
}

#[component]
fn Question<D: Decide>(
    asked: Asked,
    state: Memo<Option<AnswerState>>,
    is_first: Signal<bool>,
    can_answer: Signal<bool>,
    on_decide: D,
) -> impl IntoView {
    let is_sent = move || state.with(|state| matches!(state, Some(AnswerState::Sent(_))));
    let can_press = Signal::derive(move || can_answer.get() && !is_sent());
    let input = StoredValue::new(asked.input.clone());
    let decide = move |decision: Decision| input.with_value(|input| on_decide(input, decision));
    let id = asked.input.input.to_string();
    let head = format!("question-{id}");
    let labelled = head.clone();
    let (kind, inside) = match &asked.matter {
        Ok(Matter::Confirm(confirm)) => {
            ("confirm", approval(confirm, asked.is_edit, can_press, is_first, decide))
        }
        Ok(Matter::Ask(ask)) => ("ask", choice(ask, &id, can_press, decide)),
        Err(_) => ("unreadable", view! { <p>{t().question_unreadable()}</p> }.into_any()),
    };
    let word = if kind == "confirm" { t().approval() } else { t().question() };
    view! {
        <article class="question-card" data-test="open-question" data-kind=kind data-input=id aria-labelledby=labelled>
            <h2 class="small-head" id=head>
                {word}
            </h2>
            {inside}
            <p class="question-state" role="status">
                {move || match state.get() {
                    Some(AnswerState::Sent(_)) => Some(view! { <span>{t().answering()}</span> }.into_any()),
                    Some(AnswerState::Problem(problem)) => {
                        Some(view! { <span class="error" data-test="answer-problem">{problem}</span> }.into_any())
                    }
                    None => None,
                }}
            </p>
        </article>
    }
}

/// The exact text of an approval, with nothing hidden; a change with its lines marked.
pub(crate) fn detail_view(detail: &str, is_edit: bool) -> AnyView {
    let text = visible(detail).into_owned();
    if text.is_empty() {
        return ().into_any();
    }
    if !is_edit {
        return view! { <pre class="detail" data-test="detail" tabindex="0">{text}</pre> }.into_any();
    }
    let line = |line: &str| {
        let class = match line.as_bytes().first() {
            Some(b'+') => "line added",
            Some(b'-') => "line removed",
            Some(_) | None => "line",
        };
        view! { <span class=class>{format!("{line}\n")}</span> }
    };
    view! {
        <pre class="detail diff" data-test="detail" tabindex="0">
            {text.lines().map(line).collect_view()}
        </pre>
    }
    .into_any()
}

fn approval(
    confirm: &Confirm,
    is_edit: bool,
    can_press: Signal<bool>,
    is_first: Signal<bool>,
    decide: impl Fn(Decision) + Copy + Send + Sync + 'static,
) -> AnyView {
    let offers = |verdict: Verdict| confirm.options.iter().any(|option| option.is(&verdict));
    let reason = RwSignal::new(String::new());
    let has_reason = move || reason.with(|text| !text.trim().is_empty());
    // A reason would be lost with a yes, and who wrote "yes, but…" did not mean a plain yes.
    let cannot_allow = move || !can_press.get() || has_reason();
    let is_long = move || reason.with(|text| text.trim().len() > limits::ANSWER_BYTES);
    let keys = move |keys: &'static str| is_first.get().then_some(keys);
    let deny = move || {
        let text = reason.with_untracked(|text| Some(text.trim().to_owned()).filter(|text| !text.is_empty()));
        decide(Decision::Deny { text });
    };
    let allow = offers(Verdict::Allow).then(|| {
        view! {
            <button
                class="primary"
                data-test="allow"
                aria-keyshortcuts=move || keys("Alt+Y")
                title="Alt+Y"
                disabled=cannot_allow
                on:click=move |_| decide(Decision::Allow)
            >
                {t().allow()}
            </button>
        }
    });
    let covered = confirm.session.as_ref().map(|what| t().allow_session_covers(&visible(what)));
    let allow_session = offers(Verdict::AllowSession).then(|| {
        view! {
            <button
                data-test="allow-session"
                aria-keyshortcuts=move || keys("Alt+A")
                title="Alt+A"
                disabled=cannot_allow
                on:click=move |_| decide(Decision::AllowSession)
            >
                {t().allow_session()}
            </button>
        }
    });
    let covered = allow_session.is_some().then_some(covered).flatten();
    let deny_button = offers(Verdict::Deny).then(|| {
        view! {
            <button
                class="deny"
                data-test="deny"
                aria-keyshortcuts=move || keys("Alt+N")
                title="Alt+N"
                disabled=move || !can_press.get() || is_long()
                on:click=move |_| deny()
            >
                {t().deny()}
            </button>
        }
    });
    let reason_field = offers(Verdict::Deny).then(|| {
        view! {
            <input
                class="reason"
                data-test="deny-text"
                aria-label=t().deny_reason()
                placeholder=t().deny_reason()
                enterkeyhint="send"
                prop:value=move || reason.get()
                on:input=move |event| reason.set(event_target_value(&event))
                on:keydown=move |event| {
                    if event.key() == "Enter" && !event.is_composing() && event.key_code() != 229 {
                        event.prevent_default();
                        if has_reason() && !is_long() && can_press.get_untracked() {
                            deny();
                        }
                    }
                }
            />
        }
    });
    view! {
        <p class="question-title">{visible(&confirm.title).into_owned()}</p>
        {detail_view(&confirm.detail, is_edit)}
        <div class="question-actions">{allow} {allow_session} {deny_button}</div>
        {covered.map(|sentence| view! { <p class="hint" data-test="covers">{sentence}</p> })}
        {reason_field}
    }
    .into_any()
}

fn choice(
    ask: &Ask,
    id: &str,
    can_press: Signal<bool>,
    decide: impl Fn(Decision) + Copy + Send + Sync + 'static,
) -> AnyView {
    let is_multiple = ask.multiple;
    let chosen = RwSignal::new(vec![false; ask.options.len()]);
    let words = RwSignal::new(String::new());
    let labels = StoredValue::new(ask.options.iter().map(|option| option.label.clone()).collect::<Vec<_>>());
    let has_words = move || words.with(|text| !text.trim().is_empty());
    let has_choice = move || chosen.with(|all| all.contains(&true));
    let is_long = move || words.with(|text| text.trim().len() > limits::ANSWER_BYTES);
    let is_ready = move || can_press.get() && !is_long() && (has_words() || has_choice());
    let send = move || {
        if !untrack(is_ready) {
            return;
        }
        let text = words.with_untracked(|text| text.trim().to_owned());
        if text.is_empty() {
            let all = chosen.get_untracked();
            let picked = labels.with_value(|labels| {
                labels.iter().zip(all).filter(|(_, is)| *is).map(|(label, _)| label.clone()).collect()
            });
            decide(Decision::Chosen(picked));
        } else {
            decide(Decision::Said(text));
        }
    };
    let option = |(index, option): (usize, &shared::decision::AskOption)| {
        let description = visible(&option.description).into_owned();
        view! {
            <label class="option">
                <input
                    type=if is_multiple { "checkbox" } else { "radio" }
                    name=format!("options-{id}")
                    data-test="option"
                    prop:checked=move || chosen.with(|all| all.get(index).copied().unwrap_or_default())
                    disabled=has_words
                    on:change=move |event| {
                        let is_checked = event_target_checked(&event);
                        chosen.update(|all| {
                            if !is_multiple {
                                all.fill(false);
                            }
                            if let Some(one) = all.get_mut(index) {
                                *one = is_checked;
                            }
                        });
                    }
                />
                <span>
                    <strong>{visible(&option.label).into_owned()}</strong>
                    {(!description.is_empty()).then(|| view! { <span class="option-text">{description}</span> })}
                </span>
            </label>
        }
    };
    let options = (!ask.options.is_empty()).then(|| {
        view! {
            <fieldset class="options">
                <legend class="visually-hidden">{t().options()}</legend>
                {ask.options.iter().enumerate().map(option).collect_view()}
            </fieldset>
        }
    });
    let hint = if ask.options.is_empty() { t().answer_words() } else { t().answer_own_words() };
    view! {
        <p class="question-title">{visible(&ask.question).into_owned()}</p>
        {options}
        <div class="question-actions">
            <input
                class="reason"
                data-test="answer-text"
                aria-label=hint
                placeholder=hint
                enterkeyhint="send"
                prop:value=move || words.get()
                on:input=move |event| words.set(event_target_value(&event))
                on:keydown=move |event| {
                    if event.key() == "Enter" && !event.is_composing() && event.key_code() != 229 {
                        event.prevent_default();
                        send();
                    }
                }
            />
            <button class="primary" data-test="answer" disabled=move || !is_ready() on:click=move |_| send()>
                {t().answer()}
            </button>
        </div>
    }
    .into_any()
}

/// The verdict that a key with Alt means, if the approval offers it.
pub(crate) fn by_key(asked: &Asked, key: &str, code: &str) -> Option<Decision> {
    let Ok(Matter::Confirm(confirm)) = &asked.matter else { return None };
    // Where Alt makes another character of a key, its place on the keyboard counts.
    let is_letter = key.len() == 1 && key.bytes().all(|byte| byte.is_ascii_alphabetic());
    let letter = if is_letter { key } else { code.strip_prefix("Key")? };
    let (verdict, decision) = match letter.to_ascii_lowercase().as_str() {
        "y" => (Verdict::Allow, Decision::Allow),
        "a" => (Verdict::AllowSession, Decision::AllowSession),
        "n" => (Verdict::Deny, Decision::Deny { text: None }),
        _ => return None,
    };
    confirm.options.iter().filter_map(Open::known).any(|offered| *offered == verdict).then_some(decision)
}
