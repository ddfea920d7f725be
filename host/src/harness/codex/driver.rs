//! The process of Codex: starts it, carries lines in and out, and ends it with all that it started.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::{Value, json};
use shared::entry::Level;
use shared::settings::Settings;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use tokio::time::Instant;

use super::exit;
use super::handshake;
use super::mapping::{Mapping, MayEdit, Output, notice};
use super::wire::{self, Message, Model, text};
use crate::config::Permissions;
use crate::engine::workspace::Workspace;
use crate::harness::claude::lines::{Lines, Read};
use crate::harness::claude::read_json;
use crate::harness::claude::trace::Trace;
use crate::harness::{Agent, AgentCommand, AgentEvent, COMMANDS, EVENTS, OpenError, Opening, Place};
use crate::process::{self, Environment, Owned, SpawnError, Spec};

/// From the start to a thread that is ready; a busy machine takes some seconds.
const START_LIMIT: Duration = Duration::from_secs(60);
/// For the program to take up a turn, and to end one that was interrupted; one that does neither is ended.
const DUE_LIMIT: Duration = Duration::from_secs(60);
/// For the program to end after it closed its output.
const END_LIMIT: Duration = process::GRACE;
/// Lines for the program that wait; one that reads none of so many answers has gone wrong.
const LINES: usize = 256;
/// The file of the trace in the session's directory.
const TRACE: &str = "codex-trace.txt";

/// How the program is started: with the person's own environment and login, of which we read nothing.
pub(super) fn spec(place: &Place, arguments: Vec<OsString>) -> Spec {
    Spec {
        program: place.config.codex.program.clone().map_or_else(|| "codex".into(), PathBuf::into_os_string),
        arguments,
        working_directory: place.working_directory.clone(),
        environment: Environment::Inherited(Vec::new()),
        run: place.run,
        guard_program: place.guard_program.clone(),
    }
}

/// Starts the program and waits until it is ready.
///
/// A conversation that the program no longer has is no reason to lose the session: a new one starts, and a notice says so.
pub(super) async fn open(opening: Opening) -> Result<Agent, OpenError> {
    let place = &opening.place;
    let trace_file = place.session_directory.join(TRACE);
    let mut link = Link::spawn(spec(place, vec!["app-server".into()]))?;
    let result = match tokio::time::timeout(START_LIMIT, link.shake_hands(&opening)).await {
        Ok(result) => result,
        Err(_) => Err(start_error("it was not ready in time")),
    };
    let ready = match result {
        Ok(ready) => ready,
        Err(error) => {
            link.end(&trace_file).await;
            return Err(error);
        }
    };
    let directory = place.working_directory.clone();
    // The program speaks of files by where they really lie.
    let shown = directory.canonicalize().unwrap_or_else(|_| directory.clone()).display().to_string();
    let first = AgentEvent::Settings(ready.settings.clone());
    let may_edit = may_edit(opening.permissions, directory);
    let mapping = Mapping::new(ready.thread, ready.settings, ready.models, ready.is_custom, shown, may_edit);
    let mut beginning = vec![Output::Event(first)];
    if ready.is_lost {
        beginning.push(notice(
            Level::Warning,
            "Codex no longer has this conversation. It starts a new one and knows nothing of what stands above.",
        ));
    }
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (event_queue, events) = mpsc::channel(EVENTS);
    tokio::spawn(Started { link, mapping, trace_file }.run(beginning, command_queue, event_queue));
    Ok(Agent { commands, events })
}

/// Whether the program needs a login of OpenAI's; none where it does not say.
pub(super) async fn needs_login(place: &Place) -> Option<bool> {
    let mut link = Link::spawn(spec(place, vec!["app-server".into()])).ok()?;
    let account = link.account().await.ok();
    drop(link.input);
    if let Err(error) = link.process.kill().await {
        tracing::warn!(%error, "a codex that was probed could not be waited for");
    }
    account?.result["requiresOpenaiAuth"].as_bool()
}

/// With `permissions = "edits"`: changes inside the working directory, links followed, and outside of hidden folders and
/// files, through which commands could run that nobody saw.
fn may_edit(permissions: Permissions, directory: PathBuf) -> MayEdit {
    let is_hidden = |component: Component<'_>| component.as_os_str().as_encoded_bytes().starts_with(b".");
    let is_ordinary = move |workspace: &Workspace, path: &&str| {
        workspace.writable(path).is_ok_and(|inside| {
            inside
                .path()
                .strip_prefix(workspace.root())
                .is_ok_and(|below| below.components().next().is_some() && !below.components().any(is_hidden))
        })
    };
    Box::new(move |paths| {
        permissions == Permissions::Edits
            && Workspace::open(&directory)
                .is_ok_and(|workspace| paths.iter().all(|path| is_ordinary(&workspace, path)))
    })
}

/// A program whose thread is ready.
struct Ready {
    thread: String,
    settings: Settings,
    models: Vec<Model>,
    is_custom: bool,
    is_lost: bool,
}

/// A running program and what we know of its conversation.
struct Started {
    link: Link,
    mapping: Mapping,
    trace_file: PathBuf,
}

/// The process and its pipes.
struct Link {
    process: Owned,
    lines: Lines<ChildStdout>,
    input: mpsc::Sender<Vec<u8>>,
    trace: Trace,
    calls: u64,
}

fn start_error(detail: &str) -> OpenError {
    OpenError::Start { detail: detail.to_owned() }
}

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
        Ok(Self { process, lines: Lines::new(stdout), input, trace, calls: 0 })
    }

    /// Asks and waits for the answer, which may be an error; what else comes is not for us yet.
    async fn call(&mut self, method: &str, params: Value) -> Result<Message, OpenError> {
        self.calls += 1;
        let id = self.calls;
        self.write(&wire::request(id, method, params)).map_err(|NoInput| start_error("it took no input"))?;
        loop {
            let line = match self.lines.next().await {
                Read::Line(line) => line,
                Read::TooLong => {
                    self.trace.line("a line that is too long", b"");
                    continue;
                }
                Read::End => return Err(start_error("it ended at once")),
            };
            let message =
                read_json(&line).ok().and_then(|value| serde_json::from_value::<Message>(value).ok());
            let Some(message) = message else {
                self.trace.line("not a message", &line);
                continue;
            };
            if message.method.is_some() {
                if !message.id.is_null() {
                    let reply = wire::unsupported(&message.id);
                    self.write(&reply).map_err(|NoInput| start_error("it took no input"))?;
                }
            } else if message.id.as_u64() == Some(id) {
                if !message.error.is_null() {
                    self.trace.line("a request that failed", &line);
                }
                return Ok(message);
            }
        }
    }

    async fn account(&mut self) -> Result<Message, OpenError> {
        if !self.call("initialize", handshake::initialize()).await?.error.is_null() {
            return Err(start_error("it refused to initialize"));
        }
        self.write(&json!({ "method": "initialized" })).map_err(|NoInput| start_error("it took no input"))?;
        self.call("account/read", json!({ "refreshToken": false })).await
    }

    async fn shake_hands(&mut self, opening: &Opening) -> Result<Ready, OpenError> {
        // Without the network it cannot say; that is no reason not to open.
        let account = self.account().await?;
        let is_custom = account.result["requiresOpenaiAuth"].as_bool() == Some(false);
        let models = handshake::models(&self.call("model/list", json!({})).await?.result);
        if let Some(model) = &opening.model
            && !handshake::knows(&models, is_custom, model)
        {
            return Err(OpenError::UnknownModel { model: model.clone() });
        }
        let mut is_lost = false;
        if let Some(conversation) = opening.conversation.as_deref() {
            let answer = self.call("thread/resume", handshake::thread(opening, Some(conversation))).await?;
            if answer.error.is_null() {
                let (thread, mut settings) = handshake::ready(opening, &models, &answer.result)?;
                settings.conversation = Some(thread.clone());
                return Ok(Ready { thread, settings, models, is_custom, is_lost });
            }
            let why = text(&answer.error, "message");
            if !["no rollout found", "invalid thread id", "not found"].iter().any(|known| why.contains(known))
            {
                return Err(start_error("it could not go on with its conversation"));
            }
            is_lost = true;
        }
        let answer = self.call("thread/start", handshake::thread(opening, None)).await?;
        if !answer.error.is_null() {
            return Err(start_error("it refused to open a conversation"));
        }
        let (thread, settings) = handshake::ready(opening, &models, &answer.result)?;
        Ok(Ready { thread, settings, models, is_custom, is_lost })
    }

    /// Hands a line to the task that writes; never waits, because the program may be waiting for us to read.
    fn write(&self, value: &Value) -> Result<(), NoInput> {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.input.try_send(line).map_err(|_| NoInput)
    }

    /// Ends a program that did not become an agent.
    async fn end(mut self, trace_file: &Path) {
        drop(self.input);
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "a codex that did not start could not be waited for");
        }
        self.trace.save_as(trace_file);
    }
}

/// The program takes no more lines.
struct NoInput;

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

/// Why the loop over a running program ended.
enum Over {
    /// The session host let go of it.
    LetGo,
    /// It closed its output.
    Closed,
    /// It reads nothing any more, or does not do what it owes.
    Deaf,
}

impl Started {
    async fn run(
        mut self,
        beginning: Vec<Output>,
        mut commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) {
        let over = match self.obey(beginning, b"", &events).await {
            Ok(()) => self.carry(&mut commands, &events).await,
            Err(over) => over,
        };
        let Link { mut process, input, trace, .. } = self.link;
        drop(input);
        let ended = match over {
            Over::LetGo | Over::Deaf => process.kill().await,
            Over::Closed => match tokio::time::timeout(END_LIMIT, process.wait()).await {
                Ok(ended) => ended,
                Err(_) => process.kill().await,
            },
        };
        // Where the system cannot say how it ended, it was not by its own will.
        let exit = ended.map_or(shared::status::Exit::Signal(9), exit);
        if !matches!(over, Over::LetGo) {
            let how = match exit {
                shared::status::Exit::Status(status) => format!("exit status {status}"),
                shared::status::Exit::Signal(signal) => format!("signal {signal}"),
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
        let mut due: Option<Instant> = None;
        loop {
            due = if self.mapping.is_due() { due.or(Some(Instant::now() + DUE_LIMIT)) } else { None };
            let limit = due.unwrap_or_else(|| Instant::now() + DUE_LIMIT);
            let (outputs, line) = tokio::select! {
                command = commands.recv() => match command {
                    None => return Over::LetGo,
                    Some(AgentCommand::Turn { text, .. }) => (self.mapping.begin(&text), Vec::new()),
                    Some(AgentCommand::Interrupt) => (self.mapping.interrupt(), Vec::new()),
                    Some(AgentCommand::Answer { input, decision }) => (self.mapping.answer(input, &decision), Vec::new()),
                    Some(AgentCommand::Configure(configure)) => (self.mapping.configure(&configure), Vec::new()),
                },
                read = self.link.lines.next() => match read {
                    Read::Line(line) => (self.mapping.line(&line), line),
                    Read::TooLong => (vec![Output::Trace("a line that is too long")], Vec::new()),
                    Read::End => return Over::Closed,
                },
                () = tokio::time::sleep_until(limit) => {
                    if due.is_some() {
                        return Over::Deaf;
                    }
                    continue;
                }
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
                Output::Write(value) => self.link.write(&value).map_err(|NoInput| Over::Deaf)?,
                Output::Trace(reason) => self.link.trace.line(reason, line),
            }
        }
        Ok(())
    }
}
