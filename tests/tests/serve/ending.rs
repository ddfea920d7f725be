//! The end of a server: by request, signal and launcher; what is refused, what goes on, what is told last.

use std::fs;

use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tests::aura::AuraHome;
use tests::served::{Served, bearer, kinds, text, try_request};

use super::HI;

/// A step that works until it is cancelled, however long its end takes.
const WORKS: &str = "[[step]]\nmatch = \"wait\"\nwait_for_file = \"go\"\ntext = \"went\"
[[step]]\nmatch = \"tool\"\ncalls = [{ tool = \"bash\", input = { command = \"trap '' TERM; touch began; sleep 1000\" } }]
[[step]]\ntext = \"hi\"";

/// A way to end a server.
type Way = fn(&Served);

fn journal(home: &AuraHome, session: &str) -> Vec<Value> {
    let text = fs::read_to_string(home.journal(session)).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn served(home: &AuraHome) -> Served {
    home.script(WORKS).settings("[tools]\nbash = \"allow\"").serve()
}

#[test]
fn shutdown_by_request_and_by_each_signal_is_told_and_saves() {
    let ways: [(&str, Way); 3] = [
        ("request", |server| {
            let reply = server.ask("POST", "/v1/shutdown", "");
            assert_eq!((reply.status, &reply.body), (202, &json!({})));
        }),
        ("signal", |server| server.signal(Signal::SIGTERM)),
        ("signal", |server| server.signal(Signal::SIGINT)),
    ];
    for (reason, end) in ways {
        let home = AuraHome::new();
        let server = home.script(HI).serve();
        server.done("r", "hello");
        let session = server.session.clone();
        end(&server);
        assert_eq!(server.ended(), Some(0));
        let events = journal(&home, &session);
        let last = [format!("server.stopping[{reason}]"), "session.persisted[shutdown]".to_owned()];
        assert_eq!(kinds(&events)[events.len() - 2..], last);
        assert_eq!(events.last().unwrap()["data"]["changed"], false);
        assert_eq!(home.ok(["show", &session])["messages"], 2);
    }
}

#[test]
fn shutting_down_refuses_runs_and_goes_on_to_answer_while_the_run_settles() {
    let home = AuraHome::new();
    let server = served(&home);
    let done = server.done("r0", "hello");
    let run = server.prompt("r1", "tool");
    tests::served::until("the tool", || home.path().join("began").exists().then_some(()));
    let stream = server.stream("", &[]);
    server.signal(Signal::SIGTERM);
    server.signal(Signal::SIGTERM);
    server.event_of("server.stopping");
    let refused = server.submit(&json!({"request_id": "r2", "prompt": "hello"}));
    assert_eq!(refused.code(), (503, "shutting_down"));
    let again = server.submit(&json!({"request_id": "r0", "prompt": "hello"}));
    assert_eq!((again.status, &again.body), (200, &done), "replays go on");
    assert_eq!(
        server.submit(&json!({"request_id": "r0", "prompt": "other"})).code(),
        (409, "request_conflict")
    );
    assert_eq!(server.get("/v1/server").body["stopping"], true);
    assert_eq!(server.post(&format!("/v1/runs/{run}/cancel"), &json!({})).status, 202);
    let session = server.session.clone();
    assert_eq!(server.ended(), Some(0));
    let events = journal(&home, &session);
    let settled =
        events.iter().find(|event| event["type"] == "run.persisted" && event["run_id"] == run).unwrap();
    let settled = &settled["data"]["run"];
    assert_eq!(
        (&settled["outcome"], &settled["error"]["details"]),
        (&json!("cancelled"), &json!({"reason": "shutdown"}))
    );
    assert_eq!(kinds(&events).iter().filter(|kind| *kind == "server.stopping[signal]").count(), 1);
    assert_eq!(kinds(&events).last().unwrap(), "session.persisted[shutdown]");
    let sent = stream.rest();
    assert_eq!(
        sent.last().map(|sent| sent.id),
        Some(events.last().unwrap()["seq"].as_u64()),
        "streams end behind the last event"
    );
}

#[test]
fn what_is_waited_for_is_denied_or_dismissed_and_not_approved() {
    let home = AuraHome::new();
    let server = home
        .script("[[step]]\nmatch = \"go\"\ncalls = [{ tool = \"bash\", input = { command = \"touch made\" } }]\n[[step]]\ntext = \"x\"")
        .settings("[tools]\nbash = \"confirm\"")
        .serve();
    let reply = server.submit(&json!({"request_id": "r", "prompt": "go", "on_input": "wait"}));
    let run = text(&reply.body["id"]);
    server.event_of("input.required");
    let session = server.session.clone();
    assert_eq!(server.stop(), Some(0));
    let events = journal(&home, &session);
    let resolved = events.iter().find(|event| event["type"] == "input.resolved").unwrap();
    assert_eq!((&resolved["data"]["answer"], &resolved["run_id"]), (&Value::Null, &json!(run)));
    assert!(!home.path().join("made").exists());
    assert_eq!(
        kinds(&events)[events.len() - 3..],
        ["session.persisted[run]", "run.persisted", "session.persisted[shutdown]"]
    );
}

#[test]
fn open_polls_and_idle_connections_do_not_keep_a_server() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let last = server.get("/v1/server").body["last_seq"].clone();
    let (address, path) = (server.address, format!("/v1/journal?after={last}&wait=60"));
    let idle = std::net::TcpStream::connect(address).unwrap();
    let poll = move || try_request(address, "GET", &path, &[bearer()], "");
    let polls: Vec<_> = (0..20).map(|_| std::thread::spawn(poll.clone())).collect();
    assert_eq!(server.stop(), Some(0));
    // One that comes too late finds nobody, which ends it as well.
    for reply in polls.into_iter().filter_map(|poll| poll.join().unwrap().ok()) {
        assert_eq!((reply.status, &reply.body["events"][0]["type"]), (200, &json!("server.stopping")));
    }
    drop(idle);
}

#[test]
fn the_final_save_that_fails_is_exit_code_one() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    server.done("r", "hello");
    let file = home.file(&server.session);
    let whole = fs::read(&file).unwrap();
    let run = server.prompt("r2", "more");
    server.settled(&run);
    // Something unsaved, and a file that is no longer ours to write.
    fs::write(&file, [&whole[..], b" "].concat()).unwrap();
    let reply = server.submit(&json!({"request_id": "r3", "prompt": "more"}));
    assert_eq!(server.settled(&text(&reply.body["id"]))["state"], "persist_failed");
    let session = server.session.clone();
    assert_eq!(server.stop(), Some(1));
    assert_eq!(kinds(&journal(&home, &session)).last().unwrap(), "session.persist_failed[shutdown]");
}
