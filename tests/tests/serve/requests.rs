//! What a request may be, in which order it is judged, and the answers of each route.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::{Value, json};
use tests::aura::{AuraHome, conversation};
use tests::served::{TOKEN, bearer, request, text};

use super::HI;

#[test]
fn unauthorized_comes_first_on_every_path() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let header = |value: &str| vec![("authorization".to_owned(), value.to_owned())];
    for headers in [vec![], header("Bearer wrong"), header(&format!("Basic {TOKEN}")), header(TOKEN)] {
        for (method, path) in
            [("GET", "/v1/server"), ("POST", "/v1/runs"), ("GET", "/nowhere"), ("PUT", "/v1/server")]
        {
            let reply = request(server.address, method, path, &headers, "no JSON");
            assert_eq!(reply.code(), (401, "unauthorized"), "{method} {path} {headers:?}");
            assert_eq!(reply.header("www-authenticate"), Some("Bearer"));
        }
    }
    let reply = request(server.address, "GET", "/v1/server", &header(&format!("bEARER {TOKEN}")), "");
    assert_eq!(reply.status, 200, "the scheme has no case");
}

#[test]
fn each_route_answers_its_fields() {
    let home = AuraHome::new();
    let mut content = conversation();
    content["title"] = json!("A task");
    home.script(HI).stored("task-1", &content);
    let server = home.resume("task-1");
    let info = server.get("/v1/server");
    let mut expected = server.told.clone();
    for (key, value) in [
        ("started_at", info.body["started_at"].clone()),
        ("stopping", json!(false)),
        ("last_seq", json!(2)),
        ("active_run", Value::Null),
    ] {
        expected[key] = value;
    }
    assert_eq!((info.status, &info.body), (200, &expected));
    assert_eq!(info.header("cache-control"), Some("no-store"));
    let mut expected = home.ok(["show", "task-1"]);
    expected["persisted_seq"] = json!(2);
    expected["meta"] =
        json!({"agent": null, "mode": "ask", "provider": "script", "model": "script", "title": "A task"});
    expected["status"] = json!({"agent": null, "mode": "ask", "provider": "script", "model": "script",
                                "iteration": 0, "tokens_used": null, "tokens_max": null});
    assert_eq!(server.get("/v1/session").body, expected);
    let all = server.get("/v1/session/messages").body;
    assert_eq!(all["total"], 5, "also those of the system");
    let messages = all["messages"].as_array().unwrap();
    let keys: Vec<&String> = messages[2].as_object().unwrap().keys().collect();
    assert_eq!(keys, ["call_id", "content", "index", "message_id", "name", "role", "status", "tool_calls"]);
    let indices: Vec<&Value> = messages.iter().map(|message| &message["index"]).collect();
    assert_eq!(indices, [1, 2, 3, 4, 5]);
    assert_eq!(
        messages[2]["tool_calls"],
        json!([{"call_id": "c1", "name": "bash", "args": {"command": "ls"}}])
    );
    let last = server.get("/v1/session/messages?after=4").body;
    assert_eq!(last, json!({"messages": [messages[4]], "total": 5}));
    assert_eq!(server.get("/v1/session/messages?after=5").body, json!({"messages": [], "total": 5}));
}

#[test]
fn cursor_out_of_range_of_messages_events_and_streams() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    for path in ["/v1/session/messages?after=1", "/v1/session/messages?after=-1"] {
        assert_eq!(server.get(path).code(), (409, "cursor_out_of_range"), "{path}");
    }
    for path in [
        "/v1/journal?after=3",
        "/v1/journal?after=-1",
        "/v1/events?after=3",
        "/v1/events?after=99999999999999999999",
    ] {
        let reply = server.get(path);
        assert_eq!(reply.code(), (409, "cursor_out_of_range"), "{path}");
        assert_eq!(reply.body["error"]["details"], json!({"last_seq": 2}));
    }
    assert_eq!(server.get("/v1/journal?after=2").body, json!({"events": [], "last_seq": 2}));
}

#[test]
fn bad_request_for_anything_unknown_twice_or_out_of_range() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    for path in [
        "/v1/server?x=1",
        "/v1/journal?limit=0",
        "/v1/journal?limit=5001",
        "/v1/journal?wait=61",
        "/v1/journal?wait=-1",
        "/v1/journal?after=1&after=1",
        "/v1/journal?after=one",
        "/v1/session/messages?thinking=yes",
        "/v1/events?heartbeat=0",
        "/v1/events?heartbeat=61",
        "/v1/runs",
        "/v1/runs?request_id=",
        "/v1/openapi.json?x",
    ] {
        assert_eq!(server.get(path).code(), (400, "bad_request"), "{path}");
    }
    for (path, body) in [
        ("/v1/runs", "no JSON"),
        ("/v1/runs", r#"{"request_id":"r"}"#),
        ("/v1/runs", r#"{"request_id":"r","prompt":"x","extra":1}"#),
        ("/v1/runs", r#"{"request_id":"r","prompt":"x","prompt":"y"}"#),
        ("/v1/runs", r#"{"request_id":"r","prompt":null}"#),
        ("/v1/runs", r#"{"request_id":"r","prompt":"x","command":"/help"}"#),
        ("/v1/shutdown", r#"{"now":true}"#),
        ("/v1/runs/run_x/cancel", r#"{"why":1}"#),
        ("/v1/runs/run_x/inputs/i", r#"{"answer":"a","action":"deny"}"#),
    ] {
        assert_eq!(server.ask("POST", path, body).code(), (400, "bad_request"), "{path} {body}");
    }
    let long = "x".repeat(3 * 1024 * 1024);
    assert_eq!(server.ask("POST", "/v1/runs", &long).code(), (400, "bad_request"));
    assert_eq!(server.events().len(), 2, "nothing was stored");
}

#[test]
fn not_found_for_paths_methods_and_runs() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    for path in ["/", "/v1", "/v1/runs/", "/v1/runs/run_x", "/v1/runs?request_id=r", "/v2/server"] {
        assert_eq!(server.get(path).code(), (404, "not_found"), "{path}");
    }
    assert_eq!(server.ask("DELETE", "/v1/runs", "").code(), (405, "not_found"));
    assert_eq!(server.post("/v1/runs/run_x/cancel", &json!({})).code(), (404, "not_found"));
    assert_eq!(server.post("/v1/runs/run_x/inputs/i", &json!({"answer": "a"})).code(), (404, "not_found"));
}

#[test]
fn a_request_that_is_repeated_runs_once_and_is_answered_as_the_run_is() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let body = json!({"request_id": "t:1", "prompt": "hello"});
    let first = server.submit(&body);
    assert_eq!((first.status, first.header("idempotent-replay")), (202, None));
    assert_eq!((&first.body["state"], &first.body["terminal"]), (&json!("accepted"), &json!(false)));
    let run = server.settled(&text(&first.body["id"]));
    let again = server.submit(&json!({"request_id": "t:1", "prompt": "hello", "on_input": "block"}));
    assert_eq!((again.status, again.header("idempotent-replay")), (200, Some("true")));
    assert_eq!(again.body, run);
    assert_eq!(server.get("/v1/runs?request_id=t%3A1").body, run);
    let id = server.session.clone();
    server.kill();
    let next = home.resume(&id);
    let again = next.submit(&body);
    assert_eq!((again.status, &again.body), (200, &run), "also by a later server");
    let accepted = next.events().iter().filter(|event| event["type"] == "run.accepted").count();
    assert_eq!(accepted, 1);
}

#[test]
fn request_conflict_for_an_id_that_was_used_for_something_else() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    server.done("r", "hello");
    for body in [
        json!({"request_id": "r", "prompt": "hello "}),
        json!({"request_id": "r", "prompt": "hello", "on_input": "wait"}),
        json!({"request_id": "r", "command": "/help"}),
    ] {
        assert_eq!(server.submit(&body).code(), (409, "request_conflict"), "{body}");
    }
}

#[test]
fn busy_until_the_run_has_settled_and_a_refused_request_stores_nothing() {
    let home = AuraHome::new();
    let server = home
        .script(
            "[[step]]\nmatch = \"wait\"\nwait_for_file = \"go\"\ntext = \"went\"\n[[step]]\ntext = \"hi\"",
        )
        .serve();
    let first = server.prompt("r1", "wait");
    let other = json!({"request_id": "r2", "prompt": "hello"});
    assert_eq!(server.submit(&other).code(), (409, "busy"));
    assert_eq!(server.get("/v1/server").body["active_run"], first);
    assert_eq!(server.get("/v1/runs?request_id=r2").code(), (404, "not_found"));
    let again = server.submit(&json!({"request_id": "r1", "prompt": "wait"}));
    assert_eq!((again.status, &again.body["id"]), (200, &json!(first)), "a replay is no other run");
    std::fs::write(home.path().join("go"), "").unwrap();
    server.settled(&first);
    assert_eq!(server.done("r2", "hello")["outcome"], "completed", "the id stayed free");
}

#[test]
fn sixty_four_duplicates_at_once_are_one_run_also_over_a_kill() {
    let home = AuraHome::new();
    let server = home.script("[[step]]\nmatch = \"wait\"\nwait_for_file = \"go\"\ntext = \"went\"").serve();
    let body = json!({"request_id": "same", "prompt": "wait"});
    let ask_32 = |address| {
        let body = body.to_string();
        let body = body.as_str();
        std::thread::scope(|scope| {
            let asked: Vec<_> = (0..32)
                .map(|_| scope.spawn(move || request(address, "POST", "/v1/runs", &[bearer()], body)))
                .collect();
            asked.into_iter().map(|asked| asked.join().unwrap()).collect::<Vec<_>>()
        })
    };
    let first = ask_32(server.address);
    let statuses: Vec<u16> = first.iter().map(|reply| reply.status).collect();
    assert_eq!(statuses.iter().filter(|status| **status == 202).count(), 1, "{statuses:?}");
    let id = server.session.clone();
    server.kill();
    let server = home.resume(&id);
    let second = ask_32(server.address);
    for reply in first.iter().chain(&second) {
        assert_eq!(reply.body["id"], first[0].body["id"], "{reply:?}");
    }
    assert!(second.iter().all(|reply| reply.status == 200 && reply.body["state"] == "lost"));
    let accepted = server.events().iter().filter(|event| event["type"] == "run.accepted").count();
    assert_eq!(accepted, 1);
}

#[test]
fn a_prompt_with_a_slash_is_a_message_and_a_command_is_none() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let run = server.done("r", "/help");
    assert_eq!((&run["kind"], &run["result"]), (&json!("prompt"), &json!({"content": "hi"})));
    assert_eq!(server.event_of("message.user")["data"]["content"], "/help");
    for command in [
        "help",
        "/nothing",
        "/Help",
        "/resume x",
        "/load",
        "/fork",
        "/name",
        "/clear",
        "/new",
        "/exit",
        "/quit",
    ] {
        let reply = server.submit(&json!({"request_id": "c", "command": command}));
        assert_eq!(reply.code(), (400, "bad_request"), "{command}");
    }
    let reply = server.submit(&json!({"request_id": "c", "command": "/help"}));
    let run = server.settled(&text(&reply.body["id"]));
    assert_eq!(
        (&run["kind"], &run["outcome"], &run["started_at"]),
        (&json!("command"), &json!("completed"), &Value::Null)
    );
    assert!(text(&run["result"]["content"]).contains("/help"));
}

#[test]
fn the_digest_is_of_the_canonical_request() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let run = server.done("r", " \"hé\" ");
    // The SHA-256 of {"kind":"prompt","on_input":"block","text":" \"hé\" "}.
    let canonical = "{\"kind\":\"prompt\",\"on_input\":\"block\",\"text\":\" \\\"hé\\\" \"}";
    let expected = host::automation::store::Revision::of(canonical.as_bytes()).to_string();
    assert_eq!(run["request_digest"], expected);
}

#[test]
fn openapi_names_every_route() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let document = server.get("/v1/openapi.json").body;
    assert_eq!(document["openapi"], "3.1.0");
    let paths: Vec<&String> = document["paths"].as_object().unwrap().keys().collect();
    for path in [
        "/v1/server",
        "/v1/session",
        "/v1/session/messages",
        "/v1/runs",
        "/v1/runs/{id}",
        "/v1/runs/{id}/cancel",
        "/v1/runs/{id}/inputs/{input_id}",
        "/v1/journal",
        "/v1/events",
        "/v1/shutdown",
    ] {
        assert!(paths.iter().any(|known| *known == path), "{path}: {paths:?}");
    }
}

#[test]
fn a_client_that_sends_nothing_or_half_a_request_stands_in_nobodys_way() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let mut silent: Vec<TcpStream> = (0..100).map(|_| TcpStream::connect(server.address).unwrap()).collect();
    silent[0].write_all(b"GET /v1/server HTT").unwrap();
    silent[1].write_all(b"\x16\x03\x01 this is no HTTP\r\n\r\n").unwrap();
    assert_eq!(server.done("r", "hello")["outcome"], "completed");
    let mut said = Vec::new();
    silent[1].read_to_end(&mut said).unwrap();
    assert!(said.starts_with(b"HTTP/1.1 400"), "{}", String::from_utf8_lossy(&said));
    drop(silent);
    assert_eq!(server.stop(), Some(0));
}
