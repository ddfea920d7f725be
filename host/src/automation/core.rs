//! The heart of a server: one task that owns the journal, the course of the session and the engine, and everything that is asked of it goes through one
//! channel. Whoever asks gets the answer once all that it tells of is on the disk.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use shared::entry::StepState;
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use super::book::Book;
use super::course::{Answer, Beginning, Course, Decisions, Worked};
use super::error::{AutomationError, Code};
use super::event::{Status, StopReason};
use super::journal::{self, Journal, JournalError, Reader};
use super::live::{Live, Transient};
use super::run::{OnInput, Request, Run, RunId, RunKind};
use super::store::{LiveSession, Saved, Todo, TodoState};
use crate::engine::commands::Command;
use crate::engine::conversation::{Conversation, Message};
use crate::engine::setup::Setup;
use crate::engine::{self, Desk, Engine, EngineEvent, Keeper, Questions, SaveError, Stopper, stop_pair};

mod handle;
mod recorder;

pub use handle::{Handle, Overview, Submitted};
pub use recorder::Recorder;

/// Requests that may wait for the core; beyond, whoever asks waits.
const ASKS: usize = 256;
/// Events of the engine that may wait.
const EVENTS: usize = 256;
/// Live events that a reader may be behind before it misses some.
const TRANSIENTS: usize = 512;
/// How long a run may take to settle once the server is to end.
const SETTLE: Duration = Duration::from_secs(60);

/// What a server serves.
pub struct Parts {
    /// The session, as the engine's keeper sees it.
    pub checkpoints: Arc<Checkpoints>,
    /// The engine on the session's conversation.
    pub engine: Engine,
    /// What the engine was made from.
    pub setup: Setup,
    /// The journal as it was opened.
    pub opened: journal::Opened,
    /// Where it is.
    pub journal_path: PathBuf,
    /// The revision that was resumed; none for a new session.
    pub resumed: Option<String>,
    /// What else is to be told at the beginning: source and text.
    pub notices: Vec<(&'static str, String)>,
    /// Where the transcript is recorded for the operator.
    pub recorder: Option<Recorder>,
}

/// Keeps the engine's conversation in the session: after the tool results of each model call. What comes between is saved with the run.
pub struct Checkpoints {
    session: Arc<LiveSession>,
    seen: Mutex<Option<Conversation>>,
}

impl Checkpoints {
    /// For this session.
    #[must_use]
    pub fn new(session: Arc<LiveSession>) -> Self {
        Self { session, seen: Mutex::default() }
    }

    /// The session.
    #[must_use]
    pub fn session(&self) -> &Arc<LiveSession> {
        &self.session
    }

    /// The conversation as the engine had it at its last step.
    fn seen(&self) -> Option<Conversation> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Keeper for Checkpoints {
    fn save(&self, conversation: &Conversation) -> Result<engine::Saved, SaveError> {
        *self.seen.lock().unwrap_or_else(PoisonError::into_inner) = Some(conversation.clone());
        let has_results = match conversation.messages().last() {
            Some(Message::Assistant { calls, .. }) => !calls.is_empty(),
            Some(Message::User { .. }) | None => false,
        };
        let saved = if has_results {
            self.session.save(conversation).map_err(|error| SaveError(error.message))?
        } else {
            let stored = self.session.summary();
            Saved { revision: stored.revision, messages: stored.messages, changed: false }
        };
        Ok(engine::Saved {
            revision: saved.revision.to_string(),
            messages: saved.messages,
            changed: saved.changed,
        })
    }
}

/// What is asked of the core.
enum Ask {
    Submit { request: Request, reply: oneshot::Sender<Result<Submitted, AutomationError>> },
    OfRequest { request_id: String, reply: oneshot::Sender<Option<Seen>> },
    OfId { id: RunId, reply: oneshot::Sender<Option<Seen>> },
    Cancel { id: RunId, reply: oneshot::Sender<Option<Seen>> },
    Answer { id: RunId, input: String, answer: Answer, reply: oneshot::Sender<Result<(), AutomationError>> },
    Overview { reply: oneshot::Sender<Overview> },
    Stop(StopReason),
}

/// A run as it was seen; it may be shown once the event is durable.
#[derive(Debug, Clone)]
enum Seen {
    /// It has not settled.
    Active(Box<Run>, u64),
    /// The event holds its record.
    Recorded(u64),
}

/// The engine at work.
struct Work {
    events: mpsc::Receiver<EngineEvent>,
    stopper: Stopper,
    done: JoinHandle<Result<(Box<Engine>, Worked), JournalError>>,
    /// What it came to; its last events are taken first.
    finished: Option<(Box<Engine>, Worked)>,
}

/// A save that is under way.
type Saving = JoinHandle<Result<Saved, AutomationError>>;

/// What the core does next.
enum Next {
    Broken(String),
    Ask(Ask),
    Event(EngineEvent),
    Worked(Box<Engine>, Worked),
    Saved(Result<Saved, AutomationError>),
    End,
}

/// How a server ended.
#[derive(Debug, PartialEq, Eq)]
pub enum Ended {
    /// All is saved.
    Saved,
    /// The last save failed; the sentence says why.
    NotSaved(String),
    /// The journal or a part of the server broke; the next server tells what is lost.
    Broken(String),
}

/// The core itself.
struct Core {
    journal: Journal,
    reader: Reader,
    course: Course,
    book: Book,
    /// The run that settled last: it has settled for others once this event is durable.
    settled: Option<(RunId, u64)>,
    /// None while it works.
    engine: Option<Box<Engine>>,
    work: Option<Work>,
    saving: Option<Saving>,
    setup: Arc<Setup>,
    desk: Desk,
    checkpoints: Arc<Checkpoints>,
    live: Live,
    recorder: Option<Recorder>,
    transients: broadcast::Sender<Transient>,
    asks: mpsc::Receiver<Ask>,
    deadline: Option<Instant>,
}

/// Starts the core: its first events are noted, and durable once [`Handle::first`] says so. The second value ends with the server.
#[must_use]
pub fn start(parts: Parts) -> (Handle, JoinHandle<Ended>) {
    let (asks, received) = mpsc::channel(ASKS);
    let (transients, _) = broadcast::channel(TRANSIENTS);
    let (done, is_done) = watch::channel(false);
    let journal::Opened { mut journal, mut book, unsettled, cut } = parts.opened;
    let stored = parts.checkpoints.session().summary();
    let beginning = Beginning {
        pid: std::process::id(),
        resumed: parts.resumed.clone(),
        stored: Saved {
            revision: stored.revision.clone(),
            messages: stored.messages,
            changed: parts.resumed.is_none(),
        },
        cut: (&parts.journal_path, cut),
        notices: parts.notices,
        unsettled,
        status: status_of(&parts.engine, &parts.setup),
    };
    let (course, lost) = Course::begin(stored.id.as_str(), beginning, &mut journal);
    for (run, seq) in &lost {
        book.note(run, *seq);
    }
    let reader = journal.reader();
    let first = journal.next_seq().saturating_sub(1);
    let handle = Handle::new(asks, reader.clone(), transients.clone(), is_done, first);
    let core = Core {
        reader,
        journal,
        course,
        book,
        settled: None,
        desk: parts.engine.desk.clone(),
        engine: Some(Box::new(parts.engine)),
        work: None,
        saving: None,
        setup: Arc::new(parts.setup),
        checkpoints: parts.checkpoints,
        live: Live::default(),
        recorder: parts.recorder,
        transients,
        asks: received,
        deadline: None,
    };
    let task = tokio::spawn(async move {
        let ended = core.run().await;
        done.send_replace(true);
        ended
    });
    (handle, task)
}

impl Core {
    async fn run(mut self) -> Ended {
        loop {
            if let Err(error) = self.journal.flush().await {
                return self.broken(error.to_string());
            }
            match self.next().await {
                Next::Broken(why) => return self.broken(why),
                Next::Ask(ask) => self.take(ask),
                Next::Event(event) => self.event(event),
                Next::Worked(engine, worked) => self.worked(engine, worked),
                Next::Saved(saved) => {
                    if let Some((run, seq)) = self.course.saved(saved, &mut self.journal) {
                        self.book.note(&run, seq);
                        self.settled = Some((run.id, seq));
                    }
                }
                Next::End => return self.end().await,
            }
        }
    }

    async fn next(&mut self) -> Next {
        if self.deadline.is_some() && self.work.is_none() && self.saving.is_none() {
            return Next::End;
        }
        tokio::select! {
            error = self.reader.breaks() => Next::Broken(error.to_string()),
            ask = self.asks.recv() => match ask {
                Some(ask) => Next::Ask(ask),
                // Nobody can ask for anything any more, not even for the end.
                None => Next::End,
            },
            next = next_of_work(&mut self.work) => next,
            next = next_of_save(&mut self.saving) => next,
            () = until(self.deadline) => Next::End,
        }
    }

    fn take(&mut self, ask: Ask) {
        // Whoever asked and is gone needs no answer.
        match ask {
            Ask::Submit { request, reply } => drop(reply.send(self.submit(request))),
            Ask::OfRequest { request_id, reply } => {
                let id = self.book.of_request(&request_id).map(|noted| noted.id.clone());
                drop(reply.send(id.and_then(|id| self.seen(&id))));
            }
            Ask::OfId { id, reply } => drop(reply.send(self.seen(&id))),
            Ask::Cancel { id, reply } => {
                if self.course.active().is_some_and(|run| run.id == id)
                    && self.course.cancel(&mut self.journal)
                {
                    self.note_active();
                    self.stop_work();
                }
                drop(reply.send(self.seen(&id)));
            }
            Ask::Answer { id, input, answer, reply } => self.answer(&id, &input, &answer, reply),
            Ask::Overview { reply } => {
                let overview = Overview {
                    active_run: self.course.active().map(|run| run.id.clone()),
                    is_stopping: self.course.stopping().is_some(),
                    status: self.course.status().clone(),
                    persisted_seq: self.course.persisted_seq(),
                    title: self.checkpoints.session().described().title,
                    stored: self.checkpoints.session().summary(),
                    seq: self.last_noted(),
                };
                drop(reply.send(overview));
            }
            Ask::Stop(reason) => {
                if self.course.stopping().is_none() {
                    self.deadline = Some(Instant::now() + SETTLE);
                }
                if self.course.stop(reason, &mut self.journal) {
                    self.stop_work();
                }
            }
        }
    }

    fn submit(&mut self, request: Request) -> Result<Submitted, AutomationError> {
        let known =
            self.book.of_request(&request.request_id).map(|noted| (noted.id.clone(), noted.digest.clone()));
        if let Some((id, digest)) = known {
            if digest != request.digest() {
                let message = "this request_id was used for something else; a new request needs a new one";
                return Err(AutomationError::new(Code::RequestConflict, message));
            }
            let seen = self.seen(&id).ok_or_else(|| internal("the run is not in the journal"))?;
            return Ok(Submitted { seen, is_replay: true });
        }
        let command = match request.kind {
            RunKind::Prompt => None,
            RunKind::Command => {
                let command = Command::parse(&request.text);
                Some(command.map_err(|none| AutomationError::new(Code::BadRequest, none.to_string()))?)
            }
        };
        if let Some((last, seq)) = &self.settled
            && self.reader.last_seq() < *seq
        {
            return Err(super::course::busy(last));
        }
        let (run, seq) = self.course.submit(&request, &mut self.journal)?;
        self.book.note(&run, seq);
        self.begin(request, command, seq);
        Ok(Submitted { seen: Seen::Active(Box::new(run), seq), is_replay: false })
    }

    /// Lets the engine begin, once the run is durable.
    fn begin(&mut self, request: Request, command: Option<Command>, seq: u64) {
        // The course takes no run while another one has not settled.
        let Some(mut engine) = self.engine.take() else { return };
        engine.questions = match request.on_input {
            OnInput::Block => Questions::Block,
            OnInput::Wait => Questions::Wait,
        };
        if let Some(recorder) = &mut self.recorder {
            recorder.request(&request.text);
        }
        let (events, received) = mpsc::channel(EVENTS);
        let (stopper, stop) = stop_pair();
        let (setup, reader) = (Arc::clone(&self.setup), self.reader.clone());
        let done = tokio::spawn(async move {
            reader.durable(seq).await?;
            let worked = match command {
                None => Worked::Turn(engine.turn(request.text, &events, stop).await),
                Some(command) => Worked::Command(engine.command(command, &setup, &events, stop).await),
            };
            Ok((engine, worked))
        });
        self.work = Some(Work { events: received, stopper, done, finished: None });
    }

    fn stop_work(&self) {
        if let Some(work) = &self.work {
            work.stopper.stop();
        }
    }

    fn answer(
        &mut self,
        id: &RunId,
        input: &str,
        answer: &Answer,
        reply: oneshot::Sender<Result<(), AutomationError>>,
    ) {
        if self.book.of_id(id).is_none() {
            drop(reply.send(Err(no_run())));
            return;
        }
        let asked = self.book.asked(id, input);
        let decisions: Decisions = match self.course.answer(id, input, answer, asked, &mut self.journal) {
            Ok(decisions) => decisions,
            Err(error) => return drop(reply.send(Err(error))),
        };
        let (reader, desk, seq) = (self.reader.clone(), self.desk.clone(), self.last_noted());
        tokio::spawn(async move {
            let told = reader.durable(seq).await.map_err(|error| internal(&error.to_string()));
            if told.is_ok() {
                for (input, decision) in decisions {
                    desk.decide(input, decision);
                }
            }
            let _ = reply.send(told);
        });
    }

    fn event(&mut self, event: EngineEvent) {
        for transient in self.live.of(&event) {
            // Nobody may be listening.
            let _ = self.transients.send(transient);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.take(&event);
        }
        if let EngineEvent::Plan(plan) = &event {
            let todos = plan.steps.iter().map(todo).collect();
            self.checkpoints.session().describe(|described| described.todos = todos);
        }
        let asked = self.course.engine(event, &mut self.journal);
        if let (Some(input), Some(run)) = (asked, self.course.active()) {
            self.book.note_input(input.to_string(), run.id.clone());
        }
    }

    fn worked(&mut self, engine: Box<Engine>, worked: Worked) {
        self.course.configure(status_of(&engine, &self.setup), &mut self.journal);
        self.course.worked(worked, &mut self.journal);
        self.note_active();
        let (session, conversation) = (Arc::clone(self.checkpoints.session()), engine.conversation.clone());
        self.saving = Some(tokio::task::spawn_blocking(move || session.save(&conversation)));
        self.engine = Some(engine);
    }

    /// The last save, and the last event.
    async fn end(mut self) -> Ended {
        let conversation = match &self.engine {
            Some(engine) => Some(engine.conversation.clone()),
            // It did not settle in time: what it had at its last step is kept.
            None => self.checkpoints.seen(),
        };
        let session = Arc::clone(self.checkpoints.session());
        let save = move || match conversation {
            Some(conversation) => session.save(&conversation),
            None => {
                let stored = session.summary();
                Ok(Saved { revision: stored.revision, messages: stored.messages, changed: false })
            }
        };
        let Ok(saved) = tokio::task::spawn_blocking(save).await else {
            return Ended::Broken("the session could not be saved: the save itself died".to_owned());
        };
        let trouble = saved.as_ref().err().map(|error| error.message.clone());
        self.course.end(saved, &mut self.journal);
        let told = match self.journal.flush().await {
            Ok(()) => self.reader.durable(self.last_noted()).await,
            Err(error) => Err(error),
        };
        match (told, trouble) {
            (Err(error), _) => self.broken(error.to_string()),
            (Ok(()), Some(trouble)) => Ended::NotSaved(trouble),
            (Ok(()), None) => Ended::Saved,
        }
    }

    fn broken(&self, why: String) -> Ended {
        self.stop_work();
        Ended::Broken(why)
    }

    fn seen(&self, id: &RunId) -> Option<Seen> {
        match self.course.active() {
            Some(run) if run.id == *id => Some(Seen::Active(Box::new(run.clone()), self.last_noted())),
            Some(_) | None => self.book.of_id(id).map(|noted| Seen::Recorded(noted.seq)),
        }
    }

    fn note_active(&mut self) {
        let seq = self.last_noted();
        if let Some(run) = self.course.active() {
            self.book.note(run, seq);
        }
    }

    fn last_noted(&self) -> u64 {
        self.journal.next_seq().saturating_sub(1)
    }
}

/// What the engine's work brings next; nothing while it does not work. What is not taken, because something else came first, comes the next time.
async fn next_of_work(work: &mut Option<Work>) -> Next {
    let Some(at_work) = work else { return std::future::pending().await };
    if at_work.finished.is_none() {
        tokio::select! {
            biased;
            Some(event) = at_work.events.recv() => return Next::Event(event),
            done = &mut at_work.done => match done {
                Ok(Ok(finished)) => at_work.finished = Some(finished),
                Ok(Err(broken)) => return Next::Broken(broken.to_string()),
                Err(_) => return Next::Broken("the engine died; the next server tells what is lost".to_owned()),
            },
        }
    }
    // All that it told is there by now; a tool that was left behind tells nobody any more.
    if let Ok(event) = at_work.events.try_recv() {
        return Next::Event(event);
    }
    match work.take().and_then(|done| done.finished) {
        Some((engine, worked)) => Next::Worked(engine, worked),
        None => std::future::pending().await,
    }
}

/// What the save came to; nothing while there is none.
async fn next_of_save(saving: &mut Option<Saving>) -> Next {
    let Some(under_way) = saving else { return std::future::pending().await };
    let saved = under_way.await;
    *saving = None;
    match saved {
        Ok(saved) => Next::Saved(saved),
        Err(_) => Next::Broken("a save died; the next server tells what is lost".to_owned()),
    }
}

async fn until(deadline: Option<Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// How the engine is set.
fn status_of(engine: &Engine, setup: &Setup) -> Status {
    Status {
        agent: engine.agent.clone(),
        mode: Some(engine.mode().to_owned()),
        provider: Some(setup.provider_name.clone()),
        model: Some(engine.model.clone()),
        iteration: 0,
        tokens_used: None,
        tokens_max: engine.context_tokens(),
    }
}

fn todo(step: &shared::entry::Step) -> Todo {
    let state = match step.state.known() {
        Some(StepState::Active) => TodoState::Active,
        Some(StepState::Done) => TodoState::Done,
        Some(StepState::Pending) | None => TodoState::Pending,
    };
    Todo { text: step.text.clone(), state }
}

fn internal(message: &str) -> AutomationError {
    AutomationError::new(Code::Internal, message)
}

/// `not_found` for a run.
fn no_run() -> AutomationError {
    AutomationError::new(Code::NotFound, "this session has no such run")
}
