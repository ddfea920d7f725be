//! Starting a session, going on with one, stopping one, and handing a turn to its host (wire §4, §7).

use std::sync::Arc;

use shared::entry::Origin;
use shared::failure::{Failed, Fault, Refusal, Refused};
use shared::fold::{Content, Seen};
use shared::frame::{Frame, Interrupt, ListenerBody, Submission};
use shared::ids::{FrameId, LogId, SessionId, SubmissionId};
use shared::kind::{Empty, Open};
use shared::limits;
use shared::name::SessionName;
use shared::record::Facts;
use shared::request::{Request, Response, Start};
use tokio::sync::oneshot;
use tokio::time::{Duration, sleep, timeout};

use super::directories::{Bounds, working_directory};
use super::hosts::blocking;
use super::naming::Key;
use super::session::Session;
use super::{Answer, Found, Sessions, Slot};
use crate::clock;
use crate::files;
use crate::home::SessionPaths;
use crate::listener::devices::Standing;

/// How long somebody waits for a host: longer than one takes to start on a busy machine, shorter than a person's patience.
const HOST_WITHIN: Duration = Duration::from_secs(30);
/// How long a `stop` waits for the process of the host after it has answered: its agent gets a few seconds to end in order.
const STOPPED_WITHIN: Duration = Duration::from_secs(10);
/// The pause before a host that could not take what the machine says is told again.
const TELL_AGAIN: Duration = Duration::from_millis(500);
/// The pause between two looks at a host that ends: it takes milliseconds.
const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Who sends something to a host.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    /// The connection, its name, its device.
    pub origin: Origin,
    /// Whether its device is still trusted.
    pub standing: Arc<Standing>,
    /// Where it may start sessions.
    pub bounds: Bounds,
}

/// The answer to a submission.
pub(crate) struct Submitted {
    /// What goes out as the response.
    pub answer: Answer,
    /// The sequence of its `settled` entry, which goes out once more.
    pub settled: Option<u64>,
}

/// A submission on its way.
pub(crate) enum Pending {
    /// It was answered from the log.
    Now(Submitted),
    /// The host will answer.
    Host(oneshot::Receiver<Answer>),
}

fn refused(refusal: Refusal) -> Response {
    Response::Refused(Refused::bare(refusal))
}

fn refused_with(refusal: Refusal, detail: impl Into<String>) -> Response {
    Response::Refused(Refused::with(refusal, detail))
}

fn taken() -> Response {
    Response::Taken(Empty {})
}

/// What is wrong with the text of a turn.
fn refuse_text(text: &str) -> Option<Response> {
    if text.len() > limits::TEXT_BYTES {
        return Some(refused_with(Refusal::TooLarge, "a turn is at most 256 KiB of text"));
    }
    text.trim().is_empty().then(|| refused(Refusal::Empty))
}

impl Sessions {
    /// Carries out a `submission`: answers a repetition from the log, hands anything new to the host. What one link submits reaches the host in order.
    pub(crate) fn submit(
        self: &Arc<Self>,
        session: &Arc<Session>,
        id: &SubmissionId,
        submission: Submission,
        sender: &Sender,
    ) -> Pending {
        let at_once =
            |response: Response| Pending::Now(Submitted { answer: Box::new(response.into()), settled: None });
        if let Some(response) = refuse_text(&submission.text) {
            return at_once(response);
        }
        let content = Content::of(&submission.text, submission.budget);
        let seen = session.with_fold(|fold| fold.seen(id, content));
        match seen {
            Seen::Conflict => at_once(refused(Refusal::IdConflict)),
            Seen::Again { settled } => {
                if settled.is_none() {
                    // It waits in a log that nobody runs, if its host died just now.
                    self.want_host(session);
                }
                Pending::Now(Submitted { answer: Box::new(taken().into()), settled })
            }
            Seen::New => {
                let mut frame = Frame::new(
                    clock::now(),
                    ListenerBody::Submission(Submission {
                        origin: Some(sender.origin.clone()),
                        ..submission
                    }),
                );
                frame.id = id.clone();
                let answer = session.ask(frame, Some(Arc::clone(&sender.standing)));
                self.want_host(session);
                Pending::Host(answer)
            }
        }
    }

    /// Ends the running turn; where no host lives none runs.
    pub(crate) fn interrupt(
        &self,
        session: &Arc<Session>,
        interrupt: Interrupt,
        sender: &Sender,
    ) -> Option<oneshot::Receiver<Answer>> {
        let (slot, _) = session.slot();
        if matches!(slot, Slot::Empty | Slot::Spawned(_)) {
            return None;
        }
        let body = ListenerBody::Interrupt(Interrupt { origin: Some(sender.origin.clone()), ..interrupt });
        Some(session.ask(Frame::new(clock::now(), body), Some(Arc::clone(&sender.standing))))
    }

    /// Hands something to a host that lives; `None` where none does.
    pub(crate) fn forward(
        &self,
        session: &Arc<Session>,
        body: ListenerBody,
        sender: &Sender,
    ) -> Option<oneshot::Receiver<Answer>> {
        let (slot, _) = session.slot();
        if matches!(slot, Slot::Empty | Slot::Spawned(_)) {
            return None;
        }
        Some(session.ask(Frame::new(clock::now(), body), Some(Arc::clone(&sender.standing))))
    }

    /// Carries out a `stop` request.
    pub(crate) async fn stop(self: &Arc<Self>, id: SessionId) -> Answer {
        let session = match self.find(id) {
            Found::Session(session) => session,
            Found::Retired => return Box::new(refused(Refusal::Retired).into()),
            Found::Nothing => return Box::new(refused(Refusal::NotFound).into()),
        };
        let (slot, _) = session.slot();
        if slot == Slot::Empty {
            return Box::new(taken().into());
        }
        let frame = Frame::new(clock::now(), ListenerBody::Request(Request::Stop(id)));
        let answer = session.ask(frame, None);
        let answered = await_host(answer).await;
        let mut changes = session.host_changed.subscribe();
        let gone = async {
            while matches!(session.slot().0, Slot::Attached { .. } | Slot::Awaited) {
                if changes.changed().await.is_err() {
                    return;
                }
            }
        };
        if matches!(answered.known(), Some(Response::Taken(_))) {
            // So that its name and folder are free for whoever asks next. One that takes longer was told to end, and ends.
            let _ = timeout(STOPPED_WITHIN, gone).await;
        }
        let (slot, _) = session.slot();
        // A host that went by itself before it answered is stopped as well.
        if slot == Slot::Empty && matches!(answered.known(), Some(Response::Failed(_))) {
            return Box::new(taken().into());
        }
        answered
    }

    /// Carries out a `start` request.
    pub(crate) async fn start(self: &Arc<Self>, frame: FrameId, start: Start, sender: &Sender) -> Answer {
        let (sessions, sender) = (Arc::clone(self), sender.clone());
        // A task of its own: the asker's link may go at any moment, and a session that is half made without an owner of its name would
        // not be found by the same request when it comes again.
        let starting = tokio::spawn(async move {
            match sessions.start_or_why_not(frame, start, &sender).await {
                Ok(answer) | Err(answer) => answer,
            }
        });
        starting.await.unwrap_or_else(|error| Box::new(lost(&error).into()))
    }

    async fn start_or_why_not(
        self: &Arc<Self>,
        frame: FrameId,
        start: Start,
        sender: &Sender,
    ) -> Result<Answer, Answer> {
        let name = SessionName::clean(&start.name)
            .map_err(|error| Box::new(refused_with(Refusal::BadName, error.to_string()).into()))?;
        if let Some(response) = self.refuse_form(&start) {
            return Err(Box::new(response.into()));
        }
        let request = start.request.clone().unwrap_or(frame);
        let first = start.text.clone().map(|text| Submission { text, budget: start.budget, origin: None });
        self.until_ended(|session| session.is_named(name.as_str())).await;
        let (session, is_new, submitted) = {
            // The same request waits for its own outcome, another one does not wait for git.
            let _request = self.naming.own(Key::Request(request.clone())).await;
            let Some(_name) = self.naming.own_soon(Key::Name(name.as_str().to_owned())).await else {
                let detail = "a session of that name is being started or removed right now";
                return Err(Box::new(refused_with(Refusal::NameTaken, detail).into()));
            };
            let (session, is_new) = match self.known(&name, &request)? {
                Some((session, is_new)) => (session, is_new),
                None => {
                    let created = self.create(name, start, &request, sender).await;
                    (created.map_err(|response| Box::new(response.into()))?, true)
                }
            };
            // Its host is wanted before the next one may ask for the name or remove it.
            let submitted = first.map(|first| self.submit(&session, &request, first, sender));
            if submitted.is_none() {
                self.want_host(&session);
            }
            (session, is_new, submitted)
        };
        let answered = match submitted {
            Some(Pending::Now(submitted)) => submitted.answer,
            Some(Pending::Host(answer)) => await_host(answer).await,
            None => self.await_attached(&session).await,
        };
        if !matches!(answered.known(), Some(Response::Taken(_))) {
            return Err(answered);
        }
        let record = Box::new(session.record());
        let response = if is_new { Response::Started(record) } else { Response::Continued(record) };
        Ok(Box::new(response.into()))
    }

    /// What is wrong with the fields, whoever sent them and whatever exists.
    fn refuse_form(&self, start: &Start) -> Option<Response> {
        let too_large = |what: &str| Some(refused_with(Refusal::TooLarge, what));
        if let Some(response) = start.text.as_deref().and_then(refuse_text) {
            return Some(response);
        }
        if start.working_directory.len() > limits::PATH_BYTES {
            return too_large("a path is at most 4096 bytes");
        }
        if start.prerequisites.len() > limits::PREREQUISITES {
            return too_large("a session has at most 32 prerequisites");
        }
        let words = [&start.model, &start.effort, &start.agent];
        if words.into_iter().flatten().any(|word| word.len() > limits::WORD_BYTES) {
            return too_large("the name of a model, effort or agent is at most 256 bytes");
        }
        if !self.terms.harnesses.contains(&start.harness) {
            let known = self.terms.harnesses.join(", ");
            return Some(refused_with(Refusal::UnknownHarness, format!("the harnesses here are {known}")));
        }
        None
    }

    /// The session that this very request has started or continued already, or one of that name that can go on; whether it was new by this request.
    fn known(
        &self,
        name: &SessionName,
        request: &SubmissionId,
    ) -> Result<Option<(Arc<Session>, bool)>, Answer> {
        let sessions = self.all();
        let by_request = sessions
            .iter()
            .find(|session| session.with_fold(|fold| fold.facts().request.as_ref() == Some(request)));
        if let Some(session) = by_request {
            return Ok(Some((Arc::clone(session), true)));
        }
        if self.lock().retired.has_name(name.as_str()) {
            return Err(Box::new(
                refused_with(Refusal::Retired, "a session of that name was removed; take another name")
                    .into(),
            ));
        }
        let Some(session) = sessions.iter().find(|session| session.is_named(name.as_str())) else {
            return Ok(None);
        };
        let (slot, _) = session.slot();
        let is_this_request =
            session.is_asked(request) || session.with_fold(|fold| fold.submission(request).is_some());
        if slot == Slot::Empty || is_this_request {
            Ok(Some((Arc::clone(session), false)))
        } else {
            Err(Box::new(refused_with(Refusal::NameTaken, "a session of that name is running").into()))
        }
    }

    /// Creates a session, durably; only for the owner of the name.
    async fn create(
        self: &Arc<Self>,
        name: SessionName,
        start: Start,
        request: &SubmissionId,
        sender: &Sender,
    ) -> Result<Arc<Session>, Response> {
        for prerequisite in &start.prerequisites {
            match self.find(*prerequisite) {
                Found::Session(_) => {}
                Found::Retired => {
                    let detail = format!("the prerequisite {prerequisite} was removed");
                    return Err(refused_with(Refusal::Retired, detail));
                }
                Found::Nothing => {
                    let detail = format!("there is no session {prerequisite} to wait for");
                    return Err(refused_with(Refusal::NotFound, detail));
                }
            }
        }
        let (sessions, bounds, wanted) = (Arc::clone(self), sender.bounds, start.working_directory.clone());
        let directory =
            tokio::task::spawn_blocking(move || working_directory(&wanted, &sessions.roots(), bounds));
        let directory = directory
            .await
            .map_err(|error| lost(&error))?
            .map_err(|error| refused_with(Refusal::BadDirectory, error.to_string()))?;
        let mut facts = Facts {
            id: SessionId::random(),
            name: name.as_str().to_owned(),
            harness: start.harness,
            working_directory: directory,
            created: clock::now(),
            log: LogId::random(),
            prerequisites: start.prerequisites,
            request: Some(request.clone()),
            model: start.model,
            effort: start.effort,
            agent: start.agent,
            worktree: None,
        };
        if start.worktree == Some(true) {
            self.plan_worktree(&mut facts).await?;
        }
        let sessions = Arc::clone(self);
        let worktree = facts.worktree.clone();
        let paths = self.home.session(facts.id);
        let store = paths.clone();
        let (facts, written) = tokio::task::spawn_blocking(move || {
            let written = write_facts(&facts, &store);
            (facts, written)
        })
        .await
        .map_err(|error| lost(&error))?;
        written.map_err(|detail| Response::Failed(Failed::with(Fault::Storage, detail)))?;
        if let Some(worktree) = worktree
            && let Err(response) = sessions.make_worktree(&worktree).await
        {
            // Nobody has heard of the session yet.
            super::remove::finish(paths.directory());
            return Err(response);
        }
        let session = Session::new(facts, paths, self.changed.clone());
        self.lock().sessions.insert(session.id, Arc::clone(&session));
        self.announce();
        Ok(session)
    }

    /// Waits for the process of a host that has logged its end, so that a session whose record says so is not taken for a running one.
    pub(super) async fn until_ended(&self, is_meant: impl Fn(&Session) -> bool) {
        let Some(session) = self.all().into_iter().find(|session| is_meant(session)) else { return };
        let gone = async {
            while session.is_ending() {
                sleep(LOOK_AGAIN).await;
            }
        };
        // One that does not go is a running one, and the answer says so.
        let _ = timeout(HOST_WITHIN, gone).await;
    }

    /// Waits until the host of a session without a first turn has opened its link.
    async fn await_attached(self: &Arc<Self>, session: &Arc<Session>) -> Answer {
        let mut changes = session.host_changed.subscribe();
        self.want_host(session);
        let attached = async {
            loop {
                changes.borrow_and_update();
                match session.slot().0 {
                    Slot::Attached { .. } => return Ok(()),
                    Slot::Empty => return Err("the session host ended before it was ready"),
                    Slot::Spawned(_) | Slot::Awaited => {}
                }
                if changes.changed().await.is_err() {
                    return Err("the listener ends");
                }
            }
        };
        let outcome = timeout(HOST_WITHIN, attached).await;
        let response = match outcome {
            Ok(Ok(())) => taken(),
            Ok(Err(detail)) => Response::Failed(Failed::with(Fault::Spawn, detail)),
            Err(_) => Response::Failed(Failed::with(Fault::Spawn, "the session host was not ready in time")),
        };
        Box::new(response.into())
    }

    /// Tells the host of every session that a device was revoked.
    pub(crate) fn tell_revoked(&self, device: shared::fingerprint::Fingerprint) {
        for session in self.all() {
            tell_revoked(&session, device);
        }
    }
}

/// Makes the folder and the file of a session that is new.
fn write_facts(facts: &Facts, paths: &SessionPaths) -> Result<(), String> {
    files::private_directory(paths.directory()).map_err(|error| error.to_string())?;
    let content = serde_json::to_vec_pretty(facts).map_err(|error| error.to_string())?;
    files::write_private(&paths.record(), &content).map_err(|error| error.to_string())
}

fn lost(error: &tokio::task::JoinError) -> Response {
    Response::Failed(Failed::with(Fault::Storage, error.to_string()))
}

/// Puts `revoke` into the line for the host, where there is one.
pub(crate) fn tell_revoked(session: &Arc<Session>, device: shared::fingerprint::Fingerprint) {
    let (slot, _) = session.slot();
    if matches!(slot, Slot::Empty | Slot::Spawned(_)) {
        // One that comes later is told what it still has of devices that are not trusted any more.
        return;
    }
    let revoke = shared::request::Revoke { device: shared::request::Device::One(device) };
    tell(session, Request::Revoke(revoke));
}

/// Tells the host what the machine says, again until it has taken it or is gone; the next one is told anew when it comes.
pub(super) fn tell(session: &Arc<Session>, request: Request) {
    let frame = move || Frame::new(clock::now(), ListenerBody::Request(request.clone()));
    let mut answer = session.ask(frame(), None);
    let session = Arc::clone(session);
    tokio::spawn(async move {
        while let Ok(answered) = answer.await {
            if matches!(answered.known(), Some(Response::Taken(_))) {
                return;
            }
            tracing::warn!(session = %session.id, "a session host did not take what the machine says; it is told again");
            sleep(TELL_AGAIN).await;
            if matches!(session.slot().0, Slot::Empty | Slot::Spawned(_)) {
                return;
            }
            answer = session.ask(frame(), None);
        }
    });
}

/// Waits for a host's answer within bounds; the sender sends it again when there is none.
pub(crate) async fn await_host(answer: oneshot::Receiver<Answer>) -> Answer {
    await_within(HOST_WITHIN, answer, "the session host does not answer; send it again").await
}

/// The same with other bounds, and what is said where they are passed.
pub(super) async fn await_within(limit: Duration, answer: oneshot::Receiver<Answer>, late: &str) -> Answer {
    let response = match timeout(limit, answer).await {
        Ok(Ok(answer)) => return answer,
        Ok(Err(_)) => {
            Failed::with(Fault::HostGone, "the session host went away before it answered; send it again")
        }
        Err(_) => Failed::with(Fault::HostGone, late),
    };
    Box::new(Open::Known(Response::Failed(response)))
}

/// The line of one entry, as it goes out once more. Blocks for the disk.
pub(crate) async fn line_at(session: &Arc<Session>, sequence: u64) -> Option<String> {
    let lines = blocking(session, move |session| {
        session.cursor(sequence.saturating_sub(1))?.read(sequence, 1, crate::log::Select::Every)
    });
    lines.await.ok()?.into_iter().find(|line| line.number == sequence).map(|line| line.text)
}
