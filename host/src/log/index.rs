//! A sparse index of a log: where each 64th line begins, and one bit a line for what is counted and what is damaged.

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
