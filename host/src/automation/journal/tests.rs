use std::io::Write as _;

use super::*;
use crate::automation::event::{NoticeLevel, StopReason};
use crate::automation::run::{Ending, OnInput, Persisted, Request, RunKind, RunState};

const SESSION: &str = "task-1";

fn path() -> (tempfile::TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    // The folder of a test may be one that others may read; a journal's may not.
    let journals = directory.path().join("journals");
    files::private_directory(&journals).unwrap();
    (directory, journals.join("task-1.jsonl"))
}

fn notice(message: &str) -> Happening {
    Happening::Notice { level: NoticeLevel::Info, source: "test".into(), message: message.into() }
}

async fn tell(journal: &mut Journal, run: Option<&RunId>, happening: &Happening) -> Told {
    let told = journal.tell(run, happening).await.unwrap();
    journal.reader().durable(told.seq).await.unwrap();
    told
}

fn request(id: &str) -> Request {
    Request { request_id: id.into(), kind: RunKind::Prompt, text: "hi".into(), on_input: OnInput::Block }
}

async fn accept(journal: &mut Journal, id: &str) -> Run {
    let now = journal.now();
    let run = Run::accepted(&request(id), SESSION, journal.next_seq(), now);
    tell(journal, Some(&run.id), &Happening::RunAccepted(OfRun { run: Box::new(run.clone()) })).await;
    run
}

fn write_file(path: &Path, content: &[u8]) {
    let mut file = files::open_private(path, OpenOptions::new().write(true).create(true)).unwrap();
    file.set_len(0).unwrap();
    file.write_all(content).unwrap();
}

#[tokio::test]
async fn events_are_numbered_over_all_servers_and_read_from_anywhere() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    for number in 1..=150 {
        opened.journal.tell(None, &notice(&number.to_string())).await.unwrap();
    }
    opened.journal.reader().durable(150).await.unwrap();
    drop(opened);
    let mut opened = Journal::open(&path, SESSION).unwrap();
    assert_eq!((opened.cut, opened.journal.next_seq()), (0, 151));
    tell(&mut opened.journal, None, &Happening::ServerStopping { reason: StopReason::Signal }).await;
    let reader = opened.journal.reader();
    assert_eq!(reader.last_seq(), 151);
    for after in [0, 1, 63, 64, 65, 127, 128, 149, 150] {
        let events = reader.read(after, 3).unwrap();
        assert_eq!(events.len() as u64, 3.min(151 - after));
        let labels: Vec<u64> = events.iter().map(|event| event.label().unwrap().0).collect();
        let expected: Vec<u64> = (after + 1..).take(events.len()).collect();
        assert_eq!(labels, expected, "after {after}");
    }
    assert!(reader.read(151, 3).unwrap().is_empty());
    assert!(reader.read(9999, 3).unwrap().is_empty());
    let last = reader.read(150, 1).unwrap().pop().unwrap();
    let json: Value = serde_json::from_str(last.text()).unwrap();
    assert_eq!(json["type"], "server.stopping");
    assert_eq!(json["data"], serde_json::json!({"reason": "signal"}));
    assert_eq!((&json["session_id"], &json["run_id"]), (&SESSION.into(), &Value::Null));
}

#[tokio::test]
async fn runs_are_found_again_and_those_that_had_not_settled_are_told() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    let journal = &mut opened.journal;
    let mut settled = accept(journal, "first").await;
    settled.finish(Ending::Completed { content: "yes".into() }, journal.now());
    let persisted = Persisted { revision: "0".into(), messages: 2, seq: 2 };
    settled.persist(persisted, journal.now());
    let event = Happening::RunPersisted(OfRun { run: Box::new(settled.clone()) });
    tell(journal, Some(&settled.id), &event).await;
    let running = accept(journal, "second").await;
    let started = Happening::RunStarted { run_id: running.id.clone(), message_id: "m".into() };
    let told = tell(journal, Some(&running.id), &started).await;
    drop(opened);

    let opened = Journal::open(&path, SESSION).unwrap();
    let noted = opened.book.of_request("first").unwrap();
    assert_eq!(opened.journal.reader().run(noted.seq).unwrap(), Some(settled));
    assert_eq!(opened.book.of_id(&running.id), opened.book.of_request("second"));
    assert_eq!(opened.book.of_request("third"), None);
    let [lost] = opened.unsettled.as_slice() else { panic!("one run had not settled") };
    assert_eq!((&lost.id, lost.state, lost.started_at), (&running.id, RunState::Running, Some(told.time)));
}

#[tokio::test]
async fn a_torn_last_line_is_cut_wherever_it_was_torn() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    for message in ["one", "two", "three", "four"] {
        tell(&mut opened.journal, None, &notice(message)).await;
    }
    drop(opened);
    let whole = std::fs::read(&path).unwrap();
    let ends: Vec<usize> =
        whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1).collect();
    for cut in ends[0]..=whole.len() {
        write_file(&path, &whole[..cut]);
        let opened = Journal::open(&path, SESSION).unwrap();
        let kept = ends.iter().rev().find(|end| **end <= cut).unwrap();
        let lines = ends.iter().filter(|end| **end <= cut).count() as u64;
        assert_eq!((opened.cut, opened.journal.next_seq()), ((cut - kept) as u64, lines + 1), "cut at {cut}");
        assert_eq!(std::fs::read(&path).unwrap(), &whole[..*kept]);
    }
}

#[tokio::test]
async fn any_other_damage_is_an_error_that_names_the_line_and_changes_nothing() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    for message in ["one", "two"] {
        tell(&mut opened.journal, None, &notice(message)).await;
    }
    drop(opened);
    let whole = std::fs::read_to_string(&path).unwrap();
    let (first, second) = whole.trim_end().split_once('\n').unwrap();
    let damages = [
        format!("{first}\n\n{second}\n"),
        format!("{first}\nnonsense\n"),
        format!("{first}\n{first}\n"),
        format!("{first}\n{}\n", second.replace("\"seq\":2", "\"seq\":3")),
        format!("{first}\n{}\n", second.replace("task-1", "task-2")),
        format!("{first}\n{}\n", second.replace("\"seq\"", "\"extra\":1,\"seq\"")),
        format!("{first}\n{}\ntorn", second.replace("notice", "run.accepted")),
    ];
    for damage in damages {
        write_file(&path, damage.as_bytes());
        let error = Journal::open(&path, SESSION).unwrap_err();
        let JournalError::Damaged { line, .. } = error else { panic!("{error}") };
        assert_eq!(line, 2, "{damage}");
        assert!(std::fs::read_to_string(&path).unwrap() == damage, "nothing is changed");
    }
    let unknown = whole.replace("\"type\":\"notice\"", "\"type\":\"weather\"");
    write_file(&path, unknown.as_bytes());
    let opened = Journal::open(&path, SESSION).unwrap();
    assert_eq!(opened.journal.reader().read(0, 9).unwrap()[1].label(), Some((2, "weather".to_owned())));
}

#[tokio::test]
async fn an_event_too_large_for_a_line_is_cut_and_stays_an_event() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    let call =
        |args: Value| crate::automation::event::ToolCall { call_id: "c".into(), name: "write".into(), args };
    let long = "\u{1}".repeat(LINE_LIMIT / 4);
    let many: Vec<Value> = (0..LINE_LIMIT / 4).map(|number| serde_json::json!([number])).collect();
    let event = Happening::MessageAssistant {
        message_id: "m".into(),
        content: long,
        tool_calls: vec![call(serde_json::json!({"content": many})), call(serde_json::json!({"path": "a"}))],
    };
    tell(&mut opened.journal, None, &event).await;
    drop(opened);
    let opened = Journal::open(&path, SESSION).unwrap();
    let read = opened.journal.reader().read(0, 1).unwrap().pop().unwrap();
    let json: Value = serde_json::from_str(read.text()).unwrap();
    assert_eq!(json["data"]["tool_calls"][1]["name"], "write");
    assert_eq!(json["data"]["content"].as_str().unwrap().len(), CUT_BYTES);
}

#[tokio::test]
async fn time_never_goes_back_in_a_journal() {
    let (_directory, path) = path();
    let mut opened = Journal::open(&path, SESSION).unwrap();
    let told = tell(&mut opened.journal, None, &notice("now")).await;
    drop(opened);
    let later = told.time.plus_milliseconds(3_600_000);
    let text = std::fs::read_to_string(&path).unwrap().replace(&told.time.to_string(), &later.to_string());
    write_file(&path, text.as_bytes());
    let mut opened = Journal::open(&path, SESSION).unwrap();
    assert_eq!(tell(&mut opened.journal, None, &notice("then")).await.time, later);
}

#[tokio::test]
async fn a_disk_that_takes_no_more_is_told_to_everybody_who_waits() {
    // Where every write fails; the kernel says that the disk is full.
    let full = Path::new("/dev/full");
    if !full.exists() {
        return;
    }
    let file = OpenOptions::new().write(true).open(full).unwrap();
    let (durable, watched) = watch::channel(Durable::default());
    let (lines, queue) = mpsc::channel(1);
    lines.send(Queued { seq: 1, end: 2, line: b"x\n".to_vec() }).await.unwrap();
    let writer = std::thread::spawn(move || write(file, queue, &durable));
    let reader = Reader {
        file: Arc::new(File::open(full).unwrap()),
        path: full.into(),
        places: Arc::default(),
        durable: watched,
    };
    assert!(matches!(reader.durable(1).await, Err(JournalError::Broken(_))));
    assert_eq!(reader.last_seq(), 0);
    writer.join().unwrap();
    assert!(lines.send(Queued { seq: 2, end: 4, line: b"y\n".to_vec() }).await.is_err());
}
