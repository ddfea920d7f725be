//! OpenAI's Responses API, as Codex speaks it. Besides the words of the others, PATCH `file` `text` calls `apply_patch`.

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde_json::{Value, json};
use std::convert::Infallible;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use tokio::sync::mpsc;

use super::{Last, PARTS, REQUESTS, Request, Shared, Slow, Spoken, Wish, answer, flat, wish};

pub(super) async fn responses(State(shared): State<Shared>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return answer(StatusCode::BAD_REQUEST, &error("not JSON"));
    };
    let last = last(&request["input"]);
    let model = request["model"].as_str().unwrap_or_default().to_owned();
    let number = {
        let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REQUESTS {
            return answer(StatusCode::BAD_REQUEST, &error("too many requests"));
        }
        let (Last::Prompt(prompt) | Last::Result(prompt)) = &last;
        let conversation = request["input"].to_string();
        seen.push(Request { model: model.clone(), prompt: prompt.clone(), conversation });
        seen.len()
    };
    let patch = match &last {
        Last::Prompt(prompt) => patch(prompt),
        Last::Result(_) => None,
    };
    let wish = wish(&last);
    if let Wish::Fail = wish {
        return answer(StatusCode::BAD_REQUEST, &error("the model server was told to fail"));
    }
    let (parts, queue) = mpsc::channel(PARTS);
    let stream =
        Stream { parts, number, model, sequence: AtomicU64::new(0), said: Mutex::new(String::new()) };
    tokio::spawn(speak(stream, wish, patch, shared.slow));
    let body = futures_util::stream::unfold(queue, |mut queue| async {
        queue.recv().await.map(|part: Bytes| (Ok::<_, Infallible>(part), queue))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

fn error(message: &str) -> Value {
    json!({ "error": { "type": "invalid_request_error", "code": null, "message": message, "param": null } })
}

fn last(input: &Value) -> Last {
    let Some(items) = input.as_array() else {
        return Last::Prompt(input.as_str().unwrap_or_default().to_owned());
    };
    for item in items.iter().rev() {
        let kind = item["type"].as_str().unwrap_or("message");
        if kind.ends_with("_output") {
            return Last::Result(flat(&item["output"]));
        }
        if item["role"] == "user" {
            return Last::Prompt(flat(&item["content"]));
        }
    }
    Last::Prompt(String::new())
}

fn patch(prompt: &str) -> Option<String> {
    let (_, rest) = prompt.split_once("PATCH `")?;
    let words: Vec<&str> = rest.split('`').step_by(2).collect();
    let [file, text, ..] = words[..] else { return None };
    Some(format!("*** Begin Patch\n*** Add File: {file}\n+{text}\n*** End Patch"))
}

async fn speak(stream: Stream, wish: Wish, patch: Option<String>, slow: mpsc::Sender<Slow>) {
    stream.begin().await;
    let number = stream.number;
    if let Some(input) = patch {
        let call = json!({ "type": "custom_tool_call", "id": format!("ctc_{number}"), "call_id": format!("call_{number}"),
            "name": "apply_patch", "input": input, "status": "completed" });
        stream.text("I will use a tool. ").await;
        return stream.end(&[call]).await;
    }
    match wish {
        Wish::Say(text) | Wish::Think(text) => {
            for word in text.split_inclusive(' ') {
                stream.text(word).await;
            }
            stream.end(&[]).await;
        }
        Wish::Call { tool, input } => {
            // The shell of Codex has another name than that of the others.
            let (name, input) = match tool.as_str() {
                "Bash" => ("exec_command", json!({ "cmd": input["command"] })),
                other => (other, input),
            };
            let call = json!({ "type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"),
                "name": name, "arguments": input.to_string(), "status": "completed" });
            stream.text("I will use a tool. ").await;
            stream.end(&[call]).await;
        }
        Wish::Slow => {
            stream.text("slowly ").await;
            let _ = slow.send(Slow { stream: Spoken::Responses(stream) }).await;
        }
        Wish::Fail => {}
    }
}

/// An answer on its way. An agent that no longer listens is no failure.
#[derive(Debug)]
pub(super) struct Stream {
    pub(super) parts: mpsc::Sender<Bytes>,
    number: usize,
    model: String,
    sequence: AtomicU64,
    /// What was said so far: it stands once more at the end.
    said: Mutex<String>,
}

impl Stream {
    async fn event(&self, name: &str, mut event: Value) {
        event["type"] = json!(name);
        event["sequence_number"] = json!(self.sequence.fetch_add(1, Ordering::Relaxed));
        let _ = self.parts.send(format!("event: {name}\ndata: {event}\n\n").into()).await;
    }

    fn message(&self) -> String {
        format!("msg_{}", self.number)
    }

    fn response(&self, status: &str, output: &[Value]) -> Value {
        let usage = json!({ "input_tokens": 1500, "input_tokens_details": { "cached_tokens": 300 },
            "output_tokens": 30, "output_tokens_details": { "reasoning_tokens": 0 }, "total_tokens": 1530 });
        json!({ "response": { "id": format!("resp_{}", self.number), "object": "response", "status": status,
            "model": self.model, "output": output, "usage": usage } })
    }

    async fn begin(&self) {
        self.event("response.created", self.response("in_progress", &[])).await;
        let item = json!({ "type": "message", "id": self.message(), "role": "assistant",
            "status": "in_progress", "content": [] });
        self.event("response.output_item.added", json!({ "output_index": 0, "item": item })).await;
    }

    /// Says something more.
    pub(super) async fn text(&self, text: &str) {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        let delta =
            json!({ "item_id": self.message(), "output_index": 0, "content_index": 0, "delta": text });
        self.event("response.output_text.delta", delta).await;
    }

    /// Ends the answer, with calls of tools.
    pub(super) async fn end(&self, calls: &[Value]) {
        let text = self.said.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.done(&text).await;
        for (index, call) in (1..).zip(calls) {
            let event = json!({ "output_index": index, "item": call });
            self.event("response.output_item.added", event.clone()).await;
            self.event("response.output_item.done", event).await;
        }
        self.event("response.completed", self.response("completed", calls)).await;
    }

    async fn done(&self, text: &str) {
        let item = json!({ "type": "message", "id": self.message(), "role": "assistant", "status": "completed",
            "content": [{ "type": "output_text", "text": text, "annotations": [] }] });
        self.event("response.output_item.done", json!({ "output_index": 0, "item": item })).await;
    }
}
