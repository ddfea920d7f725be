//! Questions and approvals: asked once, decided once, gone with their turn.

use proptest::prelude::*;
use shared::decision::{Ask as Question, AskOption, Confirm, Decision, Matter, Verdict};
use shared::entry::Input as Entry;
use shared::ids::InputId;
use shared::request::{Answer, Configure};
use shared::settings::{Choices, Settings};

use super::*;
use crate::harness::{Asked, Subject};

fn confirm(command: &str, grant: Option<&str>) -> Asked {
    let options = [Verdict::Allow, Verdict::AllowSession, Verdict::Deny].map(Open::Known).to_vec();
    let session = grant.map(|grant| format!("all of {grant}"));
    let tool = PartId::from_harness("c");
    let matter = Matter::Confirm(Confirm {
        tool,
        title: "Run".to_owned(),
        detail: command.to_owned(),
        options,
        session,
    });
    let subject = Subject {
        tool: "bash".to_owned(),
        class: ToolClass::Execute,
        command: Some(command.to_owned()),
        paths: Vec::new(),
    };
    Asked { input: InputId::random(), matter, subject: Some(subject), grant: grant.map(str::to_owned) }
}

fn question() -> Asked {
    let option = |label: &str| AskOption { label: label.to_owned(), description: String::new() };
    let options = vec![option("a"), option("b")];
    let matter = Matter::Ask(Question { question: "Which?".to_owned(), options, multiple: false });
    Asked { input: InputId::random(), matter, subject: None, grant: None }
}

fn ask(asked: &Asked) -> Input {
    Input::Agent(AgentEvent::Asked(Box::new(asked.clone())))
}

/// A session in a turn.
fn busy() -> Story {
    let mut story = Story::idle();
    story.submit("a");
    story
}

impl Story {
    fn entry(&self, input: InputId) -> Entry {
        let entries = self.log.iter().rev().filter_map(|entry| match &entry.event {
            Event::Known(known) => match known.as_ref() {
                Known::Input(entry) => Some(entry.clone()),
                _ => None,
            },
            Event::Unknown(_) => None,
        });
        entries.into_iter().find(|entry| entry.input == input).unwrap()
    }

    fn decide(&mut self, frame: &str, input: InputId, decision: &Decision) -> Vec<String> {
        let answer = Answer { origin: Some(origin(1)), ..decision.answer(&self.entry(input)) };
        self.tell(asked(frame, Ask::Answer(answer)))
    }
}

#[test]
fn the_first_answer_wins_and_is_logged_before_the_agent_has_it() {
    let mut story = busy();
    let asked = confirm("make", None);
    assert_eq!(story.tell(ask(&asked)), ["input"]);
    let first = story.decide("x", asked.input, &Decision::Allow);
    assert_eq!(first, ["resolved", "→answer Allow", "→x taken"]);
    assert_eq!(story.decide("x", asked.input, &Decision::Allow), ["→x taken"], "the same frame again");
    let late = story.decide("y", asked.input, &Decision::Deny { text: None });
    assert_eq!(late, [r#"→y {"refused":"not_pending"}"#]);
}

#[test]
fn several_are_open_at_once_and_are_decided_in_any_order() {
    let mut story = busy();
    let all: Vec<Asked> = (0..5).map(|number| confirm(&format!("make {number}"), None)).collect();
    for asked in &all {
        assert_eq!(story.tell(ask(asked)), ["input"]);
    }
    for (index, at) in [3, 0, 4, 2, 1].into_iter().enumerate() {
        let decision = if at % 2 == 0 { Decision::Allow } else { Decision::Deny { text: Some("no".into()) } };
        let done = story.decide(&format!("f{index}"), all[at].input, &decision);
        assert_eq!(done[..2], ["resolved".to_owned(), format!("→answer {decision:?}")]);
    }
}

#[test]
fn an_answer_to_something_else_or_not_offered_decides_nothing() {
    let mut story = busy();
    let asked = confirm("make", None);
    story.tell(ask(&asked));
    let mut answer = Decision::Allow.answer(&story.entry(asked.input));
    answer.digest = "0".repeat(64);
    let refused = story.tell(super::asked("x", Ask::Answer(answer)));
    assert!(refused[0].contains("not_pending"), "{refused:?}");
    let refused = story.decide("y", asked.input, &Decision::AllowSession);
    assert!(refused[0].contains("not_offered"), "{refused:?}");
    assert_eq!(story.decide("z", asked.input, &Decision::Allow)[0], "resolved");
}

#[test]
fn what_is_open_is_cancelled_before_the_agent_is_interrupted() {
    let mut story = busy();
    let asked = question();
    story.tell(ask(&asked));
    assert_eq!(story.tell(super::asked("x", Ask::Interrupt(None))), ["resolved", "→interrupt", "→x taken"]);
    let refused = story.decide("y", asked.input, &Decision::Said("late".into()));
    assert_eq!(refused, [r#"→y {"refused":"not_pending"}"#]);
    let late = story.tell(ask(&question()));
    assert!(late[0].starts_with("→answer Deny"), "{late:?}");
}

#[test]
fn nothing_outlives_the_turn_the_agent_or_the_host() {
    let ends: [fn(&mut Story) -> Vec<String>; 3] = [
        |story| story.tell(turn_ended(TurnEnd::Completed)),
        |story| story.tell(exited()),
        |story| story.crash(Purpose::Serve),
    ];
    for end in ends {
        let mut story = busy();
        story.tell(ask(&question()));
        let outputs = end(&mut story);
        let resolved = outputs.iter().position(|output| output == "resolved").unwrap();
        let settled = outputs.iter().position(|output| output.starts_with("settled a")).unwrap();
        assert!(resolved < settled, "{outputs:?}");
        assert!(story.restart().fold.inputs().is_empty());
    }
}

#[test]
fn what_the_agent_withdraws_is_cancelled() {
    let mut story = busy();
    let asked = question();
    story.tell(ask(&asked));
    assert_eq!(story.tell(Input::Agent(AgentEvent::Withdrawn(asked.input))), ["resolved"]);
    assert_eq!(story.tell(Input::Agent(AgentEvent::Withdrawn(asked.input))), Vec::<String>::new());
}

#[test]
fn what_was_allowed_for_the_session_is_not_asked_again_until_the_host_ends() {
    let mut story = busy();
    let first = confirm("make", Some("make"));
    story.tell(ask(&first));
    story.decide("x", first.input, &Decision::AllowSession);
    assert_eq!(story.tell(ask(&confirm("make", Some("make")))), ["notice", "→answer Allow"]);
    assert_eq!(story.tell(ask(&confirm("make", Some("other")))), ["input"]);
    story.crash(Purpose::Serve);
    story.tell(Input::Probed(Finding::Ok));
    story.tell(Input::Opened);
    story.submit("b");
    assert_eq!(story.tell(ask(&confirm("make", Some("make")))), ["input"]);
}

#[test]
fn rules_decide_before_anybody_is_asked_and_are_logged() {
    let mut story = busy();
    assert_eq!(story.tell(ask(&confirm("ls -l", None))), ["notice", "→answer Allow"]);
    let denied = story.tell(ask(&confirm("rm x", None)));
    assert!(denied[0] == "notice" && denied[1].starts_with("→answer Deny"), "{denied:?}");
    assert_eq!(story.tell(ask(&confirm("ls -l; make", None))), ["input"]);
}

#[test]
fn what_cannot_be_shown_whole_is_denied() {
    let mut story = busy();
    let denied = story.tell(ask(&confirm(&"x".repeat(limits::CONFIRM_BYTES + 1), None)));
    assert!(denied[1].starts_with("→answer Deny"), "{denied:?}");
    for _ in 0..limits::INPUTS {
        assert_eq!(story.tell(ask(&question())), ["input"]);
    }
    assert!(story.tell(ask(&question()))[1].starts_with("→answer Deny"));
}

#[test]
fn without_a_turn_nobody_is_asked() {
    let mut story = Story::idle();
    assert!(story.tell(ask(&question()))[0].starts_with("→answer Deny"));
}

#[test]
fn only_what_is_offered_can_be_chosen_and_the_next_agent_has_it_too() {
    let mut story = Story::idle();
    let choose =
        |model: &str| Ask::Configure(Configure { model: Some(model.to_owned()), ..Configure::default() });
    assert_eq!(story.tell(asked("x", choose("big"))), [r#"→x {"refused":"not_offered"}"#]);
    let choices = Choices { models: vec!["big".into(), "small".into()], ..Choices::default() };
    let settings = Settings { model: Some("small".into()), choices, ..Settings::default() };
    story.tell(Input::Agent(AgentEvent::Settings(settings)));
    assert_eq!(story.tell(asked("x", choose("huge"))), [r#"→x {"refused":"unknown_model"}"#]);
    assert_eq!(story.tell(asked("x", choose("big"))), ["settings", "→configure big", "→x taken"]);
    story.tell(exited());
    story.submit("a");
    let opened = story.elapsed_open();
    assert_eq!(opened.model.as_deref(), Some("big"));
}

impl Story {
    /// What was chosen when the agent is opened next.
    fn elapsed_open(&mut self) -> Configure {
        self.elapsed += Duration::from_secs(5);
        let outputs = self.outputs(Input::Tick);
        let chosen = outputs.into_iter().find_map(|output| match output {
            Output::Open { chosen, .. } => Some(chosen),
            _ => None,
        });
        chosen.unwrap()
    }
}

#[derive(Debug, Clone, Copy)]
enum Step {
    Ask,
    Answer(usize, bool),
    Withdraw(usize),
    Interrupt,
    End,
    Exit,
    Submit,
    Crash,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => Just(Step::Ask),
        4 => (0..8_usize, any::<bool>()).prop_map(|(at, is_allowed)| Step::Answer(at, is_allowed)),
        1 => (0..8_usize).prop_map(Step::Withdraw),
        1 => Just(Step::Interrupt),
        1 => Just(Step::End),
        1 => Just(Step::Exit),
        2 => Just(Step::Submit),
        1 => Just(Step::Crash),
    ]
}

proptest! {
    #[test]
    fn in_any_order_each_input_is_resolved_once_and_answered_at_most_once(
        steps in proptest::collection::vec(step(), 1..60)
    ) {
        let mut story = busy();
        let mut all: Vec<InputId> = Vec::new();
        let mut answered: Vec<InputId> = Vec::new();
        for (number, step) in steps.into_iter().enumerate() {
            let frame = format!("f{number}");
            let input = match step {
                Step::Ask => {
                    let asked = confirm("make", None);
                    all.push(asked.input);
                    ask(&asked)
                }
                Step::Answer(at, is_allowed) => {
                    let Some(&input) = all.get(at) else { continue };
                    if !story.log.iter().any(|entry| serde_json::to_string(entry).unwrap().contains(&input.to_string())) {
                        continue;
                    }
                    let decision = if is_allowed { Decision::Allow } else { Decision::Deny { text: None } };
                    let answer = Answer { origin: Some(origin(1)), ..decision.answer(&story.entry(input)) };
                    asked(&frame, Ask::Answer(answer))
                }
                Step::Withdraw(at) => {
                    let Some(&input) = all.get(at) else { continue };
                    Input::Agent(AgentEvent::Withdrawn(input))
                }
                Step::Interrupt => asked(&frame, Ask::Interrupt(None)),
                Step::End => turn_ended(TurnEnd::Completed),
                Step::Exit => exited(),
                Step::Submit => asked(&frame, submission("t", None, 1)),
                Step::Crash => {
                    story.crash(Purpose::Serve);
                    story.tell(Input::Probed(Finding::Ok));
                    story.tell(Input::Opened);
                    continue;
                }
            };
            for output in story.outputs(input) {
                if let Output::Answer { input, .. } = output {
                    prop_assert!(!answered.contains(&input), "an agent hears of a decision once");
                    answered.push(input);
                }
            }
            // The agent comes back by itself, so that turns go on.
            story.later(Duration::from_secs(60));
            story.tell(Input::Opened);
            let fold = story.restart().fold;
            let is_busy = matches!(fold.status().map(|status| &status.phase), Some(Open::Known(Phase::Busy { .. })));
            prop_assert!(is_busy || fold.inputs().is_empty(), "nothing is open without a turn");
        }
        let mut resolved = std::collections::BTreeSet::new();
        for entry in &story.log {
            if let Event::Known(known) = &entry.event
                && let Known::Resolved(done) = known.as_ref()
            {
                prop_assert!(resolved.insert(done.input), "an input is resolved once");
            }
        }
    }
}
