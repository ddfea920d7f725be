//! The messages of a stored session as the interface shows them: numbered from 1, every field there (settled point 29).

use schemars::JsonSchema;
use serde::Serialize;

use super::event::{ToolCall, ToolStatus};
use super::store::{StoredCall, StoredMessage, StoredStatus};

/// Who says a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Role {
    /// What the model is told before anything else.
    System,
    /// A person or controller.
    User,
    /// The model.
    Assistant,
    /// A tool.
    Tool,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Shown {
    /// Its number, from 1.
    pub index: u64,
    /// Its id, the same as in events.
    pub message_id: String,
    /// Who says it.
    pub role: Role,
    /// The text.
    pub content: String,
    /// The tools that it calls; empty for all but the model's.
    pub tool_calls: Vec<ToolCall>,
    /// The call that it is the result of.
    pub call_id: Option<String>,
    /// The tool.
    pub name: Option<String>,
    /// How the call went.
    pub status: Option<ToolStatus>,
    /// What the model thought; only for whoever asks for thinking.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub thinking: Option<String>,
}

impl Shown {
    /// The message with this number.
    #[must_use]
    pub fn of(index: u64, message: StoredMessage, with_thinking: bool) -> Self {
        let plain = |message_id: String, role: Role, content: String| Self {
            index,
            message_id,
            role,
            content,
            tool_calls: Vec::new(),
            call_id: None,
            name: None,
            status: None,
            thinking: None,
        };
        match message {
            StoredMessage::System { message_id, content } => {
                plain(message_id.to_string(), Role::System, content)
            }
            StoredMessage::User { message_id, content } => plain(message_id.to_string(), Role::User, content),
            StoredMessage::Assistant { message_id, content, tool_calls, thinking } => Self {
                tool_calls: tool_calls.into_iter().map(call).collect(),
                thinking: with_thinking.then_some(thinking),
                ..plain(message_id.to_string(), Role::Assistant, content)
            },
            StoredMessage::Tool { message_id, call_id, name, status, content } => Self {
                call_id: Some(call_id.to_string()),
                name: Some(name),
                status: Some(match status {
                    StoredStatus::Ok => ToolStatus::Ok,
                    StoredStatus::Error => ToolStatus::Error,
                }),
                ..plain(message_id.to_string(), Role::Tool, content)
            },
        }
    }
}

fn call(call: StoredCall) -> ToolCall {
    ToolCall { call_id: call.call_id.to_string(), name: call.name, args: call.args }
}
