//! The server is killed at each transition of a run; the next one tells what became of it, once, and nothing is doubled.

use std::fs;

use serde_json::{Value, json};
use tests::aura::AuraHome;
use tests::served::{Served, kinds, text};

/// A run with a tool, a wait before its answer, and an answer.
const RUN: &str = "[[step]]\nmatch = \"go\"\nparts = [{ wait_for_file = \"begin\" }, { call = { tool = \"bash\", input = { command = \"echo x >> ran\" } } }]
[[step]]\nfrom = \"tool\"\nparts = [{ wait_for_file = \"end\" }, { text = \"done\" }]
[[step]]\nmatch = \"again\"\ntext = \"went on\"";

fn served(home: &AuraHome) -> Served {
    home.script(RUN).settings("[tools]\nbash = \"allow\"").serve()
}

/// The state of a run as the next server tells it, which must be settled; the session goes on.
fn after_kill(home: &AuraHome, server: Served, run: &str) -> Value {
    let session = server.session.clone();
    server.kill();
    let server = home.resume(&session);
    let known = server.run(run);
    assert_eq!(known["terminal"], true, "{known:#}");
    let again = server.submit(&json!({"request_id": "r", "prompt": "go"}));
    assert_eq!((again.status, &again.body), (200, &known), "it never executes again");
    let events = server.events();
    let settled = |event: &&Value| {
        event["run_id"] == run
            && ["run.lost", "run.persisted", "run.persist_failed"].iter().any(|kind| event["type"] == *kind)
    };
    assert_eq!(events.iter().filter(settled).count(), 1, "it is told once: {:?}", kinds(&events));
    assert_eq!(server.done("continue", "again")["result"], json!({"content": "went on"}));
    for line in server.events().windows(2) {
        assert_eq!(line[1]["seq"].as_u64(), line[0]["seq"].as_u64().map(|seq| seq + 1));
    }
    known
}

/// What a lost run says that had not finished.
fn is_lost(home: &AuraHome, run: &Value) {
    assert_eq!((&run["state"], &run["outcome"]), (&json!("lost"), &Value::Null));
    assert_eq!((&run["error"]["code"], &run["persist_error"]), (&json!("server_lost"), &Value::Null));
    assert_eq!((&run["finished_at"], &run["result"]), (&Value::Null, &Value::Null));
    assert_ne!(run["settled_at"], Value::Null);
    let journal = fs::read_to_string(home.journal(&text(&run["session_id"]))).unwrap();
    let found: Value = journal
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).unwrap())
        .find(|event| event["seq"] == run["persisted"]["seq"])
        .unwrap();
    assert_eq!((&found["type"], &found["data"]["reason"]), (&json!("session.persisted"), &json!("start")));
    assert_eq!(found["data"]["revision"], run["persisted"]["revision"]);
}

#[test]
fn server_lost_for_a_run_that_was_accepted_or_running() {
    for kind in ["run.accepted", "run.started"] {
        let home = AuraHome::new();
        let server = served(&home);
        let run = server.prompt("r", "go");
        server.event_of(kind);
        let run = after_kill(&home, server, &run);
        is_lost(&home, &run);
        assert!(!home.path().join("ran").exists());
    }
}

#[test]
fn a_run_lost_behind_a_checkpoint_keeps_what_was_saved() {
    let home = AuraHome::new();
    let server = served(&home);
    let run = server.prompt("r", "go");
    fs::write(home.path().join("begin"), "").unwrap();
    server.event(|event| event["type"] == "session.persisted" && event["data"]["reason"] == "checkpoint");
    let run = after_kill(&home, server, &run);
    is_lost(&home, &run);
    assert_eq!(run["persisted"]["messages"], 3);
    assert_eq!(fs::read_to_string(home.path().join("ran")).unwrap(), "x\n", "no tool ran twice");
}

#[test]
fn a_run_lost_while_a_cancel_was_asked_for_says_so() {
    let home = AuraHome::new();
    home.script("[[step]]\nmatch = \"go\"\ncalls = [{ tool = \"bash\", input = { command = \"trap '' TERM; touch began; sleep 1000\" } }]\n[[step]]\nmatch = \"again\"\ntext = \"went on\"");
    let server = home.settings("[tools]\nbash = \"allow\"").serve();
    let run = server.prompt("r", "go");
    tests::served::until("the tool", || home.path().join("began").exists().then_some(()));
    server.post(&format!("/v1/runs/{run}/cancel"), &json!({}));
    let run = after_kill(&home, server, &run);
    is_lost(&home, &run);
    assert_eq!(run["cancel_requested"], true);
}

#[test]
fn a_run_that_finished_before_its_save_is_lost_with_its_outcome() {
    let home = AuraHome::new();
    let server = served(&home);
    for name in ["begin", "end"] {
        fs::write(home.path().join(name), "").unwrap();
    }
    let run = server.prompt("r", "go");
    server.settled(&run);
    let session = server.session.clone();
    server.kill();
    // The journal as it is when the power goes behind the event: a kill cannot be aimed so well.
    let path = home.journal(&session);
    let journal = fs::read_to_string(&path).unwrap();
    let whole: Vec<&str> = journal.split_inclusive('\n').collect();
    let finished = whole.iter().position(|line| line.contains("\"run.finished\"")).unwrap();
    for kept in [finished + 1, finished + 2] {
        fs::write(&path, whole[..kept].concat()).unwrap();
        let server = home.resume(&session);
        let known = server.run(&run);
        assert_eq!((&known["state"], &known["outcome"]), (&json!("lost"), &json!("completed")), "{known:#}");
        assert_eq!((&known["error"], &known["persist_error"]["code"]), (&Value::Null, &json!("server_lost")));
        assert_eq!(known["result"], json!({"content": "done"}));
        assert_eq!(known["persisted"]["messages"], 4);
        server.kill();
    }
    fs::write(&path, &journal).unwrap();
    let server = home.resume(&session);
    assert_eq!(server.run(&run)["state"], "persisted");
}

#[test]
fn every_run_is_accounted_for_wherever_the_journal_is_cut() {
    let home = AuraHome::new();
    let server = served(&home);
    for name in ["begin", "end"] {
        fs::write(home.path().join(name), "").unwrap();
    }
    let run = server.done("r", "go");
    let (session, id) = (server.session.clone(), text(&run["id"]));
    server.kill();
    let path = home.journal(&session);
    let journal = fs::read(&path).unwrap();
    let ends: Vec<usize> =
        journal.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    let [.., behind, _, _, _] = ends[..] else { panic!("few events") };
    // Every offset of the last three lines is too many for whole servers; the reader itself is tried at each in the unit tests.
    for cut in (behind..journal.len()).step_by(97) {
        fs::write(&path, &journal[..cut]).unwrap();
        let server = home.resume(&session);
        let events = server.events();
        let is_torn = !ends.contains(&cut);
        let notices =
            events.iter().filter(|event| event["type"] == "notice" && event["data"]["source"] == "journal");
        assert_eq!(notices.count(), usize::from(is_torn), "cut at {cut}");
        assert_eq!(server.run(&id)["terminal"], true, "cut at {cut}");
        server.kill();
    }
}

#[test]
fn a_server_killed_at_any_time_loses_no_accepted_run_and_doubles_none() {
    let home = AuraHome::new();
    home.script("[[step]]\ncalls = [{ tool = \"bash\", input = { command = \"echo {{message}} >> ran\" } }]\ntimes = \"always\"\n[[step]]\nfrom = \"tool\"\ntext = \"done\"");
    let mut server = home.settings("[tools]\nbash = \"allow\"").serve();
    let session = server.session.clone();
    let mut accepted = Vec::new();
    for round in 0..12_u64 {
        for number in 0..3 {
            let id = format!("{round}-{number}");
            let reply = server.submit(&json!({"request_id": id, "prompt": id}));
            accepted.push((id, text(&reply.body["id"])));
            // The last one of a round is killed at another place each time.
            if number < 2 {
                server.settled(&accepted.last().unwrap().1);
            } else {
                let behind = reply.body["accepted_seq"].as_u64().unwrap() + round;
                server.event(|event| {
                    event["seq"].as_u64() >= Some(behind)
                        || event["type"] == "run.persisted" && event["run_id"] == reply.body["id"]
                });
            }
        }
        server.kill();
        server = home.resume(&session);
    }
    let ran = fs::read_to_string(home.path().join("ran")).unwrap();
    for (request, id) in &accepted {
        let run = server.get(&format!("/v1/runs?request_id={request}")).body;
        assert_eq!((&run["id"], &run["terminal"]), (&json!(id), &json!(true)));
        let times = ran.lines().filter(|line| line == request).count();
        assert!(times <= 1, "{request} ran {times} times");
        if run["state"] == "persisted" {
            assert_eq!(times, 1, "{request}");
        }
    }
}
