//! The committed vectors of the lowest layers, read by native code and by wasm alike.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    missing_docs,
    reason = "a test that cannot go on should stop where it stands"
)]

use data_encoding::HEXLOWER;
use serde_json::Value;
use shared::channel::{Admission, StaticKey};
use shared::fingerprint::{Fingerprint, LowOrder, PublicKey};
use shared::frame::{Frame, Hello, HelloHome, ListenerBody, Welcome};
use shared::json::{JsonError, canonical, digest, read_object};
use shared::line::{EncodedLine, LineDecoder, LineError};
use shared::link::{ClientEvent, ClientLink, ListenerEvent, ListenerLink, Now};
use shared::name::{DeviceName, SessionName};
use shared::pairing::{Endpoint, PairingCode, PairingError, PairingUrl, Pasted, Place};
use shared::time::Timestamp;
#[cfg(target_arch = "wasm32")]
use wasm_bindgen_test::wasm_bindgen_test as test;

macro_rules! vectors {
    ($name:literal) => {
        serde_json::from_str::<Value>(include_str!(concat!("../../sdk/conformance/vectors/", $name, ".json")))
            .unwrap()
    };
}

fn items(value: &Value) -> &Vec<Value> {
    value.as_array().unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    items(value).iter().map(|text| text.as_str().unwrap()).collect()
}

fn size(value: &Value) -> usize {
    usize::try_from(value.as_u64().unwrap()).unwrap()
}

fn bytes(value: &Value) -> [u8; 32] {
    HEXLOWER.decode(value.as_str().unwrap().as_bytes()).unwrap().try_into().unwrap()
}

#[test]
fn keys_have_the_fingerprints_of_the_vectors() {
    for case in vectors!("fingerprints")["keys"].as_array().unwrap() {
        let key = PublicKey::from_bytes(bytes(&case["bytes"])).unwrap();
        assert_eq!(*key.as_bytes(), bytes(&case["canonical"]), "{case}");
        assert_eq!(key.fingerprint().as_str(), case["fingerprint"], "{case}");
        assert_eq!(key.fingerprint_21(), case["fingerprint_21"], "{case}");
    }
}

#[test]
fn keys_of_low_order_are_refused_in_every_encoding() {
    for case in vectors!("fingerprints")["low_order"].as_array().unwrap() {
        assert_eq!(PublicKey::from_bytes(bytes(&case["bytes"])), Err(LowOrder), "{case}");
    }
}

#[test]
fn a_fingerprint_is_taken_exactly_as_written() {
    let vectors = vectors!("fingerprints");
    let good = vectors["keys"][0]["fingerprint"].as_str().unwrap();
    assert_eq!(good.parse::<Fingerprint>().unwrap().to_string(), good);
    assert_eq!(serde_json::from_value::<Fingerprint>(good.into()).unwrap().as_str(), good);
    for bad in vectors["bad_texts"].as_array().unwrap() {
        assert!(bad.as_str().unwrap().parse::<Fingerprint>().is_err(), "{bad}");
    }
}

#[test]
fn names_are_cleaned_like_the_vectors() {
    let vectors = vectors!("names");
    for case in vectors.as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        assert_eq!(DeviceName::clean(text).as_str(), case["device"], "{case}");
        let session = SessionName::clean(text).ok();
        assert_eq!(session.as_ref().map(SessionName::as_str), case["session"].as_str(), "{case}");
    }
}

fn plaintext(parts: &Value) -> Vec<u8> {
    let parts = parts.as_array().unwrap().iter();
    let texts = parts.map(|part| match part["repeat"].as_str() {
        Some(text) => text.repeat(size(&part["times"])),
        None => part["text"].as_str().unwrap().to_owned(),
    });
    texts.collect::<String>().into_bytes()
}

fn read_all(
    decoder: &mut LineDecoder,
    mut plaintext: &[u8],
    lines: &mut Vec<Vec<u8>>,
) -> Result<(), LineError> {
    while let Some(line) = decoder.read(&mut plaintext)? {
        lines.push(line);
    }
    assert!(plaintext.is_empty());
    Ok(())
}

#[test]
fn lines_are_cut_like_the_vectors() {
    for case in vectors!("lines")["splits"].as_array().unwrap() {
        let size = size(&case["line_bytes"]);
        let line = EncodedLine::new(vec![b'a'; size]).unwrap();
        let sizes: Vec<_> = line.chunks().map(<[u8]>::len).collect();
        assert_eq!(serde_json::json!(sizes), case["plaintexts"]);
        assert_eq!(line.as_bytes().last(), Some(&b'\n'));
    }
}

#[test]
fn streams_give_the_lines_of_the_vectors() {
    for case in vectors!("lines")["streams"].as_array().unwrap() {
        let mut decoder =
            if case["limit"] == "hello" { LineDecoder::awaiting_hello() } else { LineDecoder::new() };
        let mut lines = Vec::new();
        let mut plaintexts = case["plaintexts"].as_array().unwrap().iter().map(plaintext);
        let outcome: Result<(), LineError> =
            plaintexts.try_for_each(|plaintext| read_all(&mut decoder, &plaintext, &mut lines));
        let error = outcome.err().map(|error| match error {
            LineError::TooLong => "line_too_long",
            LineError::NoHello => "no_hello",
            LineError::Broken => "broken",
        });
        assert_eq!(error, case["error"].as_str(), "{}", case["name"]);
        let lengths: Vec<_> = lines.iter().map(Vec::len).collect();
        assert_eq!(serde_json::json!(lengths), case["lines"], "{}", case["name"]);
    }
}

/// The bytes of a line that is not taken.
fn line(case: &Value) -> Vec<u8> {
    if let Some(hex) = case["hex"].as_str() {
        return HEXLOWER.decode(hex.as_bytes()).unwrap();
    }
    if let Some(repeat) = case["repeat"].as_str() {
        let times = size(&case["times"]);
        return (repeat.repeat(times) + case["end"].as_str().unwrap()).into_bytes();
    }
    case["line"].as_str().unwrap().as_bytes().to_vec()
}

#[test]
fn valid_lines_are_read_as_serde_json_reads_them() {
    for case in vectors!("strict-json")["valid"].as_array().unwrap() {
        let text = case.as_str().unwrap();
        let object = read_object(text.as_bytes()).map_err(|error| (text, error)).unwrap();
        assert_eq!(Value::Object(object), serde_json::from_str::<Value>(text).unwrap());
    }
}

#[test]
fn invalid_lines_fail_with_the_word_of_the_vectors() {
    for case in vectors!("strict-json")["invalid"].as_array().unwrap() {
        assert_eq!(
            read_object(&line(case)).map_err(JsonError::word),
            Err(case["error"].as_str().unwrap()),
            "{case}"
        );
    }
}

#[test]
fn canonical_form_and_digest_are_those_of_the_vectors() {
    let vectors = vectors!("canonical-json");
    for case in vectors.as_array().unwrap() {
        let value: Value = serde_json::from_str(case["text"].as_str().unwrap()).unwrap();
        assert_eq!(canonical(&value), case["canonical"]);
        assert_eq!(digest(&value), case["digest"]);
    }
}

#[test]
fn codes_are_taken_exactly_and_typed_ones_are_folded() {
    let vectors = vectors!("pairing");
    let codes = &vectors["codes"];
    for good in texts(&codes["good"]) {
        assert_eq!(good.parse::<PairingCode>().unwrap().expose(), good);
    }
    for bad in texts(&codes["bad"]) {
        assert_eq!(bad.parse::<PairingCode>(), Err(PairingError::Code), "{bad}");
    }
    for case in codes["typed"].as_array().unwrap() {
        let code = PairingCode::typed(case["text"].as_str().unwrap()).ok();
        assert_eq!(code.as_ref().map(PairingCode::expose), case["code"].as_str(), "{case}");
    }
}

#[test]
fn endpoints_are_read_and_written_like_the_vectors() {
    let vectors = vectors!("pairing");
    for case in vectors["endpoints"]["good"].as_array().unwrap() {
        let endpoint: Endpoint = case["text"].as_str().unwrap().parse().unwrap();
        assert_eq!(endpoint.place.host(), case["host"], "{case}");
        assert_eq!(endpoint.place.port(), case["port"], "{case}");
        assert_eq!(endpoint.place.origin(), case["origin"], "{case}");
        assert_eq!(endpoint.place.link_url(), case["link"], "{case}");
        assert_eq!(endpoint.to_string(), case["written"], "{case}");
        assert_eq!(endpoint.to_string().parse(), Ok(endpoint.clone()));
        assert_eq!(Place::from_origin(&endpoint.place.origin()), Ok(endpoint.place));
    }
    for bad in texts(&vectors["endpoints"]["bad"]) {
        assert_eq!(bad.parse::<Endpoint>(), Err(PairingError::Endpoint), "{bad}");
    }
}

#[test]
fn pairing_urls_are_read_like_the_vectors() {
    let vectors = vectors!("pairing");
    for case in vectors["urls"]["good"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let url: PairingUrl = text.parse().unwrap();
        assert_eq!(url.endpoint.to_string(), case["endpoint"]);
        assert_eq!(url.code.expose(), case["code"]);
        assert_eq!(url.expose(), text);
        assert_eq!(format!(" {text}\n").parse(), Ok(Pasted::Url(url)));
    }
    for bad in texts(&vectors["urls"]["bad"]) {
        assert!(bad.parse::<Pasted>().is_err(), "{bad}");
    }
}

#[test]
fn the_secret_alone_can_be_pasted() {
    let vectors = vectors!("pairing");
    for text in texts(&vectors["secrets"]) {
        let Ok(Pasted::Secret(secret)) = text.parse::<Pasted>() else { panic!("{text}") };
        assert_eq!(secret.fingerprint.as_str(), vectors["secret"]["fingerprint"]);
        assert_eq!(secret.code.expose(), vectors["secret"]["code"]);
    }
}

struct Right(Fingerprint);

impl Admission for Right {
    fn fingerprint(&self) -> Fingerprint {
        self.0
    }
}

/// Where randomness, keys and encryption meet: the one thing that differs between the targets.
#[test]
fn a_link_opens() {
    let now = Now { date: Timestamp::from_milliseconds(0), steady: 0 };
    let (key, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    let mut client =
        ClientLink::new(&key, machine.fingerprint(), Hello::Home(HelloHome::default()), now).unwrap();
    let mut listener = ListenerLink::<Right>::new(&machine, 0).unwrap();
    assert!(listener.receive(&client.next_message().unwrap(), now).is_empty());
    assert!(client.receive(&listener.next_message().unwrap(), now).is_empty());
    assert!(listener.receive(&client.next_message().unwrap(), now).is_empty());
    let events = listener.receive(&client.next_message().unwrap(), now);
    let [ListenerEvent::Hello { id, peer, .. }] = &events[..] else { panic!("{events:?}") };
    let welcome = ListenerBody::Welcome(Box::new(Welcome::Home { aude_version: "1".into() }));
    let welcome = Frame::reply(now.date, id.clone(), welcome);
    assert!(listener.admit(Right(*peer), &welcome, now).unwrap().is_empty());
    let events = client.receive(&listener.next_message().unwrap(), now);
    assert!(matches!(events[..], [ClientEvent::Welcomed(_)]), "{events:?}");
}
