//! What a session host needs of a coding agent: one small trait, abilities declared as data, events in, commands out.
//!
//! A harness never sees a frame, a socket or a device. It gives transcript events and live text, takes turns and
//! interrupts, and says once that it is gone.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::sync::Arc;

use shared::decision::{Decision, Matter};
use shared::entry::{Assistant, Known, Notice, Plan, Thinking, Tool, ToolClass, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::gate::Finding;
use shared::ids::{HostId, InputId, PartId, SubmissionId};
use shared::request::Configure;
use shared::settings::Settings;
use shared::status::Exit;
use tokio::sync::mpsc;

use crate::config::{Config, Permissions};
use crate::home::Home;

pub mod acp;
pub mod claude;
pub mod codex;
pub mod engine;
mod version;

pub use version::Version;

/// Commands that may wait for an agent: one turn, one interrupt, and a decision for each event that it may have sent meanwhile, with room to
/// spare. An agent that takes none of them is ended.
pub const COMMANDS: usize = 1024;
/// Events that may wait for the session host; an agent that floods is read no faster than its log is written.
pub const EVENTS: usize = 256;

/// A future that a trait object can return.
pub type Later<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// A coding agent that a session host can run.
pub trait Harness: Send + Sync {
    /// The word by which it is chosen, as in `aude start --harness WORD`.
    fn name(&self) -> &str;

    /// What it can do; a client offers nothing else.
    fn abilities(&self) -> Abilities;

    /// Looks, without a prompt and without the network where that can be, whether it may run (wire §6). Bounded in time.
    fn probe<'a>(&'a self, place: &'a Place) -> Later<'a, Finding>;

    /// The version of its program, for `aude doctor` alone; none where it does not say one. Bounded in time.
    fn version<'a>(&'a self, place: &'a Place) -> Later<'a, Option<Version>>;

    /// The oldest version that is known to work; with an older one the probe finds `unreported`.
    fn oldest(&self) -> Option<Version> {
        None
    }

    /// Starts it. The agent ends with all its descendants when its [`Agent::commands`] are dropped, and says [`AgentEvent::Exited`] last.
    fn open(&self, opening: Opening) -> Later<'_, Result<Agent, OpenError>>;
}

/// The harnesses of this version and of the configuration; what is built in first.
#[must_use]
pub fn all(config: &Config) -> Vec<Arc<dyn Harness>> {
    let mut all: Vec<Arc<dyn Harness>> =
        vec![Arc::new(claude::ClaudeHarness), Arc::new(codex::CodexHarness), Arc::new(engine::Aura)];
    all.extend(acp::all(config));
    all
}

/// The harness of that word, if there is one.
#[must_use]
pub fn by_name(word: &str, config: &Config) -> Option<Arc<dyn Harness>> {
    all(config).into_iter().find(|harness| harness.name() == word)
}

/// A place for a probe alone, outside any session.
#[must_use]
pub fn probe_place(home: &Home, config: Config) -> Place {
    Place {
        working_directory: std::env::current_dir().unwrap_or_else(|_| home.root().to_owned()),
        session_directory: home.root().to_owned(),
        run: HostId::random(),
        guard_program: std::env::current_exe().unwrap_or_else(|_| PathBuf::from("aude")),
        config,
    }
}

/// What a harness can do, as data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abilities {
    /// A running turn can be ended without ending the agent.
    pub interrupt: bool,
    /// A conversation goes on after the agent was started anew.
    pub resume: bool,
    /// Model, effort or agent can be chosen.
    pub configure: bool,
}

/// Where and for whom an agent runs.
#[derive(Debug, Clone)]
pub struct Place {
    /// The directory in which it works; absolute, existing.
    pub working_directory: PathBuf,
    /// The session's own directory, for what the harness keeps beside the log.
    pub session_directory: PathBuf,
    /// The run of the session host.
    pub run: HostId,
    /// The program that has the `guard` command: `aude` itself.
    pub guard_program: PathBuf,
    /// The configuration.
    pub config: Config,
}

/// How an agent is to be started.
#[derive(Debug, Clone)]
pub struct Opening {
    /// Where it runs.
    pub place: Place,
    /// The conversation that goes on, as [`Settings::conversation`] had it, or none for a new one.
    pub conversation: Option<String>,
    /// The model, where one was asked for.
    pub model: Option<String>,
    /// The effort, where one was asked for.
    pub effort: Option<String>,
    /// The agent or mode, where one was asked for.
    pub agent: Option<String>,
    /// What it may do without being asked.
    pub permissions: Permissions,
}

/// A running agent.
#[derive(Debug)]
pub struct Agent {
    /// Turns and interrupts; dropping it ends the agent.
    pub commands: mpsc::Sender<AgentCommand>,
    /// What the agent does; ends after [`AgentEvent::Exited`].
    pub events: mpsc::Receiver<AgentEvent>,
}

/// What a session host tells an agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AgentCommand {
    /// Begin a turn. Only when none runs.
    Turn {
        /// The submission of the turn.
        submission: SubmissionId,
        /// What the person sent.
        text: String,
    },
    /// End the running turn; [`AgentEvent::TurnEnded`] follows. Without a turn nothing happens. What the agent has asked is cancelled
    /// already: the driver tells it so before it interrupts.
    Interrupt,
    /// What was decided about an [`Asked`]; at most once for each. Where the driver has withdrawn it meanwhile nothing happens.
    Answer {
        /// The input.
        input: InputId,
        /// What was decided.
        decision: Decision,
    },
    /// Use another model, effort or agent from the next model call on. [`AgentEvent::Settings`] follows, also when the agent refused:
    /// with a notice and what it really uses.
    Configure(Configure),
}

/// What an agent tells its session host.
#[derive(Debug, Clone, PartialEq)]
pub enum AgentEvent {
    /// It is ready, or something changed.
    Settings(Settings),
    /// An entry of the transcript.
    Said(Said),
    /// Live text that a later entry replaces.
    Delta {
        /// The message or call that it belongs to.
        message: PartId,
        /// What it will become.
        kind: DeltaKind,
        /// The text.
        text: String,
    },
    /// It waits for a decision; [`AgentCommand::Answer`] follows, unless the turn ends before.
    Asked(Box<Asked>),
    /// It does not wait any more, by its own will: the input is cancelled.
    Withdrawn(InputId),
    /// The running turn is over.
    TurnEnded(TurnEnd),
    /// The agent and all that it started are gone; nothing follows.
    Exited(Exit),
}

/// The transcript entries that come from an agent.
#[derive(Debug, Clone, PartialEq)]
pub enum Said {
    /// Text of the assistant.
    Assistant(Assistant),
    /// A thought.
    Thinking(Thinking),
    /// A tool call.
    Tool(Tool),
    /// The result of one.
    Result(ToolResult),
    /// The plan.
    Plan(Plan),
    /// Tokens and cost.
    Usage(Usage),
    /// Something a person should know.
    Notice(Notice),
}

impl From<Said> for Known {
    fn from(said: Said) -> Self {
        match said {
            Said::Assistant(entry) => Self::Assistant(entry),
            Said::Thinking(entry) => Self::Thinking(entry),
            Said::Tool(entry) => Self::Tool(entry),
            Said::Result(entry) => Self::Result(entry),
            Said::Plan(entry) => Self::Plan(entry),
            Said::Usage(entry) => Self::Usage(entry),
            Said::Notice(entry) => Self::Notice(entry),
        }
    }
}

/// Something that an agent may not or cannot decide by itself (wire §5.3). A driver asks whatever its agent asks: rules, grants and
/// `permissions = "deny"` are judged by the session, alike for all harnesses.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// A new random id; never one of the agent's own.
    pub input: InputId,
    /// What is asked. An approval offers `allow_session` exactly where there is a `grant`.
    pub matter: Matter,
    /// What the rules of the configuration judge; none for a question.
    pub subject: Option<Subject>,
    /// What `allow_session` would allow: a later approval with the same grant is not asked again in this run of the host. Two
    /// approvals have the same grant only where a person who allowed one for the session means the other too.
    pub grant: Option<String>,
}

/// What an approval is about, for the rules of the configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The harness's name of the tool.
    pub tool: String,
    /// What sort of tool it is.
    pub class: ToolClass,
    /// The command line, where it runs one.
    pub command: Option<String>,
    /// The files that it touches, absolute, links followed; empty where that is not known.
    pub paths: Vec<PathBuf>,
}

/// How a turn ended, as the agent sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TurnEnd {
    /// It came to its end; whether it answered is for the host to say.
    Completed,
    /// It was interrupted.
    Interrupted,
    /// It failed; the agent has already said why as a notice.
    Failed,
}

/// Why an agent could not be started.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// The program is not there.
    #[error("{program} was not found; install it or set its path in config.toml")]
    NotFound {
        /// The program that was looked for.
        program: String,
    },
    /// It does not know the model.
    #[error("the harness does not know the model {model}")]
    UnknownModel {
        /// The model that was asked for.
        model: String,
    },
    /// The worktree of the session could not be made ready.
    #[error("{detail}")]
    Worktree {
        /// What happened.
        detail: String,
    },
    /// It ended, hung or made no sense before it was ready.
    #[error("the harness did not start: {detail}")]
    Start {
        /// What happened, in our words.
        detail: String,
    },
}
