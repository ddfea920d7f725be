//! Starts, owns and ends process trees: nothing that an agent starts outlives the host that wanted it.

use std::collections::BTreeSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::Stdio;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use nix::sys::signal::Signal;
use nix::sys::wait::{WaitPidFlag, waitpid};
use nix::unistd::Pid;
use shared::ids::HostId;
use tokio::process::{Child, ChildStderr, ChildStdin, ChildStdout, Command};

pub mod guard;
mod tree;

/// The environment variable by which a process says for which run of a host (`began.identity`) it was started. Whoever starts a
/// listener or host removes it and [`TREE_VARIABLE`] from its environment: else one that an agent has asked for would count as the agent's.
pub const RUN_VARIABLE: &str = "AUDE_SESSION_RUN";

/// The environment variable by which a process says to which tree it belongs.
pub const TREE_VARIABLE: &str = "AUDE_PROCESS_TREE";

/// Where programs are looked up when the environment has no `PATH`.
const USUAL_PATH: &str = "/usr/local/bin:/usr/bin:/bin";

/// What a guard may take longer than it should on a busy machine.
const MARGIN: Duration = Duration::from_secs(3);

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
    guard: Child,
    pid: i32,
    mark: String,
    exit: Option<Exit>,
}

impl Owned {
    /// Starts a program under a guard. Needs a tokio runtime.
    ///
    /// # Errors
    /// [`SpawnError`] where it cannot be started.
    pub fn spawn(spec: Spec) -> Result<Self, SpawnError> {
        if !spec.working_directory.is_dir() {
            return Err(SpawnError::WorkingDirectory(spec.working_directory));
        }
        let program = find(&spec)?;
        let tree = uuid::Uuid::new_v4().to_string();
        let mut command = Command::new(&spec.guard_program);
        command.arg("guard").arg("--parent").arg(std::process::id().to_string()).arg("--").arg(&program);
        command.args(&spec.arguments).current_dir(&spec.working_directory);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        match &spec.environment {
            Environment::Inherited(changes) => {
                for (name, value) in changes {
                    match value {
                        Some(value) => command.env(name, value),
                        None => command.env_remove(name),
                    };
                }
            }
            Environment::Cleared(only) => {
                command.env_clear().envs(only.iter().map(|(name, value)| (name, value)));
            }
        }
        command.env(RUN_VARIABLE, spec.run.to_string());
        command.env(TREE_VARIABLE, &tree);

        // Held while the guard starts, so that nobody takes a guard that is not yet listed for a stray.
        let mut guards = guards();
        let mut guard =
            command.spawn().map_err(|source| SpawnError::System { program: spec.program.clone(), source })?;
        let pid = guard.id().map_or(0, u32::cast_signed);
        guards.insert(pid);
        drop(guards);
        Ok(Self {
            stdin: guard.stdin.take(),
            stdout: guard.stdout.take(),
            stderr: guard.stderr.take(),
            guard,
            pid,
            mark: format!("{TREE_VARIABLE}={tree}"),
            exit: None,
        })
    }

    /// The pid of the guard, which stands for the tree; `None` once it was waited for.
    #[must_use]
    pub fn guard_pid(&self) -> Option<u32> {
        self.guard.id()
    }

    /// Waits until the program and all that it started are gone. May be dropped and called again. Close or drain its streams first, as for any child.
    ///
    /// # Errors
    /// What the system said.
    pub async fn wait(&mut self) -> std::io::Result<Exit> {
        if let Some(exit) = self.exit {
            return Ok(exit);
        }
        let status = self.guard.wait().await?;
        let exit = match (status.code(), status.signal()) {
            (Some(code), _) => Exit::Status(code),
            (None, signal) => Exit::Signal(signal.unwrap_or(Signal::SIGKILL as i32)),
        };
        if exit == Exit::Signal(Signal::SIGKILL as i32) {
            // Either the program or its guard was killed; a guard that was killed has left its tree to us.
            let (guard, mark) = (self.pid, self.mark.clone());
            tokio::task::spawn_blocking(move || end_strays(guard, &mark)).await?;
        }
        guards().remove(&self.pid);
        self.exit = Some(exit);
        Ok(exit)
    }

    /// Ends the tree: SIGTERM to the program, [`GRACE`], then SIGKILL to all that is left of it. Returns when all are gone.
    ///
    /// # Errors
    /// What the system said.
    pub async fn kill(&mut self) -> std::io::Result<Exit> {
        self.stdin = None;
        self.ask_to_end();
        if let Ok(ended) = tokio::time::timeout(GRACE + tree::PERSISTENCE + MARGIN, self.wait()).await {
            return ended;
        }
        // The guard itself is stuck or was stopped.
        self.guard.start_kill()?;
        self.wait().await
    }

    /// Asks the guard to end the tree as [`Owned::kill`] does, and does not wait.
    pub fn ask_to_end(&self) {
        // Only while it was not waited for: until then the pid cannot be anybody else's.
        if let Some(pid) = self.guard.id() {
            tree::signal(pid.cast_signed(), Signal::SIGTERM);
        }
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.ask_to_end();
        guards().remove(&self.pid);
    }
}

/// Makes this process the parent of orphans among its descendants, so that none is lost when a guard is killed. The host calls it once, first of all.
/// From then on whatever it starts must be started with [`Owned::spawn`]: another child may be taken for an orphan and ended.
///
/// # Errors
/// What the system said.
pub fn become_subreaper() -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    nix::sys::prctl::set_child_subreaper(true)?;
    IS_SUBREAPER.store(true, Ordering::Release);
    Ok(())
}

/// Ends every process of our user that was started for `run`, with its descendants; never this process or one above it.
/// Blocks for at most some seconds. Gives the number of processes ended.
pub fn sweep(run: HostId) -> usize {
    let mark = format!("{RUN_VARIABLE}={run}");
    let me = Pid::this().as_raw();
    tree::end_all(|processes| {
        let spared = tree::with_ancestors(processes, me);
        &tree::with_descendants(processes, &(&tree::marked(processes, &mark) - &spared)) - &spared
    })
}

/// Ends what a killed guard has left behind: what carries its mark or sits in its session, and the orphans that came to us.
fn end_strays(guard: i32, mark: &str) {
    let me = Pid::this().as_raw();
    tree::end_all(|processes| {
        let guards = guards();
        let is_orphan = |process: &tree::Process| {
            IS_SUBREAPER.load(Ordering::Acquire) && process.parent == me && !guards.contains(&process.pid)
        };
        let left = processes.iter().filter(|process| process.session == guard || is_orphan(process));
        let mut roots = tree::marked(processes, mark);
        roots.extend(left.map(|process| process.pid));
        let spared = tree::with_ancestors(processes, me);
        &tree::with_descendants(processes, &(&roots - &spared)) - &spared
    });
    // The orphans are our children now; nobody else asks how they ended.
    let guards = guards();
    for orphan in tree::all().iter().filter(|process| process.is_zombie && process.parent == me) {
        if IS_SUBREAPER.load(Ordering::Acquire) && !guards.contains(&orphan.pid) {
            let _ = waitpid(Pid::from_raw(orphan.pid), Some(WaitPidFlag::WNOHANG));
        }
    }
}

/// The guards of this process that were not yet waited for.
fn guards() -> MutexGuard<'static, BTreeSet<i32>> {
    static GUARDS: Mutex<BTreeSet<i32>> = Mutex::new(BTreeSet::new());
    GUARDS.lock().unwrap_or_else(PoisonError::into_inner)
}

static IS_SUBREAPER: AtomicBool = AtomicBool::new(false);

/// The program as a path: names are looked up where the program itself would look them up.
fn find(spec: &Spec) -> Result<PathBuf, SpawnError> {
    let not_found = || SpawnError::NotFound(spec.program.clone());
    if spec.program.as_bytes().contains(&b'/') {
        let path = spec.working_directory.join(&spec.program);
        return if path.is_file() { Ok(path) } else { Err(not_found()) };
    }
    let path = match &spec.environment {
        Environment::Inherited(changes) => changes
            .iter()
            .rfind(|(name, _)| name == "PATH")
            .map_or_else(|| std::env::var_os("PATH"), |(_, value)| value.clone()),
        Environment::Cleared(only) => {
            only.iter().rfind(|(name, _)| name == "PATH").map(|(_, value)| value.clone())
        }
    };
    let path = path.unwrap_or_else(|| USUAL_PATH.into());
    // Relative directories are passed over: they would name another program in each working directory.
    let mut found = std::env::split_paths(&path).filter(|directory| directory.is_absolute());
    found.find_map(|directory| executable(directory.join(&spec.program))).ok_or_else(not_found)
}

fn executable(path: PathBuf) -> Option<PathBuf> {
    (path.is_file() && nix::unistd::access(&path, nix::unistd::AccessFlags::X_OK).is_ok()).then_some(path)
}
