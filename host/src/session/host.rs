//! The process of a session: takes what happens in rounds, makes each round durable with one write, then does what the machine says.

use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use shared::entry::{Entry, Known, Level};
use shared::failure::{Failed, Fault};
use shared::ids::{HostId, SessionId};
use shared::record::Facts;
use shared::request::Response;
use shared::status::{Began, Lifetime};
use tokio::signal::unix::{Signal, SignalKind, signal};

use super::hands::Hands;
use super::link::Mailbox;
use super::live::Live;
use super::machine::{Ask, Input, Machine, Now, Output, Purpose, Terms};
use super::policy::Policy;
use super::restart::Retrace;
use crate::clock;
use crate::config::{Config, ConfigError};
use crate::files::{self, FilesError};
use crate::harness::{self, Place};
use crate::home::Home;
use crate::identity::{self, Peers, PeersError};
use crate::log::{LogError, Writer};
use crate::process;

/// Inputs of one round: enough to share an fdatasync among many, few enough that none waits long.
const ROUND: usize = 256;
/// Inputs that wait for a disk that refuses; more than a round has, so that an idle host takes whole rounds.
const PARKED: usize = 2 * ROUND;
/// Entries that may be owed to the log: the end of one turn, with all that is open in it, and some more.
const OWED: usize = 128;
/// The pause after which a disk that refused is tried again.
const RETRY: Duration = Duration::from_millis(500);
/// How long a host that is to end waits for a disk that refuses; then it ends without a last word.
const PATIENCE: Duration = Duration::from_secs(3);
/// How long live text is gathered before it is sent: shorter than an eye notices.
const GATHER: Duration = Duration::from_millis(30);
/// A record of a session, in bytes; 32 prerequisites and a path are far below.
const RECORD_BYTES: u64 = 1024 * 1024;

/// Why a host cannot run its session.
#[derive(Debug, thiserror::Error)]
enum HostError {
    #[error("session {0} already has a host{holder}; there is one host a session", holder = holder_phrase(*.1))]
    Busy(SessionId, Option<u32>),
    #[error("there is no session {0} on this machine; `aude sessions` lists them")]
    Unknown(SessionId),
    #[error("{} is not a record of session {session}: {detail}", path.display())]
    Record { path: PathBuf, session: SessionId, detail: String },
    #[error("this version of aude has no harness {0}")]
    Harness(String),
    #[error(transparent)]
    Files(#[from] FilesError),
    #[error(transparent)]
    Peers(#[from] PeersError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Log(#[from] LogError),
    #[error("the system refused: {0}")]
    System(#[from] std::io::Error),
}

fn holder_phrase(pid: Option<u32>) -> String {
    pid.map_or_else(String::new, |pid| format!(" (process {pid})"))
}

/// Runs the host of a session until the session ends.
#[must_use]
pub fn run(home: &Home, session: SessionId, purpose: Purpose) -> ExitCode {
    match try_run(home, session, purpose) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => failure(&error),
    }
}

fn failure(error: &HostError) -> ExitCode {
    // Whoever reads this is a person who started a second host by hand; the listener looks at the lock.
    let _ = writeln!(std::io::stderr(), "aude host: {error}");
    ExitCode::FAILURE
}

fn try_run(home: &Home, session: SessionId, purpose: Purpose) -> Result<(), HostError> {
    // It fails where we lead a process group already, and then there is nothing to leave.
    let _ = nix::unistd::setsid();
    process::become_subreaper()?;
    let paths = home.session(session);
    let facts = read_facts(&paths.record(), session)?;
    let config = Config::read(&home.configuration())?;
    let harness =
        harness::by_name(&facts.harness, &config).ok_or_else(|| HostError::Harness(facts.harness.clone()))?;
    let mut retrace = Retrace::new(facts.clone());
    let opened = Writer::open(&paths.log(), &mut |number, line| retrace.look(number, line));
    let opened = opened.map_err(|error| {
        if let LogError::Held { holder, .. } = error {
            HostError::Busy(session, holder)
        } else {
            error.into()
        }
    })?;
    let mut restart = retrace.finish(&opened.damage);
    let owner = identity::machine_key(home).ok().map(|key| key.fingerprint());
    if restart.waiting.iter().any(|waiting| waiting.origin.device.is_some_and(|device| Some(device) != owner))
    {
        // A device is off the list before anybody hears that it was revoked, so no turn of it can begin here.
        let peers = Peers::read(&home.peers())?;
        restart.distrust(|device| Some(device) == owner || peers.lists(device));
    }
    let replaces = restart.fold.began();
    if let Some(dead) = replaces {
        // Before this run is in the log: a host that dies here leaves the same name to the next one.
        let swept = process::sweep(dead);
        if swept > 0 {
            tracing::warn!(swept, "ended processes of a host that died");
        }
    }
    let identity = HostId::random();
    let terms = Terms {
        harness: facts.harness.clone(),
        abilities: harness.abilities(),
        other_provider: config.gate.other_provider,
        permissions: config.permissions,
        policy: Policy {
            rules: config.rules.clone(),
            // Rules mean files where they really lie; a directory that is gone has none.
            directory: Path::new(&facts.working_directory)
                .canonicalize()
                .unwrap_or_else(|_| PathBuf::from(&facts.working_directory)),
        },
        unload_after: config.unload_agent_after.map(Duration::from_secs),
        purpose,
        began: Began {
            identity,
            lifetime: Lifetime::Resident.into(),
            subagent: None,
            pid: std::process::id(),
            started: clock::now(),
        },
        owner,
    };
    let place = Place {
        working_directory: PathBuf::from(&facts.working_directory),
        session_directory: paths.directory().to_path_buf(),
        run: identity,
        guard_program: std::env::current_exe()?,
        config,
    };
    let machine = Machine::new(terms, restart);
    // One thread decides and speaks; the disk has threads of its own.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let ended = runtime.block_on(async {
        let mailbox = Mailbox::open(home.clone(), session, replaces, opened.writer.durable());
        let hands = Hands::new(harness, place, facts);
        let mut host = Host {
            machine,
            writer: Some(opened.writer),
            hands,
            mailbox,
            live: Live::default(),
            flush_at: None,
            began: Instant::now(),
            parked: Vec::new(),
            owed: Vec::new(),
            terminate_by: None,
            is_over: false,
        };
        let ended = host.serve().await;
        host.hands.end().await;
        // The lock first: whoever sees the link end may start the next host at once.
        host.writer = None;
        host.mailbox.close().await;
        ended
    });
    // A blocking task that hangs, like a sweep, must not keep a host that is over.
    runtime.shutdown_background();
    ended
}

fn read_facts(path: &Path, session: SessionId) -> Result<Facts, HostError> {
    let bytes = files::read_private(path, RECORD_BYTES)?.ok_or(HostError::Unknown(session))?;
    let wrong = |detail: String| HostError::Record { path: path.to_path_buf(), session, detail };
    let facts: Facts = serde_json::from_slice(&bytes).map_err(|error| wrong(error.to_string()))?;
    if facts.id == session { Ok(facts) } else { Err(wrong("it names another session".to_owned())) }
}

/// The running process.
struct Host {
    machine: Machine,
    /// Away only while a batch is being written, and at the end.
    writer: Option<Writer>,
    hands: Hands,
    mailbox: Mailbox,
    live: Live,
    flush_at: Option<Instant>,
    began: Instant,
    /// What happened and could not be logged yet.
    parked: Vec<Input>,
    /// What was decided without the log while the disk refuses, such as the end of a budget; it is logged before anything else.
    owed: Vec<Known>,
    /// When a host that is to end gives up on a disk that refuses.
    terminate_by: Option<Instant>,
    is_over: bool,
}

struct Signals {
    terminate: Signal,
    interrupt: Signal,
    hangup: Signal,
}

impl Host {
    async fn serve(&mut self) -> Result<(), HostError> {
        let mut signals = Signals {
            terminate: signal(SignalKind::terminate())?,
            interrupt: signal(SignalKind::interrupt())?,
            // Heard and not heeded: a session outlives the terminal from which it was started.
            hangup: signal(SignalKind::hangup())?,
        };
        self.start(&mut signals).await?;
        while !self.is_over {
            let mut inputs = self.next(&mut signals).await;
            self.gather(&mut inputs);
            self.round(inputs).await?;
        }
        Ok(())
    }

    /// Begins, as soon as the disk takes it; nothing else is decided before.
    async fn start(&mut self, signals: &mut Signals) -> Result<(), HostError> {
        loop {
            match self.attempt(&[Input::Start]).await {
                Ok(()) => return Ok(()),
                Err(error @ LogError::Refused { .. }) => {
                    tracing::warn!(%error, "the session cannot begin before its log can be written");
                }
                Err(other) => return Err(other.into()),
            }
            tokio::select! {
                () = tokio::time::sleep(RETRY) => {}
                Some(()) = signals.terminate.recv() => {
                    self.is_over = true;
                    return Ok(());
                }
            }
        }
    }

    /// Waits until something happens; empty when there is only something to try again.
    async fn next(&mut self, signals: &mut Signals) -> Vec<Input> {
        let is_parked = !self.parked.is_empty();
        let deadline = self.machine.deadline().map(|elapsed| self.began + elapsed);
        tokio::select! {
            // What is parked must have a bound; beyond it the link is not read.
            asked = self.mailbox.asked.recv(), if self.parked.len() < PARKED => {
                asked.map(|(id, ask)| Input::Asked(id, ask)).into_iter().collect()
            }
            // An agent whose words cannot be logged is not heard: it waits with us for the disk.
            input = self.hands.next(), if !is_parked => vec![input],
            Some(()) = signals.terminate.recv() => vec![Input::Terminate],
            Some(()) = signals.interrupt.recv() => vec![Input::Terminate],
            Some(()) = signals.hangup.recv() => Vec::new(),
            () = sleep_until(deadline), if !is_parked => vec![Input::Tick],
            () = tokio::time::sleep(RETRY), if is_parked => Vec::new(),
            () = sleep_until(self.flush_at) => {
                self.flush();
                Vec::new()
            }
        }
    }

    /// Adds what else has happened already, so that it shares the write.
    fn gather(&mut self, inputs: &mut Vec<Input>) {
        while inputs.len() < ROUND
            && self.parked.len() + inputs.len() < PARKED
            && let Ok((id, ask)) = self.mailbox.asked.try_recv()
        {
            inputs.push(Input::Asked(id, ask));
        }
        while inputs.len() < ROUND
            && self.parked.is_empty()
            && let Some(event) = self.hands.try_next()
        {
            inputs.push(event);
        }
    }

    async fn round(&mut self, inputs: Vec<Input>) -> Result<(), HostError> {
        let mut round = std::mem::take(&mut self.parked);
        round.extend(inputs);
        if round.is_empty() {
            return Ok(());
        }
        match self.attempt(&round).await {
            Ok(()) => {
                self.terminate_by = None;
                Ok(())
            }
            Err(LogError::Refused { source, .. }) => {
                tracing::warn!(error = %source, "the log cannot be written; the session waits for its disk");
                self.refused(round).await
            }
            Err(other) => Err(other.into()),
        }
    }

    /// Lets the machine decide about these inputs, and does what it says once that is durable. When the disk refuses, nothing has happened.
    async fn attempt(&mut self, inputs: &[Input]) -> Result<(), LogError> {
        let now = Now { clock: clock::now(), elapsed: self.began.elapsed() };
        let saved = self.machine.save();
        let mut outputs = Vec::new();
        for input in inputs {
            self.machine.handle(input.clone(), now, &mut outputs);
        }
        if let Err(error) = self.append(&outputs, now).await {
            self.machine.restore(saved);
            return Err(error);
        }
        for output in outputs {
            self.perform(output);
        }
        Ok(())
    }

    /// Writes all entries among the outputs with one write and one fdatasync.
    async fn append(&mut self, outputs: &[Output], now: Now) -> Result<(), LogError> {
        let Some(mut writer) = self.writer.take() else { return Ok(()) };
        let mut lines: Vec<Vec<u8>> = Vec::new();
        let mut sequence = writer.durable();
        let decided = outputs.iter().filter_map(|output| match output {
            Output::Append(known) => Some(known),
            Output::Respond(..)
            | Output::Live { .. }
            | Output::Probe
            | Output::Open { .. }
            | Output::Configure(_)
            | Output::Turn { .. }
            | Output::Interrupt
            | Output::Answer { .. }
            | Output::Close
            | Output::Sweep
            | Output::Merge
            | Output::Exit => None,
        });
        for known in self.owed.iter().chain(decided) {
            sequence += 1;
            lines.push(line(known, sequence, now));
        }
        if lines.is_empty() {
            self.writer = Some(writer);
            return Ok(());
        }
        // Not on our own thread: while the disk works, the link answers and the agent is heard.
        let written = tokio::task::spawn_blocking(move || {
            let written = writer.append_batch(&lines);
            (writer, written)
        });
        let (writer, written) = match written.await {
            Ok(returned) => returned,
            Err(panicked) => std::panic::resume_unwind(panicked.into_panic()),
        };
        self.writer = Some(writer);
        self.mailbox.head(written?);
        self.owed.clear();
        Ok(())
    }

    /// What must not wait for a disk that refuses: the end of a turn that is over its budget, was interrupted, or is of a revoked device. Its
    /// entries are owed to the log; where more would follow than that end, nothing happens.
    fn enforce(&mut self, input: Input) -> bool {
        let now = Now { clock: clock::now(), elapsed: self.began.elapsed() };
        let saved = self.machine.save();
        let mut outputs = Vec::new();
        self.machine.handle(input, now, &mut outputs);
        let is_only_an_end = outputs.iter().all(|output| match output {
            Output::Append(_) | Output::Respond(..) | Output::Interrupt | Output::Close | Output::Sweep => {
                true
            }
            Output::Live { .. }
            | Output::Probe
            | Output::Open { .. }
            | Output::Configure(_)
            | Output::Turn { .. }
            | Output::Answer { .. }
            | Output::Merge
            | Output::Exit => false,
        });
        if !is_only_an_end || self.owed.len() >= OWED {
            self.machine.restore(saved);
            return false;
        }
        for output in outputs {
            if let Output::Append(known) = output {
                self.logged(&known);
                self.owed.push(known);
            } else {
                self.perform(output);
            }
        }
        true
    }

    /// The disk is full or the like: clients are told, what else happened waits, and the agent can still be interrupted.
    async fn refused(&mut self, inputs: Vec<Input>) -> Result<(), HostError> {
        for input in inputs {
            match input {
                Input::Asked(to, ask) => {
                    let asked = Input::Asked(to.clone(), ask.clone());
                    match ask {
                        Ask::Interrupt(_) if self.enforce(asked.clone()) => continue,
                        Ask::Revoke(_) | Ask::Release => {
                            // Nobody would ask again, so these must not be lost.
                            if !matches!(ask, Ask::Revoke(_)) || !self.enforce(asked.clone()) {
                                self.parked.push(asked);
                            }
                            continue;
                        }
                        Ask::Answer(..) | Ask::Configure(_) | Ask::Stop
                            if self.attempt(std::slice::from_ref(&asked)).await.is_ok() =>
                        {
                            continue;
                        }
                        Ask::Submit { .. }
                        | Ask::Interrupt(_)
                        | Ask::Answer(..)
                        | Ask::Configure(_)
                        | Ask::Stop
                        | Ask::Merge => {}
                    }
                    let detail =
                        "the session's log cannot be written: make room on the disk, then send it again";
                    self.mailbox.respond(to, Response::Failed(Failed::with(Fault::Storage, detail)));
                }
                Input::Tick => {}
                Input::Terminate => {
                    self.terminate_by.get_or_insert(Instant::now() + PATIENCE);
                    self.parked.push(Input::Terminate);
                }
                Input::Start
                | Input::Probed(_)
                | Input::Opened
                | Input::OpenFailed(_)
                | Input::Agent(_)
                | Input::Merged(_) => self.parked.push(input),
            }
        }
        if self.machine.deadline().is_some_and(|at| at <= self.began.elapsed()) {
            // A budget holds whatever the disk does.
            self.enforce(Input::Tick);
        }
        if self.terminate_by.is_some_and(|by| by <= Instant::now()) {
            // The next host finds a run without an end, and says so.
            self.is_over = true;
        }
        Ok(())
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Append(known) => self.logged(&known),
            Output::Respond(to, response) => self.mailbox.respond(to, response),
            Output::Live { message, kind, text } => {
                self.live.push(message, kind, &text);
                self.flush_at.get_or_insert(Instant::now() + GATHER);
            }
            Output::Probe => self.hands.probe(),
            Output::Open { conversation, chosen } => self.hands.open(conversation, chosen),
            Output::Configure(chosen) => self.hands.configure(chosen),
            Output::Turn { submission, text } => {
                self.live.clear();
                self.hands.turn(submission, &text);
            }
            Output::Interrupt => self.hands.interrupt(),
            Output::Answer { input, decision } => self.hands.answer(input, decision),
            Output::Close => self.hands.close(),
            Output::Sweep => self.hands.sweep(),
            Output::Merge => self.hands.merge(),
            Output::Exit => self.is_over = true,
        }
    }

    /// An entry replaces the live text of its message.
    fn logged(&mut self, known: &Known) {
        use shared::frame::DeltaKind;
        match known {
            Known::Assistant(entry) => self.live.replaced(&entry.message, DeltaKind::Assistant),
            Known::Thinking(entry) => self.live.replaced(&entry.message, DeltaKind::Thinking),
            Known::Result(entry) => self.live.replaced(&entry.call, DeltaKind::Tool),
            Known::Settled { .. } => self.live.clear(),
            Known::User(_)
            | Known::Tool(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Input(_)
            | Known::Resolved(_)
            | Known::Settings { .. }
            | Known::Status { .. }
            | Known::Gate { .. }
            | Known::Ended { .. }
            | Known::Began { .. }
            | Known::Merged { .. } => {}
        }
    }

    /// Sends live text as far as the link takes it.
    fn flush(&mut self) {
        self.flush_at = None;
        while !self.live.is_empty() {
            let Ok(permit) = self.mailbox.deltas.try_reserve() else {
                self.flush_at = Some(Instant::now() + GATHER);
                return;
            };
            if let Some(delta) = self.live.take() {
                permit.send(delta);
            }
        }
    }
}

/// An entry as a line; one that no line can hold, which the bounds of what an agent says rule out, becomes a notice.
fn line(known: &Known, sequence: u64, now: Now) -> Vec<u8> {
    let write = |known: Known| Entry { sequence, timestamp: now.clock, event: known.into() }.to_line();
    let unfit =
        || Known::notice(Level::Error, format!("A `{}` entry was too large for the log.", known.kind()));
    // A notice of one sentence always fits.
    write(known.clone()).or_else(|| write(unfit())).unwrap_or_default()
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}
