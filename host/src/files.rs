//! Private files: created for their owner alone, read within bounds, replaced as a whole, locked by one process at a time.

use std::fs::{DirBuilder, File, Metadata, OpenOptions};
use std::io::{Read as _, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

mod lock;
mod socket;

pub use lock::{Liveness, Lock, held};
pub(crate) use lock::{exclusive, probe, written_holder};
pub use socket::SocketAddress;

/// The permission bits of a directory of ours.
const DIRECTORY_MODE: u32 = 0o700;
/// The permission bits of a file of ours.
const FILE_MODE: u32 = 0o600;
/// The permission bits that anybody but the owner has.
const OTHERS: u32 = 0o077;

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
    match std::fs::metadata(path) {
        Ok(_) => {}
        Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => {
            DirBuilder::new()
                .recursive(true)
                .mode(DIRECTORY_MODE)
                .create(path)
                .map_err(system("create", path))?;
            sync_parent(path)?;
        }
        Err(source) => return Err(system("look at", path)(source)),
    }
    let metadata = std::fs::metadata(path).map_err(system("look at", path))?;
    if !metadata.is_dir() {
        return Err(FilesError::WrongKind { path: path.to_path_buf(), expected: "directory" });
    }
    refuse_exposed(path, &metadata, DIRECTORY_MODE)
}

/// Reads a private file of at most `limit` bytes; `None` where there is none.
///
/// # Errors
/// [`FilesError`] where it is too large, open to others, or cannot be read.
pub fn read_private(path: &Path, limit: u64) -> Result<Option<Vec<u8>>, FilesError> {
    let Some(file) = open_if_there(path, OpenOptions::new().read(true))? else { return Ok(None) };
    let mut content = Vec::new();
    // One byte more than allowed tells a file that is too large, also one that grows while we read.
    file.take(limit.saturating_add(1)).read_to_end(&mut content).map_err(system("read", path))?;
    if u64::try_from(content.len()).is_ok_and(|length| length > limit) {
        return Err(FilesError::TooLarge { path: path.to_path_buf(), limit });
    }
    Ok(Some(content))
}

/// Replaces a private file as a whole: at any time, also after a crash, `path` holds all of the old or all of the new content. Durable on return.
///
/// # Errors
/// [`FilesError`] where it cannot be written; then the old content stands.
pub fn write_private(path: &Path, content: &[u8]) -> Result<(), FilesError> {
    let temporary = temporary_beside(path);
    let written = write_new(&temporary, content)
        .and_then(|()| std::fs::rename(&temporary, path))
        .map_err(system("write", path));
    if written.is_err() {
        // Best effort: the failure that the caller hears about is the first one.
        let _ = std::fs::remove_file(&temporary);
    }
    written?;
    sync_parent(path)
}

/// `path` as one word of a POSIX shell.
#[must_use]
pub fn shell_quoted(path: &Path) -> String {
    let text = path.to_string_lossy();
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+,:@%".contains(c);
    if !text.is_empty() && text.chars().all(is_plain) {
        return text.into_owned();
    }
    format!("'{}'", text.replace('\'', r"'\''"))
}

/// Opens a file of ours; with `create` it gets mode 0600. Never waits for a fifo, and refuses what is not a private regular file.
pub(crate) fn open_private(path: &Path, options: &OpenOptions) -> Result<File, FilesError> {
    let file = options
        .clone()
        .mode(FILE_MODE)
        .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
        .open(path)
        .map_err(system("open", path))?;
    // The open file is asked, not the path: another one could stand there by now.
    let metadata = file.metadata().map_err(system("look at", path))?;
    if !metadata.is_file() {
        return Err(FilesError::WrongKind { path: path.to_path_buf(), expected: "regular file" });
    }
    refuse_exposed(path, &metadata, FILE_MODE)?;
    Ok(file)
}

/// As [`open_private`]; `None` where there is no file.
pub(crate) fn open_if_there(path: &Path, options: &OpenOptions) -> Result<Option<File>, FilesError> {
    match open_private(path, options) {
        Ok(file) => Ok(Some(file)),
        Err(FilesError::System { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(refused) => Err(refused),
    }
}

/// Makes the name of `path` itself durable.
pub(crate) fn sync_parent(path: &Path) -> Result<(), FilesError> {
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(parent).and_then(|directory| directory.sync_all()).map_err(system("sync", parent))
}

/// Turns what the system said about `path` into a sentence.
pub(crate) fn system(action: &'static str, path: &Path) -> impl Fn(std::io::Error) -> FilesError {
    let path = path.to_path_buf();
    move |source| FilesError::System { action, path: path.clone(), source }
}

fn refuse_exposed(path: &Path, metadata: &Metadata, wanted: u32) -> Result<(), FilesError> {
    let quoted = shell_quoted(path);
    if metadata.uid() != nix::unistd::geteuid().as_raw() {
        let mend = format!("sudo chown \"$(id -u)\" {quoted}");
        return Err(FilesError::Foreign { path: path.to_path_buf(), owner: metadata.uid(), mend });
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS != 0 {
        let mend = format!("chmod {wanted:o} {quoted}");
        return Err(FilesError::Exposed { path: path.to_path_buf(), mode, mend });
    }
    Ok(())
}

/// A name in the same directory, so that the rename stays within one file system; random, so that two writers never share one.
fn temporary_beside(path: &Path) -> PathBuf {
    let mut name = std::ffi::OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(format!(".{}.new", uuid::Uuid::new_v4().simple()));
    path.with_file_name(name)
}

fn write_new(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(FILE_MODE).open(path)?;
    file.write_all(content)?;
    file.sync_all()
}

#[cfg(test)]
mod tests;
