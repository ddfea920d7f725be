//! A model's answer while it is written: bounded, clean, told live and as entries.

use serde_json::Value;
use shared::entry::{Assistant, Thinking};
use shared::frame::DeltaKind;
use shared::ids::PartId;
use shared::limits;

use super::front::Front;
use crate::engine::EngineEvent;
use crate::text::{self, Stripper};

/// Tool calls of one answer; a model that wants more made a mistake.
const CALLS: usize = 128;
/// Characters of the name of a tool; those of models' interfaces have at most 64.
const NAME_CHARACTERS: usize = 128;

/// A model's answer, whole.
pub(super) struct Answer {
    pub(super) message: PartId,
    pub(super) text: String,
    pub(super) thinking: String,
    pub(super) calls: Vec<Call>,
}

/// A tool call that has no result yet; it never gets into a conversation.
pub(super) struct Call {
    pub(super) call: PartId,
    pub(super) name: String,
    pub(super) input: Value,
}

/// An answer that is being written.
pub(super) struct Draft {
    model: String,
    text: Part,
    thinking: Part,
    /// The thoughts that were told as entries already.
    thought: String,
    calls: Vec<Call>,
}

/// A text that is being written, bounded and clean.
struct Part {
    message: PartId,
    text: String,
    stripper: Stripper,
}

impl Part {
    fn new() -> Self {
        Self { message: PartId::random(), text: String::new(), stripper: Stripper::default() }
    }

    /// Adds a piece; gives what is new and clean.
    fn push(&mut self, piece: &str) -> String {
        let clean = self.stripper.push(piece);
        let room = limits::MESSAGE_BYTES.saturating_sub(self.text.len());
        let kept = text::cut(&clean, room).to_owned();
        self.text.push_str(&kept);
        kept
    }
}

impl Draft {
    pub(super) fn new(model: &str) -> Self {
        Self {
            model: model.to_owned(),
            text: Part::new(),
            thinking: Part::new(),
            thought: String::new(),
            calls: Vec::new(),
        }
    }

    pub(super) async fn thinking(&mut self, piece: &str, front: &Front) {
        let new = self.thinking.push(piece);
        front.delta(&self.thinking.message, DeltaKind::Thinking, &new).await;
    }

    pub(super) async fn text(&mut self, piece: &str, front: &Front) {
        self.end_thought(front).await;
        let new = self.text.push(piece);
        front.delta(&self.text.message, DeltaKind::Assistant, &new).await;
    }

    pub(super) fn call(&mut self, name: String, input: Value) {
        if self.calls.len() < CALLS {
            // What is too large or too deep for an entry becomes text, which no tool takes: the model hears of it.
            self.calls.push(Call {
                call: PartId::random(),
                name: text::one_line(&name, NAME_CHARACTERS),
                input: shared::json::embed(input),
            });
        }
    }

    /// A thought is an entry as soon as the model says something else.
    async fn end_thought(&mut self, front: &Front) {
        let part = std::mem::replace(&mut self.thinking, Part::new());
        if part.text.is_empty() {
            return;
        }
        self.thought.push_str(&part.text);
        front.tell(EngineEvent::Thinking(Thinking { message: part.message, text: part.text })).await;
    }

    fn assistant(&self) -> Assistant {
        Assistant {
            message: self.text.message.clone(),
            text: self.text.text.clone(),
            model: Some(self.model.clone()),
        }
    }

    pub(super) async fn finish(mut self, front: &Front) -> Answer {
        self.end_thought(front).await;
        Answer { message: self.text.message, text: self.text.text, thinking: self.thought, calls: self.calls }
    }

    pub(super) async fn abandon(mut self, front: &Front) {
        self.end_thought(front).await;
        if !self.text.text.is_empty() {
            front.tell(EngineEvent::Abandoned(self.assistant())).await;
        }
    }
}
