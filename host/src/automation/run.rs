//! A run and the moves that it can make (the contract's "Runs"): each move consumes what is known and gives the next state, or nothing where it cannot be made.

use std::collections::BTreeMap;
use std::fmt;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::time::Timestamp;

use super::error::{AutomationError, Code};

/// Names of tools that are counted by themselves in a run.
const TOOL_NAMES: usize = 256;
/// Bytes of such a name.
const TOOL_NAME_BYTES: usize = 128;
/// Where all others are counted.
const OTHER_TOOLS: &str = "(others)";

/// The id of a run: `run_` and a UUID of version 7.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub struct RunId(#[schemars(regex(pattern = r"^run_[0-9a-f-]{36}$"))] String);

impl RunId {
    /// A new id; later ones sort behind earlier ones.
    #[must_use]
    pub fn new() -> Self {
        Self(format!("run_{}", uuid::Uuid::now_v7()))
    }

    /// The text of a request's path; any text can be looked for.
    #[must_use]
    pub fn sought(text: &str) -> Self {
        Self(text.to_owned())
    }
}

impl Default for RunId {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What a run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunKind {
    /// A message to the model.
    Prompt,
    /// A slash command.
    Command,
}

/// What becomes of a question or an approval.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnInput {
    /// The run ends, blocked.
    #[default]
    Block,
    /// The run waits for an answer.
    Wait,
}

/// How far a run is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunState {
    /// It is in the journal.
    Accepted,
    /// Its input is in the conversation.
    Running,
    /// The model stopped; the session is not saved yet.
    Finished,
    /// The session is saved with it.
    Persisted,
    /// The session could not be saved with it.
    PersistFailed,
    /// The server died before it had settled.
    Lost,
}

impl RunState {
    /// Whether nothing changes any more.
    #[must_use]
    pub fn is_terminal(self) -> bool {
        matches!(self, Self::Persisted | Self::PersistFailed | Self::Lost)
    }
}

/// How a run ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// The model answered, or the command was carried out.
    Completed,
    /// It failed.
    Failed,
    /// It was cancelled.
    Cancelled,
    /// Its input was refused before it entered the conversation.
    Rejected,
    /// It may not go on by itself.
    Blocked,
}

/// What a completed run gave.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunResult {
    /// The final text of the assistant, or the output of the command.
    pub content: String,
}

/// The saved session, as far as it holds the run.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Persisted {
    /// SHA-256 of the stored bytes, lower-case hex.
    pub revision: String,
    /// Its messages, without those of the system.
    pub messages: u64,
    /// The event that told of it.
    pub seq: u64,
}

/// What a run took.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RunStats {
    /// Answers of the model that came to their end.
    pub iterations: u64,
    /// Tool calls by the name of the tool.
    pub tool_calls: BTreeMap<String, u64>,
    /// Those of them that failed.
    pub tool_errors: u64,
}

impl RunStats {
    /// Counts a call that began.
    pub fn began(&mut self, tool: &str) {
        // The model writes the names: what is none of a tool must not make the record grow without bound.
        let known = self.tool_calls.contains_key(tool) || self.tool_calls.len() < TOOL_NAMES;
        let name = if known { crate::text::cut(tool, TOOL_NAME_BYTES) } else { OTHER_TOOLS };
        *self.tool_calls.entry(name.to_owned()).or_default() += 1;
    }
}

/// A run, as the contract shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Run {
    /// Its id.
    pub id: RunId,
    /// The id that the controller gave it.
    pub request_id: String,
    /// What it does.
    pub kind: RunKind,
    /// SHA-256 of the canonical JSON of what was asked, lower-case hex.
    pub request_digest: String,
    /// What becomes of a question.
    pub on_input: OnInput,
    /// The session.
    pub session_id: String,
    /// How far it is.
    pub state: RunState,
    /// Whether nothing changes any more.
    pub terminal: bool,
    /// How it ended.
    pub outcome: Option<Outcome>,
    /// Why it did not complete.
    pub error: Option<AutomationError>,
    /// Why the session was not saved with it.
    pub persist_error: Option<AutomationError>,
    /// Whether somebody asked to cancel it.
    pub cancel_requested: bool,
    /// What it gave; null unless it completed.
    pub result: Option<RunResult>,
    /// The session as saved last.
    pub persisted: Option<Persisted>,
    /// What it took.
    pub stats: RunStats,
    /// The event that accepted it.
    pub accepted_seq: u64,
    /// When it was accepted.
    pub accepted_at: Timestamp,
    /// When its input entered the conversation.
    pub started_at: Option<Timestamp>,
    /// When the model stopped.
    pub finished_at: Option<Timestamp>,
    /// When it settled.
    pub settled_at: Option<Timestamp>,
}

/// What a controller asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Request {
    /// The controller's own id of it.
    pub request_id: String,
    /// What is to be done.
    pub kind: RunKind,
    /// The prompt, or the command with its `/`.
    pub text: String,
    /// What becomes of a question.
    pub on_input: OnInput,
}

impl Request {
    /// SHA-256 of the RFC 8785 form of `{kind, on_input, text}`, lower-case hex: two requests with one digest ask for the same.
    #[must_use]
    pub fn digest(&self) -> String {
        let asked = serde_json::json!({ "kind": self.kind, "on_input": self.on_input, "text": self.text });
        shared::json::digest(&asked)
    }
}

/// How a run ended, with what belongs to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It gave this.
    Completed {
        /// The final text.
        content: String,
    },
    /// It did not complete.
    Short {
        /// How it ended; never [`Outcome::Completed`].
        outcome: Outcome,
        /// Why.
        error: AutomationError,
    },
}

impl Run {
    /// A run that is accepted with the event `seq`.
    #[must_use]
    pub fn accepted(request: &Request, session_id: &str, seq: u64, now: Timestamp) -> Self {
        Self {
            id: RunId::new(),
            request_id: request.request_id.clone(),
            kind: request.kind,
            request_digest: request.digest(),
            on_input: request.on_input,
            session_id: session_id.to_owned(),
            state: RunState::Accepted,
            terminal: false,
            outcome: None,
            error: None,
            persist_error: None,
            cancel_requested: false,
            result: None,
            persisted: None,
            stats: RunStats::default(),
            accepted_seq: seq,
            accepted_at: now,
            started_at: None,
            finished_at: None,
            settled_at: None,
        }
    }

    /// Its input entered the conversation.
    pub fn start(&mut self, now: Timestamp) {
        if self.state == RunState::Accepted {
            self.state = RunState::Running;
            self.started_at = Some(now);
        }
    }

    /// Somebody asks to cancel it. True the first time that this can still change something: then there is an event to tell.
    pub fn request_cancel(&mut self) -> bool {
        let is_new = matches!(self.state, RunState::Accepted | RunState::Running) && !self.cancel_requested;
        self.cancel_requested |= is_new;
        is_new
    }

    /// The model stopped, or never began.
    pub fn finish(&mut self, ending: Ending, now: Timestamp) {
        if !matches!(self.state, RunState::Accepted | RunState::Running) {
            return;
        }
        self.state = RunState::Finished;
        self.finished_at = Some(now);
        match ending {
            Ending::Completed { content } => {
                self.outcome = Some(Outcome::Completed);
                self.result = Some(RunResult { content });
            }
            Ending::Short { outcome, error } => {
                self.outcome = Some(outcome);
                self.error = Some(error);
            }
        }
    }

    /// The session was saved in between.
    pub fn checkpoint(&mut self, persisted: Persisted) {
        if !self.terminal {
            self.persisted = Some(persisted);
        }
    }

    /// The session was saved with it.
    pub fn persist(&mut self, persisted: Persisted, now: Timestamp) {
        if self.state == RunState::Finished {
            self.persisted = Some(persisted);
            self.settle(RunState::Persisted, now);
        }
    }

    /// The session could not be saved with it.
    pub fn fail_to_persist(&mut self, message: impl Into<String>, now: Timestamp) {
        if self.state == RunState::Finished {
            self.persist_error = Some(AutomationError::new(Code::PersistFailed, message));
            self.settle(RunState::PersistFailed, now);
        }
    }

    /// The server that ran it is gone; `found` is the session as the next server found it.
    pub fn lose(&mut self, found: Persisted, now: Timestamp) {
        if self.terminal {
            return;
        }
        let lost = AutomationError::new(
            Code::ServerLost,
            "the server ended before this run had settled; what it did may be incomplete: look at the session and submit a new request",
        );
        if self.state == RunState::Finished {
            self.persist_error = Some(lost);
        } else {
            self.error = Some(lost);
        }
        self.persisted = Some(found);
        self.settle(RunState::Lost, now);
    }

    fn settle(&mut self, state: RunState, now: Timestamp) {
        self.state = state;
        self.terminal = true;
        self.settled_at = Some(now);
    }
}

#[cfg(test)]
mod tests {
    use sha2::Digest as _;

    use super::*;

    fn at(milliseconds: u64) -> Timestamp {
        Timestamp::from_milliseconds(milliseconds)
    }

    fn request() -> Request {
        Request {
            request_id: "task-1:author:1".into(),
            kind: RunKind::Prompt,
            text: " hi ".into(),
            on_input: OnInput::Block,
        }
    }

    fn run() -> Run {
        Run::accepted(&request(), "s", 7, at(1))
    }

    fn saved(seq: u64) -> Persisted {
        Persisted { revision: "00".into(), messages: 2, seq }
    }

    #[test]
    fn the_digest_covers_what_is_asked_and_nothing_else() {
        let first = request();
        assert_eq!(
            first.digest(),
            data_encoding::HEXLOWER
                .encode(&sha2::Sha256::digest(br#"{"kind":"prompt","on_input":"block","text":" hi "}"#))
        );
        assert_eq!(Request { request_id: "another".into(), ..first.clone() }.digest(), first.digest());
        for other in [
            Request { text: "hi".into(), ..first.clone() },
            Request { kind: RunKind::Command, ..first.clone() },
            Request { on_input: OnInput::Wait, ..first.clone() },
        ] {
            assert_ne!(other.digest(), first.digest());
        }
    }

    #[test]
    fn a_run_goes_its_way_and_settles_once() {
        let mut run = run();
        run.start(at(2));
        run.checkpoint(saved(9));
        run.finish(Ending::Completed { content: "done".into() }, at(3));
        assert_eq!((run.state, run.terminal), (RunState::Finished, false));
        run.persist(saved(12), at(4));
        assert_eq!((run.state, run.terminal, run.settled_at), (RunState::Persisted, true, Some(at(4))));
        assert_eq!(run.persisted.as_ref().map(|persisted| persisted.seq), Some(12));
        let settled = run.clone();
        run.lose(saved(99), at(5));
        run.finish(Ending::Completed { content: "again".into() }, at(5));
        run.fail_to_persist("late", at(5));
        run.checkpoint(saved(99));
        assert!(!run.request_cancel());
        assert_eq!(run, settled);
    }

    #[test]
    fn an_error_is_there_exactly_where_the_outcome_is_neither_null_nor_completed() {
        let mut refused = run();
        refused.finish(
            Ending::Short {
                outcome: Outcome::Rejected,
                error: AutomationError::new(Code::InputRejected, "nothing"),
            },
            at(2),
        );
        assert_eq!((refused.started_at, refused.outcome), (None, Some(Outcome::Rejected)));
        assert!(refused.error.is_some() && refused.result.is_none());
        refused.fail_to_persist("the disk is full", at(3));
        assert_eq!(refused.state, RunState::PersistFailed);
        assert_eq!(refused.outcome, Some(Outcome::Rejected), "the outcome stays");
        assert_eq!(refused.persist_error.map(|error| error.code), Some(Code::PersistFailed));
    }

    #[test]
    fn a_lost_run_keeps_what_was_recorded() {
        let mut running = run();
        running.start(at(2));
        assert!(running.request_cancel());
        assert!(!running.request_cancel(), "asked once");
        running.lose(saved(20), at(9));
        assert_eq!((running.state, running.outcome), (RunState::Lost, None));
        assert_eq!(running.error.as_ref().map(|error| error.code), Some(Code::ServerLost));
        assert!(running.cancel_requested && running.finished_at.is_none());

        let mut finished = run();
        finished.start(at(2));
        finished.finish(Ending::Completed { content: String::new() }, at(3));
        finished.lose(saved(20), at(9));
        assert_eq!((finished.state, finished.outcome), (RunState::Lost, Some(Outcome::Completed)));
        assert_eq!((finished.error, finished.finished_at), (None, Some(at(3))));
        assert_eq!(finished.persist_error.map(|error| error.code), Some(Code::ServerLost));
    }

    #[test]
    fn a_run_survives_its_json() {
        let run = run();
        let json = serde_json::to_value(&run).unwrap();
        assert_eq!(json["outcome"], serde_json::Value::Null, "null is written");
        assert_eq!(serde_json::from_value::<Run>(json).unwrap(), run);
    }
}
