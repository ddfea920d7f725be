//! The backlog of a session link: exact, from the file, at the reader's speed, then everything live (wire §3 and the settled points, Backlog).

use serde_json::{Value, json};
use shared::frame::{Delta, DeltaKind, Hello, HelloSession, ListenerBody, OpenerBody, Presence};
use shared::ids::{LogId, PartId};
use shared::kind::Empty;
use shared::request::Response;

use crate::kit::{FakeHost, Machine, notice, numbered, session_hello, session_of, settled, status};

/// A log of so many lines, each third of which is no transcript.
fn mixed(lines: u64) -> Vec<String> {
    (1..=lines)
        .map(|number| {
            let entry =
                if number % 3 == 0 { status(json!("idle")) } else { notice(&format!("entry {number} 🦀")) };
            numbered(entry, number)
        })
        .collect()
}

fn sequence(entry: &Value) -> u64 {
    entry["sequence"].as_u64().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_the_transcript_after_since_comes_in_order_and_then_what_is_live() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &mixed(1000));
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let mut watching = machine.own_machine().await;
    watching.record(session, |record| record.sequence == 1001).await;
    for since in [0, 1, 2, 500, 999, 1000] {
        let (mut link, welcome) = machine.own_session(session, since).await;
        let expected: Vec<u64> = (since + 1..=1000).filter(|number| number % 3 != 0).collect();
        assert_eq!((welcome.from, welcome.backlog_count), (since, expected.len() as u64));
        assert_eq!(welcome.record.sequence, 1001);
        for number in expected {
            let frame = link.next().await;
            let ListenerBody::Entry(entry) = frame.body else { panic!("{:?}", frame.body) };
            assert_eq!(entry.sequence, number);
        }
        drop(link);
    }
    let (mut link, _) = machine.own_session(session, 1001).await;
    host.append(&[notice("live"), status(json!("idle")), notice("and more")]).await;
    let live = [link.entry().await, link.entry().await, link.entry().await];
    assert_eq!(live.each_ref().map(sequence), [1002, 1003, 1004]);
    assert_eq!(live[1]["kind"], "status", "live entries are of every kind");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_of_another_log_or_beyond_the_end_starts_again() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &mixed(10));
    machine.listen().await;
    let (_, welcome) = machine.own_session(session, 4).await;
    let log = welcome.log;
    for (since, named, from) in [
        (4, Some(log), 4),
        (4, Some(LogId::random()), 0),
        (11, None, 0),
        (11, Some(log), 0),
        (10, Some(log), 10),
    ] {
        let hello =
            Hello::Session(HelloSession { name: "a".to_owned(), session, since, log: named, code: None });
        let (mut link, welcome) = session_of(machine.own(hello).await.unwrap());
        assert_eq!(welcome.from, from);
        for _ in 0..welcome.backlog_count {
            link.entry().await;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_before_its_host_says_that_it_is_durable() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (mut link, _) = machine.own_session(session, 1).await;
    host.append_quietly(&[notice("not yet")]);
    // Live text is lossy, and lost on a link that is not live yet.
    let saying = async {
        loop {
            let delta = Delta {
                message: PartId::random(),
                kind: DeltaKind::Assistant.into(),
                offset: 0,
                text: "live".to_owned(),
            };
            host.link.send(OpenerBody::Delta(delta)).await;
            tokio::time::sleep(std::time::Duration::from_millis(10)).await;
        }
    };
    let hearing = link.find(|frame| match &frame.body {
        ListenerBody::Delta(delta) => Some(delta.text.clone()),
        ListenerBody::Entry(entry) if entry.sequence > 1 => panic!("{entry:?}"),
        _ => None,
    });
    tokio::select! {
        () = saying => {}
        text = hearing => assert_eq!(text, "live"),
    }
    host.head().await;
    loop {
        let entry = link.entry().await;
        if sequence(&entry) == 2 {
            break;
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_lines_keep_their_number_and_a_torn_end_is_not_shown() {
    let mut machine = Machine::prepare();
    let mut lines = mixed(8);
    lines[3] = "{\"kind\":\"notice\",".to_owned();
    lines[4] = numbered(notice("at the wrong place"), 77);
    let session = machine.write_session("s", &lines);
    let path = machine.home.session(session).log();
    let mut content = std::fs::read(&path).unwrap();
    content.extend_from_slice(b"{\"kind\":\"notice\",\"lev");
    host::files::write_private(&path, &content).unwrap();
    machine.listen().await;
    let (mut link, welcome) = machine.own_session(session, 0).await;
    assert_eq!((welcome.backlog_count, welcome.record.sequence), (4, 8));
    let mut numbers = Vec::new();
    for _ in 0..4 {
        numbers.push(sequence(&link.entry().await));
    }
    assert_eq!(numbers, [1, 2, 7, 8]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_live_end_closes_the_link_and_a_later_link_stays() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (link, _) = machine.own_session(session, 0).await;
    host.append(&[notice("\"ended\""), json!({"kind": "ended", "ended": "stopped"})]).await;
    let mut link = link;
    while link.entry().await["kind"] != "ended" {}
    assert_eq!(link.closed().await, None);
    drop(host);
    let (mut link, _) = machine.own_session(session, 0).await;
    assert_eq!(link.entry().await["text"], "\"ended\"");
    let interrupt = link.send(OpenerBody::Interrupt(shared::frame::Interrupt::default())).await;
    assert_eq!(link.answer(&interrupt).await, Response::Taken(Empty {}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn others_are_told_of_and_oneself_is_not() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &mixed(30));
    machine.listen().await;
    let (mut first, welcome) = machine.own_session(session, 0).await;
    for _ in 0..welcome.backlog_count {
        assert!(matches!(first.next().await.body, ListenerBody::Entry(_)), "nothing comes between");
    }
    let phone = machine.paired("phone").await;
    let (mut second, welcome) = session_of(machine.device(&phone, session_hello(session, 30)).await.unwrap());
    assert_eq!(welcome.origin.device, Some(phone.fingerprint()));
    let ListenerBody::Presence(Presence::Attached(origin)) = first.next().await.body else { panic!() };
    assert_eq!(origin, welcome.origin);
    assert!(matches!(second.next().await.body, ListenerBody::Presence(Presence::Attached(_))));
    drop(second);
    assert_eq!(first.next().await.body, ListenerBody::Presence(Presence::Detached(origin)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_settled_submission_sent_again_is_taken_and_settled_once_more() {
    let mut machine = Machine::prepare();
    let origin = json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"});
    let session = machine.write_session(
        "s",
        &[
            numbered(json!({"kind": "user", "text": "hi", "origin": origin, "submission": "a"}), 1),
            numbered(settled("a", "answered"), 2),
            numbered(notice("later"), 3),
        ],
    );
    machine.listen().await;
    let (mut link, _) = machine.own_session(session, 3).await;
    assert_eq!(link.submit("a", "hi").await, Response::Taken(Empty {}));
    let again = link.entry().await;
    assert_eq!((sequence(&again), &again["settled"]["fate"]), (2, &json!("answered")));
    assert_eq!(crate::kit::refused(&link.submit("a", "other").await), "id_conflict");
    assert_eq!(crate::kit::refused(&link.submit("b", " \n ").await), "empty");
    assert_eq!(crate::kit::refused(&link.submit("c", &"x".repeat(256 * 1024 + 1)).await), "too_large");
}
