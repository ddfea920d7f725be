//! Starts, owns and ends process trees: nothing that an agent starts outlives the host that wanted it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use shared::ids::HostId;
use tokio::process::{ChildStderr, ChildStdin, ChildStdout};

pub mod guard;

/// The environment variable by which a process says for which run of a host (`began.identity`) it was started.
pub const RUN_VARIABLE: &str = "AUDE_SESSION_RUN";

/// How long a program has between SIGTERM and SIGKILL: enough to save a file, short enough that nobody waits.
pub const GRACE: Duration = Duration::from_secs(2);

/// What to start.
#[derive(Debug, Clone)]
pub struct Spec {
    /// A path, or a name that is looked up in the `PATH` of the environment that the program gets.
    pub program: OsString,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Where it runs.
    pub working_directory: PathBuf,
    /// What it knows.
    pub environment: Environment,
    /// The run of the host for which it is started.
    pub run: HostId,
    /// The program that has the `guard` command: `aude` itself.
    pub guard_program: PathBuf,
}

/// The environment of a program; [`RUN_VARIABLE`] is always added.
#[derive(Debug, Clone)]
pub enum Environment {
    /// Ours, with these set, or removed where the value is `None`.
    Inherited(Vec<(OsString, Option<OsString>)>),
    /// Only these.
    Cleared(Vec<(OsString, OsString)>),
}

/// How a program ended (wire: `exit`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Exit {
    /// It exited with this status.
    Status(i32),
    /// This signal ended it.
    Signal(i32),
}

/// Why a program was not started.
#[derive(Debug, thiserror::Error)]
pub enum SpawnError {
    /// There is no such program.
    #[error("no program {0:?} was found: install it, or put its full path into the configuration")]
    NotFound(OsString),
    /// The working directory cannot be used.
    #[error("the working directory {0:?} is not a directory that can be entered")]
    WorkingDirectory(PathBuf),
    /// The system refused.
    #[error("cannot start {program:?}: {source}")]
    System {
        /// The program.
        program: OsString,
        /// What the system said.
        source: std::io::Error,
    },
}

/// A running program with all that it starts. Dropping it ends all of them.
#[derive(Debug)]
pub struct Owned {
    /// Its standard input; take it, and drop it to close it.
    pub stdin: Option<ChildStdin>,
    /// Its standard output.
    pub stdout: Option<ChildStdout>,
    /// Its standard error.
    pub stderr: Option<ChildStderr>,
}

impl Owned {
    /// Starts a program under a guard. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`SpawnError`] where it cannot be started.
    pub fn spawn(spec: Spec) -> Result<Self, SpawnError> {
        let _ = spec;
        todo!()
    }

    /// The pid of the guard, which stands for the tree; `None` once it was waited for.
    #[must_use]
    pub fn guard_pid(&self) -> Option<u32> {
        todo!()
    }

    /// Waits until the program and all that it started are gone. May be dropped and called again.
    ///
    /// # Errors
    /// What the system said.
    pub async fn wait(&mut self) -> std::io::Result<Exit> {
        todo!()
    }

    /// Ends the tree: SIGTERM to the program, [`GRACE`], then SIGKILL to all that is left of it. Returns when all are gone.
    ///
    /// # Errors
    /// What the system said.
    pub async fn kill(&mut self) -> std::io::Result<Exit> {
        todo!()
    }
}

/// Makes this process the parent of orphans among its descendants, so that none is lost when a guard is killed. The host calls it once, first of all.
/// From then on whatever it starts must be started with [`Owned::spawn`].
///
/// # Errors
/// What the system said.
pub fn become_subreaper() -> std::io::Result<()> {
    todo!()
}

/// Ends every process of ours that was started for `run`, with its descendants; blocks for at most some seconds. Gives the number of processes ended.
#[must_use]
pub fn sweep(run: HostId) -> usize {
    let _ = run;
    todo!()
}
