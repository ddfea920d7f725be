//! Tests of the harness.

use std::path::Path;

use shared::decision::Decision;
use shared::ids::{HostId, SubmissionId};

use super::*;
use crate::config::{Config, Permissions};

/// A working directory, a session's directory, and a script.
struct World {
    directory: tempfile::TempDir,
    opening: Opening,
}

fn world(script: Option<&str>) -> World {
    let directory = tempfile::tempdir().unwrap();
    let working_directory = directory.path().join("work");
    let session_directory = directory.path().join("session");
    std::fs::create_dir(&working_directory).unwrap();
    std::fs::create_dir(&session_directory).unwrap();
    let mut config = Config::default();
    if let Some(script) = script {
        let path = directory.path().join("script.toml");
        std::fs::write(&path, script).unwrap();
        config.aura.script = Some(path);
    }
    let opening = Opening {
        place: Place {
            working_directory,
            session_directory,
            run: HostId::random(),
            guard_program: "/nonexistent/aude".into(),
            config,
        },
        conversation: None,
        model: None,
        effort: None,
        agent: None,
        permissions: Permissions::Deny,
    };
    World { directory, opening }
}

impl World {
    fn working_directory(&self) -> &Path {
        &self.opening.place.working_directory
    }

    async fn open(&self) -> (Agent, Settings) {
        let mut agent = Aura.open(self.opening.clone()).await.unwrap();
        let Some(AgentEvent::Settings(settings)) = agent.events.recv().await else {
            panic!("settings come first")
        };
        (agent, settings)
    }
}

async fn send(agent: &Agent, text: &str) {
    let submission: SubmissionId = "s-1".parse().unwrap();
    agent.commands.send(AgentCommand::Turn { submission, text: text.into() }).await.unwrap();
}

/// All events of the running turn but live text, and how it ended.
async fn until_the_end(agent: &mut Agent) -> (Vec<Said>, TurnEnd) {
    let mut said = Vec::new();
    loop {
        match agent.events.recv().await.expect("the turn ends before the agent does") {
            AgentEvent::Said(entry) => said.push(entry),
            AgentEvent::TurnEnded(end) => return (said, end),
            AgentEvent::Delta { .. } | AgentEvent::Settings(_) => {}
            AgentEvent::Asked(asked) => {
                let answer =
                    AgentCommand::Answer { input: asked.input, decision: Decision::Deny { text: None } };
                agent.commands.send(answer).await.unwrap();
            }
            other @ (AgentEvent::Withdrawn(_) | AgentEvent::Exited(_)) => {
                panic!("{other:?}")
            }
        }
    }
}

fn texts(said: &[Said]) -> Vec<&str> {
    said.iter()
        .filter_map(|said| match said {
            Said::Assistant(assistant) => Some(assistant.text.as_str()),
            Said::Thinking(_)
            | Said::Tool(_)
            | Said::Result(_)
            | Said::Plan(_)
            | Said::Usage(_)
            | Said::Notice(_) => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_turn_is_answered_live_and_whole() {
    let world = world(Some("[[step]]\ntext = \"Hello, {{message}}!\"\nchunk = 4\nchunk_delay = 10"));
    let (mut agent, settings) = world.open().await;
    assert_eq!(settings.model.as_deref(), Some("script"));
    send(&agent, "world").await;
    let mut live = String::new();
    let entry = loop {
        let event = agent.events.recv().await.unwrap();
        if let AgentEvent::Delta { text, .. } = event {
            live.push_str(&text);
        } else if let AgentEvent::Said(Said::Assistant(entry)) = event {
            break entry;
        } else {
            panic!("{event:?}");
        }
    };
    assert_eq!(entry.text, "Hello, world!");
    assert_eq!(live, entry.text);
    assert_eq!(agent.events.recv().await, Some(AgentEvent::TurnEnded(TurnEnd::Completed)));
}

#[tokio::test(start_paused = true)]
async fn an_agent_without_commands_exits() {
    let world = world(Some("[[step]]\nparts = [{ text = \"a\" }, { wait_for_file = \"never\" }]"));
    let (agent, _) = world.open().await;
    send(&agent, "x").await;
    let Agent { commands, mut events } = agent;
    drop(commands);
    let mut last = None;
    while let Some(event) = events.recv().await {
        last = Some(event);
    }
    assert_eq!(last, Some(AgentEvent::Exited(Exit::Status(0))));
}

#[tokio::test(start_paused = true)]
async fn an_interrupt_ends_the_turn_and_keeps_what_was_said() {
    let world = world(Some(
        "[[step]]\nparts = [{ text = \"so far\" }, { wait_for_file = \"never\" }]\n[[step]]\ntext = \"again\"",
    ));
    let (mut agent, _) = world.open().await;
    agent.commands.send(AgentCommand::Interrupt).await.unwrap();
    send(&agent, "x").await;
    while !matches!(agent.events.recv().await.unwrap(), AgentEvent::Delta { .. }) {}
    agent.commands.send(AgentCommand::Interrupt).await.unwrap();
    let (said, end) = until_the_end(&mut agent).await;
    assert_eq!((texts(&said), end), (vec!["so far"], TurnEnd::Interrupted));
    send(&agent, "y").await;
    let (said, end) = until_the_end(&mut agent).await;
    assert_eq!((texts(&said), end), (vec!["again"], TurnEnd::Completed));
}

#[tokio::test(start_paused = true)]
async fn a_conversation_goes_on_and_a_damaged_one_is_said() {
    let mut world = world(Some("[[step]]\ntext = \"one\"\ntimes = \"always\""));
    let (mut agent, settings) = world.open().await;
    send(&agent, "x").await;
    until_the_end(&mut agent).await;
    drop(agent);
    world.opening.conversation = settings.conversation.clone();
    let (_agent, again) = world.open().await;
    assert_eq!(again.conversation, settings.conversation);
    let file = world.opening.place.session_directory.join("conversation.json");
    crate::files::write_private(&file, b"{").unwrap();
    let (mut agent, anew) = world.open().await;
    assert_ne!(anew.conversation, settings.conversation);
    assert!(matches!(agent.events.recv().await, Some(AgentEvent::Said(Said::Notice(_)))));
    send(&agent, "x").await;
    assert_eq!(until_the_end(&mut agent).await.1, TurnEnd::Completed);
}

#[tokio::test]
async fn what_cannot_be_opened_says_why() {
    let mut unknown = world(None);
    unknown.opening.model = Some("gpt".into());
    let error = Aura.open(unknown.opening.clone()).await.unwrap_err();
    assert_eq!(error, OpenError::UnknownModel { model: "gpt".into() });
    let wrong = world(Some("[[step]]\ntxet = \"\""));
    let error = Aura.open(wrong.opening.clone()).await.unwrap_err().to_string();
    assert!(error.contains("script.toml") && error.contains("txet"), "{error}");
    assert!(wrong.directory.path().exists());
}

#[tokio::test(start_paused = true)]
async fn a_failed_model_call_is_a_notice_and_a_failed_turn() {
    let world = world(Some("[[step]]\ntext = \"part\"\nerror = { status = 429, message = \"slow down\" }"));
    let (mut agent, _) = world.open().await;
    send(&agent, "x").await;
    let (said, end) = until_the_end(&mut agent).await;
    assert_eq!(end, TurnEnd::Failed);
    assert_eq!(texts(&said), ["part"]);
    assert!(said.iter().any(|said| matches!(said, Said::Notice(notice) if notice.text.contains("slow down") && notice.text.contains("429"))));
}

#[tokio::test(start_paused = true)]
async fn the_tour_greets_echoes_and_shows_what_is_denied() {
    let world = world(None);
    let (mut agent, _) = world.open().await;
    send(&agent, "Hello there").await;
    let (said, end) = until_the_end(&mut agent).await;
    assert!(texts(&said).concat().contains("tour") && end == TurnEnd::Completed);
    send(&agent, "what is this?").await;
    assert!(texts(&until_the_end(&mut agent).await.0).concat().contains("> what is this?"));
    for (message, status) in [("write something", "write"), ("run touch new", "bash")] {
        send(&agent, message).await;
        let (said, end) = until_the_end(&mut agent).await;
        assert_eq!(end, TurnEnd::Completed);
        assert!(said.iter().any(|said| matches!(said, Said::Tool(tool) if tool.name == status)));
        assert!(
            said.iter().any(|said| matches!(said, Said::Result(result) if result.status.word() == "denied"))
        );
        assert!(texts(&said).concat().contains("**denied**"));
    }
    assert_eq!(std::fs::read_dir(world.working_directory()).unwrap().count(), 0);
}

#[tokio::test(start_paused = true)]
async fn the_tour_writes_and_edits_where_it_may() {
    let mut world = world(None);
    world.opening.permissions = Permissions::Edits;
    let (mut agent, _) = world.open().await;
    for (message, expected) in [("write a file", "You can delete it."), ("edit it", "You can keep it.")] {
        send(&agent, message).await;
        let (said, end) = until_the_end(&mut agent).await;
        assert_eq!(end, TurnEnd::Completed);
        let diff = said.iter().find_map(|said| match said {
            Said::Result(result) => result.diff.clone(),
            Said::Assistant(_)
            | Said::Thinking(_)
            | Said::Tool(_)
            | Said::Plan(_)
            | Said::Usage(_)
            | Said::Notice(_) => None,
        });
        assert!(diff.unwrap().after.unwrap().contains(expected));
        let file = std::fs::read_to_string(world.working_directory().join("hello-from-aude.md")).unwrap();
        assert!(file.contains(expected));
    }
}

#[tokio::test(start_paused = true)]
async fn every_example_of_the_tour_ends_and_slow_takes_about_a_minute() {
    let world = world(None);
    let (mut agent, _) = world.open().await;
    for message in ["hi", "plan", "markdown", "think", "read absent", "edit", "?"] {
        send(&agent, message).await;
        let (said, end) = until_the_end(&mut agent).await;
        assert!(end == TurnEnd::Completed && !texts(&said).is_empty(), "{message}");
    }
    let before = tokio::time::Instant::now();
    send(&agent, "slow").await;
    assert_eq!(until_the_end(&mut agent).await.1, TurnEnd::Completed);
    let seconds = before.elapsed().as_secs();
    assert!((45..90).contains(&seconds), "{seconds}");
}

/// What the running turn asks for.
async fn asked(agent: &mut Agent) -> super::Asked {
    loop {
        if let AgentEvent::Asked(asked) = agent.events.recv().await.expect("it asks before it ends") {
            return *asked;
        }
    }
}

async fn decide(agent: &Agent, input: shared::ids::InputId, decision: Decision) {
    agent.commands.send(AgentCommand::Answer { input, decision }).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn what_a_person_allows_is_done_and_a_denial_is_told_with_its_words() {
    let world = world(Some(
        "[[step]]\ncalls = [{ tool = \"write\", input = { path = \"a\", content = \"1\" } }, { tool = \"write\", input = { path = \"b\", content = \"2\" } }]\n\
         [[step]]\nfrom = \"tool\"\ntext = \"{{last}}\"",
    ));
    let (mut agent, _) = world.open().await;
    send(&agent, "go").await;
    let (first, second) = (asked(&mut agent).await, asked(&mut agent).await);
    assert!(!world.working_directory().join("a").exists(), "nothing is done before");
    decide(&agent, second.input, Decision::Deny { text: Some("not b".to_owned()) }).await;
    decide(&agent, first.input, Decision::Allow).await;
    let (said, end) = until_the_end(&mut agent).await;
    assert_eq!(end, TurnEnd::Completed);
    let results: Vec<_> = said
        .iter()
        .filter_map(|said| match said {
            Said::Result(result) => Some((result.status.word(), result.text.as_str())),
            Said::Assistant(_)
            | Said::Thinking(_)
            | Said::Tool(_)
            | Said::Plan(_)
            | Said::Usage(_)
            | Said::Notice(_) => None,
        })
        .collect();
    assert!(results.contains(&("denied".to_owned(), "Denied: not b")), "{results:?}");
    assert!(world.working_directory().join("a").exists() && !world.working_directory().join("b").exists());
}

#[tokio::test(start_paused = true)]
async fn a_turn_that_waits_for_a_person_can_be_interrupted() {
    let world = world(None);
    let (mut agent, _) = world.open().await;
    send(&agent, "ask me").await;
    let question = asked(&mut agent).await;
    agent.commands.send(AgentCommand::Interrupt).await.unwrap();
    assert_eq!(until_the_end(&mut agent).await.1, TurnEnd::Interrupted);
    decide(&agent, question.input, Decision::Said("late".to_owned())).await;
    send(&agent, "ask me again").await;
    let question = asked(&mut agent).await;
    decide(&agent, question.input, Decision::Chosen(vec!["Blue".to_owned()])).await;
    let (said, end) = until_the_end(&mut agent).await;
    assert_eq!(end, TurnEnd::Completed);
    assert!(texts(&said).concat().contains("The person chose: Blue"));
}
