//! What the page knows, as signals: the one place that joins the links to the store.

mod outbox;
pub(crate) mod session;

use std::collections::{BTreeMap, HashMap};

use futures_channel::oneshot;
use leptos::prelude::*;
use shared::channel::StaticKey;
use shared::failure::FailureCode;
use shared::fingerprint::Fingerprint;
use shared::frame::{
    Frame, Hello, HelloMachine, ListenerBody, Machine as MachineChange, OpenerBody, Welcome,
};
use shared::ids::{FrameId, SessionId};
use shared::kind::Open;
use shared::limits;
use shared::pairing::{OfferedCode, PairingSecret, Pasted, Place as Address};
use shared::record::Record;
use shared::request::{Request, Response};
use wasm_bindgen_futures::spawn_local;

use crate::browser;
use crate::i18n::t;
use crate::link::{Dial, Link, LinkEvent};
use crate::store::{DeviceKey, Machine, Outgoing, Place, Store, StoreError};

pub(crate) use crate::link::Connection;

/// Which page is shown, from the fragment of the address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// The list of sessions.
    Home,
    /// The form that starts a session.
    New,
    /// One session.
    Session(SessionId),
}

impl Route {
    /// The page that a fragment names.
    pub(crate) fn of(fragment: &str) -> Self {
        match fragment {
            "/new" => Self::New,
            other => {
                other.strip_prefix("/s/").and_then(|id| id.parse().ok()).map_or(Self::Home, Self::Session)
            }
        }
    }

    /// The fragment that names this page.
    pub(crate) fn fragment(self) -> String {
        match self {
            Self::Home => "/".to_owned(),
            Self::New => "/new".to_owned(),
            Self::Session(id) => format!("/s/{id}"),
        }
    }

    /// The address of this page in a link.
    pub(crate) fn link(self) -> String {
        format!("#{}", self.fragment())
    }
}

/// How far this browser is with its machine.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Stage {
    /// The store is being read.
    Opening,
    /// The page cannot work as it was opened, with the sentence that says what to do.
    Unusable(&'static str),
    /// What was kept cannot be read; a new key can be made.
    KeyLost,
    /// This browser has to be paired, for that reason.
    Pairing(Option<PairingProblem>),
    /// A pairing is under way.
    PairingNow,
    /// The machine is known.
    Ready,
}

/// Why a pairing did not work, or is needed again.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum PairingProblem {
    /// What was pasted is no pairing URL.
    Unreadable,
    /// The machine rejected the code.
    Rejected,
    /// Another machine answered than the one that made the link.
    OtherMachine,
    /// The machine does not list this device any more.
    NotListed,
    /// The machine could not be reached.
    Unreachable,
    /// The machine refused for another reason, in its words.
    Refused(String),
}

/// Why a request has no answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LinkLost;

/// All signals of the page. It is `Copy`, and lives as long as the page.
#[derive(Clone, Copy)]
pub(crate) struct App {
    /// How far this browser is.
    pub(crate) stage: RwSignal<Stage>,
    /// The page that is shown.
    pub(crate) route: RwSignal<Route>,
    /// Every session, once they came.
    pub(crate) records: RwSignal<BTreeMap<SessionId, Record>>,
    /// Whether the list of sessions came.
    pub(crate) is_listed: RwSignal<bool>,
    /// How the link to the machine stands.
    pub(crate) machine_connection: RwSignal<Connection>,
    /// How the link of the session that is shown stands.
    pub(crate) session_connection: RwSignal<Option<Connection>>,
    /// Turns that are on their way.
    pub(crate) outgoing: RwSignal<Vec<Outgoing>>,
    /// How far each session was read.
    pub(crate) places: RwSignal<BTreeMap<SessionId, Place>>,
    /// What a screen reader says next.
    pub(crate) announcement: RwSignal<String>,
    /// A sentence that stands for a few seconds.
    pub(crate) toast: RwSignal<Option<String>>,
    /// Milliseconds since 1970, renewed each second while the page is seen.
    pub(crate) clock: RwSignal<i64>,
    /// Whether this browser keeps anything beyond this visit.
    pub(crate) is_lasting: RwSignal<bool>,
    /// Whether the browser believes that it has a network.
    pub(crate) is_online: RwSignal<bool>,
    /// Whether the pairing field holds what was in the address.
    pub(crate) is_from_address: RwSignal<bool>,
    /// What stands in the pairing field.
    pub(crate) pairing_text: RwSignal<String>,
    inner: StoredValue<Inner, LocalStorage>,
}

#[derive(Default)]
struct Inner {
    store: Option<Store>,
    key: Option<StaticKey>,
    machine: Option<Machine>,
    link: Option<Link>,
    session: Option<(SessionId, Link)>,
    /// Records of a backlog that has not come to its end.
    backlog: Option<Backlog>,
    requests: HashMap<FrameId, oneshot::Sender<Response>>,
}

/// The list of sessions while it comes.
struct Backlog {
    /// Frames that are still to come.
    left: u64,
    records: BTreeMap<SessionId, Record>,
}

impl App {
    /// The state of a page that was just opened.
    pub(crate) fn new(pairing: Option<String>) -> Self {
        Self {
            stage: RwSignal::new(Stage::Opening),
            route: RwSignal::new(Route::of(&browser::fragment())),
            records: RwSignal::default(),
            is_listed: RwSignal::new(false),
            machine_connection: RwSignal::new(Connection::Connecting),
            session_connection: RwSignal::new(None),
            outgoing: RwSignal::default(),
            places: RwSignal::default(),
            announcement: RwSignal::default(),
            toast: RwSignal::new(None),
            clock: RwSignal::new(browser::now().date.milliseconds()),
            is_lasting: RwSignal::new(true),
            is_online: RwSignal::new(browser::is_online()),
            is_from_address: RwSignal::new(pairing.is_some()),
            pairing_text: RwSignal::new(pairing.unwrap_or_default()),
            inner: StoredValue::new_local(Inner::default()),
        }
    }

    /// Reads the store, then opens the link or asks for a pairing. Called once.
    pub(crate) fn start(self) {
        self.follow_browser();
        if !browser::is_secure() {
            self.stage.set(Stage::Unusable(t().insecure()));
            return;
        }
        spawn_local(async move {
            let store = Store::open().await;
            self.inner.update_value(|inner| inner.store = Some(store.clone()));
            match store.device_key().await {
                Ok(key) => self.take_key(key).await,
                Err(StoreError::Damaged) => self.stage.set(Stage::KeyLost),
                Err(StoreError::Refused | StoreError::Cryptography) => {
                    self.stage.set(Stage::Unusable(t().no_cryptography()));
                }
            }
        });
    }

    /// Makes a new key in place of one that cannot be read.
    pub(crate) fn renew_key(self) {
        spawn_local(async move {
            let Some(store) = self.store() else { return };
            let _ = store.forget_key().await;
            match store.device_key().await {
                Ok(key) => self.take_key(key).await,
                Err(_) => self.stage.set(Stage::Unusable(t().no_cryptography())),
            }
        });
    }

    async fn take_key(self, key: DeviceKey) {
        let Some(store) = self.store() else { return };
        let (key, is_lasting) = match key {
            DeviceKey::Kept(key) => (key, true),
            DeviceKey::Visit(key) => (key, false),
        };
        self.is_lasting.set(is_lasting);
        let machine = store.machine(&browser::origin()).await;
        self.outgoing.set(store.outgoing().await);
        self.places.set(store.places().await.into_iter().collect());
        self.inner.update_value(|inner| {
            inner.key = Some(key);
            inner.machine = machine.clone();
        });
        let is_pairing = self.pairing_text.with_untracked(|text| !text.is_empty());
        match machine {
            Some(machine) if !is_pairing => self.open_machine(machine, None),
            Some(_) | None => self.stage.set(Stage::Pairing(None)),
        }
    }

    fn follow_browser(self) {
        browser::listen(&window(), "hashchange", move |_| {
            // A pairing URL that is opened in a page which is there already only changes the fragment.
            if let Some(secret) = browser::take_pairing() {
                self.pairing_text.set(secret.to_string());
                self.is_from_address.set(true);
                self.close_links();
                self.stage.set(Stage::Pairing(None));
            }
            self.route.set(Route::of(&browser::fragment()));
        });
        browser::listen(&window(), "offline", move |_| self.is_online.set(false));
        browser::on_wake(move || {
            self.is_online.set(browser::is_online());
            self.clock.set(browser::now().date.milliseconds());
            self.with_links(Link::wake);
        });
        set_interval(
            move || {
                if browser::is_visible() {
                    self.clock.set(browser::now().date.milliseconds());
                }
            },
            std::time::Duration::from_secs(1),
        );
    }

    fn store(self) -> Option<Store> {
        self.inner.with_value(|inner| inner.store.clone())
    }

    fn with_links(self, act: impl Fn(&Link)) {
        self.inner.with_value(|inner| {
            inner.link.iter().chain(inner.session.as_ref().map(|(_, link)| link)).for_each(&act);
        });
    }

    fn close_links(self) {
        let old = self.inner.try_update_value(|inner| (inner.link.take(), inner.session.take()));
        drop(old);
        self.lose_requests();
    }

    /// A person asks to connect now.
    pub(crate) fn connect_now(self) {
        self.with_links(Link::try_now);
    }

    /// The link of the session is opened again at once.
    fn connect_session_now(self) {
        self.inner.with_value(|inner| {
            if let Some((_, link)) = &inner.session {
                link.try_now();
            }
        });
    }

    /// The fingerprint of this device's key.
    pub(crate) fn device(self) -> Option<Fingerprint> {
        self.inner.with_value(|inner| inner.key.as_ref().map(StaticKey::fingerprint))
    }

    /// What this device calls itself.
    pub(crate) fn device_name(self) -> String {
        let name =
            self.inner.with_value(|inner| inner.machine.as_ref().map(|machine| machine.device_name.clone()));
        name.unwrap_or_else(browser::device_name)
    }

    /// Whether this browser was paired before.
    pub(crate) fn is_paired(self) -> bool {
        self.inner.with_value(|inner| inner.machine.is_some())
    }

    /// Pairs with what was pasted.
    pub(crate) fn pair(self, text: &str, name: &str) {
        let secret = match text.parse::<Pasted>() {
            Ok(Pasted::Secret(secret)) => secret,
            Ok(Pasted::Url(url)) => PairingSecret { fingerprint: url.endpoint.fingerprint, code: url.code },
            Err(_) => return self.stage.set(Stage::Pairing(Some(PairingProblem::Unreadable))),
        };
        // The listener cleans names by its own rules; here it is only kept short.
        let device_name: String = name.trim().chars().take(limits::NAME_SCALARS).collect();
        let machine = Machine { fingerprint: secret.fingerprint, device_name };
        self.stage.set(Stage::PairingNow);
        self.open_machine(machine, Some(OfferedCode::from(&secret.code)));
    }

    /// Goes back to the sessions without pairing.
    pub(crate) fn give_up_pairing(self) {
        self.forget_pairing_text();
        if let Some(machine) = self.inner.with_value(|inner| inner.machine.clone()) {
            self.open_machine(machine, None);
        }
    }

    /// Asks for a pairing in place of the present one.
    pub(crate) fn pair_again(self) {
        self.close_links();
        self.stage.set(Stage::Pairing(None));
    }

    fn forget_pairing_text(self) {
        self.pairing_text.set(String::new());
        self.is_from_address.set(false);
    }

    /// Opens the link to the machine, with the code of a pairing or as a device that is paired.
    fn open_machine(self, machine: Machine, code: Option<OfferedCode>) {
        let Some(key) = self.inner.with_value(|inner| inner.key.clone()) else { return };
        let Ok(address) = Address::from_origin(&browser::origin()) else {
            return self.stage.set(Stage::Unusable(t().insecure()));
        };
        self.close_links();
        let is_pairing = code.is_some();
        if !is_pairing {
            self.stage.set(Stage::Ready);
        }
        let name = machine.device_name.clone();
        let hello = move || Hello::Machine(HelloMachine { name: name.clone(), code: code.clone() });
        let dial =
            Dial { url: address.link_url(), key, machine: machine.fingerprint, hello: Box::new(hello) };
        let link = if is_pairing {
            Link::open(dial, move |event| self.hear_pairing(event, &machine))
        } else {
            self.inner.update_value(|inner| inner.machine = Some(machine));
            Link::open(dial, move |event| self.hear_machine(event))
        };
        self.inner.update_value(|inner| inner.link = Some(link));
    }

    fn hear_pairing(self, event: LinkEvent, machine: &Machine) {
        let problem = match event {
            LinkEvent::Connection(Connection::Connecting | Connection::Connected)
            | LinkEvent::Frame(_)
            | LinkEvent::Unreadable => return,
            LinkEvent::Welcomed(_) => return self.paired(machine.clone()),
            LinkEvent::Connection(Connection::Waiting { .. }) => PairingProblem::Unreachable,
            LinkEvent::Connection(Connection::OtherMachine) => PairingProblem::OtherMachine,
            LinkEvent::Connection(Connection::Refused(failure)) => match failure.detail.as_str() {
                shared::failure::CODE_REJECTED => PairingProblem::Rejected,
                _ => PairingProblem::Refused(failure.detail),
            },
        };
        self.stage.set(Stage::Pairing(Some(problem)));
        // The link that tells this is inside of its own call; it is closed once that has returned.
        spawn_local(async move { self.close_links() });
    }

    fn paired(self, machine: Machine) {
        self.forget_pairing_text();
        if self.is_paired() {
            // Nothing else on the page tells a person that the link was not needed.
            self.say(t().paired());
        } else {
            self.announcement.set(t().paired().to_owned());
        }
        spawn_local(async move {
            if let Some(store) = self.store() {
                if store.keep_machine(&browser::origin(), &machine).await.is_err() {
                    self.is_lasting.set(false);
                }
                browser::ask_for_lasting_storage().await;
            }
            // The code is spent, so the link is opened again as that of a listed device.
            self.open_machine(machine, None);
        });
    }

    fn hear_machine(self, event: LinkEvent) {
        match event {
            LinkEvent::Connection(connection) => self.machine_stands(connection),
            LinkEvent::Welcomed(welcome) => {
                if let Welcome::Machine { backlog_count } = *welcome {
                    let backlog = Backlog { left: backlog_count, records: BTreeMap::new() };
                    self.inner.update_value(|inner| inner.backlog = Some(backlog));
                    self.end_backlog_when_complete();
                }
            }
            LinkEvent::Frame(frame) => self.hear_machine_frame(*frame),
            LinkEvent::Unreadable => {
                self.inner.update_value(|inner| {
                    if let Some(backlog) = &mut inner.backlog {
                        backlog.left = backlog.left.saturating_sub(1);
                    }
                });
                self.end_backlog_when_complete();
            }
        }
    }

    fn machine_stands(self, connection: Connection) {
        if connection != Connection::Connected {
            self.lose_requests();
        }
        if let Connection::Refused(failure) = &connection
            && failure.code.is(&FailureCode::Unauthorised)
        {
            self.not_listed();
        }
        if self.machine_connection.with_untracked(|old| *old != connection) {
            self.machine_connection.set(connection);
        }
    }

    /// The machine took this device off its list.
    fn not_listed(self) {
        self.stage.set(Stage::Pairing(Some(PairingProblem::NotListed)));
        spawn_local(async move { self.close_links() });
    }

    fn hear_machine_frame(self, frame: Frame<ListenerBody>) {
        match frame.body {
            ListenerBody::Machine(change) => match *change {
                MachineChange::Record(record) => self.hear_record(*record),
                MachineChange::Removed(id) => self.records.update(|records| {
                    records.remove(&id);
                }),
            },
            ListenerBody::Response(response) => {
                let asker = frame
                    .reply_to
                    .and_then(|id| self.inner.try_update_value(|inner| inner.requests.remove(&id)).flatten());
                if let (Some(asker), Open::Known(response)) = (asker, *response) {
                    let _ = asker.send(response);
                }
            }
            ListenerBody::Failure(_)
            | ListenerBody::Welcome(_)
            | ListenerBody::Entry(_)
            | ListenerBody::Presence(_)
            | ListenerBody::Delta(_)
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

    fn hear_record(self, record: Record) {
        let live = self.inner.try_update_value(|inner| match &mut inner.backlog {
            Some(backlog) => {
                backlog.left = backlog.left.saturating_sub(1);
                backlog.records.insert(record.id, record);
                None
            }
            None => Some(record),
        });
        match live.flatten() {
            Some(record) => self.records.update(|records| {
                records.insert(record.id, record);
            }),
            None => self.end_backlog_when_complete(),
        }
    }

    fn end_backlog_when_complete(self) {
        let complete =
            self.inner.try_update_value(|inner| inner.backlog.take_if(|backlog| backlog.left == 0));
        if let Some(Some(backlog)) = complete {
            self.records.set(backlog.records);
            self.is_listed.set(true);
        }
    }

    fn lose_requests(self) {
        self.inner.update_value(|inner| inner.requests.clear());
    }

    /// Asks the machine.
    ///
    /// # Errors
    /// When the link is not open, or is lost before the answer: what was asked may have been done.
    pub(crate) async fn ask(self, request: Request) -> Result<Response, LinkLost> {
        if self.machine_connection.with_untracked(|connection| *connection != Connection::Connected) {
            return Err(LinkLost);
        }
        let (sender, receiver) = oneshot::channel();
        let frame = Frame::new(browser::now().date, OpenerBody::Request(request));
        self.inner.update_value(|inner| {
            inner.requests.insert(frame.id.clone(), sender);
            if let Some(link) = &inner.link {
                link.send(frame);
            }
        });
        receiver.await.map_err(|_| LinkLost)
    }

    /// Goes to a page.
    pub(crate) fn go(self, route: Route) {
        browser::go_to(&route.fragment());
    }

    /// Says a sentence for a few seconds, also to a screen reader.
    pub(crate) fn say(self, sentence: impl Into<String>) {
        let sentence = sentence.into();
        self.announcement.set(sentence.clone());
        self.toast.set(Some(sentence.clone()));
        set_timeout(
            move || {
                if self.toast.with_untracked(|toast| toast.as_deref() == Some(&sentence)) {
                    self.toast.set(None);
                }
            },
            std::time::Duration::from_secs(6),
        );
    }

    /// How many sessions need an answer, without that one.
    pub(crate) fn waiting_but(self, id: Option<SessionId>) -> usize {
        self.records.with(|records| {
            records.values().filter(|record| record.inputs > 0 && Some(record.id) != id).count()
        })
    }

    /// The connection that matters for what is shown.
    pub(crate) fn connection(self) -> Connection {
        match (self.session_connection.get(), self.machine_connection.get()) {
            (Some(Connection::Connected) | None, machine) => machine,
            (Some(session), _) => session,
        }
    }
}
