//! Walks over the lines of an open log in bounded memory: a line over the limit is passed over, never loaded.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::fs::FileExt as _;

use super::LINE_LIMIT;

/// Bytes read at once: a few hundred lines.
const CHUNK: usize = 64 * 1024;
/// A line buffer that grew beyond this is given back after use, so that one long line does not cost its size for ever.
const KEPT: usize = 256 * 1024;

/// One line, as it was found.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Found<'a> {
    /// A line within the limit, without its `\n`.
    Line(&'a [u8]),
    /// A line over the limit, with its length in bytes without `\n`.
    TooLong(u64),
}

impl Found<'_> {
    /// The bytes that the line takes in the file, with its `\n`.
    pub(crate) fn taken(&self) -> u64 {
        let length = match self {
            Found::Line(bytes) => bytes.len() as u64,
            Found::TooLong(length) => *length,
        };
        length + 1
    }
}

/// A walk over the lines between two offsets.
#[derive(Debug)]
pub(crate) struct Scanner {
    reader: BufReader<Section>,
    line: Vec<u8>,
}

impl Scanner {
    /// Begins at `offset`, where a line begins, and sees nothing at or after `end`.
    pub(crate) fn new(file: File, offset: u64, end: u64) -> Self {
        Self { reader: BufReader::with_capacity(CHUNK, Section { file, offset, end }), line: Vec::new() }
    }

    /// Allows to go on until `end`. What lies behind the old end was not read ahead: it may have been another text then.
    pub(crate) fn allow(&mut self, end: u64) {
        self.reader.get_mut().end = end;
    }

    /// The next line that has its `\n`; `None` where there is no more.
    pub(crate) fn next(&mut self) -> std::io::Result<Option<Found<'_>>> {
        if self.line.capacity() > KEPT {
            self.line = Vec::new();
        }
        self.line.clear();
        let longest = LINE_LIMIT as u64 + 1;
        self.reader.by_ref().take(longest).read_until(b'\n', &mut self.line)?;
        if self.line.last() == Some(&b'\n') {
            self.line.pop();
            return Ok(Some(Found::Line(&self.line)));
        }
        if (self.line.len() as u64) < longest {
            return Ok(None);
        }
        // Without a `\n` it is unfinished, however long.
        Ok(self.pass_rest()?.map(|rest| Found::TooLong(longest + rest - 1)))
    }

    /// Passes over one complete line without loading it; false where there is no more.
    pub(crate) fn skip(&mut self) -> std::io::Result<bool> {
        Ok(self.reader.skip_until(b'\n')? > 0)
    }

    /// Passes over the rest of a line, and gives its length in bytes with its `\n`; `None` where it has none.
    fn pass_rest(&mut self) -> std::io::Result<Option<u64>> {
        let mut passed = 0;
        loop {
            let buffer = self.reader.fill_buf()?;
            if buffer.is_empty() {
                return Ok(None);
            }
            let found = buffer.iter().position(|byte| *byte == b'\n');
            let taken = found.map_or(buffer.len(), |at| at + 1);
            self.reader.consume(taken);
            passed += taken as u64;
            if found.is_some() {
                return Ok(Some(passed));
            }
        }
    }
}

/// A part of a file, read by position, so that nothing but this walk moves it.
#[derive(Debug)]
struct Section {
    file: File,
    offset: u64,
    end: u64,
}

impl Read for Section {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let left = usize::try_from(self.end.saturating_sub(self.offset)).unwrap_or(usize::MAX);
        let wanted = buffer.len().min(left);
        let read = self.file.read_at(&mut buffer[..wanted], self.offset)?;
        self.offset += read as u64;
        Ok(read)
    }
}
