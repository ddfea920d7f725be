//! The `claude` harness with the real Claude Code program against a model server of the tests.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, as it should"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::config::{Claude, Config, Permissions};
use host::harness::claude::ClaudeHarness;
use host::harness::{
    Agent, AgentCommand, AgentEvent, Asked, Harness as _, OpenError, Opening, Place, Said, TurnEnd,
};
use host::process::RUN_VARIABLE;
use shared::decision::{Decision, Matter};
use shared::entry::{Assistant, Notice, ResultStatus, Tool, ToolResult};
use shared::frame::DeltaKind;
use shared::gate::Finding;
use shared::ids::{HostId, SubmissionId};
use shared::request::Configure;
use shared::settings::Settings;
use shared::status::Exit;
use tests::agent::{claude, script_in as program};
use tests::model_server::ModelServer;
use tests::programs;

/// For the agent to do one thing, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// A person's machine: home, project, and a `claude` that knows the model server.
struct Machine {
    directory: tempfile::TempDir,
    server: ModelServer,
    program: PathBuf,
}

impl Machine {
    async fn new() -> Self {
        Self::with("export ANTHROPIC_API_KEY=dummy").await
    }

    /// A machine on which `login` stands in the person's profile.
    async fn with(login: &str) -> Self {
        let server = ModelServer::start().await;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        // A name with a space and a letter of two bytes: paths of people have them.
        for name in ["home", "pröject one", "session"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::set_permissions(root.join("session"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let program = claude(root, &server, login);
        Self { directory, server, program }
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("pröject one")
    }

    fn place(&self) -> Place {
        place(self.directory.path(), &self.project(), &self.program)
    }

    fn opening(&self) -> Opening {
        Opening {
            place: self.place(),
            conversation: None,
            model: None,
            effort: None,
            agent: None,
            permissions: Permissions::Deny,
        }
    }
}

fn place(root: &Path, project: &Path, program: &Path) -> Place {
    Place {
        working_directory: project.to_owned(),
        session_directory: root.join("session"),
        run: HostId::random(),
        guard_program: programs::aude(),
        config: Config { claude: Claude { program: Some(program.to_owned()) }, ..Config::default() },
    }
}

/// An agent and all that it has said.
struct Conversation {
    agent: Agent,
    settings: Settings,
    events: Vec<AgentEvent>,
}

impl Conversation {
    async fn open(opening: Opening) -> Self {
        let agent = ClaudeHarness.open(opening).await.unwrap();
        let mut conversation = Self { agent, settings: Settings::default(), events: Vec::new() };
        assert!(
            matches!(conversation.next().await, AgentEvent::Settings(_)),
            "it first says that it is ready"
        );
        conversation
    }

    async fn next(&mut self) -> AgentEvent {
        let event = tokio::time::timeout(PATIENCE, self.agent.events.recv()).await;
        let event = event.unwrap_or_else(|_| panic!("nothing more came after {:#?}", self.events));
        let event = event.expect("an event before the end");
        if let AgentEvent::Settings(settings) = &event {
            self.settings = settings.clone();
        }
        self.events.push(event.clone());
        event
    }

    async fn command(&self, command: AgentCommand) {
        self.agent.commands.send(command).await.unwrap();
    }

    async fn begin(&mut self, text: &str) {
        self.events.clear();
        self.command(AgentCommand::Turn { submission: SubmissionId::random(), text: text.to_owned() }).await;
    }

    async fn end(&mut self) -> TurnEnd {
        loop {
            if let AgentEvent::TurnEnded(end) = self.next().await {
                return end;
            }
        }
    }

    /// Waits until it asks.
    async fn asked(&mut self) -> Asked {
        loop {
            if let AgentEvent::Asked(asked) = self.next().await {
                return *asked;
            }
        }
    }

    async fn answer_to(&self, asked: &Asked, decision: Decision) {
        self.command(AgentCommand::Answer { input: asked.input, decision }).await;
    }

    async fn turn(&mut self, text: &str) -> TurnEnd {
        self.begin(text).await;
        self.end().await
    }

    async fn exited(&mut self) -> Exit {
        loop {
            if let AgentEvent::Exited(exit) = self.next().await {
                assert!(self.agent.events.recv().await.is_none(), "nothing follows");
                return exit;
            }
        }
    }

    fn said<T>(&self, pick: impl Fn(&Said) -> Option<T>) -> Vec<T> {
        let said = self.events.iter().filter_map(|event| match event {
            AgentEvent::Said(said) => pick(said),
            _ => None,
        });
        said.collect()
    }

    fn answers(&self) -> Vec<Assistant> {
        self.said(|said| if let Said::Assistant(entry) = said { Some(entry.clone()) } else { None })
    }

    fn answer(&self) -> String {
        self.answers().last().map(|entry| entry.text.clone()).unwrap_or_default()
    }

    fn calls(&self) -> Vec<Tool> {
        self.said(|said| if let Said::Tool(entry) = said { Some(entry.clone()) } else { None })
    }

    fn results(&self) -> Vec<ToolResult> {
        self.said(|said| if let Said::Result(entry) = said { Some(entry.clone()) } else { None })
    }

    fn notices(&self) -> Vec<Notice> {
        self.said(|said| if let Said::Notice(entry) = said { Some(entry.clone()) } else { None })
    }
}

/// The processes that were started for a run, but for their guards.
fn agents_of(run: HostId) -> Vec<i32> {
    let mark = format!("{RUN_VARIABLE}={run}");
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let arguments = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let is_guard = arguments.split(|byte| *byte == 0).nth(1) == Some(b"guard");
        if !is_guard && environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()) {
            pids.push(pid);
        }
    }
    pids
}

#[tokio::test]
async fn a_turn_with_a_tool_call_is_told_as_it_happens() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    assert!(claude.settings.choices.models.iter().any(|model| model == "opus"));
    assert!(claude.settings.choices.efforts.iter().any(|effort| effort == "high"));
    assert!(claude.settings.choices.agents.iter().any(|agent| agent == "Plan"));
    assert!(claude.settings.model.is_some() && claude.settings.alias.is_some());
    assert_eq!(claude.settings.conversation, None, "nothing was said yet");

    assert_eq!(claude.turn("RUN `echo hi`").await, TurnEnd::Completed);
    let [call] = &claude.calls()[..] else { panic!("one call: {:#?}", claude.events) };
    assert_eq!((call.title.as_str(), call.name.as_str()), ("Run echo hi", "Bash"));
    let [result] = &claude.results()[..] else { panic!("one result") };
    assert_eq!((&result.call, result.text.as_str()), (&call.call, "hi"));
    assert!(result.status.is(&ResultStatus::Ok));
    assert_eq!(result.exit, Some(Exit::Status(0)));
    let answers = claude.answers();
    assert_eq!(claude.answer(), "Tool said: hi");
    assert_eq!(answers.len(), 2);
    for answer in &answers {
        let live = claude.events.iter().filter_map(|event| match event {
            AgentEvent::Delta { message, kind: DeltaKind::Assistant, text } if *message == answer.message => {
                Some(text.as_str())
            }
            _ => None,
        });
        assert_eq!(live.collect::<String>(), answer.text, "the live text is that of the entry");
    }
    let usage = claude.said(|said| if let Said::Usage(usage) = said { Some(usage.clone()) } else { None });
    let [usage] = &usage[..] else { panic!("one usage") };
    assert_eq!((usage.input_tokens, usage.cached_tokens, usage.context_tokens), (2040, 1000, Some(1550)));
    assert!(usage.cost.is_some_and(|cost| cost > 0.0));
    assert!(claude.settings.conversation.is_some() && claude.settings.context_tokens.is_some());
    assert!(claude.notices().is_empty());

    assert_eq!(claude.turn("THINK about it").await, TurnEnd::Completed);
    let thoughts =
        claude.said(|said| if let Said::Thinking(entry) = said { Some(entry.text.clone()) } else { None });
    assert_eq!(thoughts, ["I think of an echo."]);
    assert_eq!(claude.answer(), "Echo: THINK about it");

    assert_eq!(claude.turn("FAIL now").await, TurnEnd::Failed);
    let [notice] = &claude.notices()[..] else { panic!("one notice: {:#?}", claude.events) };
    assert!(notice.text.contains("told to fail"), "{}", notice.text);
    assert!(claude.answers().is_empty(), "an error is no answer");

    assert_eq!(claude.turn("RUN `ls ./missing`").await, TurnEnd::Completed);
    assert_eq!(claude.results()[0].exit, Some(Exit::Status(2)));
    assert!(claude.results()[0].status.is(&ResultStatus::Error));
}

#[tokio::test]
async fn a_person_allows_and_denies_and_the_model_hears_why() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    let command = "touch made.txt && echo made";
    claude.begin(&format!("RUN `{command}`")).await;
    let asked = claude.asked().await;
    let Matter::Confirm(confirm) = &asked.matter else { panic!("an approval") };
    assert_eq!(confirm.detail, command);
    assert_eq!(confirm.tool, claude.calls()[0].call, "it is about the call that is shown");
    assert_eq!(asked.subject.as_ref().unwrap().command.as_deref(), Some(command));
    assert!(!machine.project().join("made.txt").exists());
    claude.answer_to(&asked, Decision::Allow).await;
    assert_eq!(claude.end().await, TurnEnd::Completed);
    assert!(claude.results()[0].status.is(&ResultStatus::Ok), "{:#?}", claude.results());
    assert!(machine.project().join("made.txt").exists());

    let file = machine.project().join("made.txt");
    for (text, heard) in [(Some("use the other folder"), "use the other folder"), (None, "denied this")] {
        claude.begin(&format!("WRITE `{}` `x`", file.display())).await;
        let asked = claude.asked().await;
        let Matter::Confirm(confirm) = &asked.matter else { panic!("an approval") };
        assert!(confirm.detail.ends_with("+x\n\\ No newline at end of file\n"), "{}", confirm.detail);
        assert_eq!(asked.subject.as_ref().unwrap().paths, [file.canonicalize().unwrap()]);
        claude.answer_to(&asked, Decision::Deny { text: text.map(str::to_owned) }).await;
        assert_eq!(claude.end().await, TurnEnd::Completed);
        assert!(claude.results()[0].status.is(&ResultStatus::Denied));
        assert!(claude.answer().contains(heard), "the model was told why: {}", claude.answer());
    }
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "");
}

#[tokio::test]
async fn what_is_allowed_for_the_session_has_the_same_grant_again() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    let mut grants = Vec::new();
    for command in ["touch made.txt && echo made", "touch made.txt && echo made", "touch other.txt"] {
        claude.begin(&format!("RUN `{command}`")).await;
        let asked = claude.asked().await;
        grants.push(asked.grant.clone().expect("it can be allowed for the session"));
        claude.answer_to(&asked, Decision::AllowSession).await;
        assert_eq!(claude.end().await, TurnEnd::Completed);
        assert!(claude.results()[0].status.is(&ResultStatus::Ok));
    }
    assert_eq!(grants[0], grants[1]);
    assert_ne!(grants[0], grants[2]);
}

#[tokio::test]
async fn a_question_is_answered_with_its_options() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    let question = r#"{"questions":[{"question":"Which?","header":"Pick","multiSelect":false,
        "options":[{"label":"A","description":"a"},{"label":"B","description":"b"}]}]}"#;
    claude.begin(&format!("CALL `AskUserQuestion` `{question}`")).await;
    let asked = claude.asked().await;
    let Matter::Ask(ask) = &asked.matter else { panic!("a question") };
    assert_eq!((ask.question.as_str(), ask.options.len(), ask.multiple), ("Which?", 2, false));
    claude.answer_to(&asked, Decision::Chosen(vec!["B".to_owned()])).await;
    assert_eq!(claude.end().await, TurnEnd::Completed);
    assert!(claude.results()[0].status.is(&ResultStatus::Ok), "{:#?}", claude.results());
    assert!(claude.answer().contains('B'), "the model was told: {}", claude.answer());
    assert_eq!(claude.calls()[0].title, "Ask: Which?");
}

#[tokio::test]
async fn an_interrupt_with_a_permission_open_ends_the_turn_and_runs_nothing() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    claude.begin("RUN `touch made.txt`").await;
    let asked = claude.asked().await;
    claude.command(AgentCommand::Interrupt).await;
    claude.answer_to(&asked, Decision::Allow).await;
    assert_eq!(claude.end().await, TurnEnd::Interrupted);
    assert!(!machine.project().join("made.txt").exists());
    assert_eq!(claude.turn("and now").await, TurnEnd::Completed);
    assert_eq!(claude.answer(), "Echo: and now");
}

#[tokio::test]
async fn a_permission_that_was_open_at_a_kill_is_gone_and_the_conversation_goes_on() {
    let machine = Machine::new().await;
    let opening = machine.opening();
    let mut claude = Conversation::open(opening.clone()).await;
    assert_eq!(claude.turn("remember the word aubergine").await, TurnEnd::Completed);
    let conversation = claude.settings.conversation.clone();
    claude.begin("RUN `touch made.txt`").await;
    let asked = claude.asked().await;
    for pid in agents_of(opening.place.run) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    assert_eq!(claude.end().await, TurnEnd::Failed);
    assert!(claude.results()[0].status.is(&ResultStatus::Interrupted));
    claude.exited().await;

    let mut claude = Conversation::open(Opening { conversation, ..machine.opening() }).await;
    claude.answer_to(&asked, Decision::Allow).await;
    assert_eq!(claude.turn("which word").await, TurnEnd::Completed);
    assert!(machine.server.requests().pop().unwrap().conversation.contains("aubergine"));
    assert!(
        claude.events.iter().all(|event| !matches!(event, AgentEvent::Asked(_))),
        "nothing is asked again"
    );
    assert!(!machine.project().join("made.txt").exists());
}

#[tokio::test]
async fn model_and_effort_are_changed_in_mid_session() {
    let machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    assert_eq!(claude.turn("hello").await, TurnEnd::Completed);
    let first = machine.server.requests().pop().unwrap().model;
    let wanted = Configure { model: Some("sonnet".into()), effort: Some("low".into()), agent: None };
    claude.command(AgentCommand::Configure(wanted)).await;
    while claude.settings.alias.as_deref() != Some("Sonnet") {
        claude.next().await;
    }
    assert_eq!(claude.settings.effort.as_deref(), Some("low"), "{:#?}", claude.events);
    assert_eq!(claude.turn("and now").await, TurnEnd::Completed);
    let second = machine.server.requests().pop().unwrap().model;
    assert!(second.contains("sonnet") && second != first, "{first} {second}");
    assert_eq!(claude.settings.model.as_deref(), Some(second.as_str()));

    claude.events.clear();
    claude
        .command(AgentCommand::Configure(Configure { model: Some("gpt".into()), ..Configure::default() }))
        .await;
    while !matches!(claude.next().await, AgentEvent::Settings(_)) {}
    assert!(claude.notices()[0].text.contains("gpt"));
    assert_eq!(claude.settings.model.as_deref(), Some(second.as_str()));
}

#[tokio::test]
async fn with_edits_allowed_it_edits_inside_the_project_and_nowhere_else() {
    let machine = Machine::new().await;
    let mut claude =
        Conversation::open(Opening { permissions: Permissions::Edits, ..machine.opening() }).await;
    let inside = machine.project().join("new folder/a.txt");
    assert_eq!(claude.turn(&format!("WRITE `{}` `one`", inside.display())).await, TurnEnd::Completed);
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "one");
    let diff = claude.results()[0].diff.clone().unwrap();
    assert_eq!((diff.path.as_str(), diff.after.as_deref()), (inside.to_str().unwrap(), Some("one")));
    assert_eq!(claude.calls()[0].title, "Write new folder/a.txt");
    let edit = serde_json::json!({"file_path": inside, "old_string": "one", "new_string": "two"});
    assert_eq!(claude.turn(&format!("CALL `Edit` `{edit}`")).await, TurnEnd::Completed);
    assert_eq!(std::fs::read_to_string(&inside).unwrap(), "two");
    assert!(claude.results()[0].diff.as_ref().unwrap().patch.as_ref().unwrap().contains("\n-one\n"));

    std::os::unix::fs::symlink(machine.directory.path(), machine.project().join("link")).unwrap();
    let outside = machine.directory.path().join("outside.txt");
    let through_link = machine.project().join("link/outside.txt");
    let hook = machine.project().join(".git/hooks/pre-commit");
    for path in [&outside, &through_link, &hook] {
        claude.begin(&format!("WRITE `{}` `x`", path.display())).await;
        let asked = claude.asked().await;
        assert_eq!(asked.grant, None, "{} is no ordinary edit inside", path.display());
        claude.answer_to(&asked, Decision::Deny { text: None }).await;
        assert_eq!(claude.end().await, TurnEnd::Completed);
        assert!(claude.results()[0].status.is(&ResultStatus::Denied), "{}", path.display());
        assert!(!path.exists(), "{}", path.display());
    }
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_not_the_conversation() {
    let mut machine = Machine::new().await;
    let mut claude = Conversation::open(machine.opening()).await;
    claude.begin("SLOW answer").await;
    let slow = machine.server.slow().await;
    slow.say("and still ").await;
    loop {
        if let AgentEvent::Delta { text, .. } = claude.next().await
            && text.contains("still")
        {
            break;
        }
    }
    claude.command(AgentCommand::Interrupt).await;
    assert_eq!(claude.end().await, TurnEnd::Interrupted);
    slow.abandoned().await;
    assert_eq!(claude.answer(), "slowly and still ", "what came until then stays");
    assert_eq!(claude.turn("and now").await, TurnEnd::Completed);
    assert_eq!(claude.answer(), "Echo: and now");

    // At once, before the program can have taken up the turn: it must not run to its end.
    for _ in 0..5 {
        claude.begin("SLOW again").await;
        claude.command(AgentCommand::Interrupt).await;
        assert_eq!(claude.end().await, TurnEnd::Interrupted);
    }
    claude.command(AgentCommand::Interrupt).await;
    assert_eq!(
        claude.turn("still there").await,
        TurnEnd::Completed,
        "an interrupt without a turn does nothing"
    );

    // In a running tool.
    std::fs::write(machine.project().join("pipe.sh"), "").unwrap();
    nix::unistd::mkfifo(&machine.project().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    claude.begin("RUN `cat ./fifo`").await;
    let writer = machine.project().join("fifo");
    // Opening the other end waits until the command reads.
    let fifo = tokio::task::spawn_blocking(move || std::fs::OpenOptions::new().write(true).open(writer));
    let fifo = tokio::time::timeout(PATIENCE, fifo).await.unwrap().unwrap().unwrap();
    claude.command(AgentCommand::Interrupt).await;
    assert_eq!(claude.end().await, TurnEnd::Interrupted);
    drop(fifo);
    assert!(claude.results()[0].status.is(&ResultStatus::Interrupted), "{:#?}", claude.results());
}

#[tokio::test]
async fn after_a_kill_the_conversation_goes_on() {
    let mut machine = Machine::new().await;
    let opening = machine.opening();
    let mut claude = Conversation::open(opening.clone()).await;
    assert_eq!(claude.turn("remember the word aubergine").await, TurnEnd::Completed);
    let conversation = claude.settings.conversation.clone().unwrap();
    claude.begin("SLOW answer").await;
    let slow = machine.server.slow().await;
    let agents = agents_of(opening.place.run);
    assert!(!agents.is_empty());
    for pid in agents {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    assert_eq!(claude.end().await, TurnEnd::Failed);
    assert_eq!(claude.exited().await, Exit::Signal(9));
    slow.abandoned().await;
    assert!(claude.notices()[0].text.contains("in the middle of the turn"));

    let opening = Opening { conversation: Some(conversation.clone()), ..machine.opening() };
    let mut claude = Conversation::open(opening).await;
    assert_eq!(claude.settings.conversation, Some(conversation.clone()));
    assert_eq!(claude.turn("which word").await, TurnEnd::Completed);
    assert_eq!(claude.settings.conversation, Some(conversation));
    let last = machine.server.requests().pop().unwrap();
    assert_eq!(last.prompt, "which word");
    assert!(last.conversation.contains("aubergine"));
}

#[tokio::test]
async fn a_conversation_that_is_gone_starts_anew_and_says_so() {
    let machine = Machine::new().await;
    for stored in ["886237c6-44aa-4981-9411-7f782236539b", "no id at all"] {
        let opening = Opening { conversation: Some(stored.to_owned()), ..machine.opening() };
        let mut claude = Conversation::open(opening).await;
        assert_eq!(claude.turn("hello").await, TurnEnd::Completed);
        assert_eq!(claude.answer(), "Echo: hello");
        assert_ne!(claude.settings.conversation.as_deref(), Some(stored));
    }
    let opening = Opening { conversation: Some("no id at all".to_owned()), ..machine.opening() };
    let mut claude = Conversation::open(opening).await;
    claude.next().await;
    assert!(claude.notices()[0].text.contains("no longer has this conversation"));
}

#[tokio::test]
async fn model_and_effort_are_those_that_were_asked_for() {
    let machine = Machine::new().await;
    let opening = Opening { model: Some("sonnet".into()), effort: Some("low".into()), ..machine.opening() };
    let mut claude = Conversation::open(opening).await;
    assert_eq!(
        (claude.settings.alias.as_deref(), claude.settings.effort.as_deref()),
        (Some("Sonnet"), Some("low"))
    );
    assert_eq!(claude.turn("hello").await, TurnEnd::Completed);
    let asked = machine.server.requests().pop().unwrap().model;
    assert_eq!(claude.settings.model.as_deref(), Some(asked.as_str()));
    assert!(asked.contains("sonnet"));
    let unknown = Opening { model: Some("gpt".into()), ..machine.opening() };
    let refused = ClaudeHarness.open(unknown).await.unwrap_err();
    assert_eq!(refused, OpenError::UnknownModel { model: "gpt".into() });
    for opening in [
        Opening { effort: Some("extreme".into()), ..machine.opening() },
        Opening { agent: Some("nobody".into()), ..machine.opening() },
    ] {
        assert!(matches!(ClaudeHarness.open(opening).await, Err(OpenError::Start { .. })));
    }
}

#[tokio::test]
async fn letting_go_ends_all_that_it_started() {
    let mut machine = Machine::new().await;
    let opening = machine.opening();
    let run = opening.place.run;
    let mut claude = Conversation::open(opening).await;
    claude.begin("SLOW answer").await;
    let _slow = machine.server.slow().await;
    assert!(!agents_of(run).is_empty());
    let (closed, _) = tokio::sync::mpsc::channel(1);
    drop(std::mem::replace(&mut claude.agent.commands, closed));
    claude.exited().await;
    assert_eq!(agents_of(run), Vec::<i32>::new());
}

#[tokio::test]
async fn the_gate_tells_who_may_run() {
    for (login, finding) in [
        ("export ANTHROPIC_API_KEY=dummy", Finding::Ok),
        ("export CLAUDE_CODE_OAUTH_TOKEN=dummy", Finding::Ok),
        ("", Finding::NotLoggedIn),
        ("export CLAUDE_CODE_USE_BEDROCK=1", Finding::OtherProvider),
    ] {
        let machine = Machine::with(login).await;
        assert_eq!(ClaudeHarness.probe(&machine.place()).await, finding, "{login}");
        assert!(machine.server.requests().is_empty(), "nothing was asked of the model");
    }
}

#[tokio::test]
async fn the_gate_tells_what_is_wrong_with_a_program() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let probed = async |script: &str| {
        let program = program(root, &uuid::Uuid::new_v4().to_string(), script);
        ClaudeHarness.probe(&place(root, root, &program)).await
    };
    assert_eq!(ClaudeHarness.probe(&place(root, root, &root.join("none"))).await, Finding::NotFound);
    assert_eq!(
        ClaudeHarness.probe(&place(root, root, Path::new("no-claude-of-this-name"))).await,
        Finding::NotFound
    );
    assert_eq!(probed("echo '2.0.77 (Claude Code)'").await, Finding::Unreported);
    assert_eq!(probed("echo secret").await, Finding::Unreadable);
    assert_eq!(probed("echo secret >&2; exit 3").await, Finding::Silent { exit: Exit::Status(3) });
    assert_eq!(probed("kill -9 $$").await, Finding::Silent { exit: Exit::Signal(9) });
    let good_version = "[ \"$1\" = --version ] && { echo 2.1.332; exit; }\n";
    assert_eq!(probed(&format!("{good_version}echo Invalid API key")).await, Finding::Unreadable);
    assert_eq!(probed(&format!("{good_version}exit 1")).await, Finding::Silent { exit: Exit::Status(1) });
    assert_eq!(probed(&format!("{good_version}yes 2.1.332")).await, Finding::TimedOut);
    std::fs::write(root.join("no program"), "text").unwrap();
    let no_program = place(root, root, &root.join("no program"));
    assert!(matches!(ClaudeHarness.probe(&no_program).await, Finding::Spawn { .. }));
    let missing = place(root, &root.join("missing"), Path::new("sh"));
    assert!(matches!(ClaudeHarness.probe(&missing).await, Finding::Spawn { .. }));
}

#[tokio::test]
async fn a_program_that_hangs_is_given_up_and_ended() {
    let directory = tempfile::tempdir().unwrap();
    let root = directory.path();
    let program = program(root, "hangs", "sleep 1000 & exec sleep 1000");
    let place = place(root, root, &program);
    assert_eq!(ClaudeHarness.probe(&place).await, Finding::TimedOut);
    let run = place.run;
    let gone = async {
        while !agents_of(run).is_empty() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, gone).await.expect("its processes are gone");
}

/// A program that shakes hands as Claude Code does, and then takes a turn and does what the script says.
fn impostor(machine: &Machine, script: &str) -> Opening {
    let answer = |id: &str, response: &str| {
        format!(
            "read -r line; echo '{{\"type\":\"control_response\",\"response\":\
             {{\"subtype\":\"success\",\"request_id\":\"{id}\",\"response\":{response}}}}}'\n"
        )
    };
    let ready = answer("aude-initialize", r#"{"models":[],"agents":[],"current_permission_mode":"default"}"#)
        + &answer("aude-settings", "{}");
    let script = format!("{ready}read -r line\n{script}");
    let mut opening = machine.opening();
    let program = program(machine.directory.path(), &uuid::Uuid::new_v4().to_string(), &script);
    opening.place.config.claude.program = Some(program);
    opening
}

#[tokio::test]
async fn garbage_is_traced_and_closing_the_output_is_an_end() {
    let machine = Machine::new().await;
    let script = r#"
        echo 'Segmentation fault'; printf '\377\376\n'; head -c 9000000 /dev/zero; echo
        echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a\ud800b"}]}}'
        exec 1>&-; sleep 1000"#;
    let opening = impostor(&machine, script);
    let run = opening.place.run;
    let mut claude = Conversation::open(opening).await;
    assert_eq!(claude.turn("hello").await, TurnEnd::Failed);
    assert_eq!(claude.answer(), "a\u{FFFD}b");
    claude.exited().await;
    assert_eq!(agents_of(run), Vec::<i32>::new());
    let trace = std::fs::read(machine.directory.path().join("session/claude-trace.txt")).unwrap();
    let trace = String::from_utf8_lossy(&trace);
    assert!(trace.contains("Segmentation fault") && trace.contains("too long"), "{trace}");
}

#[tokio::test]
async fn a_program_that_asks_without_end_and_reads_nothing_is_ended() {
    let machine = Machine::new().await;
    let ask = r#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"FILL"}}}"#;
    let ask = ask.replace("FILL", &"x".repeat(4000));
    // Each time another request: as many as may be open are asked, the rest is denied.
    let ask = ask.replace("\"q\"", "\"'$number'\"");
    let script = format!("number=0\nwhile echo '{ask}'; do number=$((number + 1)); done");
    let mut claude = Conversation::open(impostor(&machine, &script)).await;
    claude.begin("hello").await;
    assert_eq!(claude.end().await, TurnEnd::Failed);
    claude.exited().await;
}

#[tokio::test]
async fn a_program_that_dies_with_a_permission_open_is_told() {
    let machine = Machine::new().await;
    let ask = r#"{"type":"control_request","request_id":"q","request":{"subtype":"can_use_tool","tool_name":"Bash","input":{"command":"ls"},"tool_use_id":"t"}}"#;
    // The same request twice, another withdrawn, and then it waits to be killed by what it is told.
    let script = format!(
        "echo '{ask}'; echo '{ask}'\necho '{}'\necho '{{\"type\":\"control_cancel_request\",\"request_id\":\"r\"}}'\nexec sleep 1000",
        ask.replace("\"q\"", "\"r\"")
    );
    let opening = impostor(&machine, &script);
    let run = opening.place.run;
    let mut claude = Conversation::open(opening).await;
    claude.begin("hello").await;
    let (first, second) = (claude.asked().await, claude.asked().await);
    assert_ne!(first.input, second.input);
    while !matches!(claude.next().await, AgentEvent::Withdrawn(input) if input == second.input) {}
    claude.answer_to(&second, Decision::Allow).await;
    for pid in agents_of(run) {
        let _ = nix::sys::signal::kill(nix::unistd::Pid::from_raw(pid), nix::sys::signal::Signal::SIGKILL);
    }
    assert_eq!(claude.end().await, TurnEnd::Failed);
    claude.exited().await;
}

#[tokio::test]
async fn a_flood_is_no_end_of_the_session_and_is_not_held() {
    let machine = Machine::new().await;
    let script = r#"
        head -c 100000000 /dev/zero; echo
        echo '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"after the flood"}]}}'
        exec 1>&-; sleep 1000"#;
    let mut claude = Conversation::open(impostor(&machine, script)).await;
    assert_eq!(claude.turn("hello").await, TurnEnd::Failed);
    assert_eq!(claude.answer(), "after the flood");
    claude.exited().await;
}

#[tokio::test]
async fn a_program_that_is_no_agent_does_not_open() {
    let machine = Machine::new().await;
    for script in
        ["exit 3", "echo 'Segmentation fault'; echo secret >&2; exit 1", "head -c 20000000 /dev/zero"]
    {
        let mut opening = machine.opening();
        let program = program(machine.directory.path(), &uuid::Uuid::new_v4().to_string(), script);
        opening.place.config.claude.program = Some(program);
        let Err(OpenError::Start { detail }) = ClaudeHarness.open(opening).await else { panic!("{script}") };
        assert!(!detail.contains("secret"), "what it printed stays in the trace");
    }
    let mut opening = machine.opening();
    opening.place.config.claude.program = Some("no-claude-of-this-name".into());
    assert!(matches!(ClaudeHarness.open(opening).await, Err(OpenError::NotFound { .. })));
}
