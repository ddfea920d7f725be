//! The loop of a turn: model call, tools, next model call, until the model calls no tool; saved after each step.

use std::sync::Arc;

use shared::entry::{Assistant, Level};
use shared::ids::PartId;
use tokio::sync::mpsc;

use super::conversation::{Conversation, Message};
use super::keeper::{Keeper, SaveError, Saved};
use super::provider::{Fault, ModelError, Provider};
use super::rules::Rules;
use super::tools::Tools;
use super::{Answered, Called, Desk, EngineEvent, Grants, Question, Stop};
use crate::config::Permissions;
use crate::engine::hook::{self, Look, Verdict};

mod answer;
mod calls;
mod compaction;
mod draft;
mod front;

use answer::Use;
use draft::{Answer, Call};
use front::Front;

pub use compaction::Compacted;

/// The built-in agent with its conversation.
pub struct Engine {
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// The name of the model.
    pub model: String,
    /// The agent of the configuration, where one was chosen.
    pub agent: Option<String>,
    /// The tools.
    pub tools: Tools,
    /// What the tools may do.
    pub permissions: Permissions,
    /// What it keeps to beside that.
    pub rules: Rules,
    /// Model calls of one turn.
    pub max_steps: u32,
    /// What was said so far.
    pub conversation: Conversation,
    /// Where it is kept.
    pub keeper: Arc<dyn Keeper>,
    /// Where decisions of people are handed in.
    pub desk: Desk,
    /// What becomes of a call that a person has to decide.
    pub questions: Questions,
    /// What was granted once and for all.
    pub grants: Grants,
}

/// What becomes of a call that a person has to decide.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Questions {
    /// It waits at the [`Desk`].
    #[default]
    Wait,
    /// Nobody is there: the call fails, those behind it are not run, and the turn is over.
    Block,
}

/// How a turn ended.
#[derive(Debug)]
pub enum TurnOutcome {
    /// The model answered and calls no tool any more.
    Completed,
    /// It was stopped.
    Interrupted,
    /// What was said did not enter the conversation, which is as it was before.
    Rejected(Rejection),
    /// A person would have had to decide this, and nobody is to be waited for.
    Blocked(Box<Question>),
    /// A hook, or a guardrail on answers, does not let it go on; the sentence says which and why.
    PolicyStop(String),
    /// It failed.
    Failed(Failure),
}

/// Why a message did not enter the conversation.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Rejection {
    /// There is nothing in it.
    #[error("the message is empty")]
    Empty,
    /// The model could not read it.
    #[error("the message has no room in the model's context of {0} tokens")]
    NoRoom(u64),
    /// A guardrail; the sentence is the guardrail's own.
    #[error("{0}")]
    Guardrail(String),
}

/// Why a turn failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The model did not answer.
    #[error(transparent)]
    Provider(#[from] ModelError),
    /// It went on for too long.
    #[error("the turn was ended after {0} model calls; send another message to let it go on")]
    MaxSteps(u32),
    /// It used too much.
    #[error("the turn was ended: it used {used} tokens, and its budget is {budget}")]
    TokenBudget {
        /// What it used.
        used: u64,
        /// What it may use.
        budget: u64,
    },
    /// The conversation fills the context and cannot be made smaller.
    #[error("the conversation fills the model's context and could not be made smaller: {0}")]
    Compaction(String),
    /// The conversation cannot be saved.
    #[error("the conversation cannot be saved: {0}")]
    Save(#[from] SaveError),
}

/// Why a turn goes no further.
enum Halt {
    Stopped,
    Blocked(Box<Question>),
    PolicyStop(String),
    Failed(Failure),
}

impl From<Halt> for TurnOutcome {
    fn from(halt: Halt) -> Self {
        match halt {
            Halt::Stopped => Self::Interrupted,
            Halt::Blocked(question) => Self::Blocked(question),
            Halt::PolicyStop(why) => Self::PolicyStop(why),
            Halt::Failed(failure) => Self::Failed(failure),
        }
    }
}

impl Engine {
    /// Runs a turn to its end and tells `events` of it. Stopped, it ends the model call and the tools in flight and saves what was done.
    pub async fn turn(
        &mut self,
        said: String,
        events: &mpsc::Sender<EngineEvent>,
        stop: Stop,
    ) -> TurnOutcome {
        if let Some(rejection) = self.rejection(&said) {
            return TurnOutcome::Rejected(rejection);
        }
        let front = Front { events: events.clone(), stop };
        match self.steps(said, &front).await {
            Ok(()) => TurnOutcome::Completed,
            Err(halt) => halt.into(),
        }
    }

    /// Tokens of the model's context, where they are known.
    #[must_use]
    pub fn context_tokens(&self) -> Option<u64> {
        self.rules.context_tokens.or_else(|| self.provider.context_tokens(&self.model))
    }

    fn rejection(&self, said: &str) -> Option<Rejection> {
        if said.trim().is_empty() {
            return Some(Rejection::Empty);
        }
        if let Some(sentence) = self.rules.refused_input(said) {
            return Some(Rejection::Guardrail(sentence));
        }
        let room = self.context_tokens()?;
        (compaction::tokens_at_least(said) > room).then_some(Rejection::NoRoom(room))
    }

    async fn steps(&mut self, said: String, front: &Front) -> Result<(), Halt> {
        let message = PartId::random();
        self.conversation.push(Message::User { message: message.clone(), text: said.clone() });
        self.save().await?;
        front.tell(EngineEvent::Began { message, text: said }).await;
        let mut used = 0_u64;
        // What the context holds, as the last call counted it.
        let mut held = None;
        for iteration in 1..=self.max_steps {
            if let Some(budget) = self.rules.token_budget.filter(|budget| used >= *budget) {
                return Err(Halt::Failed(Failure::TokenBudget { used, budget }));
            }
            self.keep_small(held, front).await?;
            let (answer, usage) = self.answer_or_compact(front).await?;
            used = used.saturating_add(usage.tokens);
            if let Some(sentence) = self.rules.refused_output(&answer.text) {
                return Err(Halt::PolicyStop(sentence));
            }
            if !answer.text.is_empty() {
                front.tell(EngineEvent::Assistant(said_by(&answer, &self.model))).await;
            }
            front.usage(usage.counted.clone()).await;
            front.tell(EngineEvent::Answered(answered(&answer, iteration, usage.counted))).await;
            held = Some(usage.tokens);
            let stopped = self.ask_hooks(&answer, iteration, front).await;
            let is_last = answer.calls.is_empty();
            let (calls, blocked) = self.run_calls(answer.calls, stopped.is_some(), front).await;
            self.conversation.push(Message::Assistant {
                message: answer.message,
                text: answer.text,
                thinking: answer.thinking,
                calls,
            });
            let saved = self.save().await?;
            if !is_last {
                front.tell(EngineEvent::Saved(saved)).await;
            }
            if let Some(why) = stopped {
                return Err(Halt::PolicyStop(why));
            }
            if is_last {
                return Ok(());
            }
            if front.stop.is_stopped() {
                return Err(Halt::Stopped);
            }
            if let Some(question) = blocked {
                return Err(Halt::Blocked(question));
            }
        }
        Err(Halt::Failed(Failure::MaxSteps(self.max_steps)))
    }

    /// Asks each hook whether the turn goes on. One that does not answer stops it: it may have been about to.
    async fn ask_hooks(&self, answer: &Answer, iteration: u32, front: &Front) -> Option<String> {
        let look = Look {
            session: self.conversation.id(),
            iteration,
            text: &answer.text,
            calls: answer.calls.iter().map(|call| (call.name.as_str(), &call.input)).collect(),
        };
        for hook in &self.rules.hooks {
            match hook::ask(hook, &look, &self.tools, front.stop.clone()).await {
                Verdict::Continue(None) => {}
                Verdict::Continue(Some(said)) => {
                    front.notice(Level::Info, format!("{}: {said}", hook.name)).await;
                }
                Verdict::Stop(said) => return Some(said),
                // The turn is stopped anyway.
                Verdict::Interrupted => return None,
            }
        }
        None
    }

    /// One model call; where the conversation is too long for it, the conversation is made smaller and the call is made again, once.
    async fn answer_or_compact(&mut self, front: &Front) -> Result<(Answer, Use), Halt> {
        match self.answer(front).await {
            Err(Halt::Failed(Failure::Provider(error))) if error.fault == Fault::ContextExhausted => {
                front.notice(Level::Info, "The conversation is too long for the model.".to_owned()).await;
                match self.make_smaller(front).await {
                    Ok(_) => self.answer(front).await,
                    // What was too long is worth more to whoever reads it than that nothing was left to leave out.
                    Err(compaction::Trouble::NothingToLeaveOut) => {
                        Err(Halt::Failed(Failure::Provider(error)))
                    }
                    Err(trouble) => Err(trouble.into()),
                }
            }
            other => other,
        }
    }

    /// Saves the conversation; it is durable on return.
    async fn save(&self) -> Result<Saved, Halt> {
        let (keeper, conversation) = (Arc::clone(&self.keeper), self.conversation.clone());
        let saved = tokio::task::spawn_blocking(move || keeper.save(&conversation)).await;
        match saved {
            Ok(Ok(saved)) => Ok(saved),
            Ok(Err(error)) => Err(Halt::Failed(error.into())),
            // The runtime ends; so does everything else.
            Err(_) => Err(Halt::Stopped),
        }
    }
}

fn said_by(answer: &Answer, model: &str) -> Assistant {
    Assistant { message: answer.message.clone(), text: answer.text.clone(), model: Some(model.to_owned()) }
}

fn answered(answer: &Answer, iteration: u32, usage: Option<shared::entry::Usage>) -> Answered {
    let called =
        |call: &Call| Called { call: call.call.clone(), name: call.name.clone(), input: call.input.clone() };
    Answered {
        message: answer.message.clone(),
        text: answer.text.clone(),
        calls: answer.calls.iter().map(called).collect(),
        iteration,
        usage,
    }
}

#[cfg(test)]
mod tests;
