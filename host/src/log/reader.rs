//! Reading a log without its lock: indexed from the front, then served from any line at the caller's speed.

use std::path::Path;

use super::{Damage, LogError, Mark, Select};

/// How far a reader may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Through {
    /// Up to and with this line: what a live writer has said is durable.
    Line(u64),
    /// All complete lines: nobody writes, and [`super::sync`] was called.
    End,
}

/// What is known about one log; cheap to keep (half a byte a line), grows with it. It holds no open file.
#[derive(Debug)]
pub struct Reader {}

impl Reader {
    /// A reader of the log at `path`, which has looked at nothing yet.
    #[must_use]
    pub fn new(path: &Path) -> Self {
        let _ = path;
        todo!()
    }

    /// Looks at the lines not yet seen, in order, and gives each sound one (number, text) to `look`, which says what it is.
    /// Returns the number of the last line seen.
    ///
    /// # Errors
    /// [`LogError::Changed`], [`LogError::Beyond`] where `through` names a line that is not there, or [`LogError::Files`].
    pub fn extend(
        &mut self,
        through: Through,
        look: &mut dyn FnMut(u64, &str) -> Mark,
    ) -> Result<u64, LogError> {
        let _ = (through, look);
        todo!()
    }

    /// The number of the last line seen; 0 before the first.
    #[must_use]
    pub fn lines(&self) -> u64 {
        todo!()
    }

    /// The exact number of lines marked [`Mark::Counted`] after line `since`.
    #[must_use]
    pub fn counted_after(&self, since: u64) -> u64 {
        let _ = since;
        todo!()
    }

    /// What is damaged among the lines seen.
    #[must_use]
    pub fn damage(&self) -> Damage {
        todo!()
    }

    /// A cursor whose next line is the one after `since`. It opens the file and goes on seeing what [`Reader::extend`] adds.
    ///
    /// # Errors
    /// [`LogError::Beyond`] where `since` is past the lines seen, [`LogError::Changed`] or [`LogError::Files`].
    pub fn cursor(&self, since: u64) -> Result<Cursor, LogError> {
        let _ = since;
        todo!()
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
pub struct Cursor {}

impl Cursor {
    /// The number of the last line that was read or skipped.
    #[must_use]
    pub fn position(&self) -> u64 {
        todo!()
    }

    /// The next sound lines that `select` wants, up to and with line `through` (or the last that the reader has seen), until they pass `budget` bytes.
    /// At least one line, where there is one; empty means that `through` is reached.
    ///
    /// # Errors
    /// [`LogError::Changed`] or [`LogError::Files`].
    pub fn read(&mut self, through: u64, budget: usize, select: Select) -> Result<Vec<Line>, LogError> {
        let _ = (through, budget, select);
        todo!()
    }
}
