//! Tests of the script provider.

use std::sync::Arc;

use serde_json::json;
use shared::entry::ResultStatus;
use shared::ids::PartId;
use tokio::time::Instant;

use super::*;
use crate::engine::conversation::AnsweredCall;

fn provider(script: &str) -> ScriptProvider {
    ScriptProvider::new(Script::parse(script, Path::new("test")).unwrap())
}

fn refused(script: &str) -> String {
    Script::parse(script, Path::new("test.toml")).unwrap_err().to_string()
}

fn said(text: &str) -> Vec<Message> {
    vec![Message::User { message: PartId::random(), text: text.into() }]
}

fn answered(tool: &str, status: ResultStatus, result: &str) -> Vec<Message> {
    let mut messages = said("the person");
    messages.push(Message::Assistant {
        message: PartId::random(),
        text: String::new(),
        thinking: String::new(),
        calls: vec![AnsweredCall {
            call: PartId::random(),
            name: tool.into(),
            input: json!({}),
            status: status.into(),
            result: result.into(),
        }],
    });
    messages
}

fn begin(provider: &ScriptProvider, messages: Vec<Message>, directory: &Path) -> mpsc::Receiver<ModelEvent> {
    provider.call(ModelRequest {
        model: NAME.into(),
        instructions: "".into(),
        tools: Arc::default(),
        messages: Arc::new(messages),
        working_directory: directory.to_owned(),
    })
}

async fn all(provider: &ScriptProvider, messages: Vec<Message>) -> Vec<ModelEvent> {
    let mut events = begin(provider, messages, Path::new("/work"));
    let mut all = Vec::new();
    while let Some(event) = events.recv().await {
        all.push(event);
    }
    all
}

/// All text of a call, or the error.
async fn text(provider: &ScriptProvider, messages: Vec<Message>) -> String {
    all(provider, messages)
        .await
        .into_iter()
        .map(|event| match event {
            ModelEvent::Text(text) => text,
            ModelEvent::Failed(error) => format!("!{}", error.message),
            ModelEvent::Thinking(_)
            | ModelEvent::Call { .. }
            | ModelEvent::Usage(_)
            | ModelEvent::Again { .. }
            | ModelEvent::Done => String::new(),
        })
        .collect()
}

#[tokio::test]
async fn steps_are_taken_in_turn_and_those_with_a_condition_first() {
    let provider = provider(
        r#"
        [[step]]
        text = "first"
        [[step]]
        match = "say *"
        text = "said {{1}}"
        [[step]]
        text = "second"
        times = 2
        [[step]]
        match = ["say b", "*once*"]
        text = "once"
        times = 1
        "#,
    );
    assert_eq!(text(&provider, said("x")).await, "first");
    assert_eq!(text(&provider, said("Say b")).await, "said b");
    assert_eq!(text(&provider, said("only once")).await, "once");
    assert_eq!(text(&provider, said("only once")).await, "second");
    assert_eq!(text(&provider, said("x")).await, "second");
    assert_eq!(text(&provider, said("x")).await, "!the script has no step left for this message");
    assert_eq!(text(&provider, said("say a")).await, "said a");
}

#[tokio::test]
async fn results_are_told_from_messages() {
    let provider = provider(
        r#"
        [[step]]
        tool = "bash"
        status = "denied"
        text = "denied bash"
        [[step]]
        from = "tool"
        match = "*needle*"
        text = "found in {{last}} for {{message}} in {{directory}}"
        [[step]]
        tool = "bash"
        text = "bash"
        [[step]]
        match = "*needle*"
        text = "person"
        [[step]]
        from = "user"
        text = "other person"
        "#,
    );
    assert_eq!(text(&provider, answered("bash", ResultStatus::Denied, "needle")).await, "denied bash");
    assert_eq!(
        text(&provider, answered("read", ResultStatus::Ok, "a needle")).await,
        "found in a needle for the person in /work"
    );
    assert_eq!(text(&provider, answered("bash", ResultStatus::Ok, "x")).await, "bash");
    assert_eq!(text(&provider, said("needle")).await, "person");
    assert_eq!(text(&provider, said("x")).await, "other person");
    assert!(text(&provider, answered("read", ResultStatus::Ok, "x")).await.starts_with('!'));
}

#[tokio::test]
async fn what_is_put_in_is_not_looked_at_again() {
    let provider = provider(
        "[[step]]\ntext = \"{{message}}|{{ message }}|{{unknown}}|{{|{{{message}}}\"\ntimes = \"always\"",
    );
    assert_eq!(text(&provider, said("{{last}}")).await, "{{last}}|{{last}}|{{unknown}}|{{|{{{last}}}");
}

#[tokio::test]
async fn a_step_gives_its_parts_in_order() {
    let provider = provider(
        r#"
        chunk = 2
        [[step]]
        text = "abc"
        thinking = "é🦀x"
        calls = [{ tool = "bash", input = { command = "echo {{message}}", n = 1, list = ["{{message}}"] } }, { tool = "todo" }]
        usage = { output_tokens = 7 }
        [[step]]
        chunk = 100
        parts = [{ text = "a" }, { thinking = "b" }, { call = { tool = "x" } }, { close = false }, { text = "c" }, { close = true }, { text = "d" }]
        "#,
    );
    let usage = shared::entry::Usage {
        input_tokens: 0,
        output_tokens: 7,
        cached_tokens: 0,
        cost: None,
        context_tokens: None,
    };
    assert_eq!(
        all(&provider, said("hi")).await,
        [
            ModelEvent::Thinking("é🦀".into()),
            ModelEvent::Thinking("x".into()),
            ModelEvent::Text("ab".into()),
            ModelEvent::Text("c".into()),
            ModelEvent::Call {
                name: "bash".into(),
                input: json!({"command": "echo hi", "n": 1, "list": ["hi"]})
            },
            ModelEvent::Call { name: "todo".into(), input: json!({}) },
            ModelEvent::Usage(usage),
            ModelEvent::Done,
        ]
    );
    assert_eq!(
        all(&provider, said("hi")).await,
        [
            ModelEvent::Text("a".into()),
            ModelEvent::Thinking("b".into()),
            ModelEvent::Call { name: "x".into(), input: json!({}) },
            ModelEvent::Text("c".into()),
        ]
    );
}

#[tokio::test]
async fn errors_are_classified_by_their_status() {
    for (status, fault) in [
        (401, Fault::Auth),
        (403, Fault::Auth),
        (402, Fault::Credit),
        (404, Fault::ModelUnavailable),
        (408, Fault::Network),
        (413, Fault::ContextExhausted),
        (429, Fault::RateLimit),
        (503, Fault::Server),
        (400, Fault::Internal),
        (200, Fault::Internal),
    ] {
        let provider = provider(&format!(
            "[[step]]\nerror = {{ status = {status}, message = \"m\", retry_after = 1500 }}"
        ));
        let error = ModelError {
            provider: "script",
            fault,
            status: Some(status),
            message: "m".into(),
            retry_after: Some(Duration::from_millis(1500)),
        };
        assert_eq!(all(&provider, said("x")).await, [ModelEvent::Failed(error)]);
    }
    let provider = provider("[[step]]\nerror = { message = \"m\" }");
    assert!(
        matches!(all(&provider, said("x")).await.as_slice(), [ModelEvent::Failed(error)] if error.fault == Fault::Network)
    );
}

#[tokio::test(start_paused = true)]
async fn delays_are_exact() {
    let provider = provider("[[step]]\ndelay = 1000\ntext = \"abcd\"\nchunk = 1\nchunk_delay = 100");
    let start = Instant::now();
    assert_eq!(text(&provider, said("x")).await, "abcd");
    assert_eq!(start.elapsed().as_millis(), 1300);
}

#[tokio::test(start_paused = true)]
async fn a_file_is_waited_for() {
    let directory = tempfile::tempdir().unwrap();
    let provider = provider(
        "[[step]]\nparts = [{ text = \"a\" }, { wait_for_file = \"go-{{message}}\" }, { text = \"b\" }]",
    );
    let mut events = begin(&provider, said("now"), directory.path());
    assert_eq!(events.recv().await, Some(ModelEvent::Text("a".into())));
    assert!(tokio::time::timeout(Duration::from_secs(2), events.recv()).await.is_err());
    std::fs::write(directory.path().join("go-now"), "").unwrap();
    assert_eq!(events.recv().await, Some(ModelEvent::Text("b".into())));
}

#[test]
fn a_wrong_script_says_where_and_what() {
    for (script, part) in [
        ("[[step]]\nspeak = 1", "speak"),
        ("steps = []", "steps"),
        ("[[step]]\n[[step]]\ntimes = 0", "step 2"),
        ("[[step]]\nchunk = 0\ntext = \"a\"", "chunk"),
        ("[[step]]\nmatch = []", "match"),
        ("[[step]]\nfrom = \"user\"\ntool = \"bash\"", "from"),
        ("[[step]]\ntext = \"a\"\nparts = []", "parts"),
        ("[[step]]\nstatus = \"good\"", "good"),
        ("[[step]]\ncalls = [{ name = \"bash\" }]", "name"),
        ("not toml", "line 1"),
    ] {
        let error = refused(script);
        assert!(error.contains(part) && error.contains("test.toml"), "{error}");
    }
    assert!(Script::read(Path::new("/nowhere")).unwrap_err().to_string().contains("/nowhere"));
}

#[test]
fn the_tour_is_a_script() {
    Script::tour().unwrap();
}

/// The example in the documentation is one that works.
#[test]
fn the_documented_scripts_can_be_read() {
    let document = include_str!("../../../../../docs/script-provider.md");
    let mut count = 0;
    for block in document.split("```toml\n").skip(1) {
        let script = block.split("```").next().unwrap();
        if script.contains("[[step]]") {
            Script::parse(script, Path::new("docs")).unwrap();
            count += 1;
        }
    }
    assert!(count >= 2);
}
