//! Tests of the turn loop.

use std::path::Path;

use shared::entry::ResultStatus;
use shared::frame::DeltaKind;
use shared::ids::HostId;
use shared::limits;

use super::*;
use crate::engine::conversation::Store;
use crate::engine::provider::script::{Script, ScriptProvider};
use crate::engine::workspace::Workspace;
use crate::engine::{MAX_STEPS, Stopper, stop_pair};

struct World {
    directory: tempfile::TempDir,
    engine: Engine,
}

fn world(script: &str) -> World {
    let directory = tempfile::tempdir().unwrap();
    let script = Script::parse(script, Path::new("test")).unwrap();
    let engine = Engine {
        provider: Arc::new(ScriptProvider::new(script)),
        model: "script".into(),
        tools: Tools::new(
            Workspace::open(directory.path()).unwrap(),
            HostId::random(),
            "/nowhere/aude".into(),
        ),
        agent: None,
        permissions: Permissions::Edits,
        rules: Rules::default(),
        max_steps: MAX_STEPS,
        conversation: Conversation::default(),
        keeper: Arc::new(Store::beside(directory.path())),
        desk: Desk::default(),
        questions: Questions::Wait,
        grants: Grants::default(),
    };
    World { directory, engine }
}

/// Runs a turn; `watch` sees each event and may stop it.
async fn turn(
    world: &mut World,
    text: &str,
    mut watch: impl FnMut(&EngineEvent, &Stopper),
) -> (TurnOutcome, Vec<EngineEvent>) {
    let (stopper, stop) = stop_pair();
    let (sender, mut events) = mpsc::channel(1);
    let mut seen = Vec::new();
    let listen = async {
        while let Some(event) = events.recv().await {
            watch(&event, &stopper);
            if !matches!(event, EngineEvent::Delta { .. }) {
                seen.push(event);
            }
        }
    };
    let run = async {
        let sender = sender;
        world.engine.turn(text.into(), &sender, stop).await
    };
    let (outcome, ()) = tokio::join!(run, listen);
    (outcome, seen)
}

/// The last thing that people were told; what is for controllers is left out.
fn last(events: &[EngineEvent]) -> Option<&EngineEvent> {
    let is_for_controllers = |event: &&EngineEvent| {
        matches!(event, EngineEvent::Began { .. } | EngineEvent::Answered(_) | EngineEvent::Saved(_))
    };
    events.iter().rfind(|event| !is_for_controllers(event))
}

/// What stands in the file, which must be what the engine holds.
fn saved(world: &World) -> Vec<Message> {
    let store = Store::beside(world.directory.path());
    let opened = store.open(Some(world.engine.conversation.id())).unwrap();
    assert_eq!(opened.notice, None);
    assert_eq!(opened.conversation, world.engine.conversation);
    opened.conversation.messages().to_vec()
}

fn results(events: &[EngineEvent]) -> Vec<&str> {
    events
        .iter()
        .filter_map(|event| match event {
            EngineEvent::ToolFinished(result) => Some(result.result.text.as_str()),
            EngineEvent::Delta { .. }
            | EngineEvent::Thinking(_)
            | EngineEvent::Assistant(_)
            | EngineEvent::Abandoned(_)
            | EngineEvent::ToolStarted(_)
            | EngineEvent::Asked(_)
            | EngineEvent::Plan(_)
            | EngineEvent::Usage(_)
            | EngineEvent::Began { .. }
            | EngineEvent::Answered(_)
            | EngineEvent::Saved(_)
            | EngineEvent::Notice(_) => None,
        })
        .collect()
}

#[tokio::test(start_paused = true)]
async fn tools_run_until_the_model_calls_none() {
    let mut world = world(
        r#"
        [[step]]
        thinking = "first"
        text = "writing"
        calls = [{ tool = "write", input = { path = "f", content = "x" } }, { tool = "fly" }]
        [[step]]
        from = "tool"
        text = "the last one said: {{last}}"
        usage = { input_tokens = 3, output_tokens = 4 }
        "#,
    );
    let (outcome, events) = turn(&mut world, "go", |_, _| {}).await;
    assert!(matches!(outcome, TurnOutcome::Completed));
    let kinds: Vec<_> = events
        .iter()
        .map(|event| match event {
            EngineEvent::Thinking(_) => "thinking",
            EngineEvent::Assistant(_) => "assistant",
            EngineEvent::ToolStarted(_) => "started",
            EngineEvent::ToolFinished(_) => "finished",
            EngineEvent::Usage(_) => "usage",
            EngineEvent::Began { .. } => "began",
            EngineEvent::Answered(_) => "answered",
            EngineEvent::Saved(_) => "saved",
            EngineEvent::Delta { .. }
            | EngineEvent::Abandoned(_)
            | EngineEvent::Asked(_)
            | EngineEvent::Plan(_)
            | EngineEvent::Notice(_) => "other",
        })
        .collect();
    assert_eq!(
        kinds,
        [
            "began",
            "thinking",
            "assistant",
            "answered",
            "started",
            "started",
            "finished",
            "finished",
            "saved",
            "assistant",
            "usage",
            "answered"
        ]
    );
    let iterations: Vec<_> = events
        .iter()
        .filter_map(|event| if let EngineEvent::Answered(answered) = event { Some(answered) } else { None })
        .map(|answered| (answered.iteration, answered.calls.len(), answered.usage.is_some()))
        .collect();
    assert_eq!(iterations, [(1, 2, false), (2, 0, true)]);
    let messages = saved(&world);
    let [Message::User { .. }, Message::Assistant { thinking, calls, .. }, Message::Assistant { text, .. }] =
        messages.as_slice()
    else {
        panic!("{messages:?}")
    };
    assert_eq!(thinking, "first");
    let names: Vec<_> = calls.iter().map(|call| (call.name.as_str(), call.status.word())).collect();
    assert_eq!(names, [("write", "ok".into()), ("fly", "error".into())]);
    assert!(text.starts_with("the last one said: there is no tool \"fly\""), "{text}");
}

#[tokio::test(start_paused = true)]
async fn changes_of_one_answer_happen_in_order() {
    let mut world = world(
        r#"
        [[step]]
        [[step.calls]]
        tool = "write"
        input = { path = "f", content = "a" }
        [[step.calls]]
        tool = "edit"
        input = { path = "f", old = "a", new = "ab" }
        [[step.calls]]
        tool = "edit"
        input = { path = "f", old = "ab", new = "abc" }
        [[step]]
        text = "done"
        "#,
    );
    let (_, events) = turn(&mut world, "go", |_, _| {}).await;
    assert_eq!(
        results(&events),
        ["Wrote the new file f (1 line).", "Changed 1 place in f.", "Changed 1 place in f."]
    );
    assert_eq!(std::fs::read_to_string(world.engine.tools.workspace().root().join("f")).unwrap(), "abc");
}

#[tokio::test(start_paused = true)]
async fn a_turn_without_end_is_ended_with_its_last_pair_saved() {
    let mut world = world("[[step]]\ncalls = [{ tool = \"fly\" }]\ntimes = \"always\"");
    world.engine.max_steps = 3;
    let (outcome, _) = turn(&mut world, "go", |_, _| {}).await;
    assert!(matches!(outcome, TurnOutcome::Failed(Failure::MaxSteps(3))));
    assert_eq!(saved(&world).len(), 4);
}

#[tokio::test(start_paused = true)]
async fn a_stopped_answer_is_shown_and_not_remembered() {
    let mut world = world(
        "[[step]]\nparts = [{ thinking = \"hm\" }, { text = \"half\" }, { wait_for_file = \"never\" }]",
    );
    let (outcome, events) = turn(&mut world, "go", |event, stopper| {
        if matches!(event, EngineEvent::Delta { kind: DeltaKind::Assistant, .. }) {
            stopper.stop();
        }
    })
    .await;
    assert!(matches!(outcome, TurnOutcome::Interrupted));
    assert!(matches!(last(&events), Some(EngineEvent::Abandoned(half)) if half.text == "half"));
    assert!(matches!(saved(&world).as_slice(), [Message::User { .. }]));
}

#[tokio::test(start_paused = true)]
async fn calls_that_were_stopped_are_saved_with_their_results() {
    let mut world = world(
        r#"
        [[step]]
        calls = [{ tool = "write", input = { path = "f", content = "a" } }, { tool = "write", input = { path = "g", content = "a" } }]
        [[step]]
        text = "never asked"
        "#,
    );
    let (outcome, events) = turn(&mut world, "go", |event, stopper| {
        if matches!(event, EngineEvent::ToolStarted(_)) {
            stopper.stop();
        }
    })
    .await;
    assert!(matches!(outcome, TurnOutcome::Interrupted));
    assert_eq!(results(&events), ["interrupted", "interrupted"]);
    let messages = saved(&world);
    let Some(Message::Assistant { calls, .. }) = messages.last() else { panic!("{messages:?}") };
    assert!(calls.iter().all(|call| call.status.is(&ResultStatus::Interrupted)) && calls.len() == 2);
    assert!(!world.engine.tools.workspace().root().join("f").exists());
}

#[tokio::test(start_paused = true)]
async fn a_broken_connection_and_a_used_up_script_fail_the_turn() {
    let mut world = world("[[step]]\nparts = [{ text = \"half\" }, { close = true }]");
    let (outcome, events) = turn(&mut world, "go", |_, _| {}).await;
    let TurnOutcome::Failed(Failure::Provider(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.fault, Fault::Network);
    assert!(matches!(last(&events), Some(EngineEvent::Abandoned(_))));
    let (outcome, _) = turn(&mut world, "go", |_, _| {}).await;
    let TurnOutcome::Failed(Failure::Provider(error)) = outcome else { panic!("{outcome:?}") };
    assert_eq!(error.fault, Fault::Internal);
}

#[tokio::test(start_paused = true)]
async fn a_conversation_that_cannot_be_saved_fails_the_turn() {
    let mut world = world("[[step]]\ntext = \"x\"");
    world.engine.keeper = Arc::new(Store::beside(Path::new("/nowhere")));
    let (outcome, events) = turn(&mut world, "go", |_, _| {}).await;
    assert!(matches!(outcome, TurnOutcome::Failed(Failure::Save(_))));
    assert_eq!(events, []);
}

#[tokio::test(start_paused = true)]
async fn what_a_model_says_is_bounded_and_clean() {
    let large = "x".repeat(limits::MESSAGE_BYTES + 1);
    let mut world = world(&format!(
        "chunk = 100000\n[[step]]\nparts = [{{ text = \"a\\u001b[3\" }}, {{ text = \"1mb\" }}]\n[[step]]\ntext = \"{large}\""
    ));
    let (_, events) = turn(&mut world, "go", |_, _| {}).await;
    assert!(matches!(last(&events), Some(EngineEvent::Assistant(said)) if said.text == "ab"));
    let mut live = 0;
    let (_, events) = turn(&mut world, "go", |event, _| {
        if let EngineEvent::Delta { text, .. } = event {
            assert!(text.len() <= limits::DELTA_BYTES);
            live += text.len();
        }
    })
    .await;
    assert!(
        matches!(last(&events), Some(EngineEvent::Assistant(said)) if said.text.len() == limits::MESSAGE_BYTES)
    );
    assert_eq!(live, limits::MESSAGE_BYTES);
}

#[tokio::test(start_paused = true)]
async fn an_input_that_no_entry_can_hold_is_an_error_of_the_call() {
    let large = "x".repeat(2 * limits::MESSAGE_BYTES);
    let mut world = world(&format!(
        "[[step]]\ncalls = [{{ tool = \"write\", input = {{ path = \"f\", content = \"{large}\" }} }}]\n[[step]]\ntext = \"x\""
    ));
    let (outcome, events) = turn(&mut world, "go", |_, _| {}).await;
    assert!(matches!(outcome, TurnOutcome::Completed));
    assert!(results(&events).concat().contains("cannot use"));
}

#[tokio::test(start_paused = true)]
async fn names_and_steps_are_single_clean_lines() {
    let mut world = world(
        "[[step]]\ncalls = [{ tool = \"f\\u001b[1mly\\n!\" }, { tool = \"todo\", input = { steps = [{ text = \"a\\nb\\u001b[1m\", state = \"done\" }] } }]\n[[step]]\ntext = \"x\"",
    );
    let (_, events) = turn(&mut world, "go", |_, _| {}).await;
    assert!(
        events.iter().any(|event| matches!(event, EngineEvent::ToolStarted(tool) if tool.name == "fly !"))
    );
    assert!(
        events.iter().any(|event| matches!(event, EngineEvent::Plan(plan) if plan.steps[0].text == "a b"))
    );
}

/// Writes a file, then wants to run a command, then writes another one, all in one answer.
const WANTS: &str = r#"
    [[step]]
    calls = [
      { tool = "write", input = { path = "first", content = "" } },
      { tool = "bash", input = { command = "touch second" } },
      { tool = "write", input = { path = "third", content = "" } },
    ]
    [[step]]
    text = "went on"
"#;

#[tokio::test]
async fn where_nobody_is_to_be_waited_for_a_question_ends_the_turn_and_nothing_behind_it_runs() {
    let mut world = world(WANTS);
    world.engine.questions = Questions::Block;
    let (outcome, events) = turn(&mut world, "go", |_, _| {}).await;
    let TurnOutcome::Blocked(question) = outcome else { panic!("{outcome:?}") };
    assert_eq!(question.subject.map(|subject| subject.tool), Some("bash".to_owned()));
    assert!(!events.iter().any(|event| matches!(event, EngineEvent::Asked(_))), "nobody is asked");
    assert!(matches!(events.last(), Some(EngineEvent::Saved(_))));
    let there = |name: &str| world.directory.path().join(name).exists();
    assert_eq!((there("first"), there("second"), there("third")), (true, false, false));
    let kept = saved(&world);
    let Some(Message::Assistant { calls, .. }) = kept.last() else { panic!("{kept:?}") };
    let statuses: Vec<_> = calls.iter().map(|call| call.status.clone()).collect();
    let expected = [ResultStatus::Ok, ResultStatus::Denied, ResultStatus::Interrupted];
    assert_eq!(statuses, expected.map(Into::into));
}

#[tokio::test]
async fn what_was_granted_once_and_for_all_is_not_asked_again() {
    let mut world = world(WANTS);
    world.engine.questions = Questions::Block;
    world.engine.grants.add("bash touch second".into());
    let (outcome, _) = turn(&mut world, "go", |_, _| {}).await;
    // There is no guard here, so the command itself cannot run; but nothing behind it was held up.
    assert!(matches!(outcome, TurnOutcome::Completed), "{outcome:?}");
    assert!(world.directory.path().join("third").exists());
}
