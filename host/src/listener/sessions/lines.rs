//! Lines of a log as the listener looks at them, and as they go out: spliced into frames as they are.

use shared::entry::{Entry, is_transcript};
use shared::ids::FrameId;
use shared::line::{EncodedLine, LineError};
use shared::time::Timestamp;

use crate::log::Mark;

/// The entry that a line of that number holds, as the session host judges it too; `None` where it is damaged.
pub(crate) fn entry(number: u64, text: &str) -> Option<Entry> {
    Entry::of_line(number, text)
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
    use shared::limits;

    const USER: &str = r#"{"kind":"user","origin":{"connection":"6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb","name":"d"},"sequence":7,"submission":"s","text":"\"ended\" 🦀\u0000","timestamp":"2026-01-01T12:00:00.000Z"}"#;
    const ENDED: &str =
        r#"{"ended":"stopped","kind":"ended","sequence":8,"timestamp":"2026-01-01T12:00:00.000Z"}"#;

    #[test]
    fn a_line_goes_out_as_a_frame_that_a_client_reads() {
        let line = entry_frame(USER, Timestamp::from_milliseconds(1)).unwrap();
        let bytes = line.as_bytes();
        let frame = Frame::<ListenerBody>::from_line(&bytes[..bytes.len() - 1]).unwrap();
        assert_eq!(frame.body, ListenerBody::Entry(Box::new(entry(7, USER).unwrap())));
        assert!(bytes.len() - USER.len() < limits::LINE_BYTES - limits::ENTRY_BYTES);
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
    fn the_largest_and_deepest_line_fits_a_frame() {
        let nested = "[".repeat(limits::ENTRY_DEPTH - 1) + &"]".repeat(limits::ENTRY_DEPTH - 1);
        let start = format!(
            r#"{{"kind":"later","nested":{nested},"sequence":9,"timestamp":"2026-01-01T12:00:00.000Z","text":""#
        );
        let largest = format!("{start}{}\"}}", "x".repeat(limits::ENTRY_BYTES - start.len() - 2));
        assert!(entry(9, &largest).is_some());
        let line = entry_frame(&largest, Timestamp::from_milliseconds(1)).unwrap();
        let bytes = line.as_bytes();
        assert!(Frame::<ListenerBody>::from_line(&bytes[..bytes.len() - 1]).is_ok());
        assert_eq!(entry(9, &largest.replacen('x', "xx", 1)), None);
        assert_eq!(
            entry(9, &largest.replacen(&nested, &format!("[{nested}]"), 1).replacen("xx", "", 1)),
            None
        );
    }

    #[test]
    fn an_end_is_told_from_a_text_about_one() {
        assert!(is_ended(ENDED));
        assert!(!is_ended(USER));
    }
}
