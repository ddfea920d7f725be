//! Questions and approvals with the real programs: several devices, the terminal, the command line, and processes that die meanwhile.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::process::Command;

use nix::sys::signal::{Signal, kill};
use shared::decision::{Decision, Matter};
use shared::entry::{Input, Known, Resolved};
use shared::failure::Refusal;
use shared::frame::{Interrupt, OpenerBody};
use shared::ids::{InputId, SessionId, SubmissionId};
use shared::kind::Empty;
use shared::request::{AnswerChoice, Response, Start};
use shared::status::{Fate, RanReason};
use tests::device::{Attached, Device};
use tests::home::TestHome;
use tests::story::{fate, logged};
use tests::terminal::Terminal;

const TAKEN: Response = Response::Taken(Empty {});

/// `touch N` runs N commands at once, each of which has to be allowed; `ask` asks.
const SCRIPT: &str = r#"
[[step]]
match = "touch one"
calls = [{ tool = "bash", input = { command = "touch one" } }]

[[step]]
match = "touch five"
calls = [
  { tool = "bash", input = { command = "touch 0" } },
  { tool = "bash", input = { command = "touch 1" } },
  { tool = "bash", input = { command = "touch 2" } },
  { tool = "bash", input = { command = "touch 3" } },
  { tool = "bash", input = { command = "touch 4" } },
]

[[step]]
match = "ask"
calls = [{ tool = "ask", input = { question = "Which?", multiple = false, options = [{ label = "red" }, { label = "blue" }] } }]

[[step]]
from = "tool"
text = "It said: {{last}}"

[[step]]
times = "always"
text = "You said {{message}}"
"#;

fn machine(config: &str) -> TestHome {
    let home = TestHome::new();
    let script = home.path().join("script.toml");
    fs::write(&script, SCRIPT).unwrap();
    home.write_config(&format!("{config}\n[aura]\nscript = \"{}\"", script.display()));
    home
}

async fn session(config: &str) -> (TestHome, Device, SessionId) {
    let mut home = machine(config);
    home.listen().await;
    let phone = Device::paired(&home, "phone").await;
    let start = Start {
        name: "s".to_owned(),
        harness: "aura".to_owned(),
        working_directory: home.work().to_str().unwrap().to_owned(),
        ..Start::default()
    };
    let id = phone.start(start).await.id;
    (home, phone, id)
}

/// The inputs that this link has seen, in order.
async fn inputs(attached: &mut Attached, count: usize) -> Vec<Input> {
    let all = |attached: &Attached| -> Vec<Input> {
        let known = attached.seen.iter().filter_map(|entry| match &entry.event {
            shared::entry::Event::Known(known) => match known.as_ref() {
                Known::Input(input) => Some(input.clone()),
                _ => None,
            },
            shared::entry::Event::Unknown(_) => None,
        });
        known.collect()
    };
    attached.until("the inputs", |attached| all(attached).len() >= count).await;
    all(attached)
}

async fn resolved(attached: &mut Attached, input: InputId) -> Resolved {
    attached
        .entry("the decision", |known| match known {
            Known::Resolved(resolved) if resolved.input == input => Some(resolved.clone()),
            _ => None,
        })
        .await
}

fn refusal(response: &Response) -> Option<Refusal> {
    match response {
        Response::Refused(refused) => refused.word.known().copied(),
        _ => None,
    }
}

fn word(resolved: &Resolved) -> Option<&str> {
    match &resolved.choice {
        Some(AnswerChoice::Word(word)) => Some(word),
        _ => None,
    }
}

#[tokio::test]
async fn five_approvals_are_answered_in_any_order_by_two_devices_and_each_once() {
    let (home, phone, session) = session("").await;
    let laptop = Device::paired(&home, "laptop").await;
    let mut first = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(first.submit(&turn, "touch five").await, TAKEN);
    let asked = inputs(&mut first, 5).await;
    // A device that comes later sees all of them.
    let mut second = laptop.session(session, 0).await;
    assert_eq!(inputs(&mut second, 5).await, asked);
    assert_eq!(second.welcome.record.inputs, 5);
    assert_eq!(second.welcome.record.work.state.word(), "waiting");
    for (number, at) in [3, 0, 4, 1, 2].into_iter().enumerate() {
        let input = &asked[at];
        let Ok(Matter::Confirm(confirm)) = Matter::of(input) else { panic!("{input:?}") };
        let decision = if confirm.detail.ends_with('2') {
            Decision::Deny { text: Some("not two".to_owned()) }
        } else {
            Decision::Allow
        };
        let (here, there) =
            if number % 2 == 0 { (&mut first, &mut second) } else { (&mut second, &mut first) };
        let body = || OpenerBody::Answer(decision.answer(input));
        assert_eq!(here.ask(body()).await, TAKEN);
        let seen = resolved(there, input.input).await;
        let by = if number % 2 == 0 { "phone" } else { "laptop" };
        assert_eq!(seen.origin.unwrap().name, by);
        // The other device was slower, and would have decided otherwise.
        let late = if decision == Decision::Allow { Decision::Deny { text: None } } else { Decision::Allow };
        let late = there.ask(OpenerBody::Answer(late.answer(input))).await;
        assert_eq!(refusal(&late), Some(Refusal::NotPending));
    }
    assert_eq!(first.fate(&turn).await, Fate::Answered);
    let made: Vec<bool> = (0..5).map(|number| home.work().join(number.to_string()).exists()).collect();
    assert_eq!(made, [true, true, false, true, true]);
}

#[tokio::test]
async fn an_interrupt_cancels_what_is_open_and_a_late_answer_does_nothing() {
    let (home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch one").await, TAKEN);
    let asked = inputs(&mut attached, 1).await.remove(0);
    assert_eq!(attached.ask(OpenerBody::Interrupt(Interrupt::default())).await, TAKEN);
    let cancelled = resolved(&mut attached, asked.input).await;
    assert_eq!((word(&cancelled), &cancelled.origin), (Some("cancelled"), &None));
    assert_eq!(attached.fate(&turn).await, Fate::ran(RanReason::Interrupted));
    let late = attached.ask(OpenerBody::Answer(Decision::Allow.answer(&asked))).await;
    assert_eq!(refusal(&late), Some(Refusal::NotPending));
    assert!(!home.work().join("one").exists());
}

#[tokio::test]
async fn an_approval_of_a_host_that_died_is_cancelled_and_never_honoured() {
    let (home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch one").await, TAKEN);
    let asked = inputs(&mut attached, 1).await.remove(0);
    kill(home.host_pid(session).unwrap(), Signal::SIGKILL).unwrap();
    assert_eq!(fate(&home, session, &turn).await, Fate::ran(RanReason::Lost));
    let cancelled = logged(&home, session, "the end of the approval", |known| match known {
        Known::Resolved(resolved) if resolved.input == asked.input => Some(resolved.clone()),
        _ => None,
    })
    .await;
    assert_eq!(word(&cancelled), Some("cancelled"));
    logged(&home, session, "its end", |known| matches!(known, Known::Ended { .. }).then_some(())).await;
    // The session goes on, and what was asked before it died means nothing in it.
    assert!(home.ok(["send", "s", "--wait", "hello"]).contains("You said hello"));
    let mut attached = phone.session(session, 0).await;
    let stale = attached.ask(OpenerBody::Answer(Decision::Allow.answer(&asked))).await;
    assert_eq!(refusal(&stale), Some(Refusal::NotPending));
    assert!(!home.work().join("one").exists());
}

#[tokio::test]
async fn an_approval_outlives_the_listener() {
    let (mut home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch one").await, TAKEN);
    let asked = inputs(&mut attached, 1).await.remove(0);
    home.keep_port();
    home.kill_listener();
    home.listen().await;
    let mut attached = phone.session(session, 0).await;
    assert_eq!(inputs(&mut attached, 1).await, std::slice::from_ref(&asked));
    let answer = OpenerBody::Answer(Decision::Allow.answer(&asked));
    assert_eq!(attached.ask(answer).await, TAKEN);
    assert_eq!(attached.fate(&turn).await, Fate::Answered);
    assert!(home.work().join("one").exists());
}

#[tokio::test]
async fn what_is_allowed_for_the_session_is_asked_once() {
    let (home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch one").await, TAKEN);
    let asked = inputs(&mut attached, 1).await.remove(0);
    assert_eq!(attached.ask(OpenerBody::Answer(Decision::AllowSession.answer(&asked))).await, TAKEN);
    assert_eq!(attached.fate(&turn).await, Fate::Answered);
    fs::remove_file(home.work().join("one")).unwrap();
    let again = SubmissionId::random();
    assert_eq!(attached.submit(&again, "touch one").await, TAKEN);
    assert_eq!(attached.fate(&again).await, Fate::Answered);
    assert!(home.work().join("one").exists());
    assert_eq!(inputs(&mut attached, 1).await.len(), 1);
    attached
        .entry("a notice", |known| match known {
            Known::Notice(notice) if notice.text.contains("as it was allowed") => Some(()),
            _ => None,
        })
        .await;
}

#[tokio::test]
async fn rules_and_an_unattended_machine_decide_without_a_person() {
    let rules = "permissions = \"deny\"\n[[rules]]\ndecision = \"allow\"\ncommand = \"touch [0-9]\"\n\
                 [[rules]]\ndecision = \"allow\"\ncommand = \"touch 1\"\n";
    let (home, phone, session) = session(rules).await;
    let mut attached = phone.session(session, 0).await;
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch five").await, TAKEN);
    assert_eq!(attached.fate(&turn).await, Fate::Answered);
    let made: Vec<bool> = (0..5).map(|number| home.work().join(number.to_string()).exists()).collect();
    assert_eq!(made, [false, true, false, false, false]);
    let notices = attached.seen.iter().filter(|entry| entry.event.kind() == "notice").count();
    assert_eq!(notices, 5, "each decision is logged");
    assert!(!attached.seen.iter().any(|entry| entry.event.kind() == "input"));
}

#[tokio::test]
async fn the_command_line_shows_what_is_open_and_decides_it() {
    let (home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    assert_eq!(home.ok(["answer", "s"]), "");
    let turn = SubmissionId::random();
    assert_eq!(attached.submit(&turn, "touch five").await, TAKEN);
    let asked = inputs(&mut attached, 5).await;
    let shown = home.ok(["answer", "s"]);
    for (number, input) in asked.iter().enumerate() {
        assert!(shown.contains(&format!("│ touch {number}")), "{shown}");
        assert!(shown.contains(&input.input.to_string()), "{shown}");
    }
    assert_eq!(home.ok(["answer", "s", "--json"]).lines().count(), 5);
    let several = home.run(["answer", "s", "--allow"]);
    assert_eq!(several.status.code(), Some(1));
    for input in &asked {
        let id = input.input.to_string();
        let not_offered = home.run(["answer", "s", &id, "--say", "yes"]);
        assert_eq!(not_offered.status.code(), Some(5));
        let _ = home.ok(["answer", "s", &id, "--deny", "not today"]);
    }
    assert_eq!(attached.fate(&turn).await, Fate::Answered);
    let gone = home.run(["answer", "s", &asked[0].input.to_string(), "--allow"]);
    assert_eq!(gone.status.code(), Some(5));

    let question = SubmissionId::random();
    assert_eq!(attached.submit(&question, "ask").await, TAKEN);
    let asked = inputs(&mut attached, 6).await.remove(5);
    assert!(home.ok(["answer", "s"]).contains("? Which?\n  1  red\n  2  blue"));
    let _ = home.ok(["answer", "s", "--choose", "blue"]);
    let answer = resolved(&mut attached, asked.input).await;
    assert_eq!(answer.choice, Some(AnswerChoice::Labels(vec!["blue".to_owned()])));
    assert_eq!(attached.fate(&question).await, Fate::Answered);
}

#[tokio::test]
async fn a_person_at_a_terminal_decides_with_a_key() {
    let (home, phone, session) = session("").await;
    let mut attached = phone.session(session, 0).await;
    let command: Command = home.command(["attach", "s"]);
    let mut terminal = Terminal::open(&command);
    terminal.shows("type a turn").await;
    terminal.press("touch one\r");
    terminal.shows("│ touch one").await;
    terminal.shows("y allows it once").await;
    terminal.press("perhaps\r");
    terminal.shows("that is no answer here").await;
    terminal.press("y\r");
    terminal.shows("allowed  (").await;
    terminal.shows("It said:").await;
    assert!(home.work().join("one").exists());
    terminal.press("ask\r");
    terminal.shows("type a number").await;
    terminal.press("1\r");
    terminal.shows("The person chose: red").await;
    // What another device decides is said here, too.
    terminal.press("touch one\r");
    let asked = inputs(&mut attached, 3).await.remove(2);
    terminal.shows_times("y allows it once", 2).await;
    let denial = Decision::Deny { text: Some("enough".to_owned()) };
    assert_eq!(attached.ask(OpenerBody::Answer(denial.answer(&asked))).await, TAKEN);
    terminal.shows("denied: enough  (phone)").await;
    // An answer that comes too late is no turn.
    terminal.press("y\r");
    terminal.shows("that was decided already").await;
    terminal.press("y\r");
    terminal.shows("You said y").await;
}
