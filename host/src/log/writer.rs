//! The one writer of a log: holds its lock, repairs its tail, appends durable batches.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::Flock;

use super::index::judge;
use super::scan::{Found, Scanner};
use super::{Damage, LINE_LIMIT, LogError, Mark, holder_path};
use crate::files::{self, FilesError};

/// A log that was opened to write.
#[derive(Debug)]
pub struct Opened {
    /// The writer.
    pub writer: Writer,
    /// What was found wrong, and cut.
    pub damage: Damage,
}

/// The one writer of a log; the lock ends with it.
#[derive(Debug)]
pub struct Writer {
    path: PathBuf,
    appender: Appender<Flock<File>>,
}

impl Writer {
    /// Opens the log at `path` or creates it (its directory must exist), takes its lock, cuts an unfinished last line, gives every sound line
    /// (number, text) to `look`, and makes all of it durable.
    ///
    /// # Errors
    /// [`LogError::Held`] where another process writes it, or [`LogError::Files`].
    pub fn open(path: &Path, look: &mut dyn FnMut(u64, &str) -> Mark) -> Result<Opened, LogError> {
        let file = files::open_private(path, OpenOptions::new().read(true).append(true).create(true))?;
        let holder = holder_path(path);
        let file = files::exclusive(file, path, || files::written_holder(&holder)).map_err(|error| {
            if let FilesError::Held { path, holder } = error {
                LogError::Held { path, holder }
            } else {
                LogError::Files(error)
            }
        })?;
        let metadata = still_named(path, &file)?;
        files::write_private(&holder, format!("{}\n", std::process::id()).as_bytes())?;

        let scanned = file.try_clone().map_err(files::system("open", path))?;
        let mut scanner = Scanner::new(scanned, 0, metadata.len());
        let (mut lines, mut end, mut damage) = (0, 0, Damage::default());
        while let Some(found) = scanner.next().map_err(files::system("read", path))? {
            lines += 1;
            end += found.taken();
            let mark = match found {
                Found::Line(bytes) => judge(lines, bytes, look),
                Found::TooLong(_) => Mark::Damaged,
            };
            if mark == Mark::Damaged {
                damage.add(lines);
            }
        }
        damage.cut = metadata.len() - end;
        if damage.cut > 0 {
            file.set_len(end).map_err(files::system("repair", path))?;
        }
        // What a killed writer left may be in memory only; from here on everything in the file counts as durable.
        file.sync_all().map_err(files::system("sync", path))?;
        files::sync_parent(path)?;
        let appender = Appender { storage: file, end, lines, poison: None };
        Ok(Opened { writer: Self { path: path.to_path_buf(), appender }, damage })
    }

    /// Appends the lines with one write and one fdatasync. On return they are durable; gives the number of the last line.
    ///
    /// # Errors
    /// [`LogError::Unfit`] and [`LogError::Refused`] leave the log as it was; [`LogError::Poisoned`] ends this writer.
    pub fn append_batch(&mut self, lines: &[impl AsRef<[u8]>]) -> Result<u64, LogError> {
        self.appender.append(lines).map_err(|failure| match failure {
            Failure::Unfit(length) => LogError::Unfit { length },
            Failure::Refused(source) => LogError::Refused { path: self.path.clone(), source },
            Failure::Poisoned(reason) => LogError::Poisoned { path: self.path.clone(), reason },
        })
    }

    /// The number of the last durable line; 0 in an empty log.
    #[must_use]
    pub fn durable(&self) -> u64 {
        self.appender.lines
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // While the lock is still ours, so that no pid of a later writer is lost.
        let _ = std::fs::remove_file(holder_path(&self.path));
    }
}

/// Where the bytes go; a trait, so that tests can have a disk that fails at will.
trait Storage {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()>;
    fn sync(&mut self) -> std::io::Result<()>;
    fn truncate(&mut self, length: u64) -> std::io::Result<()>;
}

impl Storage for Flock<File> {
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        (&**self).write_all(bytes)
    }

    fn sync(&mut self) -> std::io::Result<()> {
        self.sync_data()
    }

    fn truncate(&mut self, length: u64) -> std::io::Result<()> {
        self.set_len(length)
    }
}

#[derive(Debug)]
enum Failure {
    Unfit(usize),
    Refused(std::io::Error),
    Poisoned(String),
}

/// Appends batches as a whole or not at all.
#[derive(Debug)]
struct Appender<S> {
    storage: S,
    end: u64,
    lines: u64,
    poison: Option<String>,
}

impl<S: Storage> Appender<S> {
    fn append(&mut self, lines: &[impl AsRef<[u8]>]) -> Result<u64, Failure> {
        if let Some(reason) = &self.poison {
            return Err(Failure::Poisoned(reason.clone()));
        }
        let mut batch = Vec::with_capacity(lines.iter().map(|line| line.as_ref().len() + 1).sum());
        for line in lines.iter().map(AsRef::as_ref) {
            let is_fit = !line.is_empty()
                && line.len() <= LINE_LIMIT
                && !line.contains(&b'\n')
                && std::str::from_utf8(line).is_ok();
            if !is_fit {
                return Err(Failure::Unfit(line.len()));
            }
            batch.extend_from_slice(line);
            batch.push(b'\n');
        }
        if batch.is_empty() {
            return Ok(self.lines);
        }
        if let Err(refused) = self.storage.append(&batch) {
            return Err(match self.take_back() {
                Ok(()) => Failure::Refused(refused),
                Err(failed) => self.poisoned(&format!(
                    "{refused}; and what had been written could not be taken back: {failed}"
                )),
            });
        }
        if let Err(failed) = self.storage.sync() {
            // After a failed sync the kernel may hold the bytes as clean though they never reached the disk. They are taken back, lest the next
            // writer believes them; but this one cannot know any more what is durable.
            let _ = self.take_back();
            return Err(self.poisoned(&failed.to_string()));
        }
        self.end += batch.len() as u64;
        self.lines += lines.len() as u64;
        Ok(self.lines)
    }

    fn take_back(&mut self) -> std::io::Result<()> {
        self.storage.truncate(self.end)?;
        self.storage.sync()
    }

    fn poisoned(&mut self, reason: &str) -> Failure {
        self.poison = Some(reason.to_owned());
        Failure::Poisoned(reason.to_owned())
    }
}

/// The metadata of the locked file, where the path still names it: between open and lock it may have been removed with its session.
fn still_named(path: &Path, file: &File) -> Result<std::fs::Metadata, LogError> {
    let ours = file.metadata().map_err(files::system("look at", path))?;
    let named = std::fs::metadata(path).map_err(files::system("look at", path))?;
    if (ours.dev(), ours.ino()) == (named.dev(), named.ino()) {
        Ok(ours)
    } else {
        Err(LogError::Changed { path: path.to_path_buf() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A disk in memory, which has room for `room` bytes and fails where it is told to.
    #[derive(Debug, Default)]
    struct Disk {
        content: Vec<u8>,
        room: usize,
        fails_to_sync: bool,
        fails_to_truncate: bool,
    }

    impl Storage for Disk {
        fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
            let fitting = bytes.len().min(self.room - self.content.len());
            self.content.extend_from_slice(&bytes[..fitting]);
            if fitting < bytes.len() { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(()) }
        }

        fn sync(&mut self) -> std::io::Result<()> {
            if self.fails_to_sync { Err(std::io::Error::other("the disk is gone")) } else { Ok(()) }
        }

        fn truncate(&mut self, length: u64) -> std::io::Result<()> {
            if self.fails_to_truncate {
                return Err(std::io::Error::other("read-only"));
            }
            self.content.truncate(usize::try_from(length).unwrap());
            Ok(())
        }
    }

    fn appender(room: usize) -> Appender<Disk> {
        Appender { storage: Disk { room, ..Disk::default() }, end: 0, lines: 0, poison: None }
    }

    #[test]
    fn a_full_disk_refuses_the_batch_as_a_whole_and_takes_the_next_that_fits() {
        let mut appender = appender(10);
        assert_eq!(appender.append(&["one"]).unwrap(), 1);
        assert!(matches!(appender.append(&["ab", "cd", "ef"]), Err(Failure::Refused(_))));
        assert_eq!(appender.storage.content, b"one\n");
        assert_eq!(appender.append(&["ab", "cd"]).unwrap(), 3);
        assert_eq!(appender.storage.content, b"one\nab\ncd\n");
    }

    #[test]
    fn a_batch_that_cannot_be_taken_back_poisons_the_writer() {
        let mut appender = appender(5);
        appender.storage.fails_to_truncate = true;
        assert!(matches!(appender.append(&["abcdef"]), Err(Failure::Poisoned(_))));
        appender.storage.fails_to_truncate = false;
        assert!(matches!(appender.append(&["a"]), Err(Failure::Poisoned(_))), "it stays poisoned");
    }

    #[test]
    fn a_failed_sync_poisons_the_writer_and_leaves_nothing_to_believe() {
        let mut appender = appender(100);
        appender.append(&["one"]).unwrap();
        appender.storage.fails_to_sync = true;
        let Err(Failure::Poisoned(reason)) = appender.append(&["two"]) else { panic!("taken") };
        assert!(reason.contains("the disk is gone"), "{reason}");
        assert_eq!((appender.storage.content.as_slice(), appender.lines), (b"one\n".as_slice(), 1));
    }

    #[test]
    fn what_cannot_be_a_line_is_refused_before_anything_is_written() {
        let mut appender = appender(100);
        for unfit in [b"".as_slice(), b"a\nb", b"\xff", &vec![b'x'; LINE_LIMIT + 1]] {
            assert!(
                matches!(appender.append(&[b"good", unfit]), Err(Failure::Unfit(length)) if length == unfit.len())
            );
        }
        assert_eq!(appender.append(&[] as &[&str]).unwrap(), 0);
        assert!(appender.storage.content.is_empty());
    }
}
