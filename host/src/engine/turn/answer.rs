//! One model call to its end.

use std::sync::Arc;

use shared::entry::{Level, Usage};
use tokio::sync::mpsc;

use super::compaction::tokens_of;
use super::draft::{Answer, Draft};
use super::front::Front;
use super::{Engine, Halt};
use crate::engine::provider::{Fault, ModelError, ModelEvent, ModelRequest};

/// Tokens of one model call.
pub(super) struct Use {
    /// As the provider counted them.
    pub(super) counted: Option<Usage>,
    /// What counts against the budget and is in the context now; estimated where the provider counts nothing.
    pub(super) tokens: u64,
}

impl Engine {
    /// What the model is asked next.
    pub(super) fn request(&self) -> ModelRequest {
        ModelRequest {
            model: self.model.clone(),
            instructions: Arc::clone(&self.rules.instructions),
            tools: Arc::new(self.rules.offered(self.tools.specs())),
            messages: self.conversation.messages(),
            working_directory: self.tools.workspace().root().to_path_buf(),
        }
    }

    /// One model call.
    pub(super) async fn answer(&self, front: &Front) -> Result<(Answer, Use), Halt> {
        let request = self.request();
        let messages = Arc::clone(&request.messages);
        let mut stream = self.provider.call(request);
        let mut draft = Draft::new(&self.model);
        let mut stop = front.stop.clone();
        // Told after what it counts, as readers expect.
        let mut usage = None;
        let halt = loop {
            let event = tokio::select! {
                biased;
                () = stop.wait() => break Halt::Stopped,
                event = stream.recv() => event,
            };
            match event {
                Some(ModelEvent::Thinking(piece)) => draft.thinking(&piece, front).await,
                Some(ModelEvent::Text(piece)) => draft.text(&piece, front).await,
                Some(ModelEvent::Call { name, input }) => draft.call(name, input),
                Some(ModelEvent::Usage(counted)) => usage = Some(counted),
                Some(ModelEvent::Again { error, after }) => {
                    front.notice(Level::Warning, again(&error, after)).await;
                }
                Some(ModelEvent::Done) => {
                    let answer = draft.finish(front).await;
                    let counted = used(usage, &messages, &answer);
                    return Ok((answer, counted));
                }
                Some(ModelEvent::Failed(error)) => break Halt::Failed(error.into()),
                None => break Halt::Failed(broken(self.provider.name()).into()),
            }
        };
        draft.abandon(front).await;
        front.usage(usage).await;
        Err(halt)
    }

    /// The text of an answer that nobody is told of while it comes.
    pub(super) async fn silent_answer(&self, request: ModelRequest, front: &Front) -> Result<String, Halt> {
        let mut stream: mpsc::Receiver<ModelEvent> = self.provider.call(request);
        let mut stop = front.stop.clone();
        let mut said = String::new();
        loop {
            let event = tokio::select! {
                biased;
                () = stop.wait() => return Err(Halt::Stopped),
                event = stream.recv() => event,
            };
            match event {
                Some(ModelEvent::Text(piece)) => {
                    let room = shared::limits::MESSAGE_BYTES.saturating_sub(said.len());
                    said.push_str(crate::text::cut(&piece, room));
                }
                Some(ModelEvent::Usage(counted)) => front.usage(Some(counted)).await,
                Some(ModelEvent::Thinking(_) | ModelEvent::Call { .. }) => {}
                Some(ModelEvent::Again { error, after }) => {
                    front.notice(Level::Warning, again(&error, after)).await;
                }
                Some(ModelEvent::Done) => return Ok(crate::text::strip_controls(&said).into_owned()),
                Some(ModelEvent::Failed(error)) => return Err(Halt::Failed(error.into())),
                None => return Err(Halt::Failed(broken(self.provider.name()).into())),
            }
        }
    }
}

fn again(error: &ModelError, after: std::time::Duration) -> String {
    format!("{error}; it is tried again in {:.1} seconds.", after.as_secs_f64())
}

fn broken(provider: &'static str) -> ModelError {
    ModelError {
        provider,
        fault: Fault::Network,
        status: None,
        message: "the connection broke in the middle of an answer".to_owned(),
        retry_after: None,
    }
}

fn used(counted: Option<Usage>, messages: &[crate::engine::conversation::Message], answer: &Answer) -> Use {
    let said = tokens_of(&answer.text)
        + answer.calls.iter().map(|call| tokens_of(&call.input.to_string())).sum::<u64>();
    let (read, wrote) = match &counted {
        Some(usage) => (usage.input_tokens.saturating_add(usage.cached_tokens), usage.output_tokens),
        None => (messages.iter().map(super::compaction::tokens_of_message).sum(), said),
    };
    Use { counted, tokens: read.saturating_add(wrote) }
}
