//! Reading a log without its lock: indexed from the front, then served from any line at the caller's speed.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard};

use super::index::{Index, judge};
use super::scan::{Found, Scanner};
use super::{Damage, LogError, Mark, Select};
use crate::files::{self, FilesError};

/// How far a reader may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Up to and with this line: what a live writer has said is durable.
    Line(u64),
    /// All complete lines within so many bytes: what [`super::sync`] has made durable.
    Byte(u64),
    /// All complete lines: nobody writes, and [`super::sync`] was called.
    End,
}

/// What is known about one log; cheap to keep (half a byte a line), grows with it. It holds no open file.
#[derive(Debug)]
pub struct Reader {
    path: PathBuf,
    index: Arc<RwLock<Index>>,
    identity: Option<Identity>,
}

impl Reader {
    /// A reader of the log at `path`, which has looked at nothing yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        Self { path: path.to_path_buf(), index: Arc::default(), identity: None }
    }

    /// Looks at the lines not yet seen, in order, and gives each sound one (number, text) to `look`, which says what it is.
    /// Returns the number of the last line seen. A log that does not exist yet has no lines.
    ///
    /// # Errors
    /// [`LogError::Changed`], [`LogError::Beyond`] where `through` names a line that is not there, or [`LogError::Files`].
    pub fn extend(
        &mut self,
        through: Through,
        look: &mut dyn FnMut(u64, &str) -> Mark,
    ) -> Result<u64, LogError> {
        let (last, bytes) = match through {
            Through::Line(number) => (number, u64::MAX),
            Through::Byte(bytes) => (u64::MAX, bytes),
            Through::End => (u64::MAX, u64::MAX),
        };
        let mut seen = self.lines();
        if seen < last {
            seen = self.look_further(last, bytes, look)?;
        }
        match through {
            Through::Line(asked) if asked > seen => {
                Err(LogError::Beyond { path: self.path.clone(), end: seen, asked })
            }
            Through::Line(_) | Through::Byte(_) | Through::End => Ok(seen),
        }
    }

    /// The number of the last line seen; 0 before the first.
    #[must_use]
    pub fn lines(&self) -> u64 {
        read(&self.index).lines()
    }

    /// The exact number of lines marked [`Mark::Counted`] after line `since`.
    #[must_use]
    pub fn counted_after(&self, since: u64) -> u64 {
        read(&self.index).counted_after(since)
    }

    /// What is damaged among the lines seen.
    #[must_use]
    pub fn damage(&self) -> Damage {
        read(&self.index).damage()
    }

    /// A cursor whose next line is the one after `since`. It opens the file and goes on seeing what [`Reader::extend`] adds.
    ///
    /// # Errors
    /// [`LogError::Beyond`] where `since` is past the lines seen, [`LogError::Changed`] or [`LogError::Files`].
    pub fn cursor(&self, since: u64) -> Result<Cursor, LogError> {
        let (found, end, lines) = {
            let index = read(&self.index);
            (index.seek(since), index.end(), index.lines())
        };
        let (offset, skip) =
            found.ok_or_else(|| LogError::Beyond { path: self.path.clone(), end: lines, asked: since })?;
        let scanner = match &self.identity {
            // Nothing was ever there, so nothing is to be read yet: the file is opened with the first line.
            None => None,
            Some(identity) => {
                let mut scanner = Scanner::new(identity.open(&self.path, end)?, offset, end);
                for _ in 0..skip {
                    if !scanner.skip().map_err(files::system("read", &self.path))? {
                        return Err(LogError::Changed { path: self.path.clone() });
                    }
                }
                Some(scanner)
            }
        };
        Ok(Cursor { path: self.path.clone(), index: Arc::clone(&self.index), scanner, position: since })
    }

    fn look_further(
        &mut self,
        last: u64,
        bytes: u64,
        look: &mut dyn FnMut(u64, &str) -> Mark,
    ) -> Result<u64, LogError> {
        let (mut seen, end) = {
            let index = read(&self.index);
            (index.lines(), index.end())
        };
        let file = match &self.identity {
            Some(identity) => identity.open(&self.path, end)?,
            None => match open(&self.path)? {
                Some(file) => file,
                None => return Ok(0),
            },
        };
        let metadata = file.metadata().map_err(files::system("look at", &self.path))?;
        self.identity = Some(Identity::of(&metadata));
        let mut scanner = Scanner::new(file, end, metadata.len().min(bytes));
        while seen < last {
            let Some(found) = scanner.next().map_err(files::system("read", &self.path))? else { break };
            let mark = match &found {
                Found::Line(bytes) => judge(seen + 1, bytes, look),
                Found::TooLong(_) => Mark::Damaged,
            };
            self.index.write().unwrap_or_else(PoisonError::into_inner).push(found.taken(), mark);
            seen += 1;
        }
        Ok(seen)
    }
}

/// One line of a log.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Its number, from 1.
    pub number: u64,
    /// Its text, without `\n`.
    pub text: String,
}

/// A place in a log from which one client is served.
#[derive(Debug)]
pub struct Cursor {
    path: PathBuf,
    index: Arc<RwLock<Index>>,
    scanner: Option<Scanner>,
    position: u64,
}

impl Cursor {
    /// The number of the last line that was read or skipped.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// The next sound lines that `select` wants, up to and with line `through` (or the last that the reader has seen), until they pass `budget` bytes.
    /// At least one line, where there is one; empty means that `through` is reached.
    ///
    /// # Errors
    /// [`LogError::Changed`] or [`LogError::Files`].
    pub fn read(&mut self, through: u64, budget: usize, select: Select) -> Result<Vec<Line>, LogError> {
        let (end, last) = {
            let index = read(&self.index);
            (index.end(), index.lines().min(through))
        };
        let mut lines = Vec::new();
        if self.position >= last {
            return Ok(lines);
        }
        let changed = || LogError::Changed { path: self.path.clone() };
        let scanner = match &mut self.scanner {
            Some(scanner) => scanner,
            None => self.scanner.insert(Scanner::new(open(&self.path)?.ok_or_else(changed)?, 0, end)),
        };
        scanner.allow(end);
        let mut size = 0;
        while self.position < last && size < budget {
            let number = self.position + 1;
            let stride = read(&self.index).stride(number).ok_or_else(changed)?;
            let is_wanted = match (stride.mark(number), select) {
                (Mark::Counted, Select::Every | Select::Counted) | (Mark::Plain, Select::Every) => true,
                (Mark::Plain, Select::Counted) | (Mark::Damaged, Select::Every | Select::Counted) => false,
            };
            if is_wanted {
                let found = scanner.next().map_err(files::system("read", &self.path))?;
                let Some(Found::Line(bytes)) = found else { return Err(changed()) };
                let text = String::from_utf8(bytes.to_vec()).map_err(|_| changed())?;
                size += text.len();
                lines.push(Line { number, text });
            } else if !scanner.skip().map_err(files::system("read", &self.path))? {
                return Err(changed());
            }
            self.position = number;
        }
        Ok(lines)
    }
}

/// Which file a path named when it was first opened: a log is appended to, never replaced.
#[derive(Debug, PartialEq, Eq)]
struct Identity {
    device: u64,
    inode: u64,
}

impl Identity {
    fn of(metadata: &std::fs::Metadata) -> Self {
        Self { device: metadata.dev(), inode: metadata.ino() }
    }

    /// Opens `path`, where it still is this file and holds at least `end` bytes.
    fn open(&self, path: &Path, end: u64) -> Result<File, LogError> {
        let changed = || LogError::Changed { path: path.to_path_buf() };
        let file = open(path)?.ok_or_else(changed)?;
        let metadata = file.metadata().map_err(files::system("look at", path))?;
        if Self::of(&metadata) == *self && metadata.len() >= end { Ok(file) } else { Err(changed()) }
    }
}

fn open(path: &Path) -> Result<Option<File>, FilesError> {
    files::open_if_there(path, OpenOptions::new().read(true))
}

fn read(index: &RwLock<Index>) -> RwLockReadGuard<'_, Index> {
    index.read().unwrap_or_else(PoisonError::into_inner)
}
