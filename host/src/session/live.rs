//! Live text on its way to the listener: gathered by message, cut into small pieces, and given up rather than waited for.

use shared::frame::{Delta, DeltaKind};
use shared::ids::PartId;
use shared::json::cut;
use shared::limits;

/// Unsent text of one message, in bytes; what comes beyond it while the link is slow is lost, which the next offset shows.
const UNSENT_BYTES: usize = 64 * 1024;
/// Messages that are written at one time; an agent writes one or a few.
const PARTS: usize = 32;

/// The live text that was not sent yet.
#[derive(Debug, Default)]
pub(super) struct Live {
    parts: Vec<Part>,
}

#[derive(Debug)]
struct Part {
    message: PartId,
    kind: DeltaKind,
    /// Where `unsent` begins in the message, in bytes.
    offset: u64,
    unsent: String,
}

impl Live {
    /// Adds text to the end of a message.
    pub(super) fn push(&mut self, message: PartId, kind: DeltaKind, text: &str) {
        let known = self.parts.iter().position(|part| part.message == message && part.kind == kind);
        let index = known.unwrap_or_else(|| {
            if self.parts.len() >= PARTS {
                self.parts.remove(0);
            }
            self.parts.push(Part { message, kind, offset: 0, unsent: String::new() });
            self.parts.len() - 1
        });
        let part = &mut self.parts[index];
        part.unsent.push_str(text);
        if part.unsent.len() > UNSENT_BYTES {
            part.offset += part.unsent.len() as u64;
            part.unsent.clear();
        }
    }

    /// The next piece, of at most [`limits::DELTA_BYTES`].
    pub(super) fn take(&mut self) -> Option<Delta> {
        let part = self.parts.iter_mut().find(|part| !part.unsent.is_empty())?;
        let rest = part.unsent.split_off(cut(&part.unsent, limits::DELTA_BYTES).len());
        let text = std::mem::replace(&mut part.unsent, rest);
        let offset = part.offset;
        part.offset += text.len() as u64;
        Some(Delta { message: part.message.clone(), kind: part.kind.into(), offset, text })
    }

    /// Whether anything waits to be sent.
    pub(super) fn is_empty(&self) -> bool {
        self.parts.iter().all(|part| part.unsent.is_empty())
    }

    /// The entry of a message is in the log, which replaces its live text.
    pub(super) fn replaced(&mut self, message: &PartId, kind: DeltaKind) {
        self.parts.retain(|part| part.message != *message || part.kind != kind);
    }

    /// The turn is over, and with it all that was being written.
    pub(super) fn clear(&mut self) {
        self.parts.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(text: &str) -> PartId {
        text.parse().unwrap()
    }

    #[test]
    fn text_is_gathered_by_message_and_cut_between_characters() {
        let mut live = Live::default();
        live.push(part("a"), DeltaKind::Assistant, "h");
        live.push(part("b"), DeltaKind::Tool, "out");
        live.push(part("a"), DeltaKind::Assistant, &"é".repeat(limits::DELTA_BYTES / 2));
        let first = live.take().unwrap();
        assert_eq!((first.offset, first.text.len()), (0, limits::DELTA_BYTES - 1));
        let second = live.take().unwrap();
        assert_eq!((second.offset, second.text.as_str()), (limits::DELTA_BYTES as u64 - 1, "é"));
        assert_eq!(live.take().unwrap().text, "out");
        assert!(live.take().is_none() && live.is_empty());
        live.push(part("b"), DeltaKind::Tool, "more");
        assert_eq!(live.take().unwrap().offset, 3);
    }

    #[test]
    fn what_is_lost_shows_in_the_next_offset() {
        let mut live = Live::default();
        live.push(part("a"), DeltaKind::Assistant, &"x".repeat(UNSENT_BYTES + 1));
        live.push(part("a"), DeltaKind::Assistant, "y");
        let delta = live.take().unwrap();
        assert_eq!((delta.offset, delta.text.as_str()), (UNSENT_BYTES as u64 + 1, "y"));
    }

    #[test]
    fn an_entry_replaces_the_live_text_of_its_message_alone() {
        let mut live = Live::default();
        live.push(part("a"), DeltaKind::Thinking, "hm");
        live.push(part("a"), DeltaKind::Assistant, "hi");
        live.replaced(&part("a"), DeltaKind::Thinking);
        assert_eq!(live.take().unwrap().text, "hi");
        live.replaced(&part("a"), DeltaKind::Assistant);
        live.push(part("a"), DeltaKind::Assistant, "again");
        assert_eq!(live.take().unwrap().offset, 0);
        for number in 0..100 {
            live.push(part(&format!("p{number}")), DeltaKind::Tool, "x");
        }
        assert_eq!(live.parts.len(), PARTS);
        live.clear();
        assert!(live.is_empty());
    }
}
