use data_encoding::HEXLOWER;
use proptest::prelude::*;
use serde_json::Value;
use zeroize::Zeroizing;

use super::*;
use crate::failure::FailureCode;

/// What admission would give.
#[derive(Debug)]
struct Right(Fingerprint);

impl Admission for Right {
    fn fingerprint(&self) -> Fingerprint {
        self.0
    }
}

fn vectors() -> Vec<Value> {
    serde_json::from_str(include_str!("../../../sdk/conformance/vectors/handshake.json")).unwrap()
}

fn bytes(value: &Value) -> Vec<u8> {
    HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap()
}

fn key(value: &Value) -> StaticKey {
    StaticKey::from_hex(value.as_str().unwrap()).unwrap()
}

fn prologue(case: &Value) -> Prologue {
    if case["prologue"] == "aude-wire" { Prologue::Current } else { Prologue::Version21 }
}

/// A client's channel and a listener's end before admission.
fn connected() -> (Channel<Pin>, Unadmitted) {
    let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let (initiator, first) = Initiator::new(&client, Prologue::Current, machine.fingerprint()).unwrap();
    let responder = Responder::new(&machine, Prologue::Current).unwrap();
    let (answered, second) = responder.read_first(&first).unwrap();
    let (third, channel) = initiator.read_second(&second).unwrap().finish().unwrap();
    let unadmitted = answered.read_third(&third).unwrap();
    assert_eq!(unadmitted.peer(), client.fingerprint());
    assert_eq!(channel.peer(), machine.fingerprint());
    assert_eq!(channel.right().fingerprint(), machine.fingerprint());
    (channel, unadmitted)
}

fn admitted() -> (Channel<Pin>, Channel<Right>) {
    let (channel, unadmitted) = connected();
    let right = Right(unadmitted.peer());
    (channel, unadmitted.admit(right).unwrap())
}

fn line(text: &str) -> EncodedLine {
    EncodedLine::new(text).unwrap()
}

fn received<R>(channel: &mut Channel<R>, messages: &[Vec<u8>]) -> Vec<String> {
    let mut lines = Vec::new();
    for message in messages {
        channel.receive(message).unwrap();
        while let Some(line) = channel.next_line().unwrap() {
            lines.push(String::from_utf8(line).unwrap());
        }
    }
    lines
}

#[test]
fn both_ends_write_the_bytes_of_the_vectors() {
    for case in vectors() {
        let (client, listener) = (key(&case["client"]["static"]), key(&case["listener"]["static"]));
        let ephemerals =
            ["client", "listener"].map(|side| bytes(&case[side]["ephemeral"]).try_into().unwrap());
        assert_eq!(client.fingerprint().as_str(), case["client"]["fingerprint"]);
        let expected = case["listener"]["fingerprint"].as_str().unwrap().parse().unwrap();
        let (initiator, first) =
            Initiator::with_ephemeral(&client, prologue(&case), expected, Some(&ephemerals[0])).unwrap();
        assert_eq!(first, *bytes(&case["handshake"][0]));
        let responder = Responder::with_ephemeral(&listener, prologue(&case), Some(&ephemerals[1])).unwrap();
        let (answered, second) = responder.read_first(&first).unwrap();
        assert_eq!(second, *bytes(&case["handshake"][1]));
        let (third, mut channel) = initiator.read_second(&second).unwrap().finish().unwrap();
        assert_eq!(third, *bytes(&case["handshake"][2]));
        let mut unadmitted = answered.read_third(&third).unwrap();
        for message in case["transport"].as_array().unwrap() {
            let (from, to) = if message["from"] == "client" {
                (&mut channel.noise, &mut unadmitted.noise)
            } else {
                (&mut unadmitted.noise, &mut channel.noise)
            };
            assert_eq!(from.seal(&bytes(&message["plaintext"])).unwrap(), bytes(&message["message"]));
            let mut plaintext = Vec::new();
            to.open(&bytes(&message["message"]), &mut plaintext).unwrap();
            assert_eq!(plaintext, bytes(&message["plaintext"]));
        }
    }
}

#[test]
fn the_third_message_cannot_be_had_from_another_machine() {
    let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let dialled = StaticKey::generate().unwrap().fingerprint();
    let (initiator, first) = Initiator::new(&client, Prologue::Current, dialled).unwrap();
    let (_, second) = Responder::new(&machine, Prologue::Current).unwrap().read_first(&first).unwrap();
    let error = initiator.read_second(&second).err();
    assert_eq!(error, Some(ChannelError::OtherMachine { expected: dialled, found: machine.fingerprint() }));
}

#[test]
fn the_prologues_do_not_mix() {
    let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let (initiator, first) = Initiator::new(&client, Prologue::Version21, machine.fingerprint()).unwrap();
    let (_, second) = Responder::new(&machine, Prologue::Current).unwrap().read_first(&first).unwrap();
    assert_eq!(initiator.read_second(&second).err(), Some(ChannelError::Handshake));
}

#[test]
fn handshake_messages_have_their_exact_length() {
    let (client, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let start = || Initiator::new(&client, Prologue::Current, machine.fingerprint()).unwrap();
    let respond = || Responder::new(&machine, Prologue::Current).unwrap();
    for length in [0, 31, 33, 64, 65535, 70000] {
        assert_eq!(respond().read_first(&vec![7; length]).err(), Some(ChannelError::Handshake));
    }
    for change in [-1_isize, 1] {
        let (initiator, first) = start();
        let (answered, second) = respond().read_first(&first).unwrap();
        let resized = |message: &[u8]| {
            let mut message = message.to_vec();
            message.resize(message.len().checked_add_signed(change).unwrap(), 0);
            message
        };
        assert_eq!(start().0.read_second(&resized(&second)).err(), Some(ChannelError::Handshake));
        let (third, _) = initiator.read_second(&second).unwrap().finish().unwrap();
        assert_eq!(answered.read_third(&resized(&third)).err(), Some(ChannelError::Handshake));
    }
}

#[test]
fn an_ephemeral_key_of_low_order_is_refused_in_every_encoding() {
    let machine = StaticKey::generate().unwrap();
    let vectors: Value =
        serde_json::from_str(include_str!("../../../sdk/conformance/vectors/fingerprints.json")).unwrap();
    for case in vectors["low_order"].as_array().unwrap() {
        let responder = Responder::new(&machine, Prologue::Current).unwrap();
        let error = responder.read_first(&bytes(&case["bytes"])).err();
        assert_eq!(error, Some(ChannelError::Handshake), "{case}");
    }
}

/// A Diffie-Hellman that claims the public key zero, as a hostile peer does that needs no private key.
mod hostile {
    use snow::params::{CipherChoice, DHChoice, HashChoice};
    use snow::resolvers::{CryptoResolver, DefaultResolver};
    use snow::types::{Cipher, Dh, Hash, Random};

    #[derive(Clone, Copy, PartialEq)]
    pub(super) enum Zero {
        Static,
        Ephemeral,
    }

    impl CryptoResolver for Zero {
        fn resolve_rng(&self) -> Option<Box<dyn Random>> {
            DefaultResolver.resolve_rng()
        }
        fn resolve_dh(&self, choice: &DHChoice) -> Option<Box<dyn Dh>> {
            Some(Box::new(Key { inner: DefaultResolver.resolve_dh(choice)?, zero: *self, is_zero: false }))
        }
        fn resolve_hash(&self, choice: &HashChoice) -> Option<Box<dyn Hash>> {
            DefaultResolver.resolve_hash(choice)
        }
        fn resolve_cipher(&self, choice: &CipherChoice) -> Option<Box<dyn Cipher>> {
            DefaultResolver.resolve_cipher(choice)
        }
    }

    /// snow sets a static key and generates an ephemeral one.
    struct Key {
        inner: Box<dyn Dh>,
        zero: Zero,
        is_zero: bool,
    }

    impl Dh for Key {
        fn name(&self) -> &'static str {
            self.inner.name()
        }
        fn pub_len(&self) -> usize {
            32
        }
        fn priv_len(&self) -> usize {
            32
        }
        fn set(&mut self, privkey: &[u8]) {
            self.is_zero = self.zero == Zero::Static;
            self.inner.set(privkey);
        }
        fn generate(&mut self, rng: &mut dyn Random) -> Result<(), snow::Error> {
            self.is_zero = self.zero == Zero::Ephemeral;
            self.inner.generate(rng)
        }
        fn pubkey(&self) -> &[u8] {
            if self.is_zero { &[0; 32] } else { self.inner.pubkey() }
        }
        fn privkey(&self) -> &[u8] {
            self.inner.privkey()
        }
        fn dh(&self, pubkey: &[u8], out: &mut [u8]) -> Result<(), snow::Error> {
            if self.is_zero {
                // Whatever the honest side multiplies zero with, it gets zero.
                out[..32].fill(0);
                return Ok(());
            }
            self.inner.dh(pubkey, out)
        }
    }
}

fn hostile(zero: hostile::Zero) -> Builder<'static> {
    let builder = Builder::with_resolver(PATTERN.parse().unwrap(), Box::new(zero));
    builder.prologue(Prologue::Current.bytes()).unwrap().local_private_key(&[7; 32]).unwrap()
}

#[test]
fn a_client_key_of_low_order_is_refused_though_it_authenticates() {
    let machine = StaticKey::generate().unwrap();
    let mut client = hostile(hostile::Zero::Static).build_initiator().unwrap();
    let first: [u8; FIRST] = write(&mut client).unwrap();
    let responder = Responder::new(&machine, Prologue::Current).unwrap();
    let (mut answered, second) = responder.read_first(&first).unwrap();
    read::<SECOND>(&mut client, &second).unwrap();
    let third: [u8; THIRD] = write(&mut client).unwrap();
    read::<THIRD>(&mut answered.state, &third).expect("Noise itself takes this key");
    assert_eq!(remote_key(&answered.state), Err(ChannelError::Handshake));
}

#[test]
fn a_listener_key_of_low_order_is_refused_though_it_authenticates() {
    let client = StaticKey::generate().unwrap();
    for zero in [hostile::Zero::Static, hostile::Zero::Ephemeral] {
        // The fingerprint that an honest comparison would find, so that nothing but the order can be wrong.
        let dialled = StaticKey(Zeroizing::new([7; 32])).fingerprint();
        let (initiator, first) = Initiator::new(&client, Prologue::Current, dialled).unwrap();
        let mut listener = hostile(zero).build_responder().unwrap();
        read::<FIRST>(&mut listener, &first).unwrap();
        let second: [u8; SECOND] = write(&mut listener).unwrap();
        assert_eq!(initiator.read_second(&second).err(), Some(ChannelError::Handshake));
    }
}

#[test]
fn a_stranger_says_hello_and_is_admitted_with_what_came_after_it() {
    let (mut client, mut unadmitted) = connected();
    let mut messages = client.send(&line("{hello}")).unwrap();
    messages.extend(client.send(&line("{1}")).unwrap());
    let long = "a".repeat(200_000);
    messages.extend(client.send(&line(&long)).unwrap());
    unadmitted.receive(&messages[0]).unwrap();
    unadmitted.receive(&messages[1]).unwrap();
    assert_eq!(unadmitted.next_line().unwrap().unwrap(), b"{hello}");
    let right = Right(unadmitted.peer());
    let mut channel = unadmitted.admit(right).unwrap();
    assert_eq!(channel.next_line().unwrap().unwrap(), b"{1}");
    assert_eq!(received(&mut channel, &messages[2..]), [long]);
    let answer = channel.send(&line("{welcome}")).unwrap();
    assert_eq!(received(&mut client, &answer), ["{welcome}"]);
}

#[test]
fn a_stranger_has_16_kib_and_may_be_told_why_not() {
    let (mut client, mut unadmitted) = connected();
    for message in client.send(&line(&"a".repeat(limits::HELLO_BYTES))).unwrap() {
        unadmitted.receive(&message).unwrap();
    }
    assert_eq!(unadmitted.next_line(), Err(LineError::NoHello));
    let failure = Failure::new(FailureCode::Unauthorised, "é".repeat(limits::DETAIL_BYTES));
    let failure = FailureLine::new(Timestamp::from_milliseconds(0), None, failure).unwrap();
    let messages = unadmitted.send_failure(&failure).unwrap();
    let frame = Frame::<ListenerBody>::from_line(received(&mut client, &messages)[0].as_bytes()).unwrap();
    let ListenerBody::Failure(failure) = frame.body else { panic!("{frame:?}") };
    assert_eq!((failure.is_fatal, failure.detail.len()), (true, limits::DETAIL_BYTES));
}

#[test]
fn admission_of_another_key_opens_nothing() {
    let (_client, unadmitted) = connected();
    let right = Right(StaticKey::generate().unwrap().fingerprint());
    assert_eq!(unadmitted.admit(right).err(), Some(ChannelError::OtherDevice));
}

#[test]
fn one_bad_message_ends_the_channel_in_both_directions() {
    let cases: [fn(&mut Vec<Vec<u8>>); 6] = [
        |messages| messages[0][3] ^= 1,
        |messages| messages.swap(0, 1),
        |messages| messages[1] = messages[0].clone(),
        |messages| messages[0].truncate(15),
        |messages| messages[0].clear(),
        |messages| messages[0].resize(limits::NOISE_MESSAGE_BYTES + 1, 0),
    ];
    for damage in cases {
        let (mut client, mut listener) = admitted();
        let mut messages = client.send(&line("{1}")).unwrap();
        messages.extend(client.send(&line("{2}")).unwrap());
        let good = messages.clone();
        damage(&mut messages);
        let outcome = messages.iter().try_for_each(|message| listener.receive(message));
        assert_eq!(outcome, Err(ChannelError::Broken));
        for message in &good {
            assert_eq!(listener.receive(message), Err(ChannelError::Broken));
        }
        assert_eq!(listener.send(&line("{}")), Err(ChannelError::Broken));
    }
}

#[test]
fn the_largest_line_crosses_in_messages_of_the_largest_size() {
    let (mut client, mut listener) = admitted();
    let text = "b".repeat(limits::LINE_BYTES);
    let messages = client.send(&line(&text)).unwrap();
    assert!(messages.iter().all(|message| message.len() <= limits::NOISE_MESSAGE_BYTES));
    assert_eq!(messages[0].len(), limits::NOISE_MESSAGE_BYTES);
    assert_eq!(received(&mut listener, &messages), [text]);
}

#[test]
fn an_empty_plaintext_carries_nothing() {
    let (mut client, mut listener) = admitted();
    let message = client.noise.seal(b"").unwrap();
    assert_eq!(received(&mut listener, &[message]), [""; 0]);
}

#[test]
fn what_is_not_read_does_not_pile_up() {
    let (mut client, mut listener) = admitted();
    let messages = client.send(&line(&"c".repeat(400_000))).unwrap();
    let outcome: Vec<_> = messages.iter().map(|message| listener.receive(message)).collect();
    assert_eq!(outcome[..2], [Ok(()), Err(ChannelError::Unread)]);
}

#[test]
fn private_keys_are_written_as_hex_and_never_shown() {
    let key = StaticKey::generate().unwrap();
    let hex = key.to_hex();
    assert_eq!(hex.len(), 64);
    assert_eq!(StaticKey::from_hex(&hex).unwrap().fingerprint(), key.fingerprint());
    let shown = format!("{key:?}");
    assert!(shown.contains(key.fingerprint().as_str()) && !shown.contains(&**hex));
    for bad in ["", &hex[1..], &format!("{}\n", *hex), &format!("{}g", &hex[1..])] {
        assert_eq!(StaticKey::from_hex(bad).err(), Some(ChannelError::KeyText));
    }
    // Alice of RFC 7748.
    let alice = "77076d0a7318a57d3c16c17251b26645d6c2ea1c8e1a3c3f6f0d4f0e5b1d8b0a";
    assert!(StaticKey::from_hex(alice).is_ok());
}

proptest! {
    #[test]
    fn a_hostile_handshake_never_panics(message in prop::collection::vec(any::<u8>(), 0..120)) {
        let machine = StaticKey::generate().unwrap();
        if let Ok((answered, _)) = Responder::new(&machine, Prologue::Current).unwrap().read_first(&message) {
            prop_assert!(answered.read_third(&message).is_err());
        }
        let (initiator, _) = Initiator::new(&machine, Prologue::Current, machine.fingerprint()).unwrap();
        prop_assert!(initiator.read_second(&message).is_err());
    }
}
