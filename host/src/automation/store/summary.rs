//! What the store's commands answer.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use shared::time::Timestamp;

use super::reading::Whole;
use super::{Head, Parent, Revision, StoredId};

/// A stored session in short.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Summary {
    /// Its id.
    pub id: StoredId,
    /// Its title.
    pub title: String,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its content changed last.
    pub updated_at: Timestamp,
    /// The SHA-256 of its file.
    pub revision: Revision,
    /// Its messages but the system's.
    pub messages: u64,
    /// Whether it can never change again.
    pub frozen: bool,
    /// What it was forked from.
    pub parent: Option<Parent>,
}

impl Summary {
    /// The summary of a session with this head.
    pub(super) fn new(head: &Head, messages: u64, revision: Revision) -> Self {
        Self {
            id: head.id.clone(),
            title: head.described.title.clone(),
            created_at: head.created_at,
            updated_at: head.updated_at,
            revision,
            messages,
            frozen: head.frozen,
            parent: head.parent.clone(),
        }
    }

    pub(super) fn of(read: &Whole) -> Self {
        Self::new(&read.head, read.counted, read.revision.clone())
    }
}

/// The answer of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listing {
    /// The sessions, that which changed last first.
    pub sessions: Vec<Summary>,
    /// A sentence for each file that is none.
    pub warnings: Vec<String>,
}

/// The answer of `import`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Imported {
    /// The session as it is stored.
    pub session: Summary,
    /// Whether this call stored it.
    pub created: bool,
    /// Whether this call froze it.
    pub frozen_now: bool,
    /// The SHA-256 of the file that was read.
    pub source_sha256: Revision,
}

/// The answer of `export`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Exported {
    /// The session.
    pub session: Summary,
    /// The file, absolute.
    pub path: String,
    /// The SHA-256 of the file: the session's revision.
    pub sha256: Revision,
    /// Whether this call wrote it.
    pub written: bool,
}

/// The answer of `fork`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Forked {
    /// The child as it is stored.
    pub session: Summary,
    /// The parent.
    pub parent: Summary,
    /// Whether this call made it.
    pub created: bool,
}

/// The answer of `freeze`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Frozen {
    /// The session.
    pub session: Summary,
    /// Whether this call froze it.
    pub changed: bool,
}
