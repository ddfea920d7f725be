//! Strict reading of what controllers send (settled points 30 and 31): nothing unknown, nothing twice, nothing clamped.

use axum::extract::Request;
use serde_json::{Map, Value};

use crate::automation::course::Answer;
use crate::automation::error::{AutomationError, Code};
use crate::automation::run::Request as RunRequest;
use crate::automation::run::{OnInput, RunKind};

/// Characters of a `request_id` at most.
const REQUEST_ID_CHARACTERS: usize = 256;
/// Bytes of a prompt or command at most.
const TEXT_BYTES: usize = 1024 * 1024;

/// The query of a request, each key at most once.
pub(super) struct Query(Vec<(String, String)>);

impl Query {
    /// Reads the query, which may have these keys.
    pub(super) fn of(request: &Request, keys: &[&str]) -> Result<Self, AutomationError> {
        let query = request.uri().query().unwrap_or_default();
        let mut pairs: Vec<(String, String)> = Vec::new();
        for (key, value) in form_urlencoded::parse(query.as_bytes()) {
            if !keys.contains(&key.as_ref()) {
                return Err(bad(&format!(
                    "there is no parameter {:?} here",
                    crate::text::one_line(&key, 40)
                )));
            }
            if pairs.iter().any(|(known, _)| *known == key) {
                return Err(bad(&format!("the parameter {key} comes twice")));
            }
            pairs.push((key.into_owned(), value.into_owned()));
        }
        Ok(Self(pairs))
    }

    /// The value of a key.
    pub(super) fn text(&self, key: &str) -> Option<&str> {
        self.0.iter().find(|(known, _)| known == key).map(|(_, value)| value.as_str())
    }

    /// An integer that says where something is; one that is out of range is judged by whoever knows the range.
    pub(super) fn cursor(&self, key: &str) -> Result<Option<i128>, AutomationError> {
        self.text(key).map(|text| cursor(key, text)).transpose()
    }

    /// An integer within bounds.
    pub(super) fn number(&self, key: &str, least: u64, most: u64) -> Result<Option<u64>, AutomationError> {
        let Some(number) = self.cursor(key)? else { return Ok(None) };
        match u64::try_from(number) {
            Ok(number) if (least..=most).contains(&number) => Ok(Some(number)),
            Ok(_) | Err(_) => Err(bad(&format!("{key} must be from {least} to {most}"))),
        }
    }

    /// `true` or `false`, which it is where it is left out.
    pub(super) fn flag(&self, key: &str) -> Result<bool, AutomationError> {
        match self.text(key) {
            None | Some("false") => Ok(false),
            Some("true") => Ok(true),
            Some(_) => Err(bad(&format!("{key} must be true or false"))),
        }
    }
}

/// An integer as it is written in decimal, with nothing else.
pub(super) fn cursor(key: &str, text: &str) -> Result<i128, AutomationError> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    let is_integer = (1..=30).contains(&digits.len()) && digits.bytes().all(|byte| byte.is_ascii_digit());
    let number = is_integer.then(|| text.parse().ok()).flatten();
    number.ok_or_else(|| bad(&format!("{key} must be an integer")))
}

/// The body of `POST /v1/runs`.
pub(super) fn submission(body: &[u8]) -> Result<RunRequest, AutomationError> {
    let mut fields = object(body, &["request_id", "prompt", "command", "on_input"])?;
    let request_id = request_id(string(&mut fields, "request_id")?.as_deref())?;
    let on_input = match string(&mut fields, "on_input")?.as_deref() {
        None | Some("block") => OnInput::Block,
        Some("wait") => OnInput::Wait,
        Some(_) => return Err(bad("on_input must be block or wait")),
    };
    let (kind, text) = match (string(&mut fields, "prompt")?, string(&mut fields, "command")?) {
        (Some(prompt), None) => (RunKind::Prompt, prompt),
        (None, Some(command)) => (RunKind::Command, command),
        (Some(_), Some(_)) => return Err(bad("a run has a prompt or a command, not both")),
        (None, None) => return Err(bad("a run needs a prompt or a command")),
    };
    if text.len() > TEXT_BYTES {
        return Err(bad("a prompt or command has at most 1 MiB"));
    }
    Ok(RunRequest { request_id, kind, text, on_input })
}

/// A `request_id`.
pub(super) fn request_id(text: Option<&str>) -> Result<String, AutomationError> {
    let text = text.ok_or_else(|| bad("request_id is missing"))?;
    let length = text.chars().count();
    if !(1..=REQUEST_ID_CHARACTERS).contains(&length) || text.chars().any(char::is_control) {
        return Err(bad("a request_id has 1 to 256 characters and no controls"));
    }
    Ok(text.to_owned())
}

/// The body of an answer.
pub(super) fn answer(body: &[u8]) -> Result<Answer, AutomationError> {
    let mut fields = object(body, &["answer", "action"])?;
    match (string(&mut fields, "answer")?, string(&mut fields, "action")?) {
        (Some(answer), None) => Ok(Answer::Said(answer)),
        (None, Some(action)) => Ok(Answer::Action(action)),
        (Some(_), Some(_)) | (None, None) => {
            Err(bad("an input takes an answer (to a question) or an action (for an approval)"))
        }
    }
}

/// A body with nothing in it.
pub(super) fn nothing(body: &[u8]) -> Result<(), AutomationError> {
    if body.trim_ascii().is_empty() { Ok(()) } else { object(body, &[]).map(|_| ()) }
}

/// The one object of a body, which may have these fields.
fn object(body: &[u8], keys: &[&str]) -> Result<Map<String, Value>, AutomationError> {
    let fields = shared::json::read_object(body.trim_ascii())
        .map_err(|wrong| bad(&format!("the body must be one JSON object: {wrong}")))?;
    match fields.keys().find(|key| !keys.contains(&key.as_str())) {
        Some(unknown) => {
            Err(bad(&format!("there is no field {:?} here", crate::text::one_line(unknown, 40))))
        }
        None => Ok(fields),
    }
}

fn string(fields: &mut Map<String, Value>, key: &str) -> Result<Option<String>, AutomationError> {
    match fields.remove(key) {
        None => Ok(None),
        Some(Value::String(text)) => Ok(Some(text)),
        Some(Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_)) => {
            Err(bad(&format!("{key} must be a string")))
        }
    }
}

fn bad(message: &str) -> AutomationError {
    AutomationError::new(Code::BadRequest, message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn query(text: &str, keys: &[&str]) -> Result<Query, AutomationError> {
        let request =
            Request::builder().uri(format!("/v1/x?{text}")).body(axum::body::Body::empty()).unwrap();
        Query::of(&request, keys)
    }

    #[test]
    fn a_run_is_read_as_it_is_sent() {
        let run = submission(br#" {"request_id":"t:1","prompt":" /hi ","on_input":"wait"} "#).unwrap();
        assert_eq!((run.request_id.as_str(), run.kind, run.text.as_str()), ("t:1", RunKind::Prompt, " /hi "));
        assert_eq!(run.on_input, OnInput::Wait);
        let run = submission(br#"{"request_id":"1","command":"/help"}"#).unwrap();
        assert_eq!((run.kind, run.on_input), (RunKind::Command, OnInput::Block));
        assert_eq!(
            submission(br#"{"request_id":"1","prompt":""}"#).unwrap().text,
            "",
            "the engine judges it"
        );
    }

    #[test]
    fn anything_else_is_a_bad_request() {
        let long = format!(r#"{{"request_id":"{}","prompt":"x"}}"#, "x".repeat(257));
        let large = format!(r#"{{"request_id":"1","prompt":"{}"}}"#, "x".repeat(TEXT_BYTES + 1));
        for body in [
            "",
            "[]",
            "null",
            r#"{"request_id":"1"}"#,
            r#"{"prompt":"x"}"#,
            r#"{"request_id":"","prompt":"x"}"#,
            r#"{"request_id":"a\u0000","prompt":"x"}"#,
            r#"{"request_id":1,"prompt":"x"}"#,
            r#"{"request_id":"1","prompt":null}"#,
            r#"{"request_id":"1","prompt":"x","on_input":null}"#,
            r#"{"request_id":"1","prompt":"x","command":"/help"}"#,
            r#"{"request_id":"1","prompt":"x","on_input":"ask"}"#,
            r#"{"request_id":"1","prompt":"x","extra":1}"#,
            r#"{"request_id":"1","request_id":"2","prompt":"x"}"#,
            r#"{"request_id":"1","prompt":"x"} x"#,
            &long,
            &large,
        ] {
            let code = submission(body.as_bytes()).map(|_| ()).unwrap_err().code;
            assert_eq!(code, Code::BadRequest, "{}", crate::text::one_line(body, 80));
        }
        for body in ["{}", r#"{"answer":"a","action":"allow"}"#, r#"{"answer":1}"#, r#"{"said":"a"}"#] {
            assert_eq!(answer(body.as_bytes()).unwrap_err().code, Code::BadRequest, "{body}");
        }
        assert!(nothing(b"").is_ok() && nothing(b" {} ").is_ok());
        assert!(nothing(b"{\"a\":1}").is_err() && nothing(b"null").is_err());
    }

    #[test]
    fn a_query_has_known_keys_once_and_whole_numbers() {
        let keys = &["after", "thinking", "limit"];
        let good = query("after=-3&thinking=true&limit=5000", keys).unwrap();
        assert_eq!(good.cursor("after").unwrap(), Some(-3));
        assert!(good.flag("thinking").unwrap());
        assert_eq!(good.number("limit", 1, 5000).unwrap(), Some(5000));
        assert!(query("after=1&after=1", keys).is_err() && query("other=1", keys).is_err());
        for bad in ["after=", "after=1.0", "after=%2B1", "after=0x1", "after=1e3", "after=--1"] {
            assert!(query(bad, keys).unwrap().cursor("after").is_err(), "{bad}");
        }
        assert!(query("limit=0", keys).unwrap().number("limit", 1, 9).is_err());
        assert!(query("limit=10", keys).unwrap().number("limit", 1, 9).is_err());
        assert!(query("thinking=1", keys).unwrap().flag("thinking").is_err());
    }

    proptest! {
        #[test]
        fn no_body_breaks_the_reader(body in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = (submission(&body), answer(&body), nothing(&body));
        }

        #[test]
        fn whatever_is_taken_is_within_bounds(text in "-?[0-9]{0,40}") {
            if let Ok(number) = cursor("after", &text) {
                prop_assert_eq!(number, text.parse::<i128>().unwrap());
            }
        }
    }
}
