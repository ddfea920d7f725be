//! What is asked of people for requests as version 2.1.332 writes them, and what their decisions become.

use super::*;

fn files() -> Files {
    Files {
        is_inside: Box::new(|path| path.starts_with("/w/")),
        text: Box::new(|_| Ok(None)),
        real: Box::new(|path| PathBuf::from(path)),
    }
}

fn request(tool: &str, input: Value) -> Value {
    json!({"subtype": "can_use_tool", "tool_name": tool, "display_name": tool, "input": input,
        "permission_suggestions": [
            {"type": "addRules", "rules": [{"toolName": tool, "ruleContent": "x"}], "behavior": "allow", "destination": "localSettings"},
            {"type": "setMode", "mode": "acceptEdits", "destination": "session"}],
        "tool_use_id": "toolu_1"})
}

fn asked(outputs: &[Output]) -> Vec<Asked> {
    let asked = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::Asked(asked)) => Some((**asked).clone()),
        Output::Event(_) | Output::Write(_) | Output::Trace(_) => None,
    });
    asked.collect()
}

fn ask(waiting: &mut Waiting, id: &str, tool: &str, input: Value) -> Asked {
    let outputs = waiting.ask(&json!(id), &request(tool, input), &files(), "/w");
    let [asked] = &asked(&outputs)[..] else { panic!("one thing is asked: {outputs:?}") };
    asked.clone()
}

fn confirm(asked: &Asked) -> &Confirm {
    match &asked.matter {
        Matter::Confirm(confirm) => confirm,
        Matter::Ask(_) => panic!("an approval"),
    }
}

fn written(outputs: &[Output]) -> Vec<(String, Value)> {
    let written = outputs.iter().filter_map(|output| match output {
        Output::Write(value) => {
            let id = value["response"]["request_id"].as_str().unwrap().to_owned();
            Some((id, value["response"]["response"].clone()))
        }
        Output::Event(_) | Output::Trace(_) => None,
    });
    written.collect()
}

#[test]
fn a_command_is_asked_for_exactly_and_runs_as_it_was_shown() {
    let mut waiting = Waiting::default();
    let input = json!({"command": "touch made.txt && echo made", "description": "run it"});
    let asked = ask(&mut waiting, "q1", "Bash", input.clone());
    let shown = confirm(&asked);
    assert_eq!(
        (shown.detail.as_str(), shown.tool.to_string().as_str()),
        ("touch made.txt && echo made", "toolu_1")
    );
    let subject = asked.subject.clone().unwrap();
    assert_eq!(subject.command.as_deref(), Some("touch made.txt && echo made"));
    assert!(shown.session.as_ref().unwrap().contains("touch made.txt && echo made"));
    let outputs = waiting.answer(asked.input, Decision::AllowSession);
    assert_eq!(written(&outputs), [("q1".to_owned(), json!({"behavior": "allow", "updatedInput": input}))]);
    assert!(written(&waiting.answer(asked.input, Decision::Allow)).is_empty(), "it is decided once");

    // Another command has another grant; the same one, with other words for people, has the same.
    let again = ask(&mut waiting, "q2", "Bash", json!({"command": "touch made.txt && echo made"}));
    let other = ask(&mut waiting, "q3", "Bash", json!({"command": "touch made.txt"}));
    assert_eq!(again.grant, asked.grant);
    assert_ne!(other.grant, asked.grant);
    let loose = json!({"command": "ls", "dangerouslyDisableSandbox": true});
    assert_eq!(ask(&mut waiting, "q4", "Bash", loose).grant, None);
}

#[test]
fn edits_are_granted_inside_only_and_never_sensitive_ones() {
    let mut waiting = Waiting::default();
    let write = |path: &str| json!({"file_path": path, "content": "x\n"});
    let inside = ask(&mut waiting, "q1", "Write", write("/w/a"));
    assert_eq!(confirm(&inside).detail, "--- /dev/null\n+++ /w/a\n@@ -0,0 +1,1 @@\n+x\n");
    assert_eq!(inside.subject.as_ref().unwrap().paths, [PathBuf::from("/w/a")]);
    assert_eq!(inside.grant.as_deref(), Some("edits"));
    assert_eq!(ask(&mut waiting, "q2", "Write", write("/elsewhere")).grant, None);
    let mut sensitive = request("Write", write("/w/hook"));
    sensitive["decision_reason_type"] = json!("safetyCheck");
    let outputs = waiting.ask(&json!("q3"), &sensitive, &files(), "/w");
    let [sensitive] = &asked(&outputs)[..] else { panic!("asked") };
    assert_eq!(sensitive.grant, None);
    assert!(confirm(sensitive).title.contains("sensitive"));
    assert!(confirm(sensitive).options.iter().all(|option| !option.is(&Verdict::AllowSession)));
}

#[test]
fn another_tool_is_granted_by_the_rule_that_the_program_suggests() {
    let mut waiting = Waiting::default();
    let fetch = ask(&mut waiting, "q1", "WebFetch", json!({"url": "https://x.example/"}));
    assert_eq!(fetch.grant.as_deref(), Some("WebFetch(x)"));
    assert!(confirm(&fetch).session.as_ref().unwrap().contains("WebFetch(x)"));
    let mut foreign = request("mcp__a__b", json!({}));
    foreign["permission_suggestions"][0]["rules"][0]["toolName"] = json!("Bash");
    let outputs = waiting.ask(&json!("q2"), &foreign, &files(), "/w");
    assert_eq!(asked(&outputs)[0].grant, None, "a rule for another tool is nothing that was asked");
}

#[test]
fn a_denial_reaches_the_model_with_its_text() {
    let mut waiting = Waiting::default();
    for (text, message) in [(Some("use pnpm"), "use pnpm"), (None, DENIED)] {
        let asked = ask(&mut waiting, "q", "Bash", json!({"command": "npm i"}));
        let outputs = waiting.answer(asked.input, Decision::Deny { text: text.map(str::to_owned) });
        assert_eq!(written(&outputs), [("q".to_owned(), json!({"behavior": "deny", "message": message}))]);
    }
}

fn two_questions() -> Value {
    json!({"questions": [
        {"question": "Which?", "header": "Pick", "multiSelect": true,
            "options": [{"label": "A", "description": "a"}, {"label": "B", "description": "b"}]},
        {"question": "Why?", "header": "Reason", "options": []}]})
}

#[test]
fn questions_are_asked_one_by_one_and_answered_together() {
    let mut waiting = Waiting::default();
    let outputs = waiting.ask(&json!("q"), &request("AskUserQuestion", two_questions()), &files(), "/w");
    let [which, why] = &asked(&outputs)[..] else { panic!("two questions: {outputs:?}") };
    let Matter::Ask(ask) = &which.matter else { panic!("a question") };
    assert!(ask.multiple && ask.options.len() == 2 && which.subject.is_none());
    assert!(waiting.answer(why.input, Decision::Said("because".to_owned())).is_empty());
    let outputs = waiting.answer(which.input, Decision::Chosen(vec!["A".to_owned(), "B".to_owned()]));
    let [(_, answer)] = &written(&outputs)[..] else { panic!("one answer") };
    assert_eq!(answer["behavior"], "allow");
    assert_eq!(answer["updatedInput"]["answers"], json!({"Which?": "A, B", "Why?": "because"}));
    assert_eq!(answer["updatedInput"]["questions"], two_questions()["questions"]);

    // One denial denies all; a permission is no answer to a question.
    for decision in [Decision::Deny { text: None }, Decision::Allow] {
        let outputs = waiting.ask(&json!("q"), &request("AskUserQuestion", two_questions()), &files(), "/w");
        let [which, why] = &asked(&outputs)[..] else { panic!("two questions") };
        let outputs = waiting.answer(which.input, decision);
        assert_eq!(written(&outputs)[0].1["behavior"], "deny");
        assert!(outputs.contains(&Output::Event(AgentEvent::Withdrawn(why.input))));
    }
}

#[test]
fn what_cannot_be_asked_is_denied_and_said() {
    let mut waiting = Waiting::default();
    let large = json!({"command": "x".repeat(limits::CONFIRM_BYTES + 1)});
    let same = json!({"questions": [{"question": "a"}, {"question": "a"}]});
    for (tool, input) in [
        ("Bash", large),
        ("AskUserQuestion", json!({"questions": []})),
        ("AskUserQuestion", same),
        ("AskUserQuestion", json!(null)),
    ] {
        let outputs = waiting.ask(&json!("q"), &request(tool, input), &files(), "/w");
        assert_eq!(written(&outputs)[0].1["behavior"], "deny");
        let is_said = |output: &Output| matches!(output, Output::Event(AgentEvent::Said(_)));
        assert!(asked(&outputs).is_empty() && outputs.iter().any(is_said));
    }
    for number in 0..limits::INPUTS {
        ask(&mut waiting, &number.to_string(), "Bash", json!({"command": "x"}));
    }
    let outputs = waiting.ask(&json!("more"), &request("Bash", json!({"command": "x"})), &files(), "/w");
    assert_eq!(written(&outputs)[0].1["behavior"], "deny");
    let outputs = waiting.ask(&json!("3"), &request("Bash", json!({"command": "y"})), &files(), "/w");
    assert!(asked(&outputs).is_empty() && written(&outputs).is_empty(), "a request that comes twice is one");
    assert_eq!(written(&waiting.deny_all("over")).len(), limits::INPUTS);
}

#[test]
fn what_the_program_withdraws_needs_no_answer_any_more() {
    let mut waiting = Waiting::default();
    let asked = ask(&mut waiting, "q", "Bash", json!({"command": "x"}));
    assert!(waiting.cancel(&json!("other")).is_empty());
    assert_eq!(waiting.cancel(&json!("q")), [Output::Event(AgentEvent::Withdrawn(asked.input))]);
    assert!(written(&waiting.answer(asked.input, Decision::Allow)).is_empty());
}
