//! What the engine needs of a model: one streaming call, aborted by dropping its receiver.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;
use shared::entry::Usage;
use tokio::sync::mpsc;

use super::conversation::Message;
use super::tools::ToolSpec;

mod http;
pub(in crate::engine) mod openai;
pub mod script;
mod sse;

/// Events of one model call that may wait for the engine: a model is read no faster than its words are passed on.
pub const MODEL_EVENTS: usize = 64;

/// A model behind some interface.
pub trait Provider: Send + Sync {
    /// The word of its type, as in `details.provider` of an error.
    fn name(&self) -> &'static str;

    /// The models that can be chosen; the first is taken where none is.
    fn models(&self) -> Vec<String>;

    /// Tokens of a model's context, where it is known by now.
    fn context_tokens(&self, _model: &str) -> Option<u64> {
        None
    }

    /// Begins one model call. The events end with [`ModelEvent::Done`] or [`ModelEvent::Failed`]; a channel that ends otherwise is a connection
    /// that broke. Dropping the receiver aborts the call. Needs a tokio runtime.
    fn call(&self, request: ModelRequest) -> mpsc::Receiver<ModelEvent>;
}

/// What a model is asked.
#[derive(Debug, Clone)]
pub struct ModelRequest {
    /// The model.
    pub model: String,
    /// What it is told beforehand; may be empty.
    pub instructions: Arc<str>,
    /// The tools that it may call.
    pub tools: Arc<Vec<ToolSpec>>,
    /// What was said so far; the last one is to be answered.
    pub messages: Arc<Vec<Message>>,
    /// Where the tools work.
    pub working_directory: PathBuf,
}

/// What comes of a model call.
#[derive(Debug, Clone, PartialEq)]
pub enum ModelEvent {
    /// More of a thought.
    Thinking(String),
    /// More of the text.
    Text(String),
    /// A tool call, whole.
    Call {
        /// The tool.
        name: String,
        /// What it is given.
        input: Value,
    },
    /// Tokens of the call.
    Usage(Usage),
    /// The call failed before anything of the answer had come, and is made again.
    Again {
        /// Why it failed.
        error: ModelError,
        /// When it is made again.
        after: Duration,
    },
    /// The answer is complete.
    Done,
    /// There will be no answer.
    Failed(ModelError),
}

/// Why a model did not answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{provider}: {message}{}", status.map(|status| format!(" (status {status})")).unwrap_or_default())]
pub struct ModelError {
    /// The type of the provider.
    pub provider: &'static str,
    /// What sort of fault it is.
    pub fault: Fault,
    /// The HTTP status, where there was one.
    pub status: Option<u16>,
    /// What the provider said, bounded.
    pub message: String,
    /// When it may be tried again, as the provider sees it.
    pub retry_after: Option<Duration>,
}

/// The sorts of faults, as the automation contract tells them apart.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It cannot be reached, or the connection broke.
    Network,
    /// It failed by itself.
    Server,
    /// Too much was asked of it in a time.
    RateLimit,
    /// It does not take our key.
    Auth,
    /// There is no credit left.
    Credit,
    /// It does not have the model.
    ModelUnavailable,
    /// It refuses to answer this.
    ContentFilter,
    /// The conversation is too long for it.
    ContextExhausted,
    /// Anything else.
    Internal,
}

impl Fault {
    /// The fault behind an HTTP status.
    #[must_use]
    pub fn of_status(status: u16) -> Self {
        match status {
            401 | 403 => Self::Auth,
            402 => Self::Credit,
            404 => Self::ModelUnavailable,
            408 => Self::Network,
            413 => Self::ContextExhausted,
            429 => Self::RateLimit,
            500..=599 => Self::Server,
            _ => Self::Internal,
        }
    }
}
