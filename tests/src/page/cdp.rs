//! The DevTools protocol over a browser's pipe: commands with answers, and events for whoever owns their session.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{ChildStdin, ChildStdout};
use tokio::sync::{Mutex as AsyncMutex, oneshot};
use tokio::task::JoinHandle;

use crate::wait;

/// Takes the events of one session: their name and their parameters.
pub(super) type Events = Box<dyn Fn(&str, &Value) + Send + Sync>;

/// Why a command gave nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum CommandError {
    /// The browser refused it, with its own words.
    Refused(String),
    /// The browser is gone.
    Gone,
}

/// One browser's pipe.
pub(super) struct Cdp {
    input: AsyncMutex<ChildStdin>,
    shared: Arc<Shared>,
    last: AtomicU64,
    reader: JoinHandle<()>,
}

#[derive(Default)]
struct Shared {
    answers: Mutex<HashMap<u64, oneshot::Sender<Result<Value, CommandError>>>>,
    sessions: Mutex<HashMap<String, Events>>,
}

impl Cdp {
    pub(super) fn over(input: ChildStdin, output: ChildStdout) -> Self {
        let shared = Arc::new(Shared::default());
        let reader = tokio::spawn(read(BufReader::new(output), Arc::clone(&shared)));
        Self { input: AsyncMutex::new(input), shared, last: AtomicU64::new(0), reader }
    }

    /// Sends the events of a session there from now on.
    pub(super) fn listen(&self, session: &str, events: Events) {
        self.shared.sessions.lock().expect("no holder panics").insert(session.to_owned(), events);
    }

    /// Runs a command, of the browser or of one session, and waits for its answer.
    pub(super) async fn command(
        &self,
        session: Option<&str>,
        method: &str,
        parameters: Value,
    ) -> Result<Value, CommandError> {
        let id = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut message = json!({ "id": id, "method": method, "params": parameters });
        if let Some(session) = session {
            message["sessionId"] = json!(session);
        }
        let (sender, answer) = oneshot::channel();
        self.shared.answers.lock().expect("no holder panics").insert(id, sender);
        let mut bytes = message.to_string().into_bytes();
        bytes.push(0);
        if self.input.lock().await.write_all(&bytes).await.is_err() {
            return Err(CommandError::Gone);
        }
        wait::within(method, answer).await.unwrap_or(Err(CommandError::Gone))
    }
}

impl Drop for Cdp {
    fn drop(&mut self) {
        self.reader.abort();
    }
}

async fn read(mut output: BufReader<ChildStdout>, shared: Arc<Shared>) {
    let mut message = Vec::new();
    while output.read_until(0, &mut message).await.is_ok_and(|count| count > 0) {
        message.pop();
        if let Ok(value) = serde_json::from_slice::<Value>(&message) {
            shared.take(value);
        }
        message.clear();
    }
    // Whoever still waits is told.
    shared.answers.lock().expect("no holder panics").clear();
}

impl Shared {
    fn take(&self, mut message: Value) {
        if let Some(id) = message["id"].as_u64() {
            let waiting = self.answers.lock().expect("no holder panics").remove(&id);
            let answer = match message["error"]["message"].as_str() {
                Some(error) => Err(CommandError::Refused(error.to_owned())),
                None => Ok(message["result"].take()),
            };
            if let Some(waiting) = waiting {
                let _ = waiting.send(answer);
            }
        } else if let (Some(session), Some(method)) =
            (message["sessionId"].as_str(), message["method"].as_str())
            && let Some(events) = self.sessions.lock().expect("no holder panics").get(session)
        {
            events(method, &message["params"]);
        }
    }
}
