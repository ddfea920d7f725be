//! Reads the file of a session strictly and piece by piece: each message is handed out as it comes, so that one need not hold them all.

use std::collections::HashSet;
use std::fmt;
use std::io::{BufReader, Read};

use serde::Deserialize;
use serde::de::{self, DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use shared::ids::PartId;
use shared::time::Timestamp;

use super::revision::Hashing;
use super::{Described, Head, Parent, Revision, SESSION_BYTES, StoredId, StoredMessage, Todo};

/// Bytes of a file that are read at once.
const PIECE: usize = 64 * 1024;
/// Characters of what is wrong with a file that a person is shown.
const SENTENCE: usize = 200;

/// Why a file could not be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReadError {
    /// It is not a session; the sentence says why.
    #[error("{0}")]
    Invalid(String),
    /// The system refused.
    #[error(transparent)]
    System(std::io::Error),
}

/// A file that was read to its end.
#[derive(Debug)]
pub(super) struct Whole {
    /// What it holds beside the messages.
    pub(super) head: Head,
    /// Messages that are counted.
    pub(super) counted: u64,
    /// The revision of its bytes.
    pub(super) revision: Revision,
}

/// A session that comes from outside, read to its end.
#[derive(Debug)]
pub(super) struct Foreign {
    /// Its id, where it has one.
    pub(super) id: Option<StoredId>,
    /// What it holds beside the messages.
    pub(super) described: Described,
    /// The digest of its bytes.
    pub(super) revision: Revision,
}

/// Reads a file of the store: everything must be there.
pub(super) fn stored(source: impl Read, each: impl FnMut(StoredMessage)) -> Result<Whole, ReadError> {
    let mut counted = 0_u64;
    let mut each = each;
    let count = |message: StoredMessage| {
        counted += u64::from(!message.is_system());
        each(message);
    };
    let (parts, revision) = whole(source, Origin::Store, count)?;
    let head = parts.into_head().ok_or_else(|| ReadError::Invalid("a field is missing".to_owned()))?;
    Ok(Whole { head, counted, revision })
}

/// Reads a file that is to be imported: only the messages must be there; times, freezing and lineage are passed over.
pub(super) fn foreign(source: impl Read, each: impl FnMut(StoredMessage)) -> Result<Foreign, ReadError> {
    let (parts, revision) = whole(source, Origin::Outside, each)?;
    let described = Described {
        title: parts.title.unwrap_or_default(),
        metadata: parts.metadata.unwrap_or_default(),
        todos: parts.todos.unwrap_or_default(),
        statistics: parts.statistics.unwrap_or_default(),
    };
    Ok(Foreign { id: parts.id, described, revision })
}

/// Where a file comes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Origin {
    Store,
    Outside,
}

#[derive(Default)]
struct Parts {
    id: Option<StoredId>,
    title: Option<String>,
    created_at: Option<Timestamp>,
    updated_at: Option<Timestamp>,
    frozen: Option<bool>,
    parent: Option<Option<Parent>>,
    metadata: Option<Map<String, Value>>,
    todos: Option<Vec<Todo>>,
    statistics: Option<Map<String, Value>>,
}

impl Parts {
    fn into_head(self) -> Option<Head> {
        Some(Head {
            id: self.id?,
            created_at: self.created_at?,
            updated_at: self.updated_at?,
            frozen: self.frozen?,
            parent: self.parent?,
            described: Described {
                title: self.title?,
                metadata: self.metadata?,
                todos: self.todos?,
                statistics: self.statistics?,
            },
        })
    }
}

fn whole(
    source: impl Read,
    origin: Origin,
    each: impl FnMut(StoredMessage),
) -> Result<(Parts, Revision), ReadError> {
    // One byte more than allowed tells a file that is too large.
    let mut hashing = Hashing::new(source.take(SESSION_BYTES + 1));
    let parsed = {
        let mut reader = serde_json::Deserializer::from_reader(BufReader::with_capacity(PIECE, &mut hashing));
        let parsed = TopLevel { origin, each, pairs: Pairs::default() }.deserialize(&mut reader);
        parsed.and_then(|parts| reader.end().map(|()| parts))
    };
    if hashing.count() > SESSION_BYTES {
        return Err(ReadError::Invalid(format!("it is larger than {SESSION_BYTES} bytes")));
    }
    match parsed {
        Ok(parts) => Ok((parts, hashing.revision())),
        Err(error) if error.is_io() => Err(ReadError::System(error.into())),
        Err(error) => Err(ReadError::Invalid(crate::text::one_line(&error.to_string(), SENTENCE))),
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "snake_case")]
enum Field {
    Id,
    Title,
    CreatedAt,
    UpdatedAt,
    Frozen,
    Parent,
    Metadata,
    Todos,
    Statistics,
    Messages,
}

struct TopLevel<F> {
    origin: Origin,
    each: F,
    pairs: Pairs,
}

impl<'de, F: FnMut(StoredMessage)> DeserializeSeed<'de> for TopLevel<F> {
    type Value = Parts;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Parts, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de, F: FnMut(StoredMessage)> Visitor<'de> for TopLevel<F> {
    type Value = Parts;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a session")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Parts, A::Error> {
        let mut parts = Parts::default();
        let mut has_messages = false;
        let mut passed_over = [false; 4];
        while let Some(field) = map.next_key::<Field>()? {
            let skipped = match field {
                Field::CreatedAt => Some(0),
                Field::UpdatedAt => Some(1),
                Field::Frozen => Some(2),
                Field::Parent => Some(3),
                Field::Id
                | Field::Title
                | Field::Metadata
                | Field::Todos
                | Field::Statistics
                | Field::Messages => None,
            };
            if let (Origin::Outside, Some(index)) = (self.origin, skipped) {
                if passed_over.get(index).copied().unwrap_or_default() {
                    return Err(de::Error::custom("a field stands twice"));
                }
                passed_over[index] = true;
                map.next_value::<IgnoredAny>()?;
                continue;
            }
            match field {
                Field::Id => once(&mut parts.id, &mut map)?,
                Field::Title => once(&mut parts.title, &mut map)?,
                Field::CreatedAt => once(&mut parts.created_at, &mut map)?,
                Field::UpdatedAt => once(&mut parts.updated_at, &mut map)?,
                Field::Frozen => once(&mut parts.frozen, &mut map)?,
                Field::Parent => once(&mut parts.parent, &mut map)?,
                Field::Metadata => once(&mut parts.metadata, &mut map)?,
                Field::Todos => once(&mut parts.todos, &mut map)?,
                Field::Statistics => once(&mut parts.statistics, &mut map)?,
                Field::Messages => {
                    if std::mem::replace(&mut has_messages, true) {
                        return Err(de::Error::duplicate_field("messages"));
                    }
                    map.next_value_seed(Messages { each: &mut self.each, pairs: &mut self.pairs })?;
                }
            }
        }
        if !has_messages {
            return Err(de::Error::missing_field("messages"));
        }
        Ok(parts)
    }
}

fn once<'de, T: Deserialize<'de>, A: MapAccess<'de>>(
    slot: &mut Option<T>,
    map: &mut A,
) -> Result<(), A::Error> {
    if slot.is_some() {
        return Err(de::Error::custom("a field stands twice"));
    }
    *slot = Some(map.next_value()?);
    Ok(())
}

struct Messages<'a, F> {
    each: &'a mut F,
    pairs: &'a mut Pairs,
}

impl<'de, F: FnMut(StoredMessage)> DeserializeSeed<'de> for Messages<'_, F> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de, F: FnMut(StoredMessage)> Visitor<'de> for Messages<'_, F> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("messages")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<(), A::Error> {
        while let Some(message) = sequence.next_element::<StoredMessage>()? {
            self.pairs.take(&message).map_err(de::Error::custom)?;
            (self.each)(message);
        }
        self.pairs.end().map_err(de::Error::custom)
    }
}

/// Sees to it that each call has its result at once, and that no id stands for two things.
#[derive(Debug, Default)]
struct Pairs {
    open: Vec<(PartId, String)>,
    messages: HashSet<PartId>,
    calls: HashSet<PartId>,
}

impl Pairs {
    fn take(&mut self, message: &StoredMessage) -> Result<(), &'static str> {
        if !self.messages.insert(message.message_id().clone()) {
            return Err("two messages have one message_id");
        }
        match message {
            StoredMessage::Tool { call_id, name, .. } => {
                let index = self.open.iter().position(|(open, _)| open == call_id);
                let (_, called) =
                    index.map(|index| self.open.remove(index)).ok_or("a result without its call")?;
                if called == *name { Ok(()) } else { Err("a result names another tool than its call") }
            }
            StoredMessage::System { .. } | StoredMessage::User { .. } => self.end(),
            StoredMessage::Assistant { tool_calls, .. } => {
                self.end()?;
                for call in tool_calls {
                    if !self.calls.insert(call.call_id.clone()) {
                        return Err("two calls have one call_id");
                    }
                    self.open.push((call.call_id.clone(), call.name.clone()));
                }
                Ok(())
            }
        }
    }

    fn end(&self) -> Result<(), &'static str> {
        if self.open.is_empty() { Ok(()) } else { Err("a call without its result") }
    }
}
