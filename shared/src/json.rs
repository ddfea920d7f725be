//! Strict JSON: reading without doubt, the one canonical writing (RFC 8785), and its digest (wire §2, §5.3).

use std::cell::Cell;
use std::fmt;

use serde::de::{self, Deserialize, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use sha2::{Digest, Sha256};

use crate::limits;

/// Nesting that is left for what a harness hands over, inside of the frame, its body and the fields around it.
const EMBEDDED_DEPTH: usize = limits::JSON_DEPTH - 8;
/// Bytes of what a harness hands over as JSON, so that a frame with several of them stays far below a line's limit.
const EMBEDDED_BYTES: usize = 1024 * 1024;

/// What was wrong with a text. It never holds the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, thiserror::Error)]
pub enum JsonError {
    /// Not UTF-8.
    #[error("the line is not UTF-8")]
    Encoding,
    /// It does not start with `{` and end with `}`.
    #[error("the line is not one JSON object")]
    Shape,
    /// Not JSON: also a lone surrogate or a number that no double can hold.
    #[error("the line is not JSON")]
    Syntax,
    /// An object has a field twice.
    #[error("a field stands twice in one object")]
    Duplicate,
    /// Nested deeper than 64.
    #[error("the line is nested too deeply")]
    Depth,
    /// Something stands after the object.
    #[error("something stands after the object")]
    Trailing,
}

impl JsonError {
    /// The word for it in the test vectors.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Encoding => "encoding",
            Self::Shape => "shape",
            Self::Syntax => "syntax",
            Self::Duplicate => "duplicate",
            Self::Depth => "depth",
            Self::Trailing => "trailing",
        }
    }
}

/// The one object that a line (without its `\n`) holds.
///
/// # Errors
/// When the line breaks a rule of strict reading (wire §2, "Framing").
pub fn read_object(line: &[u8]) -> Result<Map<String, Value>, JsonError> {
    read_object_within(line, limits::JSON_DEPTH)
}

/// [`read_object`] for an object that something else will stand around: nested at most so deep.
///
/// # Errors
/// When the line breaks a rule of strict reading.
pub fn read_object_within(line: &[u8], depth: usize) -> Result<Map<String, Value>, JsonError> {
    let text = std::str::from_utf8(line).map_err(|_| JsonError::Encoding)?;
    if !text.starts_with('{') || !text.ends_with('}') {
        return Err(JsonError::Shape);
    }
    match read_value(text, depth)? {
        Value::Object(object) => Ok(object),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => {
            Err(JsonError::Shape)
        }
    }
}

/// Any one JSON value, by the same rules, nested at most so deep.
fn read_value(text: &str, depth: usize) -> Result<Value, JsonError> {
    let wrong = Cell::new(JsonError::Syntax);
    let mut deserializer = serde_json::Deserializer::from_str(text);
    let value = Strict { depth, wrong: &wrong }.deserialize(&mut deserializer).map_err(|_| wrong.get())?;
    deserializer.end().map_err(|_| JsonError::Trailing)?;
    Ok(value)
}

/// Builds a value and looks at every name and level on the way.
#[derive(Clone, Copy)]
struct Strict<'a> {
    /// Levels that may still be opened.
    depth: usize,
    /// What was wrong, where it was not the syntax.
    wrong: &'a Cell<JsonError>,
}

impl Strict<'_> {
    fn deeper<E: de::Error>(self) -> Result<Self, E> {
        match self.depth.checked_sub(1) {
            Some(depth) => Ok(Self { depth, ..self }),
            None => Err(self.fail(JsonError::Depth)),
        }
    }

    fn fail<E: de::Error>(self, error: JsonError) -> E {
        self.wrong.set(error);
        E::custom(error)
    }
}

impl<'de> DeserializeSeed<'de> for Strict<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Strict<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E: de::Error>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E: de::Error>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_i64<E: de::Error>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Number(value.into()))
    }

    fn visit_f64<E: de::Error>(self, value: f64) -> Result<Value, E> {
        Number::from_f64(value).map(Value::Number).ok_or_else(|| self.fail(JsonError::Syntax))
    }

    fn visit_str<E: de::Error>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E: de::Error>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut array = Vec::new();
        while let Some(item) = items.next_element_seed(inner)? {
            array.push(item);
        }
        Ok(Value::Array(array))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Value, A::Error> {
        let inner = self.deeper()?;
        let mut object = Map::new();
        while let Some(name) = fields.next_key::<String>()? {
            if object.contains_key(&name) {
                return Err(self.fail(JsonError::Duplicate));
            }
            let value = fields.next_value_seed(inner)?;
            object.insert(name, value);
        }
        Ok(Value::Object(object))
    }
}

/// For `#[serde(default, deserialize_with = "json::present")]`: an optional field of a frame that stands there has a value; `null` is an error.
///
/// # Errors
/// When the value is `null` or not a `T`.
pub fn present<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    deserializer: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(deserializer).map(Some)
}

/// For `#[serde(deserialize_with = "json::integer")]`: 0 to 2^53 − 1, written without fraction or exponent.
///
/// # Errors
/// When it is another number or no number.
pub fn integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<u64, D::Error> {
    // serde takes no float for a u64, so `1.0`, `1e3` and `-0` are refused here already.
    let value = u64::deserialize(deserializer)?;
    if value <= limits::INTEGER_MAX {
        Ok(value)
    } else {
        Err(de::Error::custom("an integer must be at most 2^53 - 1"))
    }
}

/// [`integer`] for an optional field of a frame; `null` is an error. For `#[serde(default, deserialize_with = "json::present_integer")]`.
///
/// # Errors
/// When it is no such integer.
pub fn present_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    integer(deserializer).map(Some)
}

/// The optional `budget` of a frame, in seconds, 1 to 604800. For `#[serde(default, deserialize_with = "json::present_budget")]`.
///
/// # Errors
/// When it is no such integer.
pub fn present_budget<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    let budget = integer(deserializer)?;
    if (1..=limits::BUDGET_SECONDS_MAX).contains(&budget) {
        Ok(Some(budget))
    } else {
        Err(de::Error::custom("a budget is 1 to 604800 seconds"))
    }
}

/// [`integer`] for a field of a record, where `null` means none. For `#[serde(deserialize_with = "json::nullable_integer")]`.
///
/// # Errors
/// When it is neither such an integer nor `null`.
pub fn nullable_integer<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    struct Integer(u64);
    impl<'de> Deserialize<'de> for Integer {
        fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
            integer(deserializer).map(Self)
        }
    }
    Ok(Option::<Integer>::deserialize(deserializer)?.map(|integer| integer.0))
}

/// The JSON that a harness handed over as text: the value itself, or `{"raw":TEXT}` where the text would break the wire's rules.
#[must_use]
pub fn embed_text(text: &str) -> Value {
    if text.len() <= EMBEDDED_BYTES
        && let Ok(value) = read_value(text, EMBEDDED_DEPTH)
    {
        return value;
    }
    raw(text)
}

/// [`embed_text`] for a value that was read already: it can only be too deep or too large.
#[must_use]
pub fn embed(value: Value) -> Value {
    let text = value.to_string();
    if text.len() <= EMBEDDED_BYTES && is_within(&value, EMBEDDED_DEPTH) { value } else { raw(&text) }
}

fn is_within(value: &Value, depth: usize) -> bool {
    let inner = depth.checked_sub(1);
    match value {
        Value::Array(items) => inner.is_some_and(|inner| items.iter().all(|item| is_within(item, inner))),
        Value::Object(fields) => {
            inner.is_some_and(|inner| fields.values().all(|item| is_within(item, inner)))
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => true,
    }
}

fn raw(text: &str) -> Value {
    serde_json::json!({ "raw": cut(text, limits::RAW_BYTES) })
}

/// The longest start of a text that has at most so many bytes and ends between characters.
#[must_use]
pub fn cut(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// The canonical form of RFC 8785: fields in order of their UTF-16 names, numbers as ECMAScript writes them, no white space.
#[must_use]
pub fn canonical(value: &Value) -> String {
    let mut text = String::new();
    write_canonical(value, &mut text);
    text
}

/// Lower-case hex SHA-256 of the canonical form: what an `answer` names to say what it decides.
#[must_use]
pub fn digest(value: &Value) -> String {
    data_encoding::HEXLOWER.encode(&Sha256::digest(canonical(value)))
}

fn write_canonical(value: &Value, text: &mut String) {
    match value {
        Value::Null => text.push_str("null"),
        Value::Bool(value) => text.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            // ECMAScript knows doubles only, and where two shortest forms are equally near it takes the even one, unlike Rust.
            let number = number.as_f64().unwrap_or_default();
            text.push_str(ryu_js::Buffer::new().format(number));
        }
        Value::String(value) => write_string(value, text),
        Value::Array(items) => {
            text.push('[');
            for (index, item) in items.iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_canonical(item, text);
            }
            text.push(']');
        }
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            text.push('{');
            for (index, (name, item)) in fields.into_iter().enumerate() {
                if index > 0 {
                    text.push(',');
                }
                write_string(name, text);
                text.push(':');
                write_canonical(item, text);
            }
            text.push('}');
        }
    }
}

fn write_string(value: &str, text: &mut String) {
    text.push('"');
    for character in value.chars() {
        match character {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\u{8}' => text.push_str("\\b"),
            '\t' => text.push_str("\\t"),
            '\n' => text.push_str("\\n"),
            '\u{c}' => text.push_str("\\f"),
            '\r' => text.push_str("\\r"),
            '\0'..='\u{1f}' => text.push_str(&format!("\\u{:04x}", u32::from(character))),
            _ => text.push(character),
        }
    }
    text.push('"');
}

#[cfg(test)]
mod tests;
