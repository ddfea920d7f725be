//! The process of Claude Code: starts it, carries lines in and out, and ends it with all that it started.

use std::ffi::OsString;
use std::path::{Component, Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use shared::entry::Level;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};
use tokio::sync::mpsc;
use uuid::Uuid;

use super::exit;
use super::handshake::{self, Handshake, Step};
use super::lines::{Lines, Read};
use super::mapping::{Mapping, Output, notice};
use super::proposal::{Files, Seen, Unshown};
use super::trace::Trace;
use super::wire;
use crate::harness::{Agent, AgentCommand, AgentEvent, COMMANDS, EVENTS, OpenError, Opening, Place};
use crate::process::{self, Environment, Owned, SpawnError, Spec};

/// From the start to the end of the handshake; a busy machine takes some seconds.
const START_LIMIT: Duration = Duration::from_secs(60);
/// For the program to end after it closed its output.
const END_LIMIT: Duration = process::GRACE;
/// The largest file whose change is shown as a patch of it, in bytes.
const SHOWN_BYTES: u64 = 8 * 1024 * 1024;
/// Lines for the program that wait; one that reads none of so many answers has gone wrong.
const LINES: usize = 256;

/// The program that the configuration names.
fn program(place: &Place) -> OsString {
    place.config.claude.program.clone().map_or_else(|| "claude".into(), PathBuf::into_os_string)
}

/// How the program is started: with the person's own environment and login, of which we read nothing.
pub(super) fn spec(place: &Place, arguments: Vec<OsString>) -> Spec {
    Spec {
        program: program(place),
        arguments,
        working_directory: place.working_directory.clone(),
        environment: Environment::Inherited(environment()),
        run: place.run,
        guard_program: place.guard_program.clone(),
    }
}

/// What differs from the person's own environment.
fn environment() -> Vec<(OsString, Option<OsString>)> {
    // Where `aude up` was typed inside of Claude Code, these would tie our sessions to that one.
    let parent = ["CLAUDECODE", "CLAUDE_CODE_ENTRYPOINT", "CLAUDE_CODE_SESSION_ID", "CLAUDE_CODE_SSE_PORT"];
    let mut changes: Vec<(OsString, Option<OsString>)> = parent.map(|name| (name.into(), None)).to_vec();
    // A program that replaces itself in mid-session is no program that was probed.
    changes.push(("DISABLE_AUTOUPDATER".into(), Some("1".into())));
    changes
}

/// Whether the conversation is a new one.
enum Conversation {
    New,
    Resumed(Uuid),
}

fn arguments(opening: &Opening, conversation: &Conversation) -> Vec<OsString> {
    let mut arguments: Vec<OsString> = [
        "-p",
        "--input-format=stream-json",
        "--output-format=stream-json",
        "--verbose",
        "--include-partial-messages",
        "--replay-user-messages",
        "--permission-prompt-tool=stdio",
    ]
    .map(OsString::from)
    .to_vec();
    // With `=`, so that no value can be taken for an option.
    let mut option = |name: &str, value: &str| arguments.push(format!("--{name}={value}").into());
    option("permission-mode", handshake::mode(opening.permissions));
    match conversation {
        Conversation::New => option("session-id", &Uuid::new_v4().to_string()),
        Conversation::Resumed(id) => option("resume", &id.to_string()),
    }
    for (name, value) in [("model", &opening.model), ("effort", &opening.effort), ("agent", &opening.agent)] {
        if let Some(value) = value {
            option(name, value);
        }
    }
    arguments
}

/// Starts the program and waits until it is ready.
///
/// A conversation that the program no longer has (it deletes old ones) is no reason to lose the session: a new one
/// starts, and a notice says so.
pub(super) async fn open(opening: Opening) -> Result<Agent, OpenError> {
    let stored = opening.conversation.as_deref();
    let conversation = match stored.map(Uuid::try_parse) {
        None => Some(Conversation::New),
        Some(Ok(id)) => Some(Conversation::Resumed(id)),
        Some(Err(_)) => None,
    };
    let resumed = match conversation {
        Some(conversation) => start(&opening, &conversation).await?,
        None => None,
    };
    let (started, lost) = match resumed {
        Some(started) => (started, false),
        None => (
            start(&opening, &Conversation::New)
                .await?
                .ok_or_else(|| start_error("it found no conversation"))?,
            true,
        ),
    };
    let (commands, command_queue) = mpsc::channel(COMMANDS);
    let (event_queue, events) = mpsc::channel(EVENTS);
    let mut first = Vec::new();
    if lost {
        first.push(notice(
            Level::Warning,
            "Claude Code no longer has this conversation. It starts a new one and knows nothing of what stands above.",
        ));
    }
    tokio::spawn(started.run(first, command_queue, event_queue));
    Ok(Agent { commands, events })
}

/// A program that is ready.
struct Started {
    link: Link,
    mapping: Mapping,
    first: AgentEvent,
    session_directory: PathBuf,
}

/// The process and its pipes.
struct Link {
    process: Owned,
    lines: Lines<ChildStdout>,
    input: mpsc::Sender<Vec<u8>>,
    trace: Trace,
}

/// Starts the program; `None` when it does not have the conversation.
async fn start(opening: &Opening, conversation: &Conversation) -> Result<Option<Started>, OpenError> {
    let place = &opening.place;
    let mut link = Link::spawn(spec(place, arguments(opening, conversation)))?;
    let result = match tokio::time::timeout(START_LIMIT, link.shake_hands(opening)).await {
        Ok(result) => result,
        Err(_) => Err(start_error("it was not ready in time")),
    };
    let (handshake, mut settings) = match result {
        Ok(Some(ready)) => ready,
        Ok(None) => {
            link.end(&place.session_directory).await;
            return Ok(None);
        }
        Err(error) => {
            link.end(&place.session_directory).await;
            return Err(error);
        }
    };
    // A new conversation gets its id with its first turn: until then there is nothing to resume.
    if let Conversation::Resumed(id) = conversation {
        settings.conversation = Some(id.to_string());
    }
    let first = AgentEvent::Settings(settings.clone());
    let directory = place.working_directory.clone();
    // The program speaks of files by where they really lie.
    let shown = directory.canonicalize().unwrap_or_else(|_| directory.clone()).display().to_string();
    let mapping = Mapping::new(settings, handshake.names(), opening.permissions, shown, files(directory));
    Ok(Some(Started { link, mapping, first, session_directory: place.session_directory.clone() }))
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
        Ok(Self { process, lines: Lines::new(stdout), input, trace })
    }

    async fn shake_hands(
        &mut self,
        opening: &Opening,
    ) -> Result<Option<(Handshake, shared::settings::Settings)>, OpenError> {
        let (mut handshake, first) = Handshake::new(opening);
        self.write(&first).map_err(|_| start_error("it took no input"))?;
        loop {
            let line = match self.lines.next().await {
                Read::Line(line) => line,
                Read::TooLong => {
                    self.trace.line("a line that is too long", b"");
                    continue;
                }
                Read::End => return Err(start_error("it ended at once")),
            };
            let message = wire::read(&line).ok().and_then(|value| serde_json::from_value(value).ok());
            let Some(message) = message else {
                self.trace.line("not a message", &line);
                continue;
            };
            match handshake.message(message) {
                Step::Wait => {}
                Step::Write(value) => self.write(&value).map_err(|_| start_error("it took no input"))?,
                Step::Ready(settings) => return Ok(Some((handshake, *settings))),
                Step::NoConversation => return Ok(None),
                Step::Fail(error) => return Err(error),
            }
        }
    }

    /// Hands a line to the task that writes; never waits, because the program may be waiting for us to read.
    fn write(&self, value: &Value) -> Result<(), NoInput> {
        let mut line = value.to_string().into_bytes();
        line.push(b'\n');
        self.input.try_send(line).map_err(|_| NoInput)
    }

    /// Ends a program that did not become an agent.
    async fn end(mut self, session_directory: &Path) {
        drop(self.input);
        if let Err(error) = self.process.kill().await {
            tracing::warn!(%error, "a claude that did not start could not be waited for");
        }
        self.trace.save(session_directory);
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
    /// It reads nothing any more.
    Deaf,
}

impl Started {
    async fn run(
        mut self,
        first: Vec<Output>,
        mut commands: mpsc::Receiver<AgentCommand>,
        events: mpsc::Sender<AgentEvent>,
    ) {
        let settings = Output::Event(self.first.clone());
        let beginning = std::iter::once(settings).chain(first).collect();
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
            trace.save(&self.session_directory);
        }
        let _ = events.send(AgentEvent::Exited(exit)).await;
    }

    async fn carry(
        &mut self,
        commands: &mut mpsc::Receiver<AgentCommand>,
        events: &mpsc::Sender<AgentEvent>,
    ) -> Over {
        loop {
            let (outputs, line) = tokio::select! {
                command = commands.recv() => match command {
                    None => return Over::LetGo,
                    Some(AgentCommand::Turn { text, .. }) => (self.mapping.begin(Uuid::new_v4(), &text), Vec::new()),
                    Some(AgentCommand::Interrupt) => (self.mapping.interrupt(), Vec::new()),
                    Some(AgentCommand::Answer { input, decision }) => {
                        (self.mapping.answer(input, decision), Vec::new())
                    }
                    Some(AgentCommand::Configure(wanted)) => (self.mapping.configure(wanted), Vec::new()),
                },
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
                Output::Write(value) => self.link.write(&value).map_err(|NoInput| Over::Deaf)?,
                Output::Trace(reason) => self.link.trace.line(reason, line),
            }
        }
        Ok(())
    }
}

/// What approvals may look at.
fn files(directory: PathBuf) -> Files {
    let [inside, text, real] = [directory.clone(), directory.clone(), directory];
    Files {
        is_inside: Box::new(move |path| is_ordinary_inside(&inside, Path::new(path))),
        text: Box::new(move |path| shown_text(&text.join(path))),
        real: Box::new(move |path| real_path(&real.join(path))),
    }
}

/// The text of a regular file of bounded size.
fn shown_text(path: &Path) -> Seen {
    match std::fs::metadata(path) {
        // A pipe would let us wait for ever.
        Ok(found) if found.is_file() && found.len() <= SHOWN_BYTES => {
            let bytes = std::fs::read(path).map_err(|_| Unshown)?;
            String::from_utf8(bytes).map(Some).map_err(|_| Unshown)
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Ok(_) | Err(_) => Err(Unshown),
    }
}

/// Where a path really lies; what is not there yet is taken as it is named.
fn real_path(path: &Path) -> PathBuf {
    let there = path.ancestors().find_map(|ancestor| Some((ancestor, ancestor.canonicalize().ok()?)));
    match there {
        Some((ancestor, real)) => match path.strip_prefix(ancestor) {
            Ok(rest) if !rest.as_os_str().is_empty() => real.join(rest),
            Ok(_) | Err(_) => real,
        },
        None => path.to_owned(),
    }
}

/// Whether an edit of this path stays inside the directory, links followed, and outside of hidden folders and files:
/// through those commands could run that nobody saw, such as hooks of git.
fn is_ordinary_inside(directory: &Path, path: &Path) -> bool {
    let path = directory.join(path);
    if path.components().any(|component| component == Component::ParentDir) {
        return false;
    }
    // The file may not be there yet, nor some of its folders; what is there is followed to where it really lies.
    let Some(existing) = path.ancestors().find(|ancestor| ancestor.symlink_metadata().is_ok()) else {
        return false;
    };
    let Ok(rest) = path.strip_prefix(existing) else { return false };
    let (Ok(directory), Ok(existing)) = (directory.canonicalize(), existing.canonicalize()) else {
        return false;
    };
    let is_hidden = |component: Component<'_>| component.as_os_str().as_encoded_bytes().starts_with(b".");
    existing
        .join(rest)
        .strip_prefix(&directory)
        .is_ok_and(|below| below.components().next().is_some() && !below.components().any(is_hidden))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_edit_is_inside_only_where_it_really_lies_there() {
        let root = tempfile::tempdir().unwrap();
        let project = root.path().join("project");
        std::fs::create_dir_all(project.join("src")).unwrap();
        std::fs::write(root.path().join("outside.txt"), "").unwrap();
        let link =
            |target: &Path, name: &str| std::os::unix::fs::symlink(target, root.path().join(name)).unwrap();
        link(root.path(), "project/out");
        link(&root.path().join("outside.txt"), "project/file");
        link(&root.path().join("nowhere"), "project/dangling");
        link(&project, "alias");
        link(&project.join("src"), "project/in");
        let is_inside = |directory: &str, path: &str| {
            let path = path.replace("ROOT", root.path().to_str().unwrap());
            is_ordinary_inside(&root.path().join(directory), Path::new(&path))
        };
        for path in ["ROOT/project/a", "a", "src/new/deep/b.rs", "in/c", "ROOT/alias/a", "ROOT/project/src"] {
            assert!(is_inside("project", path), "{path}");
            assert!(is_inside("alias", path), "{path} through a link");
        }
        for path in [
            "ROOT/outside.txt",
            "ROOT/projects/a",
            "out/a",
            "file",
            "dangling",
            "ROOT/project",
            "",
            "/",
            "../project/a",
            "src/../../outside.txt",
            ".git/hooks/x",
            "src/.env",
            "/etc/passwd",
        ] {
            assert!(!is_inside("project", path), "{path}");
        }
    }

    #[test]
    fn no_value_can_be_taken_for_an_option_and_no_prompt_is_an_argument() {
        let directory = PathBuf::from("/");
        let place = Place {
            working_directory: directory.clone(),
            session_directory: directory.clone(),
            run: shared::ids::HostId::random(),
            guard_program: directory,
            config: crate::config::Config::default(),
        };
        let opening = Opening {
            place,
            conversation: None,
            model: Some("--dangerously-skip-permissions".to_owned()),
            effort: None,
            agent: Some("-x".to_owned()),
            permissions: crate::config::Permissions::Edits,
        };
        let arguments = arguments(&opening, &Conversation::New);
        let arguments: Vec<&str> = arguments.iter().map(|argument| argument.to_str().unwrap()).collect();
        assert!(arguments.contains(&"--permission-mode=acceptEdits"));
        assert!(arguments.contains(&"--model=--dangerously-skip-permissions"));
        assert!(arguments.contains(&"--agent=-x"));
        assert!(arguments.iter().all(|argument| *argument == "-p" || argument.starts_with("--")));
    }
}
