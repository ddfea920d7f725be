//! One story a rule.

use super::*;

#[test]
fn a_session_starts_runs_a_turn_and_answers() {
    let mut story = Story::new();
    assert_eq!(story.tell(Input::Start), ["began", "→probe", "starting"]);
    assert_eq!(story.submit("a"), ["user a", "→a taken", "starting +1"]);
    assert_eq!(story.tell(Input::Probed(Finding::Ok)), ["gate ok", "→open new"]);
    assert_eq!(story.tell(Input::Opened), ["busy a", "→turn a"]);
    assert_eq!(story.tell(said("hi")), ["assistant"]);
    assert_eq!(story.tell(turn_ended(TurnEnd::Completed)), ["settled a answered", "idle"]);
    assert_eq!(story.machine.deadline(), None);
}

#[test]
fn an_id_is_taken_again_and_never_run_twice() {
    let mut story = Story::idle();
    assert_eq!(story.submit("a"), ["user a", "→a taken", "busy a", "→turn a"]);
    assert_eq!(story.submit("a"), ["→a taken"]);
    let other = asked("a", submission("other", None, 1));
    assert_eq!(story.tell(other), [r#"→a {"refused":"id_conflict"}"#]);
    let other = asked("a", submission("a", Some(5), 1));
    assert_eq!(story.tell(other), [r#"→a {"refused":"id_conflict"}"#]);
    story.tell(turn_ended(TurnEnd::Failed));
    assert_eq!(story.submit("a"), ["→a taken"]);
    story.crash(Purpose::Serve);
    assert_eq!(story.submit("a"), ["→a taken"]);
}

#[test]
fn what_cannot_be_a_turn_is_refused_and_spends_no_id() {
    let mut story = Story::idle();
    let blank = asked("a", submission(" \n\t", None, 1));
    assert_eq!(story.tell(blank), [r#"→a {"refused":"empty"}"#]);
    let large = asked("a", submission(&"x".repeat(limits::TEXT_BYTES + 1), None, 1));
    assert_eq!(story.tell(large), [r#"→a {"refused":"too_large"}"#]);
    assert!(story.tell(asked("a", submission("x", Some(0), 1)))[0].contains("budget"));
    let largest = asked("a", submission(&"x".repeat(limits::TEXT_BYTES), None, 1));
    assert_eq!(story.tell(largest)[..2], ["user a", "→a taken"]);
}

#[test]
fn the_ninth_behind_a_running_turn_is_dropped() {
    let mut story = Story::idle();
    story.submit("run");
    for number in 1..=8 {
        let name = format!("q{number}");
        let expected = [format!("user {name}"), format!("→{name} taken"), format!("busy run +{number}")];
        assert_eq!(story.submit(&name), expected);
    }
    assert_eq!(story.submit("q9"), ["user q9", "settled q9 dropped queue_full", "→q9 taken", "busy run +8"]);
    assert_eq!(story.submit("q9"), ["→q9 taken"]);
}

#[test]
fn a_turn_without_a_last_text_ran() {
    let mut story = Story::idle();
    story.submit("a");
    assert_eq!(story.tell(turn_ended(TurnEnd::Completed)), ["settled a ran", "idle"]);
    story.submit("b");
    story.tell(said("let me look"));
    story.tell(tool());
    assert_eq!(story.tell(turn_ended(TurnEnd::Completed)), ["settled b ran", "idle"]);
    story.submit("c");
    story.tell(said("half"));
    assert_eq!(story.tell(turn_ended(TurnEnd::Failed)), ["settled c ran failed", "idle"]);
}

#[test]
fn an_interrupt_ends_the_running_turn_and_the_queue_goes_on() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    assert_eq!(story.tell(asked("i", Ask::Interrupt(Some(id("b"))))), ["→i taken"]);
    assert_eq!(story.tell(asked("i", Ask::Interrupt(Some(id("a"))))), ["→interrupt", "→i taken"]);
    assert_eq!(story.tell(asked("i", Ask::Interrupt(None))), ["→i taken"]);
    let ended = story.tell(turn_ended(TurnEnd::Interrupted));
    assert_eq!(ended, ["settled a ran interrupted", "idle +1"]);
    assert_eq!(story.later(story.machine.deadline().unwrap()), ["busy b", "→turn b"]);
}

#[test]
fn an_interrupt_that_crosses_the_natural_end_hits_no_other_turn() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    story.tell(said("done"));
    story.tell(asked("i", Ask::Interrupt(Some(id("a")))));
    let ended = story.tell(turn_ended(TurnEnd::Completed));
    assert_eq!(ended, ["settled a answered", "busy b", "→turn b"]);
    // The grace of the first turn does not run on for the second one.
    assert!(story.later(INTERRUPT_GRACE * 2).is_empty());
    assert_eq!(story.tell(asked("i", Ask::Interrupt(Some(id("a"))))), ["→i taken"]);
}

#[test]
fn an_agent_that_does_not_end_its_turn_is_killed_and_opened_anew_with_its_conversation() {
    let mut story = Story::idle();
    let settings = Settings { conversation: Some("talk".into()), ..Settings::default() };
    assert_eq!(story.tell(Input::Agent(AgentEvent::Settings(settings.clone()))), ["settings"]);
    assert!(story.tell(Input::Agent(AgentEvent::Settings(settings))).is_empty());
    story.submit("a");
    story.submit("b");
    story.tell(asked("i", Ask::Interrupt(None)));
    assert_eq!(story.machine.deadline(), Some(INTERRUPT_GRACE));
    assert_eq!(story.later(INTERRUPT_GRACE), ["notice", "→close"]);
    let gone = story.tell(exited());
    assert_eq!(gone, ["settled a ran interrupted", "starting +1", "→open talk"]);
    assert_eq!(story.tell(Input::Opened), ["busy b", "→turn b"]);
}

#[test]
fn an_agent_that_is_not_gone_in_time_is_swept() {
    let mut story = Story::idle();
    story.submit("a");
    story.tell(asked("s", Ask::Stop));
    assert_eq!(story.later(STOP_GRACE), ["notice", "→close"]);
    assert_eq!(story.later(CLOSE_GRACE), ["→sweep"]);
    assert_eq!(story.machine.deadline(), None);
    assert_eq!(story.tell(exited()), ["settled a ran interrupted", "exiting", "ended stopped", "→exit"]);
}

#[test]
fn a_stop_does_not_wait_as_long_as_an_interrupt() {
    let mut story = Story::idle();
    story.submit("a");
    story.tell(asked("i", Ask::Interrupt(None)));
    assert_eq!(story.tell(asked("s", Ask::Stop)), ["→s taken", "exiting"]);
    assert_eq!(story.machine.deadline(), Some(STOP_GRACE));
}

#[test]
fn what_came_over_the_bound_and_was_never_acknowledged_is_dropped_by_the_next_host() {
    let mut story = Story::idle();
    for number in 0..9 {
        story.submit(&format!("q{number}"));
    }
    // The host died after the first line of what it had to log for one more.
    let user = User { text: "q9".into(), origin: origin(1), submission: id("q9"), budget: None };
    story.append(Known::User(user));
    let told = story.crash(Purpose::Serve);
    let expected = [
        "notice",
        "settled q0 ran lost",
        "settled q9 dropped queue_full",
        "ended died",
        "began",
        "→probe",
        "starting +8",
    ];
    assert_eq!(told, expected);
}

#[test]
fn a_harness_that_cannot_interrupt_is_closed() {
    let mut story = Story::idle();
    story.machine.terms.abilities.interrupt = false;
    story.submit("a");
    assert_eq!(story.tell(asked("i", Ask::Interrupt(None))), ["→close", "→i taken"]);
    assert_eq!(story.tell(exited()), ["settled a ran interrupted", "idle"]);
    assert_eq!(story.submit("b"), ["user b", "→b taken", "starting +1", "→open new"]);
}

#[test]
fn a_budget_ends_the_turn() {
    let mut story = Story::idle();
    let outputs = story.outputs(asked("a", submission("a", Some(60), 1)));
    let busy = outputs.iter().find_map(|output| match output {
        Output::Append(Known::Status { status }) => Some(status.phase.clone()),
        _ => None,
    });
    let deadline = Some(Timestamp::from_milliseconds(CLOCK + 60_000));
    assert!(busy.unwrap().is(&Phase::Busy { submissions: vec![id("a")], deadline }));
    assert_eq!(story.machine.deadline(), Some(Duration::from_secs(60)));
    assert!(story.later(Duration::from_secs(59)).is_empty());
    assert_eq!(story.later(Duration::from_secs(1)), ["→interrupt"]);
    assert_eq!(story.tell(turn_ended(TurnEnd::Interrupted)), ["settled a ran budget", "idle"]);
}

#[test]
fn a_stop_ends_everything() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    let stop = story.tell(asked("s", Ask::Stop));
    assert_eq!(stop, ["settled b dropped stopped", "→interrupt", "→s taken", "exiting"]);
    assert_eq!(story.submit("c"), ["user c", "settled c dropped stopped", "→c taken", "exiting"]);
    let ended = story.tell(turn_ended(TurnEnd::Interrupted));
    assert_eq!(ended, ["settled a ran interrupted", "→close", "exiting"]);
    assert_eq!(story.tell(exited()), ["ended stopped", "→exit"]);
    assert!(story.restart().fold.is_reconciled());
    assert!(story.submit("d").is_empty());
}

#[test]
fn a_terminated_host_leaves_its_queue_to_the_next_one() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    assert_eq!(story.tell(Input::Terminate), ["→interrupt", "exiting +1"]);
    story.tell(turn_ended(TurnEnd::Interrupted));
    assert_eq!(story.tell(exited()), ["ended stopped", "→exit"]);
    assert_eq!(story.crash(Purpose::Reconcile), ["began", "→probe", "starting +1"]);
}

#[test]
fn a_held_session_queues_until_it_is_released() {
    let mut story = Story::held();
    assert_eq!(story.tell(Input::Start), ["began", "→probe", "held"]);
    assert_eq!(story.tell(Input::Probed(Finding::Ok)), ["gate ok"]);
    for number in 1..=8 {
        story.submit(&format!("q{number}"));
    }
    assert_eq!(story.submit("q9")[1], "settled q9 dropped queue_full");
    story.crash(Purpose::Reconcile);
    story.tell(Input::Probed(Finding::Ok));
    let released = story.tell(asked("r", Ask::Release));
    assert_eq!(released, ["→r taken", "starting +8", "→open new"]);
    story.tell(Input::Opened);
    // A host that comes later is not held again.
    assert!(story.crash(Purpose::Reconcile).contains(&"starting +7".to_owned()));
}

#[test]
fn revoking_settles_what_the_device_sent() {
    let mut story = Story::idle();
    story.tell(asked("a", submission("a", None, 1)));
    story.tell(asked("b", submission("b", None, 2)));
    story.tell(asked("c", submission("c", None, 1)));
    let revoked = story.tell(asked("r", Ask::Revoke(Device::One(device(1)))));
    assert_eq!(revoked, ["settled c dropped revoked", "→interrupt", "→r taken", "busy a +1"]);
    story.tell(turn_ended(TurnEnd::Interrupted));
    story.later(REST);
    story.tell(asked("mine", submission("mine", None, 9)));
    let all = story.tell(asked("r", Ask::Revoke(Device::All)));
    assert_eq!(all, ["→interrupt", "→r taken"]);
    let ended = story.tell(turn_ended(TurnEnd::Interrupted));
    assert_eq!(ended, ["settled b ran interrupted", "idle +1"]);
    assert_eq!(story.later(REST), ["busy mine", "→turn mine"]);
}

#[test]
fn only_an_open_gate_lets_the_harness_run() {
    for (finding, provider, may_run) in [
        (Finding::Ok, OtherProvider::Refuse, true),
        (Finding::OtherProvider, OtherProvider::Allow, true),
        (Finding::OtherProvider, OtherProvider::Refuse, false),
        (Finding::NotLoggedIn, OtherProvider::Allow, false),
        (Finding::TimedOut, OtherProvider::Allow, false),
        (Finding::Unreported, OtherProvider::Allow, false),
    ] {
        let mut story = Story::new();
        story.machine.terms.other_provider = provider;
        story.tell(Input::Start);
        story.submit("a");
        let told = story.tell(Input::Probed(finding.clone()));
        if may_run {
            assert_eq!(told[1..], ["→open new"], "{finding:?}");
        } else {
            let refused = ["settled a dropped stopped", "exiting", "ended refused", "→exit"];
            assert_eq!(told[1..], refused, "{finding:?}");
        }
    }
}

#[test]
fn a_host_whose_agent_may_not_run_stays_for_whoever_had_it_started_but_not_for_ever() {
    let refused = || {
        let mut story = Story::new();
        story.tell(Input::Start);
        assert_eq!(story.tell(Input::Probed(Finding::NotFound)), ["gate not_found", "exiting"]);
        assert_eq!(story.machine.deadline(), Some(LINGER));
        story
    };
    let taken = ["user a", "settled a dropped stopped", "→a taken", "exiting", "ended refused", "→exit"];
    assert_eq!(refused().submit("a"), taken);
    let mut story = refused();
    assert!(story.later(LINGER - Duration::from_millis(1)).is_empty());
    assert_eq!(story.later(Duration::from_millis(1)), ["ended refused", "→exit"]);
}

#[test]
fn an_agent_that_dies_in_a_turn_is_opened_again_for_the_next_one_at_most_twice() {
    let mut story = Story::idle();
    for (round, name) in ["a", "b"].into_iter().enumerate() {
        story.submit(name);
        let died = story.tell(exited());
        assert_eq!(died, ["notice".to_owned(), format!("settled {name} ran failed"), "idle".to_owned()]);
        story.elapsed += RETRY * (u32::try_from(round).unwrap() + 1);
        story.submit(&format!("after-{name}"));
        assert_eq!(story.tell(Input::Opened).last().unwrap(), &format!("→turn after-{name}"));
        if name == "a" {
            // A completed turn makes up for the death.
            story.tell(turn_ended(TurnEnd::Completed));
        } else {
            story.submit("queued");
        }
    }
    assert_eq!(story.tell(exited())[1..], ["settled after-b ran failed", "starting +1"]);
    let deadline = story.machine.deadline().unwrap();
    assert_eq!(deadline, story.elapsed + RETRY * 2);
    story.later(RETRY * 2);
    story.tell(Input::Opened);
    let died = story.tell(exited());
    assert_eq!(died, ["notice", "settled queued ran failed", "exiting", "ended died", "→exit"]);
}

#[test]
fn an_agent_that_dies_takes_no_other_turn_with_it() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    // It says that the turn failed before it says that it is gone.
    assert_eq!(story.tell(turn_ended(TurnEnd::Failed)), ["settled a ran failed", "idle +1"]);
    assert_eq!(story.tell(exited()), ["starting +1"]);
    assert_eq!(story.later(RETRY), ["→open new"]);
    assert_eq!(story.tell(Input::Opened), ["busy b", "→turn b"]);
}

#[test]
fn an_agent_that_cannot_be_started_ends_the_session() {
    let cases = [
        (OpenError::UnknownModel { model: "x".into() }, "ended unknown_model"),
        (OpenError::NotFound { program: "x".into() }, "ended refused"),
    ];
    for (error, ended) in cases {
        let mut story = Story::new();
        story.tell(Input::Start);
        story.submit("a");
        story.tell(Input::Probed(Finding::Ok));
        let told = story.tell(Input::OpenFailed(error));
        assert_eq!(told, ["notice", "settled a dropped stopped", "exiting", ended, "→exit"]);
    }
    let mut story = Story::new();
    story.tell(Input::Start);
    story.tell(Input::Probed(Finding::Ok));
    let failed = || Input::OpenFailed(OpenError::Start { detail: "x".into() });
    assert_eq!(story.tell(failed()), ["notice"]);
    assert_eq!(story.later(RETRY), ["→open new"]);
    story.tell(failed());
    story.later(RETRY * 2);
    assert_eq!(story.tell(failed()), ["notice", "exiting", "ended died", "→exit"]);
}

#[test]
fn a_new_host_says_what_became_of_the_one_that_died() {
    let mut story = Story::idle();
    story.submit("a");
    story.submit("b");
    let told = story.crash(Purpose::Reconcile);
    assert_eq!(told, ["notice", "settled a ran lost", "ended died", "began", "→probe", "starting +1"]);
    story.tell(Input::Probed(Finding::Ok));
    assert_eq!(story.tell(Input::Opened), ["busy b", "→turn b"]);
    let told = story.crash(Purpose::Reconcile);
    assert_eq!(told, ["notice", "settled b ran lost", "ended died", "→exit"]);
    assert!(story.restart().fold.is_reconciled());
    assert_eq!(story.crash(Purpose::Reconcile), ["→exit"]);
    assert!(!story.log.iter().any(|entry| matches!(&entry.event, Event::Known(known)
        if matches!(known.as_ref(), Known::Notice(notice) if notice.text.contains("no turn ran")))));
}

#[test]
fn a_host_that_dies_while_it_says_what_became_of_another_does_not_say_it_twice() {
    let mut story = Story::idle();
    story.submit("a");
    let before = story.log.len();
    story.crash(Purpose::Reconcile);
    story.log.truncate(before + 1);
    assert_eq!(story.log[before].event.kind(), "notice");
    assert_eq!(story.crash(Purpose::Reconcile), ["settled a ran lost", "ended died", "→exit"]);
}

#[test]
fn open_inputs_are_cancelled() {
    let mut story = Story::idle();
    story.submit("a");
    let input = shared::entry::Input {
        input: super::input(1),
        submission: id("a"),
        ask: Some(json!({})),
        confirm: None,
        digest: String::new(),
    };
    story.append(Known::Input(input));
    let told = story.crash(Purpose::Reconcile);
    assert_eq!(told, ["notice", "resolved 1 cancelled", "settled a ran lost", "ended died", "→exit"]);
}

#[test]
fn a_turn_whose_beginning_may_be_in_a_damaged_line_never_runs_again() {
    let mut story = Story::idle();
    story.submit("a");
    let mut retrace = Retrace::new(story.facts.clone());
    let mut damage = Damage::default();
    for entry in &story.log {
        let line = serde_json::to_string(entry).unwrap();
        if entry.event.kind() == "status" && line.contains("busy") {
            damage.lines.push(entry.sequence..=entry.sequence);
            damage.count += 1;
        } else {
            retrace.look(entry.sequence, &line);
        }
    }
    let restart = retrace.finish(&damage);
    assert!(restart.waiting.is_empty());
    assert_eq!(restart.lost.len(), 1);
}

#[test]
fn damage_is_told_once() {
    let mut story = Story::idle();
    let damage = Damage { cut: 7, lines: vec![2..=2, 4..=6], count: 4 };
    let restart = |story: &Story, damage: &Damage| {
        let mut retrace = Retrace::new(story.facts.clone());
        for entry in &story.log {
            retrace.look(entry.sequence, &serde_json::to_string(entry).unwrap());
        }
        retrace.finish(damage)
    };
    let notices = restart(&story, &damage).notices;
    assert!(notices[0].contains("7 bytes") && notices[1].contains("lines 2, 4–6"), "{notices:?}");
    for text in notices {
        story.append(Known::notice(Level::Warning, text));
    }
    assert!(restart(&story, &Damage { cut: 0, ..damage.clone() }).notices.is_empty());
    let more = Damage { cut: 0, lines: vec![2..=2, 4..=6, 9..=9], count: 5 };
    assert_eq!(restart(&story, &more).notices.len(), 1);
}

#[test]
fn a_line_that_is_no_entry_or_has_another_number_is_damaged() {
    use crate::log::Mark;
    let mut retrace = Retrace::new(facts(&[]));
    let line =
        r#"{"kind":"notice","level":"info","text":"x","sequence":1,"timestamp":"2026-01-01T12:00:00.000Z"}"#;
    assert_eq!(retrace.look(1, line), Mark::Counted);
    assert_eq!(retrace.look(2, line), Mark::Damaged);
    assert_eq!(retrace.look(3, "{}"), Mark::Damaged);
    let twice = r#"{"kind":"notice","kind":"notice","level":"info","text":"x","sequence":4,"timestamp":"2026-01-01T12:00:00.000Z"}"#;
    assert_eq!(retrace.look(4, twice), Mark::Damaged);
}

#[test]
fn what_was_not_logged_was_not_taken() {
    let mut story = Story::idle();
    let saved = story.machine.save();
    let mut outputs = Vec::new();
    story.machine.handle(asked("a", submission("a", None, 1)), story.now(), &mut outputs);
    assert!(!outputs.is_empty());
    story.machine.restore(saved);
    assert_eq!(story.submit("a"), ["user a", "→a taken", "busy a", "→turn a"]);
}

#[test]
fn a_branch_is_merged_between_turns_and_the_session_ends_with_it() {
    let mut with_worktree = facts(&[]);
    with_worktree.worktree = Some(shared::record::Worktree {
        repository: "/r/.git".into(),
        path: "/t".into(),
        branch: "aude/n".into(),
        base: Some("main".into()),
        commit: "c".into(),
    });
    let merge = |id| asked(id, Ask::Merge);
    let mut story = Story::of(with_worktree);
    // A host that was started for it needs no agent: the gate may be shut.
    story.tell(Input::Start);
    assert!(story.tell(merge("early")).is_empty());
    let shut = story.tell(Input::Probed(Finding::NotLoggedIn));
    assert!(shut.contains(&"→merge".to_owned()) && !shut.contains(&"→exit".to_owned()), "{shut:?}");
    let refused = story.tell(Input::Merged(Err("file".into())));
    assert_eq!(refused[0], r#"→early {"refused":{"conflict":{"detail":"file"}}}"#);
    assert!(refused.contains(&"→exit".to_owned()), "{refused:?}");
    story.crash(Purpose::Serve);
    story.tell(Input::Probed(Finding::Ok));
    story.tell(Input::Opened);
    story.submit("a");
    assert!(story.tell(merge("busy"))[0].contains("running"));
    story.tell(turn_ended(TurnEnd::Completed));
    story.later(REST);
    assert!(story.tell(merge("m")).contains(&"→merge".to_owned()));
    assert!(story.tell(merge("again"))[0].contains("running"));
    // A turn that comes meanwhile waits, and the next host runs it.
    assert!(!story.submit("b").iter().any(|output| output.starts_with("→turn")));
    let merged = story.tell(Input::Merged(Ok(())));
    assert_eq!(merged[..2], ["merged", "→m taken"]);
    story.tell(exited());
    assert!(story.crash(Purpose::Reconcile).contains(&"→probe".to_owned()));
    assert!(Story::idle().tell(merge("none"))[0].contains("not_offered"));
}
