//! The journal as it is read: pages, long polls, server-sent events and what is live beside them.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use tests::aura::AuraHome;
use tests::served::Sent;

use super::HI;

fn header(name: &str, value: &str) -> Vec<(String, String)> {
    vec![(name.to_owned(), value.to_owned())]
}

#[test]
fn pages_of_the_journal_are_contiguous_and_bounded() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    for number in 0..10 {
        server.done(&format!("r{number}"), "hello");
    }
    let all = server.events();
    let mut read: Vec<Value> = Vec::new();
    loop {
        let reply = server.get(&format!("/v1/journal?after={}&limit=7", read.len())).body;
        assert_eq!(reply["last_seq"], all.len());
        let events = reply["events"].as_array().unwrap();
        assert!(events.len() <= 7);
        if events.is_empty() {
            break;
        }
        read.extend(events.clone());
    }
    assert_eq!(read, all);
    let times: Vec<&str> = all.iter().map(|event| event["time"].as_str().unwrap()).collect();
    assert!(times.is_sorted(), "time never goes back");
    assert!(times.iter().all(|time| time.len() == "2026-01-01T00:00:00.000Z".len() && time.ends_with('Z')));
}

#[test]
fn a_long_poll_returns_with_the_first_event() {
    let home = AuraHome::new();
    let server = home.script("[[step]]\nwait_for_file = \"go\"\ntext = \"went\"").serve();
    let run = server.prompt("r", "x");
    server.event_of("run.started");
    let last = server.get("/v1/server").body["last_seq"].as_u64().unwrap();
    std::thread::scope(|scope| {
        let poll = scope.spawn(|| server.get(&format!("/v1/journal?after={last}&wait=60")).body);
        std::fs::write(home.path().join("go"), "").unwrap();
        let reply = poll.join().unwrap();
        assert_eq!(reply["events"][0]["seq"], last + 1);
    });
    server.settled(&run);
    let last = server.events().len();
    let quiet = server.get(&format!("/v1/journal?after={last}&wait=1")).body;
    assert_eq!(quiet, json!({"events": [], "last_seq": last}));
}

#[test]
fn the_stream_is_the_journal_and_goes_on_where_it_was() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    server.done("r", "hello");
    let all = server.events();
    let expected: Vec<Sent> = all
        .iter()
        .map(|event| Sent {
            id: event["seq"].as_u64(),
            event: event["type"].as_str().unwrap().to_owned(),
            data: event.clone(),
        })
        .collect();
    let last = expected.last().unwrap().clone();
    let mut stream = server.stream("", &[]);
    assert_eq!(stream.head.status, 200);
    assert_eq!(stream.head.header("content-type"), Some("text/event-stream"));
    assert_eq!(stream.head.header("cache-control"), Some("no-cache, no-transform"));
    assert_eq!(stream.head.header("x-accel-buffering"), Some("no"));
    assert_eq!(stream.up_to(|sent| *sent == last), expected);
    assert_eq!(server.stream("?after=3", &[]).up_to(|sent| *sent == last), expected[3..]);
    // The header goes before the query, as a browser that reconnects has both.
    let resumed = header("last-event-id", "5");
    assert_eq!(server.stream("?after=0", &resumed).up_to(|sent| *sent == last), expected[5..]);
    for bad in ["x", "", "1.5"] {
        assert_eq!(server.stream("", &header("last-event-id", bad)).head.status, 400, "{bad}");
    }
    assert_eq!(server.stream("", &header("last-event-id", "99")).head.status, 409);
}

#[test]
fn a_quiet_stream_has_heartbeats_without_an_id() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let mut stream = server.stream("?heartbeat=1&after=2", &[]);
    assert_eq!(stream.next_event(), Some(Sent { id: None, event: "heartbeat".into(), data: json!({}) }));
}

#[test]
fn live_text_has_no_number_and_thinking_only_where_it_is_asked_for() {
    let home = AuraHome::new();
    let server = home
        .script(
            "chunk = 2\n[[step]]\nmatch = \"go\"\nthinking = \"deep\"\ntext = \"looking\"\ncalls = [{ tool = \"bash\", input = { command = \"echo one; echo two\" } }]
[[step]]\nfrom = \"tool\"\ntext = \"done\"",
        )
        .settings("[tools]\nbash = \"allow\"")
        .serve();
    let plain = server.stream("?thinking=true", &[]);
    let live = server.stream("?transient=true", &[]);
    let all = server.stream("?transient=true&thinking=true", &[]);
    server.done("r", "go");
    let session = server.session.clone();
    assert_eq!(server.stop(), Some(0));
    let (plain, live, all) = (plain.rest(), live.rest(), all.rest());
    assert!(plain.iter().all(|sent| sent.id.is_some()), "thinking alone has no effect");
    let kinds = |sent: &[Sent]| -> BTreeSet<String> {
        sent.iter().filter(|sent| sent.id.is_none()).map(|sent| sent.event.clone()).collect()
    };
    assert_eq!(Vec::from_iter(kinds(&live)), ["delta.content", "spinner", "tool.output"]);
    assert_eq!(Vec::from_iter(kinds(&all)), ["delta.content", "delta.thinking", "spinner", "tool.output"]);
    let numbered =
        |sent: Vec<Sent>| -> Vec<Sent> { sent.into_iter().filter(|sent| sent.id.is_some()).collect() };
    let (texts, lines): (Vec<_>, Vec<_>) = (
        live.iter().filter(|sent| sent.event == "delta.content").cloned().collect(),
        live.iter().filter(|sent| sent.event == "tool.output").map(|sent| sent.data.clone()).collect(),
    );
    let said: String = texts.iter().map(|sent| sent.data["text"].as_str().unwrap()).collect();
    assert_eq!(said, "lookingdone");
    assert_eq!(lines, [json!({"name": "bash", "line": "one"}), json!({"name": "bash", "line": "two"})]);
    let first = plain.iter().find(|sent| sent.event == "message.assistant").unwrap();
    assert_eq!(texts[0].data["message_id"], first.data["data"]["message_id"]);
    assert_eq!(numbered(live), plain);
    assert_eq!(numbered(all), plain);
    assert!(!std::fs::read_to_string(home.journal(&session)).unwrap().contains("deep"));
}

#[test]
fn a_reader_that_stands_still_stops_nobody_and_loses_nothing() {
    let home = AuraHome::new();
    let large = "y".repeat(60_000);
    let server = home.script(&format!("[[step]]\ntext = \"{large}\"\ntimes = \"always\"")).serve();
    let stalled = server.stream("", &[]);
    let readers: Vec<_> = (0..20).map(|_| server.stream("?after=2", &[])).collect();
    let readers: Vec<_> =
        readers.into_iter().map(|reader| std::thread::spawn(move || reader.rest())).collect();
    for number in 0..40 {
        assert_eq!(server.done(&format!("r{number}"), "hello")["outcome"], "completed");
    }
    let last = server.get("/v1/server").body["last_seq"].as_u64().unwrap();
    assert_eq!(server.stop(), Some(0), "the one that stands still does not keep it");
    for reader in readers {
        let ids: Vec<Option<u64>> = reader.join().unwrap().iter().map(|sent| sent.id).collect();
        let expected: Vec<Option<u64>> = (3..=last + 2).map(Some).collect();
        assert_eq!(ids, expected);
    }
    drop(stalled);
}
