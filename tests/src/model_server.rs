//! A model server on this machine that real agents can talk to, scripted by words in the prompt: Anthropic's Messages API, and
//! OpenAI's Responses in `responses`.
//!
//! | words in the last text of the person | answer |
//! | --- | --- |
//! | RUN `command` | a call of the tool `Bash` |
//! | WRITE `file` `text` | a call of the tool `Write` |
//! | CALL `tool` `{"input": 1}` | a call of any tool |
//! | THINK | a thought before the echo |
//! | SLOW | text that comes as the test says, see [`ModelServer::slow`] |
//! | FAIL | an error of the service that is not worth another try |
//! | anything else | an echo |
//!
//! After the result of a tool it says `Tool said: …` with the start of the result.

mod responses;

use std::convert::Infallible;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::{DefaultBodyLimit, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

/// The body of a request, in bytes: an agent's tools and instructions take some hundred kilobytes.
const REQUEST_BYTES: usize = 16 * 1024 * 1024;
/// Slow answers that no test has asked for yet.
const SLOW: usize = 16;
/// Requests that are remembered.
const REQUESTS: usize = 1024;
/// Parts of an answer that the agent has not read yet.
const PARTS: usize = 64;
/// Characters of a prompt or result that are said again.
const ECHO: usize = 200;
/// For an agent to get as far as its request, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A running server; it ends when dropped.
#[derive(Debug)]
pub struct ModelServer {
    url: String,
    seen: Arc<Mutex<Vec<Request>>>,
    slow: mpsc::Receiver<Slow>,
    task: JoinHandle<()>,
}

/// What an agent asked.
#[derive(Debug, Clone)]
pub struct Request {
    /// The model.
    pub model: String,
    /// The last text of the person, or of a tool.
    pub prompt: String,
    /// All messages of the conversation as JSON text.
    pub conversation: String,
}

impl ModelServer {
    /// Starts a server on a free port of the loopback.
    ///
    /// # Panics
    /// When there is no free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let (slow_queue, slow) = mpsc::channel(SLOW);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let router = Router::new()
            .route("/v1/messages", post(messages))
            .route("/v1/messages/count_tokens", post(count_tokens))
            .route("/v1/responses", post(responses::responses))
            .layer(DefaultBodyLimit::max(REQUEST_BYTES))
            .with_state(Shared { seen: Arc::clone(&seen), slow: slow_queue });
        let task = tokio::spawn(async move {
            let _ = axum::serve(listener, router).await;
        });
        Self { url: format!("http://{address}"), seen, slow, task }
    }

    /// What agents take for the address of the service, as `ANTHROPIC_BASE_URL`.
    #[must_use]
    pub fn url(&self) -> &str {
        &self.url
    }

    /// The requests for answers so far, the oldest first.
    #[must_use]
    pub fn requests(&self) -> Vec<Request> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Waits until the agent reads a slow answer, of which the first word has been sent.
    ///
    /// # Panics
    /// When no agent asks for one within a minute.
    pub async fn slow(&mut self) -> Slow {
        let slow = tokio::time::timeout(PATIENCE, self.slow.recv()).await;
        slow.expect("no agent asked for a slow answer in time").expect("the server runs")
    }
}

impl Drop for ModelServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// A slow answer in the hands of a test; dropped without [`Self::finish`] the stream breaks off.
#[derive(Debug)]
pub struct Slow {
    stream: Spoken,
}

/// An answer on its way, by the language in which it is spoken.
#[derive(Debug)]
enum Spoken {
    Messages(Stream),
    Responses(responses::Stream),
}

impl Slow {
    /// Says something more.
    pub async fn say(&self, text: &str) {
        match &self.stream {
            Spoken::Messages(stream) => stream.text(0, text).await,
            Spoken::Responses(stream) => stream.text(text).await,
        }
    }

    /// Ends the answer as a model does.
    pub async fn finish(self) {
        match self.stream {
            Spoken::Messages(stream) => {
                stream.close_block(0).await;
                stream.end("end_turn").await;
            }
            Spoken::Responses(stream) => stream.end(&[]).await,
        }
    }

    /// Waits until the agent no longer listens.
    ///
    /// # Panics
    /// When it goes on listening for a minute.
    pub async fn abandoned(&self) {
        let parts = match &self.stream {
            Spoken::Messages(stream) => &stream.parts,
            Spoken::Responses(stream) => &stream.parts,
        };
        tokio::time::timeout(PATIENCE, parts.closed()).await.expect("the agent still listens");
    }
}

#[derive(Clone)]
struct Shared {
    seen: Arc<Mutex<Vec<Request>>>,
    slow: mpsc::Sender<Slow>,
}

/// What the last message asks for.
enum Wish {
    Say(String),
    Think(String),
    Call { tool: String, input: Value },
    Slow,
    Fail,
}

async fn count_tokens() -> Response {
    answer(StatusCode::OK, &json!({ "input_tokens": 123 }))
}

async fn messages(State(shared): State<Shared>, body: Bytes) -> Response {
    let Ok(request) = serde_json::from_slice::<Value>(&body) else {
        return answer(StatusCode::BAD_REQUEST, &error("invalid_request_error", "not JSON"));
    };
    let text = |field: &str| request[field].as_str().unwrap_or_default().to_owned();
    let last = last(&request["messages"]);
    let number = {
        let mut seen = shared.seen.lock().unwrap_or_else(PoisonError::into_inner);
        if seen.len() >= REQUESTS {
            return answer(StatusCode::BAD_REQUEST, &error("invalid_request_error", "too many requests"));
        }
        let (Last::Prompt(prompt) | Last::Result(prompt)) = &last;
        let conversation = request["messages"].to_string();
        seen.push(Request { model: text("model"), prompt: prompt.clone(), conversation });
        seen.len()
    };
    let wish = wish(&last);
    if let Wish::Fail = wish {
        let refusal = error("invalid_request_error", "the model server was told to fail");
        return answer(StatusCode::BAD_REQUEST, &refusal);
    }
    let (parts, queue) = mpsc::channel(PARTS);
    let stream = Stream { parts, number, model: text("model") };
    tokio::spawn(speak(stream, wish, shared.slow));
    let body = futures_util::stream::unfold(queue, |mut queue| async {
        queue.recv().await.map(|part: Bytes| (Ok::<_, Infallible>(part), queue))
    });
    ([(header::CONTENT_TYPE, "text/event-stream")], Body::from_stream(body)).into_response()
}

async fn speak(stream: Stream, wish: Wish, slow: mpsc::Sender<Slow>) {
    stream.begin().await;
    match wish {
        Wish::Say(text) => {
            stream.say(0, &text).await;
            stream.end("end_turn").await;
        }
        Wish::Think(text) => {
            stream.open_block(0, &json!({ "type": "thinking", "thinking": "", "signature": "" })).await;
            stream.delta(0, &json!({ "type": "thinking_delta", "thinking": "I think of an echo." })).await;
            stream.delta(0, &json!({ "type": "signature_delta", "signature": "c2lnbmF0dXJl" })).await;
            stream.close_block(0).await;
            stream.say(1, &text).await;
            stream.end("end_turn").await;
        }
        Wish::Call { tool, input } => {
            stream.say(0, "I will use a tool. ").await;
            let call = format!("toolu_{}", stream.number);
            stream.open_block(1, &json!({ "type": "tool_use", "id": call, "name": tool, "input": {} })).await;
            let input = input.to_string();
            let middle = shared::json::cut(&input, input.len() / 2).len();
            for part in [&input[..middle], &input[middle..]] {
                stream.delta(1, &json!({ "type": "input_json_delta", "partial_json": part })).await;
            }
            stream.close_block(1).await;
            stream.end("tool_use").await;
        }
        Wish::Slow => {
            stream.open_block(0, &json!({ "type": "text", "text": "" })).await;
            stream.text(0, "slowly ").await;
            let _ = slow.send(Slow { stream: Spoken::Messages(stream) }).await;
        }
        Wish::Fail => {}
    }
}

/// An answer on its way. An agent that no longer listens is no failure.
#[derive(Debug)]
struct Stream {
    parts: mpsc::Sender<Bytes>,
    number: usize,
    model: String,
}

impl Stream {
    async fn event(&self, name: &str, event: &Value) {
        let _ = self.parts.send(format!("event: {name}\ndata: {event}\n\n").into()).await;
    }

    async fn begin(&self) {
        let usage = json!({ "input_tokens": 1000, "cache_creation_input_tokens": 20,
            "cache_read_input_tokens": 500, "output_tokens": 1 });
        let message = json!({ "id": format!("msg_{}", self.number), "type": "message", "role": "assistant",
            "model": self.model, "content": [], "stop_reason": null, "stop_sequence": null, "usage": usage });
        self.event("message_start", &json!({ "type": "message_start", "message": message })).await;
    }

    async fn say(&self, index: u64, text: &str) {
        self.open_block(index, &json!({ "type": "text", "text": "" })).await;
        for word in text.split_inclusive(' ') {
            self.text(index, word).await;
        }
        self.close_block(index).await;
    }

    async fn text(&self, index: u64, text: &str) {
        self.delta(index, &json!({ "type": "text_delta", "text": text })).await;
    }

    async fn open_block(&self, index: u64, block: &Value) {
        let event = json!({ "type": "content_block_start", "index": index, "content_block": block });
        self.event("content_block_start", &event).await;
    }

    async fn delta(&self, index: u64, delta: &Value) {
        let event = json!({ "type": "content_block_delta", "index": index, "delta": delta });
        self.event("content_block_delta", &event).await;
    }

    async fn close_block(&self, index: u64) {
        self.event("content_block_stop", &json!({ "type": "content_block_stop", "index": index })).await;
    }

    async fn end(&self, reason: &str) {
        let delta = json!({ "stop_reason": reason, "stop_sequence": null });
        let event = json!({ "type": "message_delta", "delta": delta, "usage": { "output_tokens": 30 } });
        self.event("message_delta", &event).await;
        self.event("message_stop", &json!({ "type": "message_stop" })).await;
    }
}

/// The last thing that the model was told.
enum Last {
    Prompt(String),
    Result(String),
}

fn last(messages: &Value) -> Last {
    let mut users =
        messages.as_array().into_iter().flatten().rev().filter(|message| message["role"] == "user");
    let mut last = Last::Prompt(String::new());
    if let Some(message) = users.next() {
        if let Some(text) = message["content"].as_str() {
            return Last::Prompt(text.to_owned());
        }
        // What an agent adds on its own account is not the person's.
        let is_prompt =
            |text: &str| !text.starts_with("<system-reminder>") && !text.starts_with("[Request interrupted");
        for block in message["content"].as_array().into_iter().flatten() {
            match (block["type"].as_str(), block["text"].as_str()) {
                (Some("text"), Some(text)) if is_prompt(text) => last = Last::Prompt(text.to_owned()),
                (Some("tool_result"), _) => last = Last::Result(flat(&block["content"])),
                _ => {}
            }
        }
    }
    last
}

fn flat(content: &Value) -> String {
    match content.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let blocks = content.as_array().into_iter().flatten();
            blocks.filter_map(|block| block["text"].as_str()).collect::<Vec<_>>().join("\n")
        }
    }
}

fn wish(last: &Last) -> Wish {
    let start = |text: &str| text.chars().take(ECHO).collect::<String>();
    let prompt = match last {
        Last::Result(text) => return Wish::Say(format!("Tool said: {}", start(text.trim()))),
        Last::Prompt(prompt) => prompt,
    };
    let quoted = |word: &str| -> Option<Vec<&str>> {
        let (_, rest) = prompt.split_once(&format!("{word} `"))?;
        Some(rest.split('`').step_by(2).collect())
    };
    if let Some(&[tool, input, ..]) = quoted("CALL").as_deref()
        && let Ok(input) = serde_json::from_str(input)
    {
        return Wish::Call { tool: tool.to_owned(), input };
    }
    if let Some(&[file, text, ..]) = quoted("WRITE").as_deref() {
        return Wish::Call { tool: "Write".to_owned(), input: json!({ "file_path": file, "content": text }) };
    }
    if let Some(&[command, ..]) = quoted("RUN").as_deref() {
        let input = json!({ "command": command, "description": "run it" });
        return Wish::Call { tool: "Bash".to_owned(), input };
    }
    let echo = format!("Echo: {}", start(prompt.trim()));
    match prompt {
        prompt if prompt.contains("SLOW") => Wish::Slow,
        prompt if prompt.contains("FAIL") => Wish::Fail,
        prompt if prompt.contains("THINK") => Wish::Think(echo),
        _ => Wish::Say(echo),
    }
}

fn answer(status: StatusCode, value: &Value) -> Response {
    (status, [(header::CONTENT_TYPE, "application/json")], value.to_string()).into_response()
}

fn error(kind: &str, message: &str) -> Value {
    json!({ "type": "error", "error": { "type": kind, "message": message } })
}
