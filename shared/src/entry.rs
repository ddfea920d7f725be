//! Entries of a session's log (wire §5): what happened, in order; a line of the log is the body of an `entry` frame.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::fingerprint::Fingerprint;
use crate::gate::Gate;
use crate::ids::{ConnectionId, InputId, PartId, SubmissionId};
use crate::json::{integer, present, present_integer, read_object_within};
use crate::kind::{Empty, Open, kinds};
use crate::limits;
use crate::request::AnswerChoice;
use crate::settings::Settings;
use crate::status::{Began, Ended, Exit, Settled, Status};
use crate::time::Timestamp;

/// One entry of a log.
#[derive(Debug, Clone, PartialEq)]
pub struct Entry {
    /// Its place in the log, from 1, contiguous.
    pub sequence: u64,
    /// When it was logged.
    pub timestamp: Timestamp,
    /// What happened.
    pub event: Event,
}

/// Who sent something: a connection, and the device behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Origin {
    /// The link that it came over.
    pub connection: ConnectionId,
    /// The device's own name for itself; nobody vouches for it.
    #[cfg_attr(feature = "schema", schemars(length(max = 48)))]
    pub name: String,
    /// The fingerprint of the device's key, so that a name cannot impersonate (settled points, Shapes).
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub device: Option<Fingerprint>,
}

/// What an entry says: the kinds of §5.1 have their fields beside `kind`, those of §5.2 under a key of the kind's name.
#[derive(Debug, Clone, PartialEq)]
pub enum Event {
    /// A kind that this version knows.
    Known(Box<Known>),
    /// A kind of another version: all its fields but `sequence` and `timestamp`.
    Unknown(Map<String, Value>),
}

/// The kinds of entries that this version knows.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Known {
    /// What a person sent: one turn.
    User(User),
    /// What the assistant said.
    Assistant(Assistant),
    /// What the assistant thought.
    Thinking(Thinking),
    /// A tool call.
    Tool(Tool),
    /// The result of a tool call.
    Result(ToolResult),
    /// The agent's plan, whole; it replaces the one before.
    Plan(Plan),
    /// Tokens and cost of a turn.
    Usage(Usage),
    /// Something a person should know.
    Notice(Notice),
    /// A question or an approval that is open (§5.3).
    Input(Input),
    /// What became of a question or an approval (§5.3).
    Resolved(Resolved),
    /// What the session runs with.
    Settings {
        /// The settings, which replace those before.
        settings: Settings,
    },
    /// The state of the host process.
    Status {
        /// The status, which replaces the one before.
        status: Status,
    },
    /// The probe of the harness.
    Gate {
        /// Its finding.
        gate: Gate,
    },
    /// The end of a submission.
    Settled {
        /// Which, whose, and what became of it.
        settled: Settled,
    },
    /// The end of the host process.
    Ended {
        /// Why.
        ended: Open<Ended>,
    },
    /// The start of a host process.
    Began {
        /// Which.
        began: Began,
    },
    /// The session's branch was merged.
    Merged {
        /// Nothing.
        merged: Empty,
    },
}

/// The words of [`Known`].
pub const KNOWN_KINDS: [&str; 17] = [
    "user",
    "assistant",
    "thinking",
    "tool",
    "result",
    "plan",
    "usage",
    "notice",
    "input",
    "resolved",
    "settings",
    "status",
    "gate",
    "settled",
    "ended",
    "began",
    "merged",
];

/// Whether entries of this kind belong to the transcript that a backlog carries: all but those of §5.2.
#[must_use]
pub fn is_transcript(kind: &str) -> bool {
    !matches!(kind, "settings" | "status" | "gate" | "settled" | "ended" | "began" | "merged")
}

/// A `user` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct User {
    /// The lines of the turn, at most 256 KiB.
    #[cfg_attr(feature = "schema", schemars(length(max = 262_144)))]
    pub text: String,
    /// The sender.
    pub origin: Origin,
    /// The id of the submission.
    pub submission: SubmissionId,
    /// The budget of the turn in seconds; logged so that a repeated submission can be told from another one.
    #[serde(default, deserialize_with = "present_integer", skip_serializing_if = "Option::is_none")]
    pub budget: Option<u64>,
}

/// An `assistant` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Assistant {
    /// The message; live `delta` frames name it too.
    pub message: PartId,
    /// Markdown.
    pub text: String,
    /// The model that wrote it.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
}

/// A `thinking` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Thinking {
    /// The message.
    pub message: PartId,
    /// The thought.
    pub text: String,
}

/// A `tool` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tool {
    /// The call, named again by its result.
    pub call: PartId,
    /// The harness's name of the tool.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What sort of tool it is.
    pub class: Open<ToolClass>,
    /// What the tool was given.
    pub input: Value,
}

/// What sort of tool it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ToolClass {
    /// Reads files.
    Read,
    /// Changes files.
    Edit,
    /// Runs commands.
    Execute,
    /// Searches files.
    Search,
    /// Fetches from the network.
    Fetch,
    /// Plans or thinks.
    Think,
    /// Anything else.
    Other,
}

kinds!(ToolClass: "read" "edit" "execute" "search" "fetch" "think" "other");

/// A `result` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ToolResult {
    /// The call that this answers.
    pub call: PartId,
    /// How it went.
    pub status: Open<ResultStatus>,
    /// What the tool gave, cut to 256 KiB.
    #[cfg_attr(feature = "schema", schemars(length(max = 262_144)))]
    pub text: String,
    /// What changed in a file.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub diff: Option<Diff>,
    /// How the command ended.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub exit: Option<Exit>,
    /// Bytes that were left out of `text`.
    #[serde(default, deserialize_with = "present_integer", skip_serializing_if = "Option::is_none")]
    pub truncated: Option<u64>,
}

/// How a tool call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum ResultStatus {
    /// It did what it was asked.
    Ok,
    /// It failed.
    Error,
    /// It was not allowed.
    Denied,
    /// It was interrupted.
    Interrupted,
}

kinds!(ResultStatus: "ok" "error" "denied" "interrupted");

/// What changed in one file: the text before and after, or a unified patch.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Diff {
    /// The file.
    pub path: String,
    /// Its text before.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub before: Option<String>,
    /// Its text after.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
    /// A unified patch.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub patch: Option<String>,
}

/// A `plan` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Plan {
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// One step of a plan.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Step {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: Open<StepState>,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum StepState {
    /// Not begun.
    Pending,
    /// Being done.
    Active,
    /// Done.
    Done,
}

kinds!(StepState: "pending" "active" "done");

/// A `usage` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Usage {
    /// Tokens that the model read anew.
    #[serde(deserialize_with = "integer")]
    pub input_tokens: u64,
    /// Tokens that it wrote.
    #[serde(deserialize_with = "integer")]
    pub output_tokens: u64,
    /// Tokens that it read from a cache.
    #[serde(deserialize_with = "integer")]
    pub cached_tokens: u64,
    /// The cost, in US dollars.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub cost: Option<f64>,
    /// Tokens in the context now.
    #[serde(default, deserialize_with = "present_integer", skip_serializing_if = "Option::is_none")]
    pub context_tokens: Option<u64>,
}

/// A `notice` entry.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Notice {
    /// How much it matters.
    pub level: Open<Level>,
    /// What a person should know.
    pub text: String,
}

/// How much a notice matters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Level {
    /// Good to know.
    Info,
    /// Look at it.
    Warning,
    /// Something went wrong.
    Error,
}

kinds!(Level: "info" "warning" "error");

/// An `input` entry: a question or an approval that waits for a person.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Input {
    /// Its id.
    pub input: InputId,
    /// The submission whose turn asks.
    pub submission: SubmissionId,
    /// A question.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::decision::Ask>"))]
    pub ask: Option<Value>,
    /// An approval.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(with = "Option<crate::decision::Confirm>"))]
    pub confirm: Option<Value>,
    /// Lower-case hex SHA-256 of the canonical JSON of what is to be decided.
    pub digest: String,
}

/// A `resolved` entry: what was decided; `choice` is `"cancelled"`, without `origin`, when nobody did.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resolved {
    /// The question or approval.
    pub input: InputId,
    /// Who decided.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
    /// A word, or an array of labels.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub choice: Option<AnswerChoice>,
    /// A text of the one who decided.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub text: Option<String>,
}

impl Entry {
    /// The entry that line `number` of a log holds; `None` where the line is damaged: no entry, at the wrong place, or one that no frame could
    /// carry. Host and listener judge alike.
    #[must_use]
    pub fn of_line(number: u64, line: &str) -> Option<Self> {
        if line.len() > limits::ENTRY_BYTES {
            return None;
        }
        let object = read_object_within(line.as_bytes(), limits::ENTRY_DEPTH).ok()?;
        let entry: Self = serde_json::from_value(object.into()).ok()?;
        (entry.sequence == number).then_some(entry)
    }

    /// The entry as a line of a log; `None` where [`Entry::of_line`] would not take it back for its size or depth.
    #[must_use]
    pub fn to_line(&self) -> Option<Vec<u8>> {
        let line = serde_json::to_vec(self).ok()?;
        (line.len() <= limits::ENTRY_BYTES && depth(&line) <= limits::ENTRY_DEPTH).then_some(line)
    }
}

/// The nesting of a text that is JSON.
fn depth(json: &[u8]) -> usize {
    let (mut now, mut most, mut is_text, mut is_escaped) = (0_usize, 0, false, false);
    for byte in json {
        match byte {
            _ if is_escaped => is_escaped = false,
            b'\\' if is_text => is_escaped = true,
            b'"' => is_text = !is_text,
            b'{' | b'[' if !is_text => {
                now += 1;
                most = now.max(most);
            }
            b'}' | b']' if !is_text => now = now.saturating_sub(1),
            _ => {}
        }
    }
    most
}

impl Event {
    /// The word of the kind.
    #[must_use]
    pub fn kind(&self) -> &str {
        match self {
            Self::Known(known) => known.kind(),
            Self::Unknown(map) => map.get("kind").and_then(Value::as_str).unwrap_or_default(),
        }
    }
}

impl Known {
    /// The word of the kind.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::User(_) => "user",
            Self::Assistant(_) => "assistant",
            Self::Thinking(_) => "thinking",
            Self::Tool(_) => "tool",
            Self::Result(_) => "result",
            Self::Plan(_) => "plan",
            Self::Usage(_) => "usage",
            Self::Notice(_) => "notice",
            Self::Input(_) => "input",
            Self::Resolved(_) => "resolved",
            Self::Settings { .. } => "settings",
            Self::Status { .. } => "status",
            Self::Gate { .. } => "gate",
            Self::Settled { .. } => "settled",
            Self::Ended { .. } => "ended",
            Self::Began { .. } => "began",
            Self::Merged { .. } => "merged",
        }
    }

    /// A notice of that level.
    #[must_use]
    pub fn notice(level: Level, text: impl Into<String>) -> Self {
        Self::Notice(Notice { level: level.into(), text: text.into() })
    }
}

impl From<Known> for Event {
    fn from(known: Known) -> Self {
        Self::Known(Box::new(known))
    }
}

impl Serialize for Entry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Line<'a, T> {
            #[serde(flatten)]
            event: &'a T,
            sequence: u64,
            timestamp: Timestamp,
        }
        let (sequence, timestamp) = (self.sequence, self.timestamp);
        match &self.event {
            Event::Known(known) => Line { event: known, sequence, timestamp }.serialize(serializer),
            Event::Unknown(event) => Line { event, sequence, timestamp }.serialize(serializer),
        }
    }
}

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let mut map = Map::deserialize(deserializer)?;
        let mut take = |name: &'static str| map.remove(name).ok_or_else(|| D::Error::missing_field(name));
        let sequence = serde_json::from_value(take("sequence")?).map_err(D::Error::custom)?;
        let timestamp = serde_json::from_value(take("timestamp")?).map_err(D::Error::custom)?;
        let Some(Value::String(kind)) = map.get("kind") else {
            return Err(D::Error::missing_field("kind"));
        };
        let event = if KNOWN_KINDS.contains(&kind.as_str()) {
            let known = serde_json::from_value(Value::Object(map)).map_err(D::Error::custom)?;
            Event::Known(Box::new(known))
        } else {
            Event::Unknown(map)
        };
        Ok(Self { sequence, timestamp, event })
    }
}

#[cfg(feature = "schema")]
impl schemars::JsonSchema for Entry {
    fn schema_name() -> std::borrow::Cow<'static, str> {
        "Entry".into()
    }
    fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
        let known = generator.subschema_for::<Known>();
        let timestamp = generator.subschema_for::<Timestamp>();
        schemars::json_schema!({
            "type": "object",
            "required": ["sequence", "timestamp", "kind"],
            "properties": {
                "sequence": { "type": "integer", "minimum": 1, "maximum": crate::limits::INTEGER_MAX },
                "timestamp": timestamp,
                "kind": { "type": "string" },
            },
            "anyOf": [known, { "properties": { "kind": { "not": { "enum": KNOWN_KINDS } } } }],
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn round_trip(value: Value) -> Entry {
        let entry: Entry = serde_json::from_value(value.clone()).unwrap();
        assert_eq!(serde_json::to_value(&entry).unwrap(), value);
        entry
    }

    #[test]
    fn the_example_of_the_protocol_is_read_and_written() {
        let entry = round_trip(json!({
            "kind": "user", "origin": {"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "my phone"},
            "sequence": 7, "text": "hi", "submission": "s-1", "timestamp": "2026-01-01T12:00:00.000Z",
        }));
        assert_eq!(entry.event.kind(), "user");
    }

    #[test]
    fn the_other_kinds_stand_under_their_name() {
        for (kind, fields) in [
            ("status", json!({"queue": ["a"], "last": null, "phase": "idle"})),
            ("gate", json!({"harness": "claude", "finding": {"silent": {"exit": {"signal": 9}}}})),
            ("ended", json!("stopped")),
            ("merged", json!({})),
        ] {
            let mut value = json!({"kind": kind, "sequence": 1, "timestamp": "2026-01-01T12:00:00.000Z"});
            value[kind] = fields;
            round_trip(value);
            assert!(!is_transcript(kind));
        }
    }

    #[test]
    fn an_unknown_kind_is_kept_and_a_wrong_known_one_is_an_error() {
        let value = json!({"kind": "poem", "sequence": 3, "timestamp": "2026-01-01T12:00:00.000Z", "lines": [1, {"a": null}]});
        assert!(matches!(round_trip(value).event, Event::Unknown(_)));
        let wrong =
            json!({"kind": "user", "sequence": 3, "timestamp": "2026-01-01T12:00:00.000Z", "text": 5});
        assert!(serde_json::from_value::<Entry>(wrong).is_err());
    }

    #[test]
    fn what_is_written_as_a_line_is_read_as_one_up_to_the_bounds() {
        let entry = |input: Value| Entry {
            sequence: 3,
            timestamp: Timestamp::from_milliseconds(1),
            event: Known::Tool(Tool {
                call: PartId::from_harness("c"),
                name: "\\\"[{".to_owned(),
                title: String::new(),
                class: ToolClass::Other.into(),
                input,
            })
            .into(),
        };
        let nested = |depth: usize| (1..depth).fold(json!([]), |inner, _| json!([inner]));
        for (depth, fits) in [(limits::ENTRY_DEPTH - 1, true), (limits::ENTRY_DEPTH, false)] {
            let entry = entry(nested(depth));
            assert_eq!(entry.to_line().is_some(), fits);
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(Entry::of_line(3, &text), fits.then_some(entry));
        }
        let around = entry(json!("")).to_line().unwrap().len();
        for (length, fits) in [(limits::ENTRY_BYTES, true), (limits::ENTRY_BYTES + 1, false)] {
            let entry = entry(json!("x".repeat(length - around)));
            assert_eq!(entry.to_line().is_some(), fits);
            let text = serde_json::to_string(&entry).unwrap();
            assert_eq!(Entry::of_line(3, &text), fits.then_some(entry));
        }
    }

    #[test]
    fn every_known_kind_is_in_the_list() {
        let words: Vec<&str> = KNOWN_KINDS.to_vec();
        assert!(words.contains(&Known::Merged { merged: Empty {} }.kind()));
        assert_eq!(words.len(), 17);
    }
}
