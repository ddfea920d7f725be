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

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn read_all(
        decoder: &mut LineDecoder,
        mut plaintext: &[u8],
        lines: &mut Vec<Vec<u8>>,
    ) -> Result<(), LineError> {
        while let Some(line) = decoder.read(&mut plaintext)? {
            lines.push(line);
        }
        assert!(plaintext.is_empty());
        Ok(())
    }

    #[test]
    fn after_hello_a_line_may_be_long_and_what_came_with_it_is_kept() {
        let mut decoder = LineDecoder::awaiting_hello();
        let mut plaintext: Vec<u8> = b"hello\n".to_vec();
        plaintext.resize(limits::HELLO_BYTES * 3, b'a');
        plaintext.push(b'\n');
        let mut rest = plaintext.as_slice();
        assert_eq!(decoder.read(&mut rest), Ok(Some(b"hello".to_vec())));
        decoder.accept_hello();
        assert_eq!(decoder.read(&mut rest).unwrap().unwrap().len(), limits::HELLO_BYTES * 3 - 6);
    }

    #[test]
    fn memory_grows_with_what_came_only() {
        let mut decoder = LineDecoder::new();
        read_all(&mut decoder, b"{\"a\":", &mut Vec::new()).unwrap();
        assert!(decoder.open.capacity() < 100);
        read_all(&mut decoder, b"1}\n", &mut Vec::new()).unwrap();
        assert_eq!(decoder.open.capacity(), 0);
    }

    #[test]
    fn a_line_that_would_arrive_as_two_is_not_sent() {
        assert_eq!(EncodedLine::new("{\n}"), Err(LineError::Broken));
        assert_eq!(EncodedLine::new(vec![b'a'; limits::LINE_BYTES + 1]), Err(LineError::TooLong));
    }

    proptest! {
        #[test]
        fn lines_come_out_as_they_went_in(
            texts in prop::collection::vec("[^\n]{0,40}", 0..20),
            sizes in prop::collection::vec(0_usize..30, 1..20),
        ) {
            let mut stream = Vec::new();
            for text in &texts {
                stream.extend_from_slice(EncodedLine::new(text.as_str()).unwrap().as_bytes());
            }
            let mut decoder = LineDecoder::new();
            let mut lines = Vec::new();
            let mut sizes = sizes.into_iter().chain([1]).cycle();
            let mut rest = stream.as_slice();
            while !rest.is_empty() {
                let (part, later) = rest.split_at(sizes.next().unwrap().min(rest.len()));
                read_all(&mut decoder, part, &mut lines).unwrap();
                rest = later;
            }
            let expected: Vec<_> = texts.into_iter().map(String::into_bytes).collect();
            prop_assert_eq!(lines, expected);
        }
    }
}
