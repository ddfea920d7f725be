//! A device of a test: its own key, paired over the port like a browser, and links that remember what they saw.

use std::time::Duration;

use host::client::{Address, DialError, Link};
use host::clock;
use shared::channel::StaticKey;
use shared::entry::{Entry, Event, Known};
use shared::failure::Failure;
use shared::frame::{
    Delta, Frame, Hello, HelloHome, HelloMachine, HelloSession, ListenerBody, Machine, OpenerBody, Presence,
    Submission, Welcome, WelcomeSession,
};
use shared::ids::{FrameId, SessionId, SubmissionId};
use shared::kind::{Empty, Open};
use shared::pairing::{Endpoint, OfferedCode, PairingCode, Place};
use shared::record::Record;
use shared::request::{Paired, Request, Response};
use shared::status::Fate;

use crate::home::TestHome;
use crate::wait;

/// A device with its key.
pub struct Device {
    /// Its name for itself.
    pub name: String,
    /// Its key.
    pub key: StaticKey,
    /// Where it dials.
    pub endpoint: Endpoint,
}

impl Device {
    /// A device that nobody knows yet.
    #[must_use]
    pub fn new(name: &str, endpoint: Endpoint) -> Self {
        Self { name: name.to_owned(), key: StaticKey::generate().expect("randomness"), endpoint }
    }

    /// A device that is paired with that machine.
    pub async fn paired(home: &TestHome, name: &str) -> Self {
        let device = Self::new(name, home.endpoint());
        let mut window = Window::open(home).await;
        device.pair(&window.code).await.expect("the device pairs");
        let paired = window.paired().await.expect("the window tells of the device");
        assert_eq!(paired.fingerprint, device.key.fingerprint());
        device
    }

    /// Goes another way to the machine, for example through a proxy.
    #[must_use]
    pub fn through(&self, port: u16) -> Self {
        let place = Place::from_origin(&format!("http://127.0.0.1:{port}")).expect("a place");
        let endpoint = Endpoint { fingerprint: self.endpoint.fingerprint, place };
        Self { name: self.name.clone(), key: self.key.clone(), endpoint }
    }

    /// Opens a link with that `hello`.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub async fn open(&self, hello: Hello) -> Result<(Link, Welcome), DialError> {
        let address = Address::Port(self.endpoint.place.clone());
        Link::open(&address, &self.key, self.endpoint.fingerprint, hello).await
    }

    /// Pairs with a code.
    ///
    /// # Errors
    /// As [`Link::open`].
    pub async fn pair(&self, code: &PairingCode) -> Result<Link, DialError> {
        let code = Some(OfferedCode::from(code));
        Ok(self.open(Hello::Machine(HelloMachine { name: self.name.clone(), code })).await?.0)
    }

    /// Opens a `machine` link; gives the records that it begins with.
    pub async fn machine(&self) -> (Link, Vec<Record>) {
        let hello = Hello::Machine(HelloMachine { name: self.name.clone(), code: None });
        let (mut link, welcome) = self.open(hello).await.expect("a machine link");
        let Welcome::Machine { backlog_count } = welcome else { panic!("another welcome: {welcome:?}") };
        let mut records = Vec::new();
        for _ in 0..backlog_count {
            let frame = wait::within("a record", link.frames.recv()).await.expect("a frame");
            match frame.body {
                ListenerBody::Machine(machine) => match *machine {
                    Machine::Record(record) => records.push(*record),
                    Machine::Removed(id) => panic!("{id} was removed"),
                },
                body => panic!("no record: {body:?}"),
            }
        }
        (link, records)
    }

    /// Opens a `session` link.
    pub async fn session(&self, session: SessionId, since: u64) -> Attached {
        let hello = HelloSession { name: self.name.clone(), session, since, log: None, code: None };
        let (link, welcome) = self.open(Hello::Session(hello)).await.expect("a session link");
        let Welcome::Session(welcome) = welcome else { panic!("another welcome: {welcome:?}") };
        Attached::new(link, *welcome)
    }

    /// Starts a session and gives its record.
    pub async fn start(&self, start: shared::request::Start) -> Record {
        let (mut link, _) = self.machine().await;
        match request(&mut link, Request::Start(Box::new(start))).await {
            Response::Started(record) | Response::Continued(record) => *record,
            response => panic!("not started: {response:?}"),
        }
    }
}

/// Asks over a `machine` or `home` link and gives the answer.
pub async fn request(link: &mut Link, request: Request) -> Response {
    let frame = Frame::new(clock::now(), OpenerBody::Request(request));
    let id = frame.id.clone();
    link.sender.send(frame).await.expect("the link is open");
    answer(link, &id).await
}

/// The next answer to that frame on a `machine` or `home` link.
pub async fn answer(link: &mut Link, id: &FrameId) -> Response {
    loop {
        let frame = wait::within("an answer", link.frames.recv()).await.expect("the link is open");
        if frame.reply_to.as_ref() == Some(id) {
            match frame.body {
                ListenerBody::Response(response) => match *response {
                    Open::Known(response) => return response,
                    Open::Unknown(kind) => panic!("an unknown response: {kind:?}"),
                },
                body => panic!("no response: {body:?}"),
            }
        }
    }
}

/// An open pairing window.
pub struct Window {
    link: Link,
    id: FrameId,
    /// Its code.
    pub code: PairingCode,
}

impl Window {
    /// Opens a window as `aude pair` does.
    pub async fn open(home: &TestHome) -> Self {
        let key = home.machine_key();
        let address = Address::Socket(home.home().listener_socket());
        let (mut link, _) = Link::open(&address, &key, key.fingerprint(), Hello::Home(HelloHome::default()))
            .await
            .expect("a home link");
        let frame = Frame::new(clock::now(), OpenerBody::Request(Request::Pair(Empty {})));
        let id = frame.id.clone();
        link.sender.send(frame).await.expect("the link is open");
        match answer(&mut link, &id).await {
            Response::Window(window) => Self { link, id, code: window.url.code },
            response => panic!("no window: {response:?}"),
        }
    }

    /// Waits for the end of the window: the device, or the response that says why not.
    ///
    /// # Errors
    /// The other response.
    pub async fn paired(&mut self) -> Result<Paired, Response> {
        match answer(&mut self.link, &self.id).await {
            Response::Paired(paired) => Ok(paired),
            response => Err(response),
        }
    }
}

/// A `session` link that remembers what it saw.
pub struct Attached {
    /// The link.
    pub link: Link,
    /// What it was welcomed with.
    pub welcome: WelcomeSession,
    /// The entries in the order in which they came.
    pub seen: Vec<Entry>,
    /// The answers in the order in which they came.
    pub answers: Vec<(FrameId, Open<Response>)>,
    /// Live text, each with the number of entries that were seen before it.
    pub deltas: Vec<(usize, Delta)>,
    /// Who came and went.
    pub presences: Vec<Presence>,
    /// The failures that did not close the link.
    pub failures: Vec<(Option<FrameId>, Failure)>,
}

impl Attached {
    /// A link that has just been opened.
    #[must_use]
    pub fn new(link: Link, welcome: WelcomeSession) -> Self {
        Self {
            link,
            welcome,
            seen: Vec::new(),
            answers: Vec::new(),
            deltas: Vec::new(),
            presences: Vec::new(),
            failures: Vec::new(),
        }
    }

    /// Takes the next frame; `false` when the link is closed.
    pub async fn step(&mut self) -> bool {
        let Some(frame) = wait::within("a frame", self.link.frames.recv()).await else { return false };
        match frame.body {
            ListenerBody::Entry(entry) => self.seen.push(*entry),
            ListenerBody::Response(response) => {
                self.answers.push((frame.reply_to.expect("a response has reply_to"), *response));
            }
            ListenerBody::Delta(delta) => self.deltas.push((self.seen.len(), delta)),
            ListenerBody::Presence(presence) => self.presences.push(presence),
            ListenerBody::Failure(failure) => self.failures.push((frame.reply_to, failure)),
            _ => {}
        }
        true
    }

    /// Waits until an entry fits, also one that was seen already.
    pub async fn entry<T>(&mut self, what: &str, mut fits: impl FnMut(&Known) -> Option<T>) -> T {
        let mut at = 0;
        loop {
            while let Some(entry) = self.seen.get(at) {
                at += 1;
                if let Event::Known(known) = &entry.event
                    && let Some(found) = fits(known)
                {
                    return found;
                }
            }
            assert!(self.step().await, "the link closed before {what} came; seen: {:#?}", self.seen);
        }
    }

    /// Waits for the fate of a submission.
    pub async fn fate(&mut self, submission: &SubmissionId) -> Fate {
        let what = format!("the end of {submission}");
        self.entry(&what, |known| match known {
            Known::Settled { settled } if settled.submission == *submission => settled.fate.known().cloned(),
            _ => None,
        })
        .await
    }

    /// Sends a submission and waits for its answer.
    pub async fn submit(&mut self, id: &SubmissionId, text: &str) -> Response {
        self.send(id, text).await;
        self.answer(id).await
    }

    /// Waits until what was seen so far is enough.
    pub async fn until(&mut self, what: &str, enough: impl Fn(&Self) -> bool) {
        while !enough(self) {
            assert!(self.step().await, "the link closed before {what}; seen: {:#?}", self.seen);
        }
    }

    /// Waits until the listener has closed the link.
    pub async fn end(&mut self) {
        while self.step().await {}
    }

    /// Sends a frame; gives its id.
    pub async fn say(&mut self, body: OpenerBody) -> FrameId {
        let frame = Frame::new(clock::now(), body);
        let id = frame.id.clone();
        self.link.sender.send(frame).await.expect("the link is open");
        id
    }

    /// Sends a frame and waits for its answer.
    pub async fn ask(&mut self, body: OpenerBody) -> Response {
        let id = self.say(body).await;
        self.answer(&id).await
    }

    /// Sends a submission with a budget in seconds and waits for its answer.
    pub async fn submit_within(&mut self, id: &SubmissionId, text: &str, budget: u64) -> Response {
        let submission = Submission { text: text.to_owned(), budget: Some(budget), origin: None };
        let body = OpenerBody::Submission(submission);
        let frame = Frame { id: id.clone(), timestamp: clock::now(), reply_to: None, body };
        self.link.sender.send(frame).await.expect("the link is open");
        self.answer(id).await
    }

    /// Sends a submission.
    pub async fn send(&mut self, id: &SubmissionId, text: &str) {
        let body = OpenerBody::Submission(Submission { text: text.to_owned(), budget: None, origin: None });
        let frame = Frame { id: id.clone(), timestamp: clock::now(), reply_to: None, body };
        self.link.sender.send(frame).await.expect("the link is open");
    }

    /// Waits for the answer to a frame.
    pub async fn answer(&mut self, id: &FrameId) -> Response {
        loop {
            let found = self.answers.iter().position(|(reply_to, _)| reply_to == id);
            if let Some(index) = found {
                match self.answers.remove(index).1 {
                    Open::Known(response) => return response,
                    Open::Unknown(kind) => panic!("an unknown response: {kind:?}"),
                }
            }
            assert!(self.step().await, "the link closed before the answer to {id} came");
        }
    }

    /// Takes everything that comes until nothing has come for a moment; for tests that look for what must not come.
    pub async fn settle(&mut self) {
        while let Ok(Some(frame)) =
            tokio::time::timeout(Duration::from_millis(300), self.link.frames.recv()).await
        {
            if let ListenerBody::Entry(entry) = frame.body {
                self.seen.push(*entry);
            }
        }
    }
}
