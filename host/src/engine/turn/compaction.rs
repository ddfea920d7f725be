//! Making a conversation smaller: the model sums up what was said, and the summary takes the place of it.

use std::sync::Arc;

use shared::entry::Level;
use shared::ids::PartId;
use tokio::sync::mpsc;

use super::front::Front;
use super::{Engine, Failure, Halt};
use crate::engine::conversation::Message;
use crate::engine::provider::{Fault, ModelRequest};
use crate::engine::{EngineEvent, Stop};
use crate::text;

/// What the model is asked for; it stays in the conversation before the summary, so that the two read as what they are.
const REQUEST: &str = "Write a summary of this conversation that takes its place: the request, what was found out, what was decided and \
why, what was done to which files, what failed, and what is still to be done. Keep names, paths and exact values. Say nothing else.";
/// Bytes of each long text in what is summed up, by the try: where the model cannot read it all, it reads less of each.
const KEPT_BYTES: [usize; 3] = [16 * 1024, 2 * 1024, 400];
/// Bytes of a token at most, in texts of people and programs: what is counted with it is never too much.
const BYTES_MOST: usize = 8;
/// Bytes of a token as they are usually.
const BYTES_USUAL: usize = 4;
/// Tokens of the names and marks around a message.
const AROUND: u64 = 8;

/// How much smaller a conversation is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Compacted {
    /// Its messages before, each tool result counted as one.
    pub before: u64,
    /// Its messages now.
    pub after: u64,
}

/// Why a conversation is as large as it was.
pub(super) enum Trouble {
    /// It has only what is to be answered.
    NothingToLeaveOut,
    /// Nothing came of it.
    Failed(String),
    /// The turn goes no further.
    Halt(Halt),
}

impl From<Trouble> for Halt {
    fn from(trouble: Trouble) -> Self {
        match trouble {
            Trouble::NothingToLeaveOut => {
                Self::Failed(Failure::Compaction("nothing in it can be left out".to_owned()))
            }
            Trouble::Failed(why) => Self::Failed(Failure::Compaction(why)),
            Trouble::Halt(halt) => halt,
        }
    }
}

impl Engine {
    /// Makes the conversation smaller and saves it, outside of a turn; as `/compact` does.
    ///
    /// # Errors
    /// The [`Failure`]; `None` where it was stopped. Then the conversation is as it was.
    pub async fn compact(
        &mut self,
        events: &mpsc::Sender<EngineEvent>,
        stop: Stop,
    ) -> Result<Compacted, Option<Failure>> {
        let front = Front { events: events.clone(), stop };
        match self.make_smaller(&front).await.map_err(Halt::from) {
            Ok(compacted) => Ok(compacted),
            Err(Halt::Failed(failure)) => Err(Some(failure)),
            Err(Halt::Stopped | Halt::Blocked(_) | Halt::PolicyStop(_)) => Err(None),
        }
    }

    /// Makes the conversation smaller where it fills most of the context.
    pub(super) async fn keep_small(&mut self, held: Option<u64>, front: &Front) -> Result<(), Halt> {
        let Some(room) = self.context_tokens() else { return Ok(()) };
        let estimate = || self.conversation.messages().iter().map(tokens_of_message).sum();
        let held = held.unwrap_or_else(estimate);
        if held < room.saturating_mul(self.rules.compact_at) / 100 {
            return Ok(());
        }
        match self.make_smaller(front).await {
            // It may still fit; if not, the model says so.
            Ok(_) | Err(Trouble::NothingToLeaveOut) => Ok(()),
            Err(trouble) => Err(trouble.into()),
        }
    }

    /// Lets the model sum up, puts the summary in place of what it is of, and saves.
    pub(super) async fn make_smaller(&mut self, front: &Front) -> Result<Compacted, Trouble> {
        let messages = self.conversation.messages();
        // What is still to be answered stays word for word.
        let open = messages.iter().rposition(|message| matches!(message, Message::User { .. }));
        let is_open = !matches!(messages.last(), Some(Message::Assistant { calls, .. }) if calls.is_empty());
        let kept = open.filter(|_| is_open).and_then(|index| messages.get(index)).cloned();
        if messages.len() <= usize::from(kept.is_some()) {
            return Err(Trouble::NothingToLeaveOut);
        }
        let before = self.conversation.count();
        let summary = self.summary(&messages, front).await?;
        let mut now = vec![
            Message::User { message: PartId::random(), text: REQUEST.to_owned() },
            Message::Assistant {
                message: PartId::random(),
                text: summary,
                thinking: String::new(),
                calls: Vec::new(),
            },
        ];
        now.extend(kept);
        let old = self.conversation.clone();
        self.conversation.replace(now);
        if let Err(halt) = self.save().await {
            self.conversation = old;
            return Err(Trouble::Halt(halt));
        }
        let after = self.conversation.count();
        let told = format!("The conversation was summed up: {before} messages became {after}.");
        front.notice(Level::Info, told).await;
        Ok(Compacted { before, after })
    }

    async fn summary(&self, messages: &[Message], front: &Front) -> Result<String, Trouble> {
        let mut last = None;
        for bytes in KEPT_BYTES {
            let mut asked: Vec<Message> = messages.iter().map(|message| shortened(message, bytes)).collect();
            ask(&mut asked);
            let request = ModelRequest {
                model: self.model.clone(),
                instructions: Arc::clone(&self.rules.instructions),
                tools: Arc::default(),
                messages: Arc::new(asked),
                working_directory: self.tools.workspace().root().to_path_buf(),
            };
            match self.silent_answer(request, front).await {
                Ok(summary) if summary.trim().is_empty() => {
                    return Err(Trouble::Failed("the model said nothing".to_owned()));
                }
                Ok(summary) => return Ok(summary),
                Err(Halt::Failed(Failure::Provider(error))) if error.fault == Fault::ContextExhausted => {
                    last = Some(error);
                }
                // A fault of the provider that has nothing to do with the length is told as what it is.
                Err(halt) => return Err(Trouble::Halt(halt)),
            }
        }
        Err(Trouble::Failed(last.map_or_else(String::new, |error| error.to_string())))
    }
}

/// Asks for the summary. Two messages of a person never stand behind one another: some models take that for a mistake.
fn ask(messages: &mut Vec<Message>) {
    match messages.last_mut() {
        Some(Message::User { text, .. }) => {
            text.push_str("\n\n");
            text.push_str(REQUEST);
        }
        Some(Message::Assistant { .. }) | None => {
            messages.push(Message::User { message: PartId::random(), text: REQUEST.to_owned() });
        }
    }
}

fn shortened(message: &Message, bytes: usize) -> Message {
    let mut message = message.clone();
    let shorten = |text: &mut String| {
        if text.len() > bytes {
            *text = format!("{}\n(… cut)", text::cut(text, bytes));
        }
    };
    match &mut message {
        Message::User { text, .. } => shorten(text),
        Message::Assistant { text, thinking, calls, .. } => {
            shorten(text);
            thinking.clear();
            for call in calls {
                shorten(&mut call.result);
                let input = call.input.to_string();
                if input.len() > bytes {
                    call.input = serde_json::json!({ "cut": text::cut(&input, bytes) });
                }
            }
        }
    }
    message
}

/// Tokens that a text has at least.
pub(super) fn tokens_at_least(text: &str) -> u64 {
    u64::try_from(text.len() / BYTES_MOST).unwrap_or(u64::MAX)
}

/// Tokens that a text has usually.
pub(super) fn tokens_of(text: &str) -> u64 {
    u64::try_from(text.len() / BYTES_USUAL).unwrap_or(u64::MAX)
}

/// Tokens that a message has usually.
pub(super) fn tokens_of_message(message: &Message) -> u64 {
    AROUND
        + match message {
            Message::User { text, .. } => tokens_of(text),
            Message::Assistant { text, calls, .. } => {
                let calls = calls
                    .iter()
                    .map(|call| AROUND + tokens_of(&call.result) + tokens_of(&call.input.to_string()));
                tokens_of(text) + calls.sum::<u64>()
            }
        }
}
