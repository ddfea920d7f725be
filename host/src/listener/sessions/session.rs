//! One session as the listener knows it: its log folded, its host process, who is attached, what waits for the host.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::entry::{Event, Known, Origin};
use shared::failure::{Failed, Fault};
use shared::fingerprint::Fingerprint;
use shared::fold::{self, Fold};
use shared::frame::{Delta, Frame, ListenerBody};
use shared::ids::{ConnectionId, FrameId, HostId, LogId, SessionId};
use shared::kind::Open;
use shared::record::{Facts, Record};
use shared::request::{Request, Response};
use shared::status::Fate;
use tokio::sync::{broadcast, oneshot, watch};
use tokio::time::{Duration, timeout};

use super::lines;
use super::running::Running;
use crate::home::SessionPaths;
use crate::listener::devices::Standing;
use crate::listener::presence::People;
use crate::log::{self, Cursor, LogError, Mark, Reader, Through};

/// Frames that may wait for one host, from all devices together: beyond them a device is told that the host does not answer.
const WAITING_FOR_HOST: usize = 256;
/// Live texts that wait for one link; a link that is slower loses some, which their entries replace.
const DELTAS: usize = 256;

/// A response of a host, or why there is none.
pub(crate) type Answer = Box<Open<Response>>;

/// One session.
pub(crate) struct Session {
    /// Its id.
    pub id: SessionId,
    /// Its files.
    pub paths: SessionPaths,
    /// What is indexed of the log. Held while the disk works, so only tasks that may block take it, and before `state`.
    log: Mutex<Reader>,
    /// Everything else. Never held while the disk works, so everybody may look.
    state: Mutex<State>,
    /// The last durable sequence that may be shown.
    pub head: watch::Sender<u64>,
    /// Grows whenever somebody attaches or detaches.
    pub people_changed: watch::Sender<u64>,
    /// Grows whenever the host comes or goes.
    pub host_changed: watch::Sender<u64>,
    /// Live text; sent under the lock on the state, where `running` keeps it.
    deltas: broadcast::Sender<Arc<Delta>>,
    /// Grows whenever something waits for the host.
    pub host_work: watch::Sender<u64>,
    /// Grows whenever the record may have changed.
    version: AtomicU64,
    /// Tells all who watch the list of sessions.
    changed: watch::Sender<u64>,
}

struct State {
    fold: Fold,
    slot: Slot,
    /// Grows with every change of the slot, so that what was started for an earlier one knows that it is late.
    generation: u64,
    waiting: VecDeque<Asked>,
    asked: HashMap<FrameId, VecDeque<oneshot::Sender<Answer>>>,
    people: People,
    /// What is being written.
    running: Running,
    has_answered: bool,
    is_removed: bool,
    /// The run that the log told of when a host came that had yet to begin: until it tells of another one, what it says is over.
    stale: Option<Option<HostId>>,
    /// The process of the run that the log tells of.
    began_pid: Option<u32>,
    /// The length of the log when a host was last started to reconcile it, so that one that cannot is not started for ever.
    reconciled_at: Option<u64>,
}

/// Where the host process of a session is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    /// There is none.
    Empty,
    /// It was started and has not opened its link yet.
    Spawned(Purpose),
    /// It lives, as the lock of the log says, and its link is not open.
    Awaited,
    /// Its link is open; whether the prerequisites were told to have answered.
    Attached {
        /// They were.
        is_released: bool,
    },
}

/// Why a host is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    /// Somebody wants the session to run.
    Serve,
    /// The log claims what no longer lives.
    Reconcile,
}

struct Asked {
    frame: Frame<ListenerBody>,
    reply: oneshot::Sender<Answer>,
    /// The device behind it, where it is one that can be revoked.
    standing: Option<Arc<Standing>>,
}

/// What a session link starts with.
pub(crate) struct Opening {
    /// The record at the last entry.
    pub record: Record,
    /// The log.
    pub log: LogId,
    /// Where the backlog begins.
    pub from: u64,
    /// How many transcript entries follow.
    pub backlog_count: u64,
    /// Reads them, and then what follows.
    pub cursor: Cursor,
}

/// Where somebody joins the live text.
pub(crate) struct Joined {
    /// What comes from now on.
    pub follows: broadcast::Receiver<Arc<Delta>>,
    /// What came before, of messages without an entry.
    pub told: Vec<Delta>,
    /// The entries before it: they go out first.
    pub through: u64,
}

/// Why a host may not open its link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Busy;

/// Where a client says that it stands in the log.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Since {
    /// The last sequence that it has.
    pub sequence: u64,
    /// The log in which it counts, where it says so.
    pub log: Option<LogId>,
}

impl Session {
    /// A session whose log is still to be read.
    pub(crate) fn new(facts: Facts, paths: SessionPaths, changed: watch::Sender<u64>) -> Arc<Self> {
        let id = facts.id;
        let reader = Reader::new(&paths.log());
        let state = State {
            fold: Fold::new(facts),
            slot: Slot::Empty,
            generation: 0,
            waiting: VecDeque::new(),
            asked: HashMap::new(),
            people: People::new(),
            running: Running::default(),
            has_answered: false,
            is_removed: false,
            stale: None,
            began_pid: None,
            reconciled_at: None,
        };
        Arc::new(Self {
            id,
            paths,
            log: Mutex::new(reader),
            state: Mutex::new(state),
            head: watch::Sender::new(0),
            people_changed: watch::Sender::new(0),
            host_changed: watch::Sender::new(0),
            deltas: broadcast::Sender::new(DELTAS),
            host_work: watch::Sender::new(0),
            version: AtomicU64::new(1),
            changed,
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn log(&self) -> MutexGuard<'_, Reader> {
        self.log.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Grows whenever the record may have changed.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::SeqCst)
    }

    fn touch(&self) {
        self.version.fetch_add(1, Ordering::SeqCst);
        self.changed.send_modify(|count| *count += 1);
    }

    /// The record now.
    pub(crate) fn record(&self) -> Record {
        self.lock().record()
    }

    /// Whether a submission was answered once, or the work was merged.
    pub(crate) fn has_answered(&self) -> bool {
        self.lock().has_answered
    }

    /// Its name now.
    pub(crate) fn name(&self) -> String {
        self.with_fold(|fold| fold.facts().name.clone())
    }

    /// Whether that is its name now.
    pub(crate) fn is_named(&self, name: &str) -> bool {
        self.with_fold(|fold| fold.facts().name == name)
    }

    /// Has that name from now on; its file says so already.
    pub(crate) fn renamed(&self, name: String) {
        self.lock().fold.rename(name);
        self.touch();
    }

    /// Reads facts that the fold knows.
    pub(crate) fn with_fold<T>(&self, look: impl FnOnce(&Fold) -> T) -> T {
        look(&self.lock().fold)
    }

    /// Folds what the host says is durable. Blocks for the disk.
    pub(crate) fn extend(&self, through: u64) -> Result<(), LogError> {
        self.fold_further(&mut self.log(), Through::Line(through))
    }

    /// Folds all that is there, whoever wrote it, and makes it durable before anybody is shown it. Blocks for the disk.
    pub(crate) fn catch_up(&self) -> Result<(), LogError> {
        let mut log = self.log();
        let durable = log::sync(&self.paths.log())?;
        self.fold_further(&mut log, Through::Byte(durable))
    }

    /// Everything that is read here is durable, so it may be seen at once.
    fn fold_further(&self, log: &mut Reader, through: Through) -> Result<(), LogError> {
        log.extend(through, &mut |number, text| {
            let entry = lines::entry(number, text);
            let mut state = self.lock();
            let Some(entry) = entry else {
                state.fold.skip(number);
                return Mark::Damaged;
            };
            state.has_answered |= is_answer(&entry.event);
            if let Some(pid) = begun(&entry.event) {
                state.began_pid = Some(pid);
            }
            state.running.see(&entry.event);
            state.fold.apply(&entry);
            lines::mark(&entry)
        })?;
        let sequence = {
            let mut state = self.lock();
            // Lines that the log itself could not read were not looked at.
            state.fold.skip(log.lines());
            state.fold.sequence()
        };
        self.publish(sequence);
        Ok(())
    }

    fn publish(&self, sequence: u64) {
        self.head.send_if_modified(|head| {
            let has_grown = *head < sequence;
            *head = sequence.max(*head);
            has_grown
        });
        // What waits for a host may be handed to one only after its `began`.
        self.host_work.send_modify(|count| *count += 1);
        self.touch();
    }

    /// The reader's view of what is damaged.
    pub(crate) fn damage(&self) -> log::Damage {
        self.log().damage()
    }

    /// What a session link starts with; everything of one moment. Blocks for the disk.
    pub(crate) fn open(&self, since: Since) -> Result<Opening, LogError> {
        // While it is held, nothing is folded.
        let reader = self.log();
        let record = self.record();
        let log = record.log;
        let goes_on = since.log.is_none_or(|named| named == log) && since.sequence <= record.sequence;
        let from = if goes_on { since.sequence } else { 0 };
        let backlog_count = reader.counted_after(from);
        let cursor = reader.cursor(from)?;
        Ok(Opening { record, log, from, backlog_count, cursor })
    }

    /// A cursor before one line. Blocks for the disk.
    pub(crate) fn cursor(&self, since: u64) -> Result<Cursor, LogError> {
        self.log().cursor(since)
    }

    /// The host says live text.
    pub(crate) fn told_live(&self, delta: Delta) {
        let mut state = self.lock();
        state.running.push(&delta);
        // Nobody may listen.
        let _ = self.deltas.send(Arc::new(delta));
    }

    /// Joins the live text: what follows, what was told of the messages that have no entry yet, and the last sequence before those.
    pub(crate) fn join_live(&self) -> Joined {
        let state = self.lock();
        let (told, through) = (state.running.told(), state.fold.sequence());
        Joined { follows: self.deltas.subscribe(), told, through }
    }

    /// Somebody opened a link to the session.
    pub(crate) fn attach_person(&self, origin: Origin) {
        self.lock().people.insert(origin.connection, origin);
        self.people_changed.send_modify(|count| *count += 1);
    }

    /// They closed it.
    pub(crate) fn detach_person(&self, connection: ConnectionId) {
        self.lock().people.remove(&connection);
        self.people_changed.send_modify(|count| *count += 1);
    }

    /// Looks at who is attached.
    pub(crate) fn with_people<T>(&self, look: impl FnOnce(&People) -> T) -> T {
        look(&self.lock().people)
    }

    /// Where the host is, and the number of that state.
    pub(crate) fn slot(&self) -> (Slot, u64) {
        let state = self.lock();
        (state.slot, state.generation)
    }

    /// Moves from one state of the slot to another; `None` when something else has happened meanwhile.
    pub(crate) fn move_slot(&self, from: u64, to: Slot) -> Option<u64> {
        let generation = {
            let mut state = self.lock();
            if state.generation != from || (state.is_removed && to != Slot::Empty) {
                return None;
            }
            state.set_slot(to)
        };
        self.host_moved();
        Some(generation)
    }

    fn host_moved(&self) {
        self.host_changed.send_modify(|count| *count += 1);
        self.host_work.send_modify(|count| *count += 1);
        self.touch();
    }

    /// At the listener's start another process has the log: awaits it. When it is not the one whose run the log tells of, that run is over.
    pub(crate) fn await_holder(&self, holder: Option<u32>) {
        let mut state = self.lock();
        if holder.is_some() && holder != state.began_pid {
            state.stale = Some(state.fold.began());
        }
        state.set_slot(Slot::Awaited);
    }

    /// A host opens its link; gives the number of its place.
    pub(crate) fn attach_host(&self, replaces: Option<HostId>) -> Result<u64, Busy> {
        let generation = {
            let mut state = self.lock();
            let is_attached = matches!(state.slot, Slot::Attached { .. });
            let is_replaced = replaces.is_some() && replaces == state.fold.began();
            if state.is_removed || (is_attached && !is_replaced) {
                return Err(Busy);
            }
            // What the old one was asked and did not answer will not be answered.
            state.asked.clear();
            if state.slot != Slot::Awaited {
                state.stale = Some(state.fold.began());
            }
            state.set_slot(Slot::Attached { is_released: false })
        };
        self.host_moved();
        Ok(generation)
    }

    /// A host's link closed; gives whether it still was the one.
    pub(crate) fn detach_host(&self, place: u64) -> Option<u64> {
        {
            let mut state = self.lock();
            if state.generation != place {
                return None;
            }
            state.asked.clear();
        }
        self.move_slot(place, Slot::Awaited)
    }

    /// Marks the attached host as told that the prerequisites have answered; true once.
    pub(crate) fn release(&self) -> bool {
        let mut state = self.lock();
        match &mut state.slot {
            Slot::Attached { is_released } if !*is_released => {
                *is_released = true;
                true
            }
            Slot::Attached { .. } | Slot::Empty | Slot::Spawned(_) | Slot::Awaited => false,
        }
    }

    /// Puts something into the line for the host. The receiver ends without an answer when the host goes before it gave one.
    pub(crate) fn ask(
        &self,
        frame: Frame<ListenerBody>,
        standing: Option<Arc<Standing>>,
    ) -> oneshot::Receiver<Answer> {
        let (reply, answer) = oneshot::channel();
        {
            let mut state = self.lock();
            // What the machine itself says must not be lost to a queue that devices have filled; each of it waits once.
            let is_bounded = !is_of_the_machine(&frame.body);
            let is_stop = matches!(frame.body, ListenerBody::Request(Request::Stop(_)));
            let room = if is_stop { 2 * WAITING_FOR_HOST } else { WAITING_FOR_HOST };
            if !is_bounded
                && let Some(same) = state.waiting.iter_mut().find(|asked| asked.frame.body == frame.body)
            {
                // The one that asked before learns nothing, as if the host had gone.
                same.reply = reply;
                return answer;
            }
            // Under the lock: what a revocation tells the host comes before anything that the device could still add.
            if standing.as_ref().is_some_and(|standing| standing.is_revoked())
                || (is_bounded && state.waiting.len() >= room)
            {
                return answer;
            }
            state.waiting.push_back(Asked { frame, reply, standing });
        }
        self.host_work.send_modify(|count| *count += 1);
        answer
    }

    /// Whether that frame waits for the host or for its answer.
    pub(crate) fn is_asked(&self, id: &FrameId) -> bool {
        let state = self.lock();
        state.asked.contains_key(id) || state.waiting.iter().any(|asked| asked.frame.id == *id)
    }

    /// The next frame for the host with that place.
    pub(crate) fn next_for_host(&self, place: u64) -> Option<Frame<ListenerBody>> {
        let mut state = self.lock();
        // A host that has logged its end takes nothing any more; the next one does.
        if state.generation != place || state.fold.ended().is_some() {
            return None;
        }
        while let Some(Asked { frame, reply, standing }) = state.waiting.pop_front() {
            // Nobody waits for it any more; whoever does sends it again.
            if reply.is_closed() || standing.is_some_and(|standing| standing.is_revoked()) {
                continue;
            }
            state.asked.entry(frame.id.clone()).or_default().push_back(reply);
            return Some(frame);
        }
        None
    }

    /// Waits until a host that was started has opened its link or is gone, for so long at most.
    pub(crate) async fn until_started(&self, purpose: Purpose, generation: u64, patience: Duration) {
        let mut changes = self.host_changed.subscribe();
        let started = async {
            while self.slot() == (Slot::Spawned(purpose), generation) && changes.changed().await.is_ok() {}
        };
        // One that takes longer holds nobody up.
        let _ = timeout(patience, started).await;
    }

    /// Whether the host has logged its end and its process is still there.
    pub(crate) fn is_ending(&self) -> bool {
        let state = self.lock();
        matches!(state.slot, Slot::Attached { .. } | Slot::Awaited) && state.fold.ended().is_some()
    }

    /// Whether the host with that place is still the one.
    pub(crate) fn is_host(&self, place: u64) -> bool {
        self.lock().generation == place
    }

    /// A host answered.
    pub(crate) fn answered(&self, place: u64, reply_to: &FrameId, answer: Answer) {
        let reply = {
            let mut state = self.lock();
            if state.generation != place {
                return;
            }
            let Some(replies) = state.asked.get_mut(reply_to) else { return };
            let reply = replies.pop_front();
            if replies.is_empty() {
                state.asked.remove(reply_to);
            }
            reply
        };
        if let Some(reply) = reply {
            // Whoever asked may be gone.
            let _ = reply.send(answer);
        }
    }

    /// Whether somebody still waits for a host.
    pub(crate) fn is_wanted(&self) -> bool {
        self.lock().waiting.iter().any(|asked| !asked.reply.is_closed())
    }

    /// Tells all who wait for a host that there will be none.
    pub(crate) fn fail_waiting(&self, detail: &str) {
        let waiting = std::mem::take(&mut self.lock().waiting);
        for asked in waiting {
            let failed = Response::Failed(Failed::with(Fault::Spawn, detail));
            // Whoever asked may be gone.
            let _ = asked.reply.send(Box::new(failed.into()));
        }
    }

    /// Whether a host has to be started to say what became of the last one; at most once for a log of that length.
    pub(crate) fn needs_reconciling(&self) -> bool {
        let mut state = self.lock();
        let length = state.fold.sequence();
        if state.is_removed || state.fold.is_reconciled() || state.reconciled_at == Some(length) {
            return false;
        }
        state.reconciled_at = Some(length);
        true
    }

    /// The devices of submissions that have no end yet.
    pub(crate) fn devices_waiting(&self) -> Vec<Fingerprint> {
        let unsettled = self.lock().fold.unsettled();
        let mut devices: Vec<_> =
            unsettled.into_iter().filter_map(|(_, submitted)| submitted.origin.device).collect();
        devices.sort_unstable();
        devices.dedup();
        devices
    }

    /// From now on no host is started; false while one lives.
    pub(crate) fn begin_removal(&self) -> bool {
        let mut state = self.lock();
        if state.slot != Slot::Empty {
            return false;
        }
        state.is_removed = true;
        true
    }

    /// The removal did not succeed.
    pub(crate) fn cancel_removal(&self) {
        self.lock().is_removed = false;
    }

    /// Tells every link of the session that it is gone.
    pub(crate) fn removed(&self) {
        self.people_changed.send_modify(|count| *count += 1);
    }

    /// Whether it was removed.
    pub(crate) fn is_removed(&self) -> bool {
        self.lock().is_removed
    }

    /// Where the host's diagnostics go.
    pub(crate) fn diagnostics(&self) -> PathBuf {
        self.paths.directory().join("host.stderr")
    }
}

impl State {
    fn set_slot(&mut self, slot: Slot) -> u64 {
        self.slot = slot;
        self.generation += 1;
        self.generation
    }

    fn record(&self) -> Record {
        let is_over = self.stale.is_some_and(|stale| stale == self.fold.began());
        let liveness = match self.slot {
            Slot::Attached { .. } | Slot::Awaited if is_over => fold::Liveness::Gone,
            Slot::Attached { .. } | Slot::Awaited => fold::Liveness::Alive,
            Slot::Empty | Slot::Spawned(_) => fold::Liveness::Gone,
        };
        self.fold.record(liveness)
    }
}

/// Whether the machine itself says it to a host, whatever devices ask.
fn is_of_the_machine(body: &ListenerBody) -> bool {
    matches!(body, ListenerBody::Request(Request::Revoke(_) | Request::Release(_)))
}

/// The process of the run that begins with that entry.
fn begun(event: &Event) -> Option<u32> {
    let Event::Known(known) = event else { return None };
    if let Known::Began { began } = &**known { Some(began.pid) } else { None }
}

fn is_answer(event: &Event) -> bool {
    let Event::Known(known) = event else { return false };
    match &**known {
        Known::Settled { settled } => settled.fate.is(&Fate::Answered),
        Known::Merged { .. } => true,
        Known::User(_)
        | Known::Assistant(_)
        | Known::Thinking(_)
        | Known::Tool(_)
        | Known::Result(_)
        | Known::Plan(_)
        | Known::Usage(_)
        | Known::Notice(_)
        | Known::Input(_)
        | Known::Resolved(_)
        | Known::Settings { .. }
        | Known::Status { .. }
        | Known::Gate { .. }
        | Known::Ended { .. }
        | Known::Began { .. } => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// A slow disk keeps the log to itself; nobody who only looks may wait for it.
    #[test]
    fn whoever_looks_at_a_session_does_not_wait_for_its_disk() {
        let scratch = tempfile::tempdir().unwrap();
        let session = session(scratch.path());
        let working = session.log();
        let (looked, has_looked) = std::sync::mpsc::channel();
        let other = Arc::clone(&session);
        std::thread::spawn(move || looked.send((other.record().sequence, other.slot().0)));
        let seen = has_looked.recv_timeout(std::time::Duration::from_secs(30)).unwrap();
        assert_eq!(seen, (0, Slot::Empty));
        drop(working);
    }

    fn session(root: &std::path::Path) -> Arc<Session> {
        let home = crate::home::Home::open(&root.join("home")).unwrap();
        let facts: Facts = serde_json::from_value(json!({
            "id": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "n", "harness": "aura", "working_directory": "/w",
            "created": "2026-01-01T12:00:00.000Z", "log": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfc",
        }))
        .unwrap();
        let paths = home.session(facts.id);
        Session::new(facts, paths, watch::Sender::new(0))
    }

    #[test]
    fn the_process_of_a_run_is_kept_and_a_holder_that_is_another_one_is_no_part_of_it() {
        let scratch = tempfile::tempdir().unwrap();
        let session = session(scratch.path());
        let began = json!({
            "kind": "began", "sequence": 1, "timestamp": "2026-01-01T12:00:00.000Z",
            "began": {"identity": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfd", "pid": 4242, "started": "2026-01-01T12:00:00.000Z", "lifetime": "resident"},
        });
        let idle = json!({
            "kind": "status", "sequence": 2, "timestamp": "2026-01-01T12:00:00.000Z",
            "status": {"queue": [], "last": null, "phase": "idle"},
        });
        crate::files::private_directory(session.paths.directory()).unwrap();
        crate::files::write_private(&session.paths.log(), format!("{began}\n{idle}\n").as_bytes()).unwrap();
        session.catch_up().unwrap();
        session.await_holder(Some(4242));
        assert!(session.record().host.is_some(), "{:?}", session.record());
        session.await_holder(Some(4243));
        assert!(session.record().host.is_none(), "{:?}", session.record());
    }

    #[test]
    fn what_the_machine_says_waits_also_where_devices_have_filled_the_queue_and_once() {
        let scratch = tempfile::tempdir().unwrap();
        let session = session(scratch.path());
        let frame = |request| Frame::new(crate::clock::now(), ListenerBody::Request(request));
        let interrupt = || ListenerBody::Interrupt(shared::frame::Interrupt::default());
        let asked: Vec<_> = (0..=WAITING_FOR_HOST)
            .map(|_| session.ask(Frame::new(crate::clock::now(), interrupt()), None))
            .collect();
        assert_eq!(session.lock().waiting.len(), WAITING_FOR_HOST);
        let release = || Request::Release(shared::kind::Empty {});
        let mut first = session.ask(frame(release()), None);
        let mut second = session.ask(frame(release()), None);
        let mut stop = session.ask(frame(Request::Stop(session.id)), None);
        assert_eq!(session.lock().waiting.len(), WAITING_FOR_HOST + 2);
        assert!(first.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Closed));
        for waiting in [&mut second, &mut stop] {
            assert!(waiting.try_recv().is_err_and(|error| error == oneshot::error::TryRecvError::Empty));
        }
        drop(asked);
    }
}
