//! The files of the store: opened without following links, replaced as a whole, tidied of what a crash left.

use std::fs::{DirBuilder, File, OpenOptions};
use std::io::{ErrorKind, Seek as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::Path;

use nix::errno::Errno;
use nix::fcntl::OFlag;

use super::reading::{self, ReadError, Whole};
use super::{Document, Revision, Store, StoredId, StoredMessage};
use crate::automation::error::{AutomationError, Code};
use crate::files;

/// The bit of a directory's mode by which anybody may put files into it.
const OTHERS_WRITE: u32 = 0o002;
/// The bit that keeps them from replacing files of others.
const STICKY: u32 = 0o1000;

/// A file of the store that was opened; another one may stand at its path by now, this one stays what it is.
#[derive(Debug)]
pub(super) struct Opened {
    file: File,
    id: StoredId,
}

/// Which file it is, and whether it was touched since.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stamp {
    device: u64,
    inode: u64,
    bytes: u64,
    seconds: i64,
    nanoseconds: i64,
}

impl Opened {
    /// The session, without its messages.
    pub(super) fn scan(&mut self) -> Result<Whole, AutomationError> {
        self.read_with(|_| {})
    }

    /// The session, whole.
    pub(super) fn document(&mut self) -> Result<(Document, Revision), AutomationError> {
        let mut messages = Vec::new();
        let read = self.read_with(|message| messages.push(message))?;
        Ok((Document { head: read.head, messages }, read.revision))
    }

    /// The file itself, at its beginning.
    pub(super) fn bytes(&mut self) -> Result<&mut File, AutomationError> {
        self.file
            .rewind()
            .map_err(|error| internal(&format!("the session {} cannot be read: {error}", self.id)))?;
        Ok(&mut self.file)
    }

    pub(super) fn stamp(&self) -> Result<Stamp, AutomationError> {
        let metadata = self.file.metadata();
        let metadata = metadata
            .map_err(|error| internal(&format!("the session {} cannot be read: {error}", self.id)))?;
        Ok(Stamp {
            device: metadata.dev(),
            inode: metadata.ino(),
            bytes: metadata.len(),
            seconds: metadata.mtime(),
            nanoseconds: metadata.mtime_nsec(),
        })
    }

    fn read_with(&mut self, each: impl FnMut(StoredMessage)) -> Result<Whole, AutomationError> {
        let id = self.id.clone();
        let read = reading::stored(self.bytes()?, each).map_err(|error| refused(&id, &error))?;
        if read.head.id == id {
            return Ok(read);
        }
        Err(invalid(&id, &format!("it says that it is {}", read.head.id)))
    }
}

impl Store {
    /// Opens the file of a session; `None` where there is none.
    pub(super) fn open(&self, id: &StoredId) -> Result<Option<Opened>, AutomationError> {
        let path = self.file(id);
        // Never waits for a fifo, and follows no link: what is stored is here, and a link would be replaced by the next save.
        let opened = OpenOptions::new()
            .read(true)
            .custom_flags((OFlag::O_NOFOLLOW | OFlag::O_NONBLOCK).bits())
            .open(&path);
        let file = match opened {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) if error.raw_os_error() == Some(Errno::ELOOP as i32) => {
                return Err(invalid(id, "it is a symbolic link; put the file itself there"));
            }
            Err(error) => return Err(internal(&format!("cannot open {}: {error}", path.display()))),
        };
        match file.metadata() {
            Ok(metadata) if metadata.is_file() => Ok(Some(Opened { file, id: id.clone() })),
            Ok(_) => Err(invalid(id, "it is not a regular file")),
            Err(error) => Err(internal(&format!("cannot look at {}: {error}", path.display()))),
        }
    }

    /// Opens the file of a session that must be there.
    pub(super) fn open_existing(&self, id: &StoredId) -> Result<Opened, AutomationError> {
        self.open(id)?.ok_or_else(|| {
            let message = format!("there is no session {id} in {}", self.directory().display());
            AutomationError::new(Code::NotFound, message)
        })
    }

    /// Replaces the file of a session; durable on return. Only the holder of the lease may.
    pub(super) fn replace(&self, id: &StoredId, bytes: &[u8]) -> Result<(), AutomationError> {
        if u64::try_from(bytes.len()).is_ok_and(|length| length > super::SESSION_BYTES) {
            let message = format!("the session {id} would be larger than {} bytes", super::SESSION_BYTES);
            return Err(internal(&message));
        }
        files::write_private(&self.file(id), bytes).map_err(|error| internal(&error.to_string()))
    }

    /// Removes what a crash in the middle of a save left. Only the holder of the lease may: nobody else saves then.
    pub(super) fn tidy(&self, id: &StoredId) -> Result<(), AutomationError> {
        let prefix = format!(".{id}.json.");
        let entries = std::fs::read_dir(self.directory());
        let failed = |error| internal(&format!("cannot read {}: {error}", self.directory().display()));
        for entry in entries.map_err(failed)? {
            let name = entry.map_err(failed)?.file_name();
            let is_left = name.to_str().is_some_and(|name| {
                let middle = name.strip_prefix(&prefix).and_then(|rest| rest.strip_suffix(".new"));
                middle.is_some_and(|middle| {
                    middle.len() == 32 && middle.bytes().all(|byte| byte.is_ascii_hexdigit())
                })
            });
            if is_left {
                // One that cannot be removed is in nobody's way.
                let _ = std::fs::remove_file(self.directory().join(name));
            }
        }
        Ok(())
    }

    /// Makes the directories of the store where they are missing, and refuses one into which anybody may write.
    pub(super) fn prepare(&self) -> Result<(), AutomationError> {
        create(self.directory())?;
        let failed = |error| internal(&format!("cannot look at {}: {error}", self.directory().display()));
        let mode = std::fs::metadata(self.directory()).map_err(failed)?.mode();
        if mode & OTHERS_WRITE != 0 && mode & STICKY == 0 {
            let quoted = files::shell_quoted(self.directory());
            return Err(internal(&format!(
                "anybody may replace the files in {quoted}: run `chmod o-w {quoted}`"
            )));
        }
        create(&self.locks())
    }
}

/// Makes a directory and its missing parents, each durable.
fn create(path: &Path) -> Result<(), AutomationError> {
    if path.is_dir() {
        return Ok(());
    }
    if let Some(parent) = path.parent().filter(|parent| !parent.as_os_str().is_empty()) {
        create(parent)?;
    }
    match DirBuilder::new().mode(0o700).create(path) {
        Ok(()) => files::sync_parent(path).map_err(|error| internal(&error.to_string())),
        Err(_) if path.is_dir() => Ok(()),
        Err(error) => Err(internal(&format!("cannot create {}: {error}", path.display()))),
    }
}

fn refused(id: &StoredId, error: &ReadError) -> AutomationError {
    match error {
        ReadError::Invalid(why) => invalid(id, why),
        ReadError::System(error) => internal(&format!("the session {id} cannot be read: {error}")),
    }
}

pub(super) fn invalid(id: &StoredId, why: &str) -> AutomationError {
    AutomationError::new(Code::InvalidSession, format!("the file of {id} is no session: {why}"))
}

pub(super) fn internal(message: &str) -> AutomationError {
    AutomationError::new(Code::Internal, message)
}
