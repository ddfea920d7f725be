use std::os::unix::fs::PermissionsExt as _;

use proptest::prelude::*;
use serde_json::{Map, Value, json};
use shared::entry::ResultStatus;
use shared::ids::PartId;

use super::*;
use crate::automation::error::{AutomationError, Code};
use crate::engine::conversation::{AnsweredCall, Conversation, Message};

fn store() -> (tempfile::TempDir, Store) {
    let home = tempfile::tempdir().unwrap();
    let store = Store::of(home.path());
    (home, store)
}

fn id(text: &str) -> StoredId {
    text.parse().unwrap()
}

fn user(text: &str) -> Message {
    Message::User { message: PartId::random(), text: text.to_owned() }
}

fn call(name: &str, input: Value, status: ResultStatus) -> AnsweredCall {
    AnsweredCall {
        call: PartId::random(),
        name: name.to_owned(),
        input,
        status: status.into(),
        result: "r".into(),
    }
}

fn assistant(text: &str, calls: Vec<AnsweredCall>) -> Message {
    Message::Assistant { message: PartId::random(), text: text.to_owned(), thinking: "hm".into(), calls }
}

fn code<T: std::fmt::Debug>(result: Result<T, AutomationError>) -> Code {
    result.unwrap_err().code
}

/// A session file with everything in it.
fn full(name: &str) -> Value {
    json!({
        "id": name, "title": "t", "created_at": "2026-01-01T00:00:00.000Z", "updated_at": "2026-01-02T00:00:00.000Z",
        "frozen": false, "parent": null, "metadata": {"a": [1, 2.5]}, "todos": [{"text": "x", "state": "active"}],
        "statistics": {"n": 1},
        "messages": [
            {"role": "system", "message_id": "m0", "content": "be kind"},
            {"role": "user", "message_id": "m1", "content": "go"},
            {"role": "assistant", "message_id": "m2", "content": "", "thinking": "hm",
             "tool_calls": [{"call_id": "c1", "name": "bash", "args": {"command": "ls"}}, {"call_id": "c2", "name": "read", "args": 7}]},
            {"role": "tool", "message_id": "m3", "call_id": "c1", "name": "bash", "status": "ok", "content": "a"},
            {"role": "tool", "message_id": "m4", "call_id": "c2", "name": "read", "status": "error", "content": "b"},
            {"role": "system", "message_id": "m5", "content": "and brief"},
            {"role": "assistant", "message_id": "m6", "content": "done"}
        ]
    })
}

fn put(store: &Store, name: &str, content: &str) {
    std::fs::create_dir_all(store.directory()).unwrap();
    std::fs::write(store.file(&id(name)), content).unwrap();
}

fn imported(store: &Store, value: &Value, name: &str) -> Result<Imported, AutomationError> {
    let source = store.directory().with_file_name("source.json");
    std::fs::write(&source, value.to_string()).unwrap();
    store.import(&Import { source, id: Some(id(name)), freeze: false })
}

#[test]
fn what_is_stored_is_read_as_it_is_and_counted_without_the_system() {
    let (_home, store) = store();
    put(&store, "s", &full("s").to_string());
    let (document, summary) = store.read(&id("s")).unwrap();
    assert_eq!(summary, store.show(&id("s")).unwrap());
    assert_eq!(summary.messages, 5);
    assert_eq!(summary.revision, Revision::of(full("s").to_string().as_bytes()));
    let bytes = document.encode().unwrap();
    assert!(bytes.ends_with(b"}\n") && !bytes.ends_with(b"\n\n"));
    assert_eq!(serde_json::from_slice::<Value>(&bytes).unwrap(), full("s"));
}

#[test]
fn nothing_but_a_session_is_read() {
    let (_home, store) = store();
    let change = |pointer: &str, value: Value| {
        let mut file = full("s");
        *file.pointer_mut(pointer).unwrap() = value;
        file.to_string()
    };
    let without = |field: &str| {
        let mut file = full("s");
        file.as_object_mut().unwrap().remove(field);
        file.to_string()
    };
    let mut bad: Vec<String> = [
        "id",
        "title",
        "created_at",
        "updated_at",
        "frozen",
        "parent",
        "metadata",
        "todos",
        "statistics",
        "messages",
    ]
    .map(without)
    .into();
    for (pointer, value) in [
        ("/id", json!("another")),
        ("/id", json!("../s")),
        ("/created_at", json!("yesterday")),
        ("/parent", json!({"id": "p"})),
        ("/parent", json!({"id": "p", "revision": "AB"})),
        ("/metadata", json!([])),
        ("/todos/0/state", json!("later")),
        ("/todos/0", json!({"text": "x", "state": "done", "more": 1})),
        ("/messages/1/role", json!("robot")),
        ("/messages/1/message_id", json!("m0")),
        ("/messages/1/message_id", json!("")),
        ("/messages/1/more", Value::Null),
        ("/messages/2/tool_calls/1/call_id", json!("c1")),
        ("/messages/2/tool_calls/1/call_id", json!("c3")),
        ("/messages/3/name", json!("read")),
        ("/messages/3/status", json!("denied")),
        ("/messages/4/call_id", json!("c1")),
        ("/messages/4", json!({"role": "user", "message_id": "m9", "content": "too soon"})),
        (
            "/messages/6",
            json!({"role": "assistant", "message_id": "m9", "content": "", "tool_calls": [{"call_id": "c9", "name": "x", "args": 1}]}),
        ),
    ] {
        let known = full("s").pointer(pointer).is_some();
        if known {
            bad.push(change(pointer, value));
        } else {
            let mut file = full("s");
            file["messages"][1]["more"] = value;
            bad.push(file.to_string());
        }
    }
    let good = full("s").to_string();
    bad.push(String::new());
    bad.push("[]".into());
    bad.push("null".into());
    bad.push(format!("{good}x"));
    bad.push(good[..good.len() - 1].to_owned());
    bad.push(good.replacen('{', "{\"unknown\":1,", 1));
    bad.push(good.replacen('{', "{\"title\":\"t\",", 1));
    bad.push(good.replacen('{', "{\"messages\":[],", 1));
    for text in bad {
        put(&store, "s", &text);
        assert_eq!(code(store.show(&id("s"))), Code::InvalidSession, "{text}");
        let listing = store.list().unwrap();
        assert!(listing.sessions.is_empty());
        assert_eq!(listing.warnings.len(), 1, "{text}");
    }
    std::fs::write(store.file(&id("s")), b"{\"id\":\"\xff\"}").unwrap();
    assert_eq!(code(store.show(&id("s"))), Code::InvalidSession);
}

#[test]
fn an_import_takes_what_an_export_wrote_and_passes_over_times_freezing_and_lineage() {
    let (_home, store) = store();
    std::fs::create_dir_all(store.directory()).unwrap();
    let mut file = full("s");
    file["created_at"] = json!(5);
    file["updated_at"] = Value::Null;
    file["frozen"] = json!(true);
    file["parent"] = json!("p");
    let first = imported(&store, &file, "t").unwrap();
    assert!(first.created && !first.frozen_now && !first.session.frozen);
    assert_eq!(first.session.parent, None);
    let minimal = json!({"messages": []});
    assert!(imported(&store, &minimal, "u").unwrap().created);
    for (field, value) in [("title", Value::Null), ("unknown", json!(1)), ("messages", json!({}))] {
        let mut bad = full("s");
        bad[field] = value;
        assert_eq!(code(imported(&store, &bad, "v")), Code::InvalidSession, "{field}");
    }
    assert_eq!(code(imported(&store, &json!({"title": "x"}), "v")), Code::InvalidSession);
    let other = json!({"messages": [], "title": "other"});
    assert_eq!(code(imported(&store, &other, "u")), Code::Exists);
    put(&store, "w", "damaged");
    assert_eq!(code(imported(&store, &minimal, "w")), Code::Exists);
}

#[test]
fn a_live_session_is_saved_by_need_and_goes_on_where_it_was() {
    let (_home, store) = store();
    let (live, mut conversation) = store.begin(id("s")).unwrap();
    assert_eq!(conversation.id(), "s");
    let begun = live.summary();
    let unchanged = live.save(&conversation).unwrap();
    assert_eq!((unchanged.changed, unchanged.messages, &unchanged.revision), (false, 0, &begun.revision));
    conversation.push(user("go"));
    let calls = vec![
        call("bash", json!({"command": "ls"}), ResultStatus::Ok),
        call("bash", json!({}), ResultStatus::Denied),
    ];
    conversation.push(assistant("", calls));
    conversation.push(assistant("done", Vec::new()));
    let saved = live.save(&conversation).unwrap();
    assert_eq!((saved.changed, saved.messages), (true, 5));
    assert_eq!(store.show(&id("s")).unwrap(), live.summary());
    assert_eq!(saved.revision, live.summary().revision);
    let inode = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(store.file(&id("s"))).unwrap());
    assert!(!live.save(&conversation).unwrap().changed);
    let again = std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(store.file(&id("s"))).unwrap());
    assert_eq!(inode, again, "unchanged content is not written again");
    live.describe(|described| described.title = "a title".into());
    assert!(live.save(&conversation).unwrap().changed);
    assert_eq!(code(store.resume(&id("s"))), Code::SessionLocked);
    assert_eq!(code(store.freeze(&id("s"), None)), Code::SessionLocked);
    let stored = live.summary();
    drop(live);
    let (live, resumed) = store.resume(&id("s")).unwrap();
    assert!(!live.save(&resumed).unwrap().changed, "resuming changes nothing");
    assert_eq!(live.summary(), stored);
    assert_eq!(live.described().title, "a title");
    assert_eq!(resumed.messages().len(), conversation.messages().len());
}

#[test]
fn a_foreign_session_that_is_resumed_keeps_its_ids_and_its_system_messages() {
    let (_home, store) = store();
    std::fs::create_dir_all(store.directory()).unwrap();
    let first = imported(&store, &full("x"), "s").unwrap();
    let (live, mut conversation) = store.resume(&id("s")).unwrap();
    assert!(!live.save(&conversation).unwrap().changed);
    conversation.push(user("more"));
    live.save(&conversation).unwrap();
    let (document, summary) = store.read(&id("s")).unwrap();
    assert_eq!(summary.messages, first.session.messages + 1);
    let written = serde_json::to_value(&document.messages).unwrap();
    assert_eq!(written.as_array().unwrap()[..7], full("x")["messages"].as_array().unwrap()[..]);
}

#[test]
fn system_messages_stay_when_what_they_followed_is_compacted_away() {
    let (_home, store) = store();
    std::fs::create_dir_all(store.directory()).unwrap();
    imported(&store, &full("x"), "s").unwrap();
    let (live, _) = store.resume(&id("s")).unwrap();
    let compacted = Conversation::resumed("s".into(), vec![user("in short")]);
    assert_eq!(live.save(&compacted).unwrap().messages, 1);
    let (document, _) = store.read(&id("s")).unwrap();
    assert_eq!(document.messages.iter().filter(|message| message.is_system()).count(), 2);
}

#[test]
fn a_frozen_session_is_refused_on_every_path() {
    let (_home, store) = store();
    let (live, mut conversation) = store.begin(id("s")).unwrap();
    // Somebody who passes by the lease.
    let text = std::fs::read_to_string(store.file(&id("s"))).unwrap();
    std::fs::write(store.file(&id("s")), text.replace("\"frozen\":false", "\"frozen\":true")).unwrap();
    conversation.push(user("go"));
    assert_eq!(code(live.save(&conversation)), Code::SessionFrozen);
    drop(live);
    assert_eq!(code(store.resume(&id("s"))), Code::SessionFrozen);
    assert!(
        !store.freeze(&id("s"), Some(&Revision::of(b"other"))).unwrap().changed,
        "frozen comes before the revision"
    );
    let fork = Fork { parent: id("s"), child: id("f"), title: None, expected: None };
    assert!(!store.fork(&fork).unwrap().session.frozen);
}

#[test]
fn what_somebody_else_wrote_is_not_overwritten_and_what_is_gone_is_written_again() {
    let (_home, store) = store();
    let (live, mut conversation) = store.begin(id("s")).unwrap();
    std::fs::remove_file(store.file(&id("s"))).unwrap();
    assert!(live.save(&conversation).unwrap().changed);
    conversation.push(user("go"));
    let other = full("s").to_string();
    std::fs::write(store.file(&id("s")), &other).unwrap();
    assert_eq!(code(live.save(&conversation)), Code::RevisionMismatch);
    assert_eq!(std::fs::read_to_string(store.file(&id("s"))).unwrap(), other);
}

#[test]
fn a_failed_save_leaves_the_old_file_and_the_next_one_has_everything() {
    let (_home, store) = store();
    let (live, mut conversation) = store.begin(id("s")).unwrap();
    conversation.push(user("one"));
    live.save(&conversation).unwrap();
    let stored = std::fs::read(store.file(&id("s"))).unwrap();
    conversation.push(user("two"));
    let away = store.directory().with_file_name("away");
    std::fs::rename(store.directory(), &away).unwrap();
    std::fs::write(store.directory(), "in its place").unwrap();
    assert_eq!(code(live.save(&conversation)), Code::Internal);
    std::fs::remove_file(store.directory()).unwrap();
    std::fs::rename(&away, store.directory()).unwrap();
    assert_eq!(std::fs::read(store.file(&id("s"))).unwrap(), stored);
    let saved = live.save(&conversation).unwrap();
    assert_eq!((saved.changed, saved.messages), (true, 2));
    assert!(!live.save(&conversation).unwrap().changed);
}

#[test]
fn the_revision_of_an_id_with_a_left_journal_is_refused() {
    let (_home, store) = store();
    let journal = store.journal(&id("s"));
    std::fs::create_dir_all(journal.parent().unwrap()).unwrap();
    std::fs::write(&journal, "").unwrap();
    assert_eq!(code(store.begin(id("s"))), Code::Exists);
    assert_eq!(code(imported(&store, &json!({"messages": []}), "s")), Code::Exists);
    let (live, _) = store.begin(id("p")).unwrap();
    let fork = Fork { parent: id("p"), child: id("s"), title: None, expected: None };
    assert_eq!(code(store.fork(&fork)), Code::Exists);
    drop(live);
    assert!(!store.file(&id("s")).exists());
}

#[test]
fn what_a_crash_left_is_tidied_by_the_next_holder_alone() {
    let (_home, store) = store();
    drop(store.begin(id("s")).unwrap());
    let left = store.directory().join(format!(".s.json.{}.new", "0".repeat(32)));
    let other = store.directory().join(format!(".s2.json.{}.new", "0".repeat(32)));
    for file in [&left, &other] {
        std::fs::write(file, "half").unwrap();
    }
    assert!(store.list().unwrap().warnings.is_empty());
    assert!(left.exists());
    drop(store.resume(&id("s")).unwrap());
    assert!(!left.exists() && other.exists());
    assert!(store.directory().join(".locks/s.lock").exists(), "lock files stay");
}

#[test]
fn files_are_for_their_owner_alone_and_a_store_that_anybody_may_write_is_refused() {
    let (_home, store) = store();
    drop(store.begin(id("s")).unwrap());
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o7777;
    assert_eq!(mode(&store.file(&id("s"))), 0o600);
    assert_eq!(mode(store.directory()), 0o700);
    std::fs::set_permissions(store.directory(), std::fs::Permissions::from_mode(0o777)).unwrap();
    let refused = store.resume(&id("s")).unwrap_err();
    assert_eq!(refused.code, Code::Internal);
    assert!(refused.message.contains("chmod o-w"), "{}", refused.message);
}

#[test]
fn a_call_that_is_nested_too_deeply_never_makes_a_file_that_cannot_be_read() {
    let (_home, store) = store();
    let (live, mut conversation) = store.begin(id("s")).unwrap();
    let mut deep = json!(1);
    for _ in 0..125 {
        deep = json!([deep]);
    }
    conversation.push(assistant("", vec![call("x", deep.clone(), ResultStatus::Ok)]));
    live.save(&conversation).unwrap();
    drop(live);
    let (live, resumed) = store.resume(&id("s")).unwrap();
    let Some(Message::Assistant { calls, .. }) = resumed.messages().first().cloned() else {
        panic!("a call")
    };
    assert_eq!(calls[0].input, json!(deep.to_string()));
    assert!(!live.save(&resumed).unwrap().changed);
}

#[test]
fn an_export_inside_of_the_store_or_over_a_folder_is_refused() {
    let (home, store) = store();
    drop(store.begin(id("s")).unwrap());
    let export = |path: PathBuf| store.export(&id("s"), &path);
    std::os::unix::fs::symlink(store.directory(), home.path().join("link")).unwrap();
    for inside in ["sessions/x.json", "sessions/.locks/x", "link/x", "sessions/../sessions/x"] {
        assert_eq!(code(export(home.path().join(inside))), Code::BadRequest, "{inside}");
    }
    std::fs::create_dir(home.path().join("folder")).unwrap();
    for taken in ["folder", "folder/", "new/", "."] {
        assert!(matches!(code(export(home.path().join(taken))), Code::Exists | Code::BadRequest), "{taken}");
    }
    assert_eq!(code(export(home.path().join("nowhere/x"))), Code::NotFound);
    std::os::unix::fs::symlink("nothing", home.path().join("dangling")).unwrap();
    assert_eq!(code(export(home.path().join("dangling"))), Code::Exists);
    assert!(export(home.path().join("out")).unwrap().written);
    assert!(!export(home.path().join("out")).unwrap().written);
}

fn value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::vec((any::<String>(), inner), 0..4)
                .prop_map(|fields| Value::Object(fields.into_iter().collect::<Map<_, _>>())),
        ]
    })
}

fn message() -> impl Strategy<Value = Message> {
    let status = prop_oneof![Just(ResultStatus::Ok), Just(ResultStatus::Error)];
    let call =
        (any::<String>(), value(), status, any::<String>()).prop_map(|(name, input, status, result)| {
            AnsweredCall { call: PartId::random(), name, input, status: status.into(), result }
        });
    prop_oneof![
        any::<String>().prop_map(|text| user(&text)),
        (any::<String>(), any::<String>(), prop::collection::vec(call, 0..4)).prop_map(
            |(text, thinking, calls)| {
                Message::Assistant { message: PartId::random(), text, thinking, calls }
            }
        ),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn whatever_was_said_is_resumed_as_it_was(messages in prop::collection::vec(message(), 0..6), title in any::<String>()) {
        let (_home, store) = store();
        let (live, mut conversation) = store.begin(id("s")).unwrap();
        live.describe(|described| described.title.clone_from(&title));
        for message in &messages {
            conversation.push(message.clone());
        }
        live.save(&conversation).unwrap();
        drop(live);
        let (live, resumed) = store.resume(&id("s")).unwrap();
        prop_assert_eq!(&*resumed.messages(), &messages);
        prop_assert!(!live.save(&resumed).unwrap().changed);
        drop(live);
        let fork = Fork { parent: id("s"), child: id("c"), title: None, expected: None };
        let forked = store.fork(&fork).unwrap();
        prop_assert!(forked.created && !store.fork(&fork).unwrap().created);
        prop_assert_eq!(store.read(&id("c")).unwrap().0.messages, store.read(&id("s")).unwrap().0.messages);
    }

    #[test]
    fn no_text_makes_the_reader_panic_and_a_damaged_file_is_never_another_session(
        at in any::<prop::sample::Index>(), byte in any::<u8>(), cut in any::<bool>()
    ) {
        let (_home, store) = store();
        let mut bytes = full("s").to_string().into_bytes();
        let at = at.index(bytes.len());
        if cut { bytes.truncate(at) } else { bytes[at] = byte }
        put(&store, "s", "");
        std::fs::write(store.file(&id("s")), &bytes).unwrap();
        if let Ok(summary) = store.show(&id("s")) {
            prop_assert!(!cut);
            prop_assert_eq!(summary.revision, Revision::of(&bytes));
            prop_assert_eq!(summary.messages, 5);
        }
    }
}
