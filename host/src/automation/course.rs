//! The course of a served session: what happens to it, told in the order of the contract ("Journal and events"). It does no I/O: the engine's events and
//! the wishes of controllers come in, the [`Scribe`] numbers what is told, and what comes back says what is to be done.

use std::path::Path;

use shared::decision::Decision;
use shared::entry::{Level, ResultStatus};
use shared::ids::InputId;
use shared::time::Timestamp;

use super::error::{AutomationError, Code};
use super::event::{Happening, NoticeLevel, OfRun, SaveReason, Status, StopReason, ToolCall, ToolStatus};
use super::failure::{self, CancelReason};
use super::journal::{Journal, Told};
use super::run::{Ending, Persisted, Request, Run, RunId, RunKind};
use super::store::Saved;
use crate::engine::{Answered, EngineEvent, Failure, Finished, TurnOutcome};

mod inputs;

pub use inputs::Answer;
use inputs::{Asked, Inputs};

/// Numbers what is told and keeps it; the [`Journal`].
pub trait Scribe {
    /// The number of the next event.
    fn next_seq(&self) -> u64;
    /// The time of the next event.
    fn now(&mut self) -> Timestamp;
    /// Takes an event.
    fn note(&mut self, run_id: Option<&RunId>, happening: &Happening) -> Told;
}

impl Scribe for Journal {
    fn next_seq(&self) -> u64 {
        Self::next_seq(self)
    }

    fn now(&mut self) -> Timestamp {
        Self::now(self)
    }

    fn note(&mut self, run_id: Option<&RunId>, happening: &Happening) -> Told {
        Self::note(self, run_id, happening)
    }
}

/// With what a server begins.
#[derive(Debug)]
pub struct Beginning<'a> {
    /// The process.
    pub pid: u32,
    /// The revision that was resumed; none for a new session.
    pub resumed: Option<String>,
    /// The session as it is stored.
    pub stored: Saved,
    /// Where the journal is, and how many bytes of a torn last line were cut from it.
    pub cut: (&'a Path, u64),
    /// Further notices: source and text.
    pub notices: Vec<(&'static str, String)>,
    /// The runs that had not settled.
    pub unsettled: Vec<Run>,
    /// How the session works.
    pub status: Status,
}

/// The course of one session while one server serves it.
#[derive(Debug)]
pub struct Course {
    session_id: String,
    active: Option<Active>,
    status: Status,
    persisted_seq: u64,
    stopping: Option<StopReason>,
}

/// The run that has not settled.
#[derive(Debug)]
struct Active {
    run: Run,
    text: String,
    /// Why it is to end, where it is.
    cancelled: Option<CancelReason>,
    inputs: Inputs,
    /// The text of the last answer.
    said: String,
}

/// How the engine's work ended.
#[derive(Debug)]
pub enum Worked {
    /// A turn.
    Turn(TurnOutcome),
    /// A command: its output, or why it failed.
    Command(Result<String, String>),
}

/// Decisions to hand in at the engine's desk.
pub type Decisions = Vec<(InputId, Decision)>;

impl Course {
    /// Begins with the events of a server that starts (settled point 26). Gives the records of the runs that it tells lost, each with its event.
    pub fn begin(
        session_id: &str,
        beginning: Beginning<'_>,
        scribe: &mut dyn Scribe,
    ) -> (Self, Vec<(Run, u64)>) {
        let started = Happening::ServerStarted {
            pid: beginning.pid,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            resumed_revision: beginning.resumed,
        };
        scribe.note(None, &started);
        let (journal, cut) = beginning.cut;
        if cut > 0 {
            let message = format!("{}: {cut} bytes of a torn last line were cut", journal.display());
            scribe.note(None, &notice(NoticeLevel::Warning, "journal", message));
        }
        for (source, message) in beginning.notices {
            scribe.note(None, &notice(NoticeLevel::Warning, source, message));
        }
        let told = scribe.note(None, &persisted(&beginning.stored, SaveReason::Start));
        let found = persisted_of(&beginning.stored, told);
        let lost = beginning.unsettled.into_iter().map(|mut run| {
            run.lose(found.clone(), scribe.now());
            let told = scribe.note(Some(&run.id), &Happening::RunLost(of(&run)));
            (run, told.seq)
        });
        let lost = lost.collect();
        let course = Self {
            session_id: session_id.to_owned(),
            active: None,
            status: beginning.status,
            persisted_seq: told.seq,
            stopping: None,
        };
        (course, lost)
    }

    /// How the session works.
    #[must_use]
    pub fn status(&self) -> &Status {
        &self.status
    }

    /// The event that told of the last save.
    #[must_use]
    pub fn persisted_seq(&self) -> u64 {
        self.persisted_seq
    }

    /// Why the server ends, where it does.
    #[must_use]
    pub fn stopping(&self) -> Option<StopReason> {
        self.stopping
    }

    /// The run that has not settled.
    #[must_use]
    pub fn active(&self) -> Option<&Run> {
        self.active.as_ref().map(|active| &active.run)
    }

    /// Accepts a run.
    ///
    /// # Errors
    /// `shutting_down`, `busy`.
    pub fn submit(
        &mut self,
        request: &Request,
        scribe: &mut dyn Scribe,
    ) -> Result<(Run, u64), AutomationError> {
        if self.stopping.is_some() {
            return Err(shutting_down());
        }
        if let Some(active) = &self.active {
            return Err(busy(&active.run.id));
        }
        let run = Run::accepted(request, &self.session_id, scribe.next_seq(), scribe.now());
        let told = scribe.note(Some(&run.id), &Happening::RunAccepted(of(&run)));
        self.active = Some(Active {
            run: run.clone(),
            text: request.text.clone(),
            cancelled: None,
            inputs: Inputs::default(),
            said: String::new(),
        });
        Ok((run, told.seq))
    }

    /// Somebody asks to cancel the active run. True where the engine is to be stopped.
    pub fn cancel(&mut self, scribe: &mut dyn Scribe) -> bool {
        let Some(active) = &mut self.active else { return false };
        if !active.run.request_cancel() {
            return false;
        }
        scribe.note(Some(&active.run.id), &Happening::RunCancelRequested(of(&active.run)));
        active.cancelled.get_or_insert(CancelReason::Request);
        active.drop_inputs(scribe);
        true
    }

    /// The server is to end; a second reason changes nothing. True where the engine is to be stopped.
    pub fn stop(&mut self, reason: StopReason, scribe: &mut dyn Scribe) -> bool {
        if self.stopping.is_some() {
            return false;
        }
        self.stopping = Some(reason);
        scribe.note(None, &Happening::ServerStopping { reason });
        let Some(active) = &mut self.active else { return false };
        active.cancelled.get_or_insert(CancelReason::Shutdown);
        active.drop_inputs(scribe);
        true
    }

    /// Takes an answer for an input of the active run. What it decides may be handed in once the events are durable.
    ///
    /// # Errors
    /// `not_pending` where nobody waits for it any more, `bad_request` where it does not fit; `asked` says whether the run ever asked it, else `not_found`.
    pub fn answer(
        &mut self,
        run_id: &RunId,
        input_id: &str,
        answer: &Answer,
        asked: bool,
        scribe: &mut dyn Scribe,
    ) -> Result<Decisions, AutomationError> {
        let active = self.active.as_mut().filter(|active| active.run.id == *run_id);
        let waits = active.and_then(|active| active.inputs.waits_for(input_id).then_some(active));
        let Some(active) = waits else {
            return Err(if asked {
                AutomationError::new(Code::NotPending, "nobody waits for this answer any more")
            } else {
                AutomationError::new(Code::NotFound, "this run asked no such input")
            });
        };
        let resolved = active.inputs.resolve(answer)?;
        let event =
            Happening::InputResolved { input_id: input_id.to_owned(), answer: Some(resolved.recorded) };
        scribe.note(Some(run_id), &event);
        if let Some(next) = resolved.next {
            scribe.note(Some(run_id), &Happening::InputRequired(next));
        }
        Ok(resolved.decisions)
    }

    /// How the engine is set outside of its work: told where it changed.
    pub fn configure(&mut self, set: Status, scribe: &mut dyn Scribe) {
        let tokens_used = set.tokens_used.or(self.status.tokens_used);
        self.tell_status(Status { iteration: self.status.iteration, tokens_used, ..set }, scribe);
    }

    /// Takes an event of the engine. Gives the id of an input that is asked by it.
    pub fn engine(&mut self, event: EngineEvent, scribe: &mut dyn Scribe) -> Option<InputId> {
        if let EngineEvent::Answered(answered) = event {
            self.answered(answered, scribe);
            return None;
        }
        self.active.as_mut().and_then(|active| active.engine(event, &mut self.persisted_seq, scribe))
    }

    fn answered(&mut self, answered: Answered, scribe: &mut dyn Scribe) {
        let used = answered.usage.as_ref().map(|usage| {
            usage.input_tokens.saturating_add(usage.cached_tokens).saturating_add(usage.output_tokens)
        });
        let status = Status {
            iteration: u64::from(answered.iteration),
            tokens_used: used.or(self.status.tokens_used),
            ..self.status.clone()
        };
        self.tell_status(status, scribe);
        let Some(active) = &mut self.active else { return };
        active.run.stats.iterations += 1;
        active.said.clone_from(&answered.text);
        let calls = answered.calls.into_iter();
        let event = Happening::MessageAssistant {
            message_id: answered.message.to_string(),
            content: answered.text,
            tool_calls: calls
                .map(|call| ToolCall { call_id: call.call.to_string(), name: call.name, args: call.input })
                .collect(),
        };
        scribe.note(Some(&active.run.id), &event);
    }

    fn tell_status(&mut self, status: Status, scribe: &mut dyn Scribe) {
        if status != self.status {
            let run = self.active.as_ref().map(|active| &active.run.id);
            scribe.note(run, &Happening::Status(status.clone()));
            self.status = status;
        }
    }

    /// The engine is done with the active run; gives its record. Next the session is to be saved: [`Course::saved`].
    pub fn worked(&mut self, worked: Worked, scribe: &mut dyn Scribe) {
        let Some(active) = &mut self.active else { return };
        active.drop_inputs(scribe);
        let cancelled = active.cancelled;
        let ending = match worked {
            Worked::Turn(outcome) => {
                if let TurnOutcome::Failed(Failure::Save(_)) = &outcome {
                    let (_, error) = failure::of_turn(&outcome, CancelReason::Request);
                    if let Some(error) = error {
                        let event = Happening::SessionPersistFailed { error, reason: SaveReason::Checkpoint };
                        scribe.note(Some(&active.run.id), &event);
                    }
                }
                let reason = cancelled.unwrap_or(CancelReason::Request);
                match failure::of_turn(&outcome, reason) {
                    (outcome, Some(error)) => Ending::Short { outcome, error },
                    (_, None) => Ending::Completed { content: std::mem::take(&mut active.said) },
                }
            }
            Worked::Command(result) => {
                let (message, error) = match &result {
                    Ok(message) => (Some(message.clone()), None),
                    Err(error) => (None, Some(error.clone())),
                };
                let event = Happening::CommandResult { command: active.text.clone(), message, error };
                scribe.note(Some(&active.run.id), &event);
                failure::of_command(result, cancelled)
            }
        };
        active.run.finish(ending, scribe.now());
        scribe.note(Some(&active.run.id), &Happening::RunFinished(of(&active.run)));
    }

    /// The save after the engine's work came to this; the run settles with it. Gives its record and the event that told it.
    pub fn saved(
        &mut self,
        saved: Result<Saved, AutomationError>,
        scribe: &mut dyn Scribe,
    ) -> Option<(Run, u64)> {
        let Active { mut run, .. } = self.active.take()?;
        let reason = match run.kind {
            RunKind::Prompt => SaveReason::Run,
            RunKind::Command => SaveReason::Command,
        };
        let event = match saved {
            Ok(saved) => {
                let told = scribe.note(Some(&run.id), &persisted(&saved, reason));
                self.persisted_seq = told.seq;
                run.persist(persisted_of(&saved, told), scribe.now());
                Happening::RunPersisted(of(&run))
            }
            Err(error) => {
                let error = not_saved(&error);
                let message = error.message.clone();
                scribe.note(Some(&run.id), &Happening::SessionPersistFailed { error, reason });
                run.fail_to_persist(message, scribe.now());
                Happening::RunPersistFailed(of(&run))
            }
        };
        let told = scribe.note(Some(&run.id), &event);
        Some((run, told.seq))
    }

    /// The last save of the server came to this. True where the session is saved.
    pub fn end(&mut self, saved: Result<Saved, AutomationError>, scribe: &mut dyn Scribe) -> bool {
        let reason = SaveReason::Shutdown;
        let is_saved = saved.is_ok();
        let told = match saved {
            Ok(saved) => scribe.note(None, &persisted(&saved, reason)),
            Err(error) => {
                scribe.note(None, &Happening::SessionPersistFailed { error: not_saved(&error), reason })
            }
        };
        if is_saved {
            self.persisted_seq = told.seq;
        }
        is_saved
    }
}

impl Active {
    fn engine(
        &mut self,
        event: EngineEvent,
        persisted_seq: &mut u64,
        scribe: &mut dyn Scribe,
    ) -> Option<InputId> {
        let run_id = &self.run.id;
        match event {
            EngineEvent::Began { message, text } => {
                let message_id = message.to_string();
                let user = Happening::MessageUser { message_id: message_id.clone(), content: text };
                scribe.note(Some(run_id), &user);
                let started = Happening::RunStarted { run_id: run_id.clone(), message_id };
                let told = scribe.note(Some(run_id), &started);
                self.run.start(told.time);
            }
            EngineEvent::ToolStarted(tool) => {
                self.run.stats.began(&tool.name);
                let call = ToolCall { call_id: tool.call.to_string(), name: tool.name, args: tool.input };
                scribe.note(Some(run_id), &Happening::ToolStarted(call));
            }
            EngineEvent::ToolFinished(finished) => {
                let event = tool_finished(finished);
                if let Happening::ToolFinished { status: ToolStatus::Error, .. } = &event {
                    self.run.stats.tool_errors += 1;
                }
                scribe.note(Some(run_id), &event);
            }
            EngineEvent::Asked(question) => {
                if self.cancelled.is_some() {
                    return None;
                }
                let input = question.input;
                if let Asked::Now(required) = self.inputs.ask(*question) {
                    scribe.note(Some(run_id), &Happening::InputRequired(required));
                }
                return Some(input);
            }
            EngineEvent::Notice(told) => {
                let level = match told.level.known() {
                    Some(Level::Info) => NoticeLevel::Info,
                    Some(Level::Error) => NoticeLevel::Error,
                    Some(Level::Warning) | None => NoticeLevel::Warning,
                };
                scribe.note(Some(run_id), &notice(level, "engine", told.text));
            }
            EngineEvent::Saved(saved) => {
                let event = Happening::SessionPersisted {
                    revision: saved.revision.clone(),
                    messages: saved.messages,
                    reason: SaveReason::Checkpoint,
                    changed: saved.changed,
                };
                let told = scribe.note(Some(run_id), &event);
                *persisted_seq = told.seq;
                let persisted =
                    Persisted { revision: saved.revision, messages: saved.messages, seq: told.seq };
                self.run.checkpoint(persisted);
            }
            // Live text, thoughts and what people are shown beside them are no events of the contract.
            EngineEvent::Delta { .. }
            | EngineEvent::Thinking(_)
            | EngineEvent::Assistant(_)
            | EngineEvent::Abandoned(_)
            | EngineEvent::Answered(_)
            | EngineEvent::Plan(_)
            | EngineEvent::Usage(_) => {}
        }
        None
    }

    /// Nobody waits for the open input any more.
    fn drop_inputs(&mut self, scribe: &mut dyn Scribe) {
        if let Some(input_id) = self.inputs.drop_all() {
            let event = Happening::InputResolved { input_id, answer: None };
            scribe.note(Some(&self.run.id), &event);
        }
    }
}

/// `busy`.
#[must_use]
pub fn busy(run: &RunId) -> AutomationError {
    AutomationError::new(Code::Busy, format!("the run {run} has not settled: wait for it, or cancel it"))
}

/// `shutting_down`.
#[must_use]
pub fn shutting_down() -> AutomationError {
    AutomationError::new(Code::ShuttingDown, "the server ends and takes no more runs")
}

fn of(run: &Run) -> OfRun {
    OfRun { run: Box::new(run.clone()) }
}

fn notice(level: NoticeLevel, source: &str, message: String) -> Happening {
    Happening::Notice { level, source: source.to_owned(), message }
}

fn persisted(saved: &Saved, reason: SaveReason) -> Happening {
    Happening::SessionPersisted {
        revision: saved.revision.to_string(),
        messages: saved.messages,
        reason,
        changed: saved.changed,
    }
}

fn persisted_of(saved: &Saved, told: Told) -> Persisted {
    Persisted { revision: saved.revision.to_string(), messages: saved.messages, seq: told.seq }
}

/// Whatever kept a session from being saved, its code there is one.
fn not_saved(error: &AutomationError) -> AutomationError {
    AutomationError::new(Code::PersistFailed, error.message.clone())
}

fn tool_finished(finished: Finished) -> Happening {
    let is_ok = finished.result.status.is(&ResultStatus::Ok);
    Happening::ToolFinished {
        call_id: finished.result.call.to_string(),
        name: finished.name,
        status: if is_ok { ToolStatus::Ok } else { ToolStatus::Error },
        error: (!is_ok).then(|| finished.told.clone()),
        result: finished.told,
    }
}
