//! A home of aude for one test, with the real programs in it; everything that was started is ended with it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use host::client::{Address, Link};
use host::identity;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use shared::channel::StaticKey;
use shared::entry::{Entry, Event, Known};
use shared::ids::SessionId;
use shared::pairing::Endpoint;
use tempfile::TempDir;

use crate::programs;
use crate::wait;

/// One machine under test.
pub struct TestHome {
    folder: TempDir,
    environment: Vec<(String, String)>,
    listener: Option<Child>,
}

impl TestHome {
    /// A new home without a listener. Its port is free, its `work` folder is a place for sessions.
    #[must_use]
    pub fn new() -> Self {
        Self::with_config("")
    }

    /// A new home with these lines in `config.toml`.
    #[must_use]
    pub fn with_config(config: &str) -> Self {
        let folder = tempfile::Builder::new().prefix("aude-test-").tempdir().expect("a temporary folder");
        let home = Self { folder, environment: Vec::new(), listener: None };
        fs::create_dir(home.work()).expect("a working folder");
        fs::create_dir(home.root()).expect("a home folder");
        fs::set_permissions(home.root(), fs::Permissions::from_mode(0o700)).expect("private permissions");
        home.write_config(config);
        home
    }

    /// Replaces `config.toml`; the port stays a free one.
    pub fn write_config(&self, config: &str) {
        let text = format!("port = 0\n{config}\n");
        let path = self.root().join("config.toml");
        let mut options = fs::OpenOptions::new();
        let mut file =
            options.create(true).write(true).truncate(true).mode(0o600).open(&path).expect("config.toml");
        std::io::Write::write_all(&mut file, text.as_bytes()).expect("config.toml");
    }

    /// Keeps the port on which the listener was started for all later listeners, as it is on a real machine.
    ///
    /// # Panics
    /// When no listener runs.
    pub fn keep_port(&self) {
        let path = self.root().join("config.toml");
        let text = fs::read_to_string(&path).expect("config.toml");
        let port = self.endpoint().place.port();
        fs::write(&path, text.replacen("port = 0", &format!("port = {port}"), 1)).expect("config.toml");
    }

    /// Sets a variable for every program that is started from now on.
    pub fn set(&mut self, name: &str, value: impl Into<String>) {
        self.environment.push((name.to_owned(), value.into()));
    }

    /// `AUDE_HOME`.
    #[must_use]
    pub fn root(&self) -> PathBuf {
        self.folder.path().join("aude")
    }

    /// A folder in which sessions may work.
    #[must_use]
    pub fn work(&self) -> PathBuf {
        self.folder.path().join("work")
    }

    /// The home as the library sees it.
    #[must_use]
    pub fn home(&self) -> host::home::Home {
        host::home::Home::open(&self.root()).expect("a home that can be used")
    }

    /// `aude` with these arguments, in this home.
    #[must_use]
    pub fn command<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Command {
        let mut command = Command::new(programs::aude());
        command
            .args(arguments)
            .current_dir(self.work())
            .env("HOME", self.folder.path())
            .env("AUDE_HOME", self.root())
            .env("NO_COLOR", "1")
            .env_remove("AUDE_LOG")
            .stdin(Stdio::null());
        for (name, value) in &self.environment {
            command.env(name, value);
        }
        command
    }

    /// Runs `aude` to its end.
    ///
    /// # Panics
    /// When it cannot be started.
    #[must_use]
    pub fn run<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> Output {
        self.command(arguments).output().expect("aude starts")
    }

    /// Runs `aude`, which must succeed; gives its standard output.
    ///
    /// # Panics
    /// When it does not exit with 0.
    #[must_use]
    pub fn ok<S: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = S>) -> String {
        let output = self.run(arguments);
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
        text
    }

    /// The records, as `aude sessions --json` prints them.
    #[must_use]
    pub fn records(&self) -> Vec<Value> {
        let text = self.ok(["sessions", "--json"]);
        text.lines().map(|line| serde_json::from_str(line).expect("a record is JSON")).collect()
    }

    /// The record of the session of that name.
    #[must_use]
    pub fn record(&self, name: &str) -> Value {
        serde_json::from_str(&self.ok(["show", name, "--json"])).expect("a record is JSON")
    }

    /// Starts the listener and waits until it answers.
    pub async fn listen(&mut self) {
        let log = fs::File::options().create(true).append(true).open(self.folder.path().join("listener.log"));
        let mut command = self.command(["listen"]);
        command.stdout(Stdio::null()).stderr(log.expect("a log file"));
        self.listener = Some(command.spawn().expect("the listener starts"));
        let home = self.home();
        wait::until("the listener", || async {
            let key = identity::machine_key(&home).ok()?;
            let address = Address::Socket(home.listener_socket());
            let hello = shared::frame::Hello::Home(shared::frame::HelloHome::default());
            Link::open(&address, &key, key.fingerprint(), hello).await.ok().map(|_| ())
        })
        .await;
    }

    /// What the listener has said.
    #[must_use]
    pub fn listener_log(&self) -> String {
        fs::read_to_string(self.folder.path().join("listener.log")).unwrap_or_default()
    }

    /// The listener's process.
    ///
    /// # Panics
    /// When none was started.
    #[must_use]
    pub fn listener_pid(&self) -> Pid {
        let child = self.listener.as_ref().expect("the listener was started");
        Pid::from_raw(i32::try_from(child.id()).expect("a process id"))
    }

    /// Kills the listener as a crash would.
    pub fn kill_listener(&mut self) {
        if let Some(mut child) = self.listener.take() {
            child.kill().expect("the listener can be killed");
            child.wait().expect("the listener is gone");
        }
    }

    /// The machine's key.
    #[must_use]
    pub fn machine_key(&self) -> StaticKey {
        identity::machine_key(&self.home()).expect("the machine's key")
    }

    /// Where a device dials this machine.
    #[must_use]
    pub fn endpoint(&self) -> Endpoint {
        let running = host::listener::running(&self.home()).expect("the listener's file");
        let port = running.expect("a listener runs").port;
        let endpoint = format!("{}@127.0.0.1:{port}", self.machine_key().fingerprint());
        endpoint.parse().expect("an endpoint")
    }

    /// All entries of a session's log, as they stand in the file; damaged lines are left out.
    #[must_use]
    pub fn log(&self, session: SessionId) -> Vec<Entry> {
        let content = fs::read(self.home().session(session).log()).unwrap_or_default();
        let text = String::from_utf8_lossy(&content);
        let complete = text.rfind('\n').map_or("", |end| &text[..end]);
        complete.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
    }

    /// The process of the last host that began in a session.
    #[must_use]
    pub fn host_pid(&self, session: SessionId) -> Option<Pid> {
        self.log(session).iter().rev().find_map(|entry| match &entry.event {
            Event::Known(known) => match known.as_ref() {
                Known::Began { began } => i32::try_from(began.pid).ok().map(Pid::from_raw),
                _ => None,
            },
            Event::Unknown(_) => None,
        })
    }

    /// Where the home is.
    #[must_use]
    pub fn path(&self) -> &Path {
        self.folder.path()
    }
}

impl Default for TestHome {
    fn default() -> Self {
        Self::new()
    }
}

/// Whether a process lives (a zombie does not).
#[must_use]
pub fn is_alive(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{pid}/stat")) else { return false };
    let state = stat.rsplit(')').next().and_then(|rest| rest.split_whitespace().next());
    !matches!(state, Some("Z" | "X"))
}

impl Drop for TestHome {
    fn drop(&mut self) {
        if let Some(mut child) = self.listener.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
        // Every process that was started in this home carries its path; a test that failed may have left some.
        let marker = format!("AUDE_HOME={}", self.root().display());
        for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
            let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
                continue;
            };
            let environment = fs::read(process.path().join("environ")).unwrap_or_default();
            let is_ours = environment.split(|byte| *byte == 0).any(|entry| entry == marker.as_bytes());
            if is_ours && pid != i32::try_from(std::process::id()).unwrap_or(0) {
                let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
            }
        }
    }
}
