//! A session with a worktree of its own, from the command line: started, merged, gone on with, removed.
#![allow(clippy::expect_used, reason = "a test that cannot go on should stop where it stands")]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use tests::home::TestHome;
use tests::{story, wait};

fn git(folder: &Path, arguments: &[&str]) -> String {
    let mut command = Command::new("git");
    command.arg("-C").arg(folder).args(["-c", "user.name=t", "-c", "user.email=t@localhost"]).args(arguments);
    let output = command.output().expect("git");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text").trim().to_owned()
}

fn commit(folder: &Path, file: &str, text: &str) {
    fs::write(folder.join(file), text).expect("a file");
    git(folder, &["add", "--all"]);
    git(folder, &["commit", "-q", "-m", file]);
}

/// A home whose working folder is a repository.
async fn machine(setup: Option<&str>) -> TestHome {
    let mut home = story::machine();
    if let Some(setup) = setup {
        let path = home.root().join("config.toml");
        let text = fs::read_to_string(&path).expect("config.toml");
        fs::write(&path, format!("{text}\n[worktree]\nsetup = {setup:?}\n")).expect("config.toml");
    }
    git(&home.work(), &["init", "-q", "-b", "main"]);
    commit(&home.work(), "file", "one\n");
    home.listen().await;
    home
}

/// Runs `aude`, which must be refused; gives what it said.
fn refused(home: &TestHome, arguments: &[&str]) -> String {
    let output = home.run(arguments);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(5), "{said}");
    said
}

async fn until(home: &TestHome, name: &str, what: &str, holds: impl Fn(&Value) -> bool) -> Value {
    wait::until(what, || async {
        let record = home.record(name);
        holds(&record).then_some(record)
    })
    .await
}

fn start<'a>(name: &'a str, request: &'a str) -> [&'a str; 9] {
    ["start", "--worktree", "--harness", "aura", "--request", request, "--", name, "read file"]
}

#[tokio::test(flavor = "multi_thread")]
async fn work_in_a_worktree_is_merged_and_nothing_is_lost() {
    let home = machine(None).await;
    for (name, request) in [("-- 🦀 one", "r1"), ("two", "r2")] {
        for _ in 0..2 {
            let _ = home.ok(start(name, request));
        }
    }
    let mut folders = Vec::new();
    for name in ["-- 🦀 one", "two"] {
        let id = home.records().into_iter().find(|record| record["name"] == name).expect("a record");
        let id = id["id"].as_str().expect("an id").to_owned();
        let record = until(&home, &id, "an answer", |record| record["work"]["state"] == "answered").await;
        let branch = record["branch"].as_str().expect("a branch").to_owned();
        let folder = PathBuf::from(record["working_directory"].as_str().expect("a folder"));
        assert_eq!(git(&folder, &["symbolic-ref", "--short", "HEAD"]), branch);
        assert_eq!(record["settings"]["branch"], branch.as_str());
        folders.push((id, folder));
    }
    assert_eq!(git(&home.work(), &["worktree", "list"]).lines().count(), 3, "one for each session");
    let (id, folder) = &folders[0];
    fs::write(folder.join("new"), "n").expect("a file");
    assert!(refused(&home, &["merge", id]).contains("uncommitted work (new)"));
    commit(folder, "new", "n");
    let _ = home.ok(["merge", id]);
    assert!(home.work().join("new").exists() && !folder.exists());
    let merged = until(&home, id, "its end", |record| record["host"].is_null()).await;
    assert_eq!(merged["work"]["state"], "merged");
    // The conversation goes on in a new worktree of what was merged.
    let _ = home.ok(["send", id, "read new"]);
    until(&home, id, "an answer", |record| record["work"]["state"] == "answered").await;
    assert!(folder.join("new").exists());

    let (id, folder) = &folders[1];
    commit(folder, "file", "theirs\n");
    commit(&home.work(), "file", "ours\n");
    let before = git(&home.work(), &["for-each-ref"]);
    assert!(refused(&home, &["merge", id]).contains("conflict in file"));
    assert_eq!(git(&home.work(), &["for-each-ref"]), before);
    assert_eq!(git(&home.work(), &["status", "--porcelain"]), "");
    let _ = home.ok(["stop", id]);
    until(&home, id, "its end", |record| record["host"].is_null()).await;
    assert!(refused(&home, &["remove", id]).contains("1 commit"));
    assert!(folder.exists());
    git(folder, &["reset", "-q", "--hard", "main"]);
    let _ = home.ok(["remove", id]);
    assert!(!folder.exists());
    let _ = home.ok(["stop", &folders[0].0]);
    let audit = fs::read_to_string(home.home().audit()).expect("the audit log");
    assert_eq!(audit.matches(r#""event":{"merge":"#).count(), 1, "the merge that was done is noted: {audit}");
}

/// Git may take minutes to check out a large repository; meanwhile other sessions get their names.
#[tokio::test(flavor = "multi_thread")]
async fn nobody_waits_for_the_worktree_of_another_session() {
    let mut home = story::machine();
    git(&home.work(), &["init", "-q", "-b", "main"]);
    commit(&home.work(), "file", "one\n");
    let tools = home.path().join("tools");
    fs::create_dir(&tools).expect("a folder");
    let (reached, gate) = (tools.join("reached"), tools.join("gate"));
    nix::unistd::mkfifo(&gate, nix::sys::stat::Mode::S_IRWXU).expect("a fifo");
    let path = std::env::var("PATH").expect("a search path");
    let script = format!(
        "#!/bin/sh\ncase \" $* \" in *' worktree add '*) : > '{}'; cat '{}' ;; esac\nPATH='{path}' exec git \"$@\"\n",
        reached.display(),
        gate.display()
    );
    fs::write(tools.join("git"), script).expect("a script");
    fs::set_permissions(tools.join("git"), fs::Permissions::from_mode(0o700)).expect("a program");
    home.set("PATH", format!("{}:{path}", tools.display()));
    home.listen().await;
    let mut slow = home.command(start("slow", "r1")).spawn().expect("aude starts");
    wait::until("git at work", || async { reached.exists().then_some(()) }).await;

    let _ = home.ok(["start", "--harness", "aura", "--", "quick", "read file"]);
    let _ = home.ok(["rename", "quick", "quicker"]);
    until(&home, "quicker", "an answer", |record| record["work"]["state"] == "answered").await;
    let _ = home.ok(["stop", "quicker"]);
    let _ = home.ok(["remove", "quicker"]);
    assert!(
        refused(&home, &["start", "--harness", "aura", "--", "slow", "read file"]).contains("being started")
    );
    assert!(slow.try_wait().expect("a process").is_none(), "git still works");
    let audit = fs::read_to_string(home.home().audit()).expect("the audit log");
    assert_eq!(audit.matches(r#""event":{"rename":"#).count(), 1, "{audit}");

    fs::write(&gate, "").expect("git goes on");
    assert!(slow.wait().expect("a process").success());
    until(&home, "slow", "an answer", |record| record["work"]["state"] == "answered").await;
    let _ = home.ok(["stop", "slow"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failing_set_up_ends_the_session_with_what_it_said() {
    let home = machine(Some("echo no such tool; exit 7")).await;
    let started = home.run(start("one", "r1"));
    assert!(started.status.success() || started.status.code() == Some(1));
    let record = until(&home, "one", "the end", |record| record["ended"] == "refused").await;
    let log = fs::read_to_string(
        home.root().join("sessions").join(record["id"].as_str().expect("an id")).join("log.jsonl"),
    );
    let log = log.expect("a log");
    assert!(log.contains("no such tool") && log.contains("exit status 7"), "{log}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_folder_without_a_repository_is_refused() {
    let mut home = story::machine();
    home.listen().await;
    assert!(refused(&home, &start("one", "r1")).contains("git repository"));
    assert!(home.records().is_empty());
}
