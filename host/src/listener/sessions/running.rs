//! The live text of the messages that are being written, kept for whoever joins in the middle of one: pure, bounded, no part of the log.

use shared::entry::{Event, Known};
use shared::frame::{Delta, DeltaKind};
use shared::ids::PartId;
use shared::json::cut;
use shared::kind::Open;
use shared::limits;

/// What is kept of all messages of a session together, in bytes; of a longer one, who joins sees the rest only.
const BYTES: usize = 256 * 1024;
/// Messages that are kept at one time; an agent writes one or a few.
const PARTS: usize = 32;

/// The messages without an entry, as far as they were told.
#[derive(Debug, Default)]
pub(super) struct Running {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    message: PartId,
    kind: Open<DeltaKind>,
    /// Everything from its beginning; none once that would have a gap or be too much.
    text: Option<String>,
}

impl Running {
    /// Takes live text, in order.
    pub(super) fn push(&mut self, delta: &Delta) {
        let kept: usize = self.parts.iter().filter_map(|part| part.text.as_ref()).map(String::len).sum();
        let of_it = |part: &Part| part.message == delta.message && part.kind == delta.kind;
        let index = self.parts.iter().position(of_it).unwrap_or_else(|| {
            if self.parts.len() >= PARTS {
                self.parts.remove(0);
            }
            let (message, kind) = (delta.message.clone(), delta.kind.clone());
            self.parts.push(Part { message, kind, text: Some(String::new()) });
            self.parts.len() - 1
        });
        let Some(part) = self.parts.get_mut(index) else { return };
        let is_next = part.text.as_ref().is_some_and(|text| text.len() as u64 == delta.offset);
        match &mut part.text {
            Some(text) if is_next && kept + delta.text.len() <= BYTES => text.push_str(&delta.text),
            // A beginning without what follows it would look like the whole.
            text => *text = None,
        }
    }

    /// Takes an entry of the log: it replaces the live text of its message.
    pub(super) fn see(&mut self, event: &Event) {
        let Event::Known(known) = event else { return };
        match known.as_ref() {
            Known::Assistant(entry) => self.replaced(&entry.message, DeltaKind::Assistant),
            Known::Thinking(entry) => self.replaced(&entry.message, DeltaKind::Thinking),
            Known::Result(entry) => self.replaced(&entry.call, DeltaKind::Tool),
            Known::Settled { .. } | Known::Began { .. } | Known::Ended { .. } => self.parts.clear(),
            Known::User(_)
            | Known::Tool(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Input(_)
            | Known::Resolved(_)
            | Known::Settings { .. }
            | Known::Status { .. }
            | Known::Gate { .. }
            | Known::Merged { .. } => {}
        }
    }

    fn replaced(&mut self, message: &PartId, kind: DeltaKind) {
        self.parts.retain(|part| part.message != *message || !part.kind.is(&kind));
    }

    /// What was told so far, from offset 0, in pieces that a frame takes.
    pub(super) fn told(&self) -> Vec<Delta> {
        let mut told = Vec::new();
        for part in &self.parts {
            let mut rest = part.text.as_deref().unwrap_or_default();
            let mut offset = 0;
            while !rest.is_empty() {
                let piece = cut(rest, limits::DELTA_BYTES);
                let (message, kind) = (part.message.clone(), part.kind.clone());
                told.push(Delta { message, kind, offset, text: piece.to_owned() });
                offset += piece.len() as u64;
                rest = rest.get(piece.len()..).unwrap_or_default();
            }
        }
        told
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use shared::entry::Entry;

    fn delta(message: &str, offset: usize, text: &str) -> Delta {
        let (message, kind) = (message.parse().unwrap(), DeltaKind::Assistant.into());
        Delta { message, kind, offset: offset as u64, text: text.to_owned() }
    }

    fn entry(mut value: Value) -> Event {
        value["sequence"] = json!(1);
        value["timestamp"] = json!("2026-01-01T12:00:00.000Z");
        serde_json::from_value::<Entry>(value).unwrap().event
    }

    fn told(running: &Running) -> Vec<(u64, String)> {
        running.told().into_iter().map(|delta| (delta.offset, delta.text)).collect()
    }

    #[test]
    fn what_was_told_is_told_again_from_its_beginning_until_its_entry_comes() {
        let mut running = Running::default();
        running.push(&delta("a", 0, "one "));
        running.push(&delta("b", 0, "other"));
        running.push(&delta("a", 4, "two"));
        assert_eq!(told(&running), [(0, "one two".to_owned()), (0, "other".to_owned())]);
        running.see(&entry(json!({"kind": "thinking", "message": "b", "text": "t"})));
        running.see(&entry(json!({"kind": "assistant", "message": "a", "text": "one two"})));
        assert_eq!(told(&running), [(0, "other".to_owned())]);
        running.see(&entry(json!({"kind": "ended", "ended": "stopped"})));
        assert!(told(&running).is_empty());
    }

    #[test]
    fn a_message_with_a_gap_or_beyond_the_bound_is_not_told_as_if_it_were_whole() {
        let mut running = Running::default();
        running.push(&delta("late", 7, "tail"));
        running.push(&delta("gap", 0, "one"));
        running.push(&delta("gap", 5, "x"));
        running.push(&delta("gap", 3, "y"));
        assert!(told(&running).is_empty());
        let piece = "é".repeat(limits::DELTA_BYTES / 2);
        for number in 0..BYTES / piece.len() {
            running.push(&delta("long", number * piece.len(), &piece));
        }
        assert_eq!(running.told().iter().map(|delta| delta.text.len()).sum::<usize>(), BYTES);
        assert!(running.told().iter().all(|delta| delta.text.len() <= limits::DELTA_BYTES));
        running.push(&delta("long", BYTES, "x"));
        assert!(told(&running).is_empty());
        for number in 0..2 * PARTS {
            running.push(&delta(&format!("p{number}"), 0, "x"));
        }
        assert_eq!(running.parts.len(), PARTS);
    }
}
