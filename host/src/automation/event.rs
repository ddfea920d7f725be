//! The events of a served session: one line of the journal each, and what a stream carries beside them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::error::AutomationError;
use super::run::{Run, RunId};

/// What happened. The journal has it as `type` and `data`.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
#[serde(tag = "type", content = "data")]
pub enum Happening {
    /// A server serves the session.
    #[serde(rename = "server.started")]
    ServerStarted {
        /// Its process.
        pid: u32,
        /// The version of aura.
        version: String,
        /// The revision that it found; null for a new session.
        resumed_revision: Option<String>,
    },
    /// The server ends.
    #[serde(rename = "server.stopping")]
    ServerStopping {
        /// Why.
        reason: StopReason,
    },
    /// A run is taken; it runs only once this is durable.
    #[serde(rename = "run.accepted")]
    RunAccepted(OfRun),
    /// Somebody asked to cancel it.
    #[serde(rename = "run.cancel_requested")]
    RunCancelRequested(OfRun),
    /// The model stopped.
    #[serde(rename = "run.finished")]
    RunFinished(OfRun),
    /// The session is saved with it.
    #[serde(rename = "run.persisted")]
    RunPersisted(OfRun),
    /// The session could not be saved with it.
    #[serde(rename = "run.persist_failed")]
    RunPersistFailed(OfRun),
    /// The server died before it had settled.
    #[serde(rename = "run.lost")]
    RunLost(OfRun),
    /// The input entered the conversation.
    #[serde(rename = "run.started")]
    RunStarted {
        /// The run.
        run_id: RunId,
        /// The message of the input.
        message_id: String,
    },
    /// A message of the controller.
    #[serde(rename = "message.user")]
    MessageUser {
        /// Its id.
        message_id: String,
        /// Its text.
        content: String,
    },
    /// An answer of the model, one a model call.
    #[serde(rename = "message.assistant")]
    MessageAssistant {
        /// Its id.
        message_id: String,
        /// Its text, without thinking.
        content: String,
        /// The tools that it calls, in order.
        tool_calls: Vec<ToolCall>,
    },
    /// A tool call begins.
    #[serde(rename = "tool.started")]
    ToolStarted(ToolCall),
    /// A tool call is over.
    #[serde(rename = "tool.finished")]
    ToolFinished {
        /// The call.
        call_id: String,
        /// The tool.
        name: String,
        /// How it went.
        status: ToolStatus,
        /// The text that entered the conversation.
        result: String,
        /// Null exactly where the status is `ok`.
        error: Option<String>,
    },
    /// Something an operator should know.
    #[serde(rename = "notice")]
    Notice {
        /// How much it matters.
        level: NoticeLevel,
        /// Who tells it.
        source: String,
        /// The text.
        message: String,
    },
    /// How the session works now; only when it changed.
    #[serde(rename = "status")]
    Status(Status),
    /// A run waits for an answer.
    #[serde(rename = "input.required")]
    InputRequired(InputRequired),
    /// It was answered, or nobody needs the answer any more.
    #[serde(rename = "input.resolved")]
    InputResolved {
        /// The input.
        input_id: String,
        /// The action, the label or the text; null where the run ended first.
        answer: Option<String>,
    },
    /// A command was carried out, or failed.
    #[serde(rename = "command.result")]
    CommandResult {
        /// The command as it was sent.
        command: String,
        /// What it said; null where it failed.
        message: Option<String>,
        /// Why it failed.
        error: Option<String>,
    },
    /// The session was saved, or was as saved already.
    #[serde(rename = "session.persisted")]
    SessionPersisted {
        /// SHA-256 of the stored bytes, lower-case hex.
        revision: String,
        /// Its messages, without those of the system.
        messages: u64,
        /// At what point.
        reason: SaveReason,
        /// Whether anything was written.
        changed: bool,
    },
    /// The session could not be saved.
    #[serde(rename = "session.persist_failed")]
    SessionPersistFailed {
        /// Why.
        error: AutomationError,
        /// At what point.
        reason: SaveReason,
    },
}

/// The record of a run after the event.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OfRun {
    /// The run.
    pub run: Box<Run>,
}

/// A tool call.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct ToolCall {
    /// Its id, unique in the session.
    pub call_id: String,
    /// The tool.
    pub name: String,
    /// What it is given.
    pub args: Value,
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ToolStatus {
    /// It did what it was asked for.
    Ok,
    /// It did not.
    Error,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum NoticeLevel {
    /// For whoever is curious.
    Info,
    /// Somebody should look.
    Warning,
    /// Something went wrong.
    Error,
}

/// Why a server ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum StopReason {
    /// A signal came.
    Signal,
    /// A controller asked for it.
    Request,
    /// The launcher died before it released the server.
    LauncherLost,
}

/// At what point a session is saved.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum SaveReason {
    /// The server began.
    Start,
    /// The tool results of a model call came in.
    Checkpoint,
    /// A run is over.
    Run,
    /// A command is over.
    Command,
    /// The server ends.
    Shutdown,
}

/// How the session works.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Status {
    /// The agent of the configuration.
    pub agent: Option<String>,
    /// The mode.
    pub mode: Option<String>,
    /// The provider.
    pub provider: Option<String>,
    /// The model.
    pub model: Option<String>,
    /// The model call of the run that answered last, from 1; 0 before the first.
    pub iteration: u64,
    /// Tokens of the conversation, where they are known.
    pub tokens_used: Option<u64>,
    /// Tokens of the model's context, where they are known.
    pub tokens_max: Option<u64>,
}

/// What is asked.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct InputRequired {
    /// Its id, unique in the session.
    pub input_id: String,
    /// Whether a question or an approval.
    pub kind: InputKind,
    /// The text.
    pub question: String,
    /// What can be chosen; empty for an approval and for free text.
    pub options: Vec<InputOption>,
    /// Whether several may be chosen.
    pub multi_select: bool,
    /// The tool that is to be approved.
    pub tool: Option<String>,
    /// What it would do, in full.
    pub detail: Option<String>,
    /// What `allow_session` would allow.
    pub pattern: Option<String>,
}

/// Whether a question or an approval.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum InputKind {
    /// A question of the model.
    Ask,
    /// An approval of a tool call.
    Confirm,
}

/// One choice.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct InputOption {
    /// Its name.
    pub label: String,
    /// What it means.
    pub description: String,
}
