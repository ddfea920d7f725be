//! From the first line to a session in which the agent asks before it acts: pure, one message at a time.

use serde_json::{Value, json};
use shared::json::cut;
use shared::limits;

use super::options::{Kind, Options};
use super::presets::Program;
use super::wire::{self, Failure, Message};
use crate::harness::{OpenError, Opening};
use crate::text::one_line;

/// What an agent says of itself that a person needs to read.
const DETAIL_CHARACTERS: usize = 300;

/// What has been asked of the agent and not yet been answered.
#[derive(Debug)]
pub(super) struct Handshake {
    name: String,
    modes: Vec<String>,
    asks: bool,
    working_directory: String,
    conversation: Option<String>,
    wanted: Vec<(Kind, String)>,
    phase: Phase,
    requests: u64,
    ready: Ready,
}

/// A session that is ready.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Ready {
    /// The agent's own id of it.
    pub(super) session: String,
    /// What can be chosen, and is.
    pub(super) options: Options,
    /// Whether it is the conversation that was to go on.
    pub(super) is_resumed: bool,
    /// Whether there was one that could not.
    pub(super) has_lost: bool,
    /// The number of the last request.
    pub(super) requests: u64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Initializing,
    Loading,
    Creating,
    Setting(Kind, String),
}

/// What to do next.
#[derive(Debug, PartialEq)]
pub(super) enum Step {
    /// Read on.
    Wait,
    /// Write this and read on.
    Write(Value),
    /// It is ready.
    Ready(Box<Ready>),
    /// It cannot be used.
    Fail(OpenError),
}

impl Handshake {
    /// The beginning, with the first line to write.
    pub(super) fn new(program: &Program, opening: &Opening) -> (Self, Value) {
        let mut wanted = Vec::new();
        let mode = opening.agent.clone().or_else(|| program.modes.first().cloned());
        for (kind, value) in
            [(Kind::Mode, mode), (Kind::Model, opening.model.clone()), (Kind::Effort, opening.effort.clone())]
        {
            wanted.extend(value.map(|value| (kind, value)));
        }
        let handshake = Self {
            name: program.name.clone(),
            modes: program.modes.clone(),
            asks: program.asks,
            working_directory: opening.place.working_directory.display().to_string(),
            conversation: opening.conversation.clone(),
            wanted,
            phase: Phase::Initializing,
            requests: 1,
            ready: Ready::default(),
        };
        (handshake, wire::initialize(1))
    }

    /// Goes on with a message of the agent.
    pub(super) fn message(&mut self, message: Message) -> Step {
        match message {
            Message::Request { id, .. } => Step::Write(wire::unsupported(&id)),
            Message::Notification { method, params } => {
                // What is told again of a loaded conversation stands in the log already.
                if method == "session/update" {
                    self.ready.options.read(params.get("update").unwrap_or(&Value::Null));
                    if let Some(mode) = params.pointer("/update/currentModeId").and_then(Value::as_str) {
                        self.ready.options.set(Kind::Mode, mode);
                    }
                }
                Step::Wait
            }
            Message::Response { id, result } if id == self.requests => self.response(result),
            Message::Response { .. } => Step::Wait,
        }
    }

    fn response(&mut self, result: Result<Value, Failure>) -> Step {
        match (self.phase.clone(), result) {
            (Phase::Initializing, Ok(answer)) => self.initialized(&answer),
            (Phase::Initializing, Err(failure)) => self.refused("to initialize", &failure),
            (Phase::Loading, Ok(answer)) => {
                self.ready.session = self.conversation.take().unwrap_or_default();
                self.ready.is_resumed = true;
                self.ready.options.read(&answer);
                self.choose()
            }
            (Phase::Loading, Err(failure)) if failure.code == wire::NOT_LOGGED_IN => self.not_logged_in(),
            (Phase::Loading, Err(_)) => self.create(),
            (Phase::Creating, Ok(answer)) => {
                let session = answer.get("sessionId").and_then(Value::as_str).unwrap_or_default();
                if session.is_empty() || session.len() > limits::WORD_BYTES {
                    return fail("it gave its session no usable id");
                }
                self.ready.session = session.to_owned();
                self.ready.options.read(&answer);
                self.choose()
            }
            (Phase::Creating, Err(failure)) if failure.code == wire::NOT_LOGGED_IN => self.not_logged_in(),
            (Phase::Creating, Err(failure)) => self.refused("to open a session", &failure),
            (Phase::Setting(kind, value), Ok(answer)) => {
                let is_confirmed = answer.get("configOptions").is_some();
                self.ready.options.read(&answer);
                // The older requests are confirmed by an empty answer.
                if !is_confirmed {
                    self.ready.options.set(kind, &value);
                }
                if self.ready.options.current(kind) == Some(value.as_str()) {
                    self.choose()
                } else {
                    fail(&format!("it did not take {}", cut(&value, limits::WORD_BYTES)))
                }
            }
            (Phase::Setting(_, value), Err(failure)) => {
                self.refused(&format!("to use {}", cut(&value, limits::WORD_BYTES)), &failure)
            }
        }
    }

    fn initialized(&mut self, answer: &Value) -> Step {
        if answer.get("protocolVersion").and_then(Value::as_u64) != Some(wire::VERSION) {
            return fail("it does not speak version 1 of the Agent Client Protocol");
        }
        let can_load =
            answer.pointer("/agentCapabilities/loadSession").and_then(Value::as_bool) == Some(true);
        match &self.conversation {
            Some(conversation) if can_load => {
                let params =
                    json!({ "sessionId": conversation, "cwd": self.working_directory, "mcpServers": [] });
                self.ask(Phase::Loading, "session/load", params)
            }
            Some(_) | None => self.create(),
        }
    }

    fn create(&mut self) -> Step {
        self.ready.has_lost = self.conversation.is_some();
        self.ready.options = Options::default();
        let params = json!({ "cwd": self.working_directory, "mcpServers": [] });
        self.ask(Phase::Creating, "session/new", params)
    }

    /// Chooses what is not yet chosen, the mode first; ready when all is.
    fn choose(&mut self) -> Step {
        if self.modes.is_empty() && !self.asks {
            return fail(&format!(
                "aude cannot know what it does without asking; set mode = \"…\" under [harness.{0}] in config.toml to the mode in which \
                 it asks{1}, or asks = true if it always does",
                self.name,
                self.offered()
            ));
        }
        while let Some((kind, value)) = self.wanted.first().cloned() {
            let options = &self.ready.options;
            match kind {
                Kind::Mode if !self.modes.contains(&value) => {
                    return fail(&format!("{} is no mode in which it asks", cut(&value, limits::WORD_BYTES)));
                }
                Kind::Mode if !options.offers(kind, &value) && self.asks => {}
                Kind::Mode if !options.offers(kind, &value) => {
                    return fail(&format!(
                        "it does not offer the permission mode {value}; set mode under [harness.{}] in config.toml{}",
                        self.name,
                        self.offered()
                    ));
                }
                Kind::Model if !options.offers(kind, &value) => {
                    return Step::Fail(OpenError::UnknownModel { model: value });
                }
                Kind::Effort if !options.offers(kind, &value) => {
                    return fail(&format!(
                        "it does not offer the effort {}",
                        cut(&value, limits::WORD_BYTES)
                    ));
                }
                Kind::Mode | Kind::Model | Kind::Effort if options.current(kind) == Some(value.as_str()) => {}
                Kind::Mode | Kind::Model | Kind::Effort => {
                    let (method, params) = options.request(kind, &self.ready.session, &value);
                    return self.ask(Phase::Setting(kind, value), method, params);
                }
            }
            self.wanted.remove(0);
        }
        self.ready.requests = self.requests;
        Step::Ready(Box::new(self.ready.clone()))
    }

    fn offered(&self) -> String {
        let modes = self.ready.options.values(Kind::Mode);
        if modes.is_empty() {
            String::new()
        } else {
            format!(" (it offers {})", one_line(&modes.join(", "), 200))
        }
    }

    fn ask(&mut self, phase: Phase, method: &str, params: Value) -> Step {
        self.phase = phase;
        self.requests += 1;
        Step::Write(wire::request(self.requests, method, params))
    }

    fn not_logged_in(&self) -> Step {
        fail(&format!("nobody is logged in; run `{}` once and log in", self.name))
    }

    fn refused(&self, what: &str, failure: &Failure) -> Step {
        fail(&format!("it refused {what}: {}", one_line(&failure.message, DETAIL_CHARACTERS)))
    }
}

fn fail(detail: &str) -> Step {
    Step::Fail(OpenError::Start { detail: detail.to_owned() })
}

#[cfg(test)]
#[expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one kind among many")]
mod tests;
