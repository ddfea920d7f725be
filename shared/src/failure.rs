//! Protocol failures and refusals: what went wrong, in words that a client can act on (wire §7, §8).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::kind::{Kind, Kinds, Open, kinds};

/// A `failure` frame's body; a fatal one closes the link.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Failure {
    /// What went wrong.
    pub code: Open<FailureCode>,
    /// For a person; at most 1024 bytes.
    #[cfg_attr(feature = "schema", schemars(length(max = 1024)))]
    pub detail: String,
    /// Whether the link closes.
    pub is_fatal: bool,
}

/// The codes of section 8.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum FailureCode {
    /// A line or frame that the link does not take.
    BadJson,
    /// A line over 8 MiB.
    LineTooLong,
    /// A refused or revoked device, an unknown link, no `hello`.
    Unauthorised,
    /// A second host of a session.
    Busy,
    /// A session that the machine does not hold.
    NotFound,
    /// `peers.json` cannot be written or was changed by another hand.
    Internal,
    /// A name or id that was removed.
    Retired,
}

kinds!(FailureCode: "bad_json" "line_too_long" "unauthorised" "busy" "not_found" "internal" "retired");

impl FailureCode {
    /// Whether a failure of this code closes the link (wire §8).
    #[must_use]
    pub fn is_fatal(self) -> bool {
        match self {
            Self::BadJson => false,
            Self::LineTooLong
            | Self::Unauthorised
            | Self::Busy
            | Self::NotFound
            | Self::Internal
            | Self::Retired => true,
        }
    }
}

impl Failure {
    /// A failure of that code, fatal as section 8 says.
    #[must_use]
    pub fn new(code: FailureCode, detail: impl Into<String>) -> Self {
        Self { code: code.into(), detail: detail.into(), is_fatal: code.is_fatal() }
    }
}

/// The detail of a refusal that no more exact rule explains (wire §9).
pub const NOT_LISTED: &str = "this machine does not list this device";
/// The detail of the refusal of a wrong or late pairing code (wire §9).
pub const CODE_REJECTED: &str = "pairing code rejected";
/// The detail of the refusal of a link whose first frame is no `hello` (settled points, Transport).
pub const NO_HELLO: &str = "no hello";

/// A word with an optional sentence for a person: `"id_conflict"` or `{"bad_directory":{"detail":"…"}}`.
#[derive(Debug, Clone, PartialEq)]
pub struct Worded<T> {
    /// The word, on which a program decides.
    pub word: Open<T>,
    /// The sentence.
    pub detail: Option<String>,
}

impl<T> Worded<T> {
    /// The bare word.
    pub fn bare(word: T) -> Self {
        Self { word: Open::Known(word), detail: None }
    }

    /// The word with a sentence.
    pub fn with(word: T, detail: impl Into<String>) -> Self {
        Self { word: Open::Known(word), detail: Some(detail.into()) }
    }
}

impl<T: Kinds> Serialize for Worded<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match (&self.word, &self.detail) {
            (Open::Unknown(kind), _) => kind.serialize(serializer),
            (word, detail) => {
                let fields = detail.as_ref().map(|detail| json!({ "detail": detail }));
                Kind { word: word.word(), fields }.serialize(serializer)
            }
        }
    }
}

impl<'de, T: Kinds> Deserialize<'de> for Worded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let kind = Kind::deserialize(deserializer)?;
        if !T::WORDS.contains(&kind.word.as_str()) {
            return Ok(Self { word: Open::Unknown(kind), detail: None });
        }
        let detail =
            kind.fields.as_ref().and_then(|fields| fields.get("detail")).and_then(|detail| detail.as_str());
        let detail = detail.map(str::to_owned);
        let word = serde_json::from_value(kind.word.into()).map_err(D::Error::custom)?;
        Ok(Self { word: Open::Known(word), detail })
    }
}

#[cfg(feature = "schema")]
impl<T: Kinds> schemars::JsonSchema for Worded<T> {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        std::any::type_name::<T>().rsplit("::").next().unwrap_or("Worded").to_owned().into()
    }
    fn json_schema(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let detail = json!({ "type": "object", "properties": { "detail": { "type": "string" } } });
        let objects: serde_json::Map<_, _> =
            T::WORDS.iter().map(|word| ((*word).to_owned(), detail.clone())).collect();
        schemars::json_schema!({ "oneOf": [
            { "type": "string", "enum": T::WORDS },
            { "type": "object", "minProperties": 1, "maxProperties": 1, "properties": objects },
        ] })
    }
}

/// A request, submission, interrupt or answer that was understood and refused.
pub type Refused = Worded<Refusal>;
/// A request, submission, interrupt or answer that was in order and could not be carried out.
pub type Failed = Worded<Fault>;

/// Why something was refused (settled points, Shapes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// The id was used with another text or budget.
    IdConflict,
    /// The question or approval is not open, or is another one than the digest says.
    NotPending,
    /// There is no text.
    Empty,
    /// The machine does not hold that session.
    NotFound,
    /// The name or id was removed.
    Retired,
    /// The session still runs.
    Running,
    /// A live session has that name.
    NameTaken,
    /// The name is empty once it is cleaned.
    BadName,
    /// The working directory cannot be used.
    BadDirectory,
    /// There is no such harness.
    UnknownHarness,
    /// The harness does not know the model.
    UnknownModel,
    /// That is not among the choices.
    NotOffered,
    /// A newer pairing window replaced this one.
    Replaced,
    /// The pairing window closed unused.
    Expired,
    /// Too many wrong codes closed the pairing window.
    TooManyTries,
    /// No such device is listed.
    UnknownDevice,
    /// A text or list is over its maximum.
    TooLarge,
    /// The branch cannot be merged as things are; the detail says which files conflict, or what to do first.
    Conflict,
}

kinds!(Refusal:
    "id_conflict" "not_pending" "empty" "not_found" "retired" "running" "name_taken" "bad_name" "bad_directory" "unknown_harness"
    "unknown_model" "not_offered" "replaced" "expired" "too_many_tries" "unknown_device" "too_large" "conflict");

/// Why something could not be carried out (settled points, Shapes).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Fault {
    /// The disk did not take it.
    Storage,
    /// The host process could not be started.
    Spawn,
    /// The host process went away before it answered.
    HostGone,
    /// The tunnel could not be started.
    Tunnel,
}

kinds!(Fault: "storage" "spawn" "host_gone" "tunnel");
