//! How runs end: every outcome and code, the order of what is told, and what is saved.

use std::fs;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::aura::AuraHome;
use tests::programs;
use tests::served::{Served, kinds, text};

use super::HI;

/// The settled record of a run that must end with this outcome and code.
fn ends(server: &Served, prompt: &str, outcome: &str, code: &str) -> Value {
    let run = server.done(&format!("{code} {prompt}"), prompt);
    assert_eq!((&run["outcome"], &run["error"]["code"]), (&json!(outcome), &json!(code)), "{run:#}");
    assert_eq!((&run["result"], &run["state"]), (&Value::Null, &json!("persisted")));
    run
}

fn command(server: &Served, request_id: &str, command: &str) -> Value {
    let reply = server.submit(&json!({"request_id": request_id, "command": command}));
    assert_eq!(reply.status, 202, "{reply:?}");
    server.settled(&text(&reply.body["id"]))
}

#[test]
fn a_run_with_tools_is_told_in_the_order_of_the_contract() {
    let home = AuraHome::new();
    fs::write(home.path().join("note.txt"), "read me").unwrap();
    let server = home
        .script(
            "[[step]]\nmatch = \"go\"\ntext = \"looking\"\ncalls = [{ tool = \"read\", input = { path = \"note.txt\" } }]
usage = { input_tokens = 10, output_tokens = 5 }
[[step]]\nfrom = \"tool\"\ntext = \"it says: {{last}}\"",
        )
        .serve();
    let run = server.done("r", "go");
    let events = server.events();
    let of_run = events.iter().filter(|event| event["run_id"] != Value::Null).cloned().collect::<Vec<_>>();
    assert_eq!(
        kinds(&of_run),
        [
            "run.accepted",
            "message.user",
            "run.started",
            "status",
            "message.assistant",
            "tool.started",
            "tool.finished",
            "session.persisted[checkpoint]",
            "status",
            "message.assistant",
            "run.finished",
            "session.persisted[run]",
            "run.persisted"
        ]
    );
    for (index, event) in events.iter().enumerate() {
        let keys: Vec<&String> = event.as_object().unwrap().keys().collect();
        assert_eq!(keys, ["data", "run_id", "seq", "session_id", "time", "type"]);
        assert_eq!((&event["seq"], &event["session_id"]), (&json!(index + 1), &json!(server.session)));
    }
    let [accepted, user, started, _, said, call, done, checkpoint, _, last, finished, saved, persisted] =
        &of_run[..]
    else {
        panic!("{of_run:#?}")
    };
    assert_eq!(accepted["data"]["run"]["state"], "accepted");
    assert_eq!(started["data"], json!({"run_id": run["id"], "message_id": user["data"]["message_id"]}));
    assert_eq!(run["started_at"], started["time"]);
    let calls = json!([{"call_id": call["data"]["call_id"], "name": "read", "args": {"path": "note.txt"}}]);
    assert_eq!((&said["data"]["content"], &said["data"]["tool_calls"]), (&json!("looking"), &calls));
    assert_eq!(call["data"], calls[0]);
    let result = text(&done["data"]["result"]);
    assert!(result.contains("read me"), "{result}");
    assert_eq!((&done["data"]["status"], &done["data"]["error"]), (&json!("ok"), &Value::Null));
    assert_eq!(checkpoint["data"]["messages"], 3);
    assert_eq!(last["data"]["content"], format!("it says: {result}"));
    assert_eq!(
        (&finished["data"]["run"]["state"], &finished["data"]["run"]["outcome"]),
        (&json!("finished"), &json!("completed"))
    );
    assert_eq!(finished["data"]["run"]["persisted"]["seq"], checkpoint["seq"], "its latest checkpoint");
    assert_eq!(persisted["data"]["run"], run);
    let stored = home.ok(["show", &server.session]);
    assert_eq!(run["persisted"], json!({"revision": stored["revision"], "messages": 4, "seq": saved["seq"]}));
    assert_eq!(run["stats"], json!({"iterations": 2, "tool_calls": {"read": 1}, "tool_errors": 0}));
    assert_eq!((&run["accepted_seq"], &run["accepted_at"]), (&accepted["seq"], &accepted["time"]));
    let messages = server.get("/v1/session/messages").body["messages"].clone();
    let ids: Vec<&Value> =
        messages.as_array().unwrap().iter().map(|message| &message["message_id"]).collect();
    assert_eq!(
        (ids[0], ids[1], ids[3]),
        (&user["data"]["message_id"], &said["data"]["message_id"], &last["data"]["message_id"])
    );
    assert_eq!(messages[2]["content"], done["data"]["result"]);
}

#[test]
fn the_providers_codes_come_from_its_status() {
    let home = AuraHome::new();
    let server = home
        .script(
            "[[step]]\nmatch = \"429\"\nerror = { message = \"slow down\", status = 429, retry_after = 1500 }
[[step]]\nmatch = \"401\"\nerror = { message = \"m\", status = 401 }
[[step]]\nmatch = \"402\"\nerror = { message = \"m\", status = 402 }
[[step]]\nmatch = \"404\"\nerror = { message = \"m\", status = 404 }
[[step]]\nmatch = \"408\"\nerror = { message = \"m\", status = 408 }
[[step]]\nmatch = \"none\"\nerror = { message = \"m\" }
[[step]]\nmatch = \"503\"\nerror = { message = \"the engine is not running\", status = 503 }
[[step]]\nmatch = \"413\"\nerror = { message = \"m\", status = 413 }
[[step]]\nmatch = \"418\"\nerror = { message = \"m\", status = 418 }",
        )
        .serve();
    for (prompt, code, is_retryable) in [
        // First: there is nothing yet that a summary could take the place of.
        ("413", "context_exhausted", false),
        ("429", "provider_rate_limit", true),
        ("401", "provider_auth", false),
        ("402", "provider_credit", false),
        ("404", "provider_model_unavailable", false),
        ("408", "provider_network", true),
        ("none", "provider_network", true),
        ("503", "provider_server", true),
        ("418", "internal", false),
    ] {
        let run = ends(&server, prompt, "failed", code);
        assert_eq!(run["error"]["retryable"], is_retryable, "{run:#}");
        let status = prompt.parse::<u16>().map_or(Value::Null, Value::from);
        assert_eq!(
            (&run["error"]["details"]["status"], &run["error"]["details"]["provider"]),
            (&status, &json!("script"))
        );
    }
    let limited = server.get("/v1/runs?request_id=provider_rate_limit%20429").body;
    assert_eq!(limited["error"]["details"]["retry_after_ms"], 1500);
    assert_eq!(limited["error"]["message"], "slow down");
}

#[test]
fn a_script_without_a_further_step_is_internal() {
    let home = AuraHome::new();
    let server = home.script("[[step]]\nmatch = \"known\"\ntext = \"x\"").serve();
    ends(&server, "unknown", "failed", "internal");
}

#[test]
fn max_steps_keeps_the_pair_of_the_last_step() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\ncalls = [{ tool = \"glob\", input = { pattern = \"*\" } }]\ntimes = \"always\"\n[[step]]\nfrom = \"tool\"\ncalls = [{ tool = \"glob\", input = { pattern = \"*\" } }]")
        .settings("[limits]\nmax_steps = 2")
        .serve();
    let run = ends(&server, "go", "failed", "max_steps");
    assert_eq!(run["stats"], json!({"iterations": 2, "tool_calls": {"glob": 2}, "tool_errors": 0}));
    let messages = server.get("/v1/session/messages").body["messages"].clone();
    let roles: Vec<String> =
        messages.as_array().unwrap().iter().map(|message| text(&message["role"])).collect();
    assert_eq!(roles, ["user", "assistant", "tool", "assistant", "tool"]);
}

#[test]
fn token_budget_ends_a_run() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\ncalls = [{ tool = \"glob\", input = { pattern = \"*\" } }]\nusage = { input_tokens = 90, output_tokens = 20 }")
        .settings("[limits]\ntoken_budget = 100")
        .serve();
    ends(&server, "go", "failed", "token_budget");
}

#[test]
fn input_rejected_adds_no_message() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let run = ends(&server, "", "rejected", "input_rejected");
    assert_eq!((&run["started_at"], &run["persisted"]["messages"]), (&Value::Null, &json!(0)));
    let events = server.events();
    assert_eq!(
        kinds(&events[2..]),
        ["run.accepted", "run.finished", "session.persisted[run]", "run.persisted"]
    );
}

#[test]
fn guardrail_blocked_adds_no_message_and_policy_stop_ends_an_answer() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\nmatch = \"tell\"\ntext = \"the password is x\"\n[[step]]\ntext = \"hi\"")
        .settings("[guardrail.keys]\ninput = \"SECRET\"\noutput = \"password\"\nmessage = \"not here\"")
        .serve();
    let run = ends(&server, "my SECRET", "rejected", "guardrail_blocked");
    assert!(text(&run["error"]["message"]).contains("not here"));
    assert_eq!(run["persisted"]["messages"], 0);
    ends(&server, "tell", "blocked", "policy_stop");
}

#[test]
fn policy_stop_of_a_hook() {
    let home = AuraHome::new();
    let hook = home.path().join("hook.sh");
    fs::write(&hook, "#!/bin/sh\ncat > /dev/null\necho '{\"decision\":\"stop\",\"message\":\"enough\"}'\n")
        .unwrap();
    let server = home
        .script(HI)
        .settings(&format!("[hook.review]\non = \"stop\"\ncommand = \"sh\"\nargs = [{hook:?}]"))
        .serve();
    let run = ends(&server, "go", "blocked", "policy_stop");
    assert!(text(&run["error"]["message"]).contains("enough"), "{run:#}");
}

#[test]
fn command_failed_tells_why_and_has_no_result() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let run = command(&server, "c", "/agent nobody");
    assert_eq!(
        (&run["outcome"], &run["error"]["code"], &run["result"]),
        (&json!("failed"), &json!("command_failed"), &Value::Null)
    );
    let events = server.events();
    assert_eq!(
        kinds(&events[2..]),
        ["run.accepted", "command.result", "run.finished", "session.persisted[command]", "run.persisted"]
    );
    let result = &server.event_of("command.result")["data"];
    assert_eq!(
        (&result["command"], &result["message"], &result["error"]),
        (&json!("/agent nobody"), &Value::Null, &run["error"]["message"])
    );
}

#[test]
fn compaction_failed_where_no_summary_can_be_had() {
    let home = AuraHome::new();
    let server = home
        .script(
            "[[step]]\nmatch = \"more\"\nerror = { message = \"too long\", status = 413 }
[[step]]\nmatch = \"more*summary*\"\ntext = \"\"\n[[step]]\ntext = \"hi\"",
        )
        .serve();
    assert_eq!(server.done("r1", "hello")["outcome"], "completed");
    ends(&server, "more", "failed", "compaction_failed");
    let messages = server.get("/v1/session/messages").body;
    assert_eq!(messages["total"], 3, "what was said stays: {messages}");
}

#[test]
fn persist_failed_keeps_the_outcome_and_the_next_save_has_everything() {
    let home = AuraHome::new();
    home.script(
        "[[step]]\nmatch = \"wait\"\nwait_for_file = \"go\"\ntext = \"went\"\n[[step]]\ntext = \"hi\"",
    );
    let server = home.serve();
    let (id, file) = (server.session.clone(), home.file(&server.session));
    let run = server.prompt("r1", "wait");
    server.event_of("run.started");
    // Somebody else writes into the file while the run works.
    let whole = fs::read(&file).unwrap();
    fs::write(&file, [&whole[..], b" "].concat()).unwrap();
    fs::write(home.path().join("go"), "").unwrap();
    let run = server.settled(&run);
    assert_eq!(
        (&run["state"], &run["outcome"], &run["error"]),
        (&json!("persist_failed"), &json!("completed"), &Value::Null)
    );
    assert_eq!(
        (&run["persist_error"]["code"], &run["result"]),
        (&json!("persist_failed"), &json!({"content": "went"}))
    );
    let events = server.events();
    assert_eq!(
        kinds(&events)[events.len() - 3..],
        ["run.finished", "session.persist_failed[run]", "run.persist_failed"]
    );
    assert_eq!(fs::read(&file).unwrap().len(), whole.len() + 1, "what somebody else wrote stays");
    fs::write(&file, &whole).unwrap();
    let run = server.done("r2", "hello");
    assert_eq!((&run["state"], &run["persisted"]["messages"]), (&json!("persisted"), &json!(4)));
    assert_eq!(home.ok(["show", &id])["messages"], 4);
}

#[test]
fn a_disk_that_is_full_fails_the_checkpoint_and_the_run() {
    let home = AuraHome::new();
    let large = "x".repeat(300 * 1024);
    fs::write(home.path().join("note.txt"), "read me").unwrap();
    home.script("[[step]]\ncalls = [{ tool = \"read\", input = { path = \"note.txt\" } }]\n[[step]]\nfrom = \"tool\"\ntext = \"x\"");
    home.stored("task-1", &json!({"messages": [{"role": "user", "message_id": "m1", "content": large}]}));
    // No file may grow beyond 256 blocks of 512 bytes: the journal stays below, the session does not.
    let mut full = Command::new("sh");
    full.arg("-c").arg("trap '' XFSZ; ulimit -f 256; exec \"$@\"").arg("sh").arg(programs::aura());
    full.arg("--home").arg(home.root()).current_dir(home.path()).stdin(Stdio::null());
    let server = home.begin(full, &["--resume", "task-1"]).served();
    let run = server.done("r", "go");
    assert_eq!((&run["state"], &run["outcome"]), (&json!("persist_failed"), &json!("failed")), "{run:#}");
    assert_eq!(
        (&run["error"]["code"], &run["persist_error"]["code"]),
        (&json!("persist_failed"), &json!("persist_failed"))
    );
    let events = server.events();
    assert!(
        kinds(&events).contains(&"session.persist_failed[checkpoint]".to_owned()),
        "{:?}",
        kinds(&events)
    );
    assert_eq!(server.stop(), Some(1), "the final save failed");
    assert_eq!(home.ok(["show", "task-1"])["messages"], 1, "the old file is preserved");
    assert_eq!(home.resume("task-1").done("r2", "go")["state"], "persisted");
}

#[test]
fn cancelled_by_request_settles_with_the_error_results_saved() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\nmatch = \"go\"\ncalls = [{ tool = \"bash\", input = { command = \"echo $$ > pid; trap '' TERM; sleep 1000\" } }]\n[[step]]\ntext = \"x\"")
        .settings("[tools]\nbash = \"allow\"")
        .serve();
    let id = server.prompt("r", "go");
    server.event_of("tool.started");
    tests::served::until("the tool", || {
        fs::read_to_string(home.path().join("pid")).ok().filter(|pid| pid.ends_with('\n'))
    });
    for _ in 0..2 {
        let reply = server.post(&format!("/v1/runs/{id}/cancel"), &json!({}));
        assert_eq!((reply.status, &reply.body["cancel_requested"]), (202, &json!(true)));
    }
    let run = server.settled(&id);
    assert_eq!((&run["outcome"], &run["error"]["code"]), (&json!("cancelled"), &json!("cancelled")));
    assert_eq!(run["error"]["details"], json!({"reason": "request"}));
    assert_eq!(run["stats"], json!({"iterations": 1, "tool_calls": {"bash": 1}, "tool_errors": 1}));
    let events = server.events();
    let kinds = kinds(&events);
    assert_eq!(kinds.iter().filter(|kind| *kind == "run.cancel_requested").count(), 1);
    assert_eq!(
        kinds[kinds.len() - 5..],
        [
            "tool.finished",
            "session.persisted[checkpoint]",
            "run.finished",
            "session.persisted[run]",
            "run.persisted"
        ]
    );
    assert_eq!(run["persisted"]["messages"], 3, "call and result are a pair");
    let again = server.post(&format!("/v1/runs/{id}/cancel"), &json!({}));
    assert_eq!((again.status, &again.body), (202, &run), "a settled run is returned unchanged");
}

#[test]
fn cancelled_in_the_middle_of_an_answer_keeps_no_half_of_it() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\nmatch = \"go\"\nparts = [{ text = \"half \" }, { wait_for_file = \"never\" }]\n[[step]]\ntext = \"hi\"")
        .serve();
    let mut stream = server.stream("?transient=true", &[]);
    let id = server.prompt("r", "go");
    stream.up_to(|sent| sent.event == "delta.content");
    server.ask("POST", &format!("/v1/runs/{id}/cancel"), "");
    assert_eq!(server.settled(&id)["outcome"], "cancelled");
    let messages = server.get("/v1/session/messages").body;
    assert!(!messages.to_string().contains("half"), "{messages}");
    assert_eq!(server.done("r2", "hello")["result"], json!({"content": "hi"}));
}

#[test]
fn an_empty_answer_is_an_empty_result() {
    let home = AuraHome::new();
    let server = home.script("[[step]]\ntext = \"\"").serve();
    let run = server.done("r", "hello");
    assert_eq!((&run["outcome"], &run["result"]), (&json!("completed"), &json!({"content": ""})));
}
