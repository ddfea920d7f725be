//! One item of a transcript.

use leptos::prelude::*;
use shared::decision::{Matter, visible};
use shared::entry::{Input, Level, Resolved, Step, StepState, Usage};
use shared::kind::Open;
use shared::request::AnswerChoice;
use shared::transcript::{Body, Item, Key};

use super::icon::{Icon, Shape};
use super::markdown::Markdown;
use super::questions::detail_view;
use super::tool::ToolView;
use crate::i18n::t;

/// One item of a transcript.
#[component]
pub(crate) fn ItemView(
    /// Its name.
    key: Key,
    /// The item, which may change but for its kind.
    item: ArcRwSignal<Item>,
    /// Whether this device sent it.
    is_own: bool,
) -> impl IntoView {
    let first = item.get_untracked();
    let word = first.body.word();
    let (sequence, is_live) = match &key {
        Key::Logged(sequence) => (Some(sequence.to_string()), false),
        Key::Live(..) => (None, true),
    };
    let time = first.timestamp.map(|at| at.to_string());
    let Some(content) = content(&first.body, item, is_own, is_live) else {
        return ().into_any();
    };
    view! {
        <article
            class=format!("item {word}")
            class:own=is_own
            data-test="item"
            data-kind=word
            data-sequence=sequence
            data-live=is_live.then_some("")
            title=time
        >
            {content}
        </article>
    }
    .into_any()
}

fn content(body: &Body, item: ArcRwSignal<Item>, is_own: bool, is_live: bool) -> Option<AnyView> {
    Some(match body {
        Body::User { text, name, .. } => {
            let who = if is_own { t().you().to_owned() } else { name.clone() };
            view! {
                <h2 class="who" class:visually-hidden=is_own>
                    {who}
                </h2>
                <div class="bubble">{text.clone()}</div>
            }
            .into_any()
        }
        Body::Assistant { .. } => {
            let text = Memo::new(move |_| {
                item.with(|item| if let Body::Assistant { text, .. } = &item.body { text.clone() } else { String::new() })
            });
            view! {
                <h2 class="visually-hidden">{t().assistant()}</h2>
                <Markdown text=text/>
                {is_live.then(|| view! { <span class="caret" aria-hidden="true"></span> })}
            }
            .into_any()
        }
        Body::Thinking { .. } => thinking(item, is_live),
        Body::Tool(_) => {
            let call = Memo::new(move |_| {
                item.with(|item| if let Body::Tool(call) = &item.body { Some(call.clone()) } else { None })
            });
            view! { <ToolView call=call/> }.into_any()
        }
        Body::Plan(_) => view! {
            <h2 class="small-head">
                <Icon shape=Shape::List/>
                {t().plan()}
            </h2>
            {move || item.with(|item| if let Body::Plan(steps) = &item.body { Some(steps_view(steps)) } else { None })}
        }
        .into_any(),
        Body::Usage(usage) => usage_view(usage),
        Body::Notice { level, text } => notice(level, text),
        Body::Question { input, .. } => {
            let input = input.clone();
            let resolved = move || {
                item.with(|item| if let Body::Question { resolved, .. } = &item.body { resolved.clone() } else { None })
            };
            view! {
                {question(&input)}
                <p class="hint" data-test="decision">{move || decision(resolved().as_ref())}</p>
            }
            .into_any()
        }
        // Only the device that sent the submission is told what became of it.
        Body::Settled { .. } if !is_own => return None,
        Body::Settled { fate, .. } => view! { <p>{t().settled(fate)}</p> }.into_any(),
        Body::Gate(gate) => {
            view! { <p>{t().gate(&gate.harness, &gate.finding)}</p> }.into_any()
        }
        Body::Ended(ended) => view! { <p>{t().ended(ended)}</p> }.into_any(),
        Body::Merged => view! { <p>{t().merged()}</p> }.into_any(),
        Body::Unknown(fields) => {
            let kind = fields.get("kind").and_then(|kind| kind.as_str()).unwrap_or_default().to_owned();
            let text = serde_json::to_string_pretty(fields).unwrap_or_default();
            view! {
                <details>
                    <summary>{kind}</summary>
                    <pre tabindex="0">{text}</pre>
                </details>
            }
            .into_any()
        }
    })
}

fn thinking(item: ArcRwSignal<Item>, is_live: bool) -> AnyView {
    let is_open = RwSignal::new(false);
    let text = Memo::new(move |_| {
        item.with(|item| if let Body::Thinking { text } = &item.body { text.clone() } else { String::new() })
    });
    view! {
        <details class="fold" on:toggle=move |_| is_open.update(|open| *open = !*open)>
            <summary>
                <Icon shape=Shape::Bulb/>
                <span class="fold-title">{if is_live { t().thinking_live() } else { t().thinking() }}</span>
                <span class="fold-peek">{move || text.with(|text| first_line(text))}</span>
            </summary>
            <Show when=move || is_open.get()>
                <div class="thought">
                    <Markdown text=text/>
                </div>
            </Show>
        </details>
    }
    .into_any()
}

fn first_line(text: &str) -> String {
    text.lines().map(str::trim).find(|line| !line.is_empty()).unwrap_or_default().chars().take(160).collect()
}

fn steps_view(steps: &[Step]) -> AnyView {
    let step = |step: &Step| {
        let (mark, word) = match step.state.known() {
            Some(StepState::Done) => ("✓", t().step_done()),
            Some(StepState::Active) => ("◐", t().step_active()),
            Some(StepState::Pending) | None => ("○", t().step_pending()),
        };
        view! {
            <li data-state=step.state.word()>
                <span class="mark" aria-hidden="true">
                    {mark}
                </span>
                <span>{step.text.clone()}</span>
                <span class="visually-hidden">{format!(" ({word})")}</span>
            </li>
        }
    };
    view! { <ul class="steps-list">{steps.iter().map(step).collect_view()}</ul> }.into_any()
}

fn usage_view(usage: &Usage) -> AnyView {
    let mut parts = vec![t().usage(usage.input_tokens, usage.output_tokens, usage.cached_tokens)];
    parts.extend(usage.cost.map(|cost| t().cost(cost)));
    parts.extend(usage.context_tokens.map(|count| t().context(count)));
    view! { <p>{parts.join(" · ")}</p> }.into_any()
}

fn notice(level: &Open<Level>, text: &str) -> AnyView {
    let word = match level.known() {
        Some(Level::Warning) => t().notice_warning(),
        Some(Level::Error) => t().notice_error(),
        Some(Level::Info) | None => t().notice_info(),
    };
    view! {
        <div class="notice-box" data-level=level.word()>
            <strong>{word}</strong>
            <span class="notice-text">{text.to_owned()}</span>
        </div>
    }
    .into_any()
}

fn question(input: &Input) -> AnyView {
    match Matter::of(input) {
        Ok(Matter::Confirm(confirm)) => view! {
            <h2 class="small-head">{t().approval()}</h2>
            <p>{visible(&confirm.title).into_owned()}</p>
            {detail_view(&confirm.detail, false)}
        }
        .into_any(),
        Ok(Matter::Ask(ask)) => {
            let labels: Vec<String> =
                ask.options.iter().map(|option| visible(&option.label).into_owned()).collect();
            view! {
                <h2 class="small-head">{t().question()}</h2>
                <p>{visible(&ask.question).into_owned()}</p>
                {(!labels.is_empty()).then(|| view! { <p class="hint">{labels.join(" · ")}</p> })}
            }
            .into_any()
        }
        Err(_) => view! {
            <h2 class="small-head">{t().question()}</h2>
            <p>{t().question_unreadable()}</p>
        }
        .into_any(),
    }
}

fn decision(resolved: Option<&Resolved>) -> String {
    let Some(resolved) = resolved else { return t().question_open().to_owned() };
    let Some(origin) = &resolved.origin else { return t().question_cancelled().to_owned() };
    let choice = match &resolved.choice {
        Some(AnswerChoice::Word(word)) => t().verdict(word),
        Some(AnswerChoice::Labels(labels)) => labels.join(", "),
        None => String::new(),
    };
    let parts = [choice, resolved.text.clone().unwrap_or_default()];
    let said: Vec<String> = parts.into_iter().filter(|part| !part.is_empty()).collect();
    t().question_resolved(&origin.name, &said.join(": "))
}
