//! Newtypes for every id on the wire (wire §2 and the settled points): a value of one of them is well-formed.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use uuid::Uuid;

use crate::limits;

/// An id that does not have the form its place asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{expected}")]
pub struct BadId {
    expected: &'static str,
}

fn uuid_v4(text: &str) -> Result<Uuid, BadId> {
    let bad = BadId { expected: "an id must be a lower-case UUID of version 4" };
    let id = Uuid::try_parse(text).map_err(|_| bad)?;
    let mut buffer = Uuid::encode_buffer();
    let canonical: &str = id.hyphenated().encode_lower(&mut buffer);
    let is_v4 = id.get_version_num() == 4 && id.get_variant() == uuid::Variant::RFC4122;
    if canonical == text && is_v4 { Ok(id) } else { Err(bad) }
}

macro_rules! text_serde {
    ($name:ident, $pattern:expr) => {
        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(self, f)
            }
        }

        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.collect_str(self)
            }
        }

        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                let text = std::borrow::Cow::<'de, str>::deserialize(deserializer)?;
                text.parse().map_err(serde::de::Error::custom)
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $name {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                stringify!($name).into()
            }
            fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
                schemars::json_schema!({ "type": "string", "pattern": $pattern })
            }
        }
    };
}
pub(crate) use text_serde;

/// What a UUID v4 looks like, for the schema.
#[cfg(feature = "schema")]
const UUID_PATTERN: &str = "^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$";

macro_rules! uuid_id {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Uuid);

        impl $name {
            /// A new random id.
            #[must_use]
            pub fn random() -> Self {
                Self(Uuid::new_v4())
            }

            /// The id as a UUID.
            #[must_use]
            pub fn uuid(self) -> Uuid {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0.hyphenated(), f)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                uuid_v4(text).map(Self)
            }
        }

        text_serde!($name, UUID_PATTERN);
    };
}

uuid_id!(
    /// A session's id.
    SessionId
);
uuid_id!(
    /// The id of one connection of a device, new for each link.
    ConnectionId
);
uuid_id!(
    /// The id of a log; another one means that what a client has of the old log is void.
    LogId
);
uuid_id!(
    /// The id of a question or approval; never used again.
    InputId
);
uuid_id!(
    /// The id of one run of a host process (`began.identity`).
    HostId
);

macro_rules! text_id {
    ($(#[$doc:meta])* $name:ident, $max:expr, $allowed:expr, $expected:literal, $pattern:literal) => {
        $(#[$doc])*
        #[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Box<str>);

        impl $name {
            /// The id as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl FromStr for $name {
            type Err = BadId;
            fn from_str(text: &str) -> Result<Self, BadId> {
                let allowed: fn(char) -> bool = $allowed;
                if !text.is_empty() && text.chars().count() <= $max && text.chars().all(allowed) {
                    Ok(Self(text.into()))
                } else {
                    Err(BadId { expected: $expected })
                }
            }
        }

        text_serde!($name, $pattern);
    };
}

text_id!(
    /// The id of a submission, chosen by its sender; a frame's id and `reply_to` have the same form, of which a UUID is a case.
    SubmissionId,
    limits::SUBMISSION_ID_CHARACTERS,
    |c| c.is_ascii_alphanumeric() || c == '-',
    "an id must be 1 to 64 characters of A-Z, a-z, 0-9 and -",
    "^[A-Za-z0-9-]{1,64}$"
);
text_id!(
    /// The id of a message or tool call inside a session, given by the harness or made by us.
    PartId,
    limits::PART_ID_CHARACTERS,
    |c| !c.is_control(),
    "a message or call id must be 1 to 128 characters without controls",
    "^[^\\u0000-\\u001f\\u007f-\\u009f]{1,128}$"
);

/// The id of a frame: a UUID v4, or for a submission its own id (wire §2).
pub type FrameId = SubmissionId;

impl SubmissionId {
    /// A new random id, a UUID v4.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }

    /// Whether this is a lower-case UUID v4, as every frame but a submission must have.
    #[must_use]
    pub fn is_uuid_v4(&self) -> bool {
        uuid_v4(&self.0).is_ok()
    }
}

impl PartId {
    /// A new random id.
    #[must_use]
    pub fn random() -> Self {
        Self(Uuid::new_v4().to_string().into())
    }

    /// The id that a harness gave, cleaned of control characters and cut; a new one when nothing is left.
    #[must_use]
    pub fn from_harness(text: &str) -> Self {
        let clean: String =
            text.chars().filter(|c| !c.is_control()).take(limits::PART_ID_CHARACTERS).collect();
        if clean.is_empty() { Self::random() } else { Self(clean.into()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_id_is_a_lower_case_uuid_v4() {
        let good = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb";
        assert_eq!(good.parse::<SessionId>().unwrap().to_string(), good);
        for bad in [
            "",
            "6BCF8FED-99C2-4B27-8A5A-24D7CAFF9BFB",
            "6bcf8fed99c24b278a5a24d7caff9bfb",
            "6bcf8fed-99c2-1b27-8a5a-24d7caff9bfb",
            "6bcf8fed-99c2-4b27-1a5a-24d7caff9bfb",
            "{6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb}",
            "../../etc/passwd",
        ] {
            assert!(bad.parse::<SessionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_submission_id_has_1_to_64_characters_of_its_alphabet() {
        assert!("a".parse::<SubmissionId>().is_ok());
        assert!("A-9".repeat(21).parse::<SubmissionId>().is_ok());
        assert!("a".repeat(64).parse::<SubmissionId>().is_ok());
        for bad in ["", "a b", "a/b", "ä", "a\n", &"a".repeat(65)] {
            assert!(bad.parse::<SubmissionId>().is_err(), "{bad}");
        }
    }

    #[test]
    fn a_part_id_of_a_harness_is_cleaned() {
        assert_eq!(PartId::from_harness("to\u{0}olu\n_1").as_str(), "toolu_1");
        assert_eq!(PartId::from_harness(&"x".repeat(400)).as_str().len(), 128);
        assert!(!PartId::from_harness("\n").as_str().is_empty());
    }
}
