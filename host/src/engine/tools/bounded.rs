//! Output of any length in bounded memory: the beginning and the end are kept, the middle is counted.

use std::collections::VecDeque;

/// Output that keeps at most so many bytes.
#[derive(Debug)]
pub(super) struct Bounded {
    head: String,
    head_bytes: usize,
    tail: VecDeque<char>,
    tail_bytes: usize,
    tail_limit: usize,
    left_out: u64,
}

/// Room for the line that says what was left out.
const MARK_BYTES: usize = 64;

impl Bounded {
    /// An output whose text has at most `limit` bytes: three quarters for the beginning, the rest for the end, where errors are.
    pub(super) fn new(limit: usize) -> Self {
        let tail_limit = limit / 4;
        let head_bytes = limit.saturating_sub(tail_limit).saturating_sub(MARK_BYTES);
        Self {
            head: String::new(),
            head_bytes,
            tail: VecDeque::new(),
            tail_bytes: 0,
            tail_limit,
            left_out: 0,
        }
    }

    /// More output. Gives the part that found room at the beginning.
    pub(super) fn push<'a>(&mut self, text: &'a str) -> &'a str {
        let room = if self.tail_bytes == 0 { self.head_bytes.saturating_sub(self.head.len()) } else { 0 };
        let early = crate::text::cut(text, room);
        self.head.push_str(early);
        let late = text.get(early.len()..).unwrap_or_default();
        self.tail.extend(late.chars());
        self.tail_bytes += late.len();
        while self.tail_bytes > self.tail_limit {
            let Some(c) = self.tail.pop_front() else { break };
            self.tail_bytes -= c.len_utf8();
            self.left_out += u64::try_from(c.len_utf8()).unwrap_or_default();
        }
        early
    }

    /// The text, and how many bytes were left out of it.
    pub(super) fn finish(self) -> (String, u64) {
        let mut text = self.head;
        if self.left_out > 0 {
            text.push_str(&format!("\n… {} bytes left out …\n", self.left_out));
        }
        text.extend(self.tail);
        (text, self.left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_end_of_a_flood_is_kept() {
        let mut output = Bounded::new(1000);
        for number in 0..10_000 {
            output.push(&format!("{number}\n"));
        }
        let (text, left_out) = output.finish();
        assert!(text.starts_with("0\n1\n") && text.ends_with("\n9999\n"));
        assert!(left_out > 40_000 && text.len() <= 1000);
    }

    proptest! {
        #[test]
        fn all_is_kept_or_counted(pieces in prop::collection::vec(".{0,40}", 0..40), limit in 128_usize..600) {
            let mut output = Bounded::new(limit);
            for piece in &pieces {
                output.push(piece);
            }
            let whole = pieces.concat();
            let (text, left_out) = output.finish();
            prop_assert!(text.len() <= limit);
            if left_out == 0 {
                prop_assert_eq!(text, whole);
            } else {
                let mark = format!("\n… {left_out} bytes left out …\n");
                let (head, tail) = text.split_once(&mark).unwrap();
                prop_assert!(whole.starts_with(head) && whole.ends_with(tail));
                prop_assert_eq!(head.len() + tail.len() + usize::try_from(left_out).unwrap(), whole.len());
            }
        }
    }
}
