//! Frames: one strict JSON object a line, one enum of bodies a direction (wire §2 to §4).

use serde::de::DeserializeOwned;
use serde::ser::SerializeMap;
use serde::{Deserialize, Serialize, Serializer};
use serde_json::{Map, Value};

use crate::entry::{Entry, Origin};
use crate::failure::Failure;
use crate::ids::{FrameId, HostId, LogId, PartId, SessionId, SubmissionId};
use crate::json::{self, integer, present, present_budget, present_integer};
use crate::kind::{Kind, Kinds, Open, kinds};
use crate::line::{EncodedLine, LineError};
use crate::pairing::OfferedCode;
use crate::record::Record;
use crate::request::{Answer, Configure, Request, Response};
use crate::time::Timestamp;

/// A frame with a body of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Frame<B> {
    /// The frame's id; a submission's own id.
    pub id: FrameId,
    /// The sender's time.
    pub timestamp: Timestamp,
    /// On an answer, the id of the frame that it answers.
    pub reply_to: Option<FrameId>,
    /// Type and fields.
    pub body: B,
}

/// What the opener of a link sends: a client, a session host, or the `home` link of aude itself.
#[derive(Debug, Clone, PartialEq)]
pub enum OpenerBody {
    /// The first frame.
    Hello(Hello),
    /// One turn.
    Submission(Submission),
    /// Ends the running turn.
    Interrupt(Interrupt),
    /// Decides a question or an approval.
    Answer(Answer),
    /// Changes model, effort or agent.
    Configure(Configure),
    /// Asks the machine.
    Request(Request),
    /// Host: answers the listener.
    Response(Box<Open<Response>>),
    /// Host: the log has grown.
    Head(Head),
    /// Host: live text.
    Delta(Delta),
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
}

/// What the listener sends.
#[derive(Debug, Clone, PartialEq)]
pub enum ListenerBody {
    /// The answer to `hello`.
    Welcome(Box<Welcome>),
    /// One entry of the log.
    Entry(Box<Entry>),
    /// Another device came or went.
    Presence(Presence),
    /// A record, new or changed, or a session that is gone.
    Machine(Box<Machine>),
    /// An answer.
    Response(Box<Open<Response>>),
    /// Live text.
    Delta(Delta),
    /// A protocol failure.
    Failure(Failure),
    /// To a host: one turn of a client.
    Submission(Submission),
    /// To a host: ends the running turn.
    Interrupt(Interrupt),
    /// To a host: decides a question or an approval.
    Answer(Answer),
    /// To a host: changes model, effort or agent.
    Configure(Configure),
    /// To a host: stop, revoke or release.
    Request(Request),
    /// Are you there?
    Ping,
    /// Yes.
    Pong,
    /// A type that this version does not know; a client ignores it.
    Unknown(String),
}

/// The first frame of a link, which names the link (wire §3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Hello {
    /// A device: every session.
    Machine(HelloMachine),
    /// A device: one session.
    Session(HelloSession),
    /// A session host.
    Host(HelloHost),
    /// Pairing, revoking, tunnel.
    Home(HelloHome),
}

kinds!(Hello: "machine" "session" "host" "home");

/// The fields of `hello.machine`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloMachine {
    /// The device's name for itself; the listener cleans it.
    pub name: String,
    /// The pairing code, on the first connection; kept as it came, since a malformed one is a wrong one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<OfferedCode>,
}

/// The fields of `hello.session`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloSession {
    /// The device's name for itself.
    pub name: String,
    /// The session.
    pub session: SessionId,
    /// The last sequence that the client has, or 0.
    #[serde(deserialize_with = "integer")]
    pub since: u64,
    /// The log that `since` counts in.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub log: Option<LogId>,
    /// A pairing code has no place here: it is refused, and not spent (settled points, Admission).
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<OfferedCode>,
}

/// The fields of `hello.host`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloHost {
    /// The session.
    pub session: SessionId,
    /// The host run that this one replaces.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub replaces: Option<HostId>,
    /// A pairing code has no place here, as in [`HelloSession::code`].
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<OfferedCode>,
}

/// The fields of `hello.home`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HelloHome {
    /// A pairing code has no place here, as in [`HelloSession::code`].
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub code: Option<OfferedCode>,
}

/// The answer to `hello`, with the same one field.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Welcome {
    /// To a `machine` link.
    Machine {
        /// How many `machine` frames follow.
        backlog_count: u64,
    },
    /// To a `session` link.
    Session(Box<WelcomeSession>),
    /// To a `host` link.
    Host {
        /// The listener's version.
        aude_version: String,
    },
    /// To a `home` link.
    Home {
        /// The listener's version.
        aude_version: String,
    },
}

/// The fields of `welcome.session`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WelcomeSession {
    /// The record at the last entry.
    pub record: Record,
    /// How many transcript entries follow.
    #[serde(deserialize_with = "integer")]
    pub backlog_count: u64,
    /// What this client's submissions carry.
    pub origin: Origin,
    /// The log.
    pub log: LogId,
    /// Where the backlog begins: the client's `since`, or 0 when it has to start again.
    #[serde(deserialize_with = "integer")]
    pub from: u64,
}

/// The body of a `submission` frame.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Submission {
    /// The lines of one turn, at most 256 KiB.
    #[cfg_attr(feature = "schema", schemars(length(max = 262_144)))]
    pub text: String,
    /// Seconds that the turn may take, 1 to 604800.
    #[serde(default, deserialize_with = "present_budget", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 604_800)))]
    pub budget: Option<u64>,
    /// The sender, on the way to the host.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The body of an `interrupt` frame.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Interrupt {
    /// The submission that is meant; when another one runs, nothing happens.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub submission: Option<SubmissionId>,
    /// The sender, on the way to the host.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub origin: Option<Origin>,
}

/// The body of a `head` frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Head {
    /// The last sequence that is durable; nothing beyond it is shown to anybody.
    #[serde(default, deserialize_with = "present_integer", skip_serializing_if = "Option::is_none")]
    pub sequence: Option<u64>,
}

/// Live text that is not in the log; it may be dropped, and the entry of its message replaces it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Delta {
    /// The message, or the call of a tool.
    pub message: PartId,
    /// What the text will become.
    pub kind: Open<DeltaKind>,
    /// Where the text begins in the message, in bytes, so that a loss shows.
    #[serde(deserialize_with = "integer")]
    pub offset: u64,
    /// The text.
    pub text: String,
}

/// What live text will become.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DeltaKind {
    /// An `assistant` entry.
    Assistant,
    /// A `thinking` entry.
    Thinking,
    /// A `result` entry.
    Tool,
}

kinds!(DeltaKind: "assistant" "thinking" "tool");

/// Another device came or went.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Presence {
    /// It opened a link to the session.
    Attached(Origin),
    /// It closed it.
    Detached(Origin),
}

/// A change of the list of sessions.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Machine {
    /// A session, new or changed.
    Record(Box<Record>),
    /// A session that is gone.
    Removed(SessionId),
}

/// A line that is no frame of its direction: what to answer, and whom.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{detail}")]
pub struct BadFrame {
    /// The id of the frame, where it could be read.
    pub id: Option<FrameId>,
    /// What is wrong, for the `failure`.
    pub detail: String,
    /// What kind of wrong.
    pub fault: FrameFault,
}

/// The cases of a bad frame that a listener answers differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameFault {
    /// Any wrong line: `bad_json`.
    BadJson,
    /// A well-formed `hello` that names one unknown link: a fatal `unauthorised`.
    UnknownLink,
}

/// The bodies of one direction.
pub trait Body: Sized {
    /// The word of the type.
    fn word(&self) -> &str;

    /// Reads the body of a type.
    ///
    /// # Errors
    /// An unknown type or wrong fields.
    fn read(word: &str, body: Value) -> Result<Self, BadBody>;

    /// Writes the body as the entry `body` of the frame's map, if it has any field.
    ///
    /// # Errors
    /// Those of the serializer.
    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error>;
}

/// A body that does not fit its type.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadBody {
    detail: String,
    fault: FrameFault,
}

impl BadBody {
    fn new(detail: impl Into<String>) -> Self {
        Self { detail: detail.into(), fault: FrameFault::BadJson }
    }
}

/// Serde's reason may quote what came; a frame may hold a pairing code or a prompt, so only the first words stay.
fn fields<T: DeserializeOwned>(word: &str, body: Value) -> Result<T, BadBody> {
    serde_json::from_value(body)
        .map_err(|_| BadBody::new(format!("the body of this {word} frame has wrong fields")))
}

fn hello(body: Value) -> Result<Hello, BadBody> {
    let kind = Kind::try_from(body).map_err(|_| BadBody::new("a hello names exactly one link"))?;
    if kind.fields.is_some() && !Hello::WORDS.contains(&kind.word.as_str()) {
        let detail = crate::failure::NOT_LISTED.to_owned();
        return Err(BadBody { detail, fault: FrameFault::UnknownLink });
    }
    fields("hello", kind.into())
}

impl Body for OpenerBody {
    fn word(&self) -> &str {
        match self {
            Self::Hello(_) => "hello",
            Self::Submission(_) => "submission",
            Self::Interrupt(_) => "interrupt",
            Self::Answer(_) => "answer",
            Self::Configure(_) => "configure",
            Self::Request(_) => "request",
            Self::Response(_) => "response",
            Self::Head(_) => "head",
            Self::Delta(_) => "delta",
            Self::Ping => "ping",
            Self::Pong => "pong",
        }
    }

    fn read(word: &str, body: Value) -> Result<Self, BadBody> {
        Ok(match word {
            "hello" => Self::Hello(hello(body)?),
            "submission" => Self::Submission(fields(word, body)?),
            "interrupt" => Self::Interrupt(fields(word, body)?),
            "answer" => Self::Answer(fields(word, body)?),
            "configure" => Self::Configure(fields(word, body)?),
            "request" => Self::Request(fields(word, body)?),
            "response" => Self::Response(fields(word, body)?),
            "head" => Self::Head(fields(word, body)?),
            "delta" => Self::Delta(fields(word, body)?),
            "ping" => Self::Ping,
            "pong" => Self::Pong,
            _ => return Err(BadBody::new("this link knows no frame of that type")),
        })
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Hello(body) => map.serialize_entry("body", body),
            Self::Submission(body) => map.serialize_entry("body", body),
            Self::Interrupt(body) => write_unless_empty(map, body, *body == Interrupt::default()),
            Self::Answer(body) => map.serialize_entry("body", body),
            Self::Configure(body) => write_unless_empty(map, body, *body == Configure::default()),
            Self::Request(body) => map.serialize_entry("body", body),
            Self::Response(body) => map.serialize_entry("body", body),
            Self::Head(body) => write_unless_empty(map, body, *body == Head::default()),
            Self::Delta(body) => map.serialize_entry("body", body),
            Self::Ping | Self::Pong => Ok(()),
        }
    }
}

impl Body for ListenerBody {
    fn word(&self) -> &str {
        match self {
            Self::Welcome(_) => "welcome",
            Self::Entry(_) => "entry",
            Self::Presence(_) => "presence",
            Self::Machine(_) => "machine",
            Self::Response(_) => "response",
            Self::Delta(_) => "delta",
            Self::Failure(_) => "failure",
            Self::Submission(_) => "submission",
            Self::Interrupt(_) => "interrupt",
            Self::Answer(_) => "answer",
            Self::Configure(_) => "configure",
            Self::Request(_) => "request",
            Self::Ping => "ping",
            Self::Pong => "pong",
            Self::Unknown(word) => word,
        }
    }

    fn read(word: &str, body: Value) -> Result<Self, BadBody> {
        Ok(match word {
            "welcome" => Self::Welcome(fields(word, body)?),
            "entry" => Self::Entry(fields(word, body)?),
            "presence" => Self::Presence(fields(word, body)?),
            "machine" => Self::Machine(fields(word, body)?),
            "response" => Self::Response(fields(word, body)?),
            "delta" => Self::Delta(fields(word, body)?),
            "failure" => Self::Failure(fields(word, body)?),
            "submission" => Self::Submission(fields(word, body)?),
            "interrupt" => Self::Interrupt(fields(word, body)?),
            "answer" => Self::Answer(fields(word, body)?),
            "configure" => Self::Configure(fields(word, body)?),
            "request" => Self::Request(fields(word, body)?),
            "ping" => Self::Ping,
            "pong" => Self::Pong,
            _ => Self::Unknown(word.to_owned()),
        })
    }

    fn write<M: SerializeMap>(&self, map: &mut M) -> Result<(), M::Error> {
        match self {
            Self::Welcome(body) => map.serialize_entry("body", body),
            Self::Entry(body) => map.serialize_entry("body", body),
            Self::Presence(body) => map.serialize_entry("body", body),
            Self::Machine(body) => map.serialize_entry("body", body),
            Self::Response(body) => map.serialize_entry("body", body),
            Self::Delta(body) => map.serialize_entry("body", body),
            Self::Failure(body) => map.serialize_entry("body", body),
            Self::Submission(body) => map.serialize_entry("body", body),
            Self::Interrupt(body) => write_unless_empty(map, body, *body == Interrupt::default()),
            Self::Answer(body) => map.serialize_entry("body", body),
            Self::Configure(body) => write_unless_empty(map, body, *body == Configure::default()),
            Self::Request(body) => map.serialize_entry("body", body),
            Self::Ping | Self::Pong | Self::Unknown(_) => Ok(()),
        }
    }
}

/// A sender omits an empty body (settled points, Shapes).
fn write_unless_empty<M: SerializeMap, T: Serialize>(
    map: &mut M,
    body: &T,
    is_empty: bool,
) -> Result<(), M::Error> {
    if is_empty { Ok(()) } else { map.serialize_entry("body", body) }
}

impl<B: Body> Serialize for Frame<B> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        self.body.write(&mut map)?;
        map.serialize_entry("id", &self.id)?;
        if let Some(reply_to) = &self.reply_to {
            map.serialize_entry("reply_to", reply_to)?;
        }
        map.serialize_entry("timestamp", &self.timestamp)?;
        map.serialize_entry("type", self.body.word())?;
        map.end()
    }
}

impl<B: Body> Frame<B> {
    /// A frame that answers nothing, with a new id.
    #[must_use]
    pub fn new(timestamp: Timestamp, body: B) -> Self {
        Self { id: FrameId::random(), timestamp, reply_to: None, body }
    }

    /// A frame that answers another one, with a new id.
    #[must_use]
    pub fn reply(timestamp: Timestamp, reply_to: FrameId, body: B) -> Self {
        Self { id: FrameId::random(), timestamp, reply_to: Some(reply_to), body }
    }

    /// The line of the frame, without `\n`.
    #[must_use]
    pub fn to_line(&self) -> Vec<u8> {
        // Frames hold only maps with text keys and finite numbers, which serde_json writes without fail.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The line of the frame as bytes to send.
    ///
    /// # Errors
    /// When it is longer than 8 MiB, which the limits of its texts forbid.
    pub fn encode(&self) -> Result<EncodedLine, LineError> {
        EncodedLine::new(self.to_line())
    }

    /// Reads a line, without `\n`, as a frame of this direction.
    ///
    /// # Errors
    /// [`BadFrame`] with the frame's id where it could be read; never the content.
    pub fn from_line(line: &[u8]) -> Result<Self, BadFrame> {
        let bad = |detail: &str| BadFrame { id: None, detail: detail.to_owned(), fault: FrameFault::BadJson };
        let mut map = json::read_object(line).map_err(|error| bad(&error.to_string()))?;
        let id = text(&mut map, "id").ok_or_else(|| bad("a frame has an id"))?;
        let id: FrameId = id.parse().map_err(|error: crate::ids::BadId| bad(&error.to_string()))?;
        let bad = |detail: &str| BadFrame {
            id: Some(id.clone()),
            detail: detail.to_owned(),
            fault: FrameFault::BadJson,
        };
        let word = text(&mut map, "type").ok_or_else(|| bad("a frame has a type"))?;
        if word != "submission" && !id.is_uuid_v4() {
            return Err(bad("the id of a frame other than a submission is a lower-case UUID of version 4"));
        }
        let timestamp = text(&mut map, "timestamp").ok_or_else(|| bad("a frame has a timestamp"))?;
        let timestamp =
            timestamp.parse().map_err(|error: crate::time::BadTimestamp| bad(&error.to_string()))?;
        let reply_to = match map.remove("reply_to") {
            None => None,
            Some(Value::String(text)) => {
                Some(text.parse().map_err(|error: crate::ids::BadId| bad(&error.to_string()))?)
            }
            Some(_) => return Err(bad("reply_to is an id")),
        };
        let body = match map.remove("body") {
            None => Value::Object(Map::new()),
            Some(body @ Value::Object(_)) => body,
            Some(_) => return Err(bad("a body is an object")),
        };
        let body = B::read(&word, body).map_err(|error| BadFrame {
            id: Some(id.clone()),
            detail: error.detail,
            fault: error.fault,
        })?;
        Ok(Self { id, timestamp, reply_to, body })
    }
}

fn text(map: &mut Map<String, Value>, name: &str) -> Option<String> {
    match map.remove(name) {
        Some(Value::String(text)) => Some(text),
        Some(_) | None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const ID: &str = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb";
    const TIME: &str = "2026-01-01T12:00:00.000Z";

    fn opener(value: &Value) -> Result<Frame<OpenerBody>, BadFrame> {
        Frame::from_line(value.to_string().as_bytes())
    }

    fn round_trip(value: &Value) {
        let frame = opener(value).unwrap();
        let line: Value = serde_json::from_slice(&frame.to_line()).unwrap();
        assert_eq!(&line, value);
    }

    #[test]
    fn the_examples_of_the_protocol_go_through() {
        round_trip(
            &json!({"body": {"machine": {"code": "<code>", "name": "my phone"}}, "id": ID, "timestamp": TIME, "type": "hello"}),
        );
        round_trip(
            &json!({"body": {"budget": 300, "text": "hi"}, "id": "my-1", "timestamp": TIME, "type": "submission"}),
        );
        round_trip(&json!({"id": ID, "timestamp": TIME, "type": "interrupt"}));
        round_trip(&json!({"id": ID, "reply_to": "a", "timestamp": TIME, "type": "pong"}));
        round_trip(&json!({"body": {"remove": ID}, "id": ID, "timestamp": TIME, "type": "request"}));
        round_trip(
            &json!({"body": {"revoke": {"device": "all"}}, "id": ID, "timestamp": TIME, "type": "request"}),
        );
        round_trip(&json!({"body": {"pair": {}}, "id": ID, "timestamp": TIME, "type": "request"}));
        round_trip(
            &json!({"body": {"taken": {}}, "id": ID, "reply_to": "my-1", "timestamp": TIME, "type": "response"}),
        );
        round_trip(
            &json!({"body": {"refused": "id_conflict"}, "id": ID, "reply_to": "my-1", "timestamp": TIME, "type": "response"}),
        );
        round_trip(&json!({"body": {"home": {}}, "id": ID, "timestamp": TIME, "type": "hello"}));
    }

    #[test]
    fn an_empty_body_may_be_written_or_left_out_and_unknown_fields_are_ignored() {
        let frame = opener(
            &json!({"body": {"colour": 3}, "id": ID, "timestamp": TIME, "type": "interrupt", "x": [1]}),
        )
        .unwrap();
        assert_eq!(frame.body, OpenerBody::Interrupt(Interrupt::default()));
    }

    #[test]
    fn wrong_frames_are_told_apart_and_keep_the_id_that_could_be_read() {
        let cases = [
            (json!({"id": "my-1", "timestamp": TIME, "type": "interrupt"}), FrameFault::BadJson),
            (json!({"id": ID, "timestamp": TIME, "type": "dance"}), FrameFault::BadJson),
            (json!({"id": ID, "timestamp": "now", "type": "ping"}), FrameFault::BadJson),
            (
                json!({"id": ID, "timestamp": TIME, "type": "submission", "body": {"text": "a", "budget": null}}),
                FrameFault::BadJson,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "submission", "body": {"text": "a", "budget": 1.0}}),
                FrameFault::BadJson,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "hello", "body": {"machine": {"name": "a"}, "home": {}}}),
                FrameFault::BadJson,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "hello", "body": {"machine": {}}}),
                FrameFault::BadJson,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "hello", "body": {"moon": {}}}),
                FrameFault::UnknownLink,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "request", "body": {"fly": {}}}),
                FrameFault::BadJson,
            ),
            (
                json!({"id": ID, "timestamp": TIME, "type": "request", "body": {"stop": "x"}}),
                FrameFault::BadJson,
            ),
            (json!({"id": ID, "timestamp": TIME, "type": "ping", "body": null}), FrameFault::BadJson),
            (json!({"id": ID, "timestamp": TIME, "type": "ping", "reply_to": null}), FrameFault::BadJson),
        ];
        for (value, fault) in cases {
            let bad = opener(&value).unwrap_err();
            assert_eq!(bad.fault, fault, "{value}");
            assert!(bad.id.is_some(), "{value}");
        }
        for value in
            [json!({"timestamp": TIME, "type": "ping"}), json!({"id": "", "timestamp": TIME, "type": "ping"})]
        {
            assert!(opener(&value).unwrap_err().id.is_none(), "{value}");
        }
    }

    #[test]
    fn a_failure_never_repeats_what_came() {
        let secret = "abcdefghijklmnop";
        let bad = opener(
            &json!({"id": ID, "timestamp": TIME, "type": "hello", "body": {"machine": {"name": 7, "code": secret}}}),
        );
        assert!(!format!("{:?}", bad.unwrap_err()).contains(secret));
    }

    #[test]
    fn a_client_keeps_what_it_does_not_know() {
        let line = json!({"id": ID, "timestamp": TIME, "type": "poem", "body": {"a": 1}}).to_string();
        let frame = Frame::<ListenerBody>::from_line(line.as_bytes()).unwrap();
        assert_eq!(frame.body, ListenerBody::Unknown("poem".into()));
        let line = json!({"id": ID, "reply_to": ID, "timestamp": TIME, "type": "response", "body": {"sung": {"a": 1}}});
        let frame = Frame::<ListenerBody>::from_line(line.to_string().as_bytes()).unwrap();
        assert_eq!(serde_json::from_slice::<Value>(&frame.to_line()).unwrap(), line);
    }
}
