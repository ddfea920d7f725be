//! The loop of a turn: model call, tools, next model call, until the model calls no tool; saved after each step.

use std::fmt::Write as _;
use std::sync::Arc;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use shared::decision::{Decision, Matter};
use shared::entry::{Level, Notice, ResultStatus, Tool, ToolClass, ToolResult, Usage};
use shared::frame::DeltaKind;
use shared::ids::{InputId, PartId};
use shared::limits;
use tokio::sync::{mpsc, oneshot};

use super::conversation::{AnsweredCall, Conversation, Message};
use super::keeper::{Keeper, SaveError, Saved};
use super::policy::{self, Judgement, Permitted, Wish};
use super::provider::{Fault, ModelError, ModelEvent, ModelRequest, Provider};
use super::tools::{Action, Outcome, Running, Tools};
use super::{Answered, Called, Desk, EngineEvent, Finished, Grants, Question, Stop};
use crate::config::Permissions;
use crate::text;

mod draft;

use draft::{Call, Draft};

/// What the model is told of a call that nobody is there to decide.
const NOBODY: &str = "Nobody is there to decide this; the run ends here.";
/// What it is told of the calls behind that.
const NOT_RUN: &str = "Not run: a call before it needs a decision that nobody is there to make.";

/// The built-in agent with its conversation.
pub struct Engine {
    /// The model.
    pub provider: Arc<dyn Provider>,
    /// The name of the model.
    pub model: String,
    /// The tools.
    pub tools: Tools,
    /// What the tools may do.
    pub permissions: Permissions,
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
    /// A person would have had to decide this, and nobody is to be waited for.
    Blocked(Box<Question>),
    /// It failed.
    Failed(Failure),
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
    /// The conversation cannot be saved.
    #[error("the conversation cannot be saved: {0}")]
    Save(#[from] SaveError),
}

/// Why a turn goes no further.
enum Halt {
    Stopped,
    Blocked(Box<Question>),
    Failed(Failure),
}

impl Engine {
    /// Runs a turn to its end and tells `events` of it. Stopped, it ends the model call and the tools in flight and saves what was done.
    pub async fn turn(
        &mut self,
        said: String,
        events: &mpsc::Sender<EngineEvent>,
        stop: Stop,
    ) -> TurnOutcome {
        let front = Front { events: events.clone(), stop };
        match self.steps(said, &front).await {
            Ok(()) => TurnOutcome::Completed,
            Err(Halt::Failed(failure)) => TurnOutcome::Failed(failure),
            Err(Halt::Blocked(question)) => TurnOutcome::Blocked(question),
            Err(Halt::Stopped) => TurnOutcome::Interrupted,
        }
    }

    async fn steps(&mut self, said: String, front: &Front) -> Result<(), Halt> {
        let message = PartId::random();
        self.conversation.push(Message::User { message: message.clone(), text: said.clone() });
        self.save().await?;
        front.tell(EngineEvent::Began { message, text: said }).await;
        for iteration in 1..=self.max_steps {
            let (answer, usage) = self.answer(front).await?;
            let is_last = answer.calls.is_empty();
            front.tell(EngineEvent::Answered(answered(&answer, iteration, usage))).await;
            let (calls, blocked) = self.run_calls(answer.calls, front).await;
            self.conversation.push(Message::Assistant {
                message: answer.message,
                text: answer.text,
                thinking: answer.thinking,
                calls,
            });
            let saved = self.save().await?;
            if is_last {
                return Ok(());
            }
            front.tell(EngineEvent::Saved(saved)).await;
            if front.stop.is_stopped() {
                return Err(Halt::Stopped);
            }
            if let Some(question) = blocked {
                return Err(Halt::Blocked(question));
            }
        }
        Err(Halt::Failed(Failure::MaxSteps(self.max_steps)))
    }

    /// One model call to its end.
    async fn answer(&self, front: &Front) -> Result<(draft::Answer, Option<Usage>), Halt> {
        let mut stream = self.provider.call(ModelRequest {
            model: self.model.clone(),
            messages: self.conversation.messages(),
            working_directory: self.tools.workspace().root().to_path_buf(),
        });
        let mut draft = Draft::new(&self.model);
        let mut stop = front.stop.clone();
        // Told after what it counts, as readers expect.
        let mut usage = None;
        loop {
            let event = tokio::select! {
                biased;
                () = stop.wait() => {
                    draft.abandon(front).await;
                    front.usage(usage).await;
                    return Err(Halt::Stopped);
                }
                event = stream.recv() => event,
            };
            let error = match event {
                Some(ModelEvent::Thinking(piece)) => {
                    draft.thinking(&piece, front).await;
                    continue;
                }
                Some(ModelEvent::Text(piece)) => {
                    draft.text(&piece, front).await;
                    continue;
                }
                Some(ModelEvent::Call { name, input }) => {
                    draft.call(name, input);
                    continue;
                }
                Some(ModelEvent::Usage(counted)) => {
                    usage = Some(counted);
                    continue;
                }
                Some(ModelEvent::Done) => {
                    let answer = draft.finish(front).await;
                    front.usage(usage.clone()).await;
                    return Ok((answer, usage));
                }
                Some(ModelEvent::Failed(error)) => error,
                None => ModelError {
                    provider: self.provider.name(),
                    fault: Fault::Network,
                    status: None,
                    message: "the connection broke in the middle of an answer".to_owned(),
                    retry_after: None,
                },
            };
            draft.abandon(front).await;
            front.usage(usage).await;
            return Err(Halt::Failed(error.into()));
        }
    }

    /// Runs the calls side by side: begun in order, told as they end, given back in order, with the question that nobody is there to answer. Every
    /// call comes back with a result.
    async fn run_calls(&self, calls: Vec<Call>, front: &Front) -> (Vec<AnsweredCall>, Option<Box<Question>>) {
        let mut running = FuturesUnordered::new();
        let mut answered: Vec<Option<AnsweredCall>> = Vec::new();
        let mut blocked = None;
        for (index, call) in calls.into_iter().enumerate() {
            let work = match self.begin(&call, front, blocked.is_some()).await {
                Begun::Blocked(question) => {
                    blocked = Some(question);
                    Begun::Over(Outcome::plain(ResultStatus::Denied, NOBODY))
                }
                work => work,
            };
            answered.push(None);
            running.push(async move {
                let work = match work {
                    Begun::Permitted(work) => Ok(work),
                    Begun::Waits(waits) => waits.decided(front.stop.clone()).await,
                    Begun::Over(outcome) => Err(outcome),
                    Begun::Blocked(_) => Err(Outcome::interrupted()),
                };
                let outcome = match work {
                    Ok(work) => {
                        let running = Running {
                            call: call.call.clone(),
                            events: front.events.clone(),
                            stop: front.stop.clone(),
                        };
                        self.tools.run(work, running).await
                    }
                    Err(outcome) => outcome,
                };
                (index, call, outcome)
            });
        }
        while let Some((index, call, outcome)) = running.next().await {
            let told = told(&outcome);
            let status = outcome.status;
            let result = ToolResult {
                call: call.call.clone(),
                status: status.into(),
                text: outcome.text,
                diff: outcome.diff,
                exit: outcome.exit,
                truncated: outcome.truncated,
            };
            let finished = Finished { name: call.name.clone(), told: told.clone(), result };
            front.tell(EngineEvent::ToolFinished(finished)).await;
            if let Some(place) = answered.get_mut(index) {
                *place = Some(AnsweredCall {
                    call: call.call,
                    name: call.name,
                    input: call.input,
                    status: status.into(),
                    result: told,
                });
            }
        }
        (answered.into_iter().flatten().collect(), blocked)
    }

    /// Tells that a call begins, and finds out what it may do; nothing where one before it blocked the turn.
    async fn begin(&self, call: &Call, front: &Front, is_blocked: bool) -> Begun {
        let read = Action::read(&call.name, &call.input);
        let (title, class) = match &read {
            Ok(action) => (action.title(), action.class()),
            Err(_) => (text::one_line(&call.name, 40), ToolClass::Other),
        };
        front
            .tell(EngineEvent::ToolStarted(Tool {
                call: call.call.clone(),
                name: call.name.clone(),
                title: title.clone(),
                class: class.into(),
                input: call.input.clone(),
            }))
            .await;
        if front.stop.is_stopped() {
            return Begun::Over(Outcome::interrupted());
        }
        if is_blocked {
            return Begun::Over(Outcome::plain(ResultStatus::Interrupted, NOT_RUN));
        }
        let action = match read {
            Ok(action) => action,
            Err(bad) => return Begun::Over(Outcome::plain(ResultStatus::Error, &bad.to_string())),
        };
        let (question, wish) = match policy::permit(action, self.permissions, self.tools.workspace()) {
            Ok(Judgement::Permitted(work)) => return Begun::Permitted(work),
            Ok(Judgement::Wished(wish)) if self.grants.hold(wish.pattern()) => {
                return Begun::Permitted(wish.grant());
            }
            Ok(Judgement::Wished(wish)) => (wish.question(call.call.clone()), Some(*wish)),
            Ok(Judgement::Asked(ask)) => {
                let matter = Matter::Ask(ask);
                (Question { input: InputId::random(), matter, subject: None, grant: None }, None)
            }
            Err(denied) => {
                front.notice(Level::Warning, format!("{title} was denied: {denied}.")).await;
                return Begun::Over(Outcome::plain(ResultStatus::Denied, &format!("Denied: {denied}.")));
            }
        };
        match self.questions {
            Questions::Block => return Begun::Blocked(Box::new(question)),
            Questions::Wait => {}
        }
        let decision = self.desk.wait(question.input);
        front.tell(EngineEvent::Asked(Box::new(question))).await;
        Begun::Waits(Waits { wish, decision })
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

fn answered(answer: &draft::Answer, iteration: u32, usage: Option<Usage>) -> Answered {
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

/// How far a call is once it has begun.
enum Begun {
    /// It may run.
    Permitted(Permitted),
    /// A person decides.
    Waits(Waits),
    /// A person would have to decide, and nobody is there.
    Blocked(Box<Question>),
    /// It will not run.
    Over(Outcome),
}

/// A call that waits for a person.
struct Waits {
    /// What may run then; none for a question, whose answer is its result.
    wish: Option<Wish>,
    decision: oneshot::Receiver<Decision>,
}

impl Waits {
    /// What may run now, or what came of the call without running.
    async fn decided(self, mut stop: Stop) -> Result<Permitted, Outcome> {
        let decision = tokio::select! {
            biased;
            () = stop.wait() => return Err(Outcome::interrupted()),
            decision = self.decision => decision.map_err(|_| Outcome::interrupted())?,
        };
        let denied = |why: &str| Outcome::plain(ResultStatus::Denied, why);
        let answered = |answer: &str| Outcome::plain(ResultStatus::Ok, answer);
        Err(match (decision, self.wish) {
            (Decision::Allow | Decision::AllowSession, Some(wish)) => return Ok(wish.grant()),
            (Decision::Deny { text: Some(text) }, _) => denied(&format!("Denied: {text}")),
            (Decision::Deny { text: None }, _) => denied("Denied: a person said no."),
            (Decision::Chosen(labels), None) => answered(&format!("The person chose: {}", labels.join(", "))),
            (Decision::Said(text), None) => answered(&format!("The person said: {text}")),
            (Decision::Chosen(_) | Decision::Said(_), Some(_))
            | (Decision::Allow | Decision::AllowSession, None) => {
                denied("Denied: the answer fits no question.")
            }
        })
    }
}

/// What the model is told of an outcome: the text, and how a command ended.
fn told(outcome: &Outcome) -> String {
    let mut told = outcome.text.clone();
    match outcome.exit {
        None | Some(shared::status::Exit::Status(0)) => {}
        Some(shared::status::Exit::Status(status)) => {
            let _ = write!(told, "\n(exit status {status})");
        }
        Some(shared::status::Exit::Signal(signal)) => {
            let _ = write!(told, "\n(ended by signal {signal})");
        }
    }
    told
}

/// Who listens to a turn and may stop it.
struct Front {
    events: mpsc::Sender<EngineEvent>,
    stop: Stop,
}

impl Front {
    /// Tells; a front that is gone stops the turn by its stopper, not by this.
    async fn tell(&self, event: EngineEvent) {
        let _ = self.events.send(event).await;
    }

    async fn usage(&self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.tell(EngineEvent::Usage(usage)).await;
        }
    }

    async fn notice(&self, level: Level, text: String) {
        self.tell(EngineEvent::Notice(Notice { level: level.into(), text })).await;
    }

    async fn delta(&self, message: &PartId, kind: DeltaKind, mut text: &str) {
        while !text.is_empty() {
            let piece = text::cut(text, limits::DELTA_BYTES);
            text = text.get(piece.len()..).unwrap_or_default();
            self.tell(EngineEvent::Delta { message: message.clone(), kind, text: piece.to_owned() }).await;
        }
    }
}

#[cfg(test)]
mod tests;
