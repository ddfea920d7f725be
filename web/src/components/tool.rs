//! A tool call, folded: what it does and how it went in one line, the rest when a person opens it.

use leptos::prelude::*;
use serde_json::Value;
use shared::entry::{ResultStatus, ToolClass};
use shared::kind::Open;
use shared::status::Exit;
use shared::transcript::{DiffMark, FileChange, ToolCall};

use super::icon::{Icon, Shape};
use super::markdown::CopyButton;
use crate::i18n::t;

/// What of a long output is shown at once, in bytes: beyond it a person asks for all.
const SHOWN_BYTES: usize = 12_000;
/// Lines of a diff that are shown at once.
const SHOWN_LINES: usize = 400;

/// A tool call.
#[component]
pub(crate) fn ToolView(
    /// The call, which gets its result later.
    call: Memo<Option<ToolCall>>,
) -> impl IntoView {
    let is_open = RwSignal::new(false);
    let shape = move || call.with(|call| call.as_ref().map_or(Shape::Wrench, |call| shape_of(&call.class)));
    let title = move || call.with(|call| call.as_ref().map(title_of));
    let name = move || call.with(|call| call.as_ref().map(|call| call.name.clone()));
    let status = Memo::new(move |_| call.with(|call| call.as_ref().map(Status::of)));
    view! {
        <details
            class="fold"
            data-status=move || status.with(|status| status.as_ref().map(|status| status.word))
            on:toggle=move |_| is_open.update(|open| *open = !*open)
        >
            <summary>
                {move || view! { <Icon shape=shape()/> }}
                <span class="fold-name">{name}</span>
                <span class="fold-title">{title}</span>
                {move || status.get().map(Status::view)}
            </summary>
            <Show when=move || is_open.get()>
                {move || call.with(|call| call.as_ref().map(inside))}
            </Show>
        </details>
    }
}

fn shape_of(class: &Open<ToolClass>) -> Shape {
    match class.known() {
        Some(ToolClass::Read) => Shape::Page,
        Some(ToolClass::Edit) => Shape::Pencil,
        Some(ToolClass::Execute) => Shape::Terminal,
        Some(ToolClass::Search) => Shape::Lens,
        Some(ToolClass::Fetch) => Shape::Globe,
        Some(ToolClass::Think) => Shape::Bulb,
        Some(ToolClass::Other) | None => Shape::Wrench,
    }
}

fn title_of(call: &ToolCall) -> String {
    if call.title.is_empty() { call.name.clone() } else { call.title.clone() }
}

/// How a call went, for its line.
#[derive(Clone, PartialEq)]
struct Status {
    word: &'static str,
    sentence: &'static str,
    mark: Option<Shape>,
    exit: Option<String>,
    changes: Option<(usize, usize)>,
}

impl Status {
    fn of(call: &ToolCall) -> Self {
        let Some(outcome) = &call.outcome else {
            return Self {
                word: "running",
                sentence: t().tool_running(),
                mark: None,
                exit: None,
                changes: None,
            };
        };
        let (word, sentence, mark) = match outcome.status.known() {
            Some(ResultStatus::Ok) | None => ("ok", t().tool_ok(), Shape::Tick),
            Some(ResultStatus::Error) => ("error", t().tool_error(), Shape::Cross),
            Some(ResultStatus::Denied) => ("denied", t().tool_denied(), Shape::Denied),
            Some(ResultStatus::Interrupted) => ("interrupted", t().tool_interrupted(), Shape::Square),
        };
        let exit = outcome.exit.filter(|exit| *exit != Exit::Status(0)).map(|exit| t().exit(exit));
        let changes = outcome.diff.as_ref().map(FileChange::counts);
        Self { word, sentence, mark: Some(mark), exit, changes }
    }

    fn view(self) -> impl IntoView {
        let changes = self.changes.map(|(added, removed)| {
            view! {
                <span class="plus">{format!("+{added}")}<span class="visually-hidden">{t().added()}</span></span>
                <span class="minus">{format!("−{removed}")}<span class="visually-hidden">{t().removed()}</span></span>
            }
        });
        view! {
            <span class="fold-status">
                {changes}
                {self.exit.map(|exit| view! { <span class="exit">{exit}</span> })}
                {match self.mark {
                    Some(shape) => view! { <Icon shape=shape/> }.into_any(),
                    None => view! { <span class="spinner" aria-hidden="true"></span> }.into_any(),
                }}
                <span class="status-word">{self.sentence}</span>
            </span>
        }
    }
}

fn inside(call: &ToolCall) -> AnyView {
    let input = input_text(&call.input);
    // The lines of a change say all that the call was given.
    let is_said = call.outcome.as_ref().is_some_and(|outcome| outcome.diff.is_some());
    let input = (!input.is_empty() && !is_said).then(|| {
        view! {
            <h3>{t().tool_input()}</h3>
            <Output text=input/>
        }
    });
    let diff = call
        .outcome
        .as_ref()
        .and_then(|outcome| outcome.diff.as_ref())
        .map(|diff| view! { <DiffView change=diff.clone()/> });
    let text = call.outcome.as_ref().map_or_else(|| call.output.clone(), |outcome| outcome.text.clone());
    let truncated = call.outcome.as_ref().and_then(|outcome| outcome.truncated).filter(|bytes| *bytes > 0);
    let is_done = call.outcome.is_some();
    let output = if text.is_empty() {
        is_done.then(|| view! { <p class="hint">{t().no_output()}</p> }.into_any())
    } else {
        Some(
            view! {
                <h3>{t().tool_output()}</h3>
                <Output text=text/>
            }
            .into_any(),
        )
    };
    view! {
        <div class="fold-inside">
            {input}
            {diff}
            {output}
            {truncated.map(|bytes| view! { <p class="hint">{t().truncated(bytes)}</p> })}
        </div>
    }
    .into_any()
}

/// What a tool was given, as a person would write it: a single text by itself, the rest as indented JSON.
fn input_text(input: &Value) -> String {
    match input {
        Value::Null => String::new(),
        Value::String(text) => text.clone(),
        Value::Object(map) if map.is_empty() => String::new(),
        Value::Object(map) => match map.get("command") {
            Some(Value::String(command)) => command.clone(),
            Some(_) | None => serde_json::to_string_pretty(input).unwrap_or_default(),
        },
        Value::Bool(_) | Value::Number(_) | Value::Array(_) => {
            serde_json::to_string_pretty(input).unwrap_or_default()
        }
    }
}

/// A text of a program, cut until a person asks for all.
#[component]
fn Output(text: String) -> impl IntoView {
    let is_cut = RwSignal::new(text.len() > SHOWN_BYTES);
    let copied = text.clone();
    let shown = move || {
        if is_cut.get() {
            let end = (0..=SHOWN_BYTES).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
            format!("{}…", &text[..end])
        } else {
            text.clone()
        }
    };
    view! {
        <div class="output">
            <pre tabindex="0">{shown}</pre>
            <div class="output-foot">
                <Show when=move || is_cut.get()>
                    <button class="copy" on:click=move |_| is_cut.set(false)>
                        {t().show_all()}
                    </button>
                </Show>
                <CopyButton text=copied/>
            </div>
        </div>
    }
}

/// A change of a file as the lines of a unified diff.
#[component]
fn DiffView(change: FileChange) -> impl IntoView {
    let is_cut = RwSignal::new(change.lines.len() > SHOWN_LINES);
    let path = change.path.clone();
    let lines = move || {
        let count = if is_cut.get() { SHOWN_LINES } else { change.lines.len() };
        let line = |line: &shared::transcript::DiffLine| {
            let (class, mark) = match line.mark {
                DiffMark::Added => ("line added", "+"),
                DiffMark::Removed => ("line removed", "-"),
                DiffMark::Same => ("line", " "),
                DiffMark::Place => ("line place", ""),
            };
            view! { <span class=class>{format!("{mark}{}\n", line.text)}</span> }
        };
        change.lines.iter().take(count).map(line).collect_view()
    };
    view! {
        <div class="diff">
            <p class="diff-path">{path}</p>
            <pre tabindex="0">{lines}</pre>
            <Show when=move || is_cut.get()>
                <button class="copy" on:click=move |_| is_cut.set(false)>
                    {t().show_all()}
                </button>
            </Show>
        </div>
    }
}
