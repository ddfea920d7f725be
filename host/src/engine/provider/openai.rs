//! The providers `openai`, `llamacpp` and `llamaswap`: chat completions that stream.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use hyper::header::CONTENT_TYPE;
use serde_json::{Value, json};
use shared::entry::Usage;
use shared::limits;
use tokio::sync::mpsc;

use super::http::{Body, Service, ServiceError};
use super::sse::Reader;
use super::{Fault, MODEL_EVENTS, ModelError, ModelEvent, ModelRequest, Provider};
use crate::engine::config::{ProviderConfig, ProviderType};
use crate::engine::conversation::Message;

/// Tool calls of one answer that are put together.
const CALLS: usize = 128;
/// The first pause before another try; each later one is twice as long.
const PAUSE: Duration = Duration::from_secs(1);
/// The longest pause before another try; where the service asks for a longer one, the call fails with its hint.
const PAUSE_MAX: Duration = Duration::from_secs(60);

/// A service with chat completions.
#[derive(Clone)]
pub(in crate::engine) struct OpenAi {
    service: Service,
    path: &'static str,
    section: Arc<ProviderConfig>,
}

impl OpenAi {
    /// The provider of a section of the settings.
    pub(in crate::engine) fn new(
        section: &ProviderConfig,
        lookup: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ServiceError> {
        // Local servers are named without the version, OpenAI and its like with it.
        let is_local = matches!(section.kind, ProviderType::LlamaCpp | ProviderType::LlamaSwap);
        let path = if is_local && !section.base_url.ends_with("/v1") {
            "/v1/chat/completions"
        } else {
            "/chat/completions"
        };
        let service = Service::new(section, lookup)?;
        Ok(Self { service, path, section: Arc::new(section.clone()) })
    }

    async fn answer(&self, request: &ModelRequest, sender: &mpsc::Sender<ModelEvent>) {
        let body = self.body(request);
        let mut pause = PAUSE;
        for tries_left in (0..=self.section.retries).rev() {
            let mut is_begun = false;
            let error = match self.stream(&body, sender, &mut is_begun).await {
                Ok(()) => {
                    let _ = sender.send(ModelEvent::Done).await;
                    return;
                }
                Err(error) => error,
            };
            let after = error.retry_after.unwrap_or(pause);
            let can_pass = matches!(error.fault, Fault::Network | Fault::Server | Fault::RateLimit);
            if is_begun || !can_pass || tries_left == 0 || after > PAUSE_MAX {
                let _ = sender.send(ModelEvent::Failed(error)).await;
                return;
            }
            let _ = sender.send(ModelEvent::Again { error, after }).await;
            tokio::time::sleep(after).await;
            pause = pause.saturating_mul(2).min(PAUSE_MAX);
        }
    }

    fn body(&self, request: &ModelRequest) -> Value {
        let mut messages = Vec::new();
        if !request.instructions.is_empty() {
            messages.push(json!({ "role": "system", "content": &*request.instructions }));
        }
        request.messages.iter().for_each(|message| add(message, &mut messages));
        let mut body = json!({ "model": request.model, "messages": messages, "stream": true,
            "stream_options": { "include_usage": true } });
        if !request.tools.is_empty() {
            let tools = request.tools.iter().map(|tool| {
                json!({ "type": "function", "function": { "name": tool.name,
                    "description": tool.description, "parameters": tool.parameters } })
            });
            body["tools"] = tools.collect();
        }
        if let Some(most) = self.section.max_tokens {
            let is_openai = self.section.base_url.contains("api.openai.com");
            body[if is_openai { "max_completion_tokens" } else { "max_tokens" }] = json!(most);
        }
        body
    }

    async fn stream(
        &self,
        body: &Value,
        sender: &mpsc::Sender<ModelEvent>,
        is_begun: &mut bool,
    ) -> Result<(), ModelError> {
        let (headers, mut answer) = self.service.post(self.path, &BTreeMap::new(), body).await?;
        let kind = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
        if !kind.to_ascii_lowercase().starts_with("text/event-stream") {
            return Err(self.no_stream(answer).await);
        }
        let broken = |why: String| self.service.fault(Fault::Network, why);
        let mut reader = Reader::default();
        let mut said = Said::default();
        while let Some(bytes) = answer.next().await.map_err(broken)? {
            let events = reader.push(&bytes).map_err(|_| self.service.unexpected(&bytes))?;
            for event in events {
                if event.data.trim() == "[DONE]" {
                    return said.end(sender).await;
                }
                let Ok(chunk) = serde_json::from_str::<Value>(&event.data) else {
                    return Err(self.service.unexpected(event.data.as_bytes()));
                };
                if chunk.get("error").is_some_and(|error| !error.is_null()) {
                    return Err(self.service.told(&chunk));
                }
                *is_begun = true;
                for event in said.take(&chunk) {
                    let _ = sender.send(event).await;
                }
                if said.reason.as_deref() == Some("content_filter") {
                    return Err(self.service.fault(Fault::ContentFilter, "the answer was withheld"));
                }
            }
        }
        // Some servers close without the mark; an answer that says why it ends is whole all the same.
        if said.reason.is_some() {
            return said.end(sender).await;
        }
        Err(broken("the connection was closed in the middle of an answer".to_owned()))
    }

    async fn no_stream(&self, answer: Body) -> ModelError {
        let body = answer.beginning(super::http::ANSWER_BYTES).await;
        match serde_json::from_slice::<Value>(&body) {
            Ok(json) if json.get("error").is_some_and(|error| !error.is_null()) => self.service.told(&json),
            Ok(_) | Err(_) => self.service.unexpected(&body),
        }
    }
}

impl Provider for OpenAi {
    fn name(&self) -> &'static str {
        self.service.kind()
    }

    fn models(&self) -> Vec<String> {
        let mut models: Vec<String> = self.section.model.iter().cloned().collect();
        let others = self.section.models.iter().filter(|model| Some(*model) != self.section.model.as_ref());
        models.extend(others.cloned());
        // One model alone is a default and no list to keep to.
        if self.section.models.is_empty() { Vec::new() } else { models }
    }

    fn call(&self, request: ModelRequest) -> mpsc::Receiver<ModelEvent> {
        let (sender, receiver) = mpsc::channel(MODEL_EVENTS);
        let this = self.clone();
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = this.answer(&request, &sender) => {}
            }
        });
        receiver
    }
}

/// A message of ours as one or more of the service's.
fn add(message: &Message, messages: &mut Vec<Value>) {
    match message {
        Message::User { text, .. } => messages.push(json!({ "role": "user", "content": text })),
        Message::Assistant { text, calls, .. } => {
            let mut said = json!({ "role": "assistant", "content": text });
            if !calls.is_empty() {
                let calls = calls.iter().map(|call| {
                    json!({ "id": call.call.to_string(), "type": "function",
                        "function": { "name": call.name, "arguments": call.input.to_string() } })
                });
                said["tool_calls"] = calls.collect();
            }
            messages.push(said);
            messages.extend(calls.iter().map(|call| {
                json!({ "role": "tool", "tool_call_id": call.call.to_string(), "content": call.result })
            }));
        }
    }
}

/// What came of an answer so far.
#[derive(Default)]
struct Said {
    calls: BTreeMap<u64, (String, String)>,
    bytes: usize,
    reason: Option<String>,
}

impl Said {
    /// What a chunk gives at once.
    fn take(&mut self, chunk: &Value) -> Vec<ModelEvent> {
        let mut events = Vec::new();
        let number = |value: &Value| value.as_u64().unwrap_or_default();
        if let Some(usage) = chunk.get("usage").filter(|usage| usage.is_object()) {
            let cached = number(&usage["prompt_tokens_details"]["cached_tokens"]);
            let (read, wrote) = (number(&usage["prompt_tokens"]), number(&usage["completion_tokens"]));
            events.push(ModelEvent::Usage(Usage {
                input_tokens: read.saturating_sub(cached),
                output_tokens: wrote,
                cached_tokens: cached,
                cost: None,
                context_tokens: Some(read.saturating_add(wrote)),
            }));
        }
        let choice = &chunk["choices"][0];
        if let Some(reason) = choice["finish_reason"].as_str() {
            self.reason = Some(reason.to_owned());
        }
        let delta = &choice["delta"];
        let word = |field: &str| delta[field].as_str().filter(|text| !text.is_empty()).map(str::to_owned);
        events.extend(word("reasoning_content").or_else(|| word("reasoning")).map(ModelEvent::Thinking));
        events.extend(word("content").map(ModelEvent::Text));
        for call in delta["tool_calls"].as_array().into_iter().flatten() {
            let index = number(&call["index"]);
            if !self.calls.contains_key(&index) && self.calls.len() >= CALLS {
                continue;
            }
            let (name, arguments) = self.calls.entry(index).or_default();
            let function = &call["function"];
            for (piece, whole) in [(&function["name"], name), (&function["arguments"], arguments)] {
                let piece = piece.as_str().unwrap_or_default();
                self.bytes += piece.len();
                if self.bytes <= 2 * limits::MESSAGE_BYTES {
                    whole.push_str(piece);
                }
            }
        }
        events
    }

    /// Gives the calls. Arguments that are no JSON stay text, which no tool takes: the model hears of it.
    async fn end(self, sender: &mpsc::Sender<ModelEvent>) -> Result<(), ModelError> {
        for (name, arguments) in self.calls.into_values() {
            let input = match arguments.trim() {
                "" => json!({}),
                text => serde_json::from_str(text).unwrap_or(Value::String(arguments)),
            };
            let _ = sender.send(ModelEvent::Call { name, input }).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
