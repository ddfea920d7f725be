//! The `acp` harness with agents that fault: everything that a hostile or broken agent may do, and that nothing is left of it.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that panics has failed, as it should"
)]

use std::os::unix::fs::PermissionsExt;
use std::time::Duration;

use host::config::{AcpAgent, Config, Permissions};
use host::harness::{self, Agent, AgentCommand, AgentEvent, Asked, OpenError, Opening, Place, Said, TurnEnd};
use host::process::RUN_VARIABLE;
use shared::decision::Decision;
use shared::entry::ResultStatus;
use shared::gate::Finding;
use shared::ids::{HostId, SubmissionId};
use shared::settings::Settings;
use shared::status::Exit;
use tests::agent::script_in;
use tests::programs;

/// For the agent to do one thing, on a busy machine.
const PATIENCE: Duration = Duration::from_secs(90);

/// What every agent here answers first: a session in the mode `ask`.
const READY: &str = r#"
read -r line; echo '{"jsonrpc":"2.0","id":1,"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}}'
read -r line; echo '{"jsonrpc":"2.0","id":2,"result":{"sessionId":"s","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"}]}}}'
"#;

/// Asks for permission to run `make`, for the session `$1` and under the id `$2`.
const ASK: &str = r#"
ask() {
  echo '{"jsonrpc":"2.0","id":'"$2"',"method":"session/request_permission","params":{"sessionId":"'"$1"'","toolCall":{"toolCallId":"c'"$2"'","kind":"execute","title":"make","rawInput":{"command":"make"}},"options":[{"optionId":"yes","kind":"allow_once"},{"optionId":"no","kind":"reject_once"}]}}'
}
say() {
  echo '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"'"$1"'"}}}}'
}
end() { echo '{"jsonrpc":"2.0","id":3,"result":{"stopReason":"'"$1"'"}}'; }
"#;

struct Machine {
    directory: tempfile::TempDir,
}

impl Machine {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        for name in ["project", "session"] {
            std::fs::create_dir(directory.path().join(name)).unwrap();
        }
        let private = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(directory.path().join("session"), private).unwrap();
        Self { directory }
    }

    /// An agent `mine` that is this script.
    fn place(&self, script: &str) -> Place {
        let name = uuid::Uuid::new_v4().to_string();
        self.command(script_in(self.directory.path(), &name, script).to_str().unwrap())
    }

    fn command(&self, command: &str) -> Place {
        let agent = AcpAgent {
            command: vec![command.to_owned()],
            mode: Some("ask".to_owned()),
            ..AcpAgent::default()
        };
        Place {
            working_directory: self.directory.path().join("project"),
            session_directory: self.directory.path().join("session"),
            run: HostId::random(),
            guard_program: programs::aude(),
            config: Config { harness: [("mine".to_owned(), agent)].into(), ..Config::default() },
        }
    }

    fn trace(&self) -> String {
        let trace = std::fs::read(self.directory.path().join("session/acp-trace.txt")).unwrap();
        String::from_utf8_lossy(&trace).into_owned()
    }
}

fn opening(place: Place) -> Opening {
    Opening {
        place,
        conversation: None,
        model: None,
        effort: None,
        agent: None,
        permissions: Permissions::Ask,
    }
}

async fn open(place: Place) -> Result<Agent, OpenError> {
    let harness = harness::by_name("mine", &place.config).unwrap();
    harness.open(opening(place)).await
}

async fn probe(place: Place) -> Finding {
    let harness = harness::by_name("mine", &place.config).unwrap();
    harness.probe(&place).await
}

/// An agent and all that it has said.
struct Conversation {
    agent: Agent,
    run: HostId,
    settings: Settings,
    events: Vec<AgentEvent>,
}

impl Conversation {
    async fn open(place: Place) -> Self {
        let run = place.run;
        let agent = open(place).await.unwrap();
        let mut conversation = Self { agent, run, settings: Settings::default(), events: Vec::new() };
        assert!(matches!(conversation.next().await, AgentEvent::Settings(_)));
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

    async fn begin(&mut self) {
        self.events.clear();
        let text = "hello".to_owned();
        self.command(AgentCommand::Turn { submission: SubmissionId::random(), text }).await;
    }

    async fn asked(&mut self) -> Asked {
        loop {
            if let AgentEvent::Asked(asked) = self.next().await {
                return *asked;
            }
        }
    }

    async fn end(&mut self) -> TurnEnd {
        loop {
            if let AgentEvent::TurnEnded(end) = self.next().await {
                return end;
            }
        }
    }

    async fn turn(&mut self) -> TurnEnd {
        self.begin().await;
        self.end().await
    }

    /// Waits until it says that it is gone, and looks whether it is.
    async fn exited(&mut self) -> Exit {
        loop {
            if let AgentEvent::Exited(exit) = self.next().await {
                assert_eq!(processes_of(self.run), Vec::<i32>::new());
                return exit;
            }
        }
    }

    fn answers(&self) -> Vec<&str> {
        let answers = self.events.iter().filter_map(|event| match event {
            AgentEvent::Said(Said::Assistant(entry)) => Some(entry.text.as_str()),
            _ => None,
        });
        answers.collect()
    }

    fn results(&self) -> Vec<ResultStatus> {
        let results = self.events.iter().filter_map(|event| match event {
            AgentEvent::Said(Said::Result(entry)) => entry.status.known().copied(),
            _ => None,
        });
        results.collect()
    }
}

/// The processes that were started for a run.
fn processes_of(run: HostId) -> Vec<i32> {
    let mark = format!("{RUN_VARIABLE}={run}");
    let processes = std::fs::read_dir("/proc").unwrap().filter_map(|entry| {
        let pid = entry.ok()?.file_name().to_str()?.parse::<i32>().ok()?;
        let environment = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
        environment.split(|byte| *byte == 0).any(|variable| variable == mark.as_bytes()).then_some(pid)
    });
    processes.collect()
}

#[tokio::test]
async fn what_is_no_agent_does_not_open() {
    let machine = Machine::new();
    let scripts = ["exit 3", "echo oops; echo secret >&2; exit 1", "head -c 20000000 /dev/zero"];
    for script in scripts {
        let place = machine.place(script);
        let run = place.run;
        let Err(OpenError::Start { detail }) = open(place).await else { panic!("{script} opened") };
        assert!(!detail.contains("secret"), "what it printed stays in the trace");
        assert_eq!(processes_of(run), Vec::<i32>::new());
    }
    let missing = open(machine.command("no-agent-of-this-name")).await;
    assert!(matches!(missing, Err(OpenError::NotFound { .. })));
}

#[tokio::test]
async fn the_gate_tells_what_is_wrong_with_a_program() {
    let machine = Machine::new();
    assert_eq!(probe(machine.place(&format!("{READY}sleep 1000"))).await, Finding::Ok);
    assert_eq!(probe(machine.place("exit 3")).await, Finding::Silent { exit: Exit::Status(3) });
    assert_eq!(probe(machine.place("echo usage: nothing")).await, Finding::Unreadable);
    assert_eq!(probe(machine.command("no-agent-of-this-name")).await, Finding::NotFound);
    let old = r#"read -r line; echo '{"id":1,"result":{"protocolVersion":7}}'; sleep 1000"#;
    assert_eq!(probe(machine.place(old)).await, Finding::Unreadable);
}

#[tokio::test]
async fn a_program_that_hangs_is_given_up_and_ended() {
    let machine = Machine::new();
    let place = machine.place("sleep 1000 & setsid sleep 1000 & exec sleep 1000");
    let run = place.run;
    assert_eq!(probe(place).await, Finding::TimedOut);
    assert_eq!(processes_of(run), Vec::<i32>::new());
}

#[tokio::test]
async fn garbage_is_traced_and_closing_the_output_is_an_end() {
    let machine = Machine::new();
    let script = format!(
        "{READY}{ASK}read -r line\n{}",
        r#"echo 'Segmentation fault'; printf '\377\376\n'; head -c 9000000 /dev/zero; echo
        say 'a\ud800b'
        exec 1>&-; sleep 1000"#
    );
    let mut agent = Conversation::open(machine.place(&script)).await;
    assert_eq!(agent.turn().await, TurnEnd::Failed);
    assert_eq!(agent.answers(), ["a\u{FFFD}b"]);
    agent.exited().await;
    let trace = machine.trace();
    assert!(trace.contains("Segmentation fault") && trace.contains("too long"), "{trace}");
}

#[tokio::test]
async fn a_flood_of_a_hundred_megabytes_ends_no_turn_and_is_bounded() {
    let machine = Machine::new();
    let script = format!(
        "{READY}{ASK}read -r line\n{}",
        r#"text=$(head -c 100000 /dev/zero | tr '\0' x)
        flood=$(say "$text")
        yes "$flood" | head -n 1000
        end end_turn; read -r line"#
    );
    let mut agent = Conversation::open(machine.place(&script)).await;
    agent.begin().await;
    let (mut logged, mut live) = (0, 0);
    loop {
        match agent.next().await {
            AgentEvent::Said(Said::Assistant(entry)) => logged += entry.text.len(),
            AgentEvent::Delta { text, .. } => live += text.len(),
            AgentEvent::TurnEnded(end) => break assert_eq!(end, TurnEnd::Completed),
            _ => {}
        }
        agent.events.clear();
    }
    assert!(logged > 1_000_000 && logged < 20_000_000 && live < 20_000_000, "{logged} {live}");
}

#[tokio::test]
async fn a_permission_is_decided_by_its_own_option() {
    let machine = Machine::new();
    let script = format!(
        "{READY}{ASK}read -r line\n{}",
        r#"ask s 0; read -r first; ask other 7; read -r second; ask s 0; read -r third
        case "$first$second$third" in *'"yes"'*-32602*'"no"'*) say right;; *) say wrong;; esac
        end end_turn; read -r line"#
    );
    let mut agent = Conversation::open(machine.place(&script)).await;
    agent.begin().await;
    let first = agent.asked().await;
    assert_eq!(first.subject.as_ref().unwrap().command.as_deref(), Some("make"));
    agent.command(AgentCommand::Answer { input: first.input, decision: Decision::Allow }).await;
    // The same id again, as an agent that was started anew would use it.
    let again = agent.asked().await;
    assert_ne!(first.input, again.input);
    let decision = Decision::Deny { text: Some("not now".to_owned()) };
    agent.command(AgentCommand::Answer { input: again.input, decision }).await;
    assert_eq!(agent.end().await, TurnEnd::Completed);
    assert_eq!(agent.answers(), ["right"]);
    assert_eq!(agent.settings.conversation.as_deref(), Some("s"));
}

#[tokio::test]
async fn an_interrupt_frees_an_agent_that_waits_for_a_permission() {
    let machine = Machine::new();
    let script = format!(
        "{READY}{ASK}read -r line\n{}",
        r#"ask s 0; read -r answer; read -r cancel
        case "$answer$cancel" in *cancelled*session/cancel*) end end_turn;; *) exit 9;; esac
        end cancelled; read -r line
        echo '{"jsonrpc":"2.0","id":4,"result":{"stopReason":"end_turn"}}'; read -r line"#
    );
    let mut agent = Conversation::open(machine.place(&script)).await;
    agent.begin().await;
    agent.asked().await;
    agent.command(AgentCommand::Interrupt).await;
    assert_eq!(agent.end().await, TurnEnd::Interrupted);
    assert_eq!(agent.results(), [ResultStatus::Interrupted]);
    // Its second answer to the interrupted turn is none to the next one.
    assert_eq!(agent.turn().await, TurnEnd::Completed);
}

#[tokio::test]
async fn an_agent_that_ignores_an_interrupt_is_ended() {
    let machine = Machine::new();
    let script = format!("{READY}{ASK}read -r line\nsay busy\nwhile :; do read -r line; done");
    let mut agent = Conversation::open(machine.place(&script)).await;
    agent.begin().await;
    agent.next().await;
    agent.command(AgentCommand::Interrupt).await;
    assert_eq!(agent.end().await, TurnEnd::Interrupted);
    agent.exited().await;
}

#[tokio::test]
async fn an_agent_that_dies_with_a_permission_open_withdraws_it() {
    let machine = Machine::new();
    let script = format!("{READY}{ASK}read -r line\nask s 0\nsetsid sleep 1000 &\nkill -9 $$");
    let mut agent = Conversation::open(machine.place(&script)).await;
    agent.begin().await;
    let asked = agent.asked().await;
    assert_eq!(agent.end().await, TurnEnd::Failed);
    assert!(agent.events.contains(&AgentEvent::Withdrawn(asked.input)));
    agent.exited().await;
}

#[tokio::test]
async fn an_agent_that_asks_without_end_and_reads_nothing_is_ended() {
    let machine = Machine::new();
    let script = format!(
        "{READY}{ASK}read -r line\n{}",
        r#"while echo '{"jsonrpc":"2.0","id":"'"$(head -c 4000 /dev/zero | tr '\0' x)"'","method":"fs/read_text_file"}'; do :; done"#
    );
    let mut agent = Conversation::open(machine.place(&script)).await;
    assert_eq!(agent.turn().await, TurnEnd::Failed);
    agent.exited().await;
}
