//! A server of `aura serve` for one test: the real program, asked over HTTP as a controller asks it.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};

use crate::aura::AuraHome;
use crate::wait::LIMIT;

/// The token of every server of the tests.
pub const TOKEN: &str = "a-token-of-the-tests-that-is-long-enough";

/// Every server has a ready file of its own, so that nobody reads what another one told.
static LAUNCHES: AtomicU32 = AtomicU32::new(0);

impl AuraHome {
    /// Lets the provider `script` answer from these steps.
    pub fn script(&self, steps: &str) -> &Self {
        let path = self.path().join("steps.toml");
        fs::write(&path, steps).expect("a script");
        self.settings(&format!("[provider.script]\ntype = \"script\"\nscript = {path:?}\n"))
    }

    /// Adds settings; a section that is there gets further keys.
    pub fn settings(&self, settings: &str) -> &Self {
        fs::create_dir_all(self.root()).expect("a home");
        let path = self.root().join("config.toml");
        let known = fs::read_to_string(&path).unwrap_or_default();
        let section = settings.lines().next().unwrap_or_default();
        let merged = if known.contains(section) {
            known.replacen(section, settings, 1)
        } else {
            format!("{known}\n{settings}")
        };
        fs::write(path, merged).expect("settings");
        self
    }

    /// The journal of a session.
    pub fn journal(&self, id: &str) -> PathBuf {
        self.store().join("journal").join(format!("{id}.jsonl"))
    }

    /// A server of a new session.
    pub fn serve(&self) -> Served {
        self.serve_with(&[])
    }

    /// The same with flags of the root.
    pub fn serve_with(&self, flags: &[&str]) -> Served {
        self.begin(self.command(), flags).served()
    }

    /// A server that goes on with a session.
    pub fn resume(&self, id: &str) -> Served {
        self.serve_with(&["--resume", id])
    }

    /// The error with which a server that was asked for so does not start.
    pub fn refused(&self, flags: &[&str]) -> Value {
        self.begin(self.command(), flags).refused()
    }

    /// A server that starts; `command` is the program with whatever comes before the flags.
    pub fn begin(&self, mut command: Command, flags: &[&str]) -> Starting {
        let launch = LAUNCHES.fetch_add(1, Ordering::Relaxed);
        let ready = self.path().join(format!("ready-{launch}"));
        // Flags of the command come behind `serve`.
        let (root, own) =
            flags.split_at(flags.iter().position(|flag| *flag == "serve").unwrap_or(flags.len()));
        command.args(root).arg("serve").arg("--ready-file").arg(&ready).args(own.iter().skip(1));
        if !command.get_envs().any(|(name, _)| name == "AURA_SERVE_TOKEN") {
            command.env("AURA_SERVE_TOKEN", TOKEN);
        }
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("aura runs");
        Starting { child: Some(child), ready }
    }
}

/// A server that starts. It is killed when dropped.
pub struct Starting {
    child: Option<Child>,
    /// Its ready file.
    pub ready: PathBuf,
}

impl Starting {
    /// The process.
    pub fn pid(&self) -> u32 {
        self.child.as_ref().expect("it was not taken").id()
    }

    /// What the ready file holds once it is there.
    pub fn told(&mut self) -> Value {
        let ready = self.ready.clone();
        until("the ready file", || read_json(&ready))
    }

    /// The server, once it is ready.
    pub fn served(mut self) -> Served {
        let told = self.told();
        assert_eq!(told["error"], Value::Null, "it did not start");
        let address = told["url"].as_str().expect("a URL").trim_start_matches("http://");
        let address = address.parse().expect("an address");
        let child = self.child.take().expect("it was not taken");
        Served { address, session: text(&told["session_id"]), ready: self.ready.clone(), told, child }
    }

    /// The error of a server that does not start: told in the ready file, exit code 1.
    pub fn refused(mut self) -> Value {
        let child = self.child.take().expect("it was not taken");
        let output = child.wait_with_output().expect("it ends");
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        let told = read_json(&self.ready).expect("a ready file");
        let error = told["error"].clone();
        assert_eq!(told, json!({"api": 1, "error": error}));
        error
    }
}

impl Drop for Starting {
    fn drop(&mut self) {
        if let Some(child) = &mut self.child {
            end(child);
        }
    }
}

/// A server. It is killed when dropped.
pub struct Served {
    /// Where it listens.
    pub address: SocketAddr,
    /// The session.
    pub session: String,
    /// Its ready file.
    pub ready: PathBuf,
    /// What that held.
    pub told: Value,
    /// The process.
    pub child: Child,
}

impl Served {
    /// `GET`.
    pub fn get(&self, path: &str) -> Reply {
        self.ask("GET", path, "")
    }

    /// `POST`.
    pub fn post(&self, path: &str, body: &Value) -> Reply {
        self.ask("POST", path, &body.to_string())
    }

    /// Any request, with the token.
    pub fn ask(&self, method: &str, path: &str, body: &str) -> Reply {
        request(self.address, method, path, &[bearer()], body)
    }

    /// Submits a run.
    pub fn submit(&self, body: &Value) -> Reply {
        self.post("/v1/runs", body)
    }

    /// Submits a prompt that must be accepted; gives the id of the run.
    pub fn prompt(&self, request_id: &str, prompt: &str) -> String {
        let reply = self.submit(&json!({"request_id": request_id, "prompt": prompt}));
        assert_eq!(reply.status, 202, "{reply:?}");
        text(&reply.body["id"])
    }

    /// The record of a run.
    pub fn run(&self, id: &str) -> Value {
        let reply = self.get(&format!("/v1/runs/{id}"));
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body
    }

    /// The record of a run once it is settled.
    pub fn settled(&self, id: &str) -> Value {
        let settles = ["run.persisted", "run.persist_failed"];
        let accepted = self.run(id)["accepted_seq"].as_u64().expect("a number");
        let event = self.event_behind(accepted, |event| {
            event["run_id"] == id && settles.iter().any(|kind| event["type"] == *kind)
        });
        let run = self.run(id);
        assert_eq!(event["data"]["run"], run, "the record is what the journal tells");
        assert_eq!(run["terminal"], true);
        run
    }

    /// Submits a prompt and gives its settled record.
    pub fn done(&self, request_id: &str, prompt: &str) -> Value {
        self.settled(&self.prompt(request_id, prompt))
    }

    /// All events so far.
    pub fn events(&self) -> Vec<Value> {
        let reply = self.get("/v1/journal?limit=5000");
        assert_eq!(reply.status, 200, "{reply:?}");
        reply.body["events"].as_array().expect("events").clone()
    }

    /// The first event that is so, once it is there.
    pub fn event(&self, is_it: impl Fn(&Value) -> bool) -> Value {
        self.event_behind(0, is_it)
    }

    /// The first event behind this one that is so, once it is there.
    pub fn event_behind(&self, mut after: u64, is_it: impl Fn(&Value) -> bool) -> Value {
        let began = Instant::now();
        loop {
            let reply = self.get(&format!("/v1/journal?after={after}&wait=5"));
            assert_eq!(reply.status, 200, "{reply:?}");
            let events = reply.body["events"].as_array().expect("events").clone();
            if let Some(event) = events.iter().find(|event| is_it(event)) {
                return event.clone();
            }
            after = events.last().map_or(after, |event| event["seq"].as_u64().expect("a number"));
            assert!(began.elapsed() < LIMIT, "waited in vain for an event; there are {:#?}", self.events());
        }
    }

    /// The first event of this type, once it is there.
    pub fn event_of(&self, kind: &str) -> Value {
        self.event(|event| event["type"] == kind)
    }

    /// Opens a stream of events.
    pub fn stream(&self, query: &str, headers: &[(String, String)]) -> Stream {
        Stream::open(self.address, query, headers)
    }

    /// Sends a signal.
    pub fn signal(&self, signal: Signal) {
        kill(pid(&self.child), signal).expect("it runs");
    }

    /// Kills it, and waits until it is gone.
    pub fn kill(mut self) {
        end(&mut self.child);
    }

    /// Ends it as a person does, and gives its exit code.
    pub fn stop(self) -> Option<i32> {
        self.signal(Signal::SIGTERM);
        self.ended()
    }

    /// Its exit code, once it has ended.
    pub fn ended(mut self) -> Option<i32> {
        let status = until("the end of the server", || self.child.try_wait().expect("its state"));
        assert_eq!(status.signal(), None, "it was not killed");
        status.code()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        end(&mut self.child);
    }
}

fn pid(child: &Child) -> Pid {
    Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
}

fn end(child: &mut Child) {
    // It may have ended by itself.
    let _ = child.kill();
    child.wait().expect("it ends");
}

/// What a server answered.
#[derive(Debug)]
pub struct Reply {
    /// The status.
    pub status: u16,
    /// The head, names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body; null where there is none.
    pub body: Value,
}

impl Reply {
    /// A header.
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    /// The status and code of an error, which has all its fields.
    pub fn code(&self) -> (u16, &str) {
        let error = self.body["error"].as_object().unwrap_or_else(|| panic!("no error: {self:?}"));
        let keys: Vec<&str> = error.keys().map(String::as_str).collect();
        assert_eq!(keys, ["code", "details", "message", "retryable"]);
        assert_eq!(self.body, json!({ "error": error }));
        assert!(error["details"].is_object() && error["message"] != "");
        (self.status, error["code"].as_str().expect("a code"))
    }
}

/// The header that lets somebody in.
pub fn bearer() -> (String, String) {
    ("authorization".into(), format!("Bearer {TOKEN}"))
}

/// One request on a connection of its own.
pub fn request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &str,
) -> Reply {
    try_request(address, method, path, headers, body).expect("an answer")
}

/// The same, where the server may be gone.
///
/// # Errors
/// What the connection says.
pub fn try_request(
    address: SocketAddr,
    method: &str,
    path: &str,
    headers: &[(String, String)],
    body: &str,
) -> std::io::Result<Reply> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(LIMIT))?;
    let mut head = format!("{method} {path} HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len()));
    // A server may answer before it has read all of a body that it refuses.
    let _ = stream.write_all(format!("{head}{body}").as_bytes());
    let mut reader = BufReader::new(stream);
    let (status, headers) = head_of(&mut reader)?;
    let mut body = String::new();
    reader.read_to_string(&mut body)?;
    let body = if body.is_empty() { Value::Null } else { serde_json::from_str(&body)? };
    Ok(Reply { status, headers, body })
}

fn head_of(reader: &mut BufReader<TcpStream>) -> std::io::Result<(u16, Vec<(String, String)>)> {
    let mut lines = reader.lines();
    let mut line = || lines.next().unwrap_or_else(|| Err(std::io::ErrorKind::UnexpectedEof.into()));
    let first = line()?;
    let status = first.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let mut headers = Vec::new();
    loop {
        let line = line()?;
        let Some((name, value)) = line.split_once(':') else { return Ok((status, headers)) };
        headers.push((name.to_lowercase(), value.trim().to_owned()));
    }
}

/// A stream of server-sent events.
pub struct Stream {
    reader: BufReader<TcpStream>,
    /// The head of the answer.
    pub head: Reply,
}

/// One event as it was sent.
#[derive(Debug, Clone, PartialEq)]
pub struct Sent {
    /// Its id.
    pub id: Option<u64>,
    /// Its type.
    pub event: String,
    /// Its data.
    pub data: Value,
}

impl Stream {
    fn open(address: SocketAddr, query: &str, headers: &[(String, String)]) -> Self {
        let mut stream = TcpStream::connect(address).expect("a connection");
        stream.set_read_timeout(Some(LIMIT)).expect("a limit");
        // A body of the older version has no parts: it ends with the connection.
        let mut head = format!("GET /v1/events{query} HTTP/1.0\r\nhost: {address}\r\n");
        for (name, value) in headers.iter().chain([&bearer()]) {
            head.push_str(&format!("{name}: {value}\r\n"));
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).expect("a request");
        let mut reader = BufReader::new(stream);
        let (status, headers) = head_of(&mut reader).expect("an answer");
        let body = Value::Null;
        Self { reader, head: Reply { status, headers, body } }
    }

    /// The next event; none at the end.
    pub fn next_event(&mut self) -> Option<Sent> {
        let (mut id, mut event, mut data) = (None, String::new(), String::new());
        loop {
            let mut line = String::new();
            if self.reader.read_line(&mut line).expect("a line in time") == 0 {
                return None;
            }
            let line = line.trim_end_matches('\n');
            if line.is_empty() {
                let data = serde_json::from_str(&data).expect("JSON");
                return Some(Sent { id, event, data });
            }
            match line.split_once(": ").expect("a field") {
                ("id", value) => id = Some(value.parse().expect("a number")),
                ("event", value) => event = value.to_owned(),
                ("data", value) => data.push_str(value),
                _ => panic!("an unknown field: {line}"),
            }
        }
    }

    /// Events up to and with the first that is so.
    pub fn up_to(&mut self, is_it: impl Fn(&Sent) -> bool) -> Vec<Sent> {
        let mut events = Vec::new();
        loop {
            let event = self.next_event().expect("more events");
            events.push(event.clone());
            if is_it(&event) {
                return events;
            }
        }
    }

    /// All that comes until the server ends it.
    pub fn rest(mut self) -> Vec<Sent> {
        std::iter::from_fn(|| self.next_event()).collect()
    }
}

/// The types of events, each with the reason of a save.
pub fn kinds(events: &[Value]) -> Vec<String> {
    let kind = |event: &Value| match (&event["type"], &event["data"]["reason"]) {
        (Value::String(kind), Value::String(reason)) => format!("{kind}[{reason}]"),
        (kind, _) => text(kind),
    };
    events.iter().map(kind).collect()
}

/// The text of a JSON string.
pub fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}

/// Waits until there is something.
pub fn until<T>(what: &str, mut look: impl FnMut() -> Option<T>) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = look() {
            return value;
        }
        assert!(began.elapsed() < LIMIT, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn read_json(path: &Path) -> Option<Value> {
    let bytes = fs::read(path).ok()?;
    Some(serde_json::from_slice(&bytes).expect("the ready file is whole"))
}
