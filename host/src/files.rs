//! Private files: created for their owner alone, read within bounds, replaced as a whole, locked by one process at a time.

use std::path::{Path, PathBuf};

/// Why a private file or directory cannot be used. Every sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum FilesError {
    /// Others can read or write it.
    #[error("{} can be read or written by others (mode {mode:04o}): run `{mend}`", path.display())]
    Exposed {
        /// The file or directory.
        path: PathBuf,
        /// Its permission bits.
        mode: u32,
        /// The command that mends it, quoted for the shell.
        mend: String,
    },
    /// It belongs to somebody else.
    #[error("{} belongs to another user (uid {owner}): run `{mend}`, or set AUDE_HOME to a directory of your own", path.display())]
    Foreign {
        /// The file or directory.
        path: PathBuf,
        /// The uid of its owner.
        owner: u32,
        /// The command that mends it, quoted for the shell.
        mend: String,
    },
    /// There is something else at the path.
    #[error("{} is not a {expected}: move it away", path.display())]
    WrongKind {
        /// The path.
        path: PathBuf,
        /// `directory` or `regular file`.
        expected: &'static str,
    },
    /// It is larger than anything that aude would have written there.
    #[error("{} is larger than {limit} bytes: move it away", path.display())]
    TooLarge {
        /// The file.
        path: PathBuf,
        /// The bound, in bytes.
        limit: u64,
    },
    /// Another process holds the lock.
    #[error("{} is in use by {}", path.display(), holder_phrase(*holder))]
    Held {
        /// The locked file.
        path: PathBuf,
        /// Its pid, where it is known.
        holder: Option<u32>,
    },
    /// The path of the socket is too long for the system.
    #[error("{} is too long for a socket ({length} bytes, at most {limit}): set AUDE_HOME to a shorter path", path.display())]
    SocketPath {
        /// The path.
        path: PathBuf,
        /// Its length, in bytes.
        length: usize,
        /// The bound, in bytes.
        limit: usize,
    },
    /// The system refused.
    #[error("cannot {action} {}: {source}", path.display())]
    System {
        /// What was tried, as a verb.
        action: &'static str,
        /// The file or directory.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
}

fn holder_phrase(holder: Option<u32>) -> String {
    holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}"))
}

/// Makes sure that `path` is a directory of ours that nobody else can read; creates it and its missing parents with mode 0700.
///
/// # Errors
/// [`FilesError`] where it cannot be created, is something else, or is open to others.
pub fn private_directory(path: &Path) -> Result<(), FilesError> {
    let _ = path;
    todo!()
}

/// Reads a private file of at most `limit` bytes; `None` where there is none.
///
/// # Errors
/// [`FilesError`] where it is too large, open to others, or cannot be read.
pub fn read_private(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FilesError> {
    let _ = (path, limit);
    todo!()
}

/// Replaces a private file as a whole: at any time, also after a crash, `path` holds all of the old or all of the new content. Durable on return.
///
/// # Errors
/// [`FilesError`] where it cannot be written; then the old content stands.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), FilesError> {
    let _ = (path, content);
    todo!()
}

/// An exclusive lock that ends with the process, or when it is dropped.
#[derive(Debug)]
pub struct Lock {
    _file: std::fs::File,
}

impl Lock {
    /// Takes the lock file at `path`, creating it, and writes our pid into it.
    ///
    /// # Errors
    /// [`FilesError::Held`] with the holder where another process has it.
    pub fn take(path: &Path) -> Result<Self, FilesError> {
        let _ = path;
        todo!()
    }
}

/// A path at which the system lets us bind or connect a Unix socket, also where the real path is too long for that.
#[derive(Debug)]
pub struct SocketAddress {
    path: PathBuf,
    _directory: Option<std::fs::File>,
}

impl SocketAddress {
    /// The address for the socket at `path`, whose directory must exist. Valid as long as the value lives.
    ///
    /// # Errors
    /// [`FilesError`] where the path is too long and the system has no way around.
    pub fn of(path: &Path) -> Result<Self, FilesError> {
        let _ = path;
        todo!()
    }

    /// What to give to bind or connect.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }
}

/// `path` as one word of a POSIX shell.
#[must_use]
pub fn shell_quoted(path: &Path) -> String {
    let _ = path;
    todo!()
}
