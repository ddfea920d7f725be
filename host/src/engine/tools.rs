//! The tools: a call is read into an [`Action`] with a title for people, and permitted work is done and gives an [`Outcome`].

use std::sync::Arc;

use serde::Deserialize;
use serde_json::Value;
use shared::decision::Ask;
use shared::entry::{Diff, Plan, ResultStatus, Step, ToolClass};
use shared::ids::{HostId, PartId};
use shared::limits;
use shared::status::Exit;
use std::path::PathBuf;
use std::time::Duration;
use tokio::sync::{Mutex, mpsc};

use super::config::SandboxConfig;
use super::policy::{Permitted, Work};
use super::workspace::Workspace;
use super::{EngineEvent, Stop};
use crate::text;

mod bash;
mod bounded;
mod child;
mod file;
mod find;
mod specs;

pub use child::Confined;
pub use specs::ToolSpec;

/// How long a command may run where the call does not say.
const SECONDS: u64 = 120;
/// How long a call may ask for: a build, not a server.
const SECONDS_MAX: u64 = 600;
/// Characters of a title.
const TITLE_CHARACTERS: usize = 120;
/// Characters of a step of a plan: it is one line.
const STEP_CHARACTERS: usize = 500;
/// The largest diff of which both sides are shown whole, in bytes of each: it goes to every client.
const DIFF_BYTES: usize = 64 * 1024;

/// A tool call, read.
#[derive(Debug, Clone, PartialEq)]
pub enum Action {
    /// `read`.
    Read(ReadFile),
    /// `write`.
    Write(WriteFile),
    /// `edit`.
    Edit(EditFile),
    /// `glob`.
    Glob(Glob),
    /// `grep`.
    Grep(Grep),
    /// `bash`.
    Bash(RunCommand),
    /// `todo`.
    Plan(SetPlan),
    /// `ask`.
    Ask(Ask),
}

/// What `read` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ReadFile {
    /// The file.
    pub path: String,
    /// The first line to be given, from 1.
    #[serde(default = "first")]
    pub first_line: u64,
    /// How many lines; all where it is left out.
    #[serde(default)]
    pub lines: Option<u64>,
}

fn first() -> u64 {
    1
}

/// What `write` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WriteFile {
    /// The file; its folders are made.
    pub path: String,
    /// All of its content.
    pub content: String,
}

/// What `edit` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EditFile {
    /// The file.
    pub path: String,
    /// The text that is there, exactly.
    pub old: String,
    /// The text that is to be there.
    pub new: String,
    /// Whether all places are meant; where not, there must be exactly one.
    #[serde(default)]
    pub all: bool,
}

/// What `glob` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Glob {
    /// The pattern, on the path from `path`.
    pub pattern: String,
    /// The folder below which is looked.
    #[serde(default = "here")]
    pub path: String,
}

/// What `grep` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grep {
    /// The regular expression, on one line.
    pub pattern: String,
    /// The file, or the folder below which is looked.
    #[serde(default = "here")]
    pub path: String,
    /// Only files whose path fits this.
    #[serde(default)]
    pub glob: Option<String>,
    /// Whether capital and small letters are the same.
    #[serde(default)]
    pub ignore_case: bool,
}

fn here() -> String {
    ".".to_owned()
}

/// What `bash` is given.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RunCommand {
    /// The command.
    pub command: String,
    /// The time limit in seconds.
    #[serde(default)]
    pub seconds: Option<u64>,
}

impl RunCommand {
    /// How long it may run.
    #[must_use]
    pub fn seconds(&self) -> Duration {
        Duration::from_secs(self.seconds.unwrap_or(SECONDS).clamp(1, SECONDS_MAX))
    }
}

/// What `todo` is given.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SetPlan {
    /// The steps in order.
    pub steps: Vec<Step>,
}

/// A call that no tool understands; the sentence is for the model.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadCall {
    /// There is no such tool.
    #[error("there is no tool {0:?}; there are read, write, edit, glob, grep, bash, todo and ask")]
    UnknownTool(String),
    /// It was given something else than it takes.
    #[error("the tool {tool} cannot use what it was given: {detail}")]
    Input {
        /// The tool.
        tool: String,
        /// What is wrong.
        detail: String,
    },
}

impl Action {
    /// Reads a call.
    ///
    /// # Errors
    /// [`BadCall`] where there is no such tool, or it takes something else.
    pub fn read(tool: &str, input: &Value) -> Result<Self, BadCall> {
        let wrong =
            |error: serde_json::Error| BadCall::Input { tool: tool.to_owned(), detail: error.to_string() };
        match tool {
            "read" => ReadFile::deserialize(input).map(Self::Read).map_err(wrong),
            "write" => WriteFile::deserialize(input).map(Self::Write).map_err(wrong),
            "edit" => EditFile::deserialize(input).map(Self::Edit).map_err(wrong),
            "glob" => Glob::deserialize(input).map(Self::Glob).map_err(wrong),
            "grep" => Grep::deserialize(input).map(Self::Grep).map_err(wrong),
            "bash" => RunCommand::deserialize(input).map(Self::Bash).map_err(wrong),
            "todo" => SetPlan::deserialize(input).map(Self::Plan).map_err(wrong),
            "ask" => specs::AskForm::deserialize(input)
                .map_err(|error| error.to_string())
                .and_then(specs::AskForm::ask)
                .map(Self::Ask)
                .map_err(|detail| BadCall::Input { tool: tool.to_owned(), detail }),
            unknown => Err(BadCall::UnknownTool(text::one_line(unknown, 40))),
        }
    }

    /// One line for people.
    #[must_use]
    pub fn title(&self) -> String {
        let title = match self {
            Self::Read(read) => format!("Read {}", read.path),
            Self::Write(write) => format!("Write {} ({})", write.path, line_count(&write.content)),
            Self::Edit(edit) => format!("Edit {}", edit.path),
            Self::Glob(glob) => format!("Find {}", glob.pattern),
            Self::Grep(grep) => format!("Search for {}", grep.pattern),
            Self::Bash(bash) => format!("Run `{}`", bash.command),
            Self::Plan(plan) => format!("Plan {} steps", plan.steps.len()),
            Self::Ask(ask) => format!("Ask: {}", ask.question),
        };
        text::one_line(&title, TITLE_CHARACTERS)
    }

    /// What sort of tool it is.
    #[must_use]
    pub fn class(&self) -> ToolClass {
        match self {
            Self::Read(_) => ToolClass::Read,
            Self::Write(_) | Self::Edit(_) => ToolClass::Edit,
            Self::Glob(_) | Self::Grep(_) => ToolClass::Search,
            Self::Bash(_) => ToolClass::Execute,
            Self::Plan(_) => ToolClass::Think,
            Self::Ask(_) => ToolClass::Other,
        }
    }
}

fn line_count(content: &str) -> String {
    match content.lines().count() {
        1 => "1 line".to_owned(),
        count => format!("{count} lines"),
    }
}

/// What came of a call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it went.
    pub status: ResultStatus,
    /// What the model is told, at most [`limits::RESULT_BYTES`].
    pub text: String,
    /// What changed in a file.
    pub diff: Option<Diff>,
    /// How the command ended.
    pub exit: Option<Exit>,
    /// Bytes that were left out of the text.
    pub truncated: Option<u64>,
}

impl Outcome {
    /// An outcome with a text and nothing else.
    #[must_use]
    pub fn plain(status: ResultStatus, said: &str) -> Self {
        let clean = text::strip_controls(said);
        let kept = text::cut(&clean, limits::RESULT_BYTES);
        let left_out = u64::try_from(clean.len() - kept.len()).unwrap_or(u64::MAX);
        Self {
            status,
            text: kept.to_owned(),
            diff: None,
            exit: None,
            truncated: (left_out > 0).then_some(left_out),
        }
    }

    /// The outcome of a call that was stopped before or while it ran.
    #[must_use]
    pub fn interrupted() -> Self {
        Self::plain(ResultStatus::Interrupted, "interrupted")
    }
}

/// Where and for whom tools work.
#[derive(Debug, Clone)]
pub struct Tools {
    workspace: Workspace,
    run: HostId,
    guard_program: PathBuf,
    /// Changes to files happen one after the other, in the order of their calls.
    edits: Arc<Mutex<()>>,
    /// Variables of our environment that no child gets.
    hidden: Arc<Vec<String>>,
    /// How children are confined.
    sandbox: Option<Arc<SandboxConfig>>,
}

/// One call that runs: who it is, whom it tells, what stops it.
#[derive(Debug, Clone)]
pub struct Running {
    /// The id of the call.
    pub call: PartId,
    /// Who hears its live output.
    pub events: mpsc::Sender<EngineEvent>,
    /// What stops it.
    pub stop: Stop,
}

impl Tools {
    /// Tools that work in a workspace.
    #[must_use]
    pub fn new(workspace: Workspace, run: HostId, guard_program: PathBuf) -> Self {
        Self { workspace, run, guard_program, edits: Arc::default(), hidden: Arc::default(), sandbox: None }
    }

    /// The same, whose children never get these variables of our environment.
    #[must_use]
    pub fn hiding(mut self, variables: Vec<String>) -> Self {
        self.hidden = Arc::new(variables);
        self
    }

    /// The same, whose commands are confined.
    #[must_use]
    pub fn confined(mut self, sandbox: Option<SandboxConfig>) -> Self {
        self.sandbox = sandbox.map(Arc::new);
        self
    }

    /// What the model is told of the tools.
    #[must_use]
    pub fn specs(&self) -> Vec<ToolSpec> {
        specs::own()
    }

    /// Reads a call.
    ///
    /// # Errors
    /// [`BadCall`] where there is no such tool, or it takes something else.
    pub fn read(&self, tool: &str, input: &Value) -> Result<Action, BadCall> {
        Action::read(tool, input)
    }

    /// The workspace.
    #[must_use]
    pub fn workspace(&self) -> &Workspace {
        &self.workspace
    }

    /// Does permitted work. Stopped, it ends what it started and gives [`Outcome::interrupted`] or what it has.
    pub async fn run(&self, work: Permitted, running: Running) -> Outcome {
        match work.0 {
            Work::Read(read) => self.on_files(move |workspace| file::read(workspace, &read)).await,
            Work::Glob(glob) => {
                self.search(running, move |workspace, stop| find::glob(workspace, &glob, &stop)).await
            }
            Work::Grep(grep) => {
                self.search(running, move |workspace, stop| find::grep(workspace, &grep, &stop)).await
            }
            Work::Write(write) => self.change(running, move |workspace| file::write(workspace, &write)).await,
            Work::Edit(edit) => self.change(running, move |workspace| file::edit(workspace, &edit)).await,
            Work::Run(harmless) => bash::run(self, &bash::Command::of(&harmless), running).await,
            Work::Shell(command) => bash::run(self, &bash::Command::shell(&command), running).await,
            Work::Plan(mut plan) => {
                for step in &mut plan.steps {
                    step.text = text::one_line(&step.text, STEP_CHARACTERS);
                }
                let shown = format!("The plan has {} steps.", plan.steps.len());
                let _ = running.events.send(EngineEvent::Plan(Plan { steps: plan.steps })).await;
                Outcome::plain(ResultStatus::Ok, &shown)
            }
        }
    }

    /// A search looks now and then whether it is stopped.
    async fn search(
        &self,
        running: Running,
        work: impl FnOnce(&Workspace, Stop) -> Outcome + Send + 'static,
    ) -> Outcome {
        self.on_files(move |workspace| work(workspace, running.stop)).await
    }

    async fn change(
        &self,
        mut running: Running,
        work: impl FnOnce(&Workspace) -> Outcome + Send + 'static,
    ) -> Outcome {
        let _turn = tokio::select! {
            turn = self.edits.lock() => turn,
            () = running.stop.wait() => return Outcome::interrupted(),
        };
        if running.stop.is_stopped() { Outcome::interrupted() } else { self.on_files(work).await }
    }

    /// Files block, and some file systems block for long.
    async fn on_files(&self, work: impl FnOnce(&Workspace) -> Outcome + Send + 'static) -> Outcome {
        let workspace = self.workspace.clone();
        tokio::task::spawn_blocking(move || work(&workspace))
            .await
            .unwrap_or_else(|_| Outcome::plain(ResultStatus::Error, "the tool itself failed"))
    }
}

#[cfg(test)]
mod tests;
