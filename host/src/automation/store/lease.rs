//! Leases: one process holds a session, and who creates one that others want to create too, is first.

use std::time::{Duration, Instant};

use super::files::internal;
use super::{Store, StoredId};
use crate::automation::error::{AutomationError, Code};
use crate::files::{FilesError, Lock};

/// How long one waits for another process that holds a session which is not there yet: it is about to create it.
const CREATION: Duration = Duration::from_secs(5);

/// A session that this process holds; ends when it is dropped, and with the process.
#[derive(Debug)]
pub(super) struct Lease {
    _lock: Lock,
}

/// What is to be created, seen from one of several who want to.
pub(super) enum Seen<T> {
    /// It is there, and this is what comes of it.
    There(T),
    /// It is not there.
    Missing,
}

impl Store {
    /// Takes the lease of a session, and tidies what a former holder left. The lock file stays for ever, so that two processes never lock two
    /// files of one name.
    pub(super) fn lease(&self, id: &StoredId) -> Result<Lease, AutomationError> {
        self.prepare()?;
        let lock = match Lock::take(&self.locks().join(format!("{id}.lock"))) {
            Ok(lock) => lock,
            Err(FilesError::Held { holder, .. }) => {
                let holder =
                    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"));
                return Err(AutomationError::new(
                    Code::SessionLocked,
                    format!("the session {id} is held by {holder}"),
                ));
            }
            Err(FilesError::Foreign { path, owner, .. }) => {
                return Err(internal(&format!("{} belongs to another user (uid {owner})", path.display())));
            }
            Err(refused) => return Err(internal(&refused.to_string())),
        };
        self.tidy(id)?;
        Ok(Lease { _lock: lock })
    }

    /// Creates a session where it is missing: `look` says what comes of it where it is not, also when another process was faster.
    pub(super) fn create_or<T>(
        &self,
        id: &StoredId,
        mut look: impl FnMut() -> Result<Seen<T>, AutomationError>,
        make: impl FnOnce(Lease) -> Result<T, AutomationError>,
    ) -> Result<T, AutomationError> {
        let until = Instant::now() + CREATION;
        loop {
            if let Seen::There(found) = look()? {
                return Ok(found);
            }
            match self.lease(id) {
                Ok(lease) => {
                    if let Seen::There(found) = look()? {
                        return Ok(found);
                    }
                    self.refuse_left_journal(id)?;
                    return make(lease);
                }
                // Taking a lease waits a moment by itself.
                Err(held) if held.code == Code::SessionLocked && Instant::now() < until => {}
                Err(refused) => return Err(refused),
            }
        }
    }

    /// A new session under the id of one that was deleted would go on with its journal.
    fn refuse_left_journal(&self, id: &StoredId) -> Result<(), AutomationError> {
        let journal = self.journal(id);
        match std::fs::symlink_metadata(&journal) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(()),
            Err(error) => Err(internal(&format!("cannot look at {}: {error}", journal.display()))),
            Ok(_) => {
                let message = format!(
                    "the journal of a former session {id} is still there: move {} away",
                    journal.display()
                );
                Err(AutomationError::new(Code::Exists, message))
            }
        }
    }
}
