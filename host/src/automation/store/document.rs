//! What stands in the file of a session, as types that cannot be wrong, and our one way of writing it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use shared::ids::PartId;
use shared::time::Timestamp;

use super::{Revision, StoredId};

/// A session as it is stored.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Document {
    /// All but the messages. It is written first, and the messages last.
    #[serde(flatten)]
    pub head: Head,
    /// What was said, in order.
    pub messages: Vec<StoredMessage>,
}

/// A session without its messages.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Head {
    /// Its id, the same as in the name of the file.
    pub id: StoredId,
    /// When it was created.
    pub created_at: Timestamp,
    /// When its content changed last.
    pub updated_at: Timestamp,
    /// Whether it can never change again.
    pub frozen: bool,
    /// What it was forked from.
    pub parent: Option<Parent>,
    /// What describes it.
    #[serde(flatten)]
    pub described: Described,
}

/// What belongs to a session beside its messages, and may change while it is used.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Described {
    /// Its title; empty where it has none.
    pub title: String,
    /// What controllers and users keep with it; not ours to understand.
    pub metadata: Map<String, Value>,
    /// The plan of the agent.
    pub todos: Vec<Todo>,
    /// What was counted; not copied by a fork.
    pub statistics: Map<String, Value>,
}

/// Where a fork comes from: exactly these bytes of that session.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Parent {
    /// The session.
    pub id: StoredId,
    /// The revision that was copied.
    pub revision: Revision,
}

/// One step of the plan.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Todo {
    /// What is to be done.
    pub text: String,
    /// How far it is.
    pub state: TodoState,
}

/// How far a step is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum TodoState {
    /// Not begun.
    Pending,
    /// Being done.
    Active,
    /// Done.
    Done,
}

/// One message. A call and its result are two, which always stand together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "role", rename_all = "snake_case", deny_unknown_fields)]
pub enum StoredMessage {
    /// What the model is told before anything else.
    System {
        /// Its id.
        message_id: PartId,
        /// The text.
        content: String,
    },
    /// What a person or controller sent.
    User {
        /// Its id.
        message_id: PartId,
        /// The text.
        content: String,
    },
    /// What the model answered.
    Assistant {
        /// Its id.
        message_id: PartId,
        /// The text.
        content: String,
        /// Its calls; the results follow at once.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        tool_calls: Vec<StoredCall>,
        /// What it thought.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        thinking: String,
    },
    /// The result of a call.
    Tool {
        /// Its id.
        message_id: PartId,
        /// The call.
        call_id: PartId,
        /// The tool.
        name: String,
        /// How it went.
        status: StoredStatus,
        /// What the model is told.
        content: String,
    },
}

/// A call of a tool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StoredCall {
    /// Its id.
    pub call_id: PartId,
    /// The tool.
    pub name: String,
    /// What it was given.
    pub args: Value,
}

/// How a call went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum StoredStatus {
    /// It did what it was asked.
    Ok,
    /// It did not: it failed, was not allowed, or was interrupted.
    Error,
}

impl StoredMessage {
    /// Its id.
    #[must_use]
    pub fn message_id(&self) -> &PartId {
        match self {
            Self::System { message_id, .. }
            | Self::User { message_id, .. }
            | Self::Assistant { message_id, .. }
            | Self::Tool { message_id, .. } => message_id,
        }
    }

    /// Whether it is one that the model was told beforehand, which is not counted.
    #[must_use]
    pub fn is_system(&self) -> bool {
        match self {
            Self::System { .. } => true,
            Self::User { .. } | Self::Assistant { .. } | Self::Tool { .. } => false,
        }
    }
}

impl Document {
    /// Messages that are counted: all but the system's.
    #[must_use]
    pub fn counted(&self) -> u64 {
        u64::try_from(self.messages.iter().filter(|message| !message.is_system()).count()).unwrap_or(u64::MAX)
    }

    /// Whether two sessions are one conversation to an import: times, freezing, lineage and statistics do not count.
    #[must_use]
    pub fn is_same_conversation(&self, other: &Self) -> bool {
        let (this, that) = (&self.head.described, &other.head.described);
        this.title == that.title
            && this.metadata == that.metadata
            && this.todos == that.todos
            && self.messages == other.messages
    }

    /// The bytes of the file: one line of JSON, the same for the same session.
    ///
    /// # Errors
    /// The sentence of a value that is no JSON; none of ours is.
    pub fn encode(&self) -> Result<Vec<u8>, String> {
        let mut bytes = serde_json::to_vec(self).map_err(|error| error.to_string())?;
        bytes.push(b'\n');
        Ok(bytes)
    }
}
