//! Sessions with the real session host and the built-in agent: started, continued, killed, stopped, removed (wire §7).

use std::path::Path;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::{Value, json};
use shared::frame::{Machine as MachineFrame, Welcome};
use shared::ids::SessionId;
use shared::kind::Empty;
use shared::record::Record;
use shared::request::{Rename, Request, Response, Start};

use crate::kit::{Machine, Wired, failed, machine_hello, refused, start, started, until};

fn log(machine: &Machine, session: SessionId) -> Vec<Value> {
    let text = std::fs::read_to_string(machine.home.session(session).log()).unwrap_or_default();
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn of_kind(machine: &Machine, session: SessionId, kind: &str) -> Vec<Value> {
    log(machine, session).into_iter().filter(|entry| entry["kind"] == kind).collect()
}

fn host_pid(machine: &Machine, session: SessionId) -> Pid {
    let began = of_kind(machine, session, "began").pop().expect("a host has begun");
    Pid::from_raw(began["began"]["pid"].as_i64().unwrap().try_into().unwrap())
}

/// Ends what a test has started: hosts outlive their listener by design.
async fn end(machine: &Machine, session: SessionId) {
    let mut own = machine.own_machine().await;
    assert_eq!(own.request(Request::Stop(session)).await, Response::Taken(Empty {}));
    own.record(session, |record| record.host.is_none()).await;
}

async fn start_session(own: &mut Wired, start: Start) -> Response {
    own.request(Request::Start(Box::new(start))).await
}

fn is_answered(record: &Record) -> bool {
    record.work.state.word() == "answered"
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_was_stopped_can_be_continued_and_removed_at_once() {
    let machine = Machine::start().await;
    let mut own = machine.own_machine().await;
    let session = started(own.request(Request::Start(Box::new(start(&machine, "s", None)))).await).id;
    assert_eq!(own.request(Request::Stop(session)).await, Response::Taken(Empty {}));
    let again = own.request(Request::Start(Box::new(start(&machine, "s", None)))).await;
    assert!(matches!(again, Response::Continued(_)), "{again:?}");
    assert_eq!(own.request(Request::Stop(session)).await, Response::Taken(Empty {}));
    assert_eq!(own.request(Request::Remove(session)).await, Response::Taken(Empty {}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_started_answers_is_stopped_goes_on_and_is_removed() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let record = started(start_session(&mut own, start(&machine, " fix\u{202e} the 🦀 ", Some("hi"))).await);
    assert_eq!((record.name.as_str(), record.harness.as_str()), ("fix the 🦀", "aura"));
    assert_eq!(record.working_directory, machine.work());
    let session = record.id;
    let answered = own.record(session, is_answered).await;
    assert_eq!(answered.last.as_deref(), Some("An answer."));
    assert!(answered.host.is_some());
    assert_eq!(
        refused(&start_session(&mut own, start(&machine, "fix the 🦀", Some("x"))).await),
        "name_taken"
    );
    assert_eq!(refused(&own.request(Request::Remove(session)).await), "running");
    let (mut link, welcome) = machine.own_session(session, 0).await;
    for _ in 0..welcome.backlog_count {
        link.entry().await;
    }
    assert_eq!(link.submit("second", "more").await, Response::Taken(Empty {}));
    while link.entry().await["settled"]["submission"] != "second" {}
    assert_eq!(own.request(Request::Stop(session)).await, Response::Taken(Empty {}));
    assert_eq!(link.closed().await, None, "`ended` is the last frame");
    let stopped = own.record(session, |record| record.host.is_none()).await;
    assert_eq!(stopped.ended.map(|ended| ended.word()).as_deref(), Some("stopped"));
    let Response::Continued(record) =
        start_session(&mut own, start(&machine, "fix the 🦀", Some("go on"))).await
    else {
        panic!()
    };
    assert_eq!(record.id, session);
    own.record(session, |record| record.ended.is_none() && is_answered(record)).await;
    assert_eq!(of_kind(&machine, session, "began").len(), 2);
    end(&machine, session).await;
    assert_eq!(own.request(Request::Remove(session)).await, Response::Taken(Empty {}));
    own.find(|frame| match &frame.body {
        shared::frame::ListenerBody::Machine(machine) => {
            matches!(&**machine, MachineFrame::Removed(id) if *id == session).then_some(())
        }
        _ => None,
    })
    .await;
    let left: Vec<_> = std::fs::read_dir(machine.home.sessions()).unwrap().collect();
    assert!(left.is_empty(), "{left:?}");
    let audit = std::fs::read_to_string(machine.home.audit()).unwrap();
    assert_eq!(audit.matches("\"start\"").count(), 2, "{audit}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_request_never_starts_a_second_session() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let request = Some("my-request".parse().unwrap());
    let asked = Start { request, ..start(&machine, "once", Some("hi")) };
    let links = [machine.own_machine().await, machine.own_machine().await, machine.own_machine().await];
    let answers = links.into_iter().map(|mut own| {
        let asked = asked.clone();
        async move { started(start_session(&mut own, asked).await).id }
    });
    let ids = futures_util::future::join_all(answers).await;
    assert!(ids.iter().all(|id| *id == ids[0]));
    let session = ids[0];
    until("the turn is settled", || of_kind(&machine, session, "settled").len() == 1).await;
    machine.stop_listening().await;
    machine.listen().await;
    let mut own = machine.own_machine().await;
    assert_eq!(started(start_session(&mut own, asked.clone()).await).id, session);
    let other = Start { text: Some("other".to_owned()), ..asked };
    assert_eq!(refused(&start_session(&mut own, other).await), "id_conflict");
    assert_eq!(of_kind(&machine, session, "user").len(), 1);
    assert_eq!(of_kind(&machine, session, "settled").len(), 1);
    end(&machine, session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_cannot_be_started_is_refused_and_leaves_nothing() {
    let machine = Machine::start().await;
    let phone = machine.paired("phone").await;
    let (mut device, _) = machine.device(&phone, machine_hello("phone", None)).await.unwrap();
    let work = machine.work();
    std::fs::write(Path::new(&work).join("file"), "").unwrap();
    std::os::unix::fs::symlink(machine.scratch.path(), Path::new(&work).join("way-out")).unwrap();
    let good = || start(&machine, "a", Some("hi"));
    let within = |path: &str| Start { working_directory: format!("{work}/{path}"), ..good() };
    let cases = [
        ("bad_name", Start { name: " \u{202e}\n ".to_owned(), ..good() }),
        ("unknown_harness", Start { harness: "emacs".to_owned(), ..good() }),
        ("bad_directory", within("missing")),
        ("bad_directory", within("file")),
        ("bad_directory", within("way-out")),
        ("bad_directory", within("..")),
        ("bad_directory", Start { working_directory: "work".to_owned(), ..good() }),
        ("bad_directory", Start { working_directory: String::new(), ..good() }),
        ("too_large", Start { working_directory: "/".repeat(4097), ..good() }),
        ("too_large", Start { text: Some("x".repeat(256 * 1024 + 1)), ..good() }),
        ("too_large", Start { prerequisites: vec![SessionId::random(); 33], ..good() }),
        ("empty", Start { text: Some("  ".to_owned()), ..good() }),
        ("not_found", Start { prerequisites: vec![SessionId::random()], ..good() }),
        ("bad_directory", Start { worktree: Some(true), ..good() }),
    ];
    for (word, start) in cases {
        let directory = start.working_directory.clone();
        assert_eq!(refused(&start_session(&mut device, start).await), word, "{directory}");
    }
    assert_eq!(std::fs::read_dir(machine.home.sessions()).unwrap().count(), 0);
    let Response::Directories(offered) = device.request(Request::Directories(Empty {})).await else {
        panic!()
    };
    assert_eq!(offered, [work]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_killed_host_is_reconciled_and_nothing_runs_twice() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let record = started(start_session(&mut own, start(&machine, "killed", Some("slow please"))).await);
    let session = record.id;
    own.record(session, |record| record.work.state.word() == "working").await;
    kill(host_pid(&machine, session), Signal::SIGKILL).unwrap();
    let record =
        own.record(session, |record| record.work.state.word() == "failed" && record.ended.is_some()).await;
    assert!(record.host.is_none());
    until("it is reconciled", || of_kind(&machine, session, "settled").len() == 1).await;
    let settled = of_kind(&machine, session, "settled");
    assert_eq!(settled[0]["settled"]["fate"], json!({"ran": {"reason": "lost"}}));
    // A turn starts a host anew.
    let (mut link, _) = machine.own_session(session, 0).await;
    assert_eq!(link.submit("again", "hi").await, Response::Taken(Empty {}));
    while link.entry().await["settled"]["submission"] != "again" {}
    end(&machine, session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_lives_on_without_its_listener_and_is_found_again() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let record = started(start_session(&mut own, start(&machine, "lives on", Some("hi"))).await);
    let session = record.id;
    own.record(session, is_answered).await;
    let pid = host_pid(&machine, session);
    machine.stop_listening().await;
    machine.listen().await;
    let (mut link, welcome) = machine.own_session(session, 0).await;
    assert!(welcome.record.host.is_some(), "its lock says that it lives");
    assert_eq!(link.submit("after", "more").await, Response::Taken(Empty {}));
    while link.entry().await["settled"]["submission"] != "after" {}
    assert_eq!(host_pid(&machine, session), pid, "the same process");
    end(&machine, session).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_was_killed_while_no_listener_ran_is_reconciled_at_start() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let record = started(start_session(&mut own, start(&machine, "both die", Some("slow please"))).await);
    let session = record.id;
    own.record(session, |record| record.work.state.word() == "working").await;
    machine.stop_listening().await;
    kill(host_pid(&machine, session), Signal::SIGKILL).unwrap();
    until("it is gone", || {
        !matches!(
            host::log::locked(&machine.home.session(session).log()),
            Ok(host::log::Liveness::Live { .. })
        )
    })
    .await;
    machine.listen().await;
    let (mut own, welcome) = machine.own(machine_hello("terminal", None)).await.unwrap();
    assert_eq!(welcome, Welcome::Machine { backlog_count: 1 });
    let record = own.record(session, |_| true).await;
    assert_ne!(record.work.state.word(), "working", "never without a live host");
    if record.ended.is_none() {
        own.record(session, |record| record.ended.is_some()).await;
    }
    assert_eq!(of_kind(&machine, session, "settled").len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_cannot_be_started_is_said_and_the_same_request_may_be_tried_again() {
    let mut machine = Machine::prepare();
    let program = std::mem::replace(&mut machine.program, "/nowhere/aude".into());
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let request = Some("try".parse().unwrap());
    let asked = Start { request, ..start(&machine, "later", Some("hi")) };
    assert_eq!(failed(&start_session(&mut own, asked.clone()).await), "spawn");
    machine.stop_listening().await;
    machine.program = program;
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let record = started(start_session(&mut own, asked).await);
    own.record(record.id, is_answered).await;
    end(&machine, record.id).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_waits_for_its_prerequisites() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let first = started(start_session(&mut own, start(&machine, "first", None)).await).id;
    let held = Start { prerequisites: vec![first], ..start(&machine, "second", Some("hi")) };
    let second = started(start_session(&mut own, held).await).id;
    own.record(second, |record| record.work.state.word() == "held").await;
    let (mut link, _) = machine.own_session(first, 0).await;
    assert_eq!(link.submit("go", "hi").await, Response::Taken(Empty {}));
    own.record(second, is_answered).await;
    end(&machine, first).await;
    end(&machine, second).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_that_cannot_be_read_hides_no_other_and_is_kept() {
    let mut machine = Machine::prepare();
    let broken = machine.write_session("broken", &[]);
    let sound = machine.write_session("sound", &[]);
    host::files::write_private(&machine.home.session(broken).record(), b"{").unwrap();
    machine.listen().await;
    let (mut own, welcome) = machine.own(machine_hello("terminal", None)).await.unwrap();
    assert_eq!(welcome, Welcome::Machine { backlog_count: 1 });
    own.record(sound, |_| true).await;
    assert_eq!(std::fs::read(machine.home.session(broken).record()).unwrap(), b"{");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_session_is_renamed_for_everybody_and_for_ever() {
    let mut machine = Machine::prepare();
    machine.listen().await;
    let mut own = machine.own_machine().await;
    let session = started(start_session(&mut own, start(&machine, "old", Some("hi"))).await).id;
    let other = started(start_session(&mut own, start(&machine, "other", Some("hi"))).await).id;
    let rename = |name: &str| Request::Rename(Rename { session, name: name.to_owned() });
    assert_eq!(refused(&own.request(rename(" \u{202e}\n")).await), "bad_name");
    assert_eq!(refused(&own.request(rename("other")).await), "name_taken");
    let nobody = Rename { session: SessionId::random(), name: "x".to_owned() };
    assert_eq!(refused(&own.request(Request::Rename(nobody)).await), "not_found");
    let mut watcher = machine.own_machine().await;
    for _ in 0..2 {
        assert_eq!(own.request(rename(" new\u{202e} 🦀 ")).await, Response::Taken(Empty {}));
    }
    watcher.record(session, |record| record.name == "new 🦀").await;
    assert_eq!(refused(&start_session(&mut own, start(&machine, "new 🦀", Some("x"))).await), "name_taken");
    let again = started(start_session(&mut own, start(&machine, "old", Some("hi"))).await).id;
    assert_ne!(again, session);
    machine.stop_listening().await;
    machine.listen().await;
    let mut own = machine.own_machine().await;
    own.record(session, |record| record.name == "new 🦀").await;
    for session in [session, other, again] {
        end(&machine, session).await;
    }
}
