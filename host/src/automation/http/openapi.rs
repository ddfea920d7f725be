//! The description of the interface, OpenAPI 3.1, made from the types that answer.

use schemars::JsonSchema;
use schemars::generate::{SchemaGenerator, SchemaSettings};
use serde_json::{Map, Value, json};

use super::{EVENTS_MOST, Messages, ServerInfo, SessionInfo, WAIT_MOST};
use crate::automation::error::AutomationError;
use crate::automation::event::Happening;
use crate::automation::live::Transient;
use crate::automation::run::{OnInput, Run};

/// The whole document.
#[must_use]
pub fn document() -> Value {
    let mut describe = Describe::new();
    let paths = describe.paths();
    describe.name::<Happening>("Happening");
    describe.name::<Transient>("Transient");
    let schemas = describe.schemas();
    json!({
        "openapi": "3.1.0",
        "info": {
            "title": "aura serve",
            "version": "1",
            "description": "One live session of aura for controllers: runs that are safe to repeat, and a journal of all that happens.",
        },
        "security": [{ "token": [] }],
        "paths": paths,
        "components": {
            "securitySchemes": { "token": { "type": "http", "scheme": "bearer" } },
            "schemas": schemas,
            "responses": {
                "Error": {
                    "description": "Why not; `code` says what to do.",
                    "content": { "application/json": { "schema": object(&json!({ "error": reference("Error") })) } },
                },
            },
        },
    })
}

/// Collects the schemas that the paths name.
struct Describe {
    generator: SchemaGenerator,
    named: Map<String, Value>,
}

impl Describe {
    fn new() -> Self {
        let mut settings = SchemaSettings::draft2020_12();
        settings.definitions_path = "/components/schemas".into();
        // What answers is described as it is written: every field is there.
        let generator = settings.for_serialize().into_generator();
        Self { generator, named: Map::new() }
    }

    fn of<T: JsonSchema>(&mut self) -> Value {
        self.generator.subschema_for::<T>().to_value()
    }

    fn name<T: JsonSchema>(&mut self, name: &str) {
        let schema = self.of::<T>();
        if schema.get("$ref").is_none() {
            self.named.insert(name.to_owned(), schema);
        }
    }

    fn schemas(mut self) -> Value {
        let mut schemas = self.generator.take_definitions(true);
        schemas.append(&mut self.named);
        Value::Object(schemas)
    }

    fn paths(&mut self) -> Value {
        let error = self.of::<AutomationError>();
        debug_assert!(error.get("$ref").is_some());
        let run = self.of::<Run>();
        self.named.insert("Event".to_owned(), event(&run));
        let id = parameter("id", "path", &json!({ "type": "string" }), "The id of the run.");
        let input = parameter("input_id", "path", &json!({ "type": "string" }), "The id of the input.");
        let request_id = json!({ "type": "string", "minLength": 1, "maxLength": 256, "pattern": r"^[^\x00-\x1f\x7f-\x9f]*$" });
        let submission = submission(&self.of::<OnInput>(), &request_id);
        let answer = json!({ "oneOf": [
            object(&json!({ "answer": { "type": "string", "minLength": 1, "maxLength": 16_384 } })),
            object(&json!({ "action": { "enum": ["allow", "allow_session", "deny"] } })),
        ]});
        let nothing = || json!({ "type": "object", "additionalProperties": false });
        let after = parameter(
            "after",
            "query",
            &json!({ "type": "integer", "minimum": 0 }),
            "Only what comes after this one.",
        );
        let flag = |name: &str, what: &str| parameter(name, "query", &json!({ "type": "boolean" }), what);
        let number = |name: &str, least: u64, most: u64, what: &str| {
            parameter(name, "query", &json!({ "type": "integer", "minimum": least, "maximum": most }), what)
        };
        let last = parameter(
            "Last-Event-ID",
            "header",
            &json!({ "type": "integer", "minimum": 0 }),
            "Wins over `after`.",
        );
        json!({
            "/v1/server": { "get": operation("server", "The server itself", &[], None,
                &[("200", &self.of::<ServerInfo>())], &[]) },
            "/v1/session": { "get": operation("session", "The session, stored and live", &[], None,
                &[("200", &self.of::<SessionInfo>())], &[]) },
            "/v1/session/messages": { "get": operation("messages", "The stored conversation",
                &[&after, &flag("thinking", "With what the model thought.")], None,
                &[("200", &self.of::<Messages>())], &["409"]) },
            "/v1/runs": {
                "post": operation("submit", "Submits a prompt or a slash command; safe to repeat", &[], Some((&submission, true)),
                    &[("202", &run), ("200", &run)], &["409", "503"]),
                "get": operation("find", "The run of a request",
                    &[&parameter("request_id", "query", &request_id, "The controller's own id.")], None,
                    &[("200", &run)], &["404"]),
            },
            "/v1/runs/{id}": { "get": operation("run", "A run", &[&id], None, &[("200", &run)], &["404"]) },
            "/v1/runs/{id}/cancel": { "post": operation("cancel", "Asks to cancel a run", &[&id], Some((&nothing(), false)),
                &[("202", &run)], &["404"]) },
            "/v1/runs/{id}/inputs/{input_id}": { "post": operation("answer", "Answers a question or an approval",
                &[&id, &input], Some((&answer, true)), &[("200", &nothing())], &["404", "409"]) },
            "/v1/journal": { "get": operation("journal", "Events after a number, waiting for the first where asked to",
                &[&after, &number("limit", 1, EVENTS_MOST, "How many at most."), &number("wait", 0, WAIT_MOST, "Seconds to wait for the first.")],
                None,
                &[("200", &object(&json!({
                    "events": { "type": "array", "items": reference("Event") },
                    "last_seq": { "type": "integer", "minimum": 0 },
                })))], &["409"]) },
            "/v1/events": { "get": stream(&[&after, &last, &flag("transient", "With live text."),
                &flag("thinking", "With what the model thinks, live."), &number("heartbeat", 1, 60, "Seconds of silence before a heartbeat.")]) },
            "/v1/shutdown": { "post": operation("shutdown", "Ends the server once the active run has settled", &[],
                Some((&nothing(), false)), &[("202", &nothing())], &[]) },
            "/v1/openapi.json": { "get": operation("openapi", "This document", &[], None,
                &[("200", &json!({ "type": "object" }))], &[]) },
        })
    }
}

fn reference(name: &str) -> Value {
    json!({ "$ref": format!("#/components/schemas/{name}") })
}

/// An object with exactly these fields.
fn object(properties: &Value) -> Value {
    let required: Vec<&String> = properties.as_object().into_iter().flat_map(Map::keys).collect();
    json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false })
}

fn event(run: &Value) -> Value {
    let run_id = run.get("$ref").map_or_else(|| json!({ "type": "string" }), |_| reference("RunId"));
    let mut event = object(&json!({
        "seq": { "type": "integer", "minimum": 1 },
        "time": { "type": "string", "format": "date-time" },
        "type": { "type": "string", "description": "One of those of Happening, which has the data of each; others may come." },
        "session_id": { "type": "string" },
        "run_id": { "anyOf": [run_id, { "type": "null" }] },
        "data": { "type": "object" },
    }));
    event["description"] = json!("One line of the journal.");
    event
}

fn submission(on_input: &Value, request_id: &Value) -> Value {
    let text = json!({ "type": "string" });
    let of = |key: &str, text: &Value| {
        let mut body = object(&json!({ "request_id": request_id, key: text }));
        body["properties"]["on_input"] = on_input.clone();
        body
    };
    json!({ "oneOf": [of("prompt", &text), of("command", &json!({ "type": "string", "pattern": "^\\s*/" }))] })
}

fn parameter(name: &str, place: &str, schema: &Value, description: &str) -> Value {
    let required = place == "path" || name == "request_id";
    json!({ "name": name, "in": place, "required": required, "schema": schema, "description": description })
}

/// One operation; every one may also be refused as `Error` with 400, 401 or 500.
fn operation(
    id: &str,
    summary: &str,
    parameters: &[&Value],
    body: Option<(&Value, bool)>,
    answers: &[(&str, &Value)],
    refusals: &[&str],
) -> Value {
    let mut responses = Map::new();
    for (status, schema) in answers {
        let content = json!({ "application/json": { "schema": schema } });
        responses.insert((*status).to_owned(), json!({ "description": "Done.", "content": content }));
    }
    // A refused cursor, a server that has ended and one that cannot write its journal can come everywhere.
    for status in ["400", "401", "500", "503"].iter().chain(refusals) {
        responses.insert((*status).to_owned(), json!({ "$ref": "#/components/responses/Error" }));
    }
    let mut operation =
        json!({ "operationId": id, "summary": summary, "parameters": parameters, "responses": responses });
    if let Some((schema, required)) = body {
        operation["requestBody"] =
            json!({ "required": required, "content": { "application/json": { "schema": schema } } });
    }
    operation
}

fn stream(parameters: &[&Value]) -> Value {
    let mut stream = operation("events", "The same events as a stream", parameters, None, &[], &["409"]);
    stream["responses"]["200"] = json!({
        "description": "Server-sent events: `id` the number, `event` the type, `data` the event.",
        "content": { "text/event-stream": { "schema": { "type": "string" } } },
    });
    stream
}
