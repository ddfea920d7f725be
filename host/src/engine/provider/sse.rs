//! Server-sent events out of bytes that come in any pieces; what is kept is bounded.

/// Bytes of one event at most: a model's largest piece is far below, and a server without line ends must not fill the memory.
const EVENT_BYTES: usize = 4 * 1024 * 1024;

/// One event. Its other fields are nobody's here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Event {
    /// Its `data` lines.
    pub(super) data: String,
}

/// A stream that is none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(super) enum SseError {
    /// A line or an event without an end.
    #[error("an event is longer than 4 MiB")]
    TooLong,
    /// Bytes that are no text.
    #[error("a line is not UTF-8")]
    NotText,
}

/// Reads a stream.
#[derive(Debug, Default)]
pub(super) struct Reader {
    line: Vec<u8>,
    data: Option<String>,
    /// The last byte was a CR, so that a LF now ends nothing.
    after_return: bool,
    is_begun: bool,
}

impl Reader {
    /// The events that end in these bytes.
    ///
    /// # Errors
    /// [`SseError`]; the stream cannot be read on.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Result<Vec<Event>, SseError> {
        let mut events = Vec::new();
        for byte in bytes {
            let after_return = std::mem::replace(&mut self.after_return, *byte == b'\r');
            match byte {
                b'\n' if after_return => {}
                b'\n' | b'\r' => events.extend(self.end_line()?),
                byte => {
                    if self.line.len() >= EVENT_BYTES {
                        return Err(SseError::TooLong);
                    }
                    self.line.push(*byte);
                }
            }
        }
        Ok(events)
    }

    fn end_line(&mut self) -> Result<Option<Event>, SseError> {
        let line = std::mem::take(&mut self.line);
        let mut line = std::str::from_utf8(&line).map_err(|_| SseError::NotText)?;
        if !std::mem::replace(&mut self.is_begun, true) {
            line = line.strip_prefix('\u{feff}').unwrap_or(line);
        }
        if line.is_empty() {
            return Ok(self.data.take().map(|data| Event { data }));
        }
        let (field, value) = line.split_once(':').unwrap_or((line, ""));
        if field == "data" {
            let value = value.strip_prefix(' ').unwrap_or(value);
            let held = self.data.as_ref().map_or(0, String::len);
            if held + value.len() >= EVENT_BYTES {
                return Err(SseError::TooLong);
            }
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(pieces: &[&[u8]]) -> Result<Vec<String>, SseError> {
        let mut reader = Reader::default();
        let mut all = Vec::new();
        for piece in pieces {
            all.extend(reader.push(piece)?.into_iter().map(|event| event.data));
        }
        Ok(all)
    }

    #[test]
    fn data_lines_are_joined_and_everything_else_is_passed_over() {
        let text = b"\xef\xbb\xbfevent: x\ndata: a\ndata:b\n\n: comment\n\nid: 1\nretry: 5\ndata\n\nnonsense\ndata: open";
        assert_eq!(read(&[text]).unwrap(), ["a\nb", ""]);
    }

    #[test]
    fn every_end_of_a_line_ends_one() {
        assert_eq!(read(&[b"data: a\r\n\r\ndata: b\r\rdata: c\n\n"]).unwrap(), ["a", "b", "c"]);
        assert_eq!(read(&[b"data: a\r", b"\n\r", b"\ndata: b\n\n"]).unwrap(), ["a", "b"]);
    }

    #[test]
    fn a_stream_without_ends_is_refused() {
        let flood = vec![b'x'; EVENT_BYTES + 1];
        assert_eq!(read(&[&flood]), Err(SseError::TooLong));
        let mut reader = Reader::default();
        let line = format!("data: {}\n", "x".repeat(1024 * 1024));
        let refused = (0..8).find_map(|_| reader.push(line.as_bytes()).err());
        assert_eq!(refused, Some(SseError::TooLong));
        assert_eq!(read(&[b"data: \xff\n\n"]), Err(SseError::NotText));
    }

    proptest! {
        #[test]
        fn the_pieces_do_not_matter(cuts in prop::collection::vec(0_usize..60, 0..6)) {
            let whole = "data: aé\r\n\r\n: c\r\rdata: 🦀\ndata: x\n\nevent: y\ndata: z\r\n\r\n".as_bytes();
            let mut cuts: Vec<usize> = cuts.into_iter().map(|cut| cut.min(whole.len())).collect();
            cuts.extend([0, whole.len()]);
            cuts.sort_unstable();
            let pieces: Vec<&[u8]> = cuts.windows(2).map(|pair| &whole[pair[0]..pair[1]]).collect();
            prop_assert_eq!(read(&pieces).unwrap(), ["aé", "🦀\nx", "z"]);
        }
    }
}
