//! `--json`: one object a line and nothing else on standard output, whatever the command.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;

use serde_json::{Map, Value};
use shared::request::WindowUrl;
use tests::device::Device;
use tests::home::TestHome;
use tests::story::allow;
use tests::wait;

use super::running;

/// The objects that a command prints; it must succeed.
fn objects(home: &TestHome, arguments: &[&str]) -> Vec<Map<String, Value>> {
    let text = home.ok(arguments.iter().chain(&["--json"]));
    assert!(text.is_empty() || text.ends_with('\n'), "{arguments:?}: {text}");
    text.lines()
        .map(|line| {
            serde_json::from_str(line).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {line}"))
        })
        .collect()
}

fn one(home: &TestHome, arguments: &[&str]) -> Map<String, Value> {
    let [object] = <[_; 1]>::try_from(objects(home, arguments)).unwrap();
    object
}

#[tokio::test]
async fn every_command_that_prints_gives_objects() {
    let home = running().await;
    let started = one(&home, &["start", "one", "--harness", "aura", "echo first"]);
    let id = started["started"]["id"].as_str().unwrap().to_owned();
    let entries = objects(&home, &["send", "one", "--wait", "echo \"quoted\"\nand more"]);
    assert!(entries.iter().any(|entry| entry.get("kind").is_some_and(|kind| kind == "assistant")
        && entry["text"] == "\"quoted\"\nand more"));
    assert_eq!(entries.last().unwrap()["kind"], "settled");
    assert!(one(&home, &["send", "one", "hold it"]).contains_key("taken"));
    wait::until("the turn", || async { (home.record("one")["work"]["state"] == "working").then_some(()) })
        .await;
    assert!(one(&home, &["interrupt", "one"]).contains_key("taken"));
    allow(&home, "it");
    let history = objects(&home, &["attach", "one", "--no-follow"]);
    assert_eq!(history[0]["kind"], "user");
    let sequences: Vec<u64> = history.iter().map(|entry| entry["sequence"].as_u64().unwrap()).collect();
    assert!(sequences.is_sorted_by(|before, after| before < after), "{sequences:?}");
    assert_eq!(one(&home, &["show", &id[..8]])["name"], "one");
    assert_eq!(one(&home, &["sessions"])["id"], id.as_str());

    let phone = Device::paired(&home, "phone").await;
    let device = one(&home, &["devices"]);
    assert_eq!(
        (device["name"].as_str(), device["fingerprint"].as_str()),
        (Some("phone"), Some(phone.key.fingerprint().as_str()))
    );
    assert!(!one(&home, &["revoke", "phone"]).is_empty());
    assert!(objects(&home, &["devices"]).is_empty());
    let looks = objects(&home, &["doctor"]);
    let files = looks.iter().find(|look| look["what"] == "files").unwrap();
    assert!(files["good"] == true && files["remedy"].is_null());

    assert!(one(&home, &["stop", "one"]).contains_key("taken"));
    wait::until("the end of the host", || async { home.record("one")["host"].is_null().then_some(()) }).await;
    assert!(!one(&home, &["remove", "one"]).is_empty());
    assert!(objects(&home, &["sessions"]).is_empty());
}

#[tokio::test]
async fn pairing_prints_the_link_and_then_the_device() {
    let home = running().await;
    let mut pair = home.command(["pair", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(pair.stdout.take().unwrap()).lines();
    let window: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    let url: WindowUrl = serde_json::from_value(window["window"]["url"].clone()).unwrap();
    let device = Device::new("phone", home.endpoint());
    device.pair(&url.code).await.expect("the device pairs");
    let paired: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
    assert_eq!(paired["paired"]["name"], "phone");
    assert!(lines.next().is_none());
    assert!(pair.wait().unwrap().success());
}
