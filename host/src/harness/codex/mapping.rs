//! Codex's messages become events of the agent, and its requests get answers: pure, one message at a time.

use std::collections::VecDeque;

use serde_json::{Value, json};
use shared::decision::Decision;
use shared::entry::{Assistant, Level, Notice, Thinking, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};
use shared::json::cut;
use shared::limits;
use shared::request::Configure;
use shared::settings::Settings;

use super::handshake::{self, POLICY};
use super::wire::{self, Message, Model, text};
use super::{approval, items};
use crate::harness::{AgentEvent, Asked, Said, TurnEnd, claude};
use crate::text::strip_controls;

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind among many")]
mod tests;

/// Calls without a result that are remembered; a turn with more in parallel loses their results, nothing else.
const CALLS: usize = 256;
/// Approvals that wait; more are declined.
const OPEN: usize = 64;
/// A text of the program in a notice, in bytes: a person reads no more of it.
const NOTICE_BYTES: usize = 4096;
/// Warnings that are said once and remembered.
const WARNINGS: usize = 64;

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

/// Whether all of these files may be changed without asking.
pub(super) type MayEdit = Box<dyn Fn(&[&str]) -> bool + Send>;

/// The state of one conversation.
pub(super) struct Mapping {
    thread: String,
    settings: Settings,
    models: Vec<Model>,
    /// Whether the service is not OpenAI's own, whose models the program does not know.
    is_custom: bool,
    /// Whether model or effort have to be said with the next turn.
    is_configured: bool,
    working_directory: String,
    may_edit: MayEdit,
    turn: Option<Turn>,
    calls: VecDeque<(String, Value)>,
    open: Vec<(Value, InputId)>,
    warnings: Vec<String>,
    requests: u64,
}

/// The turn that the session host asked for.
struct Turn {
    /// The request that begins it.
    request: u64,
    /// The program's id of it, once it is known: an interrupt before that would hit nothing.
    id: Option<String>,
    interrupt: Interrupt,
    /// Whether a notice has said why it fails.
    is_explained: bool,
    usage: Option<Usage>,
}

#[derive(PartialEq)]
enum Interrupt {
    None,
    /// As soon as the turn has begun.
    Wanted,
    Sent,
}

impl Mapping {
    /// A conversation that is ready.
    pub(super) fn new(
        thread: String,
        settings: Settings,
        models: Vec<Model>,
        is_custom: bool,
        working_directory: String,
        may_edit: MayEdit,
    ) -> Self {
        Self {
            thread,
            // What the person asked for at the start is said with the first turn: a resumed thread has its own.
            is_configured: settings.effort.is_some(),
            settings,
            models,
            is_custom,
            working_directory,
            may_edit,
            turn: None,
            calls: VecDeque::new(),
            open: Vec::new(),
            warnings: Vec::new(),
            // Those of the handshake are smaller.
            requests: 100,
        }
    }

    fn request(&mut self, method: &str, params: Value) -> Output {
        self.requests += 1;
        Output::Write(wire::request(self.requests, method, params))
    }

    /// Whether the program owes something that it does at once: the begin of a turn, or its end after an interrupt.
    pub(super) fn is_due(&self) -> bool {
        self.turn.as_ref().is_some_and(|turn| turn.id.is_none() || turn.interrupt == Interrupt::Sent)
    }

    /// Begins a turn.
    pub(super) fn begin(&mut self, text: &str) -> Vec<Output> {
        let mut params = json!({
            "threadId": self.thread,
            "input": [{ "type": "text", "text": text }],
            // Said with each turn, so that nothing that happened in between can have loosened it.
            "approvalPolicy": POLICY,
            "approvalsReviewer": "user",
        });
        if std::mem::take(&mut self.is_configured) {
            params["model"] = json!(self.settings.model);
            params["effort"] = json!(self.settings.effort);
        }
        let output = self.request("turn/start", params);
        let turn = Turn {
            request: self.requests,
            id: None,
            interrupt: Interrupt::None,
            is_explained: false,
            usage: None,
        };
        self.turn = Some(turn);
        vec![output]
    }

    /// Interrupts the turn, now or as soon as the program has taken it up; what it has asked is cancelled first.
    pub(super) fn interrupt(&mut self) -> Vec<Output> {
        match &mut self.turn {
            Some(turn) if turn.interrupt == Interrupt::None => turn.interrupt = Interrupt::Wanted,
            _ => return Vec::new(),
        }
        let open = std::mem::take(&mut self.open);
        let mut outputs: Vec<Output> = open.iter().map(|(id, _)| decision(id, "cancel")).collect();
        self.send_interrupt(&mut outputs);
        outputs
    }

    fn send_interrupt(&mut self, outputs: &mut Vec<Output>) {
        let thread = self.thread.clone();
        let Some(turn) = &mut self.turn else { return };
        let Some(id) = turn.id.clone().filter(|_| turn.interrupt == Interrupt::Wanted) else { return };
        turn.interrupt = Interrupt::Sent;
        outputs.push(self.request("turn/interrupt", json!({ "threadId": thread, "turnId": id })));
    }

    /// Passes a decision on; one about something that nobody asks any more does nothing.
    pub(super) fn answer(&mut self, input: InputId, decided: &Decision) -> Vec<Output> {
        let Some(index) = self.open.iter().position(|(_, open)| *open == input) else { return Vec::new() };
        let (id, _) = self.open.remove(index);
        let (word, said) = match decided {
            // The session remembers what is allowed for longer, and shows it; Codex's own memory nobody sees.
            Decision::Allow | Decision::AllowSession => ("accept", None),
            Decision::Deny { text } => ("decline", text.as_deref()),
            Decision::Chosen(_) | Decision::Said(_) => ("decline", None),
        };
        let mut outputs = vec![decision(&id, word)];
        let turn = self.turn.as_ref().and_then(|turn| turn.id.clone());
        if let (Some(said), Some(turn)) = (said, turn) {
            // A refusal of Codex's carries no reason: it comes beside it, as words of the person.
            let input = json!([{ "type": "text", "text": format!("I did not allow this. {said}") }]);
            let params = json!({ "threadId": self.thread, "expectedTurnId": turn, "input": input });
            outputs.push(self.request("turn/steer", params));
        }
        outputs
    }

    /// Chooses another model or effort from the next turn on.
    pub(super) fn configure(&mut self, wanted: &Configure) -> Vec<Output> {
        let mut outputs = Vec::new();
        if let Some(model) = &wanted.model {
            if handshake::knows(&self.models, self.is_custom, model) {
                handshake::apply(&mut self.settings, &self.models, model);
                self.is_configured = true;
            } else {
                outputs
                    .push(notice(Level::Warning, &format!("Codex does not know the model {}.", word(model))));
            }
        }
        let efforts = &self.settings.choices.efforts;
        if let Some(effort) = &wanted.effort {
            if efforts.is_empty() || efforts.contains(effort) {
                self.settings.effort = Some(word(effort).to_owned());
                self.is_configured = true;
            } else {
                let text = format!("This model does not offer the effort {}.", word(effort));
                outputs.push(notice(Level::Warning, &text));
            }
        } else if self
            .settings
            .effort
            .as_ref()
            .is_some_and(|had| !efforts.is_empty() && !efforts.contains(had))
        {
            self.settings.effort = None;
        }
        if wanted.agent.is_some() {
            outputs.push(notice(Level::Warning, "Codex has no agents to choose from."));
        }
        outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
        outputs
    }

    /// Goes on with a line of the program.
    pub(super) fn line(&mut self, line: &[u8]) -> Vec<Output> {
        if line.iter().all(u8::is_ascii_whitespace) {
            return Vec::new();
        }
        let Ok(value) = claude::read_json(line) else {
            return vec![Output::Trace("a line that is not JSON")];
        };
        let Ok(message) = serde_json::from_value::<Message>(value) else {
            return vec![Output::Trace("a message that makes no sense")];
        };
        let mut outputs = Vec::new();
        match message.method.clone() {
            Some(method) if message.id.is_null() => self.notification(&method, &message.params, &mut outputs),
            Some(method) => self.asked(&method, &message.id, &message.params, &mut outputs),
            None => self.response(&message, &mut outputs),
        }
        outputs
    }

    fn response(&mut self, message: &Message, outputs: &mut Vec<Output>) {
        let ours = self.turn.as_ref().filter(|turn| message.id.as_u64() == Some(turn.request));
        if ours.is_none() {
            if !message.error.is_null() {
                outputs.push(Output::Trace("a request of ours that failed"));
            }
        } else if message.error.is_null() {
            let id = text(&message.result["turn"], "id").to_owned();
            self.has_begun(&id, outputs);
        } else {
            let text = format!("Codex did not begin the turn: {}", text(&message.error, "message"));
            outputs.push(notice(Level::Error, &text));
            self.end(TurnEnd::Failed, outputs);
        }
    }

    fn has_begun(&mut self, id: &str, outputs: &mut Vec<Output>) {
        if id.is_empty() {
            return;
        }
        if let Some(turn) = self.turn.as_mut().filter(|turn| turn.id.is_none()) {
            turn.id = Some(id.to_owned());
            // A conversation can be resumed as soon as it has a turn.
            if self.settings.conversation.is_none() {
                self.settings.conversation = Some(self.thread.clone());
                outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
            }
        }
        self.send_interrupt(outputs);
    }

    /// Whether a message belongs to the running turn of our thread; threads of subagents have their own.
    fn is_ours(&self, params: &Value) -> bool {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.as_deref());
        text(params, "threadId") == self.thread && turn == Some(text(params, "turnId"))
    }

    fn notification(&mut self, method: &str, params: &Value, outputs: &mut Vec<Output>) {
        match method {
            "turn/started" if text(params, "threadId") == self.thread => {
                let id = text(&params["turn"], "id").to_owned();
                // One that was sent before the program says that the turn runs may have hit nothing.
                if let Some(turn) = self.turn.as_mut().filter(|turn| turn.interrupt == Interrupt::Sent) {
                    turn.interrupt = Interrupt::Wanted;
                }
                self.has_begun(&id, outputs);
            }
            "turn/completed" if text(params, "threadId") == self.thread => {
                self.completed(&params["turn"], outputs)
            }
            "item/started" if self.is_ours(params) => self.started(params, outputs),
            "item/completed" if self.is_ours(params) => self.finished(params, outputs),
            "item/agentMessage/delta" => self.delta(DeltaKind::Assistant, params, outputs),
            "item/reasoning/textDelta" | "item/reasoning/summaryTextDelta" => {
                self.delta(DeltaKind::Thinking, params, outputs);
            }
            "item/commandExecution/outputDelta" => self.delta(DeltaKind::Tool, params, outputs),
            "turn/plan/updated" if self.is_ours(params) => {
                outputs.extend(items::plan(params).map(|plan| said(Said::Plan(plan))));
            }
            "thread/tokenUsage/updated" if self.is_ours(params) => self.usage(&params["tokenUsage"], outputs),
            "thread/settings/updated" if text(params, "threadId") == self.thread => {
                self.changed(&params["threadSettings"], outputs);
            }
            "serverRequest/resolved" => {
                let id = &params["requestId"];
                if let Some(index) = self.open.iter().position(|(open, _)| open == id) {
                    let (_, input) = self.open.remove(index);
                    outputs.push(Output::Event(AgentEvent::Withdrawn(input)));
                }
            }
            "error" if self.is_ours(params) => {
                let will_retry = params["willRetry"].as_bool() == Some(true);
                let level = if will_retry { Level::Warning } else { Level::Error };
                outputs.push(notice(level, text(&params["error"], "message")));
                if let Some(turn) = self.turn.as_mut().filter(|_| !will_retry) {
                    turn.is_explained = true;
                }
            }
            "warning" | "guardianWarning" => {
                let said = text(params, "message").to_owned();
                // It repeats them with every turn.
                if !said.is_empty() && self.warnings.len() < WARNINGS && !self.warnings.contains(&said) {
                    outputs.push(notice(Level::Warning, &said));
                    self.warnings.push(said);
                }
            }
            "configWarning" | "deprecationNotice" => outputs.push(Output::Trace("a remark of the program")),
            // There are some eighty others, about parts of the program that are not shown.
            _ => {}
        }
    }

    /// Our id of an item: ids of items may come again in another turn.
    fn part(&self, item: &str) -> PartId {
        let turn = self.turn.as_ref().and_then(|turn| turn.id.as_deref()).unwrap_or_default();
        let start = turn.char_indices().rev().nth(11).map_or(0, |(index, _)| index);
        PartId::from_harness(&format!("{}.{item}", &turn[start..]))
    }

    fn delta(&self, kind: DeltaKind, params: &Value, outputs: &mut Vec<Output>) {
        if !self.is_ours(params) {
            return;
        }
        let message = self.part(text(params, "itemId"));
        let clean = strip_controls(text(params, "delta"));
        let mut rest: &str = &clean;
        while !rest.is_empty() {
            let piece = cut(rest, limits::DELTA_BYTES);
            let event = AgentEvent::Delta { message: message.clone(), kind, text: piece.to_owned() };
            outputs.push(Output::Event(event));
            rest = &rest[piece.len()..];
        }
    }

    fn started(&mut self, params: &Value, outputs: &mut Vec<Output>) {
        let item = &params["item"];
        let id = text(item, "id");
        if let Some(tool) = items::tool(self.part(id), item, &self.working_directory) {
            if self.calls.len() >= CALLS {
                self.calls.pop_front();
            }
            self.calls.push_back((id.to_owned(), item.clone()));
            outputs.push(said(Said::Tool(tool)));
        }
    }

    fn finished(&mut self, params: &Value, outputs: &mut Vec<Output>) {
        let item = &params["item"];
        let (id, message) = (text(item, "id"), self.part(text(item, "id")));
        match text(item, "type") {
            "agentMessage" if !text(item, "text").is_empty() => {
                let (text, model) = (bounded(text(item, "text")), self.settings.model.clone());
                outputs.push(said(Said::Assistant(Assistant { message, text, model })));
            }
            "reasoning" => {
                let words = |field: &str| {
                    let texts = item[field].as_array().into_iter().flatten().filter_map(Value::as_str);
                    texts.collect::<Vec<_>>().join("\n\n")
                };
                let (summary, content) = (words("summary"), words("content"));
                let thought = if content.is_empty() { summary } else { content };
                if !thought.is_empty() {
                    outputs.push(said(Said::Thinking(Thinking { message, text: bounded(&thought) })));
                }
            }
            "contextCompaction" => {
                outputs.push(notice(Level::Info, "Codex summed the conversation up to make room for more."));
            }
            "imageGeneration" => outputs.push(notice(Level::Info, "Codex made an image.")),
            _ => {
                let is_open = self.calls.iter().position(|(open, _)| open == id);
                match is_open {
                    Some(index) => drop(self.calls.remove(index)),
                    // Some are told of only once they are over.
                    None => match items::tool(message.clone(), item, &self.working_directory) {
                        Some(tool) => outputs.push(said(Said::Tool(tool))),
                        None => return,
                    },
                }
                outputs.push(said(Said::Result(items::result(message, item))));
            }
        }
    }

    fn usage(&mut self, usage: &Value, outputs: &mut Vec<Output>) {
        let count = |field: &str| usage["last"][field].as_u64().unwrap_or(0).min(limits::INTEGER_MAX);
        let sum = |before: u64, more: u64| before.saturating_add(more).min(limits::INTEGER_MAX);
        let cached = count("cachedInputTokens");
        if let Some(turn) = &mut self.turn {
            let before = turn.usage.take();
            let had = |pick: fn(&Usage) -> u64| before.as_ref().map_or(0, pick);
            turn.usage = Some(Usage {
                input_tokens: sum(
                    had(|usage| usage.input_tokens),
                    count("inputTokens").saturating_sub(cached),
                ),
                output_tokens: sum(had(|usage| usage.output_tokens), count("outputTokens")),
                cached_tokens: sum(had(|usage| usage.cached_tokens), cached),
                cost: None,
                context_tokens: Some(count("totalTokens")),
            });
        }
        let window = usage["modelContextWindow"].as_u64().map(|window| window.min(limits::INTEGER_MAX));
        if window.is_some() && window != self.settings.context_tokens {
            self.settings.context_tokens = window;
            outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
        }
    }

    fn changed(&mut self, changed: &Value, outputs: &mut Vec<Output>) {
        let before = self.settings.clone();
        // What a person chose for the next turn stands until that has begun.
        if !self.is_configured {
            handshake::apply(&mut self.settings, &self.models, text(changed, "model"));
            self.settings.effort = changed["effort"].as_str().map(|effort| word(effort).to_owned());
        }
        if before != self.settings {
            outputs.push(Output::Event(AgentEvent::Settings(self.settings.clone())));
        }
        if changed["approvalPolicy"] != POLICY {
            let text = "Codex had changed what it may do without being asked; aude ended the turn and sets it back with the next one.";
            outputs.push(notice(Level::Warning, text));
            let interrupt = self.interrupt();
            outputs.extend(interrupt);
        }
    }

    fn asked(&mut self, method: &str, id: &Value, params: &Value, outputs: &mut Vec<Output>) {
        let is_command = method == "item/commandExecution/requestApproval";
        if !is_command && method != "item/fileChange/requestApproval" {
            outputs.push(Output::Write(wire::unsupported(id)));
            outputs.push(Output::Trace("a request that we do not know"));
            return;
        }
        if self.open.iter().any(|(open, _)| open == id) {
            outputs.push(Output::Trace("a request that waits already"));
            return;
        }
        let item = text(params, "itemId");
        let call = self.part(item);
        let found = self.calls.iter().find(|(open, _)| open == item).map(|(_, item)| item);
        let asked: Option<Asked> = match (is_command, found) {
            _ if !self.is_ours(params) || self.open.len() >= OPEN => None,
            (true, found) => approval::command(call, params, found),
            (false, Some(found)) => approval::change(call, params, found),
            (false, None) => None,
        };
        let is_interrupted = self.turn.as_ref().is_some_and(|turn| turn.interrupt != Interrupt::None);
        let paths: Vec<&str> = match found.filter(|_| !is_command) {
            // A move touches two places.
            Some(item) => items::changes(item)
                .flat_map(|change| [Some(text(change, "path")), change["kind"]["move_path"].as_str()])
                .flatten()
                .collect(),
            None => Vec::new(),
        };
        match asked {
            _ if is_interrupted => outputs.push(decision(id, "cancel")),
            Some(_) if !paths.is_empty() && (self.may_edit)(&paths) => outputs.push(decision(id, "accept")),
            Some(asked) => {
                self.open.push((id.clone(), asked.input));
                outputs.push(Output::Event(AgentEvent::Asked(Box::new(asked))));
            }
            None => {
                outputs.push(decision(id, "decline"));
                let text = "Codex asked for something that cannot be shown whole; it was declined.";
                outputs.push(notice(Level::Warning, text));
            }
        }
    }

    fn completed(&mut self, turn: &Value, outputs: &mut Vec<Output>) {
        let ours = self.turn.as_ref().and_then(|turn| turn.id.clone());
        if ours.as_deref() != Some(text(turn, "id")) {
            return;
        }
        let state = self.turn.as_ref().map(|turn| (turn.interrupt != Interrupt::None, turn.is_explained));
        let (is_interrupted, is_explained) = state.unwrap_or_default();
        let end = match text(turn, "status") {
            "completed" => TurnEnd::Completed,
            "interrupted" => TurnEnd::Interrupted,
            // An error that our own interrupt made is none.
            _ if is_interrupted => TurnEnd::Interrupted,
            _ => {
                if !is_explained {
                    let why = text(&turn["error"], "message");
                    let why = if why.is_empty() { "it gave no reason" } else { why };
                    outputs.push(notice(Level::Error, &format!("Codex gave the turn up: {why}")));
                }
                TurnEnd::Failed
            }
        };
        self.end(end, outputs);
    }

    fn end(&mut self, end: TurnEnd, outputs: &mut Vec<Output>) {
        for (id, mut item) in std::mem::take(&mut self.calls) {
            item["status"] = json!("inProgress");
            outputs.push(said(Said::Result(items::result(self.part(&id), &item))));
        }
        // Its turn is over: the session cancels what was asked.
        self.open.clear();
        if let Some(turn) = self.turn.take() {
            outputs.extend(turn.usage.map(|usage| said(Said::Usage(usage))));
            outputs.push(Output::Event(AgentEvent::TurnEnded(end)));
        }
    }

    /// The program is gone, and nobody had asked for it.
    pub(super) fn gone(&mut self, how: &str) -> Vec<Output> {
        let mut outputs = Vec::new();
        if let Some(turn) = &self.turn {
            let end = if turn.interrupt == Interrupt::None { TurnEnd::Failed } else { TurnEnd::Interrupted };
            outputs.push(notice(Level::Error, &format!("Codex ended in the middle of the turn ({how}).")));
            self.end(end, &mut outputs);
        }
        outputs
    }
}

fn decision(id: &Value, word: &str) -> Output {
    Output::Write(wire::reply(id, json!({ "decision": word })))
}

fn said(said: Said) -> Output {
    Output::Event(AgentEvent::Said(said))
}

pub(super) fn notice(level: Level, text: &str) -> Output {
    let clean = strip_controls(text);
    said(Said::Notice(Notice { level: level.into(), text: cut(clean.trim(), NOTICE_BYTES).to_owned() }))
}

fn word(text: &str) -> &str {
    cut(text, limits::WORD_BYTES)
}

fn bounded(text: &str) -> String {
    let kept = cut(text, limits::MESSAGE_BYTES);
    if kept.len() == text.len() {
        return text.to_owned();
    }
    format!("{kept}\n\n[{} bytes were left out]", text.len() - kept.len())
}
