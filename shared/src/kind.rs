//! Objects of several kinds: `"word"` or `{"word":{…}}`, with unknown ones kept as they came (wire §2).

use std::fmt;

use serde::de::{DeserializeOwned, Error as _};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

/// A kind in its raw form: its word, and its fields if it has any.
#[derive(Debug, Clone, PartialEq)]
pub struct Kind {
    /// The name of the kind.
    pub word: String,
    /// What stands under the name; `None` for a bare word.
    pub fields: Option<Value>,
}

/// A value that is neither a word nor an object of exactly one field.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object of several kinds must have exactly one field, or be a word")]
pub struct NotAKind;

impl TryFrom<Value> for Kind {
    type Error = NotAKind;

    fn try_from(value: Value) -> Result<Self, NotAKind> {
        match value {
            Value::String(word) => Ok(Self { word, fields: None }),
            Value::Object(map) if map.len() == 1 => {
                let (word, fields) = map.into_iter().next().ok_or(NotAKind)?;
                Ok(Self { word, fields: Some(fields) })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                Err(NotAKind)
            }
        }
    }
}

impl From<Kind> for Value {
    fn from(kind: Kind) -> Self {
        match kind.fields {
            None => Self::String(kind.word),
            Some(fields) => Self::Object(Map::from_iter([(kind.word, fields)])),
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match &self.fields {
            None => serializer.serialize_str(&self.word),
            Some(fields) => serializer.collect_map([(&self.word, fields)]),
        }
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Self::try_from(Value::deserialize(deserializer)?).map_err(D::Error::custom)
    }
}

/// An enum whose variants are kinds of the wire.
pub trait Kinds: Serialize + DeserializeOwned {
    /// The words of all variants.
    const WORDS: &'static [&'static str];
}

/// A kind that may be newer than this program: a wrong form of a known word is an error, an unknown word is kept.
#[derive(Clone, PartialEq)]
pub enum Open<T> {
    /// A kind that this version knows.
    Known(T),
    /// A kind of another version, kept for the round trip.
    Unknown(Kind),
}

impl<T> Open<T> {
    /// The kind, if this version knows it.
    pub fn known(&self) -> Option<&T> {
        match self {
            Self::Known(kind) => Some(kind),
            Self::Unknown(_) => None,
        }
    }
}

impl<T: PartialEq> Open<T> {
    /// Whether this is exactly that known kind.
    pub fn is(&self, kind: &T) -> bool {
        self.known() == Some(kind)
    }
}

impl<T: Kinds> Open<T> {
    /// The word of the kind, for people.
    #[must_use]
    pub fn word(&self) -> String {
        match self {
            Self::Unknown(kind) => kind.word.clone(),
            Self::Known(kind) => serde_json::to_value(kind)
                .ok()
                .and_then(|value| Kind::try_from(value).ok())
                .map(|kind| kind.word)
                .unwrap_or_default(),
        }
    }
}

impl<T> From<T> for Open<T> {
    fn from(kind: T) -> Self {
        Self::Known(kind)
    }
}

impl<T: fmt::Debug> fmt::Debug for Open<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Known(kind) => kind.fmt(f),
            Self::Unknown(kind) => kind.fmt(f),
        }
    }
}

impl<T: Serialize> Serialize for Open<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Self::Known(kind) => kind.serialize(serializer),
            Self::Unknown(kind) => kind.serialize(serializer),
        }
    }
}

impl<'de, T: Kinds> Deserialize<'de> for Open<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kind = Kind::deserialize(deserializer)?;
        if T::WORDS.contains(&kind.word.as_str()) {
            T::deserialize(Value::from(kind)).map(Self::Known).map_err(D::Error::custom)
        } else {
            Ok(Self::Unknown(kind))
        }
    }
}

#[cfg(feature = "schema")]
impl<T: schemars::JsonSchema> schemars::JsonSchema for Open<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        T::schema_name()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        T::json_schema(generator)
    }
}

/// Says which words an enum of the wire has, and that it may be read as [`Open`].
macro_rules! kinds {
    ($name:ty: $($word:literal)+) => {
        impl $crate::kind::Kinds for $name {
            const WORDS: &'static [&'static str] = &[$($word),+];
        }
    };
}
pub(crate) use kinds;

/// A kind without fields where the wire writes `{}`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Empty {}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::Phase;
    use serde_json::json;

    #[test]
    fn an_unknown_kind_survives_a_round_trip() {
        for value in [json!("dreaming"), json!({"dreaming": {"of": ["sheep", 1]}})] {
            let phase: Open<Phase> = serde_json::from_value(value.clone()).unwrap();
            assert!(phase.known().is_none());
            assert_eq!(phase.word(), "dreaming");
            assert_eq!(serde_json::to_value(&phase).unwrap(), value);
        }
    }

    #[test]
    fn a_known_kind_in_a_wrong_form_is_an_error() {
        for value in
            [json!({"busy": {}}), json!("busy"), json!({"idle": {}, "held": {}}), json!(7), json!({})]
        {
            assert!(serde_json::from_value::<Open<Phase>>(value.clone()).is_err(), "{value}");
        }
    }
}
