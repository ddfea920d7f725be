//! A machine with a listener in this process, its devices, hosts that do what a test says, and a client that breaks rules.

use std::collections::VecDeque;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use host::client::{Address, Closed, DialError, Link};
use host::clock;
use host::config::Config;
use host::files;
use host::home::Home;
use host::listener::{Listener, Options};
use host::log::{Liveness, Mark, Writer};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use shared::channel::{Channel, Initiator, Pin, Prologue, StaticKey};
use shared::failure::Failure;
use shared::fingerprint::Fingerprint;
use shared::frame::{
    Frame, Head, Hello, HelloHome, HelloHost, HelloMachine, HelloSession, ListenerBody,
    Machine as MachineFrame, OpenerBody, Submission, Welcome, WelcomeSession,
};
use shared::ids::{FrameId, HostId, LogId, SessionId, SubmissionId};
use shared::kind::{Empty, Open};
use shared::line::EncodedLine;
use shared::pairing::{OfferedCode, PairingCode};
use shared::record::Record;
use shared::request::{Request, Response, Start, Window};
use tokio::net::TcpStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::{WebSocketStream, client_async};

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// Steps of the built-in agent.
const SCRIPT: &str = r#"
[[step]]
match = "slow*"
text = "Word by word by word by word by word by word by word by word by word by word by word by word by word."
chunk = 1
chunk_delay = 500

[[step]]
times = "always"
text = "An answer."
"#;

/// Waits for something that must come.
pub(crate) async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.unwrap_or_else(|_| panic!("never came: {what}"))
}

/// Looks until something holds.
pub(crate) async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "never held: {what}");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

/// What the listener says, for a test that failed; `RUST_LOG` chooses.
fn trace() {
    let filter = tracing_subscriber::EnvFilter::from_default_env();
    // Only the first test of the process sets it.
    let _ = tracing_subscriber::fmt().with_env_filter(filter).with_test_writer().try_init();
}

pub(crate) struct Machine {
    pub scratch: tempfile::TempDir,
    pub home: Home,
    pub listener: Option<Listener>,
    pub config: Config,
    pub program: PathBuf,
}

impl Drop for Machine {
    /// Hosts outlive their listener by design; they must not outlive a test that failed.
    fn drop(&mut self) {
        for session in std::fs::read_dir(self.home.sessions()).into_iter().flatten().flatten() {
            let held = host::log::locked(&session.path().join("log.jsonl"));
            if let Ok(Liveness::Live { holder: Some(holder) }) = held
                && holder != std::process::id()
            {
                // It may have ended by itself.
                let _ = kill(Pid::from_raw(holder.cast_signed()), Signal::SIGKILL);
            }
        }
    }
}

impl Machine {
    pub(crate) async fn start() -> Self {
        let mut machine = Self::prepare();
        machine.listen().await;
        machine
    }

    /// A home with work folders and no listener yet.
    pub(crate) fn prepare() -> Self {
        trace();
        let scratch = tempfile::Builder::new().prefix("aude 🦀 ").tempdir().unwrap();
        let home = Home::open(&scratch.path().join("home")).unwrap();
        let script = home.root().join("script.toml");
        files::write_private(&script, SCRIPT.as_bytes()).unwrap();
        let toml = format!("port = 0\n[aura]\nscript = {:?}\n", script.to_str().unwrap());
        files::write_private(&home.configuration(), toml.as_bytes()).unwrap();
        let work = scratch.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let mut config = Config::read(&home.configuration()).unwrap();
        config.start.roots = vec![work];
        Self { scratch, home, listener: None, config, program: env!("CARGO_BIN_EXE_aude").into() }
    }

    pub(crate) fn options(&self) -> Options {
        Options { harnesses: vec!["aura".to_owned()], host_program: Some(self.program.clone()) }
    }

    pub(crate) async fn listen(&mut self) {
        let listener = Listener::start(self.home.clone(), self.config.clone(), self.options()).await;
        self.listener = Some(listener.unwrap());
    }

    pub(crate) async fn stop_listening(&mut self) {
        self.listener.take().unwrap().stop().await;
    }

    pub(crate) fn work(&self) -> String {
        self.scratch.path().join("work").canonicalize().unwrap().to_str().unwrap().to_owned()
    }

    pub(crate) fn port(&self) -> u16 {
        self.listener.as_ref().unwrap().port()
    }

    pub(crate) fn fingerprint(&self) -> Fingerprint {
        self.key().fingerprint()
    }

    pub(crate) fn key(&self) -> StaticKey {
        host::identity::machine_key(&self.home).unwrap()
    }

    pub(crate) fn socket(&self) -> Address {
        Address::Socket(self.home.listener_socket())
    }

    pub(crate) fn port_address(&self) -> Address {
        let origin = format!("http://127.0.0.1:{}", self.port());
        Address::Port(shared::pairing::Place::from_origin(&origin).unwrap())
    }

    /// A link of the machine's own user.
    pub(crate) async fn own(&self, hello: Hello) -> Result<(Wired, Welcome), DialError> {
        let key = self.key();
        let (link, welcome) = Link::open(&self.socket(), &key, key.fingerprint(), hello).await?;
        Ok((Wired(link, VecDeque::new()), welcome))
    }

    pub(crate) async fn own_home(&self) -> Wired {
        self.own(Hello::Home(HelloHome::default())).await.unwrap().0
    }

    pub(crate) async fn own_machine(&self) -> Wired {
        self.own(machine_hello("terminal", None)).await.unwrap().0
    }

    pub(crate) async fn own_session(&self, session: SessionId, since: u64) -> (Wired, WelcomeSession) {
        session_of(self.own(session_hello(session, since)).await.unwrap())
    }

    /// A link of a device on the port.
    pub(crate) async fn device(&self, key: &StaticKey, hello: Hello) -> Result<(Wired, Welcome), DialError> {
        let (link, welcome) = Link::open(&self.port_address(), key, self.fingerprint(), hello).await?;
        Ok((Wired(link, VecDeque::new()), welcome))
    }

    /// A device that was paired just now.
    pub(crate) async fn paired(&self, name: &str) -> StaticKey {
        let mut home = self.own_home().await;
        let (_, window) = home.window().await;
        let key = StaticKey::generate().unwrap();
        self.device(&key, machine_hello(name, Some(&window.url.code))).await.unwrap();
        key
    }

    /// Writes a session as an earlier listener and host would have left it.
    pub(crate) fn write_session(&self, name: &str, lines: &[String]) -> SessionId {
        let session = SessionId::random();
        let paths = self.home.session(session);
        files::private_directory(paths.directory()).unwrap();
        let facts = json!({
            "id": session, "name": name, "harness": "aura", "working_directory": self.work(),
            "created": "2026-01-01T12:00:00.000Z", "log": LogId::random(),
        });
        files::write_private(&paths.record(), facts.to_string().as_bytes()).unwrap();
        if !lines.is_empty() {
            let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
            files::write_private(&paths.log(), text.as_bytes()).unwrap();
        }
        session
    }
}

/// A `start` with a text, in the work folder.
pub(crate) fn start(machine: &Machine, name: &str, text: Option<&str>) -> Start {
    Start {
        name: name.to_owned(),
        harness: "aura".to_owned(),
        working_directory: machine.work(),
        text: text.map(str::to_owned),
        ..Start::default()
    }
}

pub(crate) fn machine_hello(name: &str, code: Option<&PairingCode>) -> Hello {
    Hello::Machine(HelloMachine { name: name.to_owned(), code: code.map(OfferedCode::from) })
}

pub(crate) fn wrong_code() -> Hello {
    machine_hello("stranger", Some(&PairingCode::random().unwrap()))
}

pub(crate) fn session_hello(session: SessionId, since: u64) -> Hello {
    Hello::Session(HelloSession { name: "terminal".to_owned(), session, since, log: None, code: None })
}

pub(crate) fn host_hello(session: SessionId, replaces: Option<HostId>) -> Hello {
    Hello::Host(HelloHost { session, replaces, code: None })
}

pub(crate) fn session_of((link, welcome): (Wired, Welcome)) -> (Wired, WelcomeSession) {
    match welcome {
        Welcome::Session(welcome) => (link, *welcome),
        other => panic!("{other:?}"),
    }
}

/// The failure with which a link was refused.
pub(crate) fn refusal(outcome: Result<(Wired, Welcome), DialError>) -> (String, String) {
    match outcome {
        Err(DialError::Refused(Failure { code, detail, is_fatal: true })) => (code.word(), detail),
        Err(other) => panic!("{other:?}"),
        Ok(_) => panic!("the link was opened"),
    }
}

/// A link with what tests do over it.
#[derive(Debug)]
pub(crate) struct Wired(pub Link, pub VecDeque<Frame<ListenerBody>>);

impl Wired {
    pub(crate) async fn send(&self, body: OpenerBody) -> FrameId {
        let frame = Frame::new(clock::now(), body);
        let id = frame.id.clone();
        self.0.sender.send(frame).await.unwrap();
        id
    }

    pub(crate) async fn send_as(&self, id: &str, body: OpenerBody) -> FrameId {
        let id: FrameId = id.parse().unwrap();
        let frame = Frame { id: id.clone(), timestamp: clock::now(), reply_to: None, body };
        self.0.sender.send(frame).await.unwrap();
        id
    }

    pub(crate) async fn next(&mut self) -> Frame<ListenerBody> {
        if let Some(passed_over) = self.1.pop_front() {
            return passed_over;
        }
        within("a frame", self.0.frames.recv()).await.expect("the link is closed")
    }

    /// The frames until one of them is what is wanted.
    pub(crate) async fn find<T>(&mut self, mut wanted: impl FnMut(&Frame<ListenerBody>) -> Option<T>) -> T {
        loop {
            let frame = self.next().await;
            if let Some(found) = wanted(&frame) {
                return found;
            }
        }
    }

    /// The next answer to a frame; what comes before it is kept for [`Self::next`].
    pub(crate) async fn answer(&mut self, id: &FrameId) -> Response {
        let mut passed_over = std::mem::take(&mut self.1);
        loop {
            let is_answer = |frame: &Frame<ListenerBody>| {
                frame.reply_to.as_ref() == Some(id) && matches!(frame.body, ListenerBody::Response(_))
            };
            if let Some(place) = passed_over.iter().position(is_answer) {
                let frame = passed_over.remove(place).unwrap();
                self.1 = passed_over;
                let ListenerBody::Response(response) = frame.body else { unreachable!() };
                return response.known().expect("a known response").clone();
            }
            passed_over.push_back(self.next().await);
        }
    }

    pub(crate) async fn request(&mut self, request: Request) -> Response {
        let id = self.send(OpenerBody::Request(request)).await;
        self.answer(&id).await
    }

    pub(crate) async fn submit(&mut self, id: &str, text: &str) -> Response {
        let body = OpenerBody::Submission(Submission { text: text.to_owned(), budget: None, origin: None });
        let id = self.send_as(id, body).await;
        self.answer(&id).await
    }

    /// Opens a pairing window; gives the id of the request, to which its end will reply.
    pub(crate) async fn window(&mut self) -> (FrameId, Window) {
        let id = self.send(OpenerBody::Request(Request::Pair(Empty {}))).await;
        match self.answer(&id).await {
            Response::Window(window) => (id, window),
            other => panic!("{other:?}"),
        }
    }

    /// The next entry as JSON.
    pub(crate) async fn entry(&mut self) -> Value {
        self.find(|frame| match &frame.body {
            ListenerBody::Entry(entry) => Some(serde_json::to_value(entry).unwrap()),
            _ => None,
        })
        .await
    }

    /// The next record of a session that satisfies a condition.
    pub(crate) async fn record(&mut self, session: SessionId, holds: impl Fn(&Record) -> bool) -> Record {
        self.find(|frame| match &frame.body {
            ListenerBody::Machine(machine) => match &**machine {
                MachineFrame::Record(record) if record.id == session && holds(record) => {
                    Some((**record).clone())
                }
                _ => None,
            },
            _ => None,
        })
        .await
    }

    /// Waits for the end of the link; gives the fatal failure that came before it.
    pub(crate) async fn closed(mut self) -> Option<(String, String)> {
        while within("the end of the link", self.0.frames.recv()).await.is_some() {}
        match within("the reason of the end", self.0.closed()).await {
            Closed::Link(shared::link::Closed::Failure(failure)) => {
                Some((failure.code.word(), failure.detail))
            }
            Closed::ByListener => None,
            other => panic!("{other:?}"),
        }
    }
}

/// The word of a refusal.
pub(crate) fn refused(response: &Response) -> String {
    match response {
        Response::Refused(refused) => refused.word.word(),
        other => panic!("{other:?}"),
    }
}

/// The word of a fault.
pub(crate) fn failed(response: &Response) -> String {
    match response {
        Response::Failed(failed) => failed.word.word(),
        other => panic!("{other:?}"),
    }
}

/// The record of a session that was started or continued.
pub(crate) fn started(response: Response) -> Record {
    match response {
        Response::Started(record) => *record,
        other => panic!("{other:?}"),
    }
}

/// A host that does what a test says: it writes the log and speaks for it.
pub(crate) struct FakeHost {
    pub link: Wired,
    pub writer: Writer,
    pub identity: HostId,
}

impl FakeHost {
    /// Takes the log, writes `began` and opens the link.
    pub(crate) async fn attach(machine: &Machine, session: SessionId) -> Self {
        let identity = HostId::random();
        let mut writer = Self::writer(machine, session);
        let began = json!({"kind": "began", "began": {
            "identity": identity, "lifetime": "resident", "pid": std::process::id(), "started": "2026-01-01T12:00:00.000Z"}});
        let line = numbered(began, writer.durable() + 1);
        writer.append_batch(&[line.into_bytes()]).unwrap();
        let (link, _) = machine.own(host_hello(session, None)).await.unwrap();
        let host = Self { link, writer, identity };
        host.head().await;
        host
    }

    pub(crate) fn writer(machine: &Machine, session: SessionId) -> Writer {
        Writer::open(&machine.home.session(session).log(), &mut |_, _| Mark::Plain).unwrap().writer
    }

    pub(crate) async fn head(&self) {
        let sequence = Some(self.writer.durable());
        self.link.send(OpenerBody::Head(Head { sequence })).await;
    }

    /// Appends entries and says so.
    pub(crate) async fn append(&mut self, entries: &[Value]) {
        self.append_quietly(entries);
        self.head().await;
    }

    pub(crate) fn append_quietly(&mut self, entries: &[Value]) {
        let first = self.writer.durable() + 1;
        let lines: Vec<_> = entries
            .iter()
            .zip(first..)
            .map(|(entry, number)| numbered(entry.clone(), number).into_bytes())
            .collect();
        self.writer.append_batch(&lines).unwrap();
    }

    /// The next thing that the listener asks.
    pub(crate) async fn asked(&mut self) -> Frame<ListenerBody> {
        self.link.next().await
    }

    pub(crate) async fn respond(&self, to: &FrameId, response: Response) {
        let frame =
            Frame::reply(clock::now(), to.clone(), OpenerBody::Response(Box::new(Open::Known(response))));
        self.link.0.sender.send(frame).await.unwrap();
    }

    /// Logs the submission that is asked next and takes it.
    pub(crate) async fn take(&mut self) -> (SubmissionId, Submission) {
        let frame = self.asked().await;
        let ListenerBody::Submission(submission) = frame.body else { panic!("{:?}", frame.body) };
        let user = json!({"kind": "user", "text": submission.text, "origin": submission.origin, "submission": frame.id});
        self.append(&[user]).await;
        self.respond(&frame.id, Response::Taken(Empty {})).await;
        (frame.id, submission)
    }
}

/// An entry as a line of that number.
pub(crate) fn numbered(mut entry: Value, number: u64) -> String {
    entry["sequence"] = json!(number);
    entry["timestamp"] = json!("2026-01-01T12:00:00.000Z");
    entry.to_string()
}

pub(crate) fn notice(text: &str) -> Value {
    json!({"kind": "notice", "level": "info", "text": text})
}

pub(crate) fn status(phase: Value) -> Value {
    json!({"kind": "status", "status": {"queue": [], "last": null, "phase": phase}})
}

pub(crate) fn settled(submission: &str, fate: &str) -> Value {
    let origin = json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"});
    json!({"kind": "settled", "settled": {"submission": submission, "origin": origin, "fate": fate}})
}

/// A client that breaks rules: lines and messages as the test writes them.
pub(crate) struct Raw {
    pub socket: WebSocketStream<TcpStream>,
    pub channel: Channel<Pin>,
}

impl Raw {
    /// A WebSocket on the port, without a word said.
    pub(crate) async fn socket(port: u16) -> WebSocketStream<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        client_async(format!("ws://127.0.0.1:{port}/wire"), stream).await.unwrap().0
    }

    /// Through the handshake, before `hello`.
    pub(crate) async fn dial(machine: &Machine, key: &StaticKey) -> Self {
        let mut socket = Self::socket(machine.port()).await;
        let (initiator, first) = Initiator::new(key, Prologue::Current, machine.fingerprint()).unwrap();
        socket.send(Message::Binary(first.to_vec().into())).await.unwrap();
        let second = within("the handshake", socket.next()).await.unwrap().unwrap().into_data();
        let (third, channel) = initiator.read_second(&second).unwrap().finish().unwrap();
        socket.send(Message::Binary(third.to_vec().into())).await.unwrap();
        Self { socket, channel }
    }

    /// With an open `machine` link of a listed device.
    pub(crate) async fn open(machine: &Machine, key: &StaticKey) -> Self {
        let mut raw = Self::dial(machine, key).await;
        raw.send(&Frame::new(clock::now(), OpenerBody::Hello(machine_hello("raw", None))).to_line()).await;
        raw
    }

    pub(crate) async fn send(&mut self, line: &[u8]) {
        for message in self.channel.send(&EncodedLine::new(line).unwrap()).unwrap() {
            // The listener may have closed the link already.
            let _ = self.socket.send(Message::Binary(message.into())).await;
        }
    }

    pub(crate) async fn send_json(&mut self, value: &Value) {
        self.send(value.to_string().as_bytes()).await;
    }

    /// The next frame; `None` when the link is closed.
    pub(crate) async fn next(&mut self) -> Option<Frame<ListenerBody>> {
        loop {
            if let Some(line) = self.channel.next_line().unwrap() {
                return Some(Frame::from_line(&line).unwrap());
            }
            match within("a message or the end", self.socket.next()).await {
                Some(Ok(Message::Binary(message))) => self.channel.receive(&message).unwrap(),
                Some(Ok(Message::Close(_)) | Err(_)) | None => return None,
                Some(Ok(_)) => {}
            }
        }
    }

    /// The next failure, as its code and whether it is fatal.
    pub(crate) async fn failure(&mut self) -> Option<(String, String, Option<FrameId>)> {
        while let Some(frame) = self.next().await {
            if let ListenerBody::Failure(failure) = frame.body {
                let fatal = if failure.is_fatal { "fatal" } else { "goes on" };
                return Some((format!("{} {fatal}", failure.code.word()), failure.detail, frame.reply_to));
            }
        }
        None
    }

    /// Whether the link still answers.
    pub(crate) async fn is_open(&mut self) -> bool {
        let ping = Frame::new(clock::now(), OpenerBody::Ping);
        self.send(&ping.to_line()).await;
        while let Some(frame) = self.next().await {
            if frame.body == ListenerBody::Pong && frame.reply_to.as_ref() == Some(&ping.id) {
                return true;
            }
        }
        false
    }
}

/// A client below lines: plaintexts as the test cuts them. Our own channel sends whole lines only.
pub(crate) struct Bare {
    pub socket: WebSocketStream<TcpStream>,
    noise: snow::TransportState,
    lines: shared::line::LineDecoder,
}

impl Bare {
    pub(crate) async fn open(machine: &Machine, key: &StaticKey) -> Self {
        let secret = data_encoding::HEXLOWER.decode(key.to_hex().as_bytes()).unwrap();
        let builder = snow::Builder::new("Noise_XX_25519_ChaChaPoly_SHA256".parse().unwrap());
        let mut state = builder
            .prologue(b"aude-wire")
            .unwrap()
            .local_private_key(&secret)
            .unwrap()
            .build_initiator()
            .unwrap();
        let mut socket = Raw::socket(machine.port()).await;
        let mut buffer = vec![0; 65_535];
        let length = state.write_message(&[], &mut buffer).unwrap();
        socket.send(Message::Binary(buffer[..length].to_vec().into())).await.unwrap();
        let second = within("the handshake", socket.next()).await.unwrap().unwrap().into_data();
        state.read_message(&second, &mut buffer).unwrap();
        let length = state.write_message(&[], &mut buffer).unwrap();
        socket.send(Message::Binary(buffer[..length].to_vec().into())).await.unwrap();
        let noise = state.into_transport_mode().unwrap();
        let mut bare = Self { socket, noise, lines: shared::line::LineDecoder::new() };
        let mut hello = Frame::new(clock::now(), OpenerBody::Hello(machine_hello("bare", None))).to_line();
        hello.push(b'\n');
        bare.send(&hello).await;
        bare
    }

    pub(crate) async fn send(&mut self, plaintext: &[u8]) {
        let mut message = vec![0; plaintext.len() + 16];
        self.noise.write_message(plaintext, &mut message).unwrap();
        // The listener may have closed the link already.
        let _ = self.socket.send(Message::Binary(message.into())).await;
    }

    /// The failures that come until the link is closed.
    pub(crate) async fn failures(&mut self) -> Vec<String> {
        let mut failures = Vec::new();
        while let Some(Ok(Message::Binary(message))) =
            within("a message or the end", self.socket.next()).await
        {
            let mut plaintext = vec![0; message.len()];
            let length = self.noise.read_message(&message, &mut plaintext).unwrap();
            let mut rest = &plaintext[..length];
            while let Some(line) = self.lines.read(&mut rest).unwrap() {
                if let ListenerBody::Failure(failure) = Frame::<ListenerBody>::from_line(&line).unwrap().body
                {
                    failures.push(failure.code.word());
                }
            }
        }
        failures
    }
}
