//! The JSON Schema of the wire, made from the types (`sdk/conformance/wire.schema.json`).

use schemars::generate::SchemaSettings;
use schemars::{JsonSchema, SchemaGenerator};
use serde_json::{Map, Value, json};

use crate::entry::Entry;
use crate::failure::Failure;
use crate::frame::{Delta, Head, Hello, Interrupt, Machine, Presence, Submission, Welcome};
use crate::ids::SubmissionId;
use crate::limits;
use crate::record::Record;
use crate::request::{Answer, Configure, Request, Response};
use crate::time::Timestamp;

/// The whole schema: one definition a direction (`opener` and `listener`), and those of everything in them.
#[must_use]
pub fn wire_schema() -> Value {
    let mut generator = SchemaSettings::draft2020_12().into_generator();
    let opener = frames(
        &mut generator,
        &[
            ("hello", body::<Hello>),
            ("submission", body::<Submission>),
            ("interrupt", body::<Interrupt>),
            ("answer", body::<Answer>),
            ("configure", body::<Configure>),
            ("request", body::<Request>),
            ("response", body::<Response>),
            ("head", body::<Head>),
            ("delta", body::<Delta>),
            ("ping", nothing),
            ("pong", nothing),
        ],
    );
    let listener = frames(
        &mut generator,
        &[
            ("welcome", body::<Welcome>),
            ("entry", body::<Entry>),
            ("presence", body::<Presence>),
            ("machine", body::<Machine>),
            ("response", body::<Response>),
            ("delta", body::<Delta>),
            ("failure", body::<Failure>),
            ("submission", body::<Submission>),
            ("interrupt", body::<Interrupt>),
            ("answer", body::<Answer>),
            ("configure", body::<Configure>),
            ("request", body::<Request>),
            ("ping", nothing),
            ("pong", nothing),
        ],
    );
    generator.subschema_for::<Record>();
    let mut definitions: Map<String, Value> = generator.take_definitions(true);
    definitions.insert("OpenerFrame".into(), opener);
    definitions.insert("ListenerFrame".into(), listener);
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "aude-wire",
        "description": format!(
            "Frames of aude-wire, one a line of at most {} bytes, nested at most {} deep. Fields that are not named here are ignored.",
            limits::LINE_BYTES, limits::JSON_DEPTH
        ),
        "oneOf": [{ "$ref": "#/$defs/OpenerFrame" }, { "$ref": "#/$defs/ListenerFrame" }],
        "$defs": definitions,
    })
}

/// Makes the schema of a body; `None` for a type without one.
type BodySchema = fn(&mut SchemaGenerator) -> Option<Value>;

fn body<T: JsonSchema>(generator: &mut SchemaGenerator) -> Option<Value> {
    Some(generator.subschema_for::<T>().to_value())
}

fn nothing(_: &mut SchemaGenerator) -> Option<Value> {
    None
}

fn frames(generator: &mut SchemaGenerator, types: &[(&str, BodySchema)]) -> Value {
    let id = generator.subschema_for::<SubmissionId>().to_value();
    let timestamp = generator.subschema_for::<Timestamp>().to_value();
    let kinds: Vec<Value> = types
        .iter()
        .map(|(word, body)| {
            let mut properties = json!({ "type": { "const": word } });
            if let Some(body) = body(generator) {
                properties["body"] = body;
            }
            json!({ "properties": properties })
        })
        .collect();
    json!({
        "type": "object",
        "required": ["type", "id", "timestamp"],
        "properties": { "type": { "type": "string" }, "id": id, "timestamp": timestamp, "reply_to": id },
        "oneOf": kinds,
    })
}
