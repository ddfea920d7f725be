//! Bad networks and listeners that die at bad moments: nothing is missing, nothing comes twice, and a slow reader costs little.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::io::Write as _;
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shared::entry::{Event, Known};
use shared::frame::{Frame, Hello, HelloMachine, ListenerBody, OpenerBody};
use shared::ids::{SessionId, SubmissionId};
use shared::kind::Open;
use shared::request::{Request, Response, Start};
use shared::status::Fate;
use tests::device::Device;
use tests::home::TestHome;
use tests::proxy::{FaultProxy, Weather};
use tests::story::{fate, fates, machine, start};
use tests::wait;

/// The entries of a long history, and the bytes of each.
const ENTRIES: usize = 400;
const ENTRY_BYTES: usize = 64 * 1024;

/// A machine with a long session that has ended, and a device that goes through a proxy.
async fn long_session() -> (TestHome, FaultProxy, Device, SessionId) {
    let mut home = machine();
    home.listen().await;
    home.keep_port();
    let device = Device::paired(&home, "phone").await;
    let session = device.start(start(&home, "long")).await.id;
    let _ = home.ok(["send", "long", "--wait", "echo hello"]);
    let _ = home.ok(["stop", "long"]);
    wait::until("the end of the host", || async { home.record("long")["host"].is_null().then_some(()) })
        .await;
    home.kill_listener();
    let first = home.log(session).len() + 1;
    let mut log = fs::OpenOptions::new().append(true).open(home.home().session(session).log()).unwrap();
    for sequence in first..first + ENTRIES {
        let entry = serde_json::json!({"kind": "notice", "level": "info", "text": "x".repeat(ENTRY_BYTES),
            "sequence": sequence, "timestamp": "2026-01-01T12:00:00.000Z"});
        writeln!(log, "{entry}").unwrap();
    }
    home.listen().await;
    let proxy = FaultProxy::to(home.endpoint().place.port()).await;
    let device = device.through(proxy.port());
    (home, proxy, device, session)
}

/// The memory that a process holds, in bytes.
fn resident(pid: Pid) -> usize {
    let status = fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("VmRSS");
    line.trim().trim_end_matches("kB").trim().parse::<usize>().unwrap() * 1024
}

/// The sequences of the backlog after `since`, until `count` came or the link closed.
async fn backlog(device: &Device, session: SessionId, since: u64, count: usize) -> Vec<u64> {
    let mut attached = device.session(session, since).await;
    while attached.seen.len() < count && attached.step().await {}
    attached.seen.iter().map(|entry| entry.sequence).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn readers_that_stall_hold_little_of_the_listener() {
    let (home, proxy, device, session) = long_session().await;
    let listener = home.listener_pid();
    // What one reader costs is there already when it is measured.
    assert_eq!(backlog(&device, session, 0, ENTRIES).await.len(), ENTRIES);
    let before = resident(listener);
    let mut readers = Vec::new();
    for _ in 0..4 {
        readers.push(device.session(session, 0).await);
    }
    proxy.set(Weather::Stalled);
    let (mut last, mut calm) = (0, 0);
    wait::until("the listener waits for its readers", || {
        let now = resident(listener);
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
        let is_calm = (calm > 40).then_some(());
        async move { is_calm }
    })
    .await;
    let grown = resident(listener).saturating_sub(before);
    let waiting = 4 * ENTRIES * ENTRY_BYTES;
    assert!(grown < waiting / 4, "{grown} bytes are held for {waiting} bytes of backlog");
    // Others are served meanwhile, and in the end the slow ones get everything.
    assert!(home.ok(["attach", "long", "--no-follow"]).len() > ENTRIES * ENTRY_BYTES);
    proxy.set(Weather::Fair);
    for reader in &mut readers {
        reader.until("all of the backlog", |reader| reader.seen.len() >= ENTRIES).await;
        assert!(reader.seen.windows(2).all(|pair| pair[0].sequence < pair[1].sequence));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_backlog_that_breaks_off_goes_on_where_it_was() {
    let (mut home, proxy, device, session) = long_session().await;
    let whole = backlog(&device, session, 0, ENTRIES + 2).await;
    for kill in [false, true] {
        let mut seen: Vec<u64> = Vec::new();
        for stop_after in [1, 40, 90] {
            let since = seen.last().copied().unwrap_or(0);
            let mut attached = device.session(session, since).await;
            attached.until("some of the backlog", |attached| attached.seen.len() >= stop_after).await;
            if kill {
                home.kill_listener();
            } else {
                proxy.set(Weather::Cut);
            }
            attached.end().await;
            seen.extend(attached.seen.iter().map(|entry| entry.sequence));
            // What was on its way still came; later ones may come to the end with that.
            assert!(stop_after > 1 || seen.len() < whole.len(), "it broke off inside");
            if kill {
                home.listen().await;
            }
            proxy.set(Weather::Fair);
        }
        let rest = whole.len() - seen.len();
        seen.extend(backlog(&device, session, seen.last().copied().unwrap(), rest).await);
        assert_eq!(seen, whole, "nothing is missing and nothing came twice");
    }
}

/// Asks for a start over a link of its own; `None` where the link broke before the answer. `sent` runs right after the request left.
async fn try_start(device: &Device, start: &Start, sent: impl AsyncFnOnce()) -> Option<Response> {
    let hello = Hello::Machine(HelloMachine { name: device.name.clone(), code: None });
    let (mut link, _) = device.open(hello).await.ok()?;
    let frame = Frame::new(host::clock::now(), OpenerBody::Request(Request::Start(Box::new(start.clone()))));
    let id = frame.id.clone();
    link.sender.send(frame).await.ok()?;
    sent().await;
    loop {
        let frame = wait::within("an answer or the end", link.frames.recv()).await?;
        if let ListenerBody::Response(response) = frame.body
            && frame.reply_to.as_ref() == Some(&id)
            && let Open::Known(response) = *response
        {
            return Some(response);
        }
    }
}

/// When the link or the listener goes, after a start was asked for.
#[derive(Debug, Clone, Copy)]
enum Moment {
    AtOnce,
    Recorded,
    Logged,
}

impl Moment {
    async fn come(self, home: &TestHome, sessions: usize) {
        let folders = || {
            let folders = fs::read_dir(home.root().join("sessions")).into_iter().flatten().flatten();
            folders
                .map(|folder| folder.path())
                .filter(|path| path.join("record.json").exists())
                .collect::<Vec<_>>()
        };
        let has_log = |path: &std::path::PathBuf| {
            fs::read_to_string(path.join("log.jsonl")).is_ok_and(|log| log.contains("\"user\""))
        };
        let is_there = || match self {
            Self::AtOnce => true,
            Self::Recorded => folders().len() > sessions,
            Self::Logged => folders().iter().filter(|path| has_log(path)).count() > sessions,
        };
        // The request may be on its way no more: then nothing came of it, which is a case too.
        let waiting = wait::until("the start", || async { is_there().then_some(()) });
        let _ = tokio::time::timeout(Duration::from_secs(5), waiting).await;
    }
}

/// Asks until there is an answer; gives the one session that it is about.
async fn until_started(device: &Device, start: &Start) -> SessionId {
    wait::until("the answer to the start", || async {
        match try_start(device, start, async || {}).await? {
            Response::Started(record) | Response::Continued(record) => Some(record.id),
            Response::Failed(_) => None,
            response => panic!("not started: {response:?}"),
        }
    })
    .await
}

async fn ran_once(home: &TestHome, session: SessionId, id: &SubmissionId) {
    assert_eq!(fate(home, session, id).await, Fate::Answered);
    let log = home.log(session);
    let users = log.iter().filter(
        |entry| matches!(&entry.event, Event::Known(known) if matches!(known.as_ref(), Known::User(_))),
    );
    assert_eq!(users.count(), 1, "{log:#?}");
    assert_eq!(fates(&log, id).len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_whose_link_or_listener_goes_is_one_session_with_one_turn() {
    let mut home = machine();
    home.listen().await;
    home.keep_port();
    let proxy = FaultProxy::to(home.endpoint().place.port()).await;
    let device = Device::paired(&home, "phone").await.through(proxy.port());
    let mut sessions = 0;
    for moment in [Moment::AtOnce, Moment::Recorded, Moment::Logged] {
        for is_killed in [false, true] {
            let name = format!("{moment:?}-{is_killed}").to_lowercase();
            let id = SubmissionId::random();
            let start = Start {
                text: Some(format!("echo {name}")),
                request: Some(id.clone()),
                ..start(&home, &name)
            };
            if is_killed {
                try_start(&device, &start, async || {
                    moment.come(&home, sessions).await;
                    kill(home.listener_pid(), Signal::SIGKILL).unwrap();
                })
                .await;
                home.kill_listener();
                home.listen().await;
            } else {
                try_start(&device, &start, async || {
                    moment.come(&home, sessions).await;
                    proxy.set(Weather::Cut);
                })
                .await;
                proxy.set(Weather::Fair);
            }
            let session = until_started(&device, &start).await;
            assert_eq!(until_started(&device, &start).await, session, "{name}: asked once more");
            ran_once(&home, session, &id).await;
            sessions += 1;
            let names = home.records().iter().filter(|record| record["name"] == name.as_str()).count();
            assert_eq!((names, home.records().len()), (1, sessions), "{name}");
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_command_that_sends_survives_the_listener_between_its_tries() {
    let mut home = machine();
    home.listen().await;
    let _ = home.ok(["start", "one", "--harness", "aura"]);
    let id = SubmissionId::random();
    let mut send = home.command(["send", "one", "--wait", "--id", id.as_str(), "hold gate"]).spawn().unwrap();
    let session = home.record("one")["id"].as_str().unwrap().parse().unwrap();
    tests::story::logged(&home, session, "the turn", |known| match known {
        Known::User(user) if user.submission == id => Some(()),
        _ => None,
    })
    .await;
    home.kill_listener();
    home.listen().await;
    tests::story::allow(&home, "gate");
    let status = wait::until("the end of the command", || {
        let status = send.try_wait().unwrap();
        async move { status }
    })
    .await;
    assert!(status.success());
    assert_eq!(fates(&home.log(session), &id), [Fate::Answered]);
}
