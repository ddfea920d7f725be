//! Where a conversation is kept: the engine saves after each step and knows nothing of files, leases or sessions.

use super::conversation::Conversation;
use crate::files::FilesError;

/// Keeps the conversation of one engine. It blocks: the engine calls it where blocking is allowed, and never twice at once.
pub trait Keeper: Send + Sync {
    /// Keeps the conversation as it is now; durable on return.
    ///
    /// # Errors
    /// [`SaveError`] where it could not be kept; then what was kept before stands.
    fn save(&self, conversation: &Conversation) -> Result<Saved, SaveError>;
}

/// What is kept now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// SHA-256 of the kept bytes, lower-case hex.
    pub revision: String,
    /// How many messages, without those of the system, each tool result counted as one.
    pub messages: u64,
    /// Whether anything was written; not where the same was kept already.
    pub changed: bool,
}

/// Why a conversation was not kept, for a person.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SaveError(pub String);

impl From<FilesError> for SaveError {
    fn from(error: FilesError) -> Self {
        Self(error.to_string())
    }
}
