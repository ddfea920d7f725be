//! One session that is shown: its record, its transcript as a window of rows, and what is being written.

mod answers;
mod wish;

use std::collections::BTreeMap;
use std::time::Duration;

use leptos::prelude::*;
use shared::entry::{Entry, Event, Known, Origin};
use shared::failure::FailureCode;
use shared::follow::follow;
use shared::frame::{Delta, Frame, Hello, HelloSession, ListenerBody, Presence, Welcome, WelcomeSession};
use shared::ids::{InputId, LogId, SessionId, SubmissionId};
use shared::kind::Open;
use shared::pairing::Place as Address;
use shared::record::Record;
use shared::request::Response;
use shared::status::Phase;
use shared::transcript::{Body, Change, Item, Key, Transcript};
use wasm_bindgen_futures::spawn_local;

use super::{App, Connection};
use crate::browser;
use crate::i18n::t;
use crate::link::{Dial, Link, LinkEvent};
use crate::store::{OutgoingState, Place};
pub(crate) use answers::{AnswerState, Asked};
pub(crate) use wish::Wish;

/// Rows that are shown at first, and that are added when a person asks for earlier ones.
const PAGE: usize = 150;
/// Rows beyond which the earliest leave while the reader follows the end.
const MOST: usize = 450;

/// One item on the screen.
#[derive(Clone)]
pub(crate) struct Row {
    /// The name of the item.
    pub(crate) key: Key,
    /// The item, which may change.
    pub(crate) item: ArcRwSignal<Item>,
}

/// The signals of one session. It lives as long as its page.
#[derive(Clone, Copy)]
pub(crate) struct SessionState {
    /// The session.
    pub(crate) id: SessionId,
    /// Its record, kept current by its entries.
    pub(crate) record: RwSignal<Option<Record>>,
    /// The rows that are shown, without what is being written.
    pub(crate) rows: RwSignal<Vec<Row>>,
    /// What is being written.
    pub(crate) live: RwSignal<Vec<Row>>,
    /// Items before the first row.
    pub(crate) earlier: RwSignal<usize>,
    /// How much of the backlog came, and how much there is, while it comes.
    pub(crate) loading: RwSignal<Option<(u64, u64)>>,
    /// Whether the log is another one than this browser has read before.
    pub(crate) was_restarted: RwSignal<bool>,
    /// Why the session cannot be shown.
    pub(crate) gone: RwSignal<Option<FailureCode>>,
    /// The other devices that look at the session.
    pub(crate) others: RwSignal<Vec<Origin>>,
    /// Whether the reader follows the end.
    pub(crate) is_following: RwSignal<bool>,
    /// The text that is being typed.
    pub(crate) draft: RwSignal<String>,
    /// The questions and approvals that are open, oldest first.
    pub(crate) open: RwSignal<Vec<Asked>>,
    /// How the answers of this page stand.
    pub(crate) answers: RwSignal<BTreeMap<InputId, AnswerState>>,
    /// The choice of settings that is on its way.
    pub(crate) wish: RwSignal<Option<Wish>>,
    /// Whether the open questions stood still long enough that a press means what it points at.
    pub(crate) is_steady: RwSignal<bool>,
    /// Items that came while the reader did not follow.
    pub(crate) unseen: RwSignal<usize>,
    app: App,
    inner: StoredValue<Inner, LocalStorage>,
}

#[derive(Default)]
struct Inner {
    transcript: Transcript,
    /// The place of the first row in the transcript.
    start: usize,
    queue: Vec<Incoming>,
    is_scheduled: bool,
    log: Option<LogId>,
    /// The last sequence that need not come again.
    since: u64,
    /// The sequence of the record of the last `welcome`.
    welcomed: u64,
    is_keeping_place: bool,
    end: End,
}

/// How far the link is with the end of the session's host, after which the machine closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum End {
    /// No end came over this link.
    #[default]
    No,
    /// The end was told; the link closes next.
    Told,
    /// It is being opened again.
    Reopening,
}

enum Incoming {
    Entry(Box<Entry>),
    Delta(Box<Delta>),
    Unreadable,
}

impl SessionState {
    /// Opens the link of a session, which closes with the owner of these signals.
    pub(crate) fn open(app: App, id: SessionId) -> Self {
        let state = Self {
            id,
            record: RwSignal::new(app.records.with_untracked(|records| records.get(&id).cloned())),
            rows: RwSignal::default(),
            live: RwSignal::default(),
            earlier: RwSignal::new(0),
            loading: RwSignal::new(Some((0, 0))),
            was_restarted: RwSignal::new(false),
            gone: RwSignal::new(None),
            others: RwSignal::default(),
            is_following: RwSignal::new(true),
            draft: RwSignal::new(browser::draft(id)),
            open: RwSignal::default(),
            answers: RwSignal::default(),
            wish: RwSignal::new(None),
            is_steady: RwSignal::new(true),
            unseen: RwSignal::new(0),
            app,
            inner: StoredValue::new_local(Inner::default()),
        };
        state.connect();
        on_cleanup(move || {
            let _ = app.inner.try_update_value(|inner| inner.session.take_if(|(open, _)| *open == id));
            app.session_connection.set(None);
        });
        state
    }

    fn connect(self) {
        let app = self.app;
        let Some((key, machine)) =
            app.inner.with_value(|inner| Some((inner.key.clone()?, inner.machine.clone()?)))
        else {
            return;
        };
        let Ok(address) = Address::from_origin(&browser::origin()) else { return };
        let name = machine.device_name;
        let hello = move || {
            let (since, log) =
                self.inner.try_with_value(|inner| (inner.since, inner.log)).unwrap_or_default();
            Hello::Session(HelloSession { name: name.clone(), session: self.id, since, log, code: None })
        };
        app.session_connection.set(Some(Connection::Connecting));
        let dial =
            Dial { url: address.link_url(), key, machine: machine.fingerprint, hello: Box::new(hello) };
        let link = Link::open(dial, move |event| self.hear(event));
        app.inner.update_value(|inner| inner.session = Some((self.id, link)));
    }

    fn hear(self, event: LinkEvent) {
        if self.inner.is_disposed() {
            return;
        }
        match event {
            LinkEvent::Connection(connection) => self.stands(connection),
            LinkEvent::Welcomed(welcome) => {
                if let Welcome::Session(welcome) = *welcome {
                    self.welcomed(*welcome);
                }
            }
            LinkEvent::Frame(frame) => self.hear_frame(*frame),
            LinkEvent::Unreadable => self.incoming(Incoming::Unreadable),
        }
    }

    fn stands(self, connection: Connection) {
        // What came over the link before this is taken before it: an end that waits for the next picture would make the close behind it a loss.
        self.flush();
        match &connection {
            Connection::Refused(failure) => match failure.code {
                Open::Known(FailureCode::Unauthorised) => self.app.not_listed(),
                Open::Known(code @ (FailureCode::NotFound | FailureCode::Retired)) => {
                    self.gone.set(Some(code));
                    // The machine's link says how the machine stands.
                    return self.app.session_connection.set(None);
                }
                Open::Known(
                    FailureCode::BadJson
                    | FailureCode::LineTooLong
                    | FailureCode::Busy
                    | FailureCode::Internal,
                )
                | Open::Unknown(_) => {}
            },
            Connection::Connecting
            | Connection::Connected
            | Connection::Waiting { .. }
            | Connection::OtherMachine => {}
        }
        if self.is_expected(&connection) {
            return;
        }
        if connection != Connection::Connected {
            self.others.set(Vec::new());
            self.lose_answers();
            self.lose_wish();
        }
        self.app.session_connection.set(Some(connection));
    }

    /// Whether a link is only opened again because the machine closes it after an `ended`: that is no trouble that a person should see.
    fn is_expected(self, connection: &Connection) -> bool {
        let before = self.inner.try_with_value(|inner| inner.end).unwrap_or_default();
        let (now, is_expected) = match (before, connection) {
            (End::Told, Connection::Waiting { .. }) => {
                // There is nothing to wait for: the machine is there.
                self.app.connect_session_now();
                (End::Reopening, true)
            }
            (End::Reopening, Connection::Connecting) => (End::Reopening, true),
            (
                End::No | End::Told | End::Reopening,
                Connection::Connecting
                | Connection::Connected
                | Connection::Waiting { .. }
                | Connection::Refused(_)
                | Connection::OtherMachine,
            ) => (End::No, false),
        };
        let _ = self.inner.try_update_value(|inner| inner.end = now);
        is_expected
    }

    fn welcomed(self, welcome: WelcomeSession) {
        let known = self.app.places.with_untracked(|places| places.get(&self.id).copied());
        let (old_log, old_since) = self.inner.with_value(|inner| (inner.log, inner.since));
        let is_other_log = old_log.or(known.map(|place| place.log)).is_some_and(|log| log != welcome.log);
        let starts_again = welcome.from == 0 && old_since > 0;
        if starts_again {
            self.inner.update_value(|inner| {
                inner.transcript = Transcript::new();
                inner.queue.clear();
                inner.start = 0;
            });
            self.rows.set(Vec::new());
            self.show_open();
            self.earlier.set(0);
        }
        if is_other_log || starts_again {
            self.was_restarted.set(true);
            self.app.announcement.set(t().restarted().to_owned());
        }
        self.inner.update_value(|inner| {
            inner.transcript.forget_live();
            inner.log = Some(welcome.log);
            inner.welcomed = welcome.record.sequence;
            if welcome.from == 0 {
                inner.since = 0;
            }
        });
        self.live.set(Vec::new());
        self.gone.set(None);
        self.record.set(Some(welcome.record));
        self.loading.set((welcome.backlog_count > 0).then_some((0, welcome.backlog_count)));
        if welcome.backlog_count == 0 {
            self.backlog_came();
            self.keep_place_soon();
        }
        self.app.send_all_waiting(self.id);
    }

    fn hear_frame(self, frame: Frame<ListenerBody>) {
        match frame.body {
            ListenerBody::Entry(entry) => self.incoming(Incoming::Entry(entry)),
            ListenerBody::Delta(delta) => self.incoming(Incoming::Delta(Box::new(delta))),
            ListenerBody::Response(response) => {
                if let Some(id) = &frame.reply_to
                    && !self.answer_heard(id, &response)
                    && !self.wish_heard(id, &response)
                {
                    self.answered(id, &response);
                }
            }
            ListenerBody::Failure(failure) => {
                if let Some(id) = &frame.reply_to
                    && !self.answer_failed(id, &failure.detail)
                    && !self.wish_failed(id, &failure.detail)
                {
                    self.app.outgoing_not_taken(id, OutgoingState::Failed(failure.detail));
                }
            }
            ListenerBody::Presence(Presence::Attached(origin)) => self.others.update(|others| {
                others.retain(|other| other.connection != origin.connection);
                others.push(origin);
            }),
            ListenerBody::Presence(Presence::Detached(origin)) => {
                self.others.update(|others| others.retain(|other| other.connection != origin.connection));
            }
            ListenerBody::Welcome(_)
            | ListenerBody::Machine(_)
            | ListenerBody::Submission(_)
            | ListenerBody::Interrupt(_)
            | ListenerBody::Answer(_)
            | ListenerBody::Configure(_)
            | ListenerBody::Request(_)
            | ListenerBody::Ping
            | ListenerBody::Pong
            | ListenerBody::Unknown(_) => {}
        }
    }

    fn answered(self, id: &SubmissionId, response: &Open<Response>) {
        let is_turn = self.app.outgoing.with_untracked(|all| all.iter().any(|one| one.id == *id));
        match response {
            Open::Known(Response::Taken(_)) => self.app.outgoing_taken(id),
            Open::Known(Response::Refused(refused)) if is_turn => {
                let sentence = t().refused(refused.word.known().copied(), refused.detail.as_deref());
                self.app.outgoing_not_taken(id, OutgoingState::Refused(sentence));
            }
            Open::Known(Response::Failed(failed)) if is_turn => {
                let sentence = t().failed(failed.word.known().copied(), failed.detail.as_deref());
                self.app.outgoing_not_taken(id, OutgoingState::Failed(sentence));
            }
            Open::Known(Response::Refused(refused)) => {
                self.app.say(t().refused(refused.word.known().copied(), refused.detail.as_deref()));
            }
            Open::Known(Response::Failed(failed)) => {
                self.app.say(t().failed(failed.word.known().copied(), failed.detail.as_deref()));
            }
            Open::Known(
                Response::Started(_)
                | Response::Continued(_)
                | Response::Window(_)
                | Response::Paired(_)
                | Response::Reach(_)
                | Response::Directories(_),
            )
            | Open::Unknown(_) => {}
        }
    }

    /// Takes what came; all that comes before the next picture is shown at once.
    fn incoming(self, incoming: Incoming) {
        let is_first = self.inner.try_update_value(|inner| {
            inner.queue.push(incoming);
            !std::mem::replace(&mut inner.is_scheduled, true)
        });
        if is_first == Some(true) {
            browser::soon(move || self.flush());
        }
    }

    fn flush(self) {
        if self.inner.is_disposed() {
            return;
        }
        let queue = self.inner.try_update_value(|inner| {
            inner.is_scheduled = false;
            std::mem::take(&mut inner.queue)
        });
        let queue = queue.unwrap_or_default();
        if queue.is_empty() {
            return;
        }
        let mut backlog = 0;
        let (mut added, mut changed, mut is_live_changed) = (0, Vec::new(), false);
        for incoming in queue {
            let change = match incoming {
                Incoming::Entry(entry) => {
                    backlog += 1;
                    self.note(&entry);
                    is_live_changed = true;
                    self.inner.try_update_value(|inner| {
                        inner.since = inner.since.max(entry.sequence);
                        inner.transcript.apply(*entry)
                    })
                }
                Incoming::Delta(delta) => {
                    self.inner.try_update_value(|inner| inner.transcript.apply_delta(&delta))
                }
                Incoming::Unreadable => {
                    backlog += 1;
                    None
                }
            };
            match change {
                Some(Change::Added) => added += 1,
                Some(Change::Changed(place)) => changed.push(place),
                Some(Change::Live) => is_live_changed = true,
                Some(Change::Nothing) | None => {}
            }
        }
        if self.is_backlog_coming(backlog) {
            return;
        }
        if !self.is_following.get_untracked() {
            self.unseen.update(|unseen| *unseen += added);
        }
        self.show_changed(&changed);
        self.show_added();
        if is_live_changed {
            self.show_live();
        }
        self.show_open();
        self.keep_place_soon();
    }

    /// Counts what came of the backlog; while it comes nothing is shown but how far it is.
    fn is_backlog_coming(self, came: u64) -> bool {
        let Some((done, count)) = self.loading.get_untracked() else { return false };
        let done = done + came;
        if done < count {
            self.loading.set(Some((done, count)));
            return true;
        }
        self.backlog_came();
        false
    }

    /// From now on a new link need not bring again what lies before the `welcome`.
    fn backlog_came(self) {
        self.inner.update_value(|inner| inner.since = inner.since.max(inner.welcomed));
        self.loading.set(None);
    }

    /// What an entry means beyond the transcript.
    fn note(self, entry: &Entry) {
        let Event::Known(known) = &entry.event else { return };
        if let Known::User(user) = known.as_ref() {
            self.app.outgoing_logged(&user.submission);
        }
        // The backlog tells what was; what came behind it is new, also where both come before one picture.
        if entry.sequence <= self.inner.with_value(|inner| inner.welcomed) {
            return;
        }
        if let Known::Resolved(resolved) = known.as_ref()
            && let Some(origin) = &resolved.origin
            && (origin.device.is_none() || origin.device != self.app.device())
        {
            self.app.say(t().answered_elsewhere(&origin.name));
        }
        self.wish_noted(known);
        if let Known::Ended { .. } = known.as_ref() {
            let _ = self.inner.try_update_value(|inner| inner.end = End::Told);
        }
        if let Known::Assistant(assistant) = known.as_ref() {
            self.app.announcement.set(t().answer_came(&assistant.text));
        }
        let is_newer = self
            .record
            .with_untracked(|record| record.as_ref().is_some_and(|record| entry.sequence > record.sequence));
        if is_newer {
            self.record.update(|record| {
                if let Some(record) = record {
                    follow(record, known, entry.sequence, entry.timestamp);
                }
            });
        }
    }

    fn show_changed(self, changed: &[usize]) {
        self.inner.with_value(|inner| {
            self.rows.with_untracked(|rows| {
                for place in changed {
                    let row = place.checked_sub(inner.start).and_then(|index| rows.get(index));
                    if let (Some(row), Some(item)) = (row, inner.transcript.items().get(*place)) {
                        row.item.set(item.clone());
                    }
                }
            });
        });
    }

    fn show_added(self) {
        let is_following = self.is_following.get_untracked();
        let (count, first) = self.inner.with_value(|inner| (inner.transcript.items().len(), inner.start));
        let shown = self.rows.with_untracked(Vec::len);
        if first + shown == count {
            return;
        }
        let is_long = count - first > MOST;
        // At first, and while the reader follows the end, the window moves; a reader of earlier items keeps them.
        let start = if shown == 0 || (is_following && is_long) {
            count.saturating_sub(PAGE).max(first)
        } else {
            first
        };
        self.inner.update_value(|inner| inner.start = start);
        self.rows.update(|rows| {
            rows.drain(..(start - first).min(rows.len()));
            let from = start + rows.len();
            self.inner.with_value(|inner| rows.extend(inner.transcript.items()[from..].iter().map(Row::new)));
        });
        self.earlier.set(start);
    }

    /// Shows a page of earlier items.
    pub(crate) fn show_earlier(self) {
        let start = self.inner.with_value(|inner| inner.start);
        let from = start.saturating_sub(PAGE);
        self.inner.update_value(|inner| inner.start = from);
        self.rows.update(|rows| {
            self.inner.with_value(|inner| {
                let earlier: Vec<Row> = inner.transcript.items()[from..start].iter().map(Row::new).collect();
                rows.splice(..0, earlier);
            });
        });
        self.earlier.set(from);
    }

    fn show_live(self) {
        let items: Vec<Item> = self.inner.with_value(|inner| inner.transcript.live().cloned().collect());
        let is_same = self.live.with_untracked(|rows| {
            rows.len() == items.len() && rows.iter().zip(&items).all(|(row, item)| row.key == item.key)
        });
        if is_same {
            self.live.with_untracked(|rows| {
                for (row, item) in rows.iter().zip(items) {
                    if row.item.with_untracked(|old| *old != item) {
                        row.item.set(item);
                    }
                }
            });
        } else {
            let old = self.live.get_untracked();
            let rows = items.into_iter().map(|item| match old.iter().find(|row| row.key == item.key) {
                Some(row) => {
                    row.item.set(item);
                    row.clone()
                }
                None => Row::new(&item),
            });
            self.live.set(rows.collect());
        }
    }

    /// The reader scrolled: to the end, or away from it.
    pub(crate) fn follow_end(self, following: Following) {
        let is_following = following == Following::End;
        if self.is_following.get_untracked() != is_following {
            self.is_following.set(is_following);
        }
        if is_following && self.unseen.get_untracked() > 0 {
            self.unseen.set(0);
        }
    }

    /// Keeps how far the session was read, at most every two seconds.
    fn keep_place_soon(self) {
        let place = self.inner.with_value(|inner| inner.log.map(|log| Place { log, sequence: inner.since }));
        let Some(place) = place else { return };
        if self.app.places.with_untracked(|places| places.get(&self.id) == Some(&place))
            || !browser::is_visible()
        {
            return;
        }
        self.app.places.update(|places| {
            places.insert(self.id, place);
        });
        let is_keeping =
            self.inner.try_update_value(|inner| std::mem::replace(&mut inner.is_keeping_place, true));
        if is_keeping == Some(true) {
            return;
        }
        let (app, id) = (self.app, self.id);
        set_timeout(
            move || {
                let _ = self.inner.try_update_value(|inner| inner.is_keeping_place = false);
                let place = app.places.with_untracked(|places| places.get(&id).copied());
                spawn_local(async move {
                    if let (Some(place), Some(store)) = (place, app.store()) {
                        let _ = store.keep_place(id, place).await;
                    }
                });
            },
            Duration::from_secs(2),
        );
    }

    /// The submissions of the turn that runs.
    pub(crate) fn running(self) -> Option<Vec<SubmissionId>> {
        self.record.with(|record| match record.as_ref()?.host.as_ref()?.phase.known()? {
            Phase::Busy { submissions, .. } => Some(submissions.clone()),
            Phase::Starting | Phase::Held | Phase::Idle | Phase::Exiting => None,
        })
    }

    /// Ends the turn that runs.
    pub(crate) fn interrupt(self) {
        let running = untrack(|| self.running());
        self.app.interrupt(self.id, running.and_then(|submissions| submissions.into_iter().next()));
    }

    /// Whether this device sent what the item is about.
    pub(crate) fn is_own(self, item: &Item) -> bool {
        let own = self.app.device();
        match &item.body {
            Body::User { device, .. } | Body::Settled { device, .. } => device.is_some() && *device == own,
            Body::Assistant { .. }
            | Body::Thinking { .. }
            | Body::Tool(_)
            | Body::Plan(_)
            | Body::Usage(_)
            | Body::Notice { .. }
            | Body::Question { .. }
            | Body::Gate(_)
            | Body::Ended(_)
            | Body::Merged
            | Body::Unknown(_) => false,
        }
    }
}

/// Where the reader is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Following {
    /// At the end, where new items come.
    End,
    /// Somewhere before it.
    Elsewhere,
}

impl Row {
    fn new(item: &Item) -> Self {
        Self { key: item.key.clone(), item: ArcRwSignal::new(item.clone()) }
    }
}
