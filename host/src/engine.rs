//! The built-in agent: asks a model, runs the tools that it calls, hands it the results, until it calls none.
//!
//! A front submits a turn, may stop it, and listens to [`EngineEvent`]s; it needs to know nothing else.

use std::path::PathBuf;

use serde_json::Value;
use shared::decision::Matter;
use shared::entry::{Assistant, Notice, Plan, Thinking, Tool, ToolClass, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};

pub mod commands;
pub mod config;
pub mod conversation;
mod desk;
mod hook;
pub mod keeper;
pub mod policy;
pub mod provider;
pub mod rules;
pub mod setup;
mod stop;
pub mod tools;
mod turn;
pub mod workspace;

pub use config::MAX_STEPS;
pub use desk::{Desk, Grants};
pub use keeper::{Keeper, SaveError, Saved};
pub use rules::Rules;
pub use stop::{Stop, Stopper, stop_pair};
pub use turn::{Compacted, Engine, Failure, Questions, Rejection, TurnOutcome};

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
    /// The turn's message is part of the conversation, and saved.
    Began {
        /// Its id.
        message: PartId,
        /// Its text.
        text: String,
    },
    /// A thought.
    Thinking(Thinking),
    /// A message of the model that is complete and part of the conversation.
    Assistant(Assistant),
    /// What had come of a message when it was stopped or failed: for people, it is not part of the conversation.
    Abandoned(Assistant),
    /// A model call is over: what it answered, told once for each, also where it has no text; its tool calls begin after this.
    Answered(Answered),
    /// A tool call; exactly one [`EngineEvent::ToolFinished`] follows.
    ToolStarted(Tool),
    /// Its result.
    ToolFinished(Finished),
    /// A call waits for a person; the decision is handed in at the [`Desk`].
    Asked(Box<Question>),
    /// The plan, whole.
    Plan(Plan),
    /// Tokens of one model call.
    Usage(Usage),
    /// Something a person should know.
    Notice(Notice),
    /// The conversation was saved with the tool results of a model call.
    Saved(Saved),
}

/// What a model call gave.
#[derive(Debug, Clone, PartialEq)]
pub struct Answered {
    /// The id of the message.
    pub message: PartId,
    /// Its text, which may be empty.
    pub text: String,
    /// The tools that it calls, in order.
    pub calls: Vec<Called>,
    /// The model call of the turn, from 1.
    pub iteration: u32,
    /// Its tokens, where the provider counted them.
    pub usage: Option<Usage>,
}

/// A tool call without its result.
#[derive(Debug, Clone, PartialEq)]
pub struct Called {
    /// The id of the call.
    pub call: PartId,
    /// The tool.
    pub name: String,
    /// What it is given.
    pub input: Value,
}

/// How a tool call ended.
#[derive(Debug, Clone, PartialEq)]
pub struct Finished {
    /// The tool.
    pub name: String,
    /// The text that enters the conversation.
    pub told: String,
    /// What people see.
    pub result: ToolResult,
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
    pub tool: String,
    /// What sort of tool it is.
    pub class: ToolClass,
    /// The command line.
    pub command: Option<String>,
    /// The files, absolute, links followed.
    pub paths: Vec<PathBuf>,
}
