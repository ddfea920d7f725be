//! The life of a host process and of its submissions: status, began, settled, ended (wire §5.2).

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::{Value, json};

use crate::entry::Origin;
use crate::ids::{HostId, SessionId, SubmissionId};
use crate::json::present;
use crate::kind::{Kind, Open, kinds};
use crate::time::Timestamp;

/// The state of a host process; each `status` entry replaces the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Status {
    /// The submissions that wait, in order; the running one is not among them.
    pub queue: Vec<SubmissionId>,
    /// The submission that was settled last, or `null`.
    pub last: Option<SubmissionId>,
    /// What the host is doing.
    pub phase: Open<Phase>,
}

/// What a host process is doing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Phase {
    /// The harness is being started.
    Starting,
    /// Waiting for the prerequisites.
    Held,
    /// Nothing to do.
    Idle,
    /// About to end.
    Exiting,
    /// A turn runs.
    Busy {
        /// The submissions of the turn.
        submissions: Vec<SubmissionId>,
        /// When the budget of the turn ends, or `null`.
        deadline: Option<Timestamp>,
    },
}

kinds!(Phase: "starting" "held" "idle" "exiting" "busy");

/// How a process ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Exit {
    /// With this exit status.
    Status(u32),
    /// By this signal.
    Signal(u32),
}

kinds!(Exit: "status" "signal");

/// The start of a host process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Began {
    /// The id of this run of the host.
    pub identity: HostId,
    /// How long the host stays.
    pub lifetime: Open<Lifetime>,
    /// The parent session, for the session of a subagent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub subagent: Option<SessionId>,
    /// The process id of the host.
    pub pid: u32,
    /// When the process started.
    pub started: Timestamp,
}

/// How long a host stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Lifetime {
    /// Until it is stopped.
    Resident,
    /// For one turn.
    Once,
}

kinds!(Lifetime: "resident" "once");

/// The end of one submission; every submission that was taken has exactly one.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settled {
    /// The submission.
    pub submission: SubmissionId,
    /// Its sender.
    pub origin: Origin,
    /// What became of it.
    pub fate: Open<Fate>,
}

/// What became of a submission: a bare word, or the word with a `reason`.
#[derive(Debug, Clone, PartialEq)]
pub enum Fate {
    /// The turn ended with a text of the assistant.
    Answered,
    /// The turn never began.
    Dropped(Option<Open<DropReason>>),
    /// The turn began and ended otherwise.
    Ran(Option<Open<RanReason>>),
}

kinds!(Fate: "answered" "dropped" "ran");

/// Why a submission was dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum DropReason {
    /// The queue was full.
    QueueFull,
    /// The session was held.
    Held,
    /// The session was stopped.
    Stopped,
    /// Its sender took it back.
    Cancelled,
    /// Its device was revoked.
    Revoked,
}

kinds!(DropReason: "queue_full" "held" "stopped" "cancelled" "revoked");

/// Why a turn ended without an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum RanReason {
    /// Somebody interrupted it.
    Interrupted,
    /// Its budget was used up.
    Budget,
    /// The harness failed.
    Failed,
    /// The host died in mid-turn; nothing runs again by itself.
    Lost,
}

kinds!(RanReason: "interrupted" "budget" "failed" "lost");

impl Fate {
    /// A turn that ended for this reason.
    #[must_use]
    pub fn ran(reason: RanReason) -> Self {
        Self::Ran(Some(reason.into()))
    }

    /// A submission that was dropped for this reason.
    #[must_use]
    pub fn dropped(reason: DropReason) -> Self {
        Self::Dropped(Some(reason.into()))
    }
}

impl Serialize for Fate {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (word, reason) = match self {
            Self::Answered => ("answered", None),
            Self::Dropped(reason) => ("dropped", reason.as_ref().map(Open::word)),
            Self::Ran(reason) => ("ran", reason.as_ref().map(Open::word)),
        };
        Kind { word: word.to_owned(), fields: reason.map(|reason| json!({ "reason": reason })) }
            .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Fate {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Why<T: crate::kind::Kinds> {
            #[serde(default = "none", deserialize_with = "present", bound = "T: crate::kind::Kinds")]
            reason: Option<Open<T>>,
        }
        fn none<T>() -> Option<T> {
            None
        }
        fn reason<T: crate::kind::Kinds, E: serde::de::Error>(
            fields: Option<Value>,
        ) -> Result<Option<Open<T>>, E> {
            let Some(fields) = fields else { return Ok(None) };
            serde_json::from_value::<Why<T>>(fields).map(|why| why.reason).map_err(E::custom)
        }
        let kind = Kind::deserialize(deserializer)?;
        match kind.word.as_str() {
            "answered" => Ok(Self::Answered),
            "dropped" => reason(kind.fields).map(Self::Dropped),
            "ran" => reason(kind.fields).map(Self::Ran),
            _ => Err(D::Error::custom("a fate is answered, dropped or ran")),
        }
    }
}

/// Why a host process ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Ended {
    /// Somebody stopped the session.
    Stopped,
    /// The gate refused the harness.
    Refused,
    /// The instructions file could not be used.
    InstructionsFile,
    /// The process died.
    Died(Option<Exit>),
    /// The harness does not know the model.
    UnknownModel,
}

kinds!(Ended: "stopped" "refused" "instructions_file" "died" "unknown_model");

impl Serialize for Ended {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let (word, exit) = match self {
            Self::Stopped => ("stopped", None),
            Self::Refused => ("refused", None),
            Self::InstructionsFile => ("instructions_file", None),
            Self::Died(exit) => ("died", exit.as_ref()),
            Self::UnknownModel => ("unknown_model", None),
        };
        Kind { word: word.to_owned(), fields: exit.map(|exit| json!({ "exit": exit })) }.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Ended {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Death {
            #[serde(default, deserialize_with = "present")]
            exit: Option<Exit>,
        }
        let kind = Kind::deserialize(deserializer)?;
        match kind.word.as_str() {
            "stopped" => Ok(Self::Stopped),
            "refused" => Ok(Self::Refused),
            "instructions_file" => Ok(Self::InstructionsFile),
            "unknown_model" => Ok(Self::UnknownModel),
            "died" => {
                let death =
                    kind.fields.map(serde_json::from_value::<Death>).transpose().map_err(D::Error::custom)?;
                Ok(Self::Died(death.and_then(|death| death.exit)))
            }
            _ => Err(D::Error::custom("unknown end of a session")),
        }
    }
}

#[cfg(feature = "schema")]
mod schema {
    use super::{DropReason, Ended, Exit, Fate, RanReason};
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
    use std::borrow::Cow;

    impl JsonSchema for Fate {
        fn schema_name() -> Cow<'static, str> {
            "Fate".into()
        }
        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let dropped = generator.subschema_for::<DropReason>();
            let ran = generator.subschema_for::<RanReason>();
            json_schema!({ "oneOf": [
                { "type": "string", "enum": ["answered", "dropped", "ran"] },
                { "type": "object", "required": ["dropped"], "properties": { "dropped": { "type": "object", "properties": { "reason": dropped } } } },
                { "type": "object", "required": ["ran"], "properties": { "ran": { "type": "object", "properties": { "reason": ran } } } },
            ] })
        }
    }

    impl JsonSchema for Ended {
        fn schema_name() -> Cow<'static, str> {
            "Ended".into()
        }
        fn json_schema(generator: &mut SchemaGenerator) -> Schema {
            let exit = generator.subschema_for::<Exit>();
            json_schema!({ "oneOf": [
                { "type": "string", "enum": ["stopped", "refused", "instructions_file", "died", "unknown_model"] },
                { "type": "object", "required": ["died"], "properties": { "died": { "type": "object", "properties": { "exit": exit } } } },
            ] })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fates_and_ends_have_the_settled_shapes() {
        for value in [
            json!("answered"),
            json!("ran"),
            json!({"dropped": {"reason": "queue_full"}}),
            json!({"ran": {"reason": "lost"}}),
            json!({"ran": {"reason": "eaten"}}),
        ] {
            let fate: Open<Fate> = serde_json::from_value(value.clone()).unwrap();
            assert!(fate.known().is_some(), "{value}");
            assert_eq!(serde_json::to_value(&fate).unwrap(), value);
        }
        for value in [
            json!("stopped"),
            json!("died"),
            json!({"died": {"exit": {"status": 1}}}),
            json!({"died": {"exit": {"signal": 9}}}),
        ] {
            let ended: Open<Ended> = serde_json::from_value(value.clone()).unwrap();
            assert!(ended.known().is_some(), "{value}");
            assert_eq!(serde_json::to_value(&ended).unwrap(), value);
        }
        assert!(serde_json::from_value::<Open<Fate>>(json!({"ran": {"reason": null}})).is_err());
    }

    #[test]
    fn a_phase_is_a_word_or_carries_its_turn() {
        let busy = json!({"busy": {"submissions": ["a"], "deadline": null}});
        let phase: Open<Phase> = serde_json::from_value(busy.clone()).unwrap();
        assert_eq!(serde_json::to_value(&phase).unwrap(), busy);
        assert_eq!(serde_json::to_value(Phase::Idle).unwrap(), json!("idle"));
    }
}
