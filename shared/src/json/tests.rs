use proptest::prelude::*;
use serde_json::json;

use super::*;

fn vectors() -> Value {
    serde_json::from_str(include_str!("../../../sdk/conformance/vectors/strict-json.json")).unwrap()
}

#[derive(serde::Deserialize, Debug)]
struct Fields {
    #[serde(deserialize_with = "integer")]
    required: u64,
    #[serde(default, deserialize_with = "present_integer")]
    optional: Option<u64>,
    #[serde(default, deserialize_with = "present")]
    text: Option<String>,
    #[serde(default, deserialize_with = "nullable_integer")]
    nullable: Option<u64>,
}

fn fields(text: &str) -> Result<Fields, String> {
    let object = read_object(text.as_bytes()).map_err(|error| error.to_string())?;
    serde_json::from_value(Value::Object(object)).map_err(|error| error.to_string())
}

#[test]
fn integers_are_whole_and_small_enough_for_everybody() {
    let vectors = vectors();
    for good in vectors["integers"]["valid"].as_array().unwrap() {
        let good = good.as_str().unwrap();
        for name in ["required", "optional", "nullable"] {
            let text = if name == "required" {
                format!(r#"{{"required":{good}}}"#)
            } else {
                format!(r#"{{"required":0,"{name}":{good}}}"#)
            };
            assert!(fields(&text).is_ok(), "{text}");
        }
    }
    for bad in vectors["integers"]["invalid"].as_array().unwrap() {
        let bad = bad.as_str().unwrap();
        assert!(fields(&format!(r#"{{"required":{bad}}}"#)).is_err(), "{bad}");
        assert!(fields(&format!(r#"{{"required":0,"optional":{bad}}}"#)).is_err(), "{bad}");
        if bad != "null" {
            assert!(fields(&format!(r#"{{"required":0,"nullable":{bad}}}"#)).is_err(), "{bad}");
        }
    }
}

#[test]
fn an_optional_field_of_a_frame_is_left_out_and_never_null() {
    assert!(fields(r#"{"required":1}"#).is_ok());
    assert!(fields(r#"{"required":1,"text":null}"#).is_err());
    assert!(fields(r#"{"required":1,"optional":null}"#).is_err());
    let read = fields(r#"{"required":1,"optional":2,"text":"x","nullable":null}"#).unwrap();
    assert_eq!(
        (read.required, read.optional, read.text.as_deref(), read.nullable),
        (1, Some(2), Some("x"), None)
    );
}

#[test]
fn what_a_harness_says_is_kept_as_text_where_it_breaks_the_rules() {
    assert_eq!(embed_text(r#"{"a":[1]}"#), json!({ "a": [1] }));
    assert_eq!(embed_text(r#""a""#), json!("a"));
    for broken in [r#"{"a":1,"a":2}"#, "not json", r#""\ud800""#, "", "{} {}"] {
        assert_eq!(embed_text(broken), json!({ "raw": broken }));
    }
    let deep = "[".repeat(EMBEDDED_DEPTH + 1) + &"]".repeat(EMBEDDED_DEPTH + 1);
    assert_eq!(embed_text(&deep), json!({ "raw": deep }));
    assert_eq!(embed(serde_json::from_str(&deep).unwrap()), json!({ "raw": deep }));
    let allowed = &deep[1..deep.len() - 1];
    assert_eq!(embed_text(allowed).to_string(), allowed);
    assert_eq!(embed(serde_json::from_str(allowed).unwrap()).to_string(), allowed);
}

#[test]
fn raw_text_is_cut_between_characters() {
    let long = "é".repeat(EMBEDDED_BYTES);
    assert_eq!(embed_text(&long)["raw"].as_str().unwrap().len(), limits::RAW_BYTES);
    let odd = format!("a{long}");
    assert_eq!(embed_text(&odd)["raw"].as_str().unwrap().len(), limits::RAW_BYTES - 1);
    assert_eq!(embed(Value::String(long))["raw"].as_str().unwrap().len(), limits::RAW_BYTES - 1);
    assert_eq!(cut("aé", 2), "a");
    assert_eq!(cut("aé", 3), "aé");
    assert_eq!(cut("é", 0), "");
}

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        prop::num::f64::NORMAL.prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(5, 40, 6, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..6).prop_map(Value::from),
            prop::collection::btree_map(any::<String>(), inner, 0..6)
                .prop_map(|fields| Value::Object(fields.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn reading_never_panics(line in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = read_object(&line);
    }

    #[test]
    fn reading_almost_json_never_panics(text in r#"\{("a"|[{}\[\]:,"\\ud80]|1|e|\.|-| ){0,40}\}"#) {
        if let Ok(object) = read_object(text.as_bytes()) {
            // What is taken is JSON for everybody else too.
            prop_assert_eq!(serde_json::from_str::<Value>(&text).unwrap(), Value::Object(object));
        }
    }

    #[test]
    fn written_objects_are_read_again(value in any_value()) {
        let object = json!({ "value": value });
        prop_assert_eq!(read_object(object.to_string().as_bytes()).map(Value::Object), Ok(object));
    }

    #[test]
    fn canonical_form_is_canonical(value in any_value()) {
        let form = canonical(&value);
        let again: Value = serde_json::from_str(&form).unwrap();
        prop_assert_eq!(canonical(&again), form);
    }

    #[test]
    fn a_number_keeps_its_value(number in prop::num::f64::NORMAL | prop::num::f64::SUBNORMAL) {
        let form = canonical(&Value::from(number));
        prop_assert_eq!(form.parse::<f64>().unwrap(), number);
    }
}
