//! An agent's messages become events, and what the session host wants becomes messages: pure, one at a time.

use std::collections::{HashSet, VecDeque};
use std::path::PathBuf;

use serde_json::{Value, json};
use shared::decision::Decision;
use shared::entry::{Assistant, Level, Notice, ResultStatus, Thinking, Tool, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};
use shared::json::{cut, embed};
use shared::limits;
use shared::request::Configure;
use shared::settings::Settings;

use super::handshake::Ready;
use super::options::{Kind, Options};
use super::permission::{Open, Unaskable};
use super::tools::{self, Call};
use super::wire::{self, Failure, Message};
use crate::harness::{AgentEvent, Said, TurnEnd};
use crate::text::{one_line, strip_controls};

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind among many")]
mod tests;

/// Tool calls without a result that are remembered; the oldest of more is taken for given up.
const CALLS: usize = 256;
/// Text of one turn that is logged, in bytes: far more than a model writes, far less than a flood.
const TURN_BYTES: usize = 16 * 1024 * 1024;
/// Entries of one turn from tools; as above.
const TURN_CALLS: usize = 10_000;
/// What the agent says in a notice, in bytes: a person reads no more of it.
const NOTICE_BYTES: usize = 4096;

/// What a message leads to.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    /// The session host is told.
    Event(AgentEvent),
    /// The agent is told.
    Write(Value),
    /// Nobody is told; it is kept for whoever looks for a mistake.
    Trace(&'static str),
}

/// The state of one session of an agent.
pub(super) struct Mapping {
    name: String,
    session: String,
    modes: Vec<String>,
    working_directory: PathBuf,
    options: Options,
    settings: Settings,
    requests: u64,
    turn: Option<Turn>,
    /// Permissions that wait.
    open: Vec<Open>,
    /// Changes that were asked for and not yet answered.
    changes: VecDeque<Change>,
    total_cost: Option<f64>,
    context: Option<u64>,
}

struct Turn {
    prompt: u64,
    is_interrupted: bool,
    gathered: Option<Gathered>,
    calls: VecDeque<Shown>,
    /// Calls that were not allowed.
    denied: HashSet<String>,
    text_bytes: usize,
    shown_calls: usize,
    is_flooded: bool,
    cost_before: Option<f64>,
}

/// Text of which more may come.
struct Gathered {
    kind: DeltaKind,
    /// The agent's own id of the message, where it has one.
    theirs: Option<String>,
    part: PartId,
    text: String,
}

struct Shown {
    call: Call,
    is_logged: bool,
}

struct Change {
    request: u64,
    kind: Kind,
    value: String,
    /// Whether a person asked for it.
    is_asked: bool,
}

impl Mapping {
    /// A session that is ready.
    pub(super) fn new(name: String, modes: Vec<String>, working_directory: PathBuf, ready: Ready) -> Self {
        let Ready { session, options, is_resumed, has_lost: _, requests } = ready;
        let mut settings = Settings::default();
        options.apply(&mut settings, &modes);
        // A new conversation gets its id with its first turn: until then there is nothing to resume.
        settings.conversation = is_resumed.then(|| session.clone());
        Self {
            name,
            session,
            modes,
            working_directory,
            options,
            settings,
            requests,
            turn: None,
            open: Vec::new(),
            changes: VecDeque::new(),
            total_cost: None,
            context: None,
        }
    }

    /// What it runs with now.
    pub(super) fn settings(&self) -> AgentEvent {
        AgentEvent::Settings(self.settings.clone())
    }

    /// Whether the agent owes an answer that has to come soon: to an interrupt or a change.
    pub(super) fn is_waiting(&self) -> bool {
        !self.changes.is_empty() || self.turn.as_ref().is_some_and(|turn| turn.is_interrupted)
    }

    /// The answer did not come. What a change asked for is given up; `None` where the agent cannot be gone on with.
    pub(super) fn expire(&mut self) -> Option<Vec<Output>> {
        if self.changes.is_empty() {
            return None;
        }
        let asked = self.changes.drain(..).any(|change| change.is_asked);
        let mut outputs = vec![notice(
            Level::Warning,
            &format!("{} did not answer to a change of its settings.", self.name),
        )];
        if asked {
            outputs.push(Output::Event(self.settings()));
        }
        Some(outputs)
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self, text: &str) -> Vec<Output> {
        let mut outputs = Vec::new();
        if self.settings.conversation.is_none() {
            self.settings.conversation = Some(self.session.clone());
            outputs.push(Output::Event(self.settings()));
        }
        let params = json!({ "sessionId": self.session, "prompt": [{ "type": "text", "text": text }] });
        let prompt = self.ask("session/prompt", params, &mut outputs);
        self.turn = Some(Turn {
            prompt,
            is_interrupted: false,
            gathered: None,
            calls: VecDeque::new(),
            denied: HashSet::new(),
            text_bytes: 0,
            shown_calls: 0,
            is_flooded: false,
            cost_before: self.total_cost,
        });
        outputs
    }

    /// Interrupts the turn; some agents hang until all that they asked is answered, so that comes first.
    pub(super) fn interrupt(&mut self) -> Vec<Output> {
        let Some(turn) = &mut self.turn else { return Vec::new() };
        if turn.is_interrupted {
            return Vec::new();
        }
        turn.is_interrupted = true;
        let mut outputs: Vec<Output> =
            self.open.drain(..).map(|open| Output::Write(wire::cancelled(&open.id))).collect();
        outputs.push(Output::Write(wire::cancel(&self.session)));
        outputs
    }

    /// Passes on what was decided.
    pub(super) fn answer(&mut self, input: InputId, decision: &Decision) -> Vec<Output> {
        let Some(index) = self.open.iter().position(|open| open.input == input) else { return Vec::new() };
        let open = self.open.remove(index);
        let (answer, may_run) = open.answer(decision);
        let mut outputs = vec![Output::Write(answer)];
        if !may_run && let Some(turn) = &mut self.turn {
            turn.denied.insert(open.call);
        }
        if matches!(decision, Decision::Deny { text: Some(_) }) {
            outputs.push(notice(
                Level::Info,
                &format!("{} cannot be told why it was denied; send it as a message.", self.name),
            ));
        }
        outputs
    }

    /// Asks for another model, effort or mode.
    pub(super) fn configure(&mut self, configure: Configure) -> Vec<Output> {
        let mut outputs = Vec::new();
        let Configure { model, effort, agent } = configure;
        for (kind, value) in [(Kind::Model, model), (Kind::Effort, effort), (Kind::Mode, agent)] {
            let Some(value) = value else { continue };
            let is_offered = self.options.offers(kind, &value);
            if !is_offered || kind == Kind::Mode && !self.modes.contains(&value) {
                let value = one_line(&value, limits::WORD_BYTES);
                outputs.push(notice(Level::Warning, &format!("{} does not offer {value}.", self.name)));
            } else if self.options.current(kind) != Some(value.as_str()) {
                self.change(kind, value, true, &mut outputs);
            }
        }
        if self.changes.is_empty() {
            outputs.push(Output::Event(self.settings()));
        }
        outputs
    }

    fn change(&mut self, kind: Kind, value: String, is_asked: bool, outputs: &mut Vec<Output>) {
        let (method, params) = self.options.request(kind, &self.session, &value);
        let request = self.ask(method, params, outputs);
        self.changes.push_back(Change { request, kind, value, is_asked });
    }

    fn ask(&mut self, method: &str, params: Value, outputs: &mut Vec<Output>) -> u64 {
        self.requests += 1;
        outputs.push(Output::Write(wire::request(self.requests, method, params)));
        self.requests
    }

    /// Goes on with a line of the agent.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<Output> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        let Some(message) = wire::read(line) else {
            return vec![Output::Trace("a line that is no message")];
        };
        let mut outputs = Vec::new();
        match message {
            Message::Request { id, method, params } => self.request(id, &method, &params, &mut outputs),
            Message::Notification { method, params } => self.notification(&method, &params, &mut outputs),
            Message::Response { id, result } => self.response(id, result, &mut outputs),
        }
        outputs
    }

    fn request(&mut self, id: Value, method: &str, params: &Value, outputs: &mut Vec<Output>) {
        if method != "session/request_permission" {
            outputs.push(Output::Write(wire::unsupported(&id)));
            outputs.push(Output::Trace("a request of an unknown kind"));
            return;
        }
        if params.get("sessionId").and_then(Value::as_str) != Some(self.session.as_str()) {
            outputs.push(Output::Write(wire::unknown_session(&id)));
            outputs.push(Output::Trace("a permission for another session"));
            return;
        }
        if self.open.iter().any(|open| open.id == id) {
            outputs.push(Output::Trace("a permission that waits already"));
            return;
        }
        let update = params.get("toolCall").unwrap_or(&Value::Null);
        let call = update.get("toolCallId").and_then(Value::as_str).unwrap_or_default().to_owned();
        let open = Open::new(id, call.clone(), params);
        match &mut self.turn {
            Some(turn) if !turn.is_interrupted => {}
            Some(_) | None => {
                outputs.push(Output::Write(wire::cancelled(&open.id)));
                return;
            }
        }
        self.call(&call, update, Showing::Now, outputs);
        let known = self.turn.as_ref().and_then(|turn| turn.calls.iter().find(|shown| shown.call.id == call));
        let mut fresh = Call::default();
        let known = if let Some(shown) = known {
            &shown.call
        } else {
            fresh.update(update);
            &fresh
        };
        let unaskable = if self.open.len() >= limits::INPUTS {
            "too much waits for an answer already"
        } else {
            match open.asked(known, &self.working_directory) {
                Ok(asked) => {
                    self.open.push(open);
                    outputs.push(Output::Event(AgentEvent::Asked(Box::new(asked))));
                    return;
                }
                Err(Unaskable::TooLarge) => "it is too large to be shown whole",
                Err(Unaskable::NoChoice) => "nothing that it offers would allow it once",
            }
        };
        let title = known.title("");
        outputs.push(Output::Write(open.refusal()));
        outputs.push(notice(Level::Warning, &format!("Denied, because {unaskable}: {title}")));
        if let Some(turn) = &mut self.turn {
            turn.denied.insert(call);
        }
    }

    fn notification(&mut self, method: &str, params: &Value, outputs: &mut Vec<Output>) {
        match method {
            "session/update"
                if params.get("sessionId").and_then(Value::as_str) == Some(self.session.as_str()) =>
            {
                self.update(params.get("update").unwrap_or(&Value::Null), outputs);
            }
            "session/update" => outputs.push(Output::Trace("news of another session")),
            "$/cancel_request" => {
                let id = params.get("requestId").or_else(|| params.get("id"));
                if let Some(index) = self.open.iter().position(|open| Some(&open.id) == id) {
                    let open = self.open.remove(index);
                    outputs.push(Output::Write(wire::cancelled(&open.id)));
                    outputs.push(Output::Event(AgentEvent::Withdrawn(open.input)));
                }
            }
            _ => outputs.push(Output::Trace("news of an unknown kind")),
        }
    }

    fn update(&mut self, update: &Value, outputs: &mut Vec<Output>) {
        let kind = update.get("sessionUpdate").and_then(Value::as_str).unwrap_or_default();
        match kind {
            "agent_message_chunk" => self.chunk(DeltaKind::Assistant, update, outputs),
            "agent_thought_chunk" => self.chunk(DeltaKind::Thinking, update, outputs),
            "tool_call" | "tool_call_update" => {
                let id = update.get("toolCallId").and_then(Value::as_str).unwrap_or_default().to_owned();
                self.call(&id, update, Showing::WhenReady, outputs);
            }
            "plan" if self.turn.is_some() => {
                self.flush(outputs);
                if self.may_show(outputs) {
                    outputs.push(said(Said::Plan(tools::plan(update))));
                }
            }
            "current_mode_update" => {
                if let Some(mode) = update.get("currentModeId").and_then(Value::as_str) {
                    self.options.set(Kind::Mode, mode);
                }
                self.options_changed(outputs);
            }
            "config_option_update" => {
                self.options.read(update);
                self.options_changed(outputs);
            }
            "usage_update" => self.usage_update(update, outputs),
            "user_message_chunk" | "available_commands_update" | "session_info_update" => {}
            _ => outputs.push(Output::Trace("an update of an unknown kind, or outside of a turn")),
        }
    }

    /// Settings follow what the agent says; a mode in which it would not ask is set back.
    fn options_changed(&mut self, outputs: &mut Vec<Output>) {
        let before = self.settings.clone();
        self.options.apply(&mut self.settings, &self.modes);
        let is_changing = self.changes.iter().any(|change| change.kind == Kind::Mode);
        if let (Some(mode), Some(wanted)) = (self.options.current(Kind::Mode), self.modes.first())
            && !self.modes.iter().any(|safe| safe == mode)
            && !is_changing
        {
            let wanted = wanted.clone();
            self.change(Kind::Mode, wanted, false, outputs);
            let text =
                format!("{} had changed what it may do without being asked; aude set it back.", self.name);
            outputs.push(notice(Level::Warning, &text));
        }
        if before != self.settings {
            outputs.push(Output::Event(self.settings()));
        }
    }

    fn usage_update(&mut self, update: &Value, outputs: &mut Vec<Output>) {
        self.context = tokens(update, "used").or(self.context);
        let cost = update.pointer("/cost/amount").and_then(Value::as_f64);
        let is_dollars = update.pointer("/cost/currency").and_then(Value::as_str) == Some("USD");
        self.total_cost =
            cost.filter(|cost| is_dollars && cost.is_finite() && *cost >= 0.0).or(self.total_cost);
        let size = tokens(update, "size").filter(|size| *size > 0);
        if size.is_some() && size != self.settings.context_tokens {
            self.settings.context_tokens = size;
            outputs.push(Output::Event(self.settings()));
        }
    }

    fn chunk(&mut self, kind: DeltaKind, update: &Value, outputs: &mut Vec<Output>) {
        let theirs = update.get("messageId").and_then(Value::as_str).map(str::to_owned);
        let text = tools::block(update.get("content").unwrap_or(&Value::Null));
        let Some(turn) = &self.turn else {
            outputs.push(Output::Trace("words outside of a turn"));
            return;
        };
        if text.is_empty() {
            return;
        }
        let goes_on = |gathered: &Gathered| {
            gathered.kind == kind
                && gathered.theirs == theirs
                && gathered.text.len() + text.len() <= limits::MESSAGE_BYTES
        };
        if !turn.gathered.as_ref().is_some_and(goes_on) {
            self.flush(outputs);
        }
        if !self.may_show(outputs) {
            return;
        }
        let Some(turn) = &mut self.turn else { return };
        turn.text_bytes += text.len();
        let gathered = turn.gathered.get_or_insert_with(|| Gathered {
            kind,
            theirs,
            part: PartId::random(),
            text: String::new(),
        });
        gathered.text.push_str(&text);
        let mut rest = text.as_str();
        while !rest.is_empty() {
            let piece = cut(rest, limits::DELTA_BYTES);
            let (message, text) = (gathered.part.clone(), piece.to_owned());
            outputs.push(Output::Event(AgentEvent::Delta { message, kind, text }));
            rest = &rest[piece.len()..];
        }
    }

    /// Whether the turn may still add to the log; says once when it may not.
    fn may_show(&mut self, outputs: &mut Vec<Output>) -> bool {
        let Some(turn) = &mut self.turn else { return false };
        if turn.text_bytes < TURN_BYTES && turn.shown_calls < TURN_CALLS {
            return true;
        }
        if !std::mem::replace(&mut turn.is_flooded, true) {
            let text =
                format!("{} says more in this turn than can be kept; the rest is left out.", self.name);
            outputs.push(notice(Level::Warning, &text));
        }
        false
    }

    /// Text that is whole becomes an entry.
    fn flush(&mut self, outputs: &mut Vec<Output>) {
        let Some(Gathered { kind, part: message, text, .. }) =
            self.turn.as_mut().and_then(|turn| turn.gathered.take())
        else {
            return;
        };
        let text = bounded(&text);
        outputs.push(said(match kind {
            DeltaKind::Thinking => Said::Thinking(Thinking { message, text }),
            DeltaKind::Assistant | DeltaKind::Tool => {
                Said::Assistant(Assistant { message, text, model: self.settings.model.clone() })
            }
        }));
    }

    fn call(&mut self, id: &str, update: &Value, showing: Showing, outputs: &mut Vec<Output>) {
        if self.turn.is_none() {
            outputs.push(Output::Trace("a tool call outside of a turn"));
            return;
        }
        let position = |turn: &Turn| turn.calls.iter().position(|shown| shown.call.id == id);
        let index = self.turn.as_ref().and_then(position);
        if index.is_none() {
            // A title or a status alone, of a call that has its result already.
            let is_new = update.get("sessionUpdate").and_then(Value::as_str) != Some("tool_call_update")
                || update.get("status").is_some();
            if id.is_empty() || !is_new || !self.may_show(outputs) {
                return;
            }
        }
        let Some(turn) = &mut self.turn else { return };
        let index = index.unwrap_or_else(|| {
            turn.shown_calls += 1;
            let call = Call::new(id);
            turn.calls.push_back(Shown { call, is_logged: false });
            turn.calls.len() - 1
        });
        let Some(shown) = turn.calls.get_mut(index) else { return };
        shown.call.update(update);
        let is_done = matches!(shown.call.status.as_str(), "completed" | "failed");
        if !shown.is_logged && (showing == Showing::Now || is_done || shown.call.is_ready()) {
            shown.is_logged = true;
            let entry = entry(&shown.call, &self.working_directory.display().to_string());
            self.flush(outputs);
            outputs.push(entry);
        }
        let Some(turn) = &mut self.turn else { return };
        let done = if is_done {
            turn.calls.remove(index)
        } else if turn.calls.len() > CALLS {
            turn.calls.pop_front()
        } else {
            None
        };
        if let Some(Shown { call, is_logged: true }) = done {
            let status = status(turn, &call);
            self.result(&call, status, outputs);
        }
    }

    fn result(&mut self, call: &Call, status: ResultStatus, outputs: &mut Vec<Output>) {
        let whole = call.text();
        let whole = strip_controls(&whole);
        let text = cut(&whole, limits::RESULT_BYTES);
        let left_out = (whole.len() - text.len()) as u64;
        if let Some(turn) = &mut self.turn {
            turn.text_bytes += text.len();
        }
        outputs.push(said(Said::Result(ToolResult {
            call: PartId::from_harness(&call.id),
            text: text.to_owned(),
            diff: call.diff().filter(|_| status == ResultStatus::Ok),
            exit: call.exit().filter(|_| matches!(status, ResultStatus::Ok | ResultStatus::Error)),
            status: status.into(),
            truncated: (left_out > 0).then_some(left_out),
        })));
    }

    fn response(&mut self, id: u64, result: Result<Value, Failure>, outputs: &mut Vec<Output>) {
        if self.turn.as_ref().is_some_and(|turn| turn.prompt == id) {
            self.prompt_ended(result, outputs);
            return;
        }
        let Some(index) = self.changes.iter().position(|change| change.request == id) else {
            outputs.push(Output::Trace("an answer to nothing"));
            return;
        };
        let Some(Change { kind, value, is_asked, .. }) = self.changes.remove(index) else { return };
        match result {
            Ok(answer) => {
                self.options.read(&answer);
                if answer.get("configOptions").is_none() {
                    self.options.set(kind, &value);
                }
                self.options.apply(&mut self.settings, &self.modes);
            }
            Err(failure) => {
                let why = one_line(&failure.message, NOTICE_BYTES);
                let value = one_line(&value, limits::WORD_BYTES);
                outputs.push(notice(Level::Warning, &format!("{} refused to use {value}: {why}", self.name)));
            }
        }
        if is_asked && self.changes.is_empty() {
            outputs.push(Output::Event(self.settings()));
        }
    }

    fn prompt_ended(&mut self, result: Result<Value, Failure>, outputs: &mut Vec<Output>) {
        self.flush(outputs);
        self.close(outputs);
        let Some(turn) = self.turn.take() else { return };
        if let Ok(answer) = &result {
            self.usage(answer, &turn, outputs);
        }
        let name = &self.name;
        let reason = match &result {
            Ok(answer) => answer.get("stopReason").and_then(Value::as_str).unwrap_or("end_turn"),
            Err(_) => "error",
        };
        // Not every agent says `cancelled` after our interrupt, and an error then is none.
        let end = match (turn.is_interrupted, reason, result.as_ref().err()) {
            (true, ..) | (false, "cancelled", _) => TurnEnd::Interrupted,
            (false, _, Some(failure)) => {
                let why = one_line(&failure.message, NOTICE_BYTES);
                let text = if failure.code == wire::NOT_LOGGED_IN {
                    format!("{name} is not logged in; run `{name}` once and log in. It said: {why}")
                } else {
                    format!("{name} gave the turn up: {why}")
                };
                outputs.push(notice(Level::Error, &text));
                TurnEnd::Failed
            }
            (false, "refusal", None) => {
                outputs.push(notice(Level::Error, &format!("{name} refused to go on with this turn.")));
                TurnEnd::Failed
            }
            (false, "max_tokens" | "max_turn_requests", None) => {
                outputs.push(notice(
                    Level::Warning,
                    &format!("{name} stopped at its own limit; the answer may be cut."),
                ));
                TurnEnd::Completed
            }
            (false, _, None) => TurnEnd::Completed,
        };
        outputs.push(Output::Event(AgentEvent::TurnEnded(end)));
    }

    /// Calls that get no result any more, and permissions that nobody waits for.
    fn close(&mut self, outputs: &mut Vec<Output>) {
        for open in self.open.drain(..) {
            outputs.push(Output::Write(wire::cancelled(&open.id)));
            outputs.push(Output::Event(AgentEvent::Withdrawn(open.input)));
        }
        let Some(turn) = &mut self.turn else { return };
        let calls = std::mem::take(&mut turn.calls);
        let denied = std::mem::take(&mut turn.denied);
        for Shown { call, is_logged } in calls {
            if !is_logged {
                outputs.push(entry(&call, &self.working_directory.display().to_string()));
            }
            let status =
                if denied.contains(&call.id) { ResultStatus::Denied } else { ResultStatus::Interrupted };
            self.result(&call, status, outputs);
        }
    }

    fn usage(&self, answer: &Value, turn: &Turn, outputs: &mut Vec<Output>) {
        let cost = match (self.total_cost, turn.cost_before) {
            (Some(now), Some(before)) => Some((now - before).max(0.0)),
            (now, _) => now,
        };
        let counts = answer.get("usage").filter(|usage| usage.is_object());
        let usage = match counts {
            Some(usage) => Usage {
                input_tokens: tokens(usage, "inputTokens").unwrap_or_default(),
                output_tokens: tokens(usage, "outputTokens").unwrap_or_default(),
                cached_tokens: tokens(usage, "cachedReadTokens").unwrap_or_default(),
                cost,
                context_tokens: self.context,
            },
            None => {
                let quota = answer.pointer("/_meta/quota/token_count").unwrap_or(&Value::Null);
                Usage {
                    input_tokens: tokens(quota, "input_tokens").unwrap_or_default(),
                    output_tokens: tokens(quota, "output_tokens").unwrap_or_default(),
                    cached_tokens: 0,
                    cost,
                    context_tokens: self.context,
                }
            }
        };
        if usage.input_tokens > 0 || usage.output_tokens > 0 || usage.cached_tokens > 0 {
            outputs.push(said(Said::Usage(usage)));
        }
    }

    /// The agent is gone, and nobody had asked for it.
    pub(super) fn gone(&mut self, how: &str) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.flush(&mut outputs);
        self.close(&mut outputs);
        if let Some(turn) = self.turn.take() {
            let end = if turn.is_interrupted { TurnEnd::Interrupted } else { TurnEnd::Failed };
            let text = format!("{} ended in the middle of the turn ({how}).", self.name);
            outputs.push(notice(Level::Error, &text));
            outputs.push(Output::Event(AgentEvent::TurnEnded(end)));
        }
        outputs
    }
}

/// When a call becomes an entry.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Showing {
    /// As soon as it says what it does.
    WhenReady,
    /// At once, because a person is asked about it.
    Now,
}

fn entry(call: &Call, working_directory: &str) -> Output {
    said(Said::Tool(Tool {
        call: PartId::from_harness(&call.id),
        name: call.name(),
        title: call.title(working_directory),
        class: call.class().into(),
        input: embed(call.input.clone()),
    }))
}

fn status(turn: &Turn, call: &Call) -> ResultStatus {
    if call.status == "completed" {
        ResultStatus::Ok
    } else if turn.denied.contains(&call.id) {
        ResultStatus::Denied
    } else if turn.is_interrupted {
        ResultStatus::Interrupted
    } else {
        ResultStatus::Error
    }
}

fn said(said: Said) -> Output {
    Output::Event(AgentEvent::Said(said))
}

pub(super) fn notice(level: Level, text: &str) -> Output {
    said(Said::Notice(Notice { level: level.into(), text: text.to_owned() }))
}

fn bounded(text: &str) -> String {
    let kept = cut(text, limits::MESSAGE_BYTES);
    if kept.len() == text.len() {
        return kept.to_owned();
    }
    format!("{kept}\n\n[{} bytes were left out]", text.len() - kept.len())
}

fn tokens(value: &Value, field: &str) -> Option<u64> {
    value.get(field).and_then(Value::as_u64).map(|count| count.min(limits::INTEGER_MAX))
}
