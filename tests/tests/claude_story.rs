//! The real Claude Code through everything: command line, listener and session host, told as a person would use it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::path::Path;

use nix::sys::signal::{Signal, kill};
use serde_json::Value;
use shared::entry::{Event, Known, ResultStatus};
use shared::gate::Finding;
use shared::ids::SessionId;
use shared::status::{Fate, RanReason};
use tests::agent;
use tests::home::{TestHome, is_alive};
use tests::model_server::ModelServer;
use tests::story::logged;
use tests::terminal::{CTRL_D, Terminal};
use tests::wait;

const LOGGED_IN: &str = "export ANTHROPIC_API_KEY=dummy";

/// A machine with that Claude Code, and a listener.
async fn machine(permissions: &str, login: &str) -> (TestHome, ModelServer) {
    let server = ModelServer::start().await;
    let mut home = TestHome::new();
    fs::create_dir(home.path().join("home")).unwrap();
    let claude = agent::claude(home.path(), &server, login);
    configure(&home, permissions, &claude);
    home.listen().await;
    (home, server)
}

fn configure(home: &TestHome, permissions: &str, claude: &Path) {
    home.write_config(&format!(
        "permissions = \"{permissions}\"\n[claude]\nprogram = \"{}\"",
        claude.display()
    ));
}

/// Starts a session of that name and waits for the end of its first turn.
async fn started(home: &TestHome, name: &str, text: &str) -> SessionId {
    let answer: Value =
        serde_json::from_str(&home.ok(["start", name, "--harness", "claude", "--json", text])).unwrap();
    let session = answer["started"]["id"].as_str().expect("a session was started").parse().unwrap();
    logged(home, session, "the end of the first turn", |known| match known {
        Known::Settled { .. } => Some(()),
        _ => None,
    })
    .await;
    session
}

fn send(home: &TestHome, name: &str, text: &str) -> String {
    home.ok(["send", name, "--wait", text])
}

/// The agent's own name for the conversation, as the log has it last.
fn conversation(home: &TestHome, session: SessionId) -> Option<String> {
    home.log(session).iter().rev().find_map(|entry| match &entry.event {
        Event::Known(known) => match known.as_ref() {
            Known::Settings { settings } => settings.conversation.clone(),
            _ => None,
        },
        Event::Unknown(_) => None,
    })
}

/// What the gate found at the last start of a session.
fn finding(home: &TestHome, record: &Value) -> Option<Finding> {
    let session = record["id"].as_str()?.parse().ok()?;
    home.log(session).into_iter().rev().find_map(|entry| match entry.event {
        Event::Known(known) => match *known {
            Known::Gate { gate } => gate.finding.known().cloned(),
            _ => None,
        },
        Event::Unknown(_) => None,
    })
}

fn fates(home: &TestHome, session: SessionId) -> Vec<Fate> {
    let log = home.log(session).into_iter();
    log.filter_map(|entry| match entry.event {
        Event::Known(known) => match *known {
            Known::Settled { settled } => settled.fate.known().cloned(),
            _ => None,
        },
        Event::Unknown(_) => None,
    })
    .collect()
}

// The model server runs beside the test, which waits for whole programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_from_its_start_over_a_killed_host_to_its_next_turn() {
    let (home, mut server) = machine("deny", LOGGED_IN).await;
    let session = started(&home, "story", "RUN `echo from-the-tool`").await;
    let history = home.ok(["attach", "story", "--no-follow"]);
    for line in [
        "› RUN `echo from-the-tool`",
        "◆ Run echo from-the-tool",
        "\n  from-the-tool\n",
        "Tool said: from-the-tool",
    ] {
        assert!(history.contains(line), "{line:?} is missing in:\n{history}");
    }

    let denied = send(&home, "story", "RUN `touch made.txt && echo made`");
    assert!(
        denied.contains("◆ Run touch made.txt && echo made") && denied.contains("\n  denied\n"),
        "{denied}"
    );
    assert!(
        denied.lines().any(|line| line.starts_with("! ") && line.contains("touch made.txt")),
        "a notice: {denied}"
    );
    assert!(!home.work().join("made.txt").exists());

    // Somebody watches in a terminal while another one sends and interrupts.
    let mut terminal = Terminal::open(&home.command(["attach", "story"]));
    terminal.shows("Tool said: from-the-tool").await;
    let _ = home.ok(["send", "story", "SLOW answer"]);
    let slow = server.slow().await;
    terminal.shows("slowly ").await;
    slow.say("and still going ").await;
    terminal.shows("slowly and still going").await;
    let answers = |what: &str| fs::read_to_string(home.home().session(session).log()).unwrap().contains(what);
    assert!(!answers("still going"), "it is shown before it is an entry");
    let output = home.run(["interrupt", "story"]);
    assert_eq!(String::from_utf8_lossy(&output.stderr), "interrupted\n");
    slow.abandoned().await;
    wait::until("the end of the interrupted turn", || async {
        matches!(fates(&home, session).last()?, Fate::Ran(Some(reason)) if reason.is(&RanReason::Interrupted))
            .then_some(())
    })
    .await;
    assert!(answers("slowly and still going"), "what came until then stays");
    assert_eq!(terminal.screen().matches("still going").count(), 1, "{}", terminal.screen());
    terminal.press(CTRL_D);
    assert!(terminal.ended().await.success());

    // Its process dies in the middle of a turn; the next turn goes on with the same conversation.
    assert!(send(&home, "story", "remember the word aubergine").contains("Echo: remember"));
    let before = conversation(&home, session).expect("a conversation");
    let _ = home.ok(["send", "story", "SLOW again"]);
    let slow = server.slow().await;
    let host = home.host_pid(session).unwrap();
    kill(host, Signal::SIGKILL).unwrap();
    slow.abandoned().await;
    wait::until("what became of the turn", || async {
        matches!(fates(&home, session).last()?, Fate::Ran(Some(reason)) if reason.is(&RanReason::Lost))
            .then_some(())
    })
    .await;
    assert!(!is_alive(host));
    let text = send(&home, "story", "which word");
    assert!(text.contains("Echo: which word"), "{text}");
    let last = server.requests().pop().unwrap();
    assert_eq!(last.prompt, "which word");
    assert!(last.conversation.contains("aubergine"), "{}", last.conversation);
    assert_eq!(conversation(&home, session), Some(before));

    let late = home.run(["send", "story", "--wait", "--budget", "2", "SLOW for ever"]);
    assert_eq!(late.status.code(), Some(1));
    let sentence = String::from_utf8_lossy(&late.stderr).into_owned();
    assert!(sentence.contains("its time was used up"), "{sentence}");
    assert!(send(&home, "story", "and now").contains("Echo: and now"), "the session is as good as before");
}

// The model server runs beside the test, which waits for whole programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn with_edits_allowed_it_writes_inside_the_folder_and_nowhere_else() {
    let (home, _server) = machine("edits", LOGGED_IN).await;
    let inside = home.work().join("inside.txt");
    let session = started(&home, "editor", &format!("WRITE `{}` `one`", inside.display())).await;
    assert_eq!(fs::read_to_string(&inside).unwrap(), "one");
    assert_eq!(fates(&home, session), [Fate::Answered]);

    let outside = home.path().join("outside.txt");
    let _ = home.ok(["send", "editor", &format!("WRITE `{}` `two`", outside.display())]);
    // Denied, or a person is asked; nobody answers here.
    logged(&home, session, "the refusal", |known| match known {
        Known::Result(result) if result.status.is(&ResultStatus::Denied) => Some(()),
        Known::Input(_) => Some(()),
        _ => None,
    })
    .await;
    let _ = home.ok(["interrupt", "editor"]);
    wait::until("the end of the turn", || async { (fates(&home, session).len() == 2).then_some(()) }).await;
    assert!(!outside.exists());
}

// The model server runs beside the test, which waits for whole programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_a_login_or_without_the_program_the_session_says_what_to_do() {
    let (home, server) = machine("deny", "").await;
    let refused = |name: &str| {
        let output = home.run(["start", name, "--harness", "claude", "hello"]);
        let sentence = String::from_utf8_lossy(&output.stderr).into_owned();
        // The session ends at once, perhaps before its host could answer: the same request again finds in the log that it was taken.
        assert!(output.status.success(), "{sentence}");
    };
    refused("stranger");
    let ended = |name: &'static str| {
        let home = &home;
        async move {
            wait::until("the end of the session", || async {
                let record = home.record(name);
                (!record["ended"].is_null()).then_some(record)
            })
            .await
        }
    };
    let record = ended("stranger").await;
    assert_eq!(record["ended"], "refused", "{record}");
    assert_eq!(finding(&home, &record), Some(Finding::NotLoggedIn));
    let history = home.ok(["attach", "stranger", "--no-follow"]);
    assert!(history.contains("the agent may not run; `aude doctor` says why"), "{history}");
    let doctor = home.ok(["doctor"]);
    assert!(doctor.contains(", but not logged in"), "{doctor}");
    assert!(doctor.contains("version 2.") && doctor.contains("run `claude` once and log in"), "{doctor}");
    // A program of long ago, which has no question about its login.
    let old = home.path().join("old-claude");
    std::fs::write(&old, "#!/bin/sh\necho '2.0.77 (Claude Code)'\n").unwrap();
    std::fs::set_permissions(&old, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    configure(&home, "deny", &old);
    let doctor = home.ok(["doctor"]);
    assert!(doctor.contains("version 2.0.77 is too old: aude needs 2.1.197 or later"), "{doctor}");
    assert!(
        doctor.contains("bring Claude Code up to date: `npm install -g @anthropic-ai/claude-code@latest`"),
        "{doctor}"
    );
    // Agents that are only offered are listed, and nobody is told that something is wrong.
    assert!(
        doctor.lines().any(|line| line.starts_with("--    goose") && line.contains("is not installed")),
        "{doctor}"
    );

    configure(&home, "deny", &home.path().join("no-such-program"));
    refused("nobody");
    let record = ended("nobody").await;
    assert_eq!(finding(&home, &record), Some(Finding::NotFound));
    let doctor = home.ok(["doctor"]);
    assert!(doctor.contains("is not installed") && doctor.contains("install Claude Code"), "{doctor}");
    assert!(server.requests().is_empty(), "nothing was asked of the model");
}
