//! What needs a person: the order of a list of sessions.

use std::cmp::Reverse;

use crate::ids::SessionId;
use crate::kind::Open;
use crate::record::{Record, WorkState};

/// How much a session needs a person, the most first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// A question or an approval is open.
    Answer,
    /// A turn runs.
    Watching,
    /// Nothing happens.
    Nothing,
}

impl Need {
    /// What a session needs.
    #[must_use]
    pub fn of(record: &Record) -> Self {
        match record.work.state {
            _ if record.inputs > 0 => Self::Answer,
            Open::Known(WorkState::Waiting) => Self::Answer,
            Open::Known(WorkState::Working) => Self::Watching,
            Open::Known(
                WorkState::New
                | WorkState::Held
                | WorkState::Answered
                | WorkState::Interrupted
                | WorkState::Failed
                | WorkState::Stopped
                | WorkState::Merged,
            )
            | Open::Unknown(_) => Self::Nothing,
        }
    }
}

/// Sessions as a list shows them: those that need an answer, the longest waiting first; then those that work, the last begun first; then
/// the rest, the last changed first. What streams does not move a session that works.
#[must_use]
pub fn in_order<'a>(records: impl IntoIterator<Item = &'a Record>) -> Vec<SessionId> {
    let mut all: Vec<&Record> = records.into_iter().collect();
    all.sort_by_key(|record| {
        let need = Need::of(record);
        let (oldest, newest) = match need {
            Need::Answer => (Some(record.work.since), None),
            Need::Watching => (None, Some(Reverse(record.work.since))),
            Need::Nothing => (None, Some(Reverse(record.updated))),
        };
        (need, oldest, newest, record.id)
    });
    all.into_iter().map(|record| record.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::LogId;
    use crate::record::Work;
    use crate::time::Timestamp;

    fn record(state: WorkState, since: u64, updated: u64, inputs: u64) -> Record {
        Record {
            id: SessionId::random(),
            name: String::new(),
            harness: String::new(),
            working_directory: String::new(),
            branch: None,
            created: Timestamp::from_milliseconds(0),
            updated: Timestamp::from_milliseconds(updated),
            sequence: 1,
            log: LogId::random(),
            prerequisites: Vec::new(),
            settings: None,
            host: None,
            work: Work { state: state.into(), since: Timestamp::from_milliseconds(since) },
            inputs,
            last: None,
            ended: None,
        }
    }

    #[test]
    fn what_needs_an_answer_comes_first_then_what_works_then_the_rest_by_time() {
        let all = [
            record(WorkState::Answered, 1, 50, 0),
            record(WorkState::Working, 10, 99, 0),
            record(WorkState::Failed, 1, 60, 0),
            record(WorkState::Waiting, 9, 9, 1),
            record(WorkState::Working, 20, 21, 0),
            record(WorkState::Working, 3, 98, 2),
        ];
        let places = [5, 3, 4, 1, 2, 0];
        assert_eq!(in_order(&all), places.map(|place: usize| all[place].id));
        assert_eq!(in_order(all.iter().rev()), places.map(|place: usize| all[place].id));
    }
}
