//! The built-in agent with real processes under the real guard: output, ends, time limits, interrupts.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test that panics has failed, as it should"
)]

use std::time::{Duration, Instant};

use host::config::{Config, Permissions};
use host::harness::engine::Aura;
use host::harness::{Agent, AgentCommand, AgentEvent, Harness as _, Opening, Place, Said, TurnEnd};
use host::process::RUN_VARIABLE;
use shared::entry::ToolResult;
use shared::frame::DeltaKind;
use shared::ids::{HostId, SubmissionId};
use shared::limits;
use shared::status::Exit;

struct World {
    directory: tempfile::TempDir,
    run: HostId,
    agent: Agent,
}

async fn world(script: &str) -> World {
    world_with_home(script, "home").await
}

async fn world_with_home(script: &str, home: &str) -> World {
    let directory = tempfile::Builder::new().prefix("aude 🦀 ").tempdir().unwrap();
    let session_directory = directory.path().join(home).join("sessions/id");
    std::fs::create_dir_all(directory.path().join("work")).unwrap();
    std::fs::create_dir_all(&session_directory).unwrap();
    let path = directory.path().join("script.toml");
    std::fs::write(&path, script).unwrap();
    let mut config = Config::default();
    config.aura.script = Some(path);
    let run = HostId::random();
    let place = Place {
        working_directory: directory.path().join("work"),
        session_directory,
        run,
        guard_program: env!("CARGO_BIN_EXE_aude").into(),
        config,
    };
    let opening = Opening {
        place,
        conversation: None,
        model: None,
        effort: None,
        agent: None,
        permissions: Permissions::Deny,
    };
    let agent = Aura.open(opening).await.unwrap();
    World { directory, run, agent }
}

/// A world whose model runs one command.
async fn world_that_runs(command: &str, seconds: u64) -> World {
    world(&format!(
        "[[step]]\ncalls = [{{ tool = \"bash\", input = {{ command = \"{command}\", seconds = {seconds} }} }}]\n[[step]]\ntext = \"done\""
    ))
    .await
}

impl World {
    fn work(&self) -> std::path::PathBuf {
        self.directory.path().join("work")
    }

    async fn begin(&self) {
        let submission: SubmissionId = "s-1".parse().unwrap();
        self.agent.commands.send(AgentCommand::Turn { submission, text: "go".into() }).await.unwrap();
    }

    /// The result of the only call, its live output, and how the turn ended.
    async fn end(&mut self) -> (ToolResult, String, TurnEnd) {
        let (mut result, mut live) = (None, String::new());
        loop {
            match self.agent.events.recv().await.unwrap() {
                AgentEvent::Said(Said::Result(entry)) => {
                    assert!(result.replace(entry).is_none(), "one call has one result");
                }
                AgentEvent::Delta { kind: DeltaKind::Tool, text, .. } => live.push_str(&text),
                AgentEvent::TurnEnded(end) => return (result.expect("a result"), live, end),
                AgentEvent::Said(_) | AgentEvent::Delta { .. } | AgentEvent::Settings(_) => {}
                other @ (AgentEvent::Asked(_) | AgentEvent::Withdrawn(_) | AgentEvent::Exited(_)) => {
                    panic!("{other:?}")
                }
            }
        }
    }

    /// Waits until a process of this run is there.
    async fn until_it_runs(&self, name: &str) {
        let end = Instant::now() + Duration::from_secs(30);
        while !self.is_running(name) {
            assert!(Instant::now() < end, "{name} never ran");
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    fn is_running(&self, name: &str) -> bool {
        let mark = format!("{RUN_VARIABLE}={}", self.run);
        std::fs::read_dir("/proc").unwrap().flatten().any(|entry| {
            let path = entry.path();
            let is_ours = std::fs::read(path.join("environ"))
                .is_ok_and(|environ| environ.split(|byte| *byte == 0).any(|line| line == mark.as_bytes()));
            is_ours && std::fs::read_to_string(path.join("comm")).is_ok_and(|comm| comm.trim() == name)
        })
    }
}

#[tokio::test]
async fn a_command_runs_in_the_working_directory_with_its_output_live() {
    let mut world = world_that_runs("ls -1 .", 60).await;
    std::fs::write(world.work().join("ein 🦀"), "").unwrap();
    world.begin().await;
    let (result, live, end) = world.end().await;
    assert_eq!(result.status.word(), "ok", "{}", result.text);
    assert!(result.text.contains("ein 🦀"), "{}", result.text);
    assert_eq!((live, result.exit, end), (result.text, Some(Exit::Status(0)), TurnEnd::Completed));
}

#[tokio::test]
async fn a_failing_command_gives_its_errors_and_its_status() {
    let mut world = world_that_runs("cat absent", 60).await;
    world.begin().await;
    let (result, _, end) = world.end().await;
    assert_eq!((result.status.word().as_str(), result.exit), ("error", Some(Exit::Status(1))));
    assert!(result.text.contains("absent"));
    assert_eq!(end, TurnEnd::Completed);
}

#[tokio::test]
async fn nothing_waits_for_input() {
    let mut world = world_that_runs("cat", 60).await;
    world.begin().await;
    let (result, _, _) = world.end().await;
    assert_eq!((result.status.word().as_str(), result.text.as_str()), ("ok", ""));
}

#[tokio::test]
async fn a_flood_is_cut_and_clean() {
    let mut world = world_that_runs("cat flood", 60).await;
    let line = b"\x1b[31mred\xff\x1b[0m\n";
    std::fs::write(world.work().join("flood"), line.repeat(1_000_000)).unwrap();
    world.begin().await;
    let (result, live, _) = world.end().await;
    assert!(result.text.len() <= limits::RESULT_BYTES);
    assert!(result.truncated.unwrap() > 6_000_000);
    assert!(result.text.starts_with("red\u{fffd}\n") && result.text.ends_with("red\u{fffd}\n"));
    assert!(!result.text.contains('\u{1b}') && result.text.starts_with(&live));
}

#[tokio::test]
async fn a_command_ends_with_its_time() {
    let mut world = world_that_runs("sleep 1000", 1).await;
    world.begin().await;
    let (result, _, end) = world.end().await;
    assert_eq!(result.status.word(), "error");
    assert!(result.text.contains("time limit"), "{}", result.text);
    assert_eq!(end, TurnEnd::Completed);
    assert!(!world.is_running("sleep"));
}

#[tokio::test]
async fn an_interrupt_ends_a_command_with_a_result() {
    let mut world = world_that_runs("sleep 1000", 600).await;
    world.begin().await;
    world.until_it_runs("sleep").await;
    let before = Instant::now();
    world.agent.commands.send(AgentCommand::Interrupt).await.unwrap();
    let (result, _, end) = world.end().await;
    assert_eq!((result.status.word().as_str(), end), ("interrupted", TurnEnd::Interrupted));
    assert!(!world.is_running("sleep"));
    assert!(before.elapsed() < Duration::from_secs(5));
}

#[tokio::test]
async fn an_agent_that_nobody_commands_leaves_nothing_behind() {
    let mut world = world_that_runs("sleep 1000", 600).await;
    world.begin().await;
    world.until_it_runs("sleep").await;
    let (closed, _) = tokio::sync::mpsc::channel(1);
    drop(std::mem::replace(&mut world.agent.commands, closed));
    let mut last = None;
    while let Some(event) = world.agent.events.recv().await {
        last = Some(event);
    }
    assert_eq!(last, Some(AgentEvent::Exited(Exit::Status(0))));
    assert!(!world.is_running("sleep"));
}

#[tokio::test]
async fn a_program_of_the_workspace_is_not_taken_for_a_harmless_one() {
    use std::os::unix::fs::PermissionsExt as _;
    let mut world = world_that_runs("ls", 60).await;
    let fake = world.work().join("ls");
    std::fs::write(&fake, "#!/bin/sh\necho fooled\n").unwrap();
    std::fs::set_permissions(&fake, std::fs::Permissions::from_mode(0o755)).unwrap();
    world.begin().await;
    let (result, _, _) = world.end().await;
    assert_eq!(result.text, "ls\n");
}

#[tokio::test]
async fn the_home_of_aude_is_closed_to_tools() {
    let script = |call: &str| format!("[[step]]\ncalls = [{call}]\n[[step]]\ntext = \"done\"");
    let read = script("{ tool = \"read\", input = { path = \"../work/home/config.toml\" } }");
    let mut world = world_with_home(&read, "work/home").await;
    std::fs::write(world.work().join("home/config.toml"), "secret").unwrap();
    world.begin().await;
    let (result, _, _) = world.end().await;
    assert!(result.text.contains("belongs to aude"), "{}", result.text);

    // What a command would do with it, a person has to see first.
    let bash = script("{ tool = \"bash\", input = { command = \"cat home/config.toml\" } }");
    let mut world = world_with_home(&bash, "work/home").await;
    std::fs::write(world.work().join("home/config.toml"), "secret").unwrap();
    world.begin().await;
    loop {
        match world.agent.events.recv().await.unwrap() {
            AgentEvent::Asked(_) => break,
            AgentEvent::Said(Said::Result(result)) => panic!("nobody was asked: {result:?}"),
            AgentEvent::Exited(exit) => panic!("{exit:?}"),
            AgentEvent::Said(_)
            | AgentEvent::Delta { .. }
            | AgentEvent::Settings(_)
            | AgentEvent::Withdrawn(_)
            | AgentEvent::TurnEnded(_) => {}
        }
    }
}
