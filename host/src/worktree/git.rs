//! Runs git as a tool that obeys: no environment of a person's shell, no hooks, no prompts, bounded in time and output.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::time::Duration;

use shared::ids::HostId;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use crate::process::{Environment, Exit, Owned, SpawnError, Spec};

/// How long one command may take: a checkout of a large repository on a slow disk, and no more.
pub const GIT_COMMAND: Duration = Duration::from_secs(120);
/// Output that is kept of a command, in bytes; a list of conflicts is cut there.
const OUTPUT_BYTES: u64 = 1024 * 1024;
/// What git says when it refuses, in characters.
const SAID: usize = 600;

/// Git for one purpose.
#[derive(Debug, Clone)]
pub struct Git {
    /// The run of the host for which it works.
    pub run: HostId,
    /// The program that has the `guard` command: `aude` itself.
    pub guard_program: PathBuf,
}

/// Why git did not do it.
#[derive(Debug, thiserror::Error)]
pub enum GitError {
    /// It could not be started.
    #[error("git is needed for worktrees: {0}")]
    NotStarted(#[from] SpawnError),
    /// It took too long.
    #[error("git did not end within {} seconds", GIT_COMMAND.as_secs())]
    TooLong,
    /// The system lost it.
    #[error("git was lost: {0}")]
    Lost(std::io::Error),
    /// It refused.
    #[error("git says: {text}")]
    Said {
        /// Its exit.
        exit: Exit,
        /// Its standard output, for commands that answer by their exit.
        output: String,
        /// What it said.
        text: String,
    },
}

impl Git {
    /// Runs a command in a folder; gives its standard output.
    ///
    /// # Errors
    /// [`GitError`] where it does not exit with 0.
    pub async fn run(&self, folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
        let mut all: Vec<OsString> = [
            // A repository must not run programs on us: hooks and watchers are for the person's own git.
            "--no-pager",
            "-c",
            "core.hooksPath=/dev/null",
            "-c",
            "core.fsmonitor=false",
            "-c",
            "commit.gpgSign=false",
            "-c",
            "submodule.recurse=false",
            "-c",
            "advice.detachedHead=false",
            "-c",
            "gc.auto=0",
        ]
        .map(OsString::from)
        .to_vec();
        all.extend(arguments.iter().map(OsString::from));
        let spec = Spec {
            program: "git".into(),
            arguments: all,
            working_directory: folder.to_path_buf(),
            environment: Environment::Inherited(environment()),
            run: self.run,
            guard_program: self.guard_program.clone(),
        };
        let mut owned = Owned::spawn(spec)?;
        drop(owned.stdin.take());
        let (stdout, stderr) = (owned.stdout.take(), owned.stderr.take());
        let work = async { tokio::join!(owned.wait(), bounded(stdout), bounded(stderr)) };
        let Ok((exit, output, said)) = tokio::time::timeout(GIT_COMMAND, work).await else {
            let _ = owned.kill().await;
            return Err(GitError::TooLong);
        };
        match exit.map_err(GitError::Lost)? {
            Exit::Status(0) => Ok(output),
            exit @ (Exit::Status(_) | Exit::Signal(_)) => {
                let said = said.trim();
                let said =
                    said.strip_prefix("fatal: ").or_else(|| said.strip_prefix("error: ")).unwrap_or(said);
                let text =
                    if said.is_empty() { format!("{exit:?}") } else { said.chars().take(SAID).collect() };
                Err(GitError::Said { exit, output, text })
            }
        }
    }

    /// Runs a command that says one line.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn line(&self, folder: &Path, arguments: &[&str]) -> Result<String, GitError> {
        Ok(self.run(folder, arguments).await?.trim_end_matches('\n').to_owned())
    }

    /// Whether there is a branch of that name.
    ///
    /// # Errors
    /// As [`Git::run`].
    pub async fn has_branch(&self, folder: &Path, branch: &str) -> Result<bool, GitError> {
        let reference = format!("refs/heads/{branch}");
        match self.run(folder, &["rev-parse", "--verify", "--quiet", "--end-of-options", &reference]).await {
            Ok(_) => Ok(true),
            Err(GitError::Said { exit: Exit::Status(1), .. }) => Ok(false),
            Err(error) => Err(error),
        }
    }
}

/// Nothing of a git that called us, no prompts, one language.
fn environment() -> Vec<(OsString, Option<OsString>)> {
    let ours = std::env::vars_os().map(|(name, _)| name);
    let theirs = ours.filter(|name| name.to_string_lossy().starts_with("GIT_"));
    let mut changes: Vec<_> = theirs.map(|name| (name, None)).collect();
    for (name, value) in [
        ("GIT_TERMINAL_PROMPT", "0"),
        ("GIT_OPTIONAL_LOCKS", "0"),
        ("GIT_EDITOR", "true"),
        ("GIT_PAGER", "cat"),
        ("LC_ALL", "C"),
    ] {
        changes.push((name.into(), Some(value.into())));
    }
    changes
}

async fn bounded(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        // What a broken pipe loses, the exit tells.
        let _ = (&mut stream).take(OUTPUT_BYTES).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut stream, &mut tokio::io::sink()).await;
    }
    String::from_utf8_lossy(&kept).into_owned()
}
