//! Questions and approvals: a run that may not wait ends, one that may waits for its answer and takes it once.

use std::fs;

use serde_json::{Value, json};
use tests::aura::AuraHome;
use tests::served::{Served, text};

/// Asks one question with two answers, and says what was chosen.
const ASKS: &str = "[[step]]
match = \"one\"
calls = [{ tool = \"ask\", input = { question = \"Which?\", options = [{ label = \"Red\", description = \"as fire\" }, { label = \"2\" }] } }]
[[step]]
match = \"several\"
calls = [{ tool = \"ask\", input = { question = \"Which?\", multiple = true, options = [{ label = \"A\" }, { label = \"B\" }, { label = \"C\" }] } }]
[[step]]
match = \"twice\"
calls = [{ tool = \"bash\", input = { command = \"touch a\" } }, { tool = \"bash\", input = { command = \"touch b\" } }]
[[step]]
match = \"work*\"
calls = [{ tool = \"bash\", input = { command = \"echo {{1}}\" } }]
[[step]]
from = \"tool\"
text = \"{{last}}\"
";

fn served(home: &AuraHome) -> Served {
    home.script(ASKS).settings("[tools]\nbash = \"confirm\"").serve()
}

fn waits(server: &Served, request_id: &str, prompt: &str) -> String {
    let reply = server.submit(&json!({"request_id": request_id, "prompt": prompt, "on_input": "wait"}));
    assert_eq!(reply.status, 202, "{reply:?}");
    text(&reply.body["id"])
}

/// The input that the run asks next, behind this event.
fn input(server: &Served, run: &str, behind: u64) -> Value {
    server.event_behind(behind, |event| event["type"] == "input.required" && event["run_id"] == run)
}

fn answer(server: &Served, run: &str, input: &Value, body: &Value) -> tests::served::Reply {
    server.post(&format!("/v1/runs/{run}/inputs/{}", text(&input["data"]["input_id"])), body)
}

#[test]
fn input_required_ends_a_run_that_may_not_wait() {
    let home = AuraHome::new();
    let server = served(&home);
    for (request, prompt) in [("r1", "one"), ("r2", "twice")] {
        let run = server.done(request, prompt);
        assert_eq!((&run["outcome"], &run["error"]["code"]), (&json!("blocked"), &json!("input_required")));
        assert_eq!(run["state"], "persisted");
    }
    let events = server.events();
    assert!(!events.iter().any(|event| event["type"] == "input.required"), "it never waits");
    let finished: Vec<&Value> = events.iter().filter(|event| event["type"] == "tool.finished").collect();
    assert!(finished.iter().all(|event| event["data"]["status"] == "error"), "{finished:#?}");
    assert!(!home.path().join("a").exists() && !home.path().join("b").exists(), "nothing was run");
    // Each call has its result, also those that were not run.
    let messages = server.get("/v1/session/messages").body["messages"].clone();
    let roles: Vec<String> =
        messages.as_array().unwrap().iter().map(|message| text(&message["role"])).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "user", "assistant", "tool", "tool"]);
}

#[test]
fn a_question_is_answered_by_label_number_or_words() {
    let home = AuraHome::new();
    let server = served(&home);
    for (number, (said, recorded)) in
        [("Red", "Red"), ("1", "Red"), ("2", "2"), ("  green  ", "green"), ("3", "3")].into_iter().enumerate()
    {
        let run = waits(&server, &format!("r{number}"), "one");
        let asked = input(&server, &run, 0);
        let id = &asked["data"]["input_id"];
        assert_eq!(
            asked["data"],
            json!({"input_id": id, "kind": "ask", "question": "Which?",
                   "options": [{"label": "Red", "description": "as fire"}, {"label": "2", "description": ""}],
                   "multi_select": false, "tool": null, "detail": null, "pattern": null})
        );
        assert_eq!(answer(&server, &run, &asked, &json!({"answer": " "})).code(), (400, "bad_request"));
        assert_eq!(answer(&server, &run, &asked, &json!({"action": "allow"})).code(), (400, "bad_request"));
        let reply = answer(&server, &run, &asked, &json!({"answer": said}));
        assert_eq!((reply.status, &reply.body), (200, &json!({})));
        let run = server.settled(&run);
        assert!(text(&run["result"]["content"]).contains(recorded), "{run:#}");
        let resolved =
            server.event(|event| event["type"] == "input.resolved" && event["data"]["input_id"] == *id);
        assert_eq!(resolved["data"]["answer"], recorded);
    }
}

#[test]
fn several_labels_are_chosen_by_numbers_or_a_list() {
    let home = AuraHome::new();
    let server = served(&home);
    for (number, (said, recorded)) in
        [("1,3", "A, C"), ("[\"C\",\"B\"]", "B, C"), ("B", "B"), ("1,9", "1,9")].into_iter().enumerate()
    {
        let run = waits(&server, &format!("r{number}"), "several");
        let asked = input(&server, &run, 0);
        assert_eq!(asked["data"]["multi_select"], true);
        assert_eq!(answer(&server, &run, &asked, &json!({"answer": said})).status, 200);
        server.settled(&run);
        let id = &asked["data"]["input_id"];
        let resolved =
            server.event(|event| event["type"] == "input.resolved" && event["data"]["input_id"] == *id);
        assert_eq!(resolved["data"]["answer"], recorded, "{said}");
    }
}

#[test]
fn an_approval_is_denied_allowed_once_and_allowed_for_the_session() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = waits(&server, "r1", "work x");
    let asked = input(&server, &run, 0);
    let data = &asked["data"];
    assert_eq!(
        (&data["kind"], &data["tool"], &data["options"]),
        (&json!("confirm"), &json!("bash"), &json!([]))
    );
    assert!(text(&data["detail"]).contains("echo x"), "{data}");
    let pattern = text(&data["pattern"]);
    assert_eq!(answer(&server, &run, &asked, &json!({"action": "maybe"})).code(), (400, "bad_request"));
    assert_eq!(answer(&server, &run, &asked, &json!({"action": "deny"})).status, 200);
    let done = server.settled(&run);
    assert_eq!(
        (&done["outcome"], &done["stats"]["tool_errors"]),
        (&json!("completed"), &json!(1)),
        "the run goes on"
    );
    assert_eq!(server.event_of("input.resolved")["data"]["answer"], "deny");

    for (request, action) in [("r2", "allow"), ("r3", "allow_session")] {
        let run = waits(&server, request, "work x");
        let asked = input(&server, &run, 0);
        assert_eq!(answer(&server, &run, &asked, &json!({"action": action})).status, 200);
        assert_eq!(server.settled(&run)["stats"]["tool_errors"], 0);
    }
    let run = server.settled(&waits(&server, "r4", "work x"));
    assert_eq!(run["outcome"], "completed", "{pattern} is allowed until the process ends");
    let asked = server.events().iter().filter(|event| event["type"] == "input.required").count();
    assert_eq!(asked, 3, "the fourth was not asked");
    let id = server.session.clone();
    server.kill();
    let server = home.resume(&id);
    let run = waits(&server, "r5", "work x");
    input(&server, &run, 0);
}

#[test]
fn several_approvals_come_one_after_another() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = waits(&server, "r", "twice");
    let first = input(&server, &run, 0);
    let count = || server.events().iter().filter(|event| event["type"] == "input.required").count();
    assert_eq!(count(), 1);
    assert_eq!(answer(&server, &run, &first, &json!({"action": "allow"})).status, 200);
    let second = input(&server, &run, first["seq"].as_u64().unwrap());
    assert_eq!(answer(&server, &run, &second, &json!({"action": "deny"})).status, 200);
    server.settled(&run);
    let made: Vec<bool> = ["a", "b"].iter().map(|name| home.path().join(name).exists()).collect();
    assert_eq!(made.iter().filter(|is_made| **is_made).count(), 1);
}

#[test]
fn not_pending_once_it_was_answered_whatever_is_said_then() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = waits(&server, "r", "one");
    let asked = input(&server, &run, 0);
    assert_eq!(answer(&server, &run, &asked, &json!({"answer": "Red"})).status, 200);
    for body in [json!({"answer": "Red"}), json!({"action": "allow"})] {
        assert_eq!(answer(&server, &run, &asked, &body).code(), (409, "not_pending"));
    }
    server.settled(&run);
    assert_eq!(answer(&server, &run, &asked, &json!({"answer": "Red"})).code(), (409, "not_pending"));
    let unknown = server.post(&format!("/v1/runs/{run}/inputs/nothing"), &json!({"answer": "Red"}));
    assert_eq!(unknown.code(), (404, "not_found"));
    let id = server.session.clone();
    server.kill();
    let server = home.resume(&id);
    assert_eq!(
        answer(&server, &run, &asked, &json!({"answer": "Red"})).code(),
        (409, "not_pending"),
        "also later"
    );
}

#[test]
fn a_cancel_goes_before_an_answer_that_is_waited_for() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = waits(&server, "r", "work x");
    let asked = input(&server, &run, 0);
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
    let done = server.settled(&run);
    assert_eq!(
        (&done["outcome"], &done["error"]["details"]["reason"]),
        (&json!("cancelled"), &json!("request"))
    );
    assert_eq!(
        server.event_of("input.resolved")["data"],
        json!({"input_id": asked["data"]["input_id"], "answer": null})
    );
    assert_eq!(answer(&server, &run, &asked, &json!({"action": "allow"})).code(), (409, "not_pending"));
}

#[test]
fn an_answer_is_durable_before_it_is_acknowledged() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = waits(&server, "r", "one");
    let asked = input(&server, &run, 0);
    assert_eq!(answer(&server, &run, &asked, &json!({"answer": "Red"})).status, 200);
    let journal = home.journal(&server.session);
    server.kill();
    let journal = fs::read_to_string(journal).unwrap();
    assert!(journal.contains("\"input.resolved\""), "{journal}");
}
