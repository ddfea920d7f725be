//! What Claude Code writes and reads, one JSON object a line; unknown messages and fields are tolerated.

use serde::Deserialize;
use serde_json::{Value, json};
use uuid::Uuid;

/// A message of Claude Code.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Message {
    /// About itself; `init` stands at the start of each turn.
    System(System),
    /// A raw event of the model's stream, for live text.
    StreamEvent(StreamEvent),
    /// A finished block of the assistant.
    Assistant(AssistantMessage),
    /// Results of tools, our own words again, remarks of the program.
    User(UserMessage),
    /// The end of a turn.
    Result(TurnResult),
    /// It wants an answer from us.
    ControlRequest(ControlRequest),
    /// It no longer wants one.
    ControlCancelRequest {
        #[serde(default)]
        request_id: Value,
    },
    /// The answer to a request of ours.
    ControlResponse(ControlResponse),
    /// What became of a message that we sent.
    CommandLifecycle(CommandLifecycle),
    /// A message of another version.
    #[serde(other)]
    Other,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct System {
    pub(super) subtype: String,
    pub(super) session_id: Option<String>,
    pub(super) model: Option<String>,
    #[serde(rename = "permissionMode")]
    pub(super) permission_mode: Option<String>,
}

#[derive(Debug, Deserialize)]
pub(super) struct StreamEvent {
    pub(super) event: Event,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
}

/// An event of the Messages API.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Event {
    MessageStart {
        message: ApiMessage,
    },
    ContentBlockStart {
        #[serde(default)]
        index: u64,
    },
    ContentBlockDelta {
        #[serde(default)]
        index: u64,
        delta: Delta,
    },
    ContentBlockStop {},
    MessageDelta {
        #[serde(default)]
        usage: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "thinking_delta")]
    Thinking { thinking: String },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct AssistantMessage {
    pub(super) message: ApiMessage,
    #[serde(default)]
    pub(super) parent_tool_use_id: Option<String>,
    /// The word of an error of the service, of which the text then speaks.
    #[serde(default)]
    pub(super) error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ApiMessage {
    pub(super) id: Option<String>,
    pub(super) model: Option<String>,
    pub(super) content: Content,
    pub(super) usage: Value,
}

/// The content of a message: a text, or blocks.
#[derive(Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Content {
    Text(String),
    Blocks(Vec<Value>),
    /// Another version's.
    Other(serde::de::IgnoredAny),
}

impl Default for Content {
    fn default() -> Self {
        Self::Blocks(Vec::new())
    }
}

impl Content {
    /// The blocks that this version knows; a text counts as one.
    pub(super) fn blocks(self) -> Vec<Block> {
        match self {
            Self::Text(text) => vec![Block::Text { text }],
            Self::Blocks(blocks) => blocks
                .into_iter()
                .map(|block| serde_json::from_value(block).unwrap_or(Block::Other))
                .collect(),
            Self::Other(_) => Vec::new(),
        }
    }
}

/// A block of content.
#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub(super) enum Block {
    Text {
        text: String,
    },
    Thinking {
        #[serde(default)]
        thinking: String,
    },
    ToolUse {
        id: String,
        name: String,
        #[serde(default)]
        input: Value,
    },
    ToolResult {
        tool_use_id: String,
        #[serde(default)]
        content: Content,
        #[serde(default)]
        is_error: Option<bool>,
    },
    Image {
        #[serde(default)]
        source: Value,
    },
    #[serde(other)]
    Other,
}

#[derive(Debug, Deserialize)]
pub(super) struct UserMessage {
    pub(super) message: ApiMessage,
    #[serde(default)]
    pub(super) tool_use_result: Value,
    #[serde(default)]
    pub(super) tool_result_meta: Value,
    /// Our own message again, when the program takes it up.
    #[serde(default, rename = "isReplay")]
    pub(super) is_replay: bool,
    #[serde(default)]
    pub(super) uuid: Option<String>,
}

/// The end of a turn. Its fields are read with patience: a turn whose end cannot be read would never end.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct TurnResult {
    pub(super) subtype: Value,
    pub(super) is_error: Value,
    pub(super) terminal_reason: Value,
    pub(super) result: Value,
    pub(super) errors: Value,
    pub(super) usage: Value,
    pub(super) total_cost_usd: Value,
    #[serde(rename = "modelUsage")]
    pub(super) model_usage: Value,
    pub(super) model_usage_since_last_result: Value,
}

impl TurnResult {
    /// Whether it says that the turn came to its end.
    pub(super) fn is_success(&self) -> bool {
        self.subtype.as_str() == Some("success")
            && self.is_error.as_bool() != Some(true)
            && !self.is_aborted()
            && self.terminal_reason.as_str() != Some("api_error")
    }

    /// Whether it says that the turn was cut short.
    pub(super) fn is_aborted(&self) -> bool {
        self.terminal_reason.as_str().is_some_and(|reason| reason.starts_with("aborted"))
    }

    /// The sentences about what went wrong, without those for the program's developers.
    pub(super) fn errors(&self) -> impl Iterator<Item = &str> {
        self.errors
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(Value::as_str)
            .filter(|error| !error.starts_with("[ede_diagnostic]"))
    }

    /// Whether it says that a conversation to be resumed is not there.
    pub(super) fn says_no_conversation(&self) -> bool {
        self.errors().any(|error| error.starts_with("No conversation found"))
    }
}

/// A request to us: it must be answered, whatever it is.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlRequest {
    pub(super) request_id: Value,
    pub(super) request: Value,
    pub(super) session_id: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct ControlResponse {
    pub(super) response: Response,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Response {
    pub(super) subtype: String,
    pub(super) request_id: String,
    pub(super) response: Value,
    pub(super) error: Value,
}

#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct CommandLifecycle {
    pub(super) command_uuid: String,
    pub(super) state: String,
}

/// What the answer to `initialize` tells.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Initialized {
    pub(super) models: Vec<Model>,
    pub(super) agents: Vec<AgentName>,
    pub(super) current_permission_mode: Option<String>,
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Model {
    /// The word by which it is chosen.
    pub(super) value: String,
    /// The model that this means now.
    pub(super) resolved_model: Option<String>,
    /// Its name for people.
    pub(super) display_name: Option<String>,
    pub(super) supported_effort_levels: Vec<String>,
}

impl Model {
    /// Whether the word or the full name means this model.
    pub(super) fn answers_to(&self, name: &str) -> bool {
        self.value == name || self.resolved_model.as_deref() == Some(name)
    }

    /// Whether the program knows it. A name that it was merely told stands in its list too, without a name for people.
    pub(super) fn is_known(&self) -> bool {
        self.display_name.as_ref().is_some_and(|name| *name != self.value)
    }
}

#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default)]
pub(super) struct AgentName {
    pub(super) name: String,
}

/// One line of the program, with what breaks the rules of JSON text replaced: broken UTF-8 and lone surrogates.
///
/// # Errors
/// When it is no JSON.
pub(in crate::harness) fn read(line: &[u8]) -> Result<Value, serde_json::Error> {
    match serde_json::from_slice(line) {
        Ok(value) => Ok(value),
        Err(_) => serde_json::from_str(&without_lone_surrogates(&String::from_utf8_lossy(line))),
    }
}

/// Replaces each `\uD800`…`\uDFFF` that has no partner by `\uFFFD`.
fn without_lone_surrogates(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find('\\') {
        clean.push_str(&rest[..at]);
        rest = &rest[at..];
        let taken = match surrogate(rest) {
            Some(0xD800..=0xDBFF) if matches!(rest.get(6..).and_then(surrogate), Some(0xDC00..=0xDFFF)) => 12,
            Some(_) => {
                clean.push_str("\\uFFFD");
                rest = &rest[6..];
                continue;
            }
            // The backslash and what it escapes; a character of more than one byte cannot be escaped.
            None => rest.char_indices().nth(2).map_or(rest.len(), |(index, _)| index),
        };
        clean.push_str(&rest[..taken]);
        rest = &rest[taken..];
    }
    clean.push_str(rest);
    clean
}

/// The surrogate that an escape at the start of the text stands for.
fn surrogate(text: &str) -> Option<u16> {
    let digits = text.strip_prefix("\\u")?.get(..4)?;
    let unit = u16::from_str_radix(digits, 16).ok()?;
    (0xD800..=0xDFFF).contains(&unit).then_some(unit)
}

/// A prompt of the person, by the id under which the program will speak of it.
pub(super) fn user(id: Uuid, text: &str) -> Value {
    json!({
        "type": "user",
        "message": { "role": "user", "content": [{ "type": "text", "text": text }] },
        "parent_tool_use_id": null,
        "session_id": "",
        "uuid": id,
    })
}

/// A request to the program.
pub(super) fn request(id: &str, request: Value) -> Value {
    json!({ "type": "control_request", "request_id": id, "request": request })
}

/// The permission to use a tool as it was asked for.
pub(super) fn allow(id: &Value, input: &Value) -> Value {
    success(id, json!({ "behavior": "allow", "updatedInput": input }))
}

/// The refusal of a tool; the model reads the message.
pub(super) fn deny(id: &Value, message: &str) -> Value {
    success(id, json!({ "behavior": "deny", "message": message }))
}

fn success(id: &Value, response: Value) -> Value {
    json!({ "type": "control_response",
        "response": { "subtype": "success", "request_id": id, "response": response } })
}

/// The answer to a request that we do not know.
pub(super) fn unsupported(id: &Value) -> Value {
    json!({ "type": "control_response",
        "response": { "subtype": "error", "request_id": id, "error": "aude does not answer this request" } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_breaks_the_rules_of_text_is_replaced() {
        let cases: [(&[u8], &str); 7] = [
            (br#"["a\ud800b"]"#, "a\u{FFFD}b"),
            (br#"["\udc00\ud800"]"#, "\u{FFFD}\u{FFFD}"),
            (br#"["\ud83d\ude00\ud83d"]"#, "😀\u{FFFD}"),
            (br#"["\\ud800"]"#, "\\ud800"),
            (br#"["\\\ud800"]"#, "\\\u{FFFD}"),
            (br#"["\ud83d\ud83d\ude00"]"#, "\u{FFFD}😀"),
            (b"[\"\xff\"]", "\u{FFFD}"),
        ];
        for (line, text) in cases {
            assert_eq!(read(line).unwrap()[0], text);
        }
        assert!(read(b"Segmentation fault").is_err());
        assert!(read(b"\"\\").is_err());
        assert!(read("\"\\é".as_bytes()).is_err());
    }

    #[test]
    fn unknown_messages_and_blocks_are_no_errors() {
        let message = |value: Value| serde_json::from_value::<Message>(value).unwrap();
        assert!(matches!(message(json!({"type": "rate_limit_event", "x": 1})), Message::Other));
        let Message::StreamEvent(event) = message(json!({"type": "stream_event", "event": {"type": "ping"}}))
        else {
            panic!("no stream event");
        };
        assert!(matches!(event.event, Event::Other));
        let content: Content = serde_json::from_value(json!([{"type": "hologram"}, 7])).unwrap();
        assert!(content.blocks().iter().all(|block| matches!(block, Block::Other)));
    }

    proptest! {
        #[test]
        fn no_line_can_hurt(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            if let Ok(value) = read(&line) {
                let _ = serde_json::from_value::<Message>(value);
            }
        }

        #[test]
        fn any_escapes_inside_a_string_can_be_read(units in proptest::collection::vec(any::<u16>(), 0..20)) {
            let escapes: String = units.iter().map(|unit| format!("\\u{unit:04x}")).collect();
            let value = read(format!("\"{escapes}\"").as_bytes()).unwrap();
            prop_assert_eq!(value.as_str().unwrap(), String::from_utf16_lossy(&units));
        }
    }
}
