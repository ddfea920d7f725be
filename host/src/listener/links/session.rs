//! A `session` link: the backlog from the file at the reader's speed, then everything live, and turns for the host (wire §3, §4).

use std::sync::Arc;

use shared::entry::Origin;
use shared::failure::{Failed, Failure, FailureCode, Fault, Refusal, Refused};
use shared::frame::{
    Delta, Frame, HelloSession, ListenerBody, OpenerBody, Submission, Welcome, WelcomeSession,
};
use shared::ids::FrameId;
use shared::kind::Empty;
use shared::limits;
use shared::request::Response;
use tokio::sync::broadcast::error::{RecvError, TryRecvError};
use tokio::sync::{broadcast, mpsc, oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::{Ends, IN_FLIGHT, INBOUND, OUTBOUND, Outgoing, response, retired};
use crate::identity::AuditEvent;
use crate::listener::Station;
use crate::listener::presence::{Told, Turn};
use crate::listener::sessions::{Answer, Joined, Opening, Sender, Session, Since, lines};
use crate::listener::sessions::{Pending, Submitted, await_host, blocking, line_at};
use crate::log::{Cursor, Line, LogError, Select};

/// How much of a log is read at once, in bytes: memory of one link, beside one line.
const READ_BYTES: usize = 256 * 1024;

pub(super) async fn open(
    station: &Arc<Station>,
    session: Arc<Session>,
    sender: Sender,
    hello: &HelloSession,
) -> Result<(Welcome, Ends), Failure> {
    let since = Since { sequence: hello.since, log: hello.log };
    // Watched from before the record is taken, so that nothing falls between the two.
    let feed = Feed {
        heads: session.head.subscribe(),
        people: session.people_changed.subscribe(),
        attached: Attached::new(Arc::clone(&session), sender.origin.clone()),
        station: Arc::clone(station),
        session: Arc::clone(&session),
    };
    let opening = blocking(&session, move |session| session.open(since)).await.map_err(|error| {
        tracing::error!(session = %session.id, %error, "a log cannot be read");
        Failure::new(
            FailureCode::Internal,
            "the log of this session cannot be read; the listener's own log says why",
        )
    })?;
    let Opening { record, log, from, backlog_count, cursor } = opening;
    let through = record.sequence;
    let origin = sender.origin.clone();
    let welcome = WelcomeSession { record, backlog_count, origin, log, from };
    let (inbound, frames) = mpsc::channel(INBOUND);
    let (sending, outbound) = mpsc::channel(OUTBOUND);
    let (done, is_done) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(feed.run(cursor, through, sending.clone(), done));
    let desk = Desk { station: Arc::clone(station), session, sender };
    tasks.spawn(handle(desk, frames, sending, is_done));
    Ok((Welcome::Session(Box::new(welcome)), Ends { inbound, outbound, tasks, last: None }))
}

/// That a device is attached; ends with the link.
struct Attached {
    session: Arc<Session>,
    origin: Origin,
}

impl Attached {
    fn new(session: Arc<Session>, origin: Origin) -> Self {
        session.attach_person(origin.clone());
        Self { session, origin }
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.session.detach_person(self.origin.connection);
    }
}

/// Everything that goes to the client without having been asked for.
struct Feed {
    station: Arc<Station>,
    session: Arc<Session>,
    heads: watch::Receiver<u64>,
    people: watch::Receiver<u64>,
    attached: Attached,
}

/// Why a feed ended.
enum End {
    /// The link is closed.
    Closed,
    /// After `ended`, nothing more is to be sent.
    Ended,
    /// The log cannot be read.
    Log(LogError),
}

impl From<LogError> for End {
    fn from(error: LogError) -> Self {
        Self::Log(error)
    }
}

impl Feed {
    async fn run(
        mut self,
        cursor: Cursor,
        through: u64,
        sending: mpsc::Sender<Outgoing>,
        done: watch::Sender<bool>,
    ) {
        let end = match self.backlog(cursor, through, &sending).await {
            Ok(cursor) => {
                done.send_replace(true);
                match self.join(cursor, &sending).await {
                    Ok((cursor, deltas)) => self.live(cursor, deltas, &sending).await,
                    Err(end) => end,
                }
            }
            Err(end) => end,
        };
        let last = match end {
            End::Closed => return,
            End::Ended => Outgoing::Close,
            End::Log(error) => {
                tracing::error!(session = %self.session.id, %error, "a log cannot be read any further");
                Outgoing::Fail(
                    None,
                    Failure::new(FailureCode::Internal, "the log of this session cannot be read any further"),
                )
            }
        };
        // The link may have closed by itself.
        let _ = sending.send(last).await;
    }

    /// Sends the transcript up to the moment of the record; nothing else comes between.
    async fn backlog(
        &self,
        mut cursor: Cursor,
        through: u64,
        sending: &mpsc::Sender<Outgoing>,
    ) -> Result<Cursor, End> {
        loop {
            let (back, lines) = self.read(cursor, through, Select::Counted).await?;
            cursor = back;
            if lines.is_empty() {
                return Ok(cursor);
            }
            for line in lines {
                self.send_line(&line, sending).await?;
            }
        }
    }

    /// Sends what was told live of messages without an entry, behind the entries before it, so that whoever joins in the middle of an answer
    /// reads it from its beginning.
    async fn join(
        &self,
        mut cursor: Cursor,
        sending: &mpsc::Sender<Outgoing>,
    ) -> Result<(Cursor, broadcast::Receiver<Arc<Delta>>), End> {
        let Joined { follows, told, through } = self.session.join_live();
        while !told.is_empty() && cursor.position() < through {
            cursor = self.send_entries(cursor, through, sending).await?;
        }
        for delta in told {
            self.send(ListenerBody::Delta(delta), sending).await?;
        }
        Ok((cursor, follows))
    }

    /// Sends entries of every kind as they become durable, live text, and who comes and goes.
    async fn live(
        &mut self,
        mut cursor: Cursor,
        mut deltas: broadcast::Receiver<Arc<Delta>>,
        sending: &mpsc::Sender<Outgoing>,
    ) -> End {
        let mut told = Told::new(self.attached.origin.connection);
        loop {
            if self.session.is_removed() {
                // Nobody can tell it more, so it may go as soon as it is written.
                let _ = sending.send(Outgoing::Fail(None, retired())).await;
                return End::Closed;
            }
            // Live text that came before an entry goes out before it: the entry replaces it.
            if let Err(end) = self.send_deltas(&mut deltas, sending).await {
                return end;
            }
            let head = *self.heads.borrow_and_update();
            if cursor.position() < head {
                match self.send_entries(cursor, head, sending).await {
                    Ok(back) => cursor = back,
                    Err(end) => return end,
                }
                continue;
            }
            self.people.borrow_and_update();
            let now = self.station.clock.milliseconds();
            let wake = match self.session.with_people(|people| told.next(people, now)) {
                Turn::Tell(presence) => {
                    if self.send(ListenerBody::Presence(presence), sending).await.is_err() {
                        return End::Closed;
                    }
                    continue;
                }
                Turn::WaitUntil(moment) => Some(moment),
                Turn::Nothing => None,
            };
            let sleep = sleep_until(self.station.clock.instant(wake.unwrap_or(u64::MAX / 2)));
            tokio::select! {
                changed = self.heads.changed() => if changed.is_err() { return End::Closed },
                changed = self.people.changed() => if changed.is_err() { return End::Closed },
                delta = deltas.recv() => match delta {
                    Ok(delta) => {
                        if self.send(ListenerBody::Delta((*delta).clone()), sending).await.is_err() {
                            return End::Closed;
                        }
                    }
                    // A slow link loses live text, which shows by its offset.
                    Err(RecvError::Lagged(_)) => {}
                    Err(RecvError::Closed) => return End::Closed,
                },
                () = sleep, if wake.is_some() => {}
            }
        }
    }

    async fn send_deltas(
        &self,
        deltas: &mut broadcast::Receiver<Arc<Delta>>,
        sending: &mpsc::Sender<Outgoing>,
    ) -> Result<(), End> {
        // No more than wait now, so that a host that floods does not keep entries back.
        for _ in 0..deltas.len() {
            match deltas.try_recv() {
                Ok(delta) => self.send(ListenerBody::Delta((*delta).clone()), sending).await?,
                Err(TryRecvError::Lagged(_)) => {}
                Err(TryRecvError::Empty | TryRecvError::Closed) => break,
            }
        }
        Ok(())
    }

    async fn send_entries(
        &self,
        cursor: Cursor,
        head: u64,
        sending: &mpsc::Sender<Outgoing>,
    ) -> Result<Cursor, End> {
        let (cursor, lines) = self.read(cursor, head, Select::Every).await?;
        for line in lines {
            let is_last = lines::is_ended(&line.text);
            self.send_line(&line, sending).await?;
            if is_last {
                return Err(End::Ended);
            }
        }
        Ok(cursor)
    }

    async fn read(
        &self,
        mut cursor: Cursor,
        through: u64,
        select: Select,
    ) -> Result<(Cursor, Vec<Line>), End> {
        let read = blocking(&self.session, move |_| {
            let lines = cursor.read(through, READ_BYTES, select)?;
            Ok((cursor, lines))
        });
        Ok(read.await?)
    }

    async fn send_line(&self, line: &Line, sending: &mpsc::Sender<Outgoing>) -> Result<(), End> {
        match lines::entry_frame(&line.text, self.station.clock.now().date) {
            Ok(frame) => sending.send(Outgoing::Line(frame)).await.map_err(|_| End::Closed),
            Err(error) => {
                // The look at the line has refused one that does not fit.
                tracing::error!(session = %self.session.id, line = line.number, %error, "an entry does not fit into a frame");
                Ok(())
            }
        }
    }

    async fn send(&self, body: ListenerBody, sending: &mpsc::Sender<Outgoing>) -> Result<(), End> {
        let frame = Frame::new(self.station.clock.now().date, body);
        sending.send(Outgoing::Frame(frame)).await.map_err(|_| End::Closed)
    }
}

/// What the frames of the client need.
struct Desk {
    station: Arc<Station>,
    session: Arc<Session>,
    sender: Sender,
}

/// An answer, and the `settled` entry that goes out once more behind it.
type Done = (FrameId, Answer, Option<String>);

/// Carries out what the client sends: begun in the order in which it came, answered after the backlog.
async fn handle(
    desk: Desk,
    mut frames: mpsc::Receiver<Frame<OpenerBody>>,
    sending: mpsc::Sender<Outgoing>,
    mut is_done: watch::Receiver<bool>,
) {
    let mut running: JoinSet<Done> = JoinSet::new();
    loop {
        let may_answer = *is_done.borrow_and_update();
        tokio::select! {
            frame = frames.recv(), if running.len() < IN_FLIGHT => {
                let Some(frame) = frame else { return };
                desk.begin(frame, &mut running);
            }
            Some(done) = running.join_next(), if may_answer => {
                let Ok((id, answer, settled)) = done else { continue };
                if sending.send(response(&desk.station, id, answer)).await.is_err() {
                    return;
                }
                let again = settled.and_then(|text| lines::entry_frame(&text, desk.station.clock.now().date).ok());
                if let Some(again) = again
                    && sending.send(Outgoing::Line(again)).await.is_err()
                {
                    return;
                }
            }
            changed = is_done.changed(), if !may_answer => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

fn at_once(running: &mut JoinSet<Done>, id: FrameId, response: Response) {
    running.spawn(async move { (id, Box::new(response.into()) as Answer, None) });
}

fn from_host(running: &mut JoinSet<Done>, id: FrameId, answer: oneshot::Receiver<Answer>) {
    running.spawn(async move { (id, await_host(answer).await, None) });
}

impl Desk {
    fn begin(&self, frame: Frame<OpenerBody>, running: &mut JoinSet<Done>) {
        let Frame { id, body, .. } = frame;
        match body {
            OpenerBody::Submission(submission) => self.submit(id, submission, running),
            OpenerBody::Interrupt(interrupt) => {
                match self.station.sessions.interrupt(&self.session, interrupt, &self.sender) {
                    Some(answer) => from_host(running, id, answer),
                    // Where no host lives no turn runs.
                    None => at_once(running, id, Response::Taken(Empty {})),
                }
            }
            OpenerBody::Answer(answer) => self.answer(id, answer, running),
            OpenerBody::Configure(configure) => {
                let body = ListenerBody::Configure(configure);
                match self.station.sessions.forward(&self.session, body, &self.sender) {
                    Some(answer) => from_host(running, id, answer),
                    None => {
                        let detail = "the session does not run; send it a turn first";
                        at_once(running, id, Response::Refused(Refused::with(Refusal::NotOffered, detail)));
                    }
                }
            }
            // The link machine lets none of these through on this kind of link.
            OpenerBody::Hello(_)
            | OpenerBody::Request(_)
            | OpenerBody::Response(_)
            | OpenerBody::Head(_)
            | OpenerBody::Delta(_)
            | OpenerBody::Ping
            | OpenerBody::Pong => at_once(running, id, Response::Failed(Failed::bare(Fault::HostGone))),
        }
    }

    fn submit(&self, id: FrameId, submission: Submission, running: &mut JoinSet<Done>) {
        match self.station.sessions.submit(&self.session, &id, submission, &self.sender) {
            Pending::Host(answer) => from_host(running, id, answer),
            Pending::Now(Submitted { answer, settled }) => {
                let session = Arc::clone(&self.session);
                running.spawn(async move {
                    let again = match settled {
                        Some(sequence) => line_at(&session, sequence).await,
                        None => None,
                    };
                    (id, answer, again)
                });
            }
        }
    }

    fn answer(&self, id: FrameId, answer: shared::request::Answer, running: &mut JoinSet<Done>) {
        if answer.text.as_ref().is_some_and(|text| text.len() > limits::ANSWER_BYTES) {
            let detail = "the text of an answer is at most 16 KiB";
            return at_once(running, id, Response::Refused(Refused::with(Refusal::TooLarge, detail)));
        }
        let (input, digest) = (answer.input, answer.digest.clone());
        let body = ListenerBody::Answer(shared::request::Answer {
            origin: Some(self.sender.origin.clone()),
            ..answer
        });
        let Some(pending) = self.station.sessions.forward(&self.session, body, &self.sender) else {
            return at_once(running, id, Response::Refused(Refused::bare(Refusal::NotPending)));
        };
        let (devices, now) = (Arc::clone(&self.station.devices), self.station.clock.now());
        let (session, device) = (self.session.id, self.sender.origin.device);
        running.spawn(async move {
            let answered = await_host(pending).await;
            if let (Some(Response::Taken(_)), Some(device)) = (answered.known(), device) {
                let event = AuditEvent::Answer { device, session, input, digest };
                // What could not be written is said there.
                let _ = tokio::task::spawn_blocking(move || devices.note(now, &event)).await;
            }
            (id, answered, None)
        });
    }
}
