//! An append-only log of lines: one writer, durable batches, a torn tail repaired, and readers at their own speed.
//!
//! A line is any UTF-8 text without `\n`, numbered from 1 without gaps. What it means is the caller's: sessions and the automation journal both keep
//! one JSON object in each. Everything here blocks; asynchronous callers use a blocking task.

use std::fs::OpenOptions;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use crate::files;

mod index;
mod reader;
mod scan;
mod writer;

pub use crate::files::Liveness;
pub use index::{Mark, Select};
pub use reader::{Cursor, Line, Reader, Through};
pub(crate) use scan::{Found, Scanner};
pub use writer::{Opened, Writer};

/// The longest line, in bytes without `\n`: an entry that a frame can carry (wire §2).
pub const LINE_LIMIT: usize = shared::limits::ENTRY_BYTES;

/// Why a log cannot be written or read.
#[derive(Debug, thiserror::Error)]
pub enum LogError {
    /// Another process is the writer.
    #[error("{} is being written by {}", path.display(), holder.map_or_else(|| "another process".to_owned(), |pid| format!("process {pid}")))]
    Held {
        /// The log.
        path: PathBuf,
        /// The pid of the writer, where it is known.
        holder: Option<u32>,
    },
    /// A line that cannot be appended: it has a line break, is empty or is too long. Nothing was written.
    #[error(
        "a line of {length} bytes cannot be logged: it must be 1 to {LINE_LIMIT} bytes of UTF-8 without a line break"
    )]
    Unfit {
        /// Its length in bytes.
        length: usize,
    },
    /// The batch could not be written; the log is as if it had never been, and the next batch may be tried.
    #[error("cannot write to {}: {source}: make room on the disk, then try again", path.display())]
    Refused {
        /// The log.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A failure left unknown what is on the disk: this writer takes no more, and a new one must open the log.
    #[error("{} can no longer be written, because the disk failed: {reason}", path.display())]
    Poisoned {
        /// The log.
        path: PathBuf,
        /// What failed first.
        reason: String,
    },
    /// The file is not what was indexed: another hand replaced or shortened it.
    #[error("{} was changed by another hand: open it anew", path.display())]
    Changed {
        /// The log.
        path: PathBuf,
    },
    /// A line was asked for that the log does not hold.
    #[error("{} ends at line {end}, before line {asked}", path.display())]
    Beyond {
        /// The log.
        path: PathBuf,
        /// Its last line.
        end: u64,
        /// What was asked for.
        asked: u64,
    },
    /// Open to others, not a file, or the like.
    #[error(transparent)]
    Files(#[from] crate::files::FilesError),
}

/// What was found wrong with a log; the host says it once with a `notice`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Damage {
    /// The number of bytes of an unfinished last line that the writer cut.
    pub cut: u64,
    /// The lines that keep their number and are never served, in rising order, neighbours joined. At most [`DAMAGE_LISTED`] ranges.
    pub lines: Vec<RangeInclusive<u64>>,
    /// The number of damaged lines, also of those that are not listed.
    pub count: u64,
}

/// The most ranges of damaged lines that are listed by number: a person needs a few, memory needs a bound.
pub const DAMAGE_LISTED: usize = 64;

impl Damage {
    /// Says which lines are damaged; `None` where none is. The same damage gives the same sentence, so a notice of it can be recognised.
    #[must_use]
    pub fn lines_sentence(&self) -> Option<String> {
        let named = self.lines.iter().map(|range| match (range.start(), range.end()) {
            (first, last) if first == last => first.to_string(),
            (first, last) => format!("{first}–{last}"),
        });
        let mut named: Vec<String> = named.collect();
        if self.lines.iter().map(|range| range.end() - range.start() + 1).sum::<u64>() < self.count {
            named.push("others".to_owned());
        }
        let last = named.pop()?;
        let list = if named.is_empty() { last } else { format!("{} and {last}", named.join(", ")) };
        Some(if self.count == 1 {
            format!("Line {list} of this log is damaged and is left out.")
        } else {
            format!("Lines {list} of this log are damaged and are left out.")
        })
    }

    /// Says that an unfinished last line was cut; `None` where none was.
    #[must_use]
    pub fn cut_sentence(&self) -> Option<String> {
        (self.cut > 0).then(|| {
            format!(
                "An unfinished last line of {} bytes was cut from this log; it had never been acknowledged.",
                self.cut
            )
        })
    }

    /// Adds the next damaged line.
    fn add(&mut self, number: u64) {
        self.count += 1;
        if let Some(last) = self.lines.last_mut().filter(|last| last.end() + 1 == number) {
            *last = *last.start()..=number;
        } else if self.lines.len() < DAMAGE_LISTED {
            self.lines.push(number..=number);
        }
    }
}

/// Says whether a live process holds the log at `path`, without disturbing it.
///
/// # Errors
/// [`LogError::Files`] where the file cannot be opened.
pub fn locked(path: &Path) -> Result<Liveness, LogError> {
    let holder = holder_path(path);
    Ok(files::probe(path, || files::written_holder(&holder))?)
}

/// Makes durable what is in a log, and gives how many bytes that were, all of which may be served. A log that does not exist is left so.
///
/// # Errors
/// [`LogError::Files`] where the system refuses.
pub fn sync(path: &Path) -> Result<u64, LogError> {
    let Some(file) = files::open_if_there(path, OpenOptions::new().read(true))? else { return Ok(0) };
    // Before the sync: what a live writer appends meanwhile is not known to be durable.
    let length = file.metadata().map_err(files::system("look at", path))?.len();
    file.sync_data().map_err(files::system("sync", path))?;
    Ok(length)
}

/// Beside the log stands the pid of its writer; the log itself has room for lines only.
fn holder_path(path: &Path) -> PathBuf {
    path.with_extension("holder")
}

#[cfg(test)]
mod tests;
