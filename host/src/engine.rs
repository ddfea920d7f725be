//! The built-in agent: asks a model, runs the tools that it calls, hands it the results, until it calls none.
//!
//! A front submits a turn, may stop it, and listens to [`EngineEvent`]s; it needs to know nothing else.

use std::path::PathBuf;

use shared::decision::Matter;
use shared::entry::{Assistant, Notice, Plan, Thinking, Tool, ToolClass, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};

pub mod conversation;
mod desk;
pub mod policy;
pub mod provider;
mod stop;
pub mod tools;
mod turn;
pub mod workspace;

pub use desk::Desk;
pub use stop::{Stop, Stopper, stop_pair};
pub use turn::{Engine, Failure, TurnOutcome};

/// Model calls of one turn where nothing else is asked for: far more than honest work takes, few enough to end a loop.
pub const MAX_STEPS: u32 = 200;

/// What the engine does, as it does it.
#[derive(Debug, Clone, PartialEq)]
pub enum EngineEvent {
    /// Live text that a later event replaces.
    Delta {
        /// The message or call that it belongs to.
        message: PartId,
        /// What it will become.
        kind: DeltaKind,
        /// The text.
        text: String,
    },
    /// A thought.
    Thinking(Thinking),
    /// A message of the model that is complete and part of the conversation.
    Assistant(Assistant),
    /// What had come of a message when it was stopped or failed: for people, it is not part of the conversation.
    Abandoned(Assistant),
    /// A tool call; exactly one [`EngineEvent::ToolFinished`] follows.
    ToolStarted(Tool),
    /// Its result.
    ToolFinished(ToolResult),
    /// A call waits for a person; the decision is handed in at the [`Desk`].
    Asked(Box<Question>),
    /// The plan, whole.
    Plan(Plan),
    /// Tokens of one model call.
    Usage(Usage),
    /// Something a person should know.
    Notice(Notice),
}

/// What a person has to decide.
#[derive(Debug, Clone, PartialEq)]
pub struct Question {
    /// By which it is decided.
    pub input: InputId,
    /// What is asked.
    pub matter: Matter,
    /// What an approval is about; none for a question.
    pub subject: Option<Subject>,
    /// What two approvals have in common of which one can be granted for both.
    pub grant: Option<String>,
}

/// What a call does that a person has to grant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Subject {
    /// The tool.
    pub tool: &'static str,
    /// What sort of tool it is.
    pub class: ToolClass,
    /// The command line.
    pub command: Option<String>,
    /// The files, absolute, links followed.
    pub paths: Vec<PathBuf>,
}
