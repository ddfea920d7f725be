//! Names and ids of removed sessions in `rc/retired.json`: nothing new may take their place (wire §8).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use shared::ids::SessionId;

use crate::files::{self, FilesError};

/// Hundreds of thousands of removed sessions, in bytes.
const RETIRED_BYTES: u64 = 64 * 1024 * 1024;

/// Why the list cannot be read or written.
#[derive(Debug, thiserror::Error)]
pub enum RetiredError {
    /// The file cannot be read or written, or others can read it.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The file is no such list.
    #[error("{} is not a list of retired sessions: {detail}; mend it or move it away", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        detail: String,
    },
}

/// What was removed.
#[derive(Debug, Clone)]
pub struct Retired {
    path: PathBuf,
    lists: Lists,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Lists {
    names: BTreeSet<String>,
    ids: BTreeSet<SessionId>,
}

impl Retired {
    /// Reads the list; one that is not there is empty.
    ///
    /// # Errors
    /// [`RetiredError`] where it cannot be read, is no list, or others can read it.
    pub fn read(path: &Path) -> Result<Self, RetiredError> {
        let lists = match files::read_private(path, RETIRED_BYTES)? {
            None => Lists::default(),
            Some(content) => serde_json::from_slice(&content).map_err(|error| RetiredError::Wrong {
                path: path.to_path_buf(),
                detail: error.to_string(),
            })?,
        };
        Ok(Self { path: path.to_path_buf(), lists })
    }

    /// Whether a session of that id was removed.
    #[must_use]
    pub fn has_id(&self, id: SessionId) -> bool {
        self.lists.ids.contains(&id)
    }

    /// Whether a session of that name was removed.
    #[must_use]
    pub fn has_name(&self, name: &str) -> bool {
        self.lists.names.contains(name)
    }

    /// Retires a session. Durable on return; on an error nothing has changed.
    ///
    /// # Errors
    /// [`RetiredError`] where the list cannot be written.
    pub fn add(&mut self, id: SessionId, name: &str) -> Result<(), RetiredError> {
        let mut lists = self.lists.clone();
        lists.ids.insert(id);
        lists.names.insert(name.to_owned());
        let content = serde_json::to_vec(&lists)
            .map_err(|error| RetiredError::Wrong { path: self.path.clone(), detail: error.to_string() })?;
        files::write_private(&self.path, &content)?;
        self.lists = lists;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_removed_stays_so() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("retired.json");
        let id = SessionId::random();
        Retired::read(&path).unwrap().add(id, "fix 🦀").unwrap();
        let again = Retired::read(&path).unwrap();
        assert!(again.has_id(id) && again.has_name("fix 🦀"));
        assert!(!again.has_id(SessionId::random()) && !again.has_name("fix"));
    }
}
