//! How often a link is told what changes: each thing at most so often, its last state always (settled points, Backlog).

use std::collections::BTreeMap;

/// What one link was told of many things, each of which has a version; a pure machine over steady milliseconds.
#[derive(Debug)]
pub(crate) struct Pace<K> {
    told: BTreeMap<K, Told>,
    apart: u64,
}

#[derive(Debug, Clone, Copy)]
struct Told {
    version: u64,
    at: u64,
}

/// What is to be told now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Turn<K> {
    /// This thing, in its present state.
    Tell(K),
    /// This thing is gone.
    Gone(K),
    /// Nothing before that moment, unless something changes.
    WaitUntil(u64),
    /// Nothing, unless something changes.
    Nothing,
}

impl<K: Ord + Copy> Pace<K> {
    /// A link that is told of each thing at most once in `apart` milliseconds.
    pub(crate) fn new(apart: u64) -> Self {
        Self { told: BTreeMap::new(), apart }
    }

    /// The next that is due at `now`; it counts as told.
    pub(crate) fn next(&mut self, present: &BTreeMap<K, u64>, now: u64) -> Turn<K> {
        if let Some(gone) = self.told.keys().find(|key| !present.contains_key(key)).copied() {
            self.told.remove(&gone);
            return Turn::Gone(gone);
        }
        let mut earliest: Option<u64> = None;
        for (key, version) in present {
            let due = match self.told.get(key) {
                None => 0,
                Some(told) if told.version == *version => continue,
                Some(told) => told.at.saturating_add(self.apart),
            };
            if due <= now {
                self.told.insert(*key, Told { version: *version, at: now });
                return Turn::Tell(*key);
            }
            earliest = Some(earliest.map_or(due, |earliest| earliest.min(due)));
        }
        earliest.map_or(Turn::Nothing, Turn::WaitUntil)
    }

    /// Something was told outside of the turn, as a backlog is.
    pub(crate) fn told(&mut self, key: K, version: u64, now: u64) {
        self.told.insert(key, Told { version, at: now });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn present(pairs: &[(u8, u64)]) -> BTreeMap<u8, u64> {
        pairs.iter().copied().collect()
    }

    #[test]
    fn a_thing_that_changes_all_the_time_is_told_four_times_a_second_and_its_last_state_always() {
        let mut pace = Pace::new(250);
        let mut told = Vec::new();
        for now in 0..1000 {
            if pace.next(&present(&[(1, now)]), now) == Turn::Tell(1) {
                told.push(now);
            }
        }
        assert_eq!(told, [0, 250, 500, 750]);
        assert_eq!(pace.next(&present(&[(1, 999)]), 999), Turn::WaitUntil(1000));
        assert_eq!(pace.next(&present(&[(1, 999)]), 1000), Turn::Tell(1));
        assert_eq!(pace.next(&present(&[(1, 999)]), 5000), Turn::Nothing);
    }

    #[test]
    fn one_busy_thing_does_not_hide_another_and_what_is_gone_is_told() {
        let mut pace = Pace::new(250);
        pace.told(1, 1, 0);
        assert_eq!(pace.next(&present(&[(1, 2), (2, 1)]), 1), Turn::Tell(2));
        assert_eq!(pace.next(&present(&[(1, 2), (2, 1)]), 1), Turn::WaitUntil(250));
        assert_eq!(pace.next(&present(&[(2, 1)]), 1), Turn::Gone(1));
        assert_eq!(pace.next(&present(&[(2, 1)]), 1), Turn::Nothing);
    }
}
