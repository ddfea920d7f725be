//! The tool calls of one answer: each judged, asked about where a person must decide, run, and given a result.

use std::fmt::Write as _;

use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use shared::decision::{Decision, Matter};
use shared::entry::{Level, ResultStatus, Tool, ToolClass, ToolResult};
use shared::ids::InputId;
use tokio::sync::oneshot;

use super::draft::Call;
use super::front::Front;
use super::{Engine, Questions};
use crate::engine::conversation::AnsweredCall;
use crate::engine::policy::{self, Judgement, Permitted, Wish};
use crate::engine::tools::{Action, Outcome, Running};
use crate::engine::{EngineEvent, Finished, Grants, Question, Stop};
use crate::text;

/// What the model is told of a call that nobody is there to decide.
const NOBODY: &str = "Nobody is there to decide this; the run ends here.";
/// What it is told of the calls behind that, or behind a hook that ended the turn.
const NOT_RUN: &str = "Not run: the turn ended before this call.";

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
    grants: Grants,
}

impl Engine {
    /// Runs the calls side by side: begun in order, told as they end, given back in order, with the question that nobody is there to answer. Every
    /// call comes back with a result; where the turn is over already, none is run.
    pub(super) async fn run_calls(
        &self,
        calls: Vec<Call>,
        is_over: bool,
        front: &Front,
    ) -> (Vec<AnsweredCall>, Option<Box<Question>>) {
        let mut running = FuturesUnordered::new();
        let mut answered: Vec<Option<AnsweredCall>> = Vec::new();
        let mut blocked = None;
        for (index, call) in calls.into_iter().enumerate() {
            let begun = match self.begin(&call, front, is_over || blocked.is_some()).await {
                Begun::Blocked(question) => {
                    blocked = Some(question);
                    Begun::Over(Outcome::plain(ResultStatus::Denied, NOBODY))
                }
                begun @ (Begun::Permitted(_) | Begun::Waits(_) | Begun::Over(_)) => begun,
            };
            answered.push(None);
            running.push(async move {
                let work = match begun {
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

    /// Tells that a call begins; gives its title.
    async fn tell_of(&self, call: &Call, read: Option<&Action>, front: &Front) -> String {
        let (title, class) = match read {
            Some(action) => (action.title(), action.class()),
            None => (text::one_line(&call.name, 40), ToolClass::Other),
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
        title
    }

    /// Tells that a call begins, and finds out what it may do; nothing where the turn is over.
    async fn begin(&self, call: &Call, front: &Front, is_over: bool) -> Begun {
        let read = self.tools.read(&call.name, &call.input);
        let title = self.tell_of(call, read.as_ref().ok(), front).await;
        if front.stop.is_stopped() {
            return Begun::Over(Outcome::interrupted());
        }
        if is_over {
            return Begun::Over(Outcome::plain(ResultStatus::Interrupted, NOT_RUN));
        }
        let action = match read {
            Ok(action) => action,
            Err(bad) => return Begun::Over(Outcome::plain(ResultStatus::Error, &bad.to_string())),
        };
        if !self.rules.offer(&call.name) {
            let text = format!("Denied: the tool {} may not be used here.", text::one_line(&call.name, 40));
            front.notice(Level::Warning, format!("{title} was denied by a policy.")).await;
            return Begun::Over(Outcome::plain(ResultStatus::Denied, &text));
        }
        let policy = self.rules.policies.of(&call.name);
        let (question, wish) = match policy::permit(action, self.permissions, policy, self.tools.workspace())
        {
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
        Begun::Waits(Waits { wish, decision, grants: self.grants.clone() })
    }
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
            (Decision::Allow, Some(wish)) => return Ok(wish.grant()),
            (Decision::AllowSession, Some(wish)) => {
                self.grants.add(wish.pattern().to_owned());
                return Ok(wish.grant());
            }
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
