//! Bytes ⇄ lines: a byte stream of frames ended by `\n`, cut into plaintexts of Noise messages (wire §2).

use crate::limits;

/// A line that may not be read or sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// More than 8 MiB without `\n`: the fatal `line_too_long`.
    #[error("a line is longer than 8 MiB")]
    TooLong,
    /// More than 16 KiB before the `hello` line had ended: the fatal `unauthorised`, `no hello`.
    #[error("no hello came within its first 16 KiB")]
    NoHello,
    /// A line to send has a `\n` inside, so it would arrive as two.
    #[error("a line cannot hold a line break")]
    Broken,
}

/// Reads lines from plaintexts. It holds the one line that has not ended, never more than the limit and never more than came.
#[derive(Debug, Default)]
pub struct LineDecoder {
    open: Vec<u8>,
    /// What may still come before the `hello` line has ended, while that has not been accepted.
    hello_bytes: Option<usize>,
}

impl LineDecoder {
    /// A decoder of a peer whom we trust to send whole frames.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// A decoder of a stranger, who has 16,384 bytes to say `hello`, bad lines and line breaks included.
    #[must_use]
    pub fn awaiting_hello() -> Self {
        Self { open: Vec::new(), hello_bytes: Some(limits::HELLO_BYTES) }
    }

    /// Ends the limit of [`Self::awaiting_hello`]: the last line was an accepted `hello`.
    pub fn accept_hello(&mut self) {
        self.hello_bytes = None;
    }

    /// Takes from `plaintext` up to the end of a line and returns that line without its `\n`, or takes all of it and returns `None`.
    ///
    /// ```
    /// let mut lines = shared::line::LineDecoder::new();
    /// let mut plaintext: &[u8] = b"{}\n{\"a\":";
    /// assert_eq!(lines.read(&mut plaintext).unwrap().as_deref(), Some(&b"{}"[..]));
    /// assert_eq!(lines.read(&mut plaintext).unwrap(), None);
    /// let mut plaintext: &[u8] = b"1}\n";
    /// assert_eq!(lines.read(&mut plaintext).unwrap().as_deref(), Some(&b"{\"a\":1}"[..]));
    /// ```
    ///
    /// # Errors
    /// At the first byte beyond a limit. The link must then be closed.
    pub fn read(&mut self, plaintext: &mut &[u8]) -> Result<Option<Vec<u8>>, LineError> {
        let end = plaintext.iter().position(|byte| *byte == b'\n');
        let part = &plaintext[..end.unwrap_or(plaintext.len())];
        let taken = end.map_or(part.len(), |end| end + 1);
        if let Some(left) = &mut self.hello_bytes {
            *left = left.checked_sub(taken).ok_or(LineError::NoHello)?;
        }
        if self.open.len() + part.len() > limits::LINE_BYTES {
            return Err(LineError::TooLong);
        }
        self.open.extend_from_slice(part);
        *plaintext = &plaintext[taken..];
        Ok(end.map(|_| std::mem::take(&mut self.open)))
    }
}

/// A line with its `\n`, which can be cut into plaintexts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EncodedLine(Vec<u8>);

impl EncodedLine {
    /// Ends a line.
    ///
    /// # Errors
    /// When the peer would refuse it: it is too long or holds a line break.
    pub fn new(line: impl Into<Vec<u8>>) -> Result<Self, LineError> {
        let mut bytes = line.into();
        if bytes.len() > limits::LINE_BYTES {
            return Err(LineError::TooLong);
        }
        if bytes.contains(&b'\n') {
            return Err(LineError::Broken);
        }
        bytes.push(b'\n');
        Ok(Self(bytes))
    }

    /// The plaintexts, each of 1 to 65,519 bytes.
    pub fn chunks(&self) -> impl Iterator<Item = &[u8]> {
        self.0.chunks(limits::NOISE_PLAINTEXT_BYTES)
    }

    /// All bytes, with the `\n`.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}
