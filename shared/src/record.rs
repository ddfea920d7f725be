//! The record of a session, as `aude sessions --json` prints it and a `machine` frame carries it (wire §11).

use serde::{Deserialize, Serialize};

use crate::ids::{LogId, SessionId, SubmissionId};
use crate::json::{integer, present};
use crate::kind::{Open, kinds};
use crate::settings::Settings;
use crate::status::{Ended, Status};
use crate::time::Timestamp;

/// What a client shows of a session. Every field is present, `null` means none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Record {
    /// The session.
    pub id: SessionId,
    /// Its name, at most 48 characters.
    #[cfg_attr(feature = "schema", schemars(length(max = 48)))]
    pub name: String,
    /// The harness that runs it.
    pub harness: String,
    /// Where the harness works; an absolute path.
    pub working_directory: String,
    /// The git branch there.
    pub branch: Option<String>,
    /// When it was started.
    pub created: Timestamp,
    /// When its last entry was logged.
    pub updated: Timestamp,
    /// The sequence of the last entry, 0 for none.
    #[serde(deserialize_with = "integer")]
    pub sequence: u64,
    /// The id of the log.
    pub log: LogId,
    /// The sessions that must have answered first; at most 32.
    pub prerequisites: Vec<SessionId>,
    /// The last settings.
    pub settings: Option<Settings>,
    /// The last status of the host process, or `null` when none lives.
    pub host: Option<Status>,
    /// How the work stands.
    pub work: Work,
    /// How many questions and approvals are open.
    #[serde(deserialize_with = "integer")]
    pub inputs: u64,
    /// The first 200 characters of the last answer.
    pub last: Option<String>,
    /// How the last host process ended, `null` while one lives.
    pub ended: Option<Open<Ended>>,
}

/// How the work of a session stands.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Work {
    /// The state.
    pub state: Open<WorkState>,
    /// Since when.
    pub since: Timestamp,
}

/// The state of the work of a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum WorkState {
    /// No turn yet.
    New,
    /// Waiting for the prerequisites.
    Held,
    /// A turn runs.
    Working,
    /// A turn runs and waits for a person.
    Waiting,
    /// The last turn was answered.
    Answered,
    /// The last turn was interrupted.
    Interrupted,
    /// The last turn failed, ran out of budget or was lost.
    Failed,
    /// The session was stopped before its work was done.
    Stopped,
    /// The branch was merged.
    Merged,
}

kinds!(WorkState: "new" "held" "working" "waiting" "answered" "interrupted" "failed" "stopped" "merged");

/// What is fixed when a session is started; the rest of its record is derived from the log. Stored as `sessions/ID/record.json`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Facts {
    /// The session.
    pub id: SessionId,
    /// Its name.
    pub name: String,
    /// The harness that runs it.
    pub harness: String,
    /// Where the harness works; an absolute path.
    pub working_directory: String,
    /// When it was started.
    pub created: Timestamp,
    /// The id of the log.
    pub log: LogId,
    /// The sessions that must have answered first.
    #[serde(default)]
    pub prerequisites: Vec<SessionId>,
    /// The client's id of the `start` request; the same one never starts a second session.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub request: Option<SubmissionId>,
    /// The model that was asked for.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// The effort that was asked for.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub effort: Option<String>,
    /// The agent that was asked for.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub agent: Option<String>,
    /// The git worktree of its own, where it has one.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub worktree: Option<Worktree>,
}

/// The git worktree and branch of a session. It is written before either is made, so that a crash makes none twice and loses none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Worktree {
    /// The folder in which git keeps the repository, `.git` of its main checkout.
    pub repository: String,
    /// The top folder of the worktree.
    pub path: String,
    /// The branch of the session.
    pub branch: String,
    /// The branch that the repository had checked out, into which `merge` merges; none where it had none.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub base: Option<String>,
    /// The commit at which the branch began.
    pub commit: String,
}
