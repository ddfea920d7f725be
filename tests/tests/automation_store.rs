//! The session store of the automation contract, through the real program: answers, codes, repetition, crashes, hostile files.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{FileTypeExt as _, MetadataExt as _, PermissionsExt as _, symlink};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::automation::error::Code;
use host::automation::store::{Revision, Store};
use serde_json::{Value, json};
use tests::aura::{AuraHome, answer, code, conversation};
use tests::programs;

fn revision(path: &Path) -> String {
    Revision::of(&fs::read(path).unwrap()).to_string()
}

fn text(path: &Path) -> &str {
    path.to_str().unwrap()
}

fn keys(value: &Value) -> Vec<&str> {
    value.as_object().unwrap().keys().map(String::as_str).collect()
}

#[test]
fn each_command_answers_exactly_its_fields() {
    let home = AuraHome::new();
    assert_eq!(home.ok(["list"]), json!({"sessions": [], "warnings": []}));
    let source = home.path().join("source.json");
    fs::write(&source, conversation().to_string()).unwrap();
    let imported = home.ok(["import", text(&source), "--id", "parent"]);
    let summary = imported["session"].clone();
    assert_eq!(
        imported,
        json!({"session": summary, "created": true, "frozen_now": false, "source_sha256": revision(&source)})
    );
    assert_eq!(
        summary,
        json!({"id": "parent", "title": "a title", "created_at": summary["created_at"], "updated_at": summary["created_at"],
               "revision": revision(&home.file("parent")), "messages": 4, "frozen": false, "parent": null})
    );
    assert_eq!(home.ok(["show", "parent"]), summary);
    assert_eq!(home.ok(["list"]), json!({"sessions": [summary], "warnings": []}));
    let out = home.path().join("out.json");
    assert_eq!(
        home.ok(["export", "parent", "--output", "out.json"]),
        json!({"session": summary, "path": text(&out), "sha256": summary["revision"], "written": true})
    );
    assert_eq!(fs::read(&out).unwrap(), fs::read(home.file("parent")).unwrap(), "verbatim");
    assert_eq!(fs::metadata(&out).unwrap().mode() & 0o777, 0o600);
    let forked = home.ok(["fork", "parent", "--id", "child"]);
    let child = forked["session"].clone();
    assert_eq!(forked, json!({"session": child, "parent": summary, "created": true}));
    assert_eq!(child["parent"], json!({"id": "parent", "revision": summary["revision"]}));
    assert_eq!((&child["title"], &child["messages"]), (&json!("a title"), &json!(4)));
    let frozen = home.ok(["freeze", "child"]);
    assert_eq!(frozen, json!({"session": home.ok(["show", "child"]), "changed": true}));
    assert_eq!(frozen["session"]["frozen"], true);
    assert_eq!(frozen["session"]["updated_at"], child["updated_at"], "what was said stays as it is");
    assert_eq!(keys(&home.ok(["list"])), ["sessions", "warnings"]);
}

#[test]
fn a_fork_copies_the_history_and_starts_without_statistics() {
    let home = AuraHome::new();
    let mut content = conversation();
    content["statistics"] = json!({"tokens": 5});
    home.stored("parent", &content);
    let before = fs::read(home.file("parent")).unwrap();
    home.ok(["freeze", "parent"]);
    let frozen = fs::read(home.file("parent")).unwrap();
    assert_ne!(before, frozen);
    home.ok(["fork", "parent", "--id", "child", "--title", "another"]);
    let read = |id: &str| serde_json::from_slice::<Value>(&fs::read(home.file(id)).unwrap()).unwrap();
    let (parent, child) = (read("parent"), read("child"));
    for same in ["messages", "metadata", "todos"] {
        assert_eq!(parent[same], child[same]);
    }
    assert_eq!((&parent["statistics"], &child["statistics"]), (&json!({"tokens": 5}), &json!({})));
    assert_eq!((&child["title"], &child["frozen"]), (&json!("another"), &json!(false)));
    assert_eq!(fs::read(home.file("parent")).unwrap(), frozen, "the parent is only read");
}

#[test]
fn whatever_is_asked_again_is_answered_and_not_done_again() {
    let home = AuraHome::new();
    let parent = home.stored("parent", &conversation());
    let again = home.ok(["import", "parent.source", "--id", "parent"]);
    assert_eq!((&again["created"], &again["session"]), (&json!(false), &parent));
    let first = home.ok(["fork", "parent", "--id", "child", "--title", "one"]);
    let retried = home.ok(["fork", "parent", "--id", "child", "--title", "two"]);
    assert_eq!((&retried["created"], &retried["session"]), (&json!(false), &first["session"]));
    assert_eq!(retried["session"]["title"], "one", "returned as stored");
    home.ok(["export", "parent", "--output", "out"]);
    assert_eq!(home.ok(["export", "parent", "--output", "out"])["written"], false);
    // An export is an import of the same; a frozen one comes in unfrozen.
    let frozen = home.ok(["freeze", "child"]);
    assert_eq!(home.ok(["freeze", "child", "--expect-revision", &"0".repeat(64)])["changed"], false);
    assert_eq!(home.ok(["freeze", "child"])["session"], frozen["session"]);
    home.ok(["export", "child", "--output", "frozen.json"]);
    let other = AuraHome::new();
    let source = home.path().join("frozen.json");
    let imported = other.ok(["import", text(&source)]);
    assert_eq!(
        (&imported["session"]["id"], &imported["session"]["frozen"]),
        (&json!("child"), &json!(false))
    );
    assert_eq!(imported["session"]["parent"], Value::Null);
    let frozen_now = other.ok(["import", text(&source), "--freeze"]);
    assert_eq!((&frozen_now["created"], &frozen_now["frozen_now"]), (&json!(false), &json!(true)));
    let frozen_before = other.ok(["import", text(&source), "--freeze"]);
    assert_eq!((&frozen_before["created"], &frozen_before["frozen_now"]), (&json!(false), &json!(false)));
    let at_once = other.ok(["import", text(&source), "--id", "third", "--freeze"]);
    assert_eq!((&at_once["created"], &at_once["frozen_now"]), (&json!(true), &json!(true)));
    assert_eq!(at_once["session"]["frozen"], true);
    // Without any id a new one is made.
    fs::write(other.path().join("nameless"), r#"{"messages":[]}"#).unwrap();
    let nameless = other.ok(["import", "nameless"]);
    assert!(uuid::Uuid::parse_str(nameless["session"]["id"].as_str().unwrap()).is_ok());
}

#[test]
fn each_code_of_the_store_has_its_cause() {
    let home = AuraHome::new();
    home.stored("parent", &conversation());
    home.stored("other", &json!({"messages": []}));
    let zeros = "0".repeat(64);
    let long = "x".repeat(129);
    fs::write(home.path().join("taken"), "something else").unwrap();
    fs::create_dir(home.path().join("folder")).unwrap();
    fs::write(home.path().join("damaged"), "{}").unwrap();
    let mut dangling = conversation();
    dangling["messages"].as_array_mut().unwrap().remove(3);
    fs::write(home.path().join("dangling"), dangling.to_string()).unwrap();
    fs::write(home.file("bad"), "{\"id\":\"bad\"").unwrap();
    fs::copy(home.file("other"), home.file("moved")).unwrap();
    let inside = home.store().join("x.json");
    for (expected, arguments) in [
        ("not_found", &["show", "nobody"][..]),
        ("not_found", &["export", "nobody", "--output", "x"]),
        ("not_found", &["export", "parent", "--output", "no/where"]),
        ("not_found", &["fork", "nobody", "--id", "x"]),
        ("not_found", &["freeze", "nobody"]),
        ("not_found", &["import", "nothing"]),
        ("exists", &["import", "parent.source", "--id", "other"]),
        ("exists", &["import", "parent.source", "--id", "bad"]),
        ("exists", &["export", "parent", "--output", "taken"]),
        ("exists", &["export", "parent", "--output", "folder"]),
        ("exists", &["fork", "parent", "--id", "other"]),
        ("exists", &["fork", "parent", "--id", "parent"]),
        ("revision_mismatch", &["fork", "parent", "--id", "x", "--expect-revision", &zeros]),
        ("revision_mismatch", &["freeze", "parent", "--expect-revision", &zeros]),
        ("invalid_id", &["show", ".."]),
        ("invalid_id", &["show", "../other"]),
        ("invalid_id", &["show", "/etc/passwd"]),
        ("invalid_id", &["show", ""]),
        ("invalid_id", &["show", &long]),
        ("invalid_id", &["freeze", ".locks"]),
        ("invalid_id", &["export", "a b", "--output", "x"]),
        ("invalid_id", &["import", "nothing", "--id", "a/b"]),
        ("invalid_id", &["fork", "parent", "--id", "ä"]),
        ("invalid_id", &["fork", "..", "--id", "x"]),
        ("invalid_session", &["show", "bad"]),
        ("invalid_session", &["show", "moved"]),
        ("invalid_session", &["fork", "bad", "--id", "x"]),
        ("invalid_session", &["freeze", "bad"]),
        ("invalid_session", &["export", "bad", "--output", "x"]),
        ("invalid_session", &["import", "damaged"]),
        ("invalid_session", &["import", "dangling"]),
        ("invalid_session", &["import", "folder"]),
        ("bad_request", &["export", "parent", "--output", text(&inside)]),
        ("bad_request", &["freeze", "parent", "--expect-revision", "ABC"]),
        ("bad_request", &["fork", "parent", "--id", "x", "--expect-revision", &zeros[1..]]),
        ("bad_request", &["fork", "parent"]),
        ("bad_request", &["unknown"]),
        ("bad_request", &["show"]),
        ("bad_request", &["list", "--unknown"]),
        ("bad_request", &["show", "parent", "other"]),
    ] {
        assert_eq!(home.code(arguments), expected, "{arguments:?}");
    }
    for left in ["x", "no", "..json"] {
        assert!(
            !home.path().join(left).exists() && !home.file(left).exists(),
            "nothing is left of a refusal"
        );
    }
    // A usage error without --json is one for people.
    let usage = home.command().args(["session", "show"]).output().unwrap();
    assert_eq!(usage.status.code(), Some(2));
}

#[test]
fn a_damaged_file_is_a_warning_in_the_list_and_hides_no_other_session() {
    let home = AuraHome::new();
    home.stored("good", &conversation());
    fs::write(home.file("bad"), "x").unwrap();
    fs::write(home.store().join("not an id.json"), "x").unwrap();
    fs::write(home.store().join(".good.json.tmp"), "x").unwrap();
    fs::write(home.store().join("notes.txt"), "x").unwrap();
    symlink(home.file("good"), home.file("link")).unwrap();
    fs::create_dir(home.file("folder")).unwrap();
    nix::unistd::mkfifo(&home.file("fifo"), nix::sys::stat::Mode::S_IRUSR).unwrap();
    assert!(fs::metadata(home.file("fifo")).unwrap().file_type().is_fifo());
    let list = home.ok(["list"]);
    let ids: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(ids, ["good"]);
    let warnings = list["warnings"].as_array().unwrap();
    assert_eq!(warnings.len(), 5, "{warnings:?}");
    for (warning, name) in warnings.iter().zip(["bad", "fifo", "folder", "link", "not an id"]) {
        assert!(warning.as_str().unwrap().starts_with(name), "{warning}");
    }
    for id in ["link", "folder", "fifo"] {
        for arguments in
            [&["show", id][..], &["freeze", id], &["fork", id, "--id", "x"], &["export", id, "--output", "x"]]
        {
            assert_eq!(home.code(arguments), "invalid_session", "{arguments:?}");
        }
        assert_eq!(home.code(["import", "good.source", "--id", id]), "exists");
    }
    assert!(fs::symlink_metadata(home.file("link")).unwrap().is_symlink(), "a link is never written through");
}

#[test]
fn sessions_are_listed_by_the_time_of_their_last_change_and_then_by_id() {
    let home = AuraHome::new();
    for (id, second) in [("b", 1), ("a", 1), ("c", 2)] {
        let content = json!({
            "id": id, "title": "", "created_at": "2026-01-01T00:00:00.000Z", "updated_at": format!("2026-01-01T00:00:0{second}.000Z"),
            "frozen": false, "parent": null, "metadata": {}, "todos": [], "statistics": {}, "messages": []
        });
        fs::create_dir_all(home.store()).unwrap();
        fs::write(home.file(id), content.to_string()).unwrap();
    }
    let list = home.ok(["list"]);
    let ids: Vec<&Value> =
        list["sessions"].as_array().unwrap().iter().map(|session| &session["id"]).collect();
    assert_eq!(ids, ["c", "a", "b"]);
    let people = home.command().args(["session", "list"]).output().unwrap();
    assert_eq!(String::from_utf8(people.stdout).unwrap().lines().count(), 3);
}

#[test]
fn the_store_is_below_the_last_config_and_else_below_the_home() {
    let home = AuraHome::new();
    let outside = home.path().join("run/aura-home");
    fs::write(home.path().join("s"), r#"{"id":"s","messages":[]}"#).unwrap();
    let mut command = Command::new(programs::aura());
    command.current_dir(home.path()).args(["--home", "", "--config", ".aura", "--config"]).arg(&outside);
    let output = command.args(["session", "import", "s", "--json"]).output().unwrap();
    assert_eq!(answer(&output)["created"], true);
    assert!(outside.join("sessions/s.json").is_file());
    assert!(!home.path().join(".aura").exists());
    let mut usual = Command::new(programs::aura());
    let output = usual
        .current_dir(home.path())
        .env("HOME", home.path())
        .args(["session", "import", "s", "--json"])
        .output();
    assert_eq!(answer(&output.unwrap())["created"], true);
    assert!(home.path().join(".aura/sessions/s.json").is_file());
    let none =
        Command::new(programs::aura()).args(["--home", "", "session", "list", "--json"]).output().unwrap();
    assert_eq!(code(&none), "config_invalid");
}

#[test]
fn a_session_is_held_by_a_lock_that_ends_with_its_process() {
    let home = AuraHome::new();
    home.stored("s", &conversation());
    let lock = home.store().join(".locks/s.lock");
    assert_eq!(fs::metadata(&lock).unwrap().mode() & 0o777, 0o600);
    let inode = fs::metadata(&lock).unwrap().ino();
    let mut holder = Command::new("flock")
        .arg(&lock)
        .args(["sh", "-c", "echo held; exec cat"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .expect("flock of util-linux");
    let mut said = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "held\n");
    assert_eq!(home.code(["freeze", "s"]), "session_locked");
    assert_eq!(home.code(["import", "s.source", "--id", "s", "--freeze"]), "session_locked");
    let store = Store::of(&home.root());
    assert_eq!(store.resume(&"s".parse().unwrap()).unwrap_err().code, Code::SessionLocked);
    // What only reads needs no lease.
    home.ok(["show", "s"]);
    home.ok(["list"]);
    home.ok(["export", "s", "--output", "out"]);
    home.ok(["fork", "s", "--id", "child"]);
    home.ok(["import", "s.source", "--id", "s"]);
    drop(holder.stdin.take());
    holder.wait().unwrap();
    assert_eq!(home.ok(["freeze", "s"])["changed"], true);
    assert_eq!(fs::metadata(&lock).unwrap().ino(), inode, "lock files stay");
    assert_eq!(store.resume(&"s".parse().unwrap()).unwrap_err().code, Code::SessionFrozen);
}

#[test]
fn of_eight_that_fork_or_import_one_id_at_once_exactly_one_creates_it() {
    let home = AuraHome::new();
    home.stored("parent", &conversation());
    for round in 0..4 {
        let id = format!("child-{round}");
        for arguments in [
            vec!["fork", "parent", "--id", &id],
            vec!["import", "parent.source", "--id", &format!("copy-{round}")],
        ] {
            let begun: Vec<_> = (0..8).map(|_| home.begun(&arguments)).collect();
            let answers: Vec<Value> =
                begun.into_iter().map(|child| answer(&child.wait_with_output().unwrap())).collect();
            let created = answers.iter().filter(|answer| answer["created"] == true).count();
            assert_eq!(created, 1, "{arguments:?}");
            let revisions: BTreeSet<&str> =
                answers.iter().map(|answer| answer["session"]["revision"].as_str().unwrap()).collect();
            assert_eq!(revisions.len(), 1, "all are told of the same");
        }
        let out = format!("out-{round}");
        let begun: Vec<_> = (0..8).map(|_| home.begun(["export", "parent", "--output", &out])).collect();
        let written = begun.into_iter().map(|child| answer(&child.wait_with_output().unwrap()));
        assert_eq!(written.filter(|answer| answer["written"] == true).count(), 1);
    }
    assert_eq!(fs::read_dir(home.path()).unwrap().count(), 6, "nothing temporary is left");
}

/// Fills messages up to this many bytes.
fn large(bytes: usize) -> Value {
    let text = "0123456789abcde\n".repeat(1024);
    let messages: Vec<Value> = (0..bytes / text.len())
        .map(|index| json!({"role": "user", "message_id": format!("m{index}"), "content": text}))
        .collect();
    json!({"title": "large", "messages": messages})
}

#[test]
fn a_program_that_is_killed_in_the_middle_of_a_save_leaves_the_old_or_the_new_session() {
    const POINTS: u64 = 24;
    let home = AuraHome::new();
    home.stored("s", &large(4 << 20));
    let old = fs::read(home.file("s")).unwrap();
    let total = u64::try_from(old.len()).unwrap();
    let mut killed_in_the_middle = 0;
    for point in 0..POINTS {
        fs::write(home.file("s"), &old).unwrap();
        let mut child = home.begun(["freeze", "s"]);
        // Killed as soon as so much of the new file is written; the last ones find it renamed, or the program ended.
        let enough = total * point / (POINTS - 1);
        let began = Instant::now();
        while child.try_wait().unwrap().is_none() && temporary_bytes(&home).is_none_or(|bytes| bytes < enough)
        {
            assert!(began.elapsed() < Duration::from_secs(60), "the program hangs");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        let left = temporary_bytes(&home).is_some();
        killed_in_the_middle += u64::from(left);
        let found = fs::read(home.file("s")).unwrap();
        let summary = home.ok(["show", "s"]);
        assert_eq!(summary["messages"], 256, "never torn");
        if left {
            assert!(found == old, "the old one stands");
        }
        // The next one does what was asked, and tidies.
        assert_eq!(home.ok(["freeze", "s"])["session"]["frozen"], true);
        assert!(left != (summary["frozen"] == true) || temporary_bytes(&home).is_none());
    }
    assert!(killed_in_the_middle > 0, "at least one was killed while it wrote");
}

/// How much is written of a new file that has not replaced the old one yet.
fn temporary_bytes(home: &AuraHome) -> Option<u64> {
    let entries = fs::read_dir(home.store()).unwrap().flatten();
    let mut temporary = entries.filter(|entry| entry.file_name().to_string_lossy().ends_with(".new"));
    temporary.next().and_then(|entry| entry.metadata().ok()).map(|metadata| metadata.len())
}

#[test]
fn a_full_disk_leaves_what_was_there_and_is_said() {
    let home = AuraHome::new();
    home.stored("s", &large(256 << 10));
    let old = fs::read(home.file("s")).unwrap();
    // Files may not grow beyond 64 blocks of 512 or 1024 bytes: a write fails in the middle, as on a full disk.
    let limited = |arguments: &[&str]| {
        let mut command = Command::new("sh");
        command.args(["-c", "trap '' XFSZ; ulimit -f 64; exec \"$@\"", "sh"]).arg(programs::aura());
        command
            .current_dir(home.path())
            .arg("--home")
            .arg(home.root())
            .arg("session")
            .args(arguments)
            .arg("--json");
        command.output().unwrap()
    };
    for arguments in [
        &["freeze", "s"][..],
        &["fork", "s", "--id", "child"],
        &["import", "s.source", "--id", "copy"],
        &["export", "s", "--output", "out"],
    ] {
        assert_eq!(code(&limited(arguments)), "internal", "{arguments:?}");
    }
    assert!(fs::read(home.file("s")).unwrap() == old);
    assert_eq!(temporary_bytes(&home), None);
    assert!(!home.file("child").exists() && !home.file("copy").exists() && !home.path().join("out").exists());
    assert_eq!(answer(&limited(&["show", "s"]))["messages"], 16);
}

#[test]
fn a_store_that_cannot_be_written_can_be_read() {
    let home = AuraHome::new();
    home.stored("s", &conversation());
    for folder in [home.store(), home.store().join(".locks")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o500)).unwrap();
    }
    let run = |arguments: &[&str]| {
        let mut command = if nix::unistd::geteuid().is_root() {
            // The superuser may write everywhere, unless it gives that up.
            let mut command = Command::new("setpriv");
            command.arg("--bounding-set=-dac_override,-dac_read_search").arg(programs::aura());
            command
        } else {
            Command::new(programs::aura())
        };
        command
            .current_dir(home.path())
            .arg("--home")
            .arg(home.root())
            .arg("session")
            .args(arguments)
            .arg("--json");
        command.output().unwrap()
    };
    for arguments in [
        &["list"][..],
        &["show", "s"],
        &["export", "s", "--output", "out"],
        &["import", "s.source", "--id", "s"],
    ] {
        answer(&run(arguments));
    }
    for arguments in
        [&["freeze", "s"][..], &["fork", "s", "--id", "child"], &["import", "s.source", "--id", "copy"]]
    {
        assert_eq!(code(&run(arguments)), "internal", "{arguments:?}");
    }
    for folder in [home.store(), home.store().join(".locks")] {
        fs::set_permissions(folder, fs::Permissions::from_mode(0o700)).unwrap();
    }
    assert_eq!(home.ok(["freeze", "s"])["changed"], true);
}

#[test]
fn a_session_of_a_hundred_megabytes_is_listed_without_being_held() {
    let home = AuraHome::new();
    fs::create_dir_all(home.store()).unwrap();
    let text = "0123456789abcdef".repeat(64 << 10);
    let mut file = fs::File::create(home.file("s")).unwrap();
    write!(
        file,
        r#"{{"id":"s","title":"","created_at":"2026-01-01T00:00:00.000Z","updated_at":"2026-01-01T00:00:00.000Z","frozen":false,"parent":null,"metadata":{{}},"todos":[],"statistics":{{}},"messages":["#
    )
    .unwrap();
    for index in 0..100 {
        let comma = if index == 0 { "" } else { "," };
        write!(file, r#"{comma}{{"role":"user","message_id":"m{index}","content":"{text}"}}"#).unwrap();
    }
    file.write_all(b"]}\n").unwrap();
    drop(file);
    // At most 32 MiB for everything that the program allocates.
    let mut command = Command::new("sh");
    command
        .args(["-c", "ulimit -d 32768; exec \"$@\"", "sh"])
        .arg(programs::aura())
        .arg("--home")
        .arg(home.root());
    let listed = answer(&command.args(["session", "list", "--json"]).output().unwrap());
    assert_eq!(listed["warnings"], json!([]));
    assert_eq!(listed["sessions"][0]["messages"], 100);
    let mut hash = Command::new("sha256sum").arg(home.file("s")).stdout(Stdio::piped()).spawn().unwrap();
    let mut digest = [0; 64];
    hash.stdout.take().unwrap().read_exact(&mut digest).unwrap();
    hash.wait().unwrap();
    assert_eq!(listed["sessions"][0]["revision"].as_str().unwrap().as_bytes(), digest);
}

#[test]
fn a_session_that_others_may_read_is_read_and_written_for_its_owner_alone() {
    let home = AuraHome::new();
    home.stored("s", &conversation());
    fs::set_permissions(home.file("s"), fs::Permissions::from_mode(0o644)).unwrap();
    home.ok(["show", "s"]);
    home.ok(["freeze", "s"]);
    assert_eq!(fs::metadata(home.file("s")).unwrap().mode() & 0o777, 0o600);
    fs::set_permissions(home.store(), fs::Permissions::from_mode(0o777)).unwrap();
    assert_eq!(home.code(["fork", "s", "--id", "x"]), "internal");
    fs::set_permissions(home.store(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert_eq!(home.ok(["fork", "s", "--id", "x"])["created"], true);
    if nix::unistd::geteuid().is_root() {
        // Another user's file can be read by who may, and is one's own once it is written.
        nix::unistd::chown(&home.file("x"), Some(65534.into()), None).unwrap();
        home.ok(["show", "x"]);
        home.ok(["freeze", "x"]);
        assert_eq!(fs::metadata(home.file("x")).unwrap().uid(), 0);
        nix::unistd::chown(&home.store().join(".locks/x.lock"), Some(65534.into()), None).unwrap();
        let other = home.stored("y", &conversation());
        assert_eq!(other["frozen"], false);
        nix::unistd::chown(&home.store().join(".locks/y.lock"), Some(65534.into()), None).unwrap();
        assert_eq!(home.code(["freeze", "y"]), "internal");
    }
}
