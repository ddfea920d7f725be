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
