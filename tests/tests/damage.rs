//! What is damaged, missing or sent by a broken agent: the session opens, says what was left out, and nothing else is lost.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::os::unix::fs::symlink;
use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use shared::ids::SessionId;
use tests::agent;
use tests::device::Device;
use tests::home::{TestHome, is_alive};
use tests::model_server::ModelServer;
use tests::story::machine;
use tests::wait;

async fn running() -> TestHome {
    let mut home = machine();
    home.listen().await;
    home
}

fn id(home: &TestHome, name: &str) -> SessionId {
    home.record(name)["id"].as_str().unwrap().parse().unwrap()
}

fn log_file(home: &TestHome, session: SessionId) -> PathBuf {
    home.home().session(session).log()
}

fn history(home: &TestHome, name: &str) -> String {
    home.ok(["attach", name, "--no-follow"])
}

/// Kills the listener and the host of a session, as a power cut would.
async fn power_cut(home: &mut TestHome, session: SessionId) {
    let host = home.host_pid(session).expect("a host");
    home.kill_listener();
    kill(host, Signal::SIGKILL).unwrap();
    wait::until("the end of the host", || async { (!is_alive(host)).then_some(()) }).await;
}

#[tokio::test]
async fn a_torn_last_line_and_a_damaged_middle_line_cost_nothing_else() {
    let mut home = running().await;
    let _ = home.ok(["start", "one", "--harness", "aura"]);
    for text in ["echo first", "echo second", "echo third"] {
        let _ = home.ok(["send", "one", "--wait", text]);
    }
    let session = id(&home, "one");
    power_cut(&mut home, session).await;
    let path = log_file(&home, session);
    let mut lines: Vec<Vec<u8>> =
        fs::read(&path).unwrap().split_inclusive(|byte| *byte == b'\n').map(<[u8]>::to_vec).collect();
    let damaged = lines
        .iter()
        .position(|line| {
            let line = String::from_utf8_lossy(line);
            line.contains("\"assistant\"") && line.contains("second")
        })
        .unwrap();
    lines[damaged] = b"{\"kind\":\"assist\xff\xfe\x00 garbage\n".to_vec();
    let torn = b"{\"kind\":\"assistant\",\"message\":\"m\",\"te";
    lines.push(torn.to_vec());
    fs::write(&path, lines.concat()).unwrap();

    home.listen().await;
    wait::until("reconciling", || async { home.record("one")["host"].is_null().then_some(()) }).await;
    let text = home.ok(["send", "one", "--wait", "echo fourth"]);
    assert!(text.contains("fourth"), "{text}");
    let shown = history(&home, "one");
    for said in ["\nfirst\n", "› echo second", "\nthird\n", "\nfourth\n"] {
        assert!(shown.contains(said), "{said:?} is missing in:\n{shown}");
    }
    assert!(!shown.contains("\nsecond\n") && !shown.contains("garbage"), "{shown}");
    assert_eq!(shown.matches(&format!("was cut ({} bytes)", torn.len())).count(), 1, "{shown}");
    let sentence = "The log of this session is damaged: ";
    let notice = shown.lines().find(|line| line.contains(sentence)).expect("a notice of the damage");
    assert!(notice.contains(&(damaged + 1).to_string()), "{notice}");
    assert!(home.listener_log().contains("lines of this log are damaged"), "{}", home.listener_log());
    let content = fs::read(&path).unwrap();
    assert!(
        !String::from_utf8_lossy(&content).contains("\"te{"),
        "the torn line was cut before more was written"
    );
    for (line, number) in content.split(|byte| *byte == b'\n').zip(1_u64..) {
        if let Ok(entry) = serde_json::from_slice::<serde_json::Value>(line) {
            assert_eq!(entry["sequence"], number, "each line keeps its number");
        }
    }

    // It is said once, not at every start.
    power_cut(&mut home, session).await;
    home.listen().await;
    let _ = home.ok(["send", "one", "--wait", "echo fifth"]);
    let shown = history(&home, "one");
    assert_eq!(shown.matches(sentence).count(), 1, "{shown}");
    assert_eq!(shown.matches("was cut (").count(), 1, "{shown}");
}

#[tokio::test]
async fn a_damaged_record_hides_one_session_and_deletes_nothing() {
    let mut home = running().await;
    for name in ["good", "broken"] {
        let _ = home.ok(["start", name, "--harness", "aura"]);
        let _ = home.ok(["send", name, "--wait", "echo kept"]);
    }
    let session = id(&home, "broken");
    power_cut(&mut home, session).await;
    let record = home.home().session(session).record();
    let before = fs::read(&record).unwrap();
    for damage in [&b""[..], b"{\"id\":", b"\xff\xfe", b"[]", &before[..before.len() / 2]] {
        fs::write(&record, damage).unwrap();
        let log = fs::read(log_file(&home, session)).unwrap();
        home.listen().await;
        let names: Vec<_> = home.records().iter().map(|record| record["name"].clone()).collect();
        assert_eq!(names, ["good"]);
        assert!(home.ok(["send", "good", "--wait", "echo as before"]).contains("as before"));
        assert_eq!(home.run(["show", "broken"]).status.code(), Some(4));
        let doctor = home.ok(["doctor"]);
        assert!(
            doctor.contains(&format!("{session} cannot be shown: its record.json is damaged")),
            "{doctor}"
        );
        assert!(
            doctor.contains(&record.display().to_string()) && doctor.contains("nothing of it was deleted"),
            "{doctor}"
        );
        assert_eq!(fs::read(&record).unwrap(), damage);
        assert_eq!(fs::read(log_file(&home, session)).unwrap(), log);
        home.kill_listener();
    }
    fs::write(&record, before).unwrap();
    home.listen().await;
    assert!(history(&home, "broken").contains("\nkept\n"));
    assert!(home.ok(["send", "broken", "--wait", "echo mended"]).contains("mended"));
    assert!(!home.ok(["doctor"]).contains("cannot be shown"));
}

#[tokio::test]
async fn a_damaged_list_of_devices_is_never_taken_for_an_empty_one() {
    let mut home = running().await;
    home.keep_port();
    let device = Device::paired(&home, "phone").await;
    home.kill_listener();
    let path = home.home().peers();
    let before = fs::read(&path).unwrap();
    for damage in [&b""[..], b"{", b"\xff", &before[..before.len() - 3], b"{\"x\":1}"] {
        fs::write(&path, damage).unwrap();
        for arguments in [&["listen"][..], &["devices"], &["start", "x", "--harness", "aura"]] {
            let output = home.run(arguments);
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            assert_eq!(output.status.code(), Some(1), "{arguments:?}: {said}");
            assert!(
                said.contains(&format!("{} is not a list of devices", path.display())),
                "{arguments:?}: {said}"
            );
            assert!(said.contains("move it away and pair every device anew"), "{said}");
        }
        assert_eq!(fs::read(&path).unwrap(), damage, "it was left as it is");
    }
    fs::write(&path, before).unwrap();
    home.listen().await;
    let (_link, records) = device.machine().await;
    assert!(records.is_empty());
}

#[tokio::test]
async fn broken_text_of_a_tool_is_replaced_and_the_session_opens_again() {
    let mut home = running().await;
    fs::write(home.work().join("broken.bin"), b"before \xff\xfe\xed\xa0\x80\x00 after \xf0\x9f").unwrap();
    let _ = home.ok(["start", "one", "--harness", "aura"]);
    let text = home.ok(["send", "one", "--wait", "run cat broken.bin"]);
    assert!(text.contains("before \u{fffd}") && text.contains(" after \u{fffd}"), "{text:?}");
    let session = id(&home, "one");
    power_cut(&mut home, session).await;
    home.listen().await;
    assert!(history(&home, "one").contains("before \u{fffd}"));
    assert!(home.ok(["send", "one", "--wait", "echo next"]).contains("next"));
    assert!(!home.listener_log().contains("damaged"), "{}", home.listener_log());
}

/// Shakes hands as Claude Code does, and answers every turn with what no program should print.
const IMPOSTOR: &str = r#"
case "$*" in *--input-format*) ;; *) exec "$REAL" "$@";; esac
while read -r line; do case "$line" in
*'"type":"control_request"'*)
    id=$(printf '%s' "$line" | sed 's/.*"request_id":"\([^"]*\)".*/\1/')
    printf '{"type":"control_response","response":{"subtype":"success","request_id":"%s","response":{"models":[],"agents":[],"current_permission_mode":"default"}}}\n' "$id";;
*'"type":"user"'*)
    printf '%s\n' "$line" | sed 's/^{/{"isReplay":true,/'
    printf 'Segmentation fault\n\377\376\n{"type":"assist\n'
    printf '%s\n' '{"type":"assistant","message":{"id":"m","content":[{"type":"text","text":"a\ud800b\udc00c\u0000d"}]}}'
    printf '{"type":"assistant","message":{"id":"n","content":[{"type":"text","text":"bytes \377 here"}]}}\n'
    printf '%s\n' '{"type":"result","subtype":"success","is_error":false,"result":"done"}';;
esac; done
"#;

// The commands wait for whole programs.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn lone_surrogates_and_broken_bytes_of_an_agent_lose_no_session() {
    let server = ModelServer::start().await;
    let mut home = TestHome::new();
    fs::create_dir(home.path().join("home")).unwrap();
    let real = agent::claude(home.path(), &server, "export ANTHROPIC_API_KEY=dummy");
    let impostor = format!("REAL='{}'\n{IMPOSTOR}", real.display());
    let impostor = agent::script_in(home.path(), "impostor", &impostor);
    home.write_config(&format!("[claude]\nprogram = \"{}\"", impostor.display()));
    home.listen().await;
    let _ = home.ok(["start", "one", "--harness", "claude"]);
    let text = home.ok(["send", "one", "--wait", "hello"]);
    assert!(text.contains("a\u{fffd}b\u{fffd}c"), "{text:?}");
    let session = id(&home, "one");
    power_cut(&mut home, session).await;
    home.listen().await;
    assert!(history(&home, "one").contains("a\u{fffd}b\u{fffd}c"));
    assert!(home.ok(["send", "one", "--wait", "again"]).contains("a\u{fffd}b"));
    assert!(!home.listener_log().contains("damaged"), "{}", home.listener_log());
}

#[tokio::test]
async fn a_working_directory_may_be_odd_but_must_be_there() {
    let home = running().await;
    fs::write(home.work().join("a file"), "").unwrap();
    symlink("nowhere", home.work().join("dangling")).unwrap();
    for (folder, reason) in [("missing", "missing"), ("a file", "a file"), ("dangling", "dangling")] {
        let output = home.run(["start", "bad", "--harness", "aura", "-C", folder]);
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(5), "{folder}: {said}");
        assert!(said.contains(reason) && said.contains("--directory"), "{folder}: {said}");
    }
    assert_eq!(home.records(), [] as [serde_json::Value; 0], "nothing was started");

    let odd = home.work().join("with space 🦀 'quote' \"two\"");
    fs::create_dir(&odd).unwrap();
    symlink(&odd, home.work().join("link to it")).unwrap();
    for (name, folder) in [("odd", "with space 🦀 'quote' \"two\""), ("linked", "link to it")] {
        let _ = home.ok(["start", name, "--harness", "aura", "-C", folder]);
        assert_eq!(home.record(name)["working_directory"], odd.to_str().unwrap(), "links are followed once");
        let text = home.ok(["send", name, "--wait", "run pwd"]);
        assert!(text.contains(odd.to_str().unwrap()), "{text}");
    }

    // A folder that goes away later takes no session with it.
    let session = id(&home, "odd");
    let _ = home.ok(["stop", "odd"]);
    wait::until("the end of the host", || async { home.record("odd")["host"].is_null().then_some(()) }).await;
    let away = home.work().join("away");
    fs::rename(&odd, &away).unwrap();
    let output = home.run(["send", "odd", "--wait", "run pwd"]);
    let said =
        format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(!output.status.success(), "{said}");
    assert!(said.contains(odd.to_str().unwrap()), "the folder is named: {said}");
    fs::rename(&away, &odd).unwrap();
    let text = home.ok(["send", "odd", "--wait", "run pwd"]);
    assert!(text.contains(odd.to_str().unwrap()), "{text}");
    assert_eq!(id(&home, "odd"), session);
}
