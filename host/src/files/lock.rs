//! Exclusive locks that end with the process that holds them, and say who that is.

use std::fs::{File, OpenOptions};
use std::io::Read as _;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::fcntl::{Flock, FlockArg};

use super::{FilesError, open_if_there, open_private, system};

/// How long a writer waits for a lock: longer than a [`held`] probe keeps it, too short for a person to notice.
const PATIENCE: Duration = Duration::from_millis(200);
/// The pause between two tries within [`PATIENCE`].
const PAUSE: Duration = Duration::from_millis(5);
/// A pid and a line break fit well into this many bytes.
const HOLDER_BYTES: u64 = 32;

/// An exclusive lock that ends with the process, or when it is dropped.
#[derive(Debug)]
pub struct Lock {
    file: Flock<File>,
}

impl Lock {
    /// Takes the lock file at `path`, creating it, and writes our pid into it.
    ///
    /// # Errors
    /// [`FilesError::Held`] with the holder where another process has it.
    pub fn take(path: &Path) -> Result<Self, FilesError> {
        let file =
            open_private(path, OpenOptions::new().read(true).write(true).create(true).truncate(false))?;
        let file = exclusive(file, path, || written_holder(path))?;
        let lock = Self { file };
        let holder = format!("{}\n", std::process::id());
        lock.file
            .set_len(0)
            .and_then(|()| lock.file.write_all_at(holder.as_bytes(), 0))
            .map_err(system("write", path))?;
        Ok(lock)
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // The file stays, so that two processes never lock two files of one name; only our pid goes.
        let _ = self.file.set_len(0);
    }
}

/// Whether a process lives that holds a lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// A live process holds the lock.
    Live {
        /// Its pid, where it is known.
        holder: Option<u32>,
    },
    /// Nobody does, or there is no such file.
    Gone,
}

/// Says whether a live process holds the [`Lock`] at `path`, without disturbing it.
///
/// # Errors
/// [`FilesError`] where the file cannot be opened.
pub fn held(path: &Path) -> Result<Liveness, FilesError> {
    probe(path, || written_holder(path))
}

/// Locks `file`, or says who has it.
pub(crate) fn exclusive(
    mut file: File,
    path: &Path,
    holder: impl Fn() -> Option<u32>,
) -> Result<Flock<File>, FilesError> {
    let until = Instant::now() + PATIENCE;
    loop {
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(locked) => return Ok(locked),
            Err((back, Errno::EWOULDBLOCK | Errno::EINTR)) if Instant::now() < until => file = back,
            Err((_, Errno::EWOULDBLOCK)) => {
                return Err(FilesError::Held { path: path.to_path_buf(), holder: holder() });
            }
            Err((_, error)) => return Err(system("lock", path)(error.into())),
        }
        // A probe holds the lock for some microseconds, and a killed holder until the kernel has closed its files.
        std::thread::sleep(PAUSE);
    }
}

/// Says whether somebody holds the lock of the file at `path`.
pub(crate) fn probe(path: &Path, holder: impl Fn() -> Option<u32>) -> Result<Liveness, FilesError> {
    let Some(file) = open_if_there(path, OpenOptions::new().read(true))? else { return Ok(Liveness::Gone) };
    // Shared, so that two probes do not see each other.
    match Flock::lock(file, FlockArg::LockSharedNonblock) {
        Ok(_unlocked_when_dropped) => Ok(Liveness::Gone),
        Err((_, Errno::EWOULDBLOCK)) => Ok(Liveness::Live { holder: holder() }),
        Err((_, error)) => Err(system("lock", path)(error.into())),
    }
}

/// The pid that stands in the file at `path`, where it is one of a live process.
pub(crate) fn written_holder(path: &Path) -> Option<u32> {
    let mut text = String::new();
    open_private(path, OpenOptions::new().read(true))
        .ok()?
        .take(HOLDER_BYTES)
        .read_to_string(&mut text)
        .ok()?;
    let pid: i32 = text.trim().parse().ok().filter(|pid| *pid > 0)?;
    // A holder that was killed leaves its pid behind; a dead one is not named.
    let is_alive =
        !matches!(nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), None), Err(Errno::ESRCH));
    is_alive.then(|| pid.unsigned_abs())
}
