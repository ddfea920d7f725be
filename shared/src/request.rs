//! Requests and responses (wire §7).

use serde::{Deserialize, Serialize};

use crate::failure::{Failed, Refused};
use crate::fingerprint::Fingerprint;
use crate::ids::{InputId, SessionId, SubmissionId};
use crate::json::{present, present_budget};
use crate::kind::{Empty, kinds};
use crate::pairing::Endpoint;
use crate::record::Record;
use crate::time::Timestamp;

/// What a client, or the listener of a session host, asks for.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Request {
    /// Start a session, or continue the one of that name (`machine` link).
    Start(Box<Start>),
    /// Forget a session whose host has ended, and retire its name (`machine` link).
    Remove(SessionId),
    /// End a session's host (`machine` link; the listener hands it on to the host).
    Stop(SessionId),
    /// The known project folders (`machine` link).
    Directories(Empty),
    /// Open a pairing window (`home` link).
    Pair(Empty),
    /// Revoke a device or all (`home` link; the listener hands it on to the hosts).
    Revoke(Revoke),
    /// Switch or ask for the tunnel (`home` link).
    Tunnel(Tunnel),
    /// Give a session another name (`machine` link).
    Rename(Rename),
    /// Merge the branch of a session with a worktree (`machine` link; the listener hands it on to the host).
    Merge(SessionId),
    /// All prerequisites have answered (listener to host only).
    Release(Empty),
}

/// The fields of a `start` request.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Start {
    /// The name of the session; it is cleaned and cut to 48 characters.
    pub name: String,
    /// The harness.
    #[cfg_attr(feature = "schema", schemars(length(max = 256)))]
    pub harness: String,
    /// Where it works, at most 4096 bytes.
    #[cfg_attr(feature = "schema", schemars(length(max = 4096)))]
    pub working_directory: String,
    /// The lines of the first turn, at most 256 KiB; none for a session that waits.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 262_144)))]
    pub text: Option<String>,
    /// The budget of the first turn, in seconds, 1 to 604800.
    #[serde(default, deserialize_with = "present_budget", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(range(min = 1, max = 604_800)))]
    pub budget: Option<u64>,
    /// Sessions that must have answered first, at most 32.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(feature = "schema", schemars(length(max = 32)))]
    pub prerequisites: Vec<SessionId>,
    /// The model.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The agent or mode.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// An id of the client's; the same one never starts a second session. It is also the id of the first submission.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub request: Option<SubmissionId>,
    /// Whether the session gets a git worktree and branch of its own.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub worktree: Option<bool>,
}

/// The fields of a `rename` request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Rename {
    /// The session.
    pub session: SessionId,
    /// Its new name; it is cleaned and cut to 48 characters.
    pub name: String,
}

/// The fields of a `revoke` request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Revoke {
    /// A fingerprint, or `all`.
    pub device: Device,
}

/// Which devices.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Device {
    /// Every listed device.
    All,
    /// The device of that key.
    #[serde(untagged)]
    One(Fingerprint),
}

/// The fields of a `tunnel` request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Tunnel {
    /// A word of section 10; without it the answer tells how the tunnel stands.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub tunnel: Option<String>,
}

/// The answer to a request, submission, interrupt, answer or configure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Response {
    /// It is durable and will be carried out.
    Taken(Empty),
    /// A new session.
    Started(Box<Record>),
    /// The session of that name goes on.
    Continued(Box<Record>),
    /// A pairing window is open.
    Window(Window),
    /// A device was paired.
    Paired(Paired),
    /// How the tunnel stands.
    Reach(Reach),
    /// The known project folders, at most 256.
    Directories(Vec<String>),
    /// It was understood and refused.
    Refused(Refused),
    /// It was in order and could not be carried out.
    Failed(Failed),
}

kinds!(Response: "taken" "started" "continued" "window" "paired" "reach" "directories" "refused" "failed");

/// An open pairing window.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Window {
    /// When it closes.
    pub expires: Timestamp,
    /// What makes up the pairing URL.
    pub url: WindowUrl,
    /// Other endpoints of this machine; one code serves all.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub also: Vec<Endpoint>,
}

/// What makes up a pairing URL.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct WindowUrl {
    /// Where to dial, and whose key to expect there.
    pub endpoint: Endpoint,
    /// The code of the window.
    pub code: crate::pairing::PairingCode,
}

/// A device that was paired.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Paired {
    /// Its name for itself.
    pub name: String,
    /// The fingerprint of its key.
    pub fingerprint: Fingerprint,
}

/// How the tunnel stands (wire §10).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Reach {
    /// The word of the tunnel.
    pub tunnel: String,
    /// `off`, `starting`, `up` or `down`.
    pub state: String,
    /// The public origin.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub origin: Option<String>,
    /// When it was last reached through the public path.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub checked: Option<Timestamp>,
}

/// The body of an `answer` frame (wire §5.3).
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Answer {
    /// The question or approval.
    pub input: InputId,
    /// What the sender saw: the digest of what is to be decided.
    pub digest: String,
    /// What was chosen.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub choice: Option<AnswerChoice>,
    /// A text, at most 16 KiB.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "schema", schemars(length(max = 16_384)))]
    pub text: Option<String>,
    /// The sender, on the way to the host.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub origin: Option<crate::entry::Origin>,
}

/// What an answer chooses: a word for an approval, labels for a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum AnswerChoice {
    /// A word.
    Word(String),
    /// Labels, at most 256.
    Labels(Vec<String>),
}

/// The body of a `configure` frame: any of these, from `settings.choices`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Configure {
    /// The model.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The agent.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
}
