//! Stories of questions and approvals, of rules that decide them, and of choices in mid-session.

use shared::request::Configure;

use super::*;
use crate::config::{Rule, Verdict as Rules};

/// A session whose turn `a` runs.
fn running() -> Story {
    let mut story = Story::idle();
    story.submit("a");
    story
}

fn refusal(outputs: &[String]) -> &str {
    assert_eq!(outputs.len(), 1, "{outputs:?}");
    &outputs[0]
}

#[test]
fn what_is_asked_is_logged_then_decided_once_and_told_once() {
    let mut story = running();
    let (first, second) = (approval(1, "make"), approval(2, "rm x"));
    assert_eq!(story.tell(asks(first.clone())), ["input 1"]);
    assert_eq!(story.tell(asks(second.clone())), ["input 2"]);
    assert_eq!(story.tell(asks(second.clone())), [""; 0], "the same one again is not asked again");
    let deny = Decision::Deny { text: Some("not that".to_owned()) };
    let denied = story.tell(asked("x", answer_to(&second, &deny, 1)));
    assert_eq!(denied[..2], ["resolved 2 deny", "→x taken"], "durable, then taken, then told");
    assert!(denied[2].starts_with("→answer 2 Deny"), "{denied:?}");
    for _ in 0..5 {
        assert_eq!(story.tell(asked("x", answer_to(&second, &deny, 1))), ["→x taken"]);
    }
    let late = story.tell(asked("x", answer_to(&second, &deny, 2)));
    assert!(refusal(&late).contains("not_pending") && late[0].contains("device 1"), "{late:?}");
    let other = story.tell(asked("x", answer_to(&second, &Decision::Allow, 1)));
    assert!(refusal(&other).contains("not_pending"), "{other:?}");
    let allowed = story.tell(asked("y", answer_to(&first, &Decision::Allow, 2)));
    assert_eq!(allowed, ["resolved 1 allow", "→y taken", "→answer 1 Allow"]);
    assert_eq!(story.tell(turn_ended(TurnEnd::Completed)), ["settled a ran", "idle"]);
}

#[test]
fn an_answer_that_does_not_fit_decides_nothing() {
    let mut story = running();
    let mut asked_for = approval(1, "make");
    if let Matter::Confirm(confirm) = &mut asked_for.matter {
        confirm.options = vec![Verdict::Allow.into(), Verdict::Deny.into()];
    }
    story.tell(asks(asked_for.clone()));
    let not_offered = story.tell(asked("x", answer_to(&asked_for, &Decision::AllowSession, 1)));
    assert!(refusal(&not_offered).contains("not_offered"), "{not_offered:?}");
    let stale = Asked { input: asked_for.input, ..approval(9, "another command") };
    let stale = story.tell(asked("x", answer_to(&stale, &Decision::Allow, 1)));
    assert!(refusal(&stale).contains("not_pending"), "{stale:?}");
    let unknown = story.tell(asked("x", answer_to(&approval(7, "make"), &Decision::Allow, 1)));
    assert!(refusal(&unknown).contains("not_pending"), "{unknown:?}");
    let allowed = story.tell(asked("x", answer_to(&asked_for, &Decision::Allow, 1)));
    assert_eq!(allowed, ["resolved 1 allow", "→x taken", "→answer 1 Allow"]);
}

#[test]
fn whatever_ends_the_turn_cancels_what_is_open_before_the_agent_hears_of_it() {
    let open = || {
        let mut story = running();
        story.tell(asks(approval(1, "make")));
        story
    };
    let mut story = open();
    let interrupted = story.tell(asked("i", Ask::Interrupt(None)));
    assert_eq!(interrupted, ["resolved 1 cancelled", "→interrupt", "→i taken"]);
    let late = story.tell(asked("x", answer_to(&approval(1, "make"), &Decision::Allow, 1)));
    assert!(refusal(&late).contains("cancelled"), "{late:?}");
    let crossed = story.tell(asks(approval(2, "make")));
    assert!(refusal(&crossed).starts_with("→answer 2 Deny"), "{crossed:?}");

    let mut story = open();
    let ended = story.tell(turn_ended(TurnEnd::Failed));
    assert_eq!(ended, ["resolved 1 cancelled", "settled a ran failed", "idle"]);

    let mut story = open();
    let died = story.tell(exited());
    assert_eq!(died, ["notice", "resolved 1 cancelled", "settled a ran failed", "idle"]);

    let mut story = open();
    assert_eq!(story.tell(Input::Agent(AgentEvent::Withdrawn(input(1)))), ["resolved 1 cancelled"]);
    assert_eq!(story.tell(Input::Agent(AgentEvent::Withdrawn(input(1)))), [""; 0]);

    let mut story = open();
    let stopped = story.tell(asked("s", Ask::Stop));
    assert_eq!(stopped, ["resolved 1 cancelled", "→interrupt", "→s taken", "exiting"]);

    let mut story = open();
    let crashed = story.crash(Purpose::Serve);
    assert_eq!(crashed[..4], ["notice", "resolved 1 cancelled", "settled a ran lost", "ended died"]);
    let late = story.tell(asked("x", answer_to(&approval(1, "make"), &Decision::Allow, 1)));
    assert!(refusal(&late).contains("earlier run"), "{late:?}");
}

#[test]
fn what_was_allowed_for_the_session_is_not_asked_again_until_the_host_ends() {
    let mut story = running();
    let first = approval(1, "make");
    story.tell(asks(first.clone()));
    let allowed = story.tell(asked("x", answer_to(&first, &Decision::AllowSession, 1)));
    assert_eq!(allowed, ["resolved 1 allow_session", "→x taken", "→answer 1 Allow"], "no agent remembers it");
    let again = story.tell(asks(approval(2, "make")));
    assert_eq!(again, ["Allowed, as it was allowed for this session: Run: make", "→answer 2 Allow"]);
    assert_eq!(story.tell(asks(approval(3, "make install"))), ["input 3"]);
    story.crash(Purpose::Serve);
    story.tell(Input::Probed(Finding::Ok));
    story.tell(Input::Opened);
    story.submit("b");
    assert_eq!(story.tell(asks(approval(4, "make"))), ["input 4"]);
}

#[test]
fn rules_decide_before_anybody_is_asked_and_say_so() {
    let mut story = running();
    let rule = |decision, command: &str| Rule {
        decision,
        tool: None,
        command: Some(command.to_owned()),
        path: None,
    };
    story.machine.terms.policy.rules =
        vec![rule(Rules::Deny, "rm *"), rule(Rules::Allow, "make *"), rule(Rules::Ask, "git *")];
    story.machine.terms.permissions = Permissions::Deny;
    let denied = story.tell(asks(approval(1, "rm -rf x")));
    assert_eq!(denied[0], "Denied by rule 1 of config.toml: Run: rm -rf x");
    assert!(denied[1].starts_with("→answer 1 Deny"), "{denied:?}");
    let allowed = story.tell(asks(approval(2, "make all")));
    assert_eq!(allowed, ["Allowed by rule 2 of config.toml: Run: make all", "→answer 2 Allow"]);
    assert_eq!(story.tell(asks(approval(3, "git push"))), ["input 3"]);
    let unwatched = story.tell(asks(approval(4, "curl x")));
    assert!(unwatched[0].contains("permissions = \"deny\""), "{unwatched:?}");
    assert!(unwatched[1].starts_with("→answer 4 Deny"), "{unwatched:?}");
}

#[test]
fn no_more_are_open_than_the_bound_and_none_that_cannot_be_shown_whole() {
    let mut story = running();
    for number in 0..limits::INPUTS as u64 {
        assert_eq!(story.tell(asks(approval(number, "make"))), [format!("input {number}")]);
    }
    let more = story.tell(asks(approval(900, "make")));
    assert!(more[0].starts_with("Denied") && more[1].starts_with("→answer 900 Deny"), "{more:?}");
    let large = story.tell(asks(approval(901, &"x".repeat(limits::CONFIRM_BYTES + 1))));
    assert!(large[0].contains("too large") && large[1].starts_with("→answer 901 Deny"), "{large:?}");
}

#[test]
fn a_choice_is_one_that_is_offered_and_is_kept_for_an_agent_that_starts_later() {
    let choose =
        |model: &str| Ask::Configure(Configure { model: Some(model.to_owned()), ..Configure::default() });
    let mut story = Story::idle();
    let refused = story.tell(asked("x", choose("large")));
    assert!(refusal(&refused).contains("not_offered"), "{refused:?}");
    story.machine.terms.abilities.configure = true;
    let mut settings = Settings::default();
    settings.choices.models = vec!["small".to_owned(), "large".to_owned()];
    story.tell(Input::Agent(AgentEvent::Settings(settings)));
    let refused = story.tell(asked("x", choose("huge")));
    assert!(refusal(&refused).contains("not_offered"), "{refused:?}");
    let refused = story.tell(asked("x", Ask::Configure(Configure::default())));
    assert!(refusal(&refused).contains("not_offered"), "{refused:?}");
    assert_eq!(story.tell(asked("x", choose("large"))), ["→x taken", r#"→configure {"model":"large"}"#]);
    story.tell(exited());
    story.submit("a");
    let outputs = {
        story.elapsed += RETRY;
        story.outputs(Input::Tick)
    };
    let opened = outputs.iter().any(
        |output| matches!(output, Output::Open { chosen, .. } if chosen.model.as_deref() == Some("large")),
    );
    assert!(opened, "{outputs:?}");
    assert_eq!(story.tell(asked("x", choose("small"))), ["→x taken"]);
    assert_eq!(story.tell(Input::Opened)[0], r#"→configure {"model":"small"}"#);
}

#[test]
fn an_agent_that_has_nothing_to_do_is_ended_and_the_next_turn_brings_it_back() {
    let mut story = Story::idle();
    story.machine.terms.unload_after = Some(Duration::from_secs(60));
    let settings = Settings { conversation: Some("talk".into()), ..Settings::default() };
    story.tell(Input::Agent(AgentEvent::Settings(settings)));
    assert_eq!(story.machine.deadline(), Some(Duration::from_secs(60)));
    story.later(Duration::from_secs(30));
    story.submit("a");
    assert_eq!(story.machine.deadline(), None, "a turn that waits for long is not idle");
    story.tell(turn_ended(TurnEnd::Completed));
    assert_eq!(story.machine.deadline(), Some(Duration::from_secs(90)));
    assert_eq!(story.later(Duration::from_secs(60)), ["→close"]);
    assert_eq!(story.tell(exited()), [""; 0], "it was asked to, and the session stays idle");
    assert_eq!(story.submit("b"), ["user b", "→b taken", "starting +1", "→open talk"]);
    assert_eq!(story.tell(Input::Opened), ["busy b", "→turn b"]);
}

#[test]
fn an_agent_that_dies_in_mid_turn_and_says_so_is_told_of_once() {
    let mut story = running();
    story.tell(turn_ended(TurnEnd::Failed));
    assert_eq!(story.tell(exited()), [""; 0]);
    story.submit("b");
    story.later(RETRY);
    story.tell(Input::Opened);
    story.later(REST * 2);
    assert_eq!(story.tell(exited())[0], "notice", "a death long after is told");
}
