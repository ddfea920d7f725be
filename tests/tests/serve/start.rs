//! From the command line to the ready file: what is told, in which order it is checked, and that the token goes nowhere.

use std::fs;
use std::io::Write as _;
use std::net::TcpListener;
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tests::aura::{AuraHome, conversation};
use tests::programs;
use tests::served::{TOKEN, kinds, text};

use super::HI;

fn code(error: &Value) -> &str {
    error["code"].as_str().unwrap()
}

/// `aura` through a shell, which runs `before` first; the flags come behind.
fn through_shell(home: &AuraHome, before: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(format!("{before}; exec \"$@\"")).arg("sh").arg(programs::aura());
    command.arg("--home").arg(home.root()).current_dir(home.path()).stdin(Stdio::null());
    command
}

#[test]
fn the_ready_file_tells_where_a_server_is_once_its_session_is_saved() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let told = &server.told;
    assert_eq!(
        *told,
        json!({
            "api": 1, "url": format!("http://{}", server.address), "pid": server.child.id(), "session_id": server.session,
            "aura_version": env!("CARGO_PKG_VERSION"), "commit": told["commit"],
            "workdir": fs::canonicalize(home.path()).unwrap(), "write_home": fs::canonicalize(home.root()).unwrap(),
        })
    );
    assert_eq!(fs::metadata(&server.ready).unwrap().mode() & 0o777, 0o600);
    assert_eq!(uuid::Uuid::parse_str(&server.session).unwrap().to_string(), server.session);
    assert!(home.file(&server.session).exists(), "a fresh session is saved before readiness");
    assert_eq!(kinds(&server.events()), ["server.started", "session.persisted[start]"]);
    let started = server.event_of("server.started");
    let data =
        json!({"pid": server.child.id(), "version": env!("CARGO_PKG_VERSION"), "resumed_revision": null});
    assert_eq!(started["data"], data);
    let stored = home.ok(["show", &server.session]);
    let persisted = server.event_of("session.persisted");
    let data = json!({"revision": stored["revision"], "messages": 0, "reason": "start", "changed": true});
    assert_eq!((&persisted["data"], &persisted["run_id"]), (&data, &Value::Null));
}

#[test]
fn a_resumed_session_goes_on_where_it_was() {
    let home = AuraHome::new();
    let stored = home.script(HI).stored("task-1", &conversation());
    let server = home.resume("task-1");
    assert_eq!(server.session, "task-1");
    assert_eq!(server.event_of("server.started")["data"]["resumed_revision"], stored["revision"]);
    assert_eq!(server.event_of("session.persisted")["data"]["changed"], false);
    let session = server.get("/v1/session").body;
    assert_eq!((&session["messages"], &session["revision"]), (&json!(4), &stored["revision"]));
    server.done("r", "more");
    assert_eq!(server.get("/v1/session").body["messages"], 6);
}

#[test]
fn unauthorized_without_a_token_that_is_one() {
    let home = AuraHome::new();
    home.script(HI);
    let mut none = home.command();
    none.env_remove("AURA_SERVE_TOKEN");
    none.env("AURA_SERVE_TOKEN", "");
    assert_eq!(code(&home.begin(none, &[]).refused()), "unauthorized");
    for weak in ["0123456789012345678901234567890", "a token with spaces that is long enough by far"] {
        let mut command = home.command();
        command.env("AURA_SERVE_TOKEN", weak);
        let error = home.begin(command, &["--resume", "../no-id"]).refused();
        assert_eq!(code(&error), "unauthorized", "it is checked before all else");
        assert!(!text(&error["message"]).contains(weak));
    }
    assert!(!home.store().exists(), "nothing was begun");
}

#[test]
fn config_invalid_names_the_place() {
    let home = AuraHome::new();
    let error = home.settings("[provider.x]\nkind = \"script\"").refused(&["--resume", "../no-id"]);
    assert_eq!(code(&error), "config_invalid", "it is checked before the id");
    assert!(text(&error["message"]).contains("config.toml"), "{error}");
    let home = AuraHome::new();
    assert_eq!(code(&home.script(HI).refused(&["--agent", "nobody"])), "config_invalid");
    assert_eq!(code(&home.refused(&["--provider", "nobody"])), "config_invalid");
    for bind in ["0.0.0.0:0", "localhost", "[::]:1"] {
        assert_eq!(code(&home.refused(&["serve", "--bind", bind])), "config_invalid", "{bind}");
    }
    for descriptor in ["-1", "0", "77"] {
        assert_eq!(code(&home.refused(&["serve", "--launcher-fd", descriptor])), "config_invalid");
    }
}

#[test]
fn invalid_id_not_found_resume_failed_and_session_frozen_of_a_session() {
    let home = AuraHome::new();
    home.script(HI).stored("cold", &conversation());
    home.ok(["freeze", "cold"]);
    fs::write(home.file("broken"), "{}").unwrap();
    fs::set_permissions(home.file("broken"), fs::Permissions::from_mode(0o600)).unwrap();
    for (id, expected) in [
        ("../cold", "invalid_id"),
        ("nobody", "not_found"),
        ("broken", "resume_failed"),
        ("cold", "session_frozen"),
    ] {
        let error = home.refused(&["--resume", id]);
        assert_eq!(code(&error), expected);
        assert_eq!((&error["retryable"], &error["details"]), (&json!(false), &json!({})));
    }
}

#[test]
fn session_locked_while_another_server_holds_it() {
    let home = AuraHome::new();
    home.script(HI).stored("task-1", &conversation());
    let first = home.resume("task-1");
    assert_eq!(code(&home.refused(&["--resume", "task-1"])), "session_locked");
    assert_eq!(home.code(["freeze", "task-1"]), "session_locked");
    first.done("r", "hello");
    first.kill();
    home.resume("task-1");
}

#[test]
fn startup_failed_for_a_port_that_is_taken() {
    let home = AuraHome::new();
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    assert_eq!(code(&home.script(HI).refused(&["serve", "--bind", &address])), "startup_failed");
}

#[test]
fn a_ready_file_that_cannot_be_written_is_said_on_standard_error() {
    let home = AuraHome::new();
    let mut command = home.script(HI).command();
    command.arg("serve").arg("--ready-file").arg(home.path().join("nowhere/ready"));
    let output = command.env("AURA_SERVE_TOKEN", TOKEN).output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stderr).contains("nowhere/ready"), "{output:?}");
}

#[test]
fn no_child_has_the_token_and_no_file_either() {
    let home = AuraHome::new();
    let server = home
        .script(
            "[[step]]\nmatch = \"go\"\ncalls = [{ tool = \"bash\", input = { command = \"env; tr '\\\\0' '\\\\n' < /proc/$PPID/environ\" } }]
[[step]]\nfrom = \"tool\"\ntext = \"done\"\n[[step]]\ntext = \"x\"",
        )
        .settings("[tools]\nbash = \"allow\"")
        .serve();
    server.done("r", "go");
    let result = text(&server.event_of("tool.finished")["data"]["result"]);
    assert!(result.contains("PATH="), "{result}");
    assert!(!result.contains(TOKEN) && !result.contains("AURA_SERVE_TOKEN"), "{result}");
    let environment = fs::read(format!("/proc/{}/environ", server.child.id())).unwrap();
    assert!(!String::from_utf8_lossy(&environment).contains(TOKEN), "not even of the server itself");
    let written = Command::new("grep").args(["-r", TOKEN]).arg(home.path()).output().unwrap();
    assert_eq!(written.stdout, b"", "{written:?}");
}

#[test]
fn launcher_lost_where_the_launcher_dies_before_it_released_the_server() {
    let home = AuraHome::new();
    home.script(HI);
    let flags = ["serve", "--launcher-fd", "7"];
    // It died before the server began.
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let error = home.begin(inheriting(&home, reader.as_raw_fd()), &flags).refused();
    assert_eq!(code(&error), "launcher_lost");
    // It dies after it was ready.
    let (reader, writer) = std::io::pipe().unwrap();
    let server = home.begin(inheriting(&home, reader.as_raw_fd()), &flags).served();
    let journal = home.journal(&server.session);
    drop(writer);
    assert_eq!(server.ended(), Some(0));
    let events = fs::read_to_string(journal).unwrap();
    let events: Vec<Value> = events.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert_eq!(
        kinds(&events)[2..],
        ["server.stopping[launcher_lost]", "session.persisted[shutdown]"],
        "as by any other end"
    );
}

#[test]
fn a_released_server_outlives_its_launcher_and_no_tool_holds_the_lease() {
    let home = AuraHome::new();
    home.script(
        "[[step]]\nmatch = \"go\"\ncalls = [{ tool = \"bash\", input = { command = \"ls -l /proc/self/fd\" } }]
[[step]]\nfrom = \"tool\"\ntext = \"done\"",
    )
    .settings("[tools]\nbash = \"allow\"");
    let (reader, mut writer) = std::io::pipe().unwrap();
    let server = home.begin(inheriting(&home, reader.as_raw_fd()), &["serve", "--launcher-fd", "7"]).served();
    drop(reader);
    server.done("r", "go");
    let descriptors = text(&server.event_of("tool.finished")["data"]["result"]);
    assert!(!descriptors.contains(" 7 ->"), "{descriptors}");
    writer.write_all(b"x").unwrap();
    drop(writer);
    server.done("r2", "go");
    assert_eq!(server.stop(), Some(0));
}

/// `aura` to which the descriptor is given as number 7.
fn inheriting(home: &AuraHome, descriptor: i32) -> Command {
    let path = format!("/proc/{}/fd/{descriptor}", std::process::id());
    through_shell(home, &format!("exec 7<{path}"))
}

#[test]
fn an_old_ready_file_is_gone_before_anything_is_checked() {
    let home = AuraHome::new();
    let mut first = home.begin(home.script(HI).command(), &[]);
    let told = first.told();
    let ready = first.ready.clone();
    drop(first);
    let mut command = home.command();
    command.arg("serve").arg("--ready-file").arg(&ready).env("AURA_SERVE_TOKEN", "weak");
    assert_eq!(command.output().unwrap().status.code(), Some(1));
    let now: Value = serde_json::from_slice(&fs::read(&ready).unwrap()).unwrap();
    assert_eq!((&now["error"]["code"], &told["error"]), (&json!("unauthorized"), &Value::Null));
}

#[test]
fn a_transcript_for_the_operator_has_the_thinking_and_the_journal_has_none() {
    let home = AuraHome::new();
    home.script("[[step]]\nthinking = \"a deep thought\"\ntext = \"hi\"");
    let transcript = home.path().join("transcript");
    fs::write(&transcript, "an earlier one").unwrap();
    fs::set_permissions(&transcript, fs::Permissions::from_mode(0o600)).unwrap();
    let server = home.serve_with(&["--output", transcript.to_str().unwrap()]);
    let run = server.done("r", "hello");
    let recorded = fs::read_to_string(&transcript).unwrap();
    assert_eq!(recorded, "> hello\n\n(thinking)\na deep thought\n\nhi\n\n");
    let journal = fs::read_to_string(home.journal(&server.session)).unwrap();
    assert!(!journal.contains("a deep thought"));
    assert_eq!(run["result"], json!({"content": "hi"}));
    let shown = server.get("/v1/session/messages").body;
    assert!(!shown.to_string().contains("a deep thought"), "only where it is asked for");
    let shown = server.get("/v1/session/messages?thinking=true").body;
    assert_eq!(shown["messages"][1]["thinking"], "a deep thought");
}

#[test]
fn a_damaged_journal_is_startup_failed_and_stays_as_it_is() {
    let home = AuraHome::new();
    let server = home.script(HI).serve();
    let id = server.session.clone();
    server.done("r", "hello");
    server.kill();
    let whole = fs::read(home.journal(&id)).unwrap();
    let lines: Vec<&[u8]> = whole.split_inclusive(|byte| *byte == b'\n').collect();
    // A line is missing; a blank one; one of another session.
    let missing = [&lines[..2], &lines[3..]].concat().concat();
    let blank = [&whole[..], b"\n"].concat();
    let foreign = String::from_utf8(whole.clone()).unwrap().replacen(&id, "another", 1).into_bytes();
    for (damaged, line) in [(missing, 3), (blank, lines.len() + 1), (foreign, 1)] {
        fs::write(home.journal(&id), &damaged).unwrap();
        let error = home.refused(&["--resume", &id]);
        assert_eq!(code(&error), "startup_failed");
        let message = text(&error["message"]);
        assert!(message.contains(&format!("{id}.jsonl")) && message.contains(&line.to_string()), "{message}");
        assert_eq!(fs::read(home.journal(&id)).unwrap(), damaged, "nothing is changed");
    }
}
