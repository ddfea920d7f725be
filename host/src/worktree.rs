//! A git worktree and branch of its own for a session: planned, made, merged and removed without losing anything.
//!
//! What is planned is written into the session's record before anything is made, and every step can be done again: a crash between two of them makes
//! nothing twice and loses nothing.

use std::path::{Path, PathBuf};

use shared::ids::SessionId;
use shared::record::Worktree;

mod git;
mod merge;
mod setup;

pub use git::{GIT_COMMAND, Git, GitError};
pub use merge::{Merged, NotMerged, merge};
pub use setup::{SetupError, set_up};

/// Characters of the session's name in the name of a branch: enough to know it again.
const SLUG: usize = 40;
/// Characters of the session's id in the name of a branch: they make it unique.
const TAIL: usize = 8;
/// What git writes as the reason of its lock on a worktree that it is making.
const INITIALIZING: &str = "initializing";

/// Why there can be no worktree; the sentence is the detail of `bad_directory`.
#[derive(Debug, thiserror::Error)]
pub enum NoWorktree {
    /// The folder is not in a repository.
    #[error("{0} is not in a git repository: start without a worktree, or run `git init` there and commit")]
    NoRepository(String),
    /// The repository has no files checked out.
    #[error("{0} is a bare git repository: start in one of its checkouts")]
    Bare(String),
    /// Nothing was ever committed.
    #[error(
        "the git repository of {0} has no commit yet: commit something first, so that a branch has a beginning"
    )]
    NoCommit(String),
    /// A path that a record cannot hold.
    #[error("the path of the git repository is not UTF-8, which a record cannot hold")]
    Encoding,
    /// Git failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The folder cannot be made.
    #[error("the folder of the worktree cannot be made: {0}")]
    Folder(std::io::Error),
}

/// What a session gets that starts in `directory`, and the folder in its worktree that stands for `directory`. Nothing is made yet.
///
/// # Errors
/// [`NoWorktree`] where `directory` is in no repository with a commit and a checkout.
pub async fn plan(
    git: &Git,
    directory: &Path,
    name: &str,
    session: SessionId,
    root: &Path,
) -> Result<(Worktree, PathBuf), NoWorktree> {
    let shown = || directory.display().to_string();
    let inside = git.run(directory, &["rev-parse", "--is-bare-repository", "--is-inside-work-tree"]).await;
    match inside {
        Ok(said) if said.trim() == "false\ntrue" => {}
        Ok(said) if said.starts_with("true") => return Err(NoWorktree::Bare(shown())),
        Ok(_) | Err(GitError::Said { .. }) => return Err(NoWorktree::NoRepository(shown())),
        Err(error) => return Err(error.into()),
    }
    // Not the checkout: that may be another session's worktree, and go.
    let repository =
        git.line(directory, &["rev-parse", "--path-format=absolute", "--git-common-dir"]).await?;
    let prefix = git.line(directory, &["rev-parse", "--show-prefix"]).await?;
    let commit = match git.line(directory, &["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).await {
        Ok(commit) => commit,
        Err(GitError::Said { .. }) => return Err(NoWorktree::NoCommit(shown())),
        Err(error) => return Err(error.into()),
    };
    let base = match git.line(directory, &["symbolic-ref", "--quiet", "--short", "HEAD"]).await {
        Ok(base) => Some(base),
        Err(GitError::Said { .. }) => None,
        Err(error) => return Err(error.into()),
    };
    let tail: String = session.to_string().chars().take(TAIL).collect();
    let slug = slug(name);
    let label = if slug.is_empty() { tail } else { format!("{slug}-{tail}") };
    let path = root.join(&label);
    let folder = path.join(prefix.trim_end_matches('/'));
    let path = path.into_os_string().into_string().map_err(|_| NoWorktree::Encoding)?;
    Ok((Worktree { repository, path, branch: format!("aude/{label}"), base, commit }, folder))
}

/// Makes worktree and branch as far as they are missing.
///
/// # Errors
/// [`NoWorktree`] where git refuses, as when the repository is gone.
pub async fn ensure(git: &Git, worktree: &Worktree) -> Result<(), NoWorktree> {
    let repository = Path::new(&worktree.repository);
    let path = Path::new(&worktree.path);
    if finish(git, worktree).await? {
        return Ok(());
    }
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(NoWorktree::Folder)?;
    }
    // Git keeps the name of a worktree whose folder is gone; that one is ours.
    git.run(repository, &["worktree", "prune"]).await?;
    if git.has_branch(repository, &worktree.branch).await? {
        // Twice, because git may still know a worktree whose folder is gone, and have locked it.
        git.run(
            repository,
            &["worktree", "add", "--force", "--force", "--", &worktree.path, &worktree.branch],
        )
        .await?;
        return Ok(());
    }
    let from = begin(git, worktree).await?;
    git.run(
        repository,
        &["worktree", "add", "--force", "--no-track", "-b", &worktree.branch, "--", &worktree.path, &from],
    )
    .await?;
    Ok(())
}

/// Where a new branch begins: at the base as it is now, which holds what was merged before, else where it was planned.
async fn begin(git: &Git, worktree: &Worktree) -> Result<String, GitError> {
    let repository = Path::new(&worktree.repository);
    match &worktree.base {
        Some(base) if git.has_branch(repository, base).await? => Ok(format!("refs/heads/{base}")),
        Some(_) | None => Ok(worktree.commit.clone()),
    }
}

/// Finishes what a crash has cut short while git made the worktree; nobody has worked there yet, as git's own mark says. False where there is none.
async fn finish(git: &Git, worktree: &Worktree) -> Result<bool, GitError> {
    let path = Path::new(&worktree.path);
    if !path.join(".git").is_file() {
        return Ok(false);
    }
    let Ok(own) = git.line(path, &["rev-parse", "--absolute-git-dir"]).await else { return Ok(false) };
    let own = Path::new(&own);
    if std::fs::read_to_string(own.join("locked")).is_ok_and(|reason| reason.trim() == INITIALIZING) {
        // A git that was killed has left its lock.
        let _ = std::fs::remove_file(own.join("index.lock"));
        git.run(path, &["reset", "--hard", "--quiet"]).await?;
        git.run(path, &["worktree", "unlock", "--", &worktree.path]).await?;
    }
    Ok(true)
}

/// What would be lost if worktree and branch were removed, in words; none where nothing would.
///
/// # Errors
/// [`GitError`] where git cannot say.
pub async fn unmerged(git: &Git, worktree: &Worktree) -> Result<Option<String>, GitError> {
    let repository = Path::new(&worktree.repository);
    let path = Path::new(&worktree.path);
    if path.exists() {
        let changed = merge::changes(git, path, merge::Untracked::Counted).await?;
        if !changed.is_empty() {
            return Ok(Some(format!("uncommitted work in {} ({})", worktree.path, merge::named(&changed))));
        }
    }
    if !repository.exists() || !git.has_branch(repository, &worktree.branch).await? {
        return Ok(None);
    }
    let branch = format!("refs/heads/{}", worktree.branch);
    // What any other branch, tag or remote has is not lost.
    let others = format!("--exclude={branch}");
    let only = git
        .line(
            repository,
            &[
                "rev-list",
                "--count",
                "--single-worktree",
                &branch,
                "--not",
                &others,
                "--all",
                &worktree.commit,
            ],
        )
        .await?;
    Ok((only != "0").then(|| {
        let commits = if only == "1" { "commit" } else { "commits" };
        format!("{only} {commits} on the branch {} that no other branch has", worktree.branch)
    }))
}

/// Removes worktree and branch, whatever is in them; ask [`unmerged`] before. What is not there is not missed.
///
/// # Errors
/// [`GitError`] where git refuses.
pub async fn remove(git: &Git, worktree: &Worktree) -> Result<(), GitError> {
    let repository = Path::new(&worktree.repository);
    if !repository.exists() {
        return Ok(());
    }
    if Path::new(&worktree.path).exists() {
        git.run(repository, &["worktree", "remove", "--force", "--force", "--", &worktree.path]).await?;
    } else {
        git.run(repository, &["worktree", "prune"]).await?;
    }
    if git.has_branch(repository, &worktree.branch).await? {
        git.run(repository, &["branch", "--quiet", "-D", "--", &worktree.branch]).await?;
    }
    Ok(())
}

/// The part of a branch's name that comes from a session's name: letters and digits of any script and single dashes, so that neither git nor a
/// shell takes it for anything else.
fn slug(name: &str) -> String {
    let mut slug = String::new();
    for character in name.chars().take(SLUG) {
        if character.is_alphanumeric() {
            slug.extend(character.to_lowercase());
        } else if !slug.is_empty() && !slug.ends_with('-') {
            slug.push('-');
        }
    }
    slug.trim_end_matches('-').to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_become_plain_branches() {
        for (name, expected) in [
            ("Fix the login", "fix-the-login"),
            ("🦀🦀", ""),
            ("--upload-pack=x", "upload-pack-x"),
            ("a/../b.lock", "a-b-lock"),
            ("Über größe", "über-größe"),
            ("HEAD@{1}~^:", "head-1"),
        ] {
            assert_eq!(slug(name), expected, "{name}");
        }
    }

    proptest! {
        #[test]
        fn no_name_steers_git_or_a_path(name in "\\PC{0,60}") {
            let slug = slug(&name);
            prop_assert!(slug.chars().all(|c| c.is_alphanumeric() || c == '-' || !c.is_ascii()));
            prop_assert!(!slug.starts_with('-') && !slug.ends_with('-') && !slug.contains("--"));
        }
    }
}
