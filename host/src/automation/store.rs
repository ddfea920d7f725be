//! The session store: one file a session, replaced as a whole, held by one process at a time (the contract's "Session store").

use std::path::{Path, PathBuf};

mod conversion;
mod document;
mod export;
mod files;
mod id;
mod lease;
mod live;
mod operations;
mod reading;
mod revision;
mod summary;

pub use document::{
    Described, Document, Head, Parent, StoredCall, StoredMessage, StoredStatus, Todo, TodoState,
};
pub use id::StoredId;
pub use live::{LiveSession, Saved};
pub use operations::{Fork, Import};
pub use revision::Revision;
pub use summary::{Exported, Forked, Frozen, Imported, Listing, Summary};

/// The largest file of a session, in bytes: more than any model's context, and what a machine can hold.
pub const SESSION_BYTES: u64 = 512 * 1024 * 1024;

/// The sessions below one write home.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Store {
    directory: PathBuf,
}

impl Store {
    /// The store of a write home; nothing is created.
    #[must_use]
    pub fn of(write_home: &Path) -> Self {
        Self { directory: write_home.join("sessions") }
    }

    /// The directory `sessions` itself.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// The file of a session.
    #[must_use]
    pub fn file(&self, id: &StoredId) -> PathBuf {
        self.directory.join(format!("{id}.json"))
    }

    /// The journal of a session, which its servers write.
    #[must_use]
    pub fn journal(&self, id: &StoredId) -> PathBuf {
        self.directory.join("journal").join(format!("{id}.jsonl"))
    }

    /// The directory of the lock files.
    fn locks(&self) -> PathBuf {
        self.directory.join(".locks")
    }
}

#[cfg(test)]
mod tests;
