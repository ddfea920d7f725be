use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../sdk/conformance/vectors/pairing.json")).unwrap()
}

fn texts(value: &Value) -> Vec<&str> {
    value.as_array().unwrap().iter().map(|text| text.as_str().unwrap()).collect()
}

#[test]
fn codes_are_taken_exactly_and_typed_ones_are_folded() {
    let vectors = vectors();
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
fn a_random_code_is_a_code_and_another_each_time() {
    let code = PairingCode::random().unwrap();
    assert_eq!(code.expose().parse(), Ok(code.clone()));
    assert_ne!(code, PairingCode::random().unwrap());
    let all: String = (0..200).map(|_| PairingCode::random().unwrap().expose().to_owned()).collect();
    assert!(('a'..='z').chain('2'..='7').all(|character| all.contains(character)));
}

#[test]
fn a_code_matches_itself_alone() {
    let code: PairingCode = "abcdefgh234567mnopqr".parse().unwrap();
    assert!(code.matches("abcdefgh234567mnopqr"));
    for other in
        ["", "abcdefgh234567mnopq", "abcdefgh234567mnopqs", "ABCDEFGH234567MNOPQR", "abcdefgh234567mnopqr "]
    {
        assert!(!code.matches(other), "{other}");
    }
}

#[test]
fn no_debug_text_shows_a_code() {
    let url: PairingUrl = texts(
        &vectors()["urls"]["good"].as_array().unwrap().iter().map(|case| case["text"].clone()).collect(),
    )[0]
    .parse()
    .unwrap();
    let offered = OfferedCode::from(&url.code);
    let shown = format!("{url:?} {offered:?} {:?}", Pasted::Url(url.clone()));
    assert!(!shown.contains(url.code.expose()), "{shown}");
}

#[test]
fn endpoints_are_read_and_written_like_the_vectors() {
    let vectors = vectors();
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
    let vectors = vectors();
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
    let vectors = vectors();
    for text in texts(&vectors["secrets"]) {
        let Ok(Pasted::Secret(secret)) = text.parse::<Pasted>() else { panic!("{text}") };
        assert_eq!(secret.fingerprint.as_str(), vectors["secret"]["fingerprint"]);
        assert_eq!(secret.code.expose(), vectors["secret"]["code"]);
    }
}

proptest! {
    #[test]
    fn parsing_never_panics(text in "\\PC{0,60}|[a-z2-7]{28}@[\\[\\]a-f0-9:.-]{0,20}|https?://[\\[\\]a-f0-9:.]{0,20}/#pair=[a-z2-7.]{0,60}") {
        let _ = text.parse::<Pasted>();
        let _ = text.parse::<PairingCode>();
        let _ = Place::from_origin(&text);
        if let Ok(endpoint) = text.parse::<Endpoint>() {
            prop_assert_eq!(endpoint.to_string().parse(), Ok(endpoint));
        }
    }
}
