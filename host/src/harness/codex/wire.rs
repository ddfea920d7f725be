//! What `codex app-server` writes and reads, one JSON object a line; unknown messages and fields are tolerated.

use serde::Deserialize;
use serde_json::{Value, json};

/// The method is not one that we have (JSON-RPC).
const NO_METHOD: i64 = -32601;

/// A request, a notification or an answer: which one, the present fields say.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Message {
    pub(super) id: Value,
    pub(super) method: Option<String>,
    pub(super) params: Value,
    pub(super) result: Value,
    pub(super) error: Value,
}

/// A model that can be chosen.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Model {
    pub(super) model: String,
    pub(super) display_name: String,
    pub(super) hidden: bool,
    pub(super) supported_reasoning_efforts: Vec<Effort>,
}

/// How hard a model can think.
#[derive(Debug, Clone, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Effort {
    pub(super) reasoning_effort: String,
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "method": method, "id": id, "params": params })
}

/// The answer to a request of the program.
pub(super) fn reply(id: &Value, result: Value) -> Value {
    json!({ "id": id, "result": result })
}

/// The answer to a request that we do not know.
pub(super) fn unsupported(id: &Value) -> Value {
    json!({ "id": id, "error": { "code": NO_METHOD, "message": "this client does not support that" } })
}

/// The text of a field, empty where there is none.
pub(super) fn text<'a>(value: &'a Value, field: &str) -> &'a str {
    value.get(field).and_then(Value::as_str).unwrap_or_default()
}
