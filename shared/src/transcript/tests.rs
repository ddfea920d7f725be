use super::*;
use serde_json::json;

fn entry(sequence: u64, mut fields: Value) -> Entry {
    fields["sequence"] = json!(sequence);
    fields["timestamp"] = json!("2026-01-01T12:00:00.000Z");
    serde_json::from_value(fields).unwrap()
}

fn delta(message: &str, kind: &str, offset: u64, text: &str) -> Delta {
    serde_json::from_value(json!({"message": message, "kind": kind, "offset": offset, "text": text})).unwrap()
}

fn transcript(entries: &[Value]) -> Transcript {
    let mut transcript = Transcript::new();
    for (sequence, fields) in (1..).zip(entries) {
        transcript.apply(entry(sequence, fields.clone()));
    }
    transcript
}

fn words(transcript: &Transcript) -> Vec<&'static str> {
    transcript.items().iter().map(|item| item.body.word()).collect()
}

fn tool(call: &str) -> Value {
    json!({"kind": "tool", "call": call, "name": "Bash", "title": "ls", "class": "execute", "input": {"command": "ls"}})
}

fn result(call: &str) -> Value {
    json!({"kind": "result", "call": call, "status": "ok", "text": "a", "exit": {"status": 0}})
}

#[test]
fn a_result_joins_its_call_and_adds_no_item() {
    let shown = transcript(&[tool("c1"), tool("c2"), result("c1")]);
    assert_eq!(words(&shown), ["tool", "tool"]);
    let Body::Tool(first) = &shown.items()[0].body else { panic!("no tool") };
    assert_eq!(first.outcome.as_ref().unwrap().text, "a");
    let Body::Tool(second) = &shown.items()[1].body else { panic!("no tool") };
    assert!(second.outcome.is_none());
}

#[test]
fn a_result_without_its_call_is_shown_by_itself() {
    assert_eq!(words(&transcript(&[result("gone")])), ["tool"]);
}

#[test]
fn an_entry_that_was_seen_changes_nothing() {
    let mut shown = transcript(&[tool("c1")]);
    assert_eq!(shown.apply(entry(1, tool("c1"))), Change::Nothing);
    assert_eq!(shown.items().len(), 1);
}

#[test]
fn a_plan_replaces_the_one_of_its_turn_only() {
    let plan = |text: &str| json!({"kind": "plan", "steps": [{"text": text, "state": "active"}]});
    let user = json!({"kind": "user", "text": "go", "submission": "s", "origin": {"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"}});
    let shown = transcript(&[plan("a"), plan("b"), user, plan("c")]);
    assert_eq!(words(&shown), ["plan", "user", "plan"]);
    let Body::Plan(steps) = &shown.items()[0].body else { panic!("no plan") };
    assert_eq!(steps[0].text, "b");
}

#[test]
fn live_text_grows_by_offset_and_its_entry_replaces_it() {
    let mut shown = Transcript::new();
    assert_eq!(shown.apply_delta(&delta("m", "assistant", 0, "Hel")), Change::Live);
    assert_eq!(shown.apply_delta(&delta("m", "assistant", 0, "Hel")), Change::Nothing);
    shown.apply_delta(&delta("m", "assistant", 2, "llo"));
    shown.apply_delta(&delta("m", "assistant", 9, "world"));
    let text: Vec<_> = shown.live().map(|item| item.body.clone()).collect();
    assert_eq!(text, [Body::Assistant { text: "Hello … world".to_owned(), model: None }]);
    shown.apply(entry(1, json!({"kind": "assistant", "message": "m", "text": "Hello big world"})));
    assert_eq!(shown.live().count(), 0);
    assert_eq!(words(&shown), ["assistant"]);
}

#[test]
fn thought_and_answer_of_one_message_are_two() {
    let mut shown = Transcript::new();
    shown.apply_delta(&delta("m", "thinking", 0, "hm"));
    shown.apply_delta(&delta("m", "assistant", 0, "yes"));
    assert_eq!(shown.live().count(), 2);
    shown.apply(entry(1, json!({"kind": "thinking", "message": "m", "text": "hm"})));
    assert_eq!(shown.live().count(), 1);
}

#[test]
fn live_output_of_a_tool_is_shown_in_its_call_until_the_result() {
    let mut shown = transcript(&[tool("c1")]);
    assert_eq!(shown.apply_delta(&delta("c1", "tool", 0, "a\n")), Change::Changed(0));
    assert_eq!(shown.apply_delta(&delta("c1", "tool", 2, "b\n")), Change::Changed(0));
    let Body::Tool(call) = &shown.items()[0].body else { panic!("no tool") };
    assert_eq!(call.output, "a\nb\n");
    assert_eq!(shown.live().count(), 0);
    shown.apply(entry(2, result("c1")));
    assert_eq!(shown.apply_delta(&delta("c1", "tool", 4, "late")), Change::Nothing);
    let Body::Tool(call) = &shown.items()[0].body else { panic!("no tool") };
    assert_eq!(call.output, "");
}

#[test]
fn only_what_went_wrong_is_said_of_a_settled_submission() {
    let settled = |fate: Value| json!({"kind": "settled", "settled": {"submission": "s", "origin": {"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"}, "fate": fate}});
    let shown =
        transcript(&[settled(json!("answered")), settled(json!({"dropped": {"reason": "queue_full"}}))]);
    assert_eq!(words(&shown), ["settled"]);
}

#[test]
fn an_unknown_kind_is_kept() {
    assert_eq!(words(&transcript(&[json!({"kind": "poem", "lines": 3})])), ["unknown"]);
}

fn change(before: &str, after: &str) -> Vec<String> {
    let diff = Diff { path: "p".into(), before: Some(before.into()), after: Some(after.into()), patch: None };
    written(&FileChange::of(&diff))
}

fn written(change: &FileChange) -> Vec<String> {
    let mark = |mark| match mark {
        DiffMark::Added => "+",
        DiffMark::Removed => "-",
        DiffMark::Same => " ",
        DiffMark::Place => "",
    };
    change.lines.iter().map(|line| format!("{}{}", mark(line.mark), line.text)).collect()
}

#[test]
fn texts_are_compared_line_by_line() {
    assert_eq!(change("a\nb\nc\n", "a\nx\nc\n"), ["@@ -1 +1 @@", " a", "-b", "+x", " c"]);
    assert_eq!(change("", "a\n"), ["@@ -1 +1 @@", "+a"]);
    assert_eq!(change("a\n", "a\n"), Vec::<String>::new());
    let long: String = (0..40).map(|n| format!("{n}\n")).collect();
    let changed = long.replace("20\n", "twenty\n");
    assert_eq!(change(&long, &changed).len(), 1 + 3 + 2 + 3);
    assert_eq!(change(&long, &changed)[0], "@@ -18 +18 @@");
}

#[test]
fn two_far_changes_get_two_places() {
    let long: String = (0..40).map(|n| format!("{n}\n")).collect();
    let changed = long.replace("5\n", "five\n").replace("3five\n", "35\n").replace("2five\n", "25\n");
    let lines = change(&long, &changed.replace("30\n", "thirty\n"));
    assert!(lines.iter().filter(|line| line.starts_with("@@")).count() >= 2, "{lines:?}");
}

#[test]
fn a_patch_is_shown_without_its_head() {
    let patch = "diff --git a/f b/f\nindex 1..2\n--- a/f\n+++ b/f\n@@ -1,2 +1,2 @@\n a\n--- b\n+++ c\n\\ No newline at end of file\n";
    let diff = Diff { path: "f".into(), before: None, after: None, patch: Some(patch.into()) };
    let change = FileChange::of(&diff);
    assert_eq!(written(&change), ["@@ -1,2 +1,2 @@", " a", "--- b", "+++ c"]);
    assert_eq!(change.counts(), (1, 1));
}

#[test]
fn an_input_is_open_until_it_is_decided_or_its_run_ends() {
    let input = |id: &str| json!({"kind": "input", "input": id, "submission": "s", "ask": {}, "digest": ""});
    let (first, second) = ("6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfc");
    let decided = json!({"kind": "resolved", "input": first, "choice": "cancelled"});
    let open = |entries: &[Value]| {
        let shown = transcript(entries);
        shown.open_inputs().iter().map(|input| input.input.to_string()).collect::<Vec<_>>()
    };
    assert_eq!(open(&[input(first), input(second)]), [first, second]);
    assert_eq!(open(&[input(first), input(second), decided]), [second]);
    let ended = json!({"kind": "ended", "ended": "stopped"});
    assert_eq!(open(&[input(first), ended]), [""; 0]);
}
