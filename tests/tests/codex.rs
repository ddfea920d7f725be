//! The `codex` harness with the real Codex program against a model server of the tests.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, as it should"
)]

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use host::config::{Codex, Config, Permissions};
use host::harness::codex::CodexHarness;
use host::harness::{
    Agent, AgentCommand, AgentEvent, Asked, Harness as _, OpenError, Opening, Place, Said, TurnEnd,
};
use shared::decision::{Decision, Matter};
use shared::entry::{ResultStatus, ToolResult};
use shared::gate::Finding;
use shared::ids::{HostId, SubmissionId};
use shared::request::Configure;
use shared::settings::Settings;
use shared::status::Exit;
use tests::agent::script_in;
use tests::model_server::ModelServer;
use tests::programs;

/// For the agent to do one thing, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);
/// A model that Codex knows: others have no `apply_patch`.
const MODEL: &str = "gpt-6.2-sol";

/// A person's machine: home, project, and a `codex` that knows the model server.
struct Machine {
    directory: tempfile::TempDir,
    server: ModelServer,
    program: PathBuf,
}

impl Machine {
    async fn new() -> Self {
        let server = ModelServer::start().await;
        let directory = tempfile::tempdir().unwrap();
        let root = directory.path();
        for name in ["home", "home/.codex", "pröject one", "session"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        std::fs::set_permissions(root.join("session"), std::fs::Permissions::from_mode(0o700)).unwrap();
        let config = format!(
            "model = \"{MODEL}\"\nmodel_provider = \"local\"\n[model_providers.local]\nname = \"local\"\n\
             base_url = \"{}/v1\"\nwire_api = \"responses\"\nenv_key = \"LOCAL_KEY\"\nrequest_max_retries = 0\n\
             stream_max_retries = 0\n",
            server.url()
        );
        std::fs::write(root.join("home/.codex/config.toml"), config).unwrap();
        let script = format!(
            "unset OPENAI_API_KEY CODEX_API_KEY\nexport HOME='{home}' CODEX_HOME='{home}/.codex' LOCAL_KEY=dummy\n\
             exec '{codex}' \"$@\"\n",
            home = root.join("home").display(),
            codex = programs::codex().display(),
        );
        let program = script_in(root, "codex", &script);
        Self { directory, server, program }
    }

    fn project(&self) -> PathBuf {
        self.directory.path().join("pröject one")
    }

    fn opening(&self) -> Opening {
        Opening {
            place: place(self.directory.path(), &self.project(), &self.program),
            conversation: None,
            model: None,
            effort: None,
            agent: None,
            permissions: Permissions::Ask,
        }
    }
}

fn place(root: &Path, project: &Path, program: &Path) -> Place {
    Place {
        working_directory: project.to_owned(),
        session_directory: root.join("session"),
        run: HostId::random(),
        guard_program: programs::aude(),
        config: Config { codex: Codex { program: Some(program.to_owned()) }, ..Config::default() },
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
        let agent = CodexHarness.open(opening).await.unwrap();
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

    async fn turn(&mut self, text: &str) -> TurnEnd {
        self.begin(text).await;
        self.end().await
    }

    async fn asked(&mut self) -> Asked {
        loop {
            match self.next().await {
                AgentEvent::Asked(asked) => return *asked,
                AgentEvent::TurnEnded(end) => panic!("{end:?} without asking: {:#?}", self.events),
                _ => {}
            }
        }
    }

    async fn exited(&mut self) -> Exit {
        loop {
            if let AgentEvent::Exited(exit) = self.next().await {
                return exit;
            }
        }
    }

    fn results(&self) -> Vec<ToolResult> {
        let results = self.events.iter().filter_map(|event| match event {
            AgentEvent::Said(Said::Result(result)) => Some(result.clone()),
            _ => None,
        });
        results.collect()
    }

    fn answer(&self) -> String {
        let last = self.events.iter().rev().find_map(|event| match event {
            AgentEvent::Said(Said::Assistant(assistant)) => Some(assistant.text.clone()),
            _ => None,
        });
        last.unwrap_or_default()
    }
}

#[tokio::test]
async fn a_command_runs_only_once_it_is_allowed() {
    let machine = Machine::new().await;
    let mut codex = Conversation::open(machine.opening()).await;
    assert_eq!(codex.turn("hello").await, TurnEnd::Completed, "{:#?}", codex.events);
    assert_eq!(codex.answer(), "Echo: hello");
    assert!(codex.events.iter().any(|event| matches!(event, AgentEvent::Said(Said::Usage(_)))));
    for (decision, status) in
        [(Decision::Deny { text: None }, ResultStatus::Denied), (Decision::Allow, ResultStatus::Ok)]
    {
        codex.begin("RUN `touch made.txt && echo made`").await;
        let asked = codex.asked().await;
        let Matter::Confirm(confirm) = &asked.matter else { panic!("an approval") };
        assert!(confirm.detail.starts_with("touch made.txt && echo made"));
        assert!(!machine.project().join("made.txt").exists());
        codex.command(AgentCommand::Answer { input: asked.input, decision }).await;
        assert_eq!(codex.end().await, TurnEnd::Completed);
        assert!(codex.results()[0].status.is(&status), "{:#?}", codex.results());
    }
    assert!(machine.project().join("made.txt").exists());
    assert_eq!(codex.results()[0].exit, Some(Exit::Status(0)));
    assert!(codex.answer().contains("made"));
}

#[tokio::test]
async fn a_patch_is_seen_whole_and_edits_inside_the_project_may_be_free() {
    let machine = Machine::new().await;
    let mut codex = Conversation::open(machine.opening()).await;
    codex.begin("PATCH `new.txt` `one`").await;
    let asked = codex.asked().await;
    let Matter::Confirm(confirm) = &asked.matter else { panic!("an approval") };
    assert!(confirm.detail.ends_with("+one\n"), "{}", confirm.detail);
    codex.command(AgentCommand::Answer { input: asked.input, decision: Decision::Allow }).await;
    assert_eq!(codex.end().await, TurnEnd::Completed);
    assert_eq!(std::fs::read_to_string(machine.project().join("new.txt")).unwrap(), "one\n");
    assert_eq!(codex.results()[0].diff.as_ref().unwrap().after.as_deref(), Some("one\n"));

    let edits = Opening { permissions: Permissions::Edits, ..machine.opening() };
    let mut codex = Conversation::open(edits).await;
    assert_eq!(codex.turn("PATCH `free.txt` `two`").await, TurnEnd::Completed);
    assert!(machine.project().join("free.txt").exists());
    codex.begin("PATCH `.git/hooks/pre-commit` `x`").await;
    codex.asked().await;
    codex.command(AgentCommand::Interrupt).await;
    assert_eq!(codex.end().await, TurnEnd::Interrupted);
    assert!(!machine.project().join(".git").exists());
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_and_not_the_conversation() {
    let mut machine = Machine::new().await;
    let mut codex = Conversation::open(machine.opening()).await;
    codex.begin("SLOW answer").await;
    let slow = machine.server.slow().await;
    codex.command(AgentCommand::Interrupt).await;
    assert_eq!(codex.end().await, TurnEnd::Interrupted);
    slow.abandoned().await;
    // At once, before the program can have taken up the turn; and with an approval open.
    codex.begin("SLOW again").await;
    codex.command(AgentCommand::Interrupt).await;
    assert_eq!(codex.end().await, TurnEnd::Interrupted);
    codex.begin("RUN `touch never.txt`").await;
    let asked = codex.asked().await;
    codex.command(AgentCommand::Interrupt).await;
    assert_eq!(codex.end().await, TurnEnd::Interrupted);
    codex.command(AgentCommand::Answer { input: asked.input, decision: Decision::Allow }).await;
    assert_eq!(codex.turn("and now").await, TurnEnd::Completed);
    assert_eq!(codex.answer(), "Echo: and now");
    assert!(!machine.project().join("never.txt").exists());
    assert_eq!(codex.turn("FAIL").await, TurnEnd::Failed);
}

#[tokio::test]
async fn after_a_kill_the_conversation_goes_on_and_the_model_can_change() {
    let mut machine = Machine::new().await;
    let opening = machine.opening();
    let mut codex = Conversation::open(opening.clone()).await;
    assert_eq!(codex.turn("remember the word aubergine").await, TurnEnd::Completed);
    let conversation = codex.settings.conversation.clone().unwrap();
    codex.begin("SLOW answer").await;
    let _slow = machine.server.slow().await;
    let run = format!("{}={}", host::process::RUN_VARIABLE, opening.place.run);
    for pid in std::fs::read_dir("/proc").unwrap().flatten() {
        let Some(number) = pid.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let environment = std::fs::read(pid.path().join("environ")).unwrap_or_default();
        let command = std::fs::read(pid.path().join("cmdline")).unwrap_or_default();
        let is_guard = command.split(|byte| *byte == 0).nth(1) == Some(b"guard");
        if !is_guard && environment.split(|byte| *byte == 0).any(|variable| variable == run.as_bytes()) {
            let _ =
                nix::sys::signal::kill(nix::unistd::Pid::from_raw(number), nix::sys::signal::Signal::SIGKILL);
        }
    }
    assert_eq!(codex.end().await, TurnEnd::Failed);
    codex.exited().await;

    let opening = Opening { conversation: Some(conversation.clone()), ..machine.opening() };
    let mut codex = Conversation::open(opening).await;
    assert_eq!(codex.settings.conversation, Some(conversation));
    let other = Configure { model: Some("gpt-other".into()), ..Configure::default() };
    codex.command(AgentCommand::Configure(other)).await;
    assert_eq!(codex.turn("which word").await, TurnEnd::Completed, "{:#?}", codex.events);
    let last = machine.server.requests().pop().unwrap();
    assert_eq!((last.prompt.as_str(), last.model.as_str()), ("which word", "gpt-other"));
    assert!(last.conversation.contains("aubergine"));

    let gone = "01a22e05-37d2-76e2-a534-40eb65f783ae".to_owned();
    let mut codex = Conversation::open(Opening { conversation: Some(gone), ..machine.opening() }).await;
    assert_eq!(codex.turn("hello").await, TurnEnd::Completed, "a conversation that is gone starts anew");
}

#[tokio::test]
async fn the_gate_tells_who_may_run() {
    let machine = Machine::new().await;
    let root = machine.directory.path();
    assert_eq!(CodexHarness.probe(&machine.opening().place).await, Finding::OtherProvider);
    std::fs::write(root.join("home/.codex/config.toml"), "").unwrap();
    assert_eq!(CodexHarness.probe(&machine.opening().place).await, Finding::NotLoggedIn);
    let probed = async |script: &str| {
        let program = script_in(root, "other", script);
        CodexHarness.probe(&place(root, root, &program)).await
    };
    assert_eq!(CodexHarness.probe(&place(root, root, &root.join("none"))).await, Finding::NotFound);
    assert_eq!(probed("echo codex-cli 0.20.0").await, Finding::Unreported);
    assert_eq!(probed("echo secret").await, Finding::Unreadable);
    assert_eq!(probed("exit 3").await, Finding::Silent { exit: Exit::Status(3) });
    let version = "[ \"$1\" = --version ] && { echo codex-cli 0.171.0; exit; }\n";
    assert_eq!(probed(&format!("{version}echo Logged in using ChatGPT >&2")).await, Finding::Ok);
    assert_eq!(probed(&format!("{version}exec sleep 1000")).await, Finding::TimedOut);
}

#[tokio::test]
async fn a_program_that_is_no_agent_does_not_open() {
    let machine = Machine::new().await;
    for script in
        ["exit 3", "echo 'Segmentation fault'; echo secret >&2; exit 1", "head -c 20000000 /dev/zero"]
    {
        let mut opening = machine.opening();
        opening.place.config.codex.program = Some(script_in(machine.directory.path(), "fault", script));
        let Err(OpenError::Start { detail }) = CodexHarness.open(opening).await else { panic!("{script}") };
        assert!(!detail.contains("secret"), "what it printed stays in the trace");
    }
}
