//! A session while it is used: held by this process, and saved at each checkpoint.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::conversion::{self, Kept};
use super::files::{Stamp, internal};
use super::lease::{Lease, Seen};
use super::operations::{exists, new_document};
use super::summary::Summary;
use super::{Described, Document, Head, Revision, Store, StoredId};
use crate::automation::error::{AutomationError, Code};
use crate::clock;
use crate::engine::conversation::Conversation;

/// A session that this process holds and saves.
#[derive(Debug)]
pub struct LiveSession {
    store: Store,
    id: StoredId,
    state: Mutex<State>,
    _lease: Lease,
}

/// What a save came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// The revision of the file.
    pub revision: Revision,
    /// Its messages but the system's.
    pub messages: u64,
    /// Whether anything was written; what is as it was, is not written again.
    pub changed: bool,
}

#[derive(Debug)]
struct State {
    /// What the next save writes; its time of change is the one of the file.
    head: Head,
    kept: Kept,
    /// The file as we left it.
    summary: Summary,
    stamp: Stamp,
    /// What a save wrote that failed in the end: it may stand there all the same.
    attempted: Option<Revision>,
}

impl Store {
    /// Creates a session, saves it, and holds it.
    ///
    /// # Errors
    /// `exists` where there is one, or the journal of a former one; `session_locked`, `internal`.
    pub fn begin(&self, id: StoredId) -> Result<(LiveSession, Conversation), AutomationError> {
        let look = || match self.open(&id)? {
            Some(_) => Err(exists(&format!("there is a session {id} already"))),
            None => Ok(Seen::Missing),
        };
        let make = |lease| {
            let document = new_document(id.clone(), Described::default(), Vec::new());
            self.write(&document)?;
            Ok(lease)
        };
        let lease = self.create_or(&id, look, make)?;
        self.hold(id.clone(), lease)
    }

    /// Opens a session to go on with it, and holds it.
    ///
    /// # Errors
    /// In this order: `not_found`, `session_locked`, `session_frozen`, `invalid_session`; `internal`.
    pub fn resume(&self, id: &StoredId) -> Result<(LiveSession, Conversation), AutomationError> {
        drop(self.open_existing(id)?);
        let lease = self.lease(id)?;
        self.hold(id.clone(), lease)
    }

    fn hold(&self, id: StoredId, lease: Lease) -> Result<(LiveSession, Conversation), AutomationError> {
        let mut opened = self.open_existing(&id)?;
        let (document, revision) = opened.document()?;
        if document.head.frozen {
            return Err(frozen(&id));
        }
        let (messages, kept) = conversion::for_engine(&document.messages);
        let summary = Summary::new(&document.head, document.counted(), revision);
        let state = State { head: document.head, kept, summary, stamp: opened.stamp()?, attempted: None };
        let conversation = Conversation::resumed(id.to_string(), messages);
        Ok((LiveSession { store: self.clone(), id, state: Mutex::new(state), _lease: lease }, conversation))
    }
}

impl LiveSession {
    /// Its id.
    #[must_use]
    pub fn id(&self) -> &StoredId {
        &self.id
    }

    /// The stored file, as it was saved last.
    #[must_use]
    pub fn summary(&self) -> Summary {
        self.state().summary.clone()
    }

    /// What describes it; the next save writes it.
    #[must_use]
    pub fn described(&self) -> Described {
        self.state().head.described.clone()
    }

    /// Changes what describes it. The next save writes it.
    pub fn describe(&self, change: impl FnOnce(&mut Described)) {
        change(&mut self.state().head.described);
    }

    /// Saves the conversation with what describes it; durable on return, and nothing is written where nothing changed. Blocks on the disk.
    ///
    /// # Errors
    /// `session_frozen`, `revision_mismatch` where somebody else changed the file in spite of the lease; `internal` where it cannot be written: then
    /// the next save writes everything.
    pub fn save(&self, conversation: &Conversation) -> Result<Saved, AutomationError> {
        let mut state = self.state();
        let messages = conversion::for_file(&conversation.messages(), &state.kept);
        let mut document = Document { head: state.head.clone(), messages };
        let is_ours = self.look(&mut state)?;
        let bytes = document.encode().map_err(|error| internal(&error))?;
        if is_ours && Revision::of(&bytes) == state.summary.revision {
            return Ok(saved(&state.summary, false));
        }
        // A clock that was set back must not make it older.
        document.head.updated_at = clock::now().max(state.head.updated_at);
        let bytes = super::operations::encoded(&document)?;
        let revision = Revision::of(&bytes);
        state.attempted = Some(revision.clone());
        self.store.replace(&self.id, &bytes)?;
        let stamp = self.store.open_existing(&self.id)?.stamp()?;
        state.summary = Summary::new(&document.head, document.counted(), revision);
        state.head = document.head;
        state.stamp = stamp;
        state.attempted = None;
        Ok(saved(&state.summary, true))
    }

    /// Whether the file is as we left it; not where it is gone, or a save failed at its very end: then it is to be written.
    fn look(&self, state: &mut State) -> Result<bool, AutomationError> {
        let Some(mut opened) = self.store.open(&self.id)? else { return Ok(false) };
        if opened.stamp()? == state.stamp && state.attempted.is_none() {
            return Ok(true);
        }
        let read = opened.scan()?;
        if read.head.frozen {
            return Err(frozen(&self.id));
        }
        if read.revision == state.summary.revision {
            state.stamp = opened.stamp()?;
            state.attempted = None;
            return Ok(true);
        }
        if state.attempted.as_ref() == Some(&read.revision) {
            return Ok(false);
        }
        let message = format!("another program changed the session {} while it was used here", self.id);
        Err(AutomationError::new(Code::RevisionMismatch, message))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        // A panic in the middle leaves it as the file was, or as it is.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn saved(summary: &Summary, changed: bool) -> Saved {
    Saved { revision: summary.revision.clone(), messages: summary.messages, changed }
}

fn frozen(id: &StoredId) -> AutomationError {
    let message =
        format!("the session {id} is frozen and can never change again: fork it, and go on with the fork");
    AutomationError::new(Code::SessionFrozen, message)
}
