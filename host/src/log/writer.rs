//! The one writer of a log: holds its lock, repairs its tail, appends durable batches.

use std::path::Path;

use super::{Damage, LogError, Mark};

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
pub struct Writer {}

impl Writer {
    /// Opens the log at `path` or creates it (its directory must exist), takes its lock, cuts an unfinished last line, gives every sound line
    /// (number, text) to `look`, and makes all of it durable.
    ///
    /// # Errors
    /// [`LogError::Held`] where another process writes it, or [`LogError::Files`].
    pub fn open(path: &Path, look: &mut dyn FnMut(u64, &str) -> Mark) -> Result<Opened, LogError> {
        let _ = (path, look);
        todo!()
    }

    /// Appends the lines with one write and one fdatasync. On return they are durable; gives the number of the last line.
    ///
    /// # Errors
    /// [`LogError::Unfit`] and [`LogError::Refused`] leave the log as it was; [`LogError::Poisoned`] ends this writer.
    pub fn append_batch(&mut self, lines: &[Vec<u8>]) -> Result<u64, LogError> {
        let _ = lines;
        todo!()
    }

    /// The number of the last durable line; 0 in an empty log.
    #[must_use]
    pub fn durable(&self) -> u64 {
        todo!()
    }
}
