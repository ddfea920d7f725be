//! Worktrees of sessions with the real git: made once, merged or refused without a trace, removed when nothing is lost.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::path::{Path, PathBuf};
use std::process::Command;

use host::worktree::{self, Git, NoWorktree, NotMerged};
use shared::ids::{HostId, SessionId};
use shared::record::Worktree;

/// A repository with one commit on `main`.
struct Repository {
    scratch: tempfile::TempDir,
}

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.env("GIT_CONFIG_GLOBAL", "/dev/null").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "git {arguments:?}: {said}");
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn ours() -> Git {
    Git { run: HostId::random(), guard_program: env!("CARGO_BIN_EXE_aude").into() }
}

impl Repository {
    fn new() -> Self {
        let scratch = tempfile::Builder::new().prefix("aude 🦀 ").tempdir().unwrap();
        let repository = Self { scratch };
        std::fs::create_dir_all(repository.top().join("deep/er")).unwrap();
        git(&repository.top(), &["init", "-q", "-b", "main"]);
        // What a repository would like to run on us.
        let hook = repository.top().join(".git/hooks/post-checkout");
        std::fs::write(&hook, format!("#!/bin/sh\ntouch '{}'\n", repository.trap().display())).unwrap();
        Command::new("chmod").arg("755").arg(&hook).status().unwrap();
        repository.commit(&repository.top(), "file", "one\n");
        repository.commit(&repository.top(), "deep/er/file", "deep\n");
        repository
    }

    fn trap(&self) -> PathBuf {
        self.scratch.path().join("trap")
    }

    fn top(&self) -> PathBuf {
        self.scratch.path().join("my project")
    }

    fn commit(&self, checkout: &Path, file: &str, text: &str) {
        std::fs::write(checkout.join(file), text).unwrap();
        git(checkout, &["add", "--all"]);
        git(checkout, &["commit", "-q", "-m", file]);
    }

    async fn plan(&self, folder: &Path, name: &str) -> Result<(Worktree, PathBuf), NoWorktree> {
        worktree::plan(&ours(), folder, name, SessionId::random(), &self.scratch.path().join("trees")).await
    }

    async fn made(&self, name: &str) -> Worktree {
        let (worktree, _) = self.plan(&self.top(), name).await.unwrap();
        worktree::ensure(&ours(), &worktree).await.unwrap();
        worktree
    }

    /// Everything about the repository that a refused merge must leave as it was.
    fn state(&self) -> String {
        let refs = git(&self.top(), &["for-each-ref"]);
        let status = git(&self.top(), &["status", "--porcelain"]);
        let head = git(&self.top(), &["rev-parse", "HEAD"]);
        let merge = self.top().join(".git/MERGE_HEAD").exists();
        format!("{refs}\n{status}\n{head}\n{merge}\n{}", git(&self.top(), &["worktree", "list"]))
    }
}

#[tokio::test]
async fn a_worktree_is_made_once_whatever_its_session_is_called_and_runs_no_hook() {
    let repository = Repository::new();
    for name in ["--force", "🦀🦀🦀", &"x".repeat(48), "a b/../c", "-"] {
        let (worktree, folder) = repository.plan(&repository.top().join("deep/er"), name).await.unwrap();
        for _ in 0..2 {
            worktree::ensure(&ours(), &worktree).await.unwrap();
        }
        assert_eq!(folder, Path::new(&worktree.path).join("deep/er"));
        assert_eq!(std::fs::read_to_string(folder.join("file")).unwrap(), "deep\n");
        assert_eq!(git(&folder, &["symbolic-ref", "--short", "HEAD"]), worktree.branch);
        assert_eq!(worktree.base.as_deref(), Some("main"));
    }
    assert_eq!(git(&repository.top(), &["worktree", "list"]).lines().count(), 6);
    assert!(!repository.trap().exists(), "the hook of the repository ran");
}

#[tokio::test]
async fn what_is_no_repository_with_a_commit_is_refused_with_a_sentence() {
    let repository = Repository::new();
    let scratch = repository.scratch.path();
    let (none, bare, empty) = (scratch.join("none"), scratch.join("bare"), scratch.join("empty"));
    std::fs::create_dir(&none).unwrap();
    git(scratch, &["init", "-q", "--bare", "bare"]);
    git(scratch, &["init", "-q", "empty"]);
    assert!(matches!(repository.plan(&none, "x").await, Err(NoWorktree::NoRepository(_))));
    assert!(matches!(repository.plan(&bare, "x").await, Err(NoWorktree::Bare(_))));
    assert!(matches!(repository.plan(&empty, "x").await, Err(NoWorktree::NoCommit(_))));
}

#[tokio::test]
async fn two_sessions_merge_into_one_repository_and_leave_nothing() {
    let repository = Repository::new();
    let (one, two) = (repository.made("one").await, repository.made("two").await);
    repository.commit(Path::new(&one.path), "from-one", "1");
    repository.commit(Path::new(&two.path), "from-two", "2");
    for (worktree, name) in [(&one, "one"), (&two, "two")] {
        // Again is as good as once: a host may die after git and before its log.
        for _ in 0..2 {
            assert_eq!(worktree::merge(&ours(), worktree, name).await.unwrap().into, "main");
        }
        assert!(!Path::new(&worktree.path).exists());
    }
    assert!(repository.top().join("from-one").exists() && repository.top().join("from-two").exists());
    assert_eq!(git(&repository.top(), &["branch", "--format=%(refname:short)"]), "main");
    assert_eq!(git(&repository.top(), &["worktree", "list"]).lines().count(), 1);
    assert_eq!(git(&repository.top(), &["status", "--porcelain"]), "");
    // The session goes on: its worktree comes back from what was merged.
    worktree::ensure(&ours(), &one).await.unwrap();
    assert!(Path::new(&one.path).join("from-two").exists());
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_is_merged_without_a_checkout() {
    let repository = Repository::new();
    let worktree = repository.made("one").await;
    repository.commit(Path::new(&worktree.path), "from-one", "1");
    repository.commit(&repository.top(), "meanwhile", "2");
    git(&repository.top(), &["switch", "-q", "-c", "other"]);
    std::fs::write(repository.top().join("file"), "dirty, and elsewhere\n").unwrap();
    worktree::merge(&ours(), &worktree, "one").await.unwrap();
    assert_eq!(git(&repository.top(), &["show", "main:from-one"]), "1");
    assert_eq!(git(&repository.top(), &["show", "main:meanwhile"]), "2");
    assert_eq!(git(&repository.top(), &["symbolic-ref", "--short", "HEAD"]), "other");
}

#[tokio::test]
async fn a_merge_that_cannot_be_done_changes_nothing_and_says_why() {
    let repository = Repository::new();
    let worktree = repository.made("one").await;
    let path = PathBuf::from(&worktree.path);
    let refused = async |wanted: &str| {
        let before = repository.state();
        let error = worktree::merge(&ours(), &worktree, "one").await.unwrap_err();
        assert_eq!(repository.state(), before, "{error}");
        assert!(path.exists());
        let said = error.to_string();
        assert!(said.contains(wanted), "{said}");
        error
    };
    std::fs::write(path.join("new"), "not committed").unwrap();
    assert!(matches!(refused("uncommitted work (new)").await, NotMerged::Uncommitted { .. }));
    assert!(worktree::unmerged(&ours(), &worktree).await.unwrap().unwrap().contains("new"));
    repository.commit(&path, "new", "committed");
    assert!(worktree::unmerged(&ours(), &worktree).await.unwrap().unwrap().contains("1 commit"));
    repository.commit(&path, "file", "theirs\n");
    std::fs::write(repository.top().join("deep/er/file"), "changed\n").unwrap();
    assert!(matches!(refused("uncommitted changes (deep/er/file)").await, NotMerged::Dirty { .. }));
    git(&repository.top(), &["checkout", "-q", "--", "."]);
    // A file that git does not know is in the way.
    std::fs::write(repository.top().join("new"), "somebody's").unwrap();
    refused("new").await;
    std::fs::remove_file(repository.top().join("new")).unwrap();
    repository.commit(&repository.top(), "file", "ours\n");
    assert!(matches!(refused("conflict in file").await, NotMerged::Conflict { .. }));
    // Somebody merges by hand and is in the middle of it.
    git(&repository.top(), &["switch", "-q", "-c", "side", "HEAD~1"]);
    repository.commit(&repository.top(), "side", "s");
    git(&repository.top(), &["switch", "-q", "main"]);
    git(&repository.top(), &["merge", "-q", "--no-commit", "--no-ff", "side"]);
    git(&path, &["reset", "-q", "--hard", "HEAD~1"]);
    assert!(matches!(refused("middle of a merge").await, NotMerged::HalfDone { .. }));
    git(&repository.top(), &["merge", "--abort"]);
    git(&path, &["switch", "-q", "--detach"]);
    assert!(matches!(refused("check").await, NotMerged::Elsewhere { .. }));
    git(&path, &["switch", "-q", &worktree.branch]);
    worktree::merge(&ours(), &worktree, "one").await.unwrap();
    assert_eq!(std::fs::read_to_string(repository.top().join("new")).unwrap(), "committed");
}

#[tokio::test]
async fn a_worktree_that_a_crash_left_half_made_is_finished() {
    let repository = Repository::new();
    let worktree = repository.made("one").await;
    let own = git(Path::new(&worktree.path), &["rev-parse", "--absolute-git-dir"]);
    std::fs::write(Path::new(&own).join("locked"), "initializing").unwrap();
    std::fs::rename(Path::new(&own).join("index"), Path::new(&own).join("index.lock")).unwrap();
    std::fs::remove_file(Path::new(&worktree.path).join("file")).unwrap();
    worktree::ensure(&ours(), &worktree).await.unwrap();
    assert_eq!(git(Path::new(&worktree.path), &["status", "--porcelain"]), "");
    // The folder is lost, the branch is not.
    repository.commit(Path::new(&worktree.path), "kept", "k");
    std::fs::remove_dir_all(&worktree.path).unwrap();
    worktree::ensure(&ours(), &worktree).await.unwrap();
    assert!(Path::new(&worktree.path).join("kept").exists());
}

#[tokio::test]
async fn the_set_up_command_runs_once_and_its_failure_is_told() {
    let repository = Repository::new();
    let worktree = repository.made("one").await;
    let failed = worktree::set_up(&ours(), &worktree, "echo no such tool >&2; exit 3").await.unwrap_err();
    assert!(failed.to_string().contains("exit status 3") && failed.to_string().contains("no such tool"));
    let flood = worktree::set_up(&ours(), &worktree, "yes | head -c 20000000; exit 1").await.unwrap_err();
    assert!(flood.to_string().len() < 16 * 1024);
    for _ in 0..2 {
        worktree::set_up(&ours(), &worktree, "echo ran >> log; git add log").await.unwrap();
    }
    assert_eq!(std::fs::read_to_string(Path::new(&worktree.path).join("log")).unwrap(), "ran\n");
}
