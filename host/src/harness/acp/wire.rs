//! The lines of ACP: JSON-RPC 2.0 messages, read with patience and written by hand.

use serde_json::{Map, Value, json};

/// The version of the protocol.
pub(super) const VERSION: u64 = 1;
/// The code of an agent that wants a login first.
pub(super) const NOT_LOGGED_IN: i64 = -32000;
const METHOD_NOT_FOUND: i64 = -32601;
const INVALID_PARAMS: i64 = -32602;

/// A message of an agent.
#[derive(Debug, PartialEq)]
pub(super) enum Message {
    /// It wants an answer from us.
    Request { id: Value, method: String, params: Value },
    /// It tells us something.
    Notification { method: String, params: Value },
    /// The answer to a request of ours.
    Response { id: u64, result: Result<Value, Failure> },
}

/// What an agent says instead of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Failure {
    pub(super) code: i64,
    pub(super) message: String,
}

/// The message in a line; none where it is no message of JSON-RPC.
pub(super) fn read(line: &[u8]) -> Option<Message> {
    let Ok(Value::Object(mut object)) = super::super::claude::read_json(line) else { return None };
    let id = object.remove("id").filter(|id| id.is_string() || id.is_number());
    let params = object.remove("params").unwrap_or_default();
    match (object.remove("method"), id) {
        (Some(Value::String(method)), Some(id)) => Some(Message::Request { id, method, params }),
        (Some(Value::String(method)), None) => Some(Message::Notification { method, params }),
        (None, Some(id)) => Some(Message::Response { id: id.as_u64()?, result: result(&mut object)? }),
        (Some(_) | None, _) => None,
    }
}

fn result(object: &mut Map<String, Value>) -> Option<Result<Value, Failure>> {
    if let Some(error) = object.remove("error").filter(|error| !error.is_null()) {
        let text = |value: Option<&Value>| value.and_then(Value::as_str).unwrap_or_default().to_owned();
        let mut message = text(error.get("message"));
        let details = text(error.pointer("/data/details").or_else(|| error.pointer("/data/message")));
        if !details.is_empty() {
            message = format!("{message}: {details}");
        }
        return Some(Err(Failure {
            code: error.get("code").and_then(Value::as_i64).unwrap_or_default(),
            message,
        }));
    }
    object.remove("result").map(Ok)
}

/// A request of ours.
pub(super) fn request(id: u64, method: &str, params: Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "method": method, "params": params })
}

/// We offer neither files nor terminals: the agent has its own.
pub(super) fn initialize(id: u64) -> Value {
    let params = json!({
        "protocolVersion": VERSION,
        "clientCapabilities": { "fs": { "readTextFile": false, "writeTextFile": false }, "terminal": false },
        "clientInfo": { "name": "aude", "version": env!("CARGO_PKG_VERSION") },
    });
    request(id, "initialize", params)
}

/// The end of the running turn, please.
pub(super) fn cancel(session: &str) -> Value {
    json!({ "jsonrpc": "2.0", "method": "session/cancel", "params": { "sessionId": session } })
}

/// The option of a permission that was chosen.
pub(super) fn selected(id: &Value, option: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": { "outcome": "selected", "optionId": option } } })
}

/// Nobody decides about this permission any more.
pub(super) fn cancelled(id: &Value) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "result": { "outcome": { "outcome": "cancelled" } } })
}

/// The answer to a request that we do not know.
pub(super) fn unsupported(id: &Value) -> Value {
    error(id, METHOD_NOT_FOUND, "aude does not answer this request")
}

/// The answer to a request about another session.
pub(super) fn unknown_session(id: &Value) -> Value {
    error(id, INVALID_PARAMS, "there is no such session here")
}

fn error(id: &Value, code: i64, message: &str) -> Value {
    json!({ "jsonrpc": "2.0", "id": id, "error": { "code": code, "message": message } })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn requests_answers_and_news_are_told_apart() {
        assert!(matches!(read(br#"{"id":"a","method":"m","params":{}}"#), Some(Message::Request { .. })));
        assert!(matches!(read(br#"{"method":"m"}"#), Some(Message::Notification { .. })));
        assert!(matches!(
            read(br#"{"id":3,"result":null}"#),
            Some(Message::Response { id: 3, result: Ok(Value::Null) })
        ));
        let failed =
            read(br#"{"id":3,"error":{"code":-32603,"message":"Internal error","data":{"details":"why"}}}"#);
        let Some(Message::Response { result: Err(failure), .. }) = failed else { panic!("no failure") };
        assert_eq!((failure.code, failure.message.as_str()), (-32603, "Internal error: why"));
        for line in
            ["", "null", "[]", "{}", r#"{"id":null}"#, r#"{"id":"x","result":1}"#, r#"{"method":7}"#, "oops"]
        {
            assert_eq!(read(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_can_hurt(line in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = read(&line);
        }
    }
}
