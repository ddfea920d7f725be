use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::channel::{Admission, Initiator, Pin, Pinned, Prologue, StaticKey};
use crate::failure::{FailureCode, NO_HELLO, NOT_LISTED};
use crate::fingerprint::Fingerprint;
use crate::frame::{Frame, Hello, HelloMachine, ListenerBody, OpenerBody, Welcome};
use crate::kind::Empty;

#[derive(Debug)]
struct Right(Fingerprint);

impl Admission for Right {
    fn fingerprint(&self) -> Fingerprint {
        self.0
    }
}

fn at(steady: u64) -> Now {
    Now { date: Timestamp::from_milliseconds(1_767_268_800_000 + steady), steady }
}

fn hello() -> Hello {
    Hello::Machine(HelloMachine { name: "my phone".into(), code: None })
}

fn welcome() -> ListenerBody {
    ListenerBody::Welcome(Box::new(Welcome::Machine { backlog_count: 0 }))
}

fn frame<B>(body: B) -> Frame<B>
where
    B: crate::frame::Body,
{
    Frame::new(at(0).date, body)
}

/// Both ends of a link, with a socket between them that loses nothing.
struct Pair {
    client: ClientLink,
    listener: ListenerLink<Right>,
}

impl Pair {
    fn new(hello: Hello) -> Self {
        let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
        Self {
            client: ClientLink::new(&client, machine.fingerprint(), hello, at(0)).unwrap(),
            listener: ListenerLink::new(&machine, 0).unwrap(),
        }
    }

    /// Carries everything over in both directions; both sockets take what they get at once.
    fn carry(&mut self, now: Now) -> (Vec<ClientEvent>, Vec<ListenerEvent>) {
        let (mut client, mut listener) = (Vec::new(), Vec::new());
        loop {
            let mut is_quiet = true;
            while let Some(message) = self.client.next_message() {
                self.client.sent(now);
                listener.extend(self.listener.receive(&message, now));
                is_quiet = false;
            }
            while let Some(message) = self.listener.next_message() {
                self.listener.sent(now);
                client.extend(self.client.receive(&message, now));
                is_quiet = false;
            }
            if is_quiet {
                return (client, listener);
            }
        }
    }

    fn open(hello: Hello) -> Self {
        let mut pair = Self::new(hello);
        let (client, listener) = pair.carry(at(0));
        assert!(client.is_empty());
        let [ListenerEvent::Hello { id, peer, .. }] = &listener[..] else { panic!("{listener:?}") };
        let welcome = Frame::reply(at(0).date, id.clone(), welcome());
        assert_eq!(pair.listener.admit(Right(*peer), &welcome, at(0)).unwrap(), []);
        let (client, listener) = pair.carry(at(0));
        assert!(matches!(client[..], [ClientEvent::Welcomed(_)]), "{client:?}");
        assert!(listener.is_empty() && pair.client.is_open());
        pair
    }
}

/// A client that sends whatever bytes it likes over an honest channel.
struct Rude {
    channel: Channel<Pin>,
    listener: ListenerLink<Right>,
}

impl Rude {
    fn connect() -> Self {
        let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
        let mut listener = ListenerLink::new(&machine, 0).unwrap();
        let (initiator, first) = Initiator::new(&client, Prologue::Current, machine.fingerprint()).unwrap();
        assert_eq!(listener.receive(&first, at(0)), []);
        let second = listener.next_message().unwrap();
        let (third, channel) = initiator.read_second(&second).and_then(Pinned::finish).unwrap();
        assert_eq!(listener.receive(&third, at(0)), []);
        Self { channel, listener }
    }

    fn say(&mut self, line: &str) -> Vec<ListenerEvent> {
        let messages = self.channel.send(&EncodedLine::new(line).unwrap()).unwrap();
        messages.iter().flat_map(|message| self.listener.receive(message, at(1))).collect()
    }

    fn heard(&mut self) -> Vec<Frame<ListenerBody>> {
        let mut frames = Vec::new();
        while let Some(message) = self.listener.next_message() {
            self.channel.receive(&message).unwrap();
            while let Some(line) = self.channel.next_line().unwrap() {
                frames.push(Frame::from_line(&line).unwrap());
            }
        }
        frames
    }

    fn admitted() -> Self {
        let mut rude = Self::connect();
        let events = rude.say(&line("hello", &json!({ "machine": { "name": "rude" } })));
        let [ListenerEvent::Hello { id, peer, .. }] = &events[..] else { panic!("{events:?}") };
        let welcome = Frame::reply(at(0).date, id.clone(), welcome());
        rude.listener.admit(Right(*peer), &welcome, at(1)).unwrap();
        assert_eq!(rude.heard().len(), 1);
        rude
    }
}

const ID: &str = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb";

fn line(word: &str, body: &serde_json::Value) -> String {
    json!({ "type": word, "id": ID, "timestamp": "2026-01-01T12:00:00.000Z", "body": body }).to_string()
}

fn failure(frame: &Frame<ListenerBody>) -> (FailureCode, &str, bool) {
    let ListenerBody::Failure(failure) = &frame.body else { panic!("{frame:?}") };
    (*failure.code.known().unwrap(), failure.detail.as_str(), frame.reply_to.is_some())
}

#[test]
fn frames_cross_an_open_link_both_ways() {
    let mut pair = Pair::open(hello());
    let request = frame(OpenerBody::Request(crate::request::Request::Directories(Empty::default())));
    pair.client.send(&request).unwrap();
    pair.listener.send(&frame(ListenerBody::Unknown("poem".into()))).unwrap();
    let removed = ListenerBody::Machine(Box::new(crate::frame::Machine::Removed(ID.parse().unwrap())));
    let removed = frame(removed);
    pair.listener.send(&removed).unwrap();
    let (client, listener) = pair.carry(at(1));
    assert_eq!(listener, [ListenerEvent::Frame(Box::new(request))]);
    assert_eq!(client, [ClientEvent::Frame(Box::new(removed))]);
}

#[test]
fn nothing_can_be_sent_before_the_welcome() {
    let mut pair = Pair::new(hello());
    assert_eq!(pair.client.send(&frame(OpenerBody::Ping)), Err(SendError::NotOpen));
    assert_eq!(pair.listener.send(&frame(ListenerBody::Ping)), Err(SendError::NotOpen));
    pair.carry(at(0));
    assert_eq!(pair.client.send(&frame(OpenerBody::Ping)), Err(SendError::NotOpen));
    assert_eq!(pair.listener.send(&frame(ListenerBody::Ping)), Err(SendError::NotOpen));
}

#[test]
fn a_refusal_closes_both_ends_and_says_why() {
    let mut pair = Pair::new(hello());
    let (_, listener) = pair.carry(at(0));
    let [ListenerEvent::Hello { id, .. }] = &listener[..] else { panic!("{listener:?}") };
    let refusal = Failure::new(FailureCode::Unauthorised, NOT_LISTED);
    let event = pair.listener.fail(Some(id.clone()), refusal.clone(), at(0));
    assert_eq!(event, Some(ListenerEvent::Closed(Closed::Failure(refusal.clone()))));
    let (client, listener) = pair.carry(at(0));
    assert_eq!(client, [ClientEvent::Closed(Closed::Failure(refusal))]);
    assert!(listener.is_empty());
    assert_eq!((pair.client.wake_at(), pair.listener.wake_at()), (None, None));
}

#[test]
fn the_admission_of_another_key_ends_the_link() {
    let mut pair = Pair::new(hello());
    pair.carry(at(0));
    let other = Right(StaticKey::generate().unwrap().fingerprint());
    let outcome = pair.listener.admit(other, &frame(welcome()), at(0));
    assert_eq!(outcome, Err(SendError::Channel(ChannelError::OtherDevice)));
    assert_eq!(pair.listener.next_message(), None);
}

#[test]
fn another_machine_gets_no_third_message() {
    let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let dialled = StaticKey::generate().unwrap().fingerprint();
    let mut link = ClientLink::new(&client, dialled, hello(), at(0)).unwrap();
    let mut listener = ListenerLink::<Right>::new(&machine, 0).unwrap();
    assert_eq!(listener.receive(&link.next_message().unwrap(), at(0)), []);
    let events = link.receive(&listener.next_message().unwrap(), at(0));
    let found = machine.fingerprint();
    let closed = Closed::Channel(ChannelError::OtherMachine { expected: dialled, found });
    assert_eq!(events, [ClientEvent::Closed(closed)]);
    assert_eq!(link.next_message(), None);
    assert_eq!(link.receive(b"more", at(0)), []);
}

#[test]
fn a_bad_handshake_is_answered_by_nothing() {
    let machine = StaticKey::generate().unwrap();
    let mut listener = ListenerLink::<Right>::new(&machine, 0).unwrap();
    let events = listener.receive(&[0; 32], at(0));
    assert_eq!(events, [ListenerEvent::Closed(Closed::Channel(ChannelError::Handshake))]);
    assert_eq!(listener.next_message(), None);
}

#[test]
fn the_first_frame_must_be_a_hello_of_a_known_link() {
    for (said, detail) in
        [(line("ping", &json!({})), NO_HELLO), (line("hello", &json!({ "moon": {} })), NOT_LISTED)]
    {
        let mut rude = Rude::connect();
        let events = rude.say(&said);
        assert!(matches!(events[..], [ListenerEvent::Closed(Closed::Failure(_))]), "{events:?}");
        let frames = rude.heard();
        assert_eq!(
            frames.iter().map(failure).collect::<Vec<_>>(),
            [(FailureCode::Unauthorised, detail, true)]
        );
    }
}

#[test]
fn a_bad_line_before_hello_is_answered_and_hello_may_follow() {
    let mut rude = Rude::connect();
    assert_eq!(rude.say("{"), []);
    let frames = rude.heard();
    assert_eq!(failure(&frames[0]).0, FailureCode::BadJson);
    let events = rude.say(&line("hello", &json!({ "home": {} })));
    assert!(matches!(events[..], [ListenerEvent::Hello { .. }]), "{events:?}");
}

#[test]
fn a_hello_over_16_kib_is_refused() {
    let mut rude = Rude::connect();
    let events = rude.say(&"a".repeat(limits::HELLO_BYTES));
    assert_eq!(events, [ListenerEvent::Closed(Closed::Line(LineError::NoHello))]);
    assert_eq!(failure(&rude.heard()[0]), (FailureCode::Unauthorised, NO_HELLO, false));
}

#[test]
fn what_came_behind_hello_is_read_once_it_is_admitted() {
    let mut rude = Rude::connect();
    let mut text = line("hello", &json!({ "machine": { "name": "eager" } }));
    text.push('\n');
    text.push_str(&line("request", &json!({ "directories": {} })));
    // One plaintext with both lines: the channel takes any bytes, so the line break is put in behind its back.
    let messages = rude.channel.send_bytes_for_test(format!("{text}\n").as_bytes());
    let events: Vec<_> = messages.iter().flat_map(|message| rude.listener.receive(message, at(0))).collect();
    let [ListenerEvent::Hello { id, peer, .. }] = &events[..] else { panic!("{events:?}") };
    let welcome = Frame::reply(at(0).date, id.clone(), welcome());
    let events = rude.listener.admit(Right(*peer), &welcome, at(0)).unwrap();
    assert!(matches!(events[..], [ListenerEvent::Frame(_)]), "{events:?}");
}

#[test]
fn frames_of_other_links_are_bad_json_and_a_hundred_in_a_row_end_the_link() {
    let mut rude = Rude::admitted();
    let wrong = line("submission", &json!({ "text": "hi" }));
    let right = line("request", &json!({ "directories": {} }));
    for _ in 1..limits::BAD_JSON_IN_A_ROW {
        assert_eq!(rude.say(&wrong), []);
    }
    assert_eq!(rude.say(&right).len(), 1, "a good frame breaks the row");
    for _ in 1..limits::BAD_JSON_IN_A_ROW {
        assert_eq!(rude.say(&wrong), []);
    }
    assert_eq!(rude.say(&wrong), [ListenerEvent::Closed(Closed::Protocol)]);
    let frames = rude.heard();
    assert_eq!(frames.len(), 199);
    assert!(frames.iter().all(|frame| failure(frame).0 == FailureCode::BadJson && failure(frame).2));
}

#[test]
fn a_second_hello_is_bad_json() {
    let mut rude = Rude::admitted();
    assert_eq!(rude.say(&line("hello", &json!({ "home": {} }))), []);
    assert_eq!(failure(&rude.heard()[0]).0, FailureCode::BadJson);
}

#[test]
fn a_line_over_8_mib_ends_the_link() {
    let mut rude = Rude::admitted();
    let chunk = vec![b'a'; limits::NOISE_PLAINTEXT_BYTES];
    let mut events = Vec::new();
    for _ in 0..=limits::LINE_BYTES / chunk.len() {
        for message in rude.channel.send_bytes_for_test(&chunk) {
            events.extend(rude.listener.receive(&message, at(1)));
        }
    }
    assert_eq!(events, [ListenerEvent::Closed(Closed::Line(LineError::TooLong))]);
    assert_eq!(failure(&rude.heard()[0]).0, FailureCode::LineTooLong);
}

#[test]
fn a_repeated_message_ends_the_link_without_a_word() {
    let mut rude = Rude::admitted();
    let text = EncodedLine::new(line("ping", &json!({}))).unwrap();
    let message = rude.channel.send(&text).unwrap().remove(0);
    assert_eq!(rude.listener.receive(&message, at(1)), []);
    rude.heard();
    let events = rude.listener.receive(&message, at(1));
    assert_eq!(events, [ListenerEvent::Closed(Closed::Channel(ChannelError::Broken))]);
    assert_eq!(rude.listener.next_message(), None);
}

#[test]
fn whoever_says_no_hello_in_time_is_told_so_once_noise_stands() {
    let machine = StaticKey::generate().unwrap();
    let mut silent = ListenerLink::<Right>::new(&machine, 100).unwrap();
    let due = silent.wake_at().unwrap();
    assert_eq!(due, 100 + limits::HELLO_MILLISECONDS);
    assert_eq!(silent.tick(at(due - 1)), None);
    assert_eq!(silent.tick(at(due)), Some(ListenerEvent::Closed(Closed::Late)));
    assert_eq!(silent.next_message(), None);

    let mut rude = Rude::connect();
    rude.say("{");
    let due = rude.listener.wake_at().unwrap();
    assert_eq!(due, limits::HELLO_MILLISECONDS, "bad lines do not move it");
    assert_eq!(rude.listener.tick(at(due)), Some(ListenerEvent::Closed(Closed::Late)));
    assert_eq!(failure(&rude.heard()[1]), (FailureCode::Unauthorised, NO_HELLO, false));
}

#[test]
fn a_listener_that_does_not_welcome_in_time_is_left() {
    let mut pair = Pair::new(hello());
    pair.carry(at(0));
    let due = pair.client.wake_at().unwrap();
    assert_eq!(pair.client.tick(at(due - 1)), None);
    assert_eq!(pair.client.tick(at(due)), Some(ClientEvent::Closed(Closed::Late)));
}

#[test]
fn a_quiet_link_is_asked_and_lives() {
    let mut pair = Pair::open(hello());
    for round in 1..4 {
        let now = at(round * limits::PING_AFTER_MILLISECONDS);
        assert_eq!(pair.client.tick(now), None);
        assert_eq!(pair.listener.tick(now), None);
        assert_eq!(pair.carry(now), (vec![], vec![]));
        assert_eq!(pair.client.wake_at(), Some(now.steady + limits::PING_AFTER_MILLISECONDS));
    }
}

#[test]
fn a_link_whose_peer_is_gone_closes_30_seconds_after_the_ping_has_left() {
    let mut pair = Pair::open(hello());
    let asked = limits::PING_AFTER_MILLISECONDS;
    assert_eq!(pair.listener.tick(at(asked)), None);
    assert_eq!(pair.client.tick(at(asked)), None);
    for outbox in [pair.listener.next_message(), pair.client.next_message()] {
        assert!(outbox.is_some(), "a ping");
    }
    let left = asked + 7;
    pair.listener.sent(at(left));
    pair.client.sent(at(left));
    let due = left + limits::PONG_WITHIN_MILLISECONDS;
    assert_eq!((pair.listener.wake_at(), pair.client.wake_at()), (Some(due), Some(due)));
    assert_eq!((pair.listener.tick(at(due - 1)), pair.client.tick(at(due - 1))), (None, None));
    assert_eq!(pair.listener.tick(at(due)), Some(ListenerEvent::Closed(Closed::Silent)));
    assert_eq!(pair.client.tick(at(due)), Some(ClientEvent::Closed(Closed::Silent)));
}

#[test]
fn a_slow_reader_of_a_backlog_lives_and_one_that_takes_nothing_does_not() {
    let mut liveness = Liveness::new(0);
    assert_eq!(liveness.due(15_000), Due::Ping);
    for steady in (20_000..400_000).step_by(20_000) {
        liveness.sent(steady);
        assert_eq!(liveness.due(steady + 19_999), Due::Nothing);
    }
    assert_eq!(liveness.due(380_000 + 30_000), Due::Close);
}

#[test]
fn what_the_peer_does_not_take_is_bounded() {
    let mut pair = Pair::open(hello());
    let big = EncodedLine::new(vec![b'a'; limits::LINE_BYTES]).unwrap();
    assert!(pair.listener.is_hungry());
    pair.listener.send_line(&big).unwrap();
    assert!(!pair.listener.is_hungry());
    pair.listener.send_line(&big).unwrap();
    assert_eq!(pair.listener.send_line(&big), Err(SendError::Full));
    pair.listener.next_message().unwrap();
    while pair.listener.next_message().is_some() {}
    assert_eq!(pair.listener.send_line(&big), Ok(()));
}

#[test]
fn a_listener_that_breaks_the_protocol_is_left() {
    // Any frame instead of the welcome.
    let client = StaticKey::generate().unwrap();
    let mut rude = RudeListener::connect(&client);
    let events = rude.say(&frame(ListenerBody::Welcome(Box::new(Welcome::Machine { backlog_count: 0 }))));
    assert_eq!(events, [ClientEvent::Closed(Closed::Protocol)], "a welcome that answers nothing");
    let mut rude = RudeListener::connect(&client);
    let removed = ListenerBody::Machine(Box::new(crate::frame::Machine::Removed(ID.parse().unwrap())));
    assert_eq!(rude.say(&frame(removed)), [ClientEvent::Closed(Closed::Protocol)]);
}

/// A listener that has admitted its client and says what it likes.
struct RudeListener {
    channel: Channel<Right>,
    client: ClientLink,
}

impl RudeListener {
    fn connect(key: &StaticKey) -> Self {
        let machine = StaticKey::generate().unwrap();
        let mut client = ClientLink::new(key, machine.fingerprint(), hello(), at(0)).unwrap();
        let responder = crate::channel::Responder::new(&machine, Prologue::Current).unwrap();
        let (answered, second) = responder.read_first(&client.next_message().unwrap()).unwrap();
        assert_eq!(client.receive(&second, at(0)), []);
        let unadmitted = answered.read_third(&client.next_message().unwrap()).unwrap();
        let right = Right(unadmitted.peer());
        Self { channel: unadmitted.admit(right).unwrap(), client }
    }

    fn say(&mut self, frame: &Frame<ListenerBody>) -> Vec<ClientEvent> {
        let messages = self.channel.send(&frame.encode().unwrap()).unwrap();
        messages.iter().flat_map(|message| self.client.receive(message, at(1))).collect()
    }
}

#[test]
fn only_the_right_links_take_a_request() {
    use crate::request::{Request, Tunnel};
    let directories = OpenerBody::Request(Request::Directories(Empty::default()));
    let tunnel = OpenerBody::Request(Request::Tunnel(Tunnel { tunnel: None }));
    let release = OpenerBody::Request(Request::Release(Empty::default()));
    for kind in [LinkKind::Machine, LinkKind::Session, LinkKind::Host, LinkKind::Home] {
        assert_eq!(kind.takes(&directories), kind == LinkKind::Machine);
        assert_eq!(kind.takes(&tunnel), kind == LinkKind::Home);
        assert!(!kind.takes(&release), "only hosts are told to release");
        assert!(kind.takes(&OpenerBody::Ping));
    }
}

proptest! {
    #[test]
    fn whatever_an_admitted_device_sends_the_link_answers_or_closes(
        lines in prop::collection::vec(r#"\{("type"|"id"|"body"|:|,|"ping"|"hello"|[{}]|1){0,12}\}|\PC{0,20}"#, 0..12)
    ) {
        let mut rude = Rude::admitted();
        for text in lines {
            for event in rude.say(&text) {
                prop_assert!(matches!(event, ListenerEvent::Closed(_) | ListenerEvent::Frame(_)));
            }
        }
        rude.heard();
    }

    #[test]
    fn whatever_bytes_come_neither_end_panics(messages in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..120), 1..4)) {
        let mut pair = Pair::new(hello());
        for message in &messages {
            let _ = pair.client.receive(message, at(1));
            let _ = pair.listener.receive(message, at(1));
        }
        prop_assert!(!pair.client.is_open());
    }
}
