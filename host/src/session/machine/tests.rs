//! Stories that the machine is told, and random ones in which it crashes at any point.

#![expect(clippy::wildcard_enum_match_arm, reason = "a test looks for one case among many")]

use serde_json::json;
use shared::decision::{Confirm, Matter, Verdict};
use shared::entry::{Assistant, Entry, Event, Tool, ToolClass};
use shared::kind::Open;
use shared::record::Facts;
use shared::status::{Exit, Lifetime};

use super::*;
use crate::harness::{Asked, Said, Subject, TurnEnd};
use crate::log::Damage;
use crate::session::restart::Retrace;

mod crashes;
mod inputs;
mod stories;

const CLOCK: u64 = 1_770_000_000_000;

/// A machine with its log; what is appended is durable at once.
struct Story {
    facts: Facts,
    log: Vec<Entry>,
    machine: Machine,
    elapsed: Duration,
}

impl Story {
    /// A session that has just been started.
    fn new() -> Self {
        Self::of(facts(&[]))
    }

    /// One that waits for a prerequisite.
    fn held() -> Self {
        Self::of(facts(&["6bcf8fed-99c2-4b27-8a5a-24d7caff9b00"]))
    }

    fn of(facts: Facts) -> Self {
        let machine =
            Machine::new(terms(Purpose::Serve), Retrace::new(facts.clone()).finish(&Damage::default()));
        Self { facts, log: Vec::new(), machine, elapsed: Duration::ZERO }
    }

    /// A session whose agent is idle.
    fn idle() -> Self {
        let mut story = Self::new();
        story.tell(Input::Start);
        story.tell(Input::Probed(Finding::Ok));
        story.tell(Input::Opened);
        story
    }

    /// The process died; a new one begins.
    fn crash(&mut self, purpose: Purpose) -> Vec<String> {
        self.machine = Machine::new(terms(purpose), self.restart());
        self.tell(Input::Start)
    }

    fn restart(&self) -> Restart {
        let mut retrace = Retrace::new(self.facts.clone());
        for entry in &self.log {
            retrace.look(entry.sequence, &serde_json::to_string(entry).unwrap());
        }
        retrace.finish(&Damage::default())
    }

    fn now(&self) -> Now {
        let clock = Timestamp::from_milliseconds(CLOCK + u64::try_from(self.elapsed.as_millis()).unwrap());
        Now { clock, elapsed: self.elapsed }
    }

    /// Gives an input and says in short what came of it.
    fn tell(&mut self, input: Input) -> Vec<String> {
        self.outputs(input).iter().map(brief).collect()
    }

    fn outputs(&mut self, input: Input) -> Vec<Output> {
        let mut outputs = Vec::new();
        self.machine.handle(input, self.now(), &mut outputs);
        for output in &outputs {
            if let Output::Append(known) = output {
                self.append(known.clone());
            }
        }
        outputs
    }

    fn append(&mut self, known: Known) {
        let sequence = self.log.len() as u64 + 1;
        self.log.push(Entry { sequence, timestamp: self.now().clock, event: known.into() });
    }

    fn submit(&mut self, id: &str) -> Vec<String> {
        self.tell(asked(id, submission(id, None, 1)))
    }

    fn later(&mut self, time: Duration) -> Vec<String> {
        self.elapsed += time;
        self.tell(Input::Tick)
    }
}

fn facts(prerequisites: &[&str]) -> Facts {
    serde_json::from_value(json!({
        "id": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "n", "harness": "fake", "working_directory": "/w",
        "created": "2026-01-01T12:00:00.000Z", "log": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfc", "prerequisites": prerequisites,
    }))
    .unwrap()
}

fn terms(purpose: Purpose) -> Terms {
    Terms {
        harness: "fake".to_owned(),
        abilities: Abilities { interrupt: true, resume: true, configure: false },
        other_provider: OtherProvider::Refuse,
        permissions: Permissions::Ask,
        policy: Policy { rules: Vec::new(), directory: "/w".into() },
        unload_after: None,
        purpose,
        began: Began {
            identity: shared::ids::HostId::random(),
            lifetime: Lifetime::Resident.into(),
            subagent: None,
            pid: 1,
            started: Timestamp::from_milliseconds(CLOCK),
        },
        owner: Some(device(9)),
    }
}

fn device(number: u8) -> Fingerprint {
    let letter = char::from(b'a' + number);
    String::from_iter(std::iter::repeat_n(letter, 28)).parse().unwrap()
}

fn origin(number: u8) -> Origin {
    let connection = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfe".parse().unwrap();
    Origin { connection, name: format!("device {number}"), device: Some(device(number)) }
}

fn submission(text: &str, budget: Option<u64>, device: u8) -> Ask {
    Ask::Submit { text: text.to_owned(), budget, origin: origin(device) }
}

fn id(text: &str) -> SubmissionId {
    text.parse().unwrap()
}

fn asked(to: &str, ask: Ask) -> Input {
    Input::Asked(id(to), ask)
}

/// The input of that number; none is used twice.
fn input(number: u64) -> InputId {
    format!("6bcf8fed-99c2-4b27-8a5a-{number:012x}").parse().unwrap()
}

/// The approval of a command, which can also be allowed for the session.
fn approval(number: u64, command: &str) -> Asked {
    let confirm = Confirm {
        tool: PartId::from_harness("c"),
        title: "Run".to_owned(),
        detail: command.to_owned(),
        options: vec![Verdict::Allow.into(), Verdict::AllowSession.into(), Verdict::Deny.into()],
        session: Some("commands like this".to_owned()),
    };
    let subject = Subject {
        tool: "Bash".to_owned(),
        class: ToolClass::Execute,
        command: Some(command.to_owned()),
        paths: Vec::new(),
    };
    let grant = Some(command.to_owned());
    Asked { input: input(number), matter: Matter::Confirm(confirm), subject: Some(subject), grant }
}

fn asks(asked: Asked) -> Input {
    Input::Agent(AgentEvent::Asked(Box::new(asked)))
}

fn answer_to(asked: &Asked, decision: &Decision, device: u8) -> Ask {
    let entry = asked.matter.clone().into_input(asked.input, id("any"));
    Ask::Answer(decision.answer(&entry), origin(device))
}

fn said(text: &str) -> Input {
    let assistant = Assistant { message: PartId::from_harness("m"), text: text.to_owned(), model: None };
    Input::Agent(AgentEvent::Said(Said::Assistant(assistant)))
}

fn tool() -> Input {
    let tool = Tool {
        call: PartId::from_harness("c"),
        name: "bash".to_owned(),
        title: "ls".to_owned(),
        class: ToolClass::Execute.into(),
        input: json!({}),
    };
    Input::Agent(AgentEvent::Said(Said::Tool(tool)))
}

fn turn_ended(end: TurnEnd) -> Input {
    Input::Agent(AgentEvent::TurnEnded(end))
}

fn exited() -> Input {
    Input::Agent(AgentEvent::Exited(Exit::Signal(9)))
}

fn number_of(input: InputId) -> u64 {
    u64::from_str_radix(&input.to_string()[24..], 16).unwrap()
}

/// An output in a few words.
fn brief(output: &Output) -> String {
    match output {
        Output::Append(known) => brief_entry(known),
        Output::Respond(to, Response::Taken(_)) => format!("→{to} taken"),
        Output::Respond(to, response) => format!("→{to} {}", serde_json::to_string(response).unwrap()),
        Output::Live { text, .. } => format!("→live {text}"),
        Output::Probe => "→probe".to_owned(),
        Output::Open { conversation, .. } => format!("→open {}", conversation.as_deref().unwrap_or("new")),
        Output::Turn { submission, .. } => format!("→turn {submission}"),
        Output::Answer { input, decision } => format!("→answer {} {decision:?}", number_of(*input)),
        Output::Configure(chosen) => format!("→configure {}", serde_json::to_string(chosen).unwrap()),
        Output::Interrupt => "→interrupt".to_owned(),
        Output::Close => "→close".to_owned(),
        Output::Sweep => "→sweep".to_owned(),
        Output::Merge => "→merge".to_owned(),
        Output::Exit => "→exit".to_owned(),
    }
}

fn brief_entry(known: &Known) -> String {
    match known {
        Known::User(user) => format!("user {}", user.submission),
        Known::Settled { settled } => {
            let fate = serde_json::to_value(&settled.fate).unwrap();
            let reason = fate.pointer("/ran/reason").or(fate.pointer("/dropped/reason"));
            let word = settled.fate.word();
            let reason = reason.and_then(|reason| reason.as_str()).map(|reason| format!(" {reason}"));
            format!("settled {} {word}{}", settled.submission, reason.unwrap_or_default())
        }
        Known::Status { status } => {
            let mut text = match &status.phase {
                Open::Known(Phase::Busy { submissions, .. }) => format!("busy {}", submissions[0]),
                phase => phase.word(),
            };
            if !status.queue.is_empty() {
                text += &format!(" +{}", status.queue.len());
            }
            text
        }
        Known::Gate { gate } => format!("gate {}", gate.finding.word()),
        Known::Ended { ended } => format!("ended {}", ended.word()),
        Known::Input(entry) => format!("input {}", number_of(entry.input)),
        Known::Resolved(entry) => {
            let choice = entry.choice.as_ref().map(|choice| serde_json::to_string(choice).unwrap());
            format!("resolved {} {}", number_of(entry.input), choice.unwrap_or_default().replace('"', ""))
        }
        Known::Notice(notice) if notice.text.contains("llowed") || notice.text.contains("enied") => {
            notice.text.clone()
        }
        other => other.kind().to_owned(),
    }
}
