//! Claude Code's messages become events of the agent, and its requests get answers: pure, one message at a time.

use std::collections::VecDeque;

use serde_json::{Value, json};
use shared::decision::Decision;
use shared::entry::{Assistant, Level, Notice, ResultStatus, Thinking, Tool, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};
use shared::json::{cut, embed};
use shared::limits;
use shared::request::Configure;
use shared::settings::Settings;
use uuid::Uuid;

use super::approval::{self, Waiting};
use super::configuring::Configuring;
use super::handshake::{self, ModelNames};
use super::proposal::Files;
use super::tools;
use super::wire::{
    self, ApiMessage, AssistantMessage, Block, CommandLifecycle, Content, ControlRequest, Delta, Event,
    Message, Response, StreamEvent, System, TurnResult, UserMessage,
};
use crate::config::Permissions;
use crate::harness::{AgentEvent, Said, TurnEnd};
use crate::text::strip_controls;

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind among many")]
mod tests;

/// Tool calls without a result that are remembered; a turn with more in parallel loses their names and diffs, nothing else.
const CALLS: usize = 256;
/// Live text and errors of the service in a notice, in bytes: a person reads no more of it.
const NOTICE_BYTES: usize = 4096;

/// What a message leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    /// The session host is told.
    Event(AgentEvent),
    /// The program is told.
    Write(Value),
    /// Nobody is told; it is kept for whoever looks for a mistake.
    Trace(&'static str),
}

/// The state of one conversation.
pub(super) struct Mapping {
    settings: Settings,
    names: ModelNames,
    permissions: Permissions,
    files: Files,
    working_directory: String,
    waiting: Waiting,
    configuring: Configuring,
    turn: Option<Turn>,
    /// The message of the model that is being streamed, and its open block.
    stream: Option<(String, u64)>,
    /// The message of which blocks came last, and how many.
    emitted: (String, u64),
    calls: VecDeque<Call>,
    /// Tokens in the context when the last message began, and now.
    context: Option<(u64, u64)>,
    total_cost: Option<f64>,
    requests: u64,
}

/// The turn that the session host asked for.
struct Turn {
    /// The id under which the program speaks of it.
    id: Uuid,
    /// Whether the program has taken it up: an interrupt before that would hit nothing.
    has_begun: bool,
    interrupt: Interrupt,
    /// Whether a notice has said why it fails.
    is_explained: bool,
}

#[derive(PartialEq)]
enum Interrupt {
    None,
    /// As soon as the turn has begun.
    Wanted,
    /// Sent with this request id.
    Sent(String),
}

/// A tool call without a result.
struct Call {
    id: String,
    name: String,
    input: Value,
    is_plan: bool,
}

impl Mapping {
    /// A conversation that is ready.
    pub(super) fn new(
        settings: Settings,
        names: ModelNames,
        permissions: Permissions,
        working_directory: String,
        files: Files,
    ) -> Self {
        Self {
            settings,
            names,
            permissions,
            files,
            working_directory,
            waiting: Waiting::default(),
            configuring: Configuring::default(),
            turn: None,
            stream: None,
            emitted: (String::new(), 0),
            calls: VecDeque::new(),
            context: None,
            total_cost: None,
            requests: 0,
        }
    }

    /// Begins a turn; `id` is new.
    pub(super) fn begin(&mut self, id: Uuid, text: &str) -> Vec<Output> {
        self.turn = Some(Turn { id, has_begun: false, interrupt: Interrupt::None, is_explained: false });
        vec![Output::Write(wire::user(id, text))]
    }

    /// Interrupts the turn, now or as soon as the program has taken it up.
    pub(super) fn interrupt(&mut self) -> Vec<Output> {
        match &mut self.turn {
            Some(turn) if turn.interrupt == Interrupt::None => turn.interrupt = Interrupt::Wanted,
            _ => return Vec::new(),
        }
        // The session has cancelled what is open; the program must not wait for it while it ends the turn.
        let mut outputs = self.waiting.deny_all("The person interrupted the turn.");
        outputs.extend(self.send_interrupt());
        outputs
    }

    /// Hands on what was decided.
    pub(super) fn answer(&mut self, input: InputId, decision: Decision) -> Vec<Output> {
        self.waiting.answer(input, decision)
    }

    /// Asks the program to use another model or effort.
    pub(super) fn configure(&mut self, wanted: Configure) -> Vec<Output> {
        self.configuring.begin(wanted, &self.settings, &self.names)
    }

    fn send_interrupt(&mut self) -> Option<Output> {
        let turn = self.turn.as_mut()?;
        if turn.interrupt != Interrupt::Wanted || !turn.has_begun {
            return None;
        }
        self.requests += 1;
        let id = format!("aude-interrupt-{}", self.requests);
        turn.interrupt = Interrupt::Sent(id.clone());
        Some(Output::Write(wire::request(&id, json!({ "subtype": "interrupt" }))))
    }

    /// Goes on with a line of the program.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<Output> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        let Ok(value) = wire::read(line) else {
            return vec![Output::Trace("a line that is not JSON")];
        };
        let ours = self.names_turn(&value);
        let Ok(message) = serde_json::from_value::<Message>(value) else {
            return vec![Output::Trace("a message that makes no sense")];
        };
        let mut outputs = Vec::new();
        if ours == Some(true) {
            self.has_begun(&mut outputs);
        }
        self.message(message, ours, &mut outputs);
        outputs
    }

    /// Whether a message names the turn that runs as its cause, or another one, or none.
    fn names_turn(&self, value: &Value) -> Option<bool> {
        let id = self.turn.as_ref().map(|turn| turn.id.to_string());
        let is_ours = |value: &Value| id.is_some() && value.as_str() == id.as_deref();
        if let Some(ids) = value.get("user_message_uuids").and_then(Value::as_array)
            && !ids.is_empty()
        {
            return Some(ids.iter().any(is_ours));
        }
        value.get("user_message_uuid").filter(|id| id.is_string()).map(is_ours)
    }

    fn has_begun(&mut self, outputs: &mut Vec<Output>) {
        if let Some(turn) = &mut self.turn {
            turn.has_begun = true;
        }
        outputs.extend(self.send_interrupt());
    }

    fn message(&mut self, message: Message, ours: Option<bool>, outputs: &mut Vec<Output>) {
        match message {
            Message::System(system) => self.system(system, outputs),
            Message::StreamEvent(event) => self.stream_event(event, outputs),
            Message::Assistant(message) => self.assistant(message, outputs),
            Message::User(message) => self.user(message, outputs),
            Message::Result(result) => self.result(&result, ours, outputs),
            Message::ControlRequest(request) => self.control_request(&request, outputs),
            Message::ControlResponse(response) => self.control_response(&response.response, outputs),
            Message::CommandLifecycle(lifecycle) => self.command_lifecycle(&lifecycle, outputs),
            Message::ControlCancelRequest { request_id } => outputs.extend(self.waiting.cancel(&request_id)),
            Message::Other => outputs.push(Output::Trace("a message of an unknown type")),
        }
    }

    fn command_lifecycle(&mut self, lifecycle: &CommandLifecycle, outputs: &mut Vec<Output>) {
        let is_ours = self.turn.as_ref().is_some_and(|turn| turn.id.to_string() == lifecycle.command_uuid);
        if is_ours && lifecycle.state == "started" {
            self.has_begun(outputs);
        }
    }

    fn system(&mut self, system: System, outputs: &mut Vec<Output>) {
        if system.subtype != "init" {
            return;
        }
        let before = self.settings.clone();
        if let Some(conversation) = system.session_id {
            self.settings.conversation = Some(cut(&conversation, limits::WORD_BYTES).to_owned());
        }
        if let Some(model) = system.model {
            self.names.apply(&mut self.settings, Some(cut(&model, limits::WORD_BYTES).to_owned()));
        }
        if before != self.settings {
            outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
        }
        let wanted = handshake::mode(self.permissions);
        // Planning asks for more than any mode of ours; every other mode could ask for less.
        let is_safe = |mode: &str| mode == wanted || mode == "plan" || mode == "default";
        if system.permission_mode.as_deref().is_some_and(|mode| !is_safe(mode)) {
            self.requests += 1;
            let id = format!("aude-mode-{}", self.requests);
            let request = json!({ "subtype": "set_permission_mode", "mode": wanted });
            outputs.push(Output::Write(wire::request(&id, request)));
            outputs.push(notice(
                Level::Warning,
                "Claude Code had changed what it may do without being asked; aude set it back.",
            ));
        }
    }

    fn stream_event(&mut self, event: StreamEvent, outputs: &mut Vec<Output>) {
        if event.parent_tool_use_id.is_some() {
            return;
        }
        match event.event {
            Event::MessageStart { message } => {
                self.context = context(&message.usage).map(|tokens| (tokens, tokens));
                self.stream = message.id.map(|id| (id, 0));
            }
            Event::ContentBlockStart { index } => {
                if let Some((_, open)) = &mut self.stream {
                    *open = index;
                }
            }
            Event::ContentBlockDelta { index, delta } => {
                let (kind, text) = match delta {
                    Delta::Text { text } => (DeltaKind::Assistant, text),
                    Delta::Thinking { thinking } => (DeltaKind::Thinking, thinking),
                    Delta::Other => return,
                };
                let Some((id, _)) = &self.stream else { return };
                let message = part(id, index);
                let mut rest = text.as_str();
                while !rest.is_empty() {
                    let piece = cut(rest, limits::DELTA_BYTES);
                    let text = piece.to_owned();
                    outputs.push(Output::Event(AgentEvent::Delta { message: message.clone(), kind, text }));
                    rest = &rest[piece.len()..];
                }
            }
            Event::MessageDelta { usage } => {
                if let (Some((began, now)), Some(written)) =
                    (&mut self.context, tokens(&usage, "output_tokens"))
                {
                    *now = began.saturating_add(written).min(limits::INTEGER_MAX);
                }
            }
            Event::ContentBlockStop {} | Event::Other => {}
        }
    }

    fn assistant(&mut self, message: AssistantMessage, outputs: &mut Vec<Output>) {
        let is_subagent = message.parent_tool_use_id.is_some();
        let is_error = !message.error.is_null();
        let ApiMessage { id, model, content, .. } = message.message;
        let id = id.unwrap_or_else(|| Uuid::new_v4().to_string());
        // What the program says in its own name has no model.
        let model = model
            .filter(|model| model != "<synthetic>")
            .map(|model| cut(&model, limits::WORD_BYTES).to_owned());
        for block in content.blocks() {
            match block {
                Block::Text { text } if is_error => {
                    outputs.push(notice(Level::Error, cut(&text, NOTICE_BYTES)));
                    if let Some(turn) = &mut self.turn {
                        turn.is_explained = true;
                    }
                }
                Block::Text { text } if !is_subagent && !text.is_empty() => {
                    let (message, text) = (self.next_part(&id), bounded(text));
                    outputs.push(said(Said::Assistant(Assistant { message, text, model: model.clone() })));
                    continue;
                }
                Block::Thinking { thinking } if !is_subagent && !thinking.is_empty() => {
                    let (message, text) = (self.next_part(&id), bounded(thinking));
                    outputs.push(said(Said::Thinking(Thinking { message, text })));
                    continue;
                }
                Block::ToolUse { id, name, input } => self.tool(id, name, input, is_subagent, outputs),
                Block::Image { source } => {
                    outputs.push(notice(
                        Level::Info,
                        &format!("Claude Code shows an {}.", tools::image(&source)),
                    ));
                }
                // The words of a subagent come back as the result of its call.
                Block::Text { .. } | Block::Thinking { .. } | Block::ToolResult { .. } | Block::Other => {}
            }
            if !is_subagent {
                self.next_part(&id);
            }
        }
    }

    /// The id of the block that comes next, equal to that of its live text.
    fn next_part(&mut self, id: &str) -> PartId {
        if self.emitted.0 != id {
            self.emitted = (id.to_owned(), 0);
        }
        let count = self.emitted.1;
        // The stream says which block is open; without it blocks are counted.
        let index = match &self.stream {
            Some((streamed, open)) if streamed == id => count.max(*open),
            _ => count,
        };
        self.emitted.1 = index + 1;
        part(id, index)
    }

    fn tool(&mut self, id: String, name: String, input: Value, is_subagent: bool, outputs: &mut Vec<Output>) {
        let plan = (name == "TodoWrite").then(|| tools::plan(&input)).flatten();
        let is_plan = plan.is_some();
        match plan {
            // The steps of a subagent are not those of the session.
            Some(_) if is_subagent => {}
            Some(plan) => outputs.push(said(Said::Plan(plan))),
            None => {
                let title = tools::title(&name, &input, &self.working_directory);
                let title = if is_subagent { format!("Subagent · {title}") } else { title };
                outputs.push(said(Said::Tool(Tool {
                    call: PartId::from_harness(&id),
                    name: cut(&name, limits::WORD_BYTES).to_owned(),
                    title,
                    class: tools::class(&name).into(),
                    input: embed(input.clone()),
                })));
            }
        }
        if self.calls.len() >= CALLS {
            self.calls.pop_front();
        }
        self.calls.push_back(Call { id, name, input, is_plan });
    }

    fn user(&mut self, message: UserMessage, outputs: &mut Vec<Output>) {
        if message.is_replay {
            let id = self.turn.as_ref().map(|turn| turn.id.to_string());
            if id.is_some() && message.uuid == id {
                self.has_begun(outputs);
            }
            return;
        }
        let UserMessage { message, tool_use_result, tool_result_meta, .. } = message;
        for block in message.content.blocks() {
            if let Block::ToolResult { tool_use_id, content, is_error } = block {
                let meta = tool_result_meta
                    .as_array()
                    .into_iter()
                    .flatten()
                    .find(|meta| meta.get("id").and_then(Value::as_str) == Some(&tool_use_id));
                let is_error = is_error == Some(true);
                let verdict = self.verdict(is_error, meta, &tool_use_result);
                self.tool_result(&tool_use_id, content, &tool_use_result, verdict, outputs);
            }
        }
    }

    fn verdict(&self, is_error: bool, meta: Option<&Value>, done: &Value) -> ResultStatus {
        let field = |pointer: &str| meta.and_then(|meta| meta.pointer(pointer)).and_then(Value::as_str);
        let is_interrupting = self.turn.as_ref().is_some_and(|turn| turn.interrupt != Interrupt::None);
        let is_refused = field("/permission_decision/decision") == Some("reject")
            || field("/non_execution_kind")
                .is_some_and(|kind| matches!(kind, "permission-rule" | "user-rejected"));
        let is_cut_short = done.get("interrupted").and_then(Value::as_bool) == Some(true);
        // After our interrupt the program says of every open call that the person rejected it.
        if is_cut_short || is_interrupting && is_error {
            ResultStatus::Interrupted
        } else if is_refused {
            ResultStatus::Denied
        } else if is_error {
            ResultStatus::Error
        } else {
            ResultStatus::Ok
        }
    }

    fn tool_result(
        &mut self,
        id: &str,
        content: Content,
        done: &Value,
        status: ResultStatus,
        outputs: &mut Vec<Output>,
    ) {
        let call =
            self.calls.iter().position(|call| call.id == id).and_then(|index| self.calls.remove(index));
        let mut text = String::new();
        for block in content.blocks() {
            let piece = match block {
                Block::Text { text } => text,
                Block::Image { source } => {
                    let image = tools::image(&source);
                    outputs.push(notice(Level::Info, &format!("A tool gave Claude Code an {image}.")));
                    format!("[{image}]")
                }
                Block::Thinking { .. } | Block::ToolUse { .. } | Block::ToolResult { .. } | Block::Other => {
                    continue;
                }
            };
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&piece);
        }
        if call.as_ref().is_some_and(|call| call.is_plan) {
            if status == ResultStatus::Error {
                outputs.push(notice(Level::Warning, "Claude Code could not change its plan."));
            }
            return;
        }
        let is_ok = status == ResultStatus::Ok;
        let known = call.as_ref();
        let diff = known.filter(|_| is_ok).and_then(|call| tools::diff(&call.name, &call.input, done));
        let exit = known
            .filter(|_| matches!(status, ResultStatus::Ok | ResultStatus::Error))
            .and_then(|call| tools::exit(&call.name, done, &text, !is_ok));
        let text = strip_controls(&text);
        let kept = cut(&text, limits::RESULT_BYTES);
        let left_out = (text.len() - kept.len()) as u64;
        outputs.push(said(Said::Result(ToolResult {
            call: PartId::from_harness(id),
            status: status.into(),
            text: kept.to_owned(),
            diff,
            exit,
            truncated: (left_out > 0).then_some(left_out),
        })));
    }

    fn result(&mut self, result: &TurnResult, ours: Option<bool>, outputs: &mut Vec<Output>) {
        self.usage(result, outputs);
        // The end of something that the program did on its own, or of a turn that was given up long ago.
        let is_ours = ours.unwrap_or_else(|| self.turn.as_ref().is_some_and(|turn| turn.has_begun));
        let Some(turn) = self.turn.take_if(|_| is_ours) else {
            outputs.push(Output::Trace("the result of no turn"));
            return;
        };
        // The session cancels what is open with the turn.
        outputs.extend(self.waiting.deny_all("The turn is over."));
        self.close_calls(outputs);
        let end = if result.is_success() {
            TurnEnd::Completed
        } else if turn.interrupt != Interrupt::None {
            TurnEnd::Interrupted
        } else {
            if !turn.is_explained {
                outputs.push(notice(Level::Error, &failure(result)));
            }
            TurnEnd::Failed
        };
        outputs.push(Output::Event(AgentEvent::TurnEnded(end)));
    }

    /// Calls that will get no result any more.
    fn close_calls(&mut self, outputs: &mut Vec<Output>) {
        for call in self.calls.drain(..).filter(|call| !call.is_plan) {
            outputs.push(said(Said::Result(ToolResult {
                call: PartId::from_harness(&call.id),
                status: ResultStatus::Interrupted.into(),
                text: String::new(),
                diff: None,
                exit: None,
                truncated: None,
            })));
        }
    }

    fn usage(&mut self, result: &TurnResult, outputs: &mut Vec<Output>) {
        let total = result.total_cost_usd.as_f64().filter(|cost| cost.is_finite() && *cost >= 0.0);
        let since = result.model_usage_since_last_result.as_object().map(|models| {
            models.values().filter_map(|model| model.get("costUSD").and_then(Value::as_f64)).sum::<f64>()
        });
        let cost =
            since.or_else(|| Some((total? - self.total_cost?).max(0.0))).filter(|cost| cost.is_finite());
        self.total_cost = total.or(self.total_cost);
        let count = |field: &str| tokens(&result.usage, field).unwrap_or_default();
        let input_tokens = count("input_tokens").saturating_add(count("cache_creation_input_tokens"));
        let usage = Usage {
            input_tokens: input_tokens.min(limits::INTEGER_MAX),
            output_tokens: count("output_tokens"),
            cached_tokens: count("cache_read_input_tokens"),
            cost,
            context_tokens: self.context.map(|(_, now)| now),
        };
        if usage.input_tokens > 0 || usage.output_tokens > 0 || usage.cached_tokens > 0 {
            outputs.push(said(Said::Usage(usage)));
        }
        let model = self.settings.model.as_deref().unwrap_or_default();
        let window = result.model_usage.get(model).and_then(|model| tokens(model, "contextWindow"));
        if window.is_some() && window != self.settings.context_tokens {
            self.settings.context_tokens = window;
            outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
        }
    }

    fn control_response(&mut self, response: &Response, outputs: &mut Vec<Output>) {
        if self.configuring.response(response, &mut self.settings, &self.names, outputs) {
            return;
        }
        let Some(turn) = &mut self.turn else { return };
        if turn.interrupt != Interrupt::Sent(response.request_id.clone()) {
            return;
        }
        let id = turn.id.to_string();
        let queued = response.response.get("still_queued").and_then(Value::as_array);
        if queued.is_some_and(|queued| queued.iter().any(|value| value.as_str() == Some(&id))) {
            // It hit nothing: the turn is still to come, and is to be interrupted when it does.
            turn.interrupt = Interrupt::Wanted;
            turn.has_begun = false;
        }
    }

    fn control_request(&mut self, request: &ControlRequest, outputs: &mut Vec<Output>) {
        let ControlRequest { request_id, request, session_id } = request;
        let text = |field: &str| request.get(field).and_then(Value::as_str);
        if text("subtype") != Some("can_use_tool") {
            outputs.push(Output::Write(wire::unsupported(request_id)));
            outputs.push(Output::Trace("a request of an unknown kind"));
            return;
        }
        let ours = self.settings.conversation.as_deref();
        if session_id.as_str().is_some_and(|id| !id.is_empty() && ours.is_some_and(|ours| ours != id)) {
            let why = "it is for a conversation that is not this one";
            outputs.extend(approval::refuse(request_id, request, why));
            return;
        }
        match &self.turn {
            Some(turn) if turn.interrupt == Interrupt::None => {}
            Some(_) => {
                outputs.push(Output::Write(wire::deny(request_id, "The person interrupted the turn.")));
                return;
            }
            None => {
                let why = "nobody can be asked outside of a turn";
                outputs.extend(approval::refuse(request_id, request, why));
                return;
            }
        }
        let name = text("tool_name").unwrap_or_default();
        let input = request.get("input").unwrap_or(&Value::Null);
        if self.may_edit(name, input, text("decision_reason_type")) {
            outputs.push(Output::Write(wire::allow(request_id, input)));
            return;
        }
        outputs.extend(self.waiting.ask(request_id, request, &self.files, &self.working_directory));
    }

    /// Whether an edit that the program asks for is one that the configuration allows.
    fn may_edit(&self, name: &str, input: &Value, reason: Option<&str>) -> bool {
        let Some(path) = tools::edited_path(name, input) else { return false };
        // The program takes files for sensitive through which commands could run, such as hooks of git or its own settings.
        let is_sensitive = reason == Some("safetyCheck");
        self.permissions == Permissions::Edits && !is_sensitive && (self.files.is_inside)(path)
    }

    /// The program is gone, and nobody had asked for it.
    pub(super) fn gone(&mut self, how: &str) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.waiting.clear();
        self.close_calls(&mut outputs);
        if let Some(turn) = self.turn.take() {
            let end = if turn.interrupt == Interrupt::None { TurnEnd::Failed } else { TurnEnd::Interrupted };
            outputs
                .push(notice(Level::Error, &format!("Claude Code ended in the middle of the turn ({how}).")));
            outputs.push(Output::Event(AgentEvent::TurnEnded(end)));
        }
        outputs
    }
}

fn said(said: Said) -> Output {
    Output::Event(AgentEvent::Said(said))
}

pub(super) fn notice(level: Level, text: &str) -> Output {
    said(Said::Notice(Notice { level: level.into(), text: text.to_owned() }))
}

/// The sentence about a turn that failed.
fn failure(result: &TurnResult) -> String {
    let mut text: String = result.errors().collect::<Vec<_>>().join("\n");
    if text.is_empty() {
        text = result.result.as_str().unwrap_or_default().to_owned();
    }
    match cut(text.trim(), NOTICE_BYTES) {
        "" => "Claude Code gave the turn up without a reason.".to_owned(),
        text => format!("Claude Code gave the turn up: {text}"),
    }
}

/// The id of a block of a message.
fn part(message: &str, index: u64) -> PartId {
    // The end of a long id is cut away, so what tells blocks apart stands first there.
    if message.len() > limits::PART_ID_CHARACTERS - 24 {
        PartId::from_harness(&format!("{index}.{message}"))
    } else {
        PartId::from_harness(&format!("{message}.{index}"))
    }
}

fn bounded(text: String) -> String {
    let kept = cut(&text, limits::MESSAGE_BYTES);
    if kept.len() == text.len() {
        return text;
    }
    format!("{kept}\n\n[{} bytes were left out]", text.len() - kept.len())
}

fn tokens(usage: &Value, field: &str) -> Option<u64> {
    usage.get(field).and_then(Value::as_u64).map(|count| count.min(limits::INTEGER_MAX))
}

/// Tokens in the context at the start of a message.
fn context(usage: &Value) -> Option<u64> {
    let parts = ["input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens"];
    let sum = parts.iter().filter_map(|field| tokens(usage, field)).fold(0, u64::saturating_add);
    (sum > 0).then_some(sum.min(limits::INTEGER_MAX))
}
