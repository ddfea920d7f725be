//! Every row of the table of failures (wire §8), and the limits before `hello` (wire §9).

use futures_util::{SinkExt as _, StreamExt as _};
use host::clock;
use host::files;
use serde_json::{Value, json};
use shared::channel::StaticKey;
use shared::frame::{Frame, Hello, HelloHome, OpenerBody};
use shared::ids::{FrameId, HostId, SessionId};
use shared::kind::Empty;
use shared::limits;
use shared::request::{Device, Request, Response, Revoke};
use tokio_tungstenite::tungstenite::Message;

use crate::kit::{
    Bare, FakeHost, Machine, Raw, failed, host_hello, machine_hello, refusal, refused, session_hello, start,
    within, wrong_code,
};

const TIME: &str = "2026-01-01T12:00:00.000Z";

fn unauthorised(detail: &str) -> (String, String) {
    ("unauthorised".to_owned(), detail.to_owned())
}

fn frame(kind: &str, body: Option<Value>) -> Value {
    let mut frame = json!({"id": FrameId::random(), "timestamp": TIME, "type": kind});
    if let Some(body) = body {
        frame["body"] = body;
    }
    frame
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_json_is_answered_and_the_link_goes_on() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut raw = Raw::open(&machine, &key).await;
    let session = SessionId::random();
    let readable = [
        ("an unknown type", frame("dance", None)),
        ("an unknown request", frame("request", Some(json!({"fly": {}})))),
        ("two requests", frame("request", Some(json!({"stop": session, "remove": session})))),
        ("a submission on a machine link", frame("submission", Some(json!({"text": "hi"})))),
        ("a head on a machine link", frame("head", None)),
        ("a request of a home link", frame("request", Some(json!({"pair": {}})))),
        ("a request for hosts", frame("request", Some(json!({"release": {}})))),
        ("a second hello", frame("hello", Some(json!({"machine": {"name": "a"}})))),
        ("a second hello of another link", frame("hello", Some(json!({"moon": {}})))),
        ("a bad session id", frame("request", Some(json!({"stop": "../../etc"})))),
        (
            "a budget of nothing",
            frame(
                "request",
                Some(json!({"start": {
            "name": "a", "harness": "aura", "working_directory": "/", "budget": 0}})),
            ),
        ),
        (
            "a budget beyond a week",
            frame(
                "request",
                Some(json!({"start": {
            "name": "a", "harness": "aura", "working_directory": "/", "budget": 604_801}})),
            ),
        ),
        (
            "null for an optional field",
            frame(
                "request",
                Some(json!({"start": {
            "name": "a", "harness": "aura", "working_directory": "/", "text": null}})),
            ),
        ),
    ];
    for (what, frame) in readable {
        raw.send_json(&frame).await;
        let (code, _, reply_to) = raw.failure().await.unwrap();
        assert_eq!(code, "bad_json goes on", "{what}");
        assert_eq!(json!(reply_to), frame["id"], "{what}");
    }
    let unreadable: [&[u8]; 8] = [
        b"",
        b"[]",
        b"{",
        b"{}",
        b"{} {}",
        b"\xff",
        b"{\"id\":\"A\",\"id\":\"A\"}",
        br#"{"id":"6BCF8FED-99C2-4B27-8A5A-24D7CAFF9BFB","timestamp":"2026-01-01T12:00:00.000Z","type":"ping"}"#,
    ];
    for line in unreadable {
        raw.send(line).await;
        let (code, _, _) = raw.failure().await.unwrap();
        assert_eq!(code, "bad_json goes on", "{}", String::from_utf8_lossy(line));
    }
    assert!(raw.is_open().await);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_hundred_bad_lines_in_a_row_close_the_link_and_a_good_one_starts_anew() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut raw = Raw::open(&machine, &key).await;
    for _ in 0..limits::BAD_JSON_IN_A_ROW - 1 {
        raw.send(b"{}").await;
    }
    assert!(raw.is_open().await);
    for _ in 0..limits::BAD_JSON_IN_A_ROW {
        raw.send(b"{}").await;
    }
    let mut failures = 0;
    while raw.failure().await.is_some() {
        failures += 1;
    }
    assert_eq!(failures, limits::BAD_JSON_IN_A_ROW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_budget_that_cannot_be_counts_among_the_bad_lines() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut raw = Raw::open(&machine, &key).await;
    for _ in 0..limits::BAD_JSON_IN_A_ROW {
        let start = json!({"start": {"name": "a", "harness": "aura", "working_directory": "/", "budget": 0}});
        raw.send_json(&frame("request", Some(start))).await;
    }
    let mut failures = 0;
    while raw.failure().await.is_some() {
        failures += 1;
    }
    assert_eq!(failures, limits::BAD_JSON_IN_A_ROW);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_line_beyond_eight_mebibytes_is_fatal_and_one_of_exactly_that_is_not() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut raw = Raw::open(&machine, &key).await;
    let mut line = vec![b' '; limits::LINE_BYTES];
    line[0] = b'{';
    line[limits::LINE_BYTES - 1] = b'}';
    raw.send(&line).await;
    assert_eq!(raw.failure().await.unwrap().0, "bad_json goes on");
    assert!(raw.is_open().await);
    let mut bare = Bare::open(&machine, &key).await;
    let mut left = limits::LINE_BYTES + 1;
    while left > 0 {
        let size = left.min(limits::NOISE_PLAINTEXT_BYTES);
        bare.send(&vec![b'x'; size]).await;
        left -= size;
    }
    assert_eq!(bare.failures().await, ["line_too_long"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_not_listed_is_unauthorised() {
    let machine = Machine::start().await;
    let stranger = StaticKey::generate().unwrap();
    let not_listed = unauthorised("this machine does not list this device");
    let session = SessionId::random();
    for hello in [
        machine_hello("a", None),
        session_hello(session, 0),
        host_hello(session, None),
        Hello::Home(HelloHome::default()),
    ] {
        assert_eq!(refusal(machine.device(&stranger, hello.clone()).await), not_listed, "{hello:?}");
        let on_the_port = machine.device(&machine.key(), hello.clone()).await;
        assert_eq!(refusal(on_the_port), not_listed, "the machine's key on the port: {hello:?}");
    }
    assert_eq!(refusal(machine.device(&stranger, wrong_code()).await), unauthorised("pairing code rejected"));
    let phone = machine.paired("phone").await;
    assert_eq!(refusal(machine.device(&phone, Hello::Home(HelloHome::default())).await), not_listed);
    assert_eq!(refusal(machine.device(&phone, host_hello(session, None)).await), not_listed);
    // On the socket a listed device is nobody.
    let link =
        host::client::Link::open(&machine.socket(), &phone, machine.fingerprint(), machine_hello("a", None))
            .await;
    assert!(matches!(link, Err(host::client::DialError::Refused(_))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_link_or_no_hello_is_unauthorised() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    for (first, detail) in [
        (frame("hello", Some(json!({"moon": {}}))), "this machine does not list this device"),
        (frame("hello", Some(json!({"home": {}}))), "this machine does not list this device"),
        (frame("hello", Some(json!({"home": {"code": "anything"}}))), "pairing code rejected"),
        (
            frame("hello", Some(json!({"host": {"session": SessionId::random(), "code": ""}}))),
            "pairing code rejected",
        ),
        (frame("ping", None), "no hello"),
        (frame("request", Some(json!({"directories": {}}))), "no hello"),
    ] {
        let mut raw = Raw::dial(&machine, &key).await;
        raw.send_json(&first).await;
        let (code, said, reply_to) = raw.failure().await.unwrap();
        assert_eq!((code.as_str(), said.as_str()), ("unauthorised fatal", detail));
        assert_eq!(json!(reply_to), first["id"]);
        assert!(raw.next().await.is_none());
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stranger_may_stumble_within_sixteen_kibibytes() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let hello = Frame::new(clock::now(), OpenerBody::Hello(machine_hello("a", None))).to_line();
    let mut raw = Raw::dial(&machine, &key).await;
    for bad in [frame("hello", Some(json!({"machine": {}, "home": {}}))), frame("dance", None), json!({})] {
        raw.send_json(&bad).await;
        assert_eq!(raw.failure().await.unwrap().0, "bad_json goes on", "{bad}");
    }
    raw.send(&hello).await;
    assert!(raw.is_open().await);
    // A bad line and its break, then `hello` and its break: exactly the limit, and one byte beyond it.
    for (size, is_open) in [(limits::HELLO_BYTES, true), (limits::HELLO_BYTES + 1, false)] {
        let mut raw = Raw::dial(&machine, &key).await;
        raw.send(&vec![b'x'; size - hello.len() - 2]).await;
        raw.send(&hello).await;
        assert_eq!(raw.failure().await.unwrap().0, "bad_json goes on");
        if is_open {
            assert!(raw.is_open().await);
        } else {
            let (code, detail, _) = raw.failure().await.unwrap();
            assert_eq!((code.as_str(), detail.as_str()), ("unauthorised fatal", "no hello"));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_host_is_busy_unless_it_replaces_the_first() {
    let machine = Machine::start().await;
    let session = machine.write_session("s", &[]);
    let mut machine = machine;
    machine.stop_listening().await;
    machine.listen().await;
    let first = FakeHost::attach(&machine, session).await;
    for replaces in [None, Some(HostId::random())] {
        let (code, _) = refusal(machine.own(host_hello(session, replaces)).await);
        assert_eq!(code, "busy");
    }
    // The listener has to know the first one's identity, which its log tells.
    let mut watching = machine.own_machine().await;
    watching.record(session, |record| record.sequence == 1).await;
    let (second, _) = machine.own(host_hello(session, Some(first.identity))).await.unwrap();
    assert_eq!(first.link.closed().await, None);
    second.send(OpenerBody::Ping).await;
    assert_eq!(refusal(machine.own(host_hello(session, None)).await).0, "busy");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_session_is_not_found_and_a_removed_one_is_retired() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("old", &[]);
    machine.listen().await;
    let unknown = SessionId::random();
    for (hello, word) in [(session_hello(unknown, 0), "not_found"), (host_hello(unknown, None), "not_found")]
    {
        assert_eq!(refusal(machine.own(hello).await).0, word);
    }
    let mut own = machine.own_machine().await;
    assert_eq!(refused(&own.request(Request::Remove(unknown)).await), "not_found");
    assert_eq!(refused(&own.request(Request::Stop(unknown)).await), "not_found");
    let (attached, _) = machine.own_session(session, 0).await;
    assert_eq!(own.request(Request::Remove(session)).await, Response::Taken(Empty {}));
    assert_eq!(attached.closed().await.unwrap().0, "retired");
    assert!(!machine.home.session(session).directory().exists());
    for again in [false, true] {
        for hello in [session_hello(session, 0), host_hello(session, None)] {
            assert_eq!(refusal(machine.own(hello).await).0, "retired", "after a restart: {again}");
        }
        let mut own = machine.own_machine().await;
        assert_eq!(refused(&own.request(Request::Remove(session)).await), "retired");
        let name = Request::Start(Box::new(start(&machine, "old", None)));
        assert_eq!(refused(&own.request(name).await), "retired");
        machine.stop_listening().await;
        machine.listen().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_list_of_devices_that_another_hand_changed_stops_only_what_must_write_it() {
    let machine = Machine::start().await;
    let phone = machine.paired("phone").await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    let mut content = std::fs::read(machine.home.peers()).unwrap();
    content.push(b'\n');
    files::write_private(&machine.home.peers(), &content).unwrap();
    let tablet = StaticKey::generate().unwrap();
    let outcome = machine.device(&tablet, machine_hello("tablet", Some(&window.url.code))).await;
    assert_eq!(refusal(outcome).0, "internal");
    assert_eq!(failed(&home.answer(&asked).await), "storage");
    home.send(OpenerBody::Request(Request::Revoke(Revoke { device: Device::All }))).await;
    assert_eq!(home.closed().await.unwrap().0, "internal");
    assert_eq!(std::fs::read(machine.home.peers()).unwrap(), content, "never overwritten");
    machine.device(&phone, machine_hello("phone", None)).await.unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_text_an_empty_or_a_longer_message_closes_the_link() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    for message in [
        Message::Text("{}".into()),
        Message::Binary(Vec::new().into()),
        Message::Binary(vec![0; limits::NOISE_MESSAGE_BYTES + 1].into()),
        Message::Binary(vec![0; limits::NOISE_MESSAGE_BYTES].into()),
        Message::Binary(vec![0; 15].into()),
    ] {
        let mut raw = Raw::open(&machine, &key).await;
        assert!(raw.is_open().await);
        // It may be closed while we write.
        let _ = raw.socket.send(message).await;
        assert!(raw.next().await.is_none());
    }
    let mut early = Raw::socket(machine.port()).await;
    early.send(Message::Binary(vec![1; 31].into())).await.unwrap();
    assert!(!matches!(within("the end", early.next()).await, Some(Ok(Message::Binary(_)))));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_replayed_message_closes_the_link() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut raw = Raw::open(&machine, &key).await;
    assert!(raw.is_open().await);
    let ping = Frame::new(clock::now(), OpenerBody::Ping).to_line();
    let message = raw.channel.send(&shared::line::EncodedLine::new(ping).unwrap()).unwrap().remove(0);
    raw.socket.send(Message::Binary(message.clone().into())).await.unwrap();
    raw.socket.send(Message::Binary(message.into())).await.unwrap();
    while let Some(frame) = raw.next().await {
        assert!(!matches!(frame.body, shared::frame::ListenerBody::Failure(_)), "{frame:?}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_ninth_stranger_closes_the_earliest() {
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let mut first = Raw::dial(&machine, &key).await;
    let mut second = Raw::dial(&machine, &key).await;
    let mut others = Vec::new();
    for _ in 2..limits::STRANGERS {
        others.push(Raw::dial(&machine, &key).await);
    }
    let mut ninth = Raw::dial(&machine, &key).await;
    let (code, detail, _) = first.failure().await.unwrap();
    assert_eq!((code.as_str(), detail.as_str()), ("unauthorised fatal", "no hello"));
    // Whoever says hello is no stranger any more, so that another one finds room.
    let hello = Frame::new(clock::now(), OpenerBody::Hello(machine_hello("a", None))).to_line();
    second.send(&hello).await;
    assert!(second.is_open().await);
    let mut tenth = Raw::dial(&machine, &key).await;
    for raw in others.iter_mut().chain([&mut ninth, &mut tenth]) {
        raw.send(&hello).await;
        assert!(raw.is_open().await);
    }
}

/// Takes half a minute, all of it at once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_says_no_hello_in_thirty_seconds_is_closed_whatever_it_sends() {
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    let machine = Machine::start().await;
    let key = machine.paired("phone").await;
    let connect = || tokio::net::TcpStream::connect(("127.0.0.1", machine.port()));
    let began = std::time::Instant::now();
    let mut silent = connect().await.unwrap();
    let mut slow = connect().await.unwrap();
    slow.write_all(b"GET /wire HTTP/1.1\r\nHost: ").await.unwrap();
    let mut no_noise = Raw::socket(machine.port()).await;
    let mut no_hello = Raw::dial(&machine, &key).await;
    let mut bad_lines = Raw::dial(&machine, &key).await;
    bad_lines.send(b"{}").await;
    assert_eq!(bad_lines.failure().await.unwrap().0, "bad_json goes on");
    let patience = std::time::Duration::from_secs(45);
    let dripping = async {
        let mut buffer = [0; 64];
        loop {
            tokio::select! {
                read = slow.read(&mut buffer) => return read.unwrap_or(0),
                () = tokio::time::sleep(std::time::Duration::from_millis(500)) => {
                    if slow.write_all(b"x").await.is_err() {
                        return 0;
                    }
                }
            }
        }
    };
    let silence = async {
        let mut buffer = [0; 64];
        silent.read(&mut buffer).await.unwrap_or(0)
    };
    let early = async {
        let end = no_noise.next().await;
        assert!(!matches!(end, Some(Ok(Message::Binary(_)))), "nothing is said before Noise stands");
    };
    let (read, dripped, ()) =
        tokio::time::timeout(patience, async { tokio::join!(silence, dripping, early) }).await.unwrap();
    assert_eq!((read, dripped), (0, 0));
    for raw in [&mut no_hello, &mut bad_lines] {
        let (code, detail, _) = tokio::time::timeout(patience, raw.failure()).await.unwrap().unwrap();
        assert_eq!((code.as_str(), detail.as_str()), ("unauthorised fatal", "no hello"));
    }
    assert!(began.elapsed().as_secs() >= 29, "{:?}", began.elapsed());
}
