//! The process of an ACP agent: starts it, carries lines in and out, and ends it with all that it started.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use shared::entry::Level;
use shared::status::Exit;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::handshake::{Handshake, Ready, Step};
use super::mapping::{Mapping, Output, notice};
use super::presets::Program;
use super::wire;
use crate::harness::claude::lines::{Lines, Read};
use crate::harness::claude::trace::Trace;
use crate::harness::{Agent, AgentCommand, AgentEvent, COMMANDS, EVENTS, OpenError, Opening, Place};
use crate::process::{self, Environment, Owned, SpawnError, Spec};

/// From the start to a session that is ready; a busy machine takes some seconds, a long conversation is told again whole.
const START_LIMIT: Duration = Duration::from_secs(90);
/// For the agent to end after it closed its output.
const END_LIMIT: Duration = process::GRACE;
/// For the answer to an interrupt or a change; then the agent is taken for stuck.
const ANSWER_LIMIT: Duration = Duration::from_secs(20);
/// Lines for the agent that wait; one that reads none of so many answers has gone wrong.
const LINES: usize = 256;
/// The file of the trace in the session's directory.
const TRACE: &str = "acp-trace.txt";

/// How the agent is started: with the person's own environment and login, of which we read nothing.
pub(super) fn spec(program: &Program, place: &Place) -> Spec {
    let mut words = program.command.iter().map(OsString::from);
    Spec {
        program: words.next().unwrap_or_default(),
        arguments: words.collect(),
        working_directory: place.working_directory.clone(),
        environment: Environment::Inherited(
            program.environment.iter().map(|(name, value)| (name.into(), Some(value.into()))).collect(),
        ),
        run: place.run,
        guard_program: place.guard_program.clone(),
    }
}

/// Starts the agent and waits until its session is ready.
///
/// A conversation that the agent no longer has is no reason to lose the session: a new one starts, and a notice says so.
pub(super) async fn open(program: &Program, opening: Opening) -> Result<Agent, OpenError> {
    let place = &opening.place;
    let mut link = Link::spawn(spec(program, place))?;
    let result = match tokio::time::timeout(START_LIMIT, link.shake_hands(program, &opening)).await {
        Ok(result) => result,
        Err(_) => Err(start_error("it was not ready in time")),
    };
    let trace_file = place.session_directory.join(TRACE);
    let ready = match result {
        Ok(ready) => ready,
        Err(error) => {
            link.end(trace_file).await;
            return Err(error);
        }
    };
    let mut first = Vec::new();
    if ready.has_lost {
        first.push(notice(
            Level::Warning,
            &format!(
                "{} could not go on with this conversation. It starts a new one and knows nothing of what stands above.",
                program.name
            ),
        ));
    }
    let mapping =
        Mapping::new(program.name.clone(), program.modes.clone(), place.working_directory.clone(), ready);
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (event_queue, events) = mpsc::channel(EVENTS);
    let started = Started { link, mapping, trace_file };
    tokio::spawn(started.run(first, command_queue, event_queue));
    Ok(Agent { commands, events })
}

fn start_error(detail: &str) -> OpenError {
    OpenError::Start { detail: detail.to_owned() }
}

/// The process and its pipes.
struct Link {
    process: Owned,
    lines: Lines<ChildStdout>,
    input: mpsc::Sender<Vec<u8>>,
    trace: Trace,
}

/// The agent takes no more lines.
struct NoInput;

impl Link {
    fn spawn(spec: Spec) -> Result<Self, OpenError> {
        let mut process = Owned::spawn(spec).map_err(|error| match error {
            SpawnError::NotFound(program) => {
                OpenError::NotFound { program: program.to_string_lossy().into_owned() }
            }
            error @ (SpawnError::WorkingDirectory(_) | SpawnError::System { .. }) => {
                start_error(&error.to_string())
            }
        })?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(start_error("its pipes were not there"));
        };
        let trace = Trace::default();
        if let Some(stderr) = process.stderr.take() {
            tokio::spawn(keep(stderr, trace.clone()));
        }
        let (input, queue) = mpsc::channel(LINES);
        tokio::spawn(write(stdin, queue));
        Ok(Self { process, lines: Lines::new(stdout), input, trace })
    }

    async fn shake_hands(&mut self, program: &Program, opening: &Opening) -> Result<Ready, OpenError> {
        let (mut handshake, first) = Handshake::new(program, opening);
        self.write(&first).map_err(|NoInput| start_error("it took no input"))?;
        loop {
            let line = match self.lines.next().await {
                Read::Line(line) => line,
                Read::TooLong => {
                    self.trace.line("a line that is too long", b"");
                    continue;
                }
                Read::End => return Err(start_error("it ended at once")),
            };
            let Some(message) = wire::read(&line) else {
                if !line.iter().all(u8::is_ascii_whitespace) {
                    self.trace.line("not a message", &line);
                }
                continue;
            };
            match handshake.message(message) {
                Step::Wait => {}
                Step::Write(value) => {
                    self.write(&value).map_err(|NoInput| start_error("it took no input"))?
                }
                Step::Ready(ready) => return Ok(*ready),
                Step::Fail(error) => return Err(error),
            }
        }
    }

    /// Hands a line to the task that writes; never waits, because the agent may be waiting for us to read.
    fn write(&self, value: &Value) -> Result<(), NoInput> {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.input.try_send(line).map_err(|_| NoInput)
    }

    /// Ends a program that did not become an agent.
    async fn end(mut self, trace_file: PathBuf) {
        drop(self.input);
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "an agent that did not start could not be waited for");
        }
        self.trace.save_as(&trace_file);
    }
}

async fn keep(mut stderr: ChildStderr, trace: Trace) {
    let mut buffer = [0; 4096];
    while let Ok(count @ 1..) = stderr.read(&mut buffer).await {
        trace.bytes(&buffer[..count]);
    }
}

async fn write(mut stdin: ChildStdin, mut lines: mpsc::Receiver<Vec<u8>>) {
    while let Some(line) = lines.recv().await {
        if stdin.write_all(&line).await.is_err() {
            return;
        }
    }
}

/// Why the loop over a running agent ended.
enum Over {
    /// The session host let go of it.
    LetGo,
    /// It closed its output.
    Closed,
    /// It reads nothing any more, or does not answer to an interrupt.
    Stuck,
}

/// An agent that is ready.
struct Started {
    link: Link,
    mapping: Mapping,
    trace_file: PathBuf,
}

impl Started {
    async fn run(
        mut self,
        first: Vec<Output>,
        mut commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) {
        let settings = Output::Event(self.mapping.settings());
        let beginning = std::iter::once(settings).chain(first).collect();
        let over = match self.obey(beginning, b"", &events).await {
            Ok(()) => self.carry(&mut commands, &events).await,
            Err(over) => over,
        };
        let Link { mut process, input, trace, .. } = self.link;
        drop(input);
        let ended = match over {
            // Not every agent ends when its input is closed.
            Over::LetGo | Over::Stuck => process.kill().await,
            Over::Closed => match tokio::time::timeout(END_LIMIT, process.wait()).await {
                Ok(ended) => ended,
                Err(_) => process.kill().await,
            },
        };
        // Where the system cannot say how it ended, it was not by its own will.
        let exit = ended.map_or(Exit::Signal(9), exit);
        if !matches!(over, Over::LetGo) {
            let how = match exit {
                Exit::Status(status) => format!("exit status {status}"),
                Exit::Signal(signal) => format!("signal {signal}"),
            };
            for output in self.mapping.gone(&how) {
                if let Output::Event(event) = output {
                    let _ = events.send(event).await;
                }
            }
            trace.save_as(&self.trace_file);
        }
        let _ = events.send(AgentEvent::Exited(exit)).await;
    }

    async fn carry(
        &mut self,
        commands: &mut mpsc::Receiver<AgentCommand>,
        events: &mpsc::Sender<AgentEvent>,
    ) -> Over {
        let mut deadline: Option<Instant> = None;
        loop {
            deadline =
                self.mapping.is_waiting().then(|| deadline.unwrap_or_else(|| Instant::now() + ANSWER_LIMIT));
            let expired = async {
                match deadline {
                    Some(deadline) => tokio::time::sleep_until(deadline).await,
                    None => std::future::pending().await,
                }
            };
            let (outputs, line) = tokio::select! {
                command = commands.recv() => match command {
                    None => return Over::LetGo,
                    Some(AgentCommand::Turn { text, .. }) => (self.mapping.begin(&text), Vec::new()),
                    Some(AgentCommand::Interrupt) => (self.mapping.interrupt(), Vec::new()),
                    Some(AgentCommand::Answer { input, decision }) => (self.mapping.answer(input, &decision), Vec::new()),
                    Some(AgentCommand::Configure(configure)) => (self.mapping.configure(configure), Vec::new()),
                },
                () = expired => {
                    deadline = None;
                    match self.mapping.expire() {
                        Some(outputs) => (outputs, Vec::new()),
                        None => return Over::Stuck,
                    }
                }
                read = self.link.lines.next() => match read {
                    Read::Line(line) => (self.mapping.line(&line), line),
                    Read::TooLong => (vec![Output::Trace("a line that is too long")], Vec::new()),
                    Read::End => return Over::Closed,
                },
            };
            if let Err(over) = self.obey(outputs, &line, events).await {
                return over;
            }
        }
    }

    async fn obey(
        &mut self,
        outputs: Vec<Output>,
        line: &[u8],
        events: &mpsc::Sender<AgentEvent>,
    ) -> Result<(), Over> {
        for output in outputs {
            match output {
                Output::Event(event) => events.send(event).await.map_err(|_| Over::LetGo)?,
                Output::Write(value) => self.link.write(&value).map_err(|NoInput| Over::Stuck)?,
                Output::Trace(reason) => self.link.trace.line(reason, line),
            }
        }
        Ok(())
    }
}

/// How a process ended, for the wire.
pub(super) fn exit(exit: process::Exit) -> Exit {
    match exit {
        process::Exit::Status(status) => Exit::Status(status.unsigned_abs()),
        process::Exit::Signal(signal) => Exit::Signal(signal.unsigned_abs()),
    }
}
