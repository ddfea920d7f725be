//! Merging the branch of a session: tried without touching anything, done only where it leaves nothing behind.

use std::path::Path;

use shared::record::Worktree;

use super::git::{Git, GitError};
use crate::process::Exit;

/// Paths that are named to a person; the rest is counted.
const NAMED: usize = 20;

/// The branch is merged; nothing of it is left.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Merged {
    /// The branch that has it now.
    pub into: String,
}

/// Why it was not merged; the repository is as it was. Each sentence says what to do.
#[derive(Debug, thiserror::Error)]
pub enum NotMerged {
    /// The same files were changed on both sides.
    #[error(
        "{branch} and {into} conflict in {paths}. Nothing was changed: merge {into} into the session's branch in {worktree}, commit, then merge again"
    )]
    Conflict {
        /// The session's branch.
        branch: String,
        /// The branch that should have it.
        into: String,
        /// The files.
        paths: String,
        /// Where the session works.
        worktree: String,
    },
    /// The session has work that is in no commit.
    #[error(
        "the worktree {worktree} has uncommitted work ({paths}): commit it there (or let the agent commit it), then merge again"
    )]
    Uncommitted {
        /// Where.
        worktree: String,
        /// The files.
        paths: String,
    },
    /// The checkout that has the target branch is changed.
    #[error("{checkout} has uncommitted changes ({paths}): commit or stash them, then merge again")]
    Dirty {
        /// Where.
        checkout: String,
        /// The files.
        paths: String,
    },
    /// Something else is half done there.
    #[error(
        "{checkout} is in the middle of a {what}: finish or abort it (`git status` says how), then merge again"
    )]
    HalfDone {
        /// Where.
        checkout: String,
        /// What.
        what: &'static str,
    },
    /// There is no branch to merge into.
    #[error("the session was started where no branch was checked out: merge {0} yourself")]
    NoBase(String),
    /// The target is gone.
    #[error(
        "the branch {into}, from which the session was started, does not exist any more: merge {branch} yourself"
    )]
    BaseGone {
        /// The session's branch.
        branch: String,
        /// The branch that should have it.
        into: String,
    },
    /// The worktree has another branch checked out.
    #[error(
        "the worktree {worktree} has {found} checked out and not {branch}: check {branch} out there, then merge again"
    )]
    Elsewhere {
        /// Where.
        worktree: String,
        /// What is there.
        found: String,
        /// The session's branch.
        branch: String,
    },
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
}

/// Whether files that git does not know count as changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Untracked {
    Counted,
    Left,
}

/// What is half done in a checkout, by the files that git keeps meanwhile.
const HALF_DONE: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisection"),
];

/// Merges the session's branch into the branch that was checked out when it was started, then removes worktree and branch. What was merged
/// before is not merged again.
///
/// # Errors
/// [`NotMerged`]; then neither repository nor worktree was changed.
pub async fn merge(git: &Git, worktree: &Worktree, session: &str) -> Result<Merged, NotMerged> {
    let Some(into) = worktree.base.clone() else { return Err(NotMerged::NoBase(worktree.branch.clone())) };
    let repository = Path::new(&worktree.repository);
    if !git.has_branch(repository, &into).await? {
        return Err(NotMerged::BaseGone { branch: worktree.branch.clone(), into });
    }
    look_at_worktree(git, worktree).await?;
    if git.has_branch(repository, &worktree.branch).await? {
        let theirs = format!("refs/heads/{}", worktree.branch);
        let ours = format!("refs/heads/{into}");
        if !is_ancestor(git, repository, &theirs, &ours).await? {
            let tree = try_out(git, worktree, &into).await?;
            let message = format!("Merge the session {session} ({})", worktree.branch);
            match checkout_of(git, repository, &into).await? {
                Some(checkout) => in_checkout(git, &checkout, &theirs, &message).await?,
                None => beside(git, repository, &ours, &theirs, &tree, &message).await?,
            }
        }
    }
    super::remove(git, worktree).await?;
    Ok(Merged { into })
}

async fn look_at_worktree(git: &Git, worktree: &Worktree) -> Result<(), NotMerged> {
    let path = Path::new(&worktree.path);
    if !path.exists() {
        return Ok(());
    }
    if let Some(what) = half_done(git, path).await? {
        return Err(NotMerged::HalfDone { checkout: worktree.path.clone(), what });
    }
    let found = match git.line(path, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await {
        Ok(found) => found,
        Err(GitError::Said { exit: Exit::Status(1), .. }) => "no branch".to_owned(),
        Err(error) => return Err(error.into()),
    };
    if found != worktree.branch {
        return Err(NotMerged::Elsewhere {
            worktree: worktree.path.clone(),
            found,
            branch: worktree.branch.clone(),
        });
    }
    let changed = changes(git, path, Untracked::Counted).await?;
    if changed.is_empty() {
        return Ok(());
    }
    Err(NotMerged::Uncommitted { worktree: worktree.path.clone(), paths: named(&changed) })
}

/// Merges in memory; gives the tree.
async fn try_out(git: &Git, worktree: &Worktree, into: &str) -> Result<String, NotMerged> {
    let repository = Path::new(&worktree.repository);
    let (ours, theirs) = (format!("refs/heads/{into}"), format!("refs/heads/{}", worktree.branch));
    let tried = git
        .run(
            repository,
            &["merge-tree", "--write-tree", "--name-only", "--no-messages", "-z", &ours, &theirs],
        )
        .await;
    let output = match tried {
        Ok(output) => return Ok(output.trim_end_matches(['\0', '\n']).to_owned()),
        Err(GitError::Said { exit: Exit::Status(1), output, .. }) => output,
        Err(error) => return Err(error.into()),
    };
    let paths: Vec<String> =
        output.split('\0').skip(1).filter(|path| !path.is_empty()).map(str::to_owned).collect();
    Err(NotMerged::Conflict {
        branch: worktree.branch.clone(),
        into: into.to_owned(),
        paths: named(&paths),
        worktree: worktree.path.clone(),
    })
}

async fn is_ancestor(git: &Git, repository: &Path, older: &str, newer: &str) -> Result<bool, GitError> {
    match git.run(repository, &["merge-base", "--is-ancestor", older, newer]).await {
        Ok(_) => Ok(true),
        Err(GitError::Said { exit: Exit::Status(1), .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// The checkout that has a branch, where one has.
async fn checkout_of(git: &Git, repository: &Path, branch: &str) -> Result<Option<String>, GitError> {
    let listed = git.run(repository, &["worktree", "list", "--porcelain", "-z"]).await?;
    let wanted = format!("branch refs/heads/{branch}");
    let found = listed.split("\0\0").find(|one| one.split('\0').any(|line| line == wanted));
    Ok(found
        .and_then(|one| one.split('\0').find_map(|line| line.strip_prefix("worktree ")))
        .map(str::to_owned))
}

/// Merges where the branch is checked out.
async fn in_checkout(git: &Git, checkout: &str, theirs: &str, message: &str) -> Result<(), NotMerged> {
    let path = Path::new(checkout);
    if let Some(what) = half_done(git, path).await? {
        return Err(NotMerged::HalfDone { checkout: checkout.to_owned(), what });
    }
    let changed = changes(git, path, Untracked::Left).await?;
    if !changed.is_empty() {
        return Err(NotMerged::Dirty { checkout: checkout.to_owned(), paths: named(&changed) });
    }
    let mut arguments = identity(git, path).await;
    // Git refuses by itself where a file that it does not know is in the way, before it changes anything.
    arguments.extend(["merge", "--no-edit", "--no-autostash", "--no-stat", "--quiet", "-m", message, theirs]);
    let merged = git.run(path, &arguments).await;
    if let Err(error) = merged {
        if half_done(git, path).await? == Some("merge") {
            git.run(path, &["merge", "--abort"]).await?;
        }
        return Err(error.into());
    }
    Ok(())
}

/// Merges a branch that nobody has checked out.
async fn beside(
    git: &Git,
    repository: &Path,
    ours: &str,
    theirs: &str,
    tree: &str,
    message: &str,
) -> Result<(), NotMerged> {
    let old = git.line(repository, &["rev-parse", "--verify", ours]).await?;
    let new = if is_ancestor(git, repository, ours, theirs).await? {
        git.line(repository, &["rev-parse", "--verify", theirs]).await?
    } else {
        let mut arguments = identity(git, repository).await;
        arguments.extend(["commit-tree", tree, "-p", &old, "-p", theirs, "-m", message]);
        git.line(repository, &arguments).await?
    };
    // Only if nobody was faster.
    git.run(repository, &["update-ref", "-m", message, ours, &new, &old]).await?;
    Ok(())
}

/// A name for the merge where the person has given git none.
async fn identity(git: &Git, folder: &Path) -> Vec<&'static str> {
    match git.run(folder, &["var", "GIT_COMMITTER_IDENT"]).await {
        Ok(_) => Vec::new(),
        Err(_) => vec!["-c", "user.name=aude", "-c", "user.email=aude@localhost"],
    }
}

async fn half_done(git: &Git, checkout: &Path) -> Result<Option<&'static str>, GitError> {
    let own = git.line(checkout, &["rev-parse", "--absolute-git-dir"]).await?;
    let own = Path::new(&own);
    Ok(HALF_DONE.iter().find(|(file, _)| own.join(file).exists()).map(|(_, what)| *what))
}

/// The paths that are changed in a checkout.
pub(super) async fn changes(
    git: &Git,
    checkout: &Path,
    untracked: Untracked,
) -> Result<Vec<String>, GitError> {
    let files = match untracked {
        Untracked::Counted => "--untracked-files=normal",
        Untracked::Left => "--untracked-files=no",
    };
    let status = git.run(checkout, &["status", "--porcelain=v1", "-z", "--no-renames", files]).await?;
    Ok(status.split('\0').filter_map(|line| line.get(3..)).map(str::to_owned).collect())
}

/// Paths for people.
pub(super) fn named(paths: &[String]) -> String {
    let mut shown: Vec<String> =
        paths.iter().take(NAMED).map(|path| crate::text::one_line(path, 200)).collect();
    if paths.len() > NAMED {
        shown.push(format!("{} more", paths.len() - NAMED));
    }
    shown.join(", ")
}
