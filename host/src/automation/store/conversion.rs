//! The messages of a file and those of the engine, one from the other: a call and its result are two in the file and one in the engine.

use std::collections::HashMap;

use serde_json::Value;
use shared::entry::ResultStatus;
use shared::ids::PartId;

use super::{StoredCall, StoredMessage, StoredStatus};
use crate::engine::conversation::{AnsweredCall, Message};

/// How deep what a tool is given may be nested in a file; its reader takes 127 levels, of which the fields around it need 5.
const DEPTH: usize = 96;

/// What a file holds that the engine does not: the system's messages, and the ids of results.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// Each with the message that it follows; none for those at the beginning.
    system: Vec<(Option<PartId>, StoredMessage)>,
    /// The id of the message that holds the result of a call, where it is not the one that we would give it.
    results: HashMap<PartId, PartId>,
}

/// The engine's messages of a file. Reading it has proved that each call has its result.
pub(super) fn for_engine(stored: &[StoredMessage]) -> (Vec<Message>, Kept) {
    let mut messages: Vec<Message> = Vec::new();
    let mut kept = Kept::default();
    for message in stored {
        match message {
            StoredMessage::System { .. } => {
                let before = messages.last().map(|last| id_of(last).clone());
                kept.system.push((before, message.clone()));
            }
            StoredMessage::User { message_id, content } => {
                messages.push(Message::User { message: message_id.clone(), text: content.clone() });
            }
            StoredMessage::Assistant { message_id, content, tool_calls, thinking } => {
                messages.push(Message::Assistant {
                    message: message_id.clone(),
                    text: content.clone(),
                    thinking: thinking.clone(),
                    calls: tool_calls.iter().map(open_call).collect(),
                });
            }
            StoredMessage::Tool { message_id, call_id, name: _, status, content } => {
                if *message_id != result_id(call_id) {
                    kept.results.insert(call_id.clone(), message_id.clone());
                }
                if let Some(Message::Assistant { calls, .. }) = messages.last_mut() {
                    for call in calls.iter_mut().filter(|call| call.call == *call_id) {
                        call.status = match status {
                            StoredStatus::Ok => ResultStatus::Ok.into(),
                            StoredStatus::Error => ResultStatus::Error.into(),
                        };
                        call.result.clone_from(content);
                    }
                }
            }
        }
    }
    (messages, kept)
}

/// The messages of the file.
pub(super) fn for_file(messages: &[Message], kept: &Kept) -> Vec<StoredMessage> {
    let is_there = |id: &PartId| messages.iter().any(|message| id_of(message) == id);
    let mut after: HashMap<&PartId, Vec<&StoredMessage>> = HashMap::new();
    let mut stored = Vec::new();
    for (before, system) in &kept.system {
        match before {
            // What it followed may have been compacted away; what the model is told beforehand stays.
            Some(before) if is_there(before) => after.entry(before).or_default().push(system),
            Some(_) | None => stored.push(system.clone()),
        }
    }
    for message in messages {
        match message {
            Message::User { message, text } => {
                stored.push(StoredMessage::User { message_id: message.clone(), content: text.clone() });
            }
            Message::Assistant { message, text, thinking, calls } => {
                stored.push(StoredMessage::Assistant {
                    message_id: message.clone(),
                    content: text.clone(),
                    tool_calls: calls.iter().map(stored_call).collect(),
                    thinking: thinking.clone(),
                });
                stored.extend(calls.iter().map(|call| stored_result(call, kept)));
            }
        }
        stored.extend(after.remove(id_of(message)).into_iter().flatten().cloned());
    }
    stored
}

fn id_of(message: &Message) -> &PartId {
    match message {
        Message::User { message, .. } | Message::Assistant { message, .. } => message,
    }
}

fn open_call(call: &StoredCall) -> AnsweredCall {
    AnsweredCall {
        call: call.call_id.clone(),
        name: call.name.clone(),
        input: call.args.clone(),
        status: ResultStatus::Error.into(),
        result: String::new(),
    }
}

fn stored_call(call: &AnsweredCall) -> StoredCall {
    let args = if is_within(&call.input, DEPTH) {
        call.input.clone()
    } else {
        // Nothing that a model sends may make a file that cannot be read again.
        Value::String(call.input.to_string())
    };
    StoredCall { call_id: call.call.clone(), name: call.name.clone(), args }
}

fn stored_result(call: &AnsweredCall, kept: &Kept) -> StoredMessage {
    StoredMessage::Tool {
        message_id: kept.results.get(&call.call).cloned().unwrap_or_else(|| result_id(&call.call)),
        call_id: call.call.clone(),
        name: call.name.clone(),
        status: if call.status.is(&ResultStatus::Ok) { StoredStatus::Ok } else { StoredStatus::Error },
        content: call.result.clone(),
    }
}

/// The id of the message with the result of a call: always the same, so that a saved session does not change by being saved.
fn result_id(call: &PartId) -> PartId {
    let id = format!("{call}:result");
    id.parse().unwrap_or_else(|_| PartId::from_harness(super::Revision::of(id.as_bytes()).as_str()))
}

fn is_within(value: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return false };
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
        Value::Array(values) => values.iter().all(|value| is_within(value, below)),
        Value::Object(fields) => fields.values().all(|value| is_within(value, below)),
    }
}
