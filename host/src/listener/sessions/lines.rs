//! Lines of a log as the listener looks at them, and as they go out: spliced into frames as they are.

use shared::entry::{Entry, is_transcript};
use shared::ids::FrameId;
use shared::json;
use shared::limits;
use shared::line::{EncodedLine, LineError};
use shared::time::Timestamp;

use crate::log::Mark;

/// What a frame adds to the line that it carries, in bytes, rounded up.
const FRAME_BYTES: usize = 256;

/// The entry that a line of that number holds, as the session host judges it too; `None` where it is damaged.
pub(crate) fn entry(number: u64, text: &str) -> Option<Entry> {
    if text.len() > limits::LINE_BYTES - FRAME_BYTES {
        return None;
    }
    let object = json::read_object(text.as_bytes()).ok()?;
    let entry: Entry = serde_json::from_value(object.into()).ok()?;
    (entry.sequence == number).then_some(entry)
}

/// How the index counts an entry.
pub(crate) fn mark(entry: &Entry) -> Mark {
    if is_transcript(entry.event.kind()) { Mark::Counted } else { Mark::Plain }
}

/// The `entry` frame of a line that was judged sound.
///
/// # Errors
/// Never for such a line.
pub(crate) fn entry_frame(text: &str, now: Timestamp) -> Result<EncodedLine, LineError> {
    let id = FrameId::random();
    EncodedLine::new(format!(r#"{{"body":{text},"id":"{id}","timestamp":"{now}","type":"entry"}}"#))
}

/// Whether a sound line is an `ended` entry; reads only those that could be.
pub(crate) fn is_ended(text: &str) -> bool {
    text.contains("\"ended\"")
        && serde_json::from_str::<Entry>(text).is_ok_and(|entry| entry.event.kind() == "ended")
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::frame::{Frame, ListenerBody};

    const USER: &str = r#"{"kind":"user","origin":{"connection":"6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb","name":"d"},"sequence":7,"submission":"s","text":"\"ended\" 🦀\u0000","timestamp":"2026-01-01T12:00:00.000Z"}"#;
    const ENDED: &str =
        r#"{"ended":"stopped","kind":"ended","sequence":8,"timestamp":"2026-01-01T12:00:00.000Z"}"#;

    #[test]
    fn a_line_goes_out_as_a_frame_that_a_client_reads() {
        let line = entry_frame(USER, Timestamp::from_milliseconds(1)).unwrap();
        let bytes = line.as_bytes();
        let frame = Frame::<ListenerBody>::from_line(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(frame.body, ListenerBody::Entry(Box::new(entry(7, USER).unwrap())));
        assert!(bytes.len() - USER.len() < FRAME_BYTES);
    }

    #[test]
    fn a_line_at_the_wrong_place_or_with_a_field_twice_is_damaged() {
        assert!(entry(7, USER).is_some_and(|entry| mark(&entry) == Mark::Counted));
        assert!(entry(8, ENDED).is_some_and(|entry| mark(&entry) == Mark::Plain));
        assert_eq!(entry(8, USER), None);
        assert_eq!(entry(8, &ENDED.replace("\"kind\"", "\"ended\":\"refused\",\"kind\"")), None);
        for damaged in ["", "{}", "[]", "null", "{\"kind\":\"poem\"}", &ENDED[..40]] {
            assert_eq!(entry(8, damaged), None, "{damaged}");
        }
    }

    #[test]
    fn an_end_is_told_from_a_text_about_one() {
        assert!(is_ended(ENDED));
        assert!(!is_ended(USER));
    }
}
