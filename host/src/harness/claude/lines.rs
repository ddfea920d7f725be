//! Lines of a program's output, each of bounded size, whatever the program writes.

use tokio::io::{AsyncRead, AsyncReadExt};

/// A line, in bytes: as much as a frame may have, and more than the program writes.
const LINE_BYTES: usize = shared::limits::LINE_BYTES;
/// What is read at once, in bytes.
const READ_BYTES: usize = 64 * 1024;

/// What came.
#[derive(Debug, PartialEq, Eq)]
pub(in crate::harness) enum Read {
    /// A line, without its end.
    Line(Vec<u8>),
    /// A line that was too long; it is gone.
    TooLong,
    /// There is no more, or it cannot be read.
    End,
}

/// Reads lines. A call of [`Self::next`] may be dropped at any time and nothing is lost.
#[derive(Debug)]
pub(in crate::harness) struct Lines<R> {
    source: R,
    buffer: Vec<u8>,
    /// Bytes at the start of the buffer that hold no line end.
    searched: usize,
    is_skipping: bool,
    is_ended: bool,
}

impl<R: AsyncRead + Unpin> Lines<R> {
    pub(in crate::harness) fn new(source: R) -> Self {
        Self { source, buffer: Vec::new(), searched: 0, is_skipping: false, is_ended: false }
    }

    /// The next line.
    pub(in crate::harness) async fn next(&mut self) -> Read {
        loop {
            if let Some(end) = self.buffer[self.searched..].iter().position(|byte| *byte == b'\n') {
                let end = self.searched + end;
                let rest = self.buffer.split_off(end + 1);
                let mut line = std::mem::replace(&mut self.buffer, rest);
                self.searched = 0;
                line.pop();
                if std::mem::take(&mut self.is_skipping) || line.len() > LINE_BYTES {
                    return Read::TooLong;
                }
                return Read::Line(line);
            }
            self.searched = self.buffer.len();
            if self.searched > LINE_BYTES {
                self.is_skipping = true;
                self.buffer = Vec::new();
                self.searched = 0;
            }
            if self.is_ended {
                let line = std::mem::take(&mut self.buffer);
                self.searched = 0;
                return if line.is_empty() || self.is_skipping { Read::End } else { Read::Line(line) };
            }
            self.buffer.reserve(READ_BYTES);
            match self.source.read_buf(&mut self.buffer).await {
                Ok(0) | Err(_) => self.is_ended = true,
                Ok(_) => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn all(bytes: Vec<u8>) -> Vec<Read> {
        let mut lines = Lines::new(bytes.as_slice());
        let mut read = Vec::new();
        loop {
            let next = lines.next().await;
            if next == Read::End {
                return read;
            }
            read.push(next);
        }
    }

    #[tokio::test]
    async fn lines_end_where_they_end_and_the_last_may_lack_its_end() {
        let line = |text: &str| Read::Line(text.as_bytes().to_vec());
        assert_eq!(all(b"{}\n\na\nrest".to_vec()).await, [line("{}"), line(""), line("a"), line("rest")]);
        assert_eq!(all(Vec::new()).await, []);
    }

    #[tokio::test]
    async fn a_line_without_an_end_is_skipped_and_the_next_one_is_read() {
        let mut flood = vec![b'x'; 3 * LINE_BYTES];
        flood.extend_from_slice(b"\n{}\n");
        assert_eq!(all(flood).await, [Read::TooLong, Read::Line(b"{}".to_vec())]);
        assert_eq!(all(vec![b'x'; LINE_BYTES + 1]).await, []);
        assert_eq!(all(vec![b'x'; LINE_BYTES]).await, [Read::Line(vec![b'x'; LINE_BYTES])]);
    }
}
