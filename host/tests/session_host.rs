//! The real session host with the built-in agent, against a listener that does what the test says.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    missing_docs,
    reason = "a test that panics has failed, as it should"
)]

use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use futures_util::{SinkExt as _, StreamExt as _};
use host::files::{self, SocketAddress};
use host::home::Home;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use shared::channel::{Admission, StaticKey};
use shared::entry::Origin;
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, Hello, HelloHost, Interrupt, ListenerBody, OpenerBody, Submission, Welcome};
use shared::ids::{ConnectionId, FrameId, SessionId};
use shared::link::{ListenerEvent, ListenerLink, Now};
use shared::request::{Request, Response};
use tokio::net::{UnixListener, UnixStream};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Steps of the built-in agent, quick ones and one that takes its time.
const SCRIPT: &str = r#"
[[step]]
match = "slow*"
text = "Word by word by word by word by word by word by word by word by word by word by word by word by word."
chunk = 1
chunk_delay = 500

[[step]]
match = "tool*"
calls = [
  { tool = "bash", input = { command = "sleep 0003" } },
  { tool = "bash", input = { command = "sleep 54321" } },
]

[[step]]
match = "long*"
text = "0123456789 0123456789 0123456789 0123456789 é 0123456789 0123456789"
chunk = 3
chunk_delay = 5

[[step]]
times = "always"
text = "An answer."
"#;

/// A home with one session, and the socket on which its listener would be.
struct Machine {
    _scratch: tempfile::TempDir,
    home: Home,
    key: StaticKey,
    session: SessionId,
    listener: UnixListener,
}

impl Machine {
    fn new() -> Self {
        let scratch = tempfile::Builder::new().prefix("aude 🦀 ").tempdir().unwrap();
        let home = Home::open(&scratch.path().join("home")).unwrap();
        let key = StaticKey::generate().unwrap();
        files::write_private(&home.machine_key(), key.to_hex().as_bytes()).unwrap();
        let script = home.root().join("script.toml");
        files::write_private(&script, SCRIPT.as_bytes()).unwrap();
        let config = format!("[aura]\nscript = {:?}\n", script.to_str().unwrap());
        files::write_private(&home.configuration(), config.as_bytes()).unwrap();
        let session = SessionId::random();
        let work = scratch.path().join("work");
        std::fs::create_dir(&work).unwrap();
        let facts = json!({
            "id": session, "name": "n", "harness": "aura", "working_directory": work,
            "created": "2026-01-01T12:00:00.000Z", "log": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfc",
        });
        files::private_directory(home.session(session).directory()).unwrap();
        files::write_private(&home.session(session).record(), facts.to_string().as_bytes()).unwrap();
        let address = SocketAddress::of(&home.listener_socket()).unwrap();
        let listener = UnixListener::bind(address.as_path()).unwrap();
        Self { _scratch: scratch, home, key, session, listener }
    }

    fn host(&self, more: &[&str]) -> Host {
        let mut command = Command::new(env!("CARGO_BIN_EXE_aude"));
        command.args(["host", "--session", &self.session.to_string()]).args(more);
        self.spawn(command)
    }

    fn spawn(&self, mut command: Command) -> Host {
        command.env("AUDE_HOME", self.home.root()).stdin(Stdio::null()).stderr(Stdio::piped());
        Host(command.spawn().unwrap())
    }

    /// Waits for the host to dial.
    async fn link(&self) -> Link {
        let accepted = tokio::time::timeout(PATIENCE, self.listener.accept()).await.unwrap().unwrap();
        Link::accept(accepted.0, &self.key, self.session).await
    }

    fn log_path(&self) -> PathBuf {
        self.home.session(self.session).log()
    }

    fn log(&self) -> Vec<Value> {
        let text = std::fs::read_to_string(self.log_path()).unwrap_or_default();
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
    }

    /// The log in a few words, without what is said in between.
    fn story(&self) -> Vec<String> {
        let brief = |entry: &Value| {
            let kind = entry["kind"].as_str().unwrap();
            match kind {
                "user" => Some(format!("user {}", entry["submission"].as_str().unwrap())),
                "settled" => {
                    let settled = &entry["settled"];
                    Some(format!("settled {} {}", settled["submission"].as_str().unwrap(), settled["fate"]))
                }
                "ended" => Some(format!("ended {}", entry["ended"])),
                "began" => Some(kind.to_owned()),
                _ => None,
            }
        };
        self.log().iter().filter_map(brief).collect()
    }

    async fn until_story(&self, ends: &[&str]) {
        let end = Instant::now() + PATIENCE;
        while !self.story().ends_with(&ends.iter().map(|line| (*line).to_owned()).collect::<Vec<_>>()) {
            assert!(Instant::now() < end, "the log never came to {ends:?}: {:#?}", self.story());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
}

/// The process; it never outlives its test.
struct Host(Child);

impl Host {
    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.0.id().cast_signed()), signal).unwrap();
    }

    async fn exit(&mut self) -> Option<i32> {
        let end = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.0.try_wait().unwrap() {
                return status.code();
            }
            assert!(Instant::now() < end, "the host does not end");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn stderr(&mut self) -> String {
        std::io::read_to_string(self.0.stderr.take().unwrap()).unwrap()
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

struct Admitted(Fingerprint);

impl Admission for Admitted {
    fn fingerprint(&self) -> Fingerprint {
        self.0
    }
}

/// A listener's end of the link of a host.
struct Link {
    machine: ListenerLink<Admitted>,
    socket: WebSocketStream<UnixStream>,
    began: Instant,
    hello: Option<HelloHost>,
    arrived: Vec<Frame<OpenerBody>>,
}

impl Link {
    async fn accept(stream: UnixStream, key: &StaticKey, session: SessionId) -> Self {
        let socket = tokio_tungstenite::accept_async(stream).await.unwrap();
        let machine = ListenerLink::new(key, 0).unwrap();
        let mut link = Self { machine, socket, began: Instant::now(), hello: None, arrived: Vec::new() };
        while link.hello.is_none() {
            link.pump().await;
        }
        assert_eq!(link.hello.as_ref().unwrap().session, session);
        link
    }

    fn now(&self) -> Now {
        Now { steady: u64::try_from(self.began.elapsed().as_millis()).unwrap(), date: host::clock::now() }
    }

    async fn flush(&mut self) {
        while let Some(message) = self.machine.next_message() {
            // A host that ends reads no more; what it has said is still there to be read.
            if self.socket.send(Message::Binary(message.into())).await.is_err() {
                return;
            }
        }
    }

    async fn pump(&mut self) {
        self.flush().await;
        let message =
            tokio::time::timeout(PATIENCE, self.socket.next()).await.expect("the host says nothing");
        let Message::Binary(bytes) = message.expect("the host closed the link").unwrap() else { return };
        let now = self.now();
        let events = self.machine.receive(&bytes, now);
        self.take(events);
        self.flush().await;
    }

    fn take(&mut self, events: Vec<ListenerEvent>) {
        for event in events {
            match event {
                ListenerEvent::Hello { id, hello: Hello::Host(hello), peer } => {
                    self.hello = Some(hello);
                    let welcome = Welcome::Host { aude_version: "test".to_owned() };
                    let body = ListenerBody::Welcome(Box::new(welcome));
                    let welcome = Frame::reply(host::clock::now(), id, body);
                    let now = self.now();
                    let more = self.machine.admit(Admitted(peer), &welcome, now).unwrap();
                    self.take(more);
                }
                ListenerEvent::Frame(frame) => self.arrived.push(*frame),
                other => panic!("{other:?}"),
            }
        }
    }

    async fn send(&mut self, id: FrameId, body: ListenerBody) -> FrameId {
        let frame = Frame { id: id.clone(), timestamp: host::clock::now(), reply_to: None, body };
        self.machine.send(&frame).unwrap();
        self.flush().await;
        id
    }

    async fn submit(&mut self, id: &str, text: &str) -> Response {
        let origin = Origin { connection: ConnectionId::random(), name: "phone".to_owned(), device: None };
        let submission = Submission { text: text.to_owned(), budget: None, origin: Some(origin) };
        let id = self.send(id.parse().unwrap(), ListenerBody::Submission(submission)).await;
        self.answer(&id).await
    }

    async fn ask(&mut self, body: ListenerBody) -> Response {
        let id = self.send(FrameId::random(), body).await;
        self.answer(&id).await
    }

    async fn answer(&mut self, id: &FrameId) -> Response {
        loop {
            let answer = self.arrived.iter().position(|frame| frame.reply_to.as_ref() == Some(id));
            if let Some(answer) = answer
                && let OpenerBody::Response(response) = self.arrived.remove(answer).body
            {
                return response.known().unwrap().clone();
            }
            self.pump().await;
        }
    }

    /// Reads until what arrived is enough.
    async fn until(&mut self, enough: impl Fn(&[Frame<OpenerBody>]) -> bool) {
        while !enough(&self.arrived) {
            self.pump().await;
        }
    }
}

fn taken() -> Response {
    Response::Taken(shared::kind::Empty {})
}

fn is_delta(frame: &Frame<OpenerBody>) -> bool {
    matches!(frame.body, OpenerBody::Delta(_))
}

#[tokio::test]
async fn a_turn_goes_through_with_live_text_and_a_head_for_what_is_durable() {
    let machine = Machine::new();
    let mut host = machine.host(&[]);
    let mut link = machine.link().await;
    assert_eq!(link.hello.as_ref().unwrap().replaces, None);
    assert_eq!(link.submit("a", "long").await, taken());
    assert!(machine.story().contains(&"user a".to_owned()), "taken before it was logged");
    machine.until_story(&["began", "user a", "settled a \"answered\""]).await;
    let last = machine.log().len() as u64;
    link.until(|arrived| {
        arrived
            .iter()
            .any(|frame| matches!(&frame.body, OpenerBody::Head(head) if head.sequence == Some(last)))
    })
    .await;
    let mut live = String::new();
    for frame in &link.arrived {
        if let OpenerBody::Delta(delta) = &frame.body {
            assert_eq!(delta.offset, live.len() as u64, "live text has a gap");
            live.push_str(&delta.text);
        }
    }
    let log = machine.log();
    let answer = log.iter().find(|entry| entry["kind"] == "assistant").unwrap()["text"].as_str().unwrap();
    assert!(!live.is_empty() && answer.starts_with(&live), "{live:?} is no beginning of {answer:?}");
    let heads: Vec<_> = link
        .arrived
        .iter()
        .filter_map(|frame| match &frame.body {
            OpenerBody::Head(head) => head.sequence,
            _ => None,
        })
        .collect();
    assert!(heads.is_sorted(), "{heads:?}");
    for (index, entry) in log.iter().enumerate() {
        assert_eq!(entry["sequence"], json!(index + 1));
    }

    assert_eq!(link.ask(ListenerBody::Request(Request::Stop(machine.session))).await, taken());
    assert_eq!(host.exit().await, Some(0));
    machine.until_story(&["settled a \"answered\"", "ended \"stopped\""]).await;
}

#[tokio::test]
async fn a_second_host_says_who_is_there_and_changes_nothing() {
    let machine = Machine::new();
    let first = machine.host(&[]);
    let _link = machine.link().await;
    machine.until_story(&["began"]).await;
    let mut second = machine.host(&["--reconcile"]);
    assert_eq!(second.exit().await, Some(1));
    let said = second.stderr();
    assert!(said.contains(&format!("process {}", first.0.id())), "{said}");
    assert_eq!(machine.story(), ["began"]);
}

#[tokio::test]
async fn a_killed_host_is_told_of_and_what_waited_runs_once() {
    let machine = Machine::new();
    let mut host = machine.host(&[]);
    let mut link = machine.link().await;
    assert_eq!(link.submit("a", "slow").await, taken());
    assert_eq!(link.submit("b", "quick").await, taken());
    link.until(|arrived| arrived.iter().any(is_delta)).await;
    host.signal(Signal::SIGKILL);
    host.exit().await;

    let next = machine.host(&["--reconcile"]);
    let mut link = machine.link().await;
    let began = &machine.log()[0]["began"]["identity"];
    assert_eq!(&json!(link.hello.as_ref().unwrap().replaces), began);
    let died =
        ["settled a {\"ran\":{\"reason\":\"lost\"}}", "ended \"died\"", "began", "settled b \"answered\""];
    machine.until_story(&died).await;
    assert_eq!(link.submit("a", "slow").await, taken());
    assert_eq!(
        link.submit("b", "other").await,
        Response::Refused(shared::failure::Refused::bare(shared::failure::Refusal::IdConflict))
    );
    drop(link);
    next.signal(Signal::SIGKILL);
    drop(next);

    // Nothing waits any more: the next one only says what became of the last.
    let mut last = machine.host(&["--reconcile"]);
    assert_eq!(last.exit().await, Some(0));
    machine.until_story(&["settled b \"answered\"", "ended \"died\""]).await;
    let mut again = machine.host(&["--reconcile"]);
    let lines = machine.log().len();
    assert_eq!(again.exit().await, Some(0));
    assert_eq!(machine.log().len(), lines);
}

#[tokio::test]
async fn a_turn_is_interrupted_and_the_link_may_come_and_go() {
    let machine = Machine::new();
    let mut host = machine.host(&[]);
    let mut link = machine.link().await;
    assert_eq!(link.submit("a", "slow").await, taken());
    link.until(|arrived| arrived.iter().any(is_delta)).await;
    drop(link);

    let mut link = machine.link().await;
    link.until(|arrived| arrived.iter().any(|frame| matches!(frame.body, OpenerBody::Head(_)))).await;
    assert_eq!(link.submit("a", "slow").await, taken());
    assert_eq!(link.submit("b", "quick").await, taken());
    let other = Interrupt { submission: Some("b".parse().unwrap()), origin: None };
    assert_eq!(link.ask(ListenerBody::Interrupt(other)).await, taken());
    assert_eq!(link.ask(ListenerBody::Interrupt(Interrupt::default())).await, taken());
    machine
        .until_story(&["settled a {\"ran\":{\"reason\":\"interrupted\"}}", "settled b \"answered\""])
        .await;

    // A terminal that closes is no reason to end; a request to end is.
    host.signal(Signal::SIGHUP);
    assert_eq!(link.submit("c", "slow").await, taken());
    assert_eq!(link.submit("d", "quick").await, taken());
    link.until(|arrived| arrived.iter().any(is_delta)).await;
    host.signal(Signal::SIGTERM);
    assert_eq!(host.exit().await, Some(0));
    machine.until_story(&["settled c {\"ran\":{\"reason\":\"interrupted\"}}", "ended \"stopped\""]).await;
    let _next = machine.host(&["--reconcile"]);
    machine.until_story(&["ended \"stopped\"", "began", "settled d \"answered\""]).await;
}

#[tokio::test]
async fn a_torn_line_is_cut_and_told_once() {
    let machine = Machine::new();
    let host = machine.host(&[]);
    machine.until_story(&["began"]).await;
    host.signal(Signal::SIGKILL);
    drop(host);
    let mut log = std::fs::read_to_string(machine.log_path()).unwrap();
    log.push_str("{\"kind\":\"assi");
    std::fs::write(machine.log_path(), &log).unwrap();

    for _ in 0..2 {
        let mut host = machine.host(&["--reconcile"]);
        assert_eq!(host.exit().await, Some(0));
    }
    let log = machine.log();
    let notices: Vec<_> = log.iter().filter(|entry| entry["kind"] == "notice").collect();
    assert_eq!(notices.len(), 2, "{notices:?}");
    for (notice, words) in notices.iter().zip(["unfinished", "died while no turn ran"]) {
        assert!(notice["text"].as_str().unwrap().contains(words), "{notices:?}");
    }
}

#[tokio::test]
async fn a_full_disk_is_said_and_the_session_goes_on_when_there_is_room() {
    let machine = Machine::new();
    // A bound on the size of files stands for the disk; it can be lifted while the host runs.
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; ulimit -S -f 16; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_aude"));
    command.args(["-c", &script, "sh", "host", "--session", &machine.session.to_string()]);
    let host = machine.spawn(command);
    let mut link = machine.link().await;
    assert_eq!(link.submit("a", "quick").await, taken());
    machine.until_story(&["settled a \"answered\""]).await;
    let large = "x".repeat(20_000);
    let Response::Failed(failed) = link.submit("b", &large).await else { panic!("it was taken") };
    assert!(failed.word.is(&shared::failure::Fault::Storage) && failed.detail.is_some());
    assert_eq!(machine.story(), ["began", "user a", "settled a \"answered\""]);

    let lifted =
        Command::new("prlimit").args(["--fsize=unlimited", "--pid", &host.0.id().to_string()]).status();
    assert!(lifted.unwrap().success());
    assert_eq!(link.submit("b", &large).await, taken());
    machine.until_story(&["settled a \"answered\"", "user b", "settled b \"answered\""]).await;
}

/// The most bytes that a file of the process may have; it stands for the room on the disk.
fn room(host: &Host, bytes: &str) {
    let mut command = Command::new("prlimit");
    command.args([format!("--fsize={bytes}:unlimited"), "--pid".to_owned(), host.0.id().to_string()]);
    assert!(command.status().unwrap().success());
}

#[tokio::test]
async fn a_revocation_waits_for_the_disk_and_a_budget_does_not() {
    let machine = Machine::new();
    let mut command = Command::new("sh");
    let script = format!("trap '' XFSZ; exec '{}' \"$@\"", env!("CARGO_BIN_EXE_aude"));
    command.args(["-c", &script, "sh", "host", "--session", &machine.session.to_string()]);
    let host = machine.spawn(command);
    let mut link = machine.link().await;
    let device = StaticKey::generate().unwrap().fingerprint();
    let origin =
        |device| Some(Origin { connection: ConnectionId::random(), name: "phone".to_owned(), device });
    let first = Submission { text: "tool".to_owned(), budget: Some(7), origin: origin(None) };
    let first = link.send("a".parse().unwrap(), ListenerBody::Submission(first)).await;
    assert_eq!(link.answer(&first).await, taken());
    let second = Submission { text: "quick".to_owned(), budget: None, origin: origin(Some(device)) };
    let second = link.send("b".parse().unwrap(), ListenerBody::Submission(second)).await;
    assert_eq!(link.answer(&second).await, taken());
    let is_running = |seconds: &str| {
        let wanted = format!("sleep\0{seconds}\0");
        std::fs::read_dir("/proc").unwrap().flatten().any(|process| {
            std::fs::read(process.path().join("cmdline")).is_ok_and(|line| line.ends_with(wanted.as_bytes()))
        })
    };
    let end = Instant::now() + PATIENCE;
    while !is_running("0003") {
        assert!(Instant::now() < end, "the tool does not run");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }

    // From here on nothing can be logged, not even the result of the first tool.
    room(&host, "1");
    while !is_running("54321") {
        assert!(Instant::now() < end, "the agent does not go on");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    let revoke = Request::Revoke(shared::request::Revoke { device: shared::request::Device::One(device) });
    let revoked = link.send(FrameId::random(), ListenerBody::Request(revoke)).await;
    while is_running("54321") {
        assert!(Instant::now() < end, "the budget is over, and the tool still runs");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    room(&host, "unlimited");
    assert_eq!(link.answer(&revoked).await, taken(), "it was not lost");
    let end =
        ["settled b {\"dropped\":{\"reason\":\"revoked\"}}", "settled a {\"ran\":{\"reason\":\"budget\"}}"];
    machine.until_story(&end).await;
}

#[tokio::test]
async fn what_was_taken_of_a_device_that_was_revoked_meanwhile_never_runs() {
    let machine = Machine::new();
    let mut host = machine.host(&[]);
    let mut link = machine.link().await;
    assert_eq!(link.submit("a", "slow").await, taken());
    let device = StaticKey::generate().unwrap().fingerprint();
    let origin =
        Some(Origin { connection: ConnectionId::random(), name: "phone".to_owned(), device: Some(device) });
    let submission = Submission { text: "quick".to_owned(), budget: None, origin };
    let id = link.send("b".parse().unwrap(), ListenerBody::Submission(submission)).await;
    assert_eq!(link.answer(&id).await, taken());
    assert_eq!(link.submit("c", "quick").await, taken());
    host.signal(Signal::SIGKILL);
    host.exit().await;
    drop(link);

    // Nobody lists the device, and no listener says a word to the new host.
    let _next = machine.host(&["--reconcile"]);
    let story = [
        "settled a {\"ran\":{\"reason\":\"lost\"}}",
        "settled b {\"dropped\":{\"reason\":\"revoked\"}}",
        "ended \"died\"",
        "began",
        "settled c \"answered\"",
    ];
    machine.until_story(&story).await;
}

#[tokio::test]
async fn the_last_answer_of_a_host_is_heard_also_by_a_listener_that_talks_on() {
    let machine = Machine::new();
    let mut host = machine.host(&[]);
    let mut link = machine.link().await;
    machine.until_story(&["began"]).await;
    let stop = ListenerBody::Request(Request::Stop(machine.session));
    let frame = Frame { id: FrameId::random(), timestamp: host::clock::now(), reply_to: None, body: stop };
    link.machine.send(&frame).unwrap();
    for _ in 0..300 {
        let body = ListenerBody::Interrupt(Interrupt::default());
        let more = Frame { id: FrameId::random(), timestamp: host::clock::now(), reply_to: None, body };
        link.machine.send(&more).unwrap();
    }
    link.flush().await;
    assert_eq!(link.answer(&frame.id).await, taken());
    assert_eq!(host.exit().await, Some(0));
}

#[tokio::test]
async fn a_line_that_no_frame_can_carry_is_damaged_for_the_host_too() {
    let machine = Machine::new();
    let line = |number: u64, length: usize| {
        let start = format!(
            r#"{{"kind":"notice","level":"info","sequence":{number},"timestamp":"2026-01-01T12:00:00.000Z","text":""#
        );
        format!("{start}{}\"}}\n", "x".repeat(length - start.len() - 2))
    };
    let bound = shared::limits::ENTRY_BYTES;
    files::write_private(&machine.log_path(), (line(1, bound) + &line(2, bound + 1)).as_bytes()).unwrap();
    let _host = machine.host(&[]);
    let end = Instant::now() + PATIENCE;
    let notice = loop {
        let text = std::fs::read_to_string(machine.log_path()).unwrap();
        if let Some(line) = text.lines().nth(2) {
            break serde_json::from_str::<Value>(line).unwrap();
        }
        assert!(Instant::now() < end, "the host says nothing");
        tokio::time::sleep(Duration::from_millis(10)).await;
    };
    assert!(notice["text"].as_str().unwrap().contains("1 line cannot be read (line 2)"), "{notice}");
}
