//! Exit codes 0 to 5: each for what the README says, each with a sentence.

use tests::home::TestHome;
use tests::story::machine;

use super::{running, said};

/// Runs a command that must end with that code and say that.
fn ends(home: &TestHome, arguments: &[&str], code: i32, sentence: &str) {
    let output = home.run(arguments);
    let said = said(&output);
    assert_eq!(output.status.code(), Some(code), "{arguments:?}: {said}");
    assert!(said.contains(sentence), "{arguments:?} says: {said}");
    if code != 0 && code != 2 {
        assert!(said.starts_with("aude: "), "{arguments:?} says: {said}");
    }
    assert!(code < 2 || output.stdout.is_empty(), "an error is no output");
}

#[tokio::test]
async fn every_exit_code_means_one_thing() {
    let home = machine();
    for arguments in [
        &["sessions"][..],
        &["show", "x"],
        &["send", "x", "text"],
        &["attach", "x"],
        &["interrupt", "x"],
        &["stop", "x"],
        &["remove", "x"],
        &["pair"],
        &["revoke", "all"],
        &["down"],
    ] {
        ends(&home, arguments, 3, "no listener runs on this machine");
    }
    drop(home);

    let home = running().await;
    ends(&home, &["start", "one", "--harness", "aura", "echo one"], 0, "started one with aura");
    ends(&home, &["send", "one", "--wait", "echo two"], 0, "");
    ends(&home, &["send", "one", "--wait", "fail"], 1, "the turn was not answered: failed");
    for wrong in [
        &["bogus"][..],
        &["start"],
        &["send", "one", "--budget", "0", "x"],
        &["send", "one", "--budget", "8d", "x"],
        &["attach", "one", "--since", "-1"],
        &["start", "", "--harness", "aura"],
        &["start", " \u{202e}", "--harness", "aura"],
        &["rename", "one", ""],
        &["completions", "no-shell"],
    ] {
        ends(&home, wrong, 2, "error: ");
    }
    for nobody in [
        &["show", "nobody"][..],
        &["send", "nobody", "x"],
        &["attach", "nobody"],
        &["interrupt", "nobody"],
        &["stop", "nobody"],
        &["remove", "nobody"],
        &["start", "two", "--harness", "aura", "--after", "nobody"],
    ] {
        ends(&home, nobody, 4, "`aude sessions` lists them");
    }
    ends(&home, &["revoke", "nobody"], 4, "`aude devices` lists the paired devices");
    ends(&home, &["start", "one", "--harness", "aura", "x"], 5, "send to it with `aude send one`");
    ends(&home, &["start", "two", "--harness", "vim", "x"], 5, "`aude doctor` lists the harnesses");
    ends(&home, &["start", "two", "--harness", "aura", "-C", "missing"], 5, "--directory");
    ends(&home, &["remove", "one"], 5, "`aude stop one` ends it");
    ends(&home, &["start", "it's two; words", "--harness", "aura"], 0, r#"`aude attach "it's two; words"`"#);
    ends(&home, &["remove", "it's two; words"], 5, r#"`aude stop "it's two; words"` ends it"#);
    ends(&home, &["send", "one"], 5, "give the text as an argument or on standard input");
}
