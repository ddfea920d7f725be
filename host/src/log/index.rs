//! A sparse index of a log: where each 64th line begins, and for each line one bit for what is counted and one for what is damaged.

use super::{Damage, LINE_LIMIT};

/// What the caller's look at a line found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mark {
    /// A line of the kind that is counted: a transcript entry.
    Counted,
    /// Any other sound line.
    Plain,
    /// Not what a line must be: it keeps its number and is never served.
    Damaged,
}

/// Which lines a reader wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// Every sound line.
    Every,
    /// Only those marked [`Mark::Counted`].
    Counted,
}

/// Lines in a stride: as many as a word has bits.
const STRIDE: u64 = 64;

/// 64 neighbouring lines, of which the last stride may have fewer.
#[derive(Debug, Clone, Copy)]
pub(super) struct Stride {
    /// Where its first line begins, in bytes.
    offset: u64,
    /// The counted lines before it.
    counted_before: u64,
    /// A bit for each of its lines that is counted.
    counted: u64,
    /// A bit for each of its lines that is damaged.
    damaged: u64,
}

impl Stride {
    /// What line `number`, which lies in this stride, was found to be.
    pub(super) fn mark(self, number: u64) -> Mark {
        let bit = bit_of(number);
        if self.damaged & bit != 0 {
            Mark::Damaged
        } else if self.counted & bit != 0 {
            Mark::Counted
        } else {
            Mark::Plain
        }
    }
}

/// The index: half a byte a line.
#[derive(Debug, Default)]
pub(super) struct Index {
    strides: Vec<Stride>,
    lines: u64,
    counted: u64,
    end: u64,
}

impl Index {
    /// The number of the last line.
    pub(super) fn lines(&self) -> u64 {
        self.lines
    }

    /// Where the next line begins, in bytes.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds the next line, which takes `length` bytes with its `\n`.
    pub(super) fn push(&mut self, length: u64, mark: Mark) {
        if self.lines.is_multiple_of(STRIDE) {
            self.strides.push(Stride {
                offset: self.end,
                counted_before: self.counted,
                counted: 0,
                damaged: 0,
            });
        }
        self.lines += 1;
        self.end += length;
        let bit = bit_of(self.lines);
        if let Some(stride) = self.strides.last_mut() {
            match mark {
                Mark::Counted => {
                    stride.counted |= bit;
                    self.counted += 1;
                }
                Mark::Plain => {}
                Mark::Damaged => stride.damaged |= bit,
            }
        }
    }

    /// The stride that line `number` lies in.
    pub(super) fn stride(&self, number: u64) -> Option<Stride> {
        (number > 0 && number <= self.lines)
            .then(|| self.strides.get(position(number - 1)).copied())
            .flatten()
    }

    /// The exact number of counted lines after line `since`.
    pub(super) fn counted_after(&self, since: u64) -> u64 {
        if since >= self.lines {
            return 0;
        }
        let before = self.strides.get(position(since)).map_or(0, |stride| {
            let mask = bit_of(since + 1) - 1;
            stride.counted_before + u64::from((stride.counted & mask).count_ones())
        });
        self.counted - before
    }

    /// Where to begin so as to reach the line after `since`: an offset in bytes, and the number of lines to skip from there.
    pub(super) fn seek(&self, since: u64) -> Option<(u64, u64)> {
        if since == self.lines {
            return Some((self.end, 0));
        }
        (since < self.lines)
            .then(|| self.strides.get(position(since)).map(|stride| (stride.offset, since % STRIDE)))
            .flatten()
    }

    /// The damaged lines.
    pub(super) fn damage(&self) -> Damage {
        let mut damage = Damage::default();
        for (first, stride) in (1..).step_by(64).zip(&self.strides).filter(|(_, stride)| stride.damaged != 0)
        {
            for number in first..first + STRIDE {
                if stride.damaged & bit_of(number) != 0 {
                    damage.add(number);
                }
            }
        }
        damage
    }
}

/// What a line is: damaged where its bytes cannot be a line, else what `look` says.
pub(super) fn judge(number: u64, bytes: &[u8], look: &mut dyn FnMut(u64, &str) -> Mark) -> Mark {
    if bytes.is_empty() || bytes.len() > LINE_LIMIT {
        return Mark::Damaged;
    }
    std::str::from_utf8(bytes).map_or(Mark::Damaged, |text| look(number, text))
}

fn bit_of(number: u64) -> u64 {
    1 << ((number - 1) % STRIDE)
}

fn position(lines_before: u64) -> usize {
    usize::try_from(lines_before / STRIDE).unwrap_or(usize::MAX)
}
