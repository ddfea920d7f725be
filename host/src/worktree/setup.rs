//! The command that a person wants run once in each new worktree, before the first turn.

use std::path::Path;
use std::time::Duration;

use shared::record::Worktree;
use tokio::io::{AsyncRead, AsyncReadExt as _};

use super::git::{Git, GitError};
use crate::process::{Environment, Exit, Owned, SpawnError, Spec};
use crate::text;

/// How long it may take: a first build, and no more.
const LIMIT: Duration = Duration::from_secs(30 * 60);
/// The last bytes of its output, where errors are, that a person is shown.
const SHOWN: usize = 4 * 1024;
/// The file, in git's own folder of the worktree, that says that it has run there.
const DONE: &str = "aude-setup";

/// Why the set-up command did not do.
#[derive(Debug, thiserror::Error)]
pub enum SetupError {
    /// It could not be started.
    #[error("the set-up command of the worktree could not be started: {0}")]
    NotStarted(#[from] SpawnError),
    /// It took too long.
    #[error("the set-up command of the worktree did not end within {} minutes and was ended", LIMIT.as_secs() / 60)]
    TooLong,
    /// It failed.
    #[error(
        "the set-up command of the worktree failed ({how}); see `setup` under [worktree] in config.toml. It said:\n{said}"
    )]
    Failed {
        /// Its exit.
        how: String,
        /// The end of what it said.
        said: String,
    },
    /// The system lost it, or it could not be noted.
    #[error("the set-up command of the worktree: {0}")]
    System(#[from] std::io::Error),
    /// Git does not know the worktree.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Runs `command` by `/bin/sh` in the worktree, once; later calls do nothing.
///
/// # Errors
/// [`SetupError`] where it fails; it is run again the next time.
pub async fn set_up(git: &Git, worktree: &Worktree, command: &str) -> Result<(), SetupError> {
    let path = Path::new(&worktree.path);
    let own = git.line(path, &["rev-parse", "--absolute-git-dir"]).await?;
    let done = Path::new(&own).join(DONE);
    if done.exists() {
        return Ok(());
    }
    let spec = Spec {
        program: "/bin/sh".into(),
        arguments: vec!["-c".into(), command.into()],
        working_directory: path.to_path_buf(),
        environment: Environment::Inherited(Vec::new()),
        run: git.run,
        guard_program: git.guard_program.clone(),
    };
    let mut owned = Owned::spawn(spec)?;
    drop(owned.stdin.take());
    let (stdout, stderr) = (owned.stdout.take(), owned.stderr.take());
    let work = async { tokio::join!(owned.wait(), last(stdout), last(stderr)) };
    let Ok((exit, output, errors)) = tokio::time::timeout(LIMIT, work).await else {
        let _ = owned.kill().await;
        return Err(SetupError::TooLong);
    };
    let how = match exit? {
        Exit::Status(0) => {
            std::fs::write(&done, "")?;
            return Ok(());
        }
        Exit::Status(status) => format!("exit status {status}"),
        Exit::Signal(signal) => format!("signal {signal}"),
    };
    let said = format!("{output}{errors}");
    Err(SetupError::Failed { how, said: text::one_line(said.trim(), SHOWN) })
}

/// The end of a stream, in bounded memory.
async fn last(stream: Option<impl AsyncRead + Unpin>) -> String {
    let mut kept = Vec::new();
    if let Some(mut stream) = stream {
        let mut piece = [0; 4096];
        while let Ok(read @ 1..) = stream.read(&mut piece).await {
            kept.extend_from_slice(piece.get(..read).unwrap_or_default());
            let excess = kept.len().saturating_sub(SHOWN / 2);
            kept.drain(..excess);
        }
    }
    String::from_utf8_lossy(&kept).into_owned()
}
