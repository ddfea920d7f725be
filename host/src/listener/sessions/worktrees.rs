//! Worktrees of sessions as the listener sees them: planned and made at the start, removed with the session when nothing is lost.

use std::path::Path;

use shared::failure::{Refusal, Refused};
use shared::ids::HostId;
use shared::record::{Facts, Worktree};
use shared::request::Response;

use super::Sessions;
use crate::files;
use crate::worktree::{self, Git, NoWorktree};

impl Sessions {
    fn git(&self) -> Git {
        Git { run: HostId::random(), guard_program: self.terms.program.clone() }
    }

    /// Writes into the facts which worktree and branch the session gets.
    pub(super) async fn plan_worktree(&self, facts: &mut Facts) -> Result<(), Response> {
        let root = match &self.terms.config.worktree.root {
            Some(root) => self.home.root().join(root),
            None => {
                let root = self.home.worktrees();
                files::private_directory(&root).map_err(|error| bad_directory(&error))?;
                root
            }
        };
        let directory = Path::new(&facts.working_directory);
        let planned = worktree::plan(&self.git(), directory, &facts.name, facts.id, &root).await;
        let (planned, folder) = planned.map_err(|error| bad_directory(&error))?;
        let folder = folder.into_os_string().into_string();
        facts.working_directory = folder.map_err(|_| bad_directory(&NoWorktree::Encoding))?;
        facts.worktree = Some(planned);
        Ok(())
    }

    /// Makes what was planned.
    pub(super) async fn make_worktree(&self, worktree: &Worktree) -> Result<(), Response> {
        worktree::ensure(&self.git(), worktree).await.map_err(|error| bad_directory(&error))
    }

    /// Removes the worktree of a session that is being removed; refused where work would be lost.
    pub(super) async fn remove_worktree(&self, worktree: &Worktree) -> Result<(), Response> {
        let refused = |detail: String| Response::Refused(Refused::with(Refusal::Conflict, detail));
        let git = self.git();
        let lost = worktree::unmerged(&git, worktree).await.map_err(|error| refused(error.to_string()))?;
        if let Some(lost) = lost {
            return Err(refused(format!(
                "this would lose {lost}: `aude merge` brings it into the repository; to throw it away, remove the worktree by \
                 `git worktree remove --force` and the branch by `git branch -D`, then remove the session again"
            )));
        }
        worktree::remove(&git, worktree).await.map_err(|error| refused(error.to_string()))
    }
}

fn bad_directory(error: &impl std::fmt::Display) -> Response {
    Response::Refused(Refused::with(Refusal::BadDirectory, error.to_string()))
}
