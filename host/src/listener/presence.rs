//! Who else is attached to a session, as one link is told: the difference between what it knows and what is, so that flaps merge (settled points, Backlog).

use std::collections::BTreeMap;

use shared::entry::Origin;
use shared::frame::Presence;
use shared::ids::ConnectionId;
use shared::limits;

/// The others on a session by connection.
pub(crate) type People = BTreeMap<ConnectionId, Origin>;

/// What one link was told of the others; a pure machine over steady milliseconds.
#[derive(Debug)]
pub(crate) struct Told {
    own: ConnectionId,
    known: People,
    second: u64,
    in_second: u32,
}

/// What is to be told now.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Turn {
    /// This.
    Tell(Presence),
    /// Nothing before that moment.
    WaitUntil(u64),
    /// Nothing, unless somebody comes or goes.
    Nothing,
}

impl Told {
    /// A link that knows of nobody but itself.
    pub(crate) fn new(own: ConnectionId) -> Self {
        Self { own, known: People::new(), second: 0, in_second: 0 }
    }

    /// The next that is due at `now`; it counts as told.
    pub(crate) fn next(&mut self, present: &People, now: u64) -> Turn {
        let gone = self.known.keys().find(|connection| !present.contains_key(connection)).copied();
        let new = present
            .iter()
            .find(|(connection, _)| **connection != self.own && !self.known.contains_key(connection));
        if gone.is_none() && new.is_none() {
            return Turn::Nothing;
        }
        if now >= self.second.saturating_add(1000) {
            self.second = now;
            self.in_second = 0;
        }
        if self.in_second >= limits::PRESENCE_A_SECOND {
            return Turn::WaitUntil(self.second.saturating_add(1000));
        }
        self.in_second += 1;
        if let Some(origin) = gone.and_then(|connection| self.known.remove(&connection)) {
            return Turn::Tell(Presence::Detached(origin));
        }
        match new {
            Some((connection, origin)) => {
                self.known.insert(*connection, origin.clone());
                Turn::Tell(Presence::Attached(origin.clone()))
            }
            None => Turn::Nothing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn person(name: &str) -> (ConnectionId, Origin) {
        let connection = ConnectionId::random();
        (connection, Origin { connection, name: name.to_owned(), device: None })
    }

    #[test]
    fn others_come_and_go_and_oneself_is_never_told() {
        let (me, other) = (person("me"), person("other"));
        let mut told = Told::new(me.0);
        let mut people = People::from([me]);
        assert_eq!(told.next(&people, 0), Turn::Nothing);
        people.insert(other.0, other.1.clone());
        assert_eq!(told.next(&people, 0), Turn::Tell(Presence::Attached(other.1.clone())));
        assert_eq!(told.next(&people, 0), Turn::Nothing);
        people.remove(&other.0);
        assert_eq!(told.next(&people, 0), Turn::Tell(Presence::Detached(other.1)));
    }

    #[test]
    fn whoever_comes_and_goes_between_two_looks_was_never_there_and_a_crowd_is_told_ten_a_second() {
        let me = person("me");
        let mut told = Told::new(me.0);
        let people: People = (0..25).map(|index| person(&index.to_string())).collect();
        let count = |told: &mut Told, now| {
            let mut count = 0;
            while let Turn::Tell(_) = told.next(&people, now) {
                count += 1;
            }
            count
        };
        assert_eq!(count(&mut told, 5000), 10);
        assert_eq!(told.next(&people, 5999), Turn::WaitUntil(6000));
        assert_eq!(count(&mut told, 6000), 10);
        assert_eq!(count(&mut told, 7000), 5);
    }
}
