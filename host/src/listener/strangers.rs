//! Port links that have not said `hello`: at most eight, the earliest makes room (wire §9).

use std::collections::VecDeque;

use shared::limits;

/// The strangers in the order in which they came, as a pure machine.
#[derive(Debug)]
pub(crate) struct Strangers<T> {
    waiting: VecDeque<(u64, T)>,
    last: u64,
}

impl<T> Default for Strangers<T> {
    fn default() -> Self {
        Self { waiting: VecDeque::new(), last: 0 }
    }
}

impl<T> Strangers<T> {
    /// One more comes; gives its number, and the one that has to go for it.
    pub(crate) fn arrive(&mut self, stranger: T) -> (u64, Option<T>) {
        self.last += 1;
        self.waiting.push_back((self.last, stranger));
        let evicted = if self.waiting.len() > limits::STRANGERS { self.waiting.pop_front() } else { None };
        (self.last, evicted.map(|(_, stranger)| stranger))
    }

    /// One is gone, or is no stranger any more.
    pub(crate) fn leave(&mut self, number: u64) {
        self.waiting.retain(|(other, _)| *other != number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ninth_closes_the_earliest_that_still_waits() {
        let mut strangers = Strangers::default();
        let mut numbers = Vec::new();
        for name in 1..=8 {
            let (number, evicted) = strangers.arrive(name);
            assert_eq!(evicted, None);
            numbers.push(number);
        }
        strangers.leave(numbers[0]);
        assert_eq!(strangers.arrive(9).1, None);
        assert_eq!(strangers.arrive(10).1, Some(2));
        assert_eq!(strangers.arrive(11).1, Some(3));
    }
}
