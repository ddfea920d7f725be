//! What a person feels: a long session that is opened, a submission that is taken, a key press that another device sees.
//!
//! Everything is the real thing: the built program as listener and session host, devices over its port, a log on the disk.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark that cannot go on should stop where it stands"
)]

use std::fs;
use std::time::{Duration, Instant};

use criterion::{Criterion, SamplingMode, Throughput, criterion_group, criterion_main};
use host::files;
use host::log::{Mark, Writer};
use shared::channel::StaticKey;
use shared::entry::{Assistant, Entry, Known, Origin, ResultStatus, Tool, ToolClass, ToolResult, User};
use shared::frame::ListenerBody;
use shared::ids::{ConnectionId, HostId, LogId, PartId, SessionId, SubmissionId};
use shared::record::Facts;
use shared::request::{Response, Start};
use shared::status::{Began, Ended, Fate, Lifetime, Settled};
use shared::time::Timestamp;
use tests::device::{Attached, Device};
use tests::home::TestHome;
use tests::wait;
use tokio::runtime::Runtime;

/// Transcript entries of the long session.
const ENTRIES: u64 = 100_000;

criterion_group! {
    name = machine;
    config = Criterion::default()
        .sample_size(20)
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(5));
    targets = disk, backlog, submission
}
criterion_main!(machine);

/// What the disk alone takes, which is part of every `taken`.
fn disk(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().unwrap();
    let mut writer = Writer::open(&folder.path().join("log.jsonl"), &mut |_, _| Mark::Plain).unwrap().writer;
    let line = serde_json::to_vec(&entry(1, Known::User(user()))).unwrap();
    criterion.bench_function("disk/append one entry durably", |bencher| {
        bencher.iter(|| writer.append_batch(&[&line]).unwrap());
    });
}

/// All entries of a long session over one new link, read and parsed.
fn backlog(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut home = TestHome::new();
    let session = SessionId::random();
    let bytes = write_session(&home, session);
    let device = runtime.block_on(async {
        home.listen().await;
        Device::paired(&home, "bench").await
    });
    let mut group = criterion.benchmark_group("backlog");
    group.sample_size(10).sampling_mode(SamplingMode::Flat);
    group.throughput(Throughput::ElementsAndBytes { elements: ENTRIES, bytes });
    group.bench_function(format!("{ENTRIES} entries"), |bencher| {
        bencher.iter(|| runtime.block_on(read_all(&device, session)));
    });
    group.finish();
}

async fn read_all(device: &Device, session: SessionId) {
    let mut attached = device.session(session, 0).await;
    assert_eq!(attached.welcome.backlog_count, ENTRIES);
    let mut left = ENTRIES;
    while left > 0 {
        let frame = wait::within("an entry", attached.link.frames.recv()).await.expect("the link is open");
        left -= u64::from(matches!(frame.body, ListenerBody::Entry(_)));
    }
}

/// From a key press until the submission is on the disk (`taken`), and until another device has the entry.
fn submission(criterion: &mut Criterion) {
    let runtime = Runtime::new().unwrap();
    let mut home = TestHome::with_config("[aura]\nscript = \"steps.toml\"");
    fs::write(home.work().join("steps.toml"), "[[step]]\ntext = \"Done.\"\ntimes = \"always\"\n").unwrap();
    let (mut sender, mut watcher) = runtime.block_on(async {
        home.listen().await;
        let (sender, watcher) =
            (Device::paired(&home, "sender").await, Device::paired(&home, "watcher").await);
        let record = sender.start(start(&home)).await;
        (sender.session(record.id, 0).await, watcher.session(record.id, 0).await)
    });
    let mut group = criterion.benchmark_group("submission");
    group.bench_function("until it is taken", |bencher| {
        bencher.iter_custom(|turns| {
            runtime.block_on(turn_by_turn(turns, &mut sender, &mut watcher, async |sender, _, id| {
                let answer = sender.answer(id).await;
                assert!(matches!(answer, Response::Taken(_)), "{answer:?}");
            }))
        });
    });
    group.bench_function("until another device has its entry", |bencher| {
        bencher.iter_custom(|turns| {
            runtime.block_on(turn_by_turn(turns, &mut sender, &mut watcher, async |_, watcher, id| {
                let is_it = |known: &Known| matches!(known, Known::User(user) if user.submission == *id);
                watcher.entry("the entry", |known| is_it(known).then_some(())).await;
            }))
        });
    });
    group.bench_function("until its turn is over", |bencher| {
        bencher.iter_custom(|turns| {
            runtime.block_on(turn_by_turn(turns, &mut sender, &mut watcher, async |sender, _, id| {
                assert_eq!(sender.fate(id).await, Fate::Answered);
            }))
        });
    });
    group.finish();
}

/// The time of so many submissions from sending until `done`; each turn is over before the next is sent.
async fn turn_by_turn(
    turns: u64,
    sender: &mut Attached,
    watcher: &mut Attached,
    mut done: impl AsyncFnMut(&mut Attached, &mut Attached, &SubmissionId),
) -> Duration {
    let mut total = Duration::ZERO;
    for _ in 0..turns {
        let id = SubmissionId::random();
        let began = Instant::now();
        sender.send(&id, "press").await;
        done(sender, watcher, &id).await;
        total += began.elapsed();
        for attached in [&mut *sender, &mut *watcher] {
            attached.fate(&id).await;
            attached.seen.clear();
            attached.answers.clear();
        }
    }
    total
}

fn start(home: &TestHome) -> Start {
    Start {
        name: "bench".to_owned(),
        harness: "aura".to_owned(),
        working_directory: home.work().display().to_string(),
        text: None,
        budget: None,
        prerequisites: Vec::new(),
        model: None,
        effort: None,
        agent: None,
        request: None,
        worktree: None,
    }
}

/// Writes a session that has ended, as its host would have; gives the size of its log in bytes.
fn write_session(home: &TestHome, session: SessionId) -> u64 {
    let paths = home.home().session(session);
    files::private_directory(&home.home().sessions()).unwrap();
    files::private_directory(paths.directory()).unwrap();
    let facts = Facts {
        id: session,
        name: "long".to_owned(),
        harness: "aura".to_owned(),
        working_directory: home.work().display().to_string(),
        created: now(),
        log: LogId::random(),
        prerequisites: Vec::new(),
        request: None,
        model: None,
        effort: None,
        agent: None,
        worktree: None,
    };
    files::write_private(&paths.record(), &serde_json::to_vec(&facts).unwrap()).unwrap();
    let began = Began {
        identity: HostId::random(),
        lifetime: Lifetime::Resident.into(),
        subagent: None,
        pid: 1,
        started: now(),
    };
    let asked = user();
    let answered = Settled {
        submission: asked.submission.clone(),
        origin: asked.origin.clone(),
        fate: Fate::Answered.into(),
    };
    let mut events = vec![Known::Began { began }, Known::User(asked)];
    // One of `began`, then the entries of the transcript, of which a client gets each.
    while events.len() as u64 <= ENTRIES {
        let call = PartId::random();
        events.extend([tool(&call), result(call), assistant()]);
    }
    events.truncate(1 + usize::try_from(ENTRIES).unwrap());
    events.push(Known::Settled { settled: answered });
    events.push(Known::Ended { ended: Ended::Stopped.into() });
    let lines: Vec<Vec<u8>> = (1..)
        .zip(events)
        .map(|(sequence, event)| serde_json::to_vec(&entry(sequence, event)).unwrap())
        .collect();
    let mut writer = Writer::open(&paths.log(), &mut |_, _| Mark::Plain).unwrap().writer;
    for batch in lines.chunks(1000) {
        writer.append_batch(batch).unwrap();
    }
    fs::metadata(paths.log()).unwrap().len()
}

fn entry(sequence: u64, known: Known) -> Entry {
    Entry { sequence, timestamp: now(), event: known.into() }
}

fn user() -> User {
    let device = StaticKey::generate().unwrap().fingerprint();
    let origin =
        Origin { connection: ConnectionId::random(), name: "laptop".to_owned(), device: Some(device) };
    User {
        text: "Why does this test fail?".to_owned(),
        origin,
        submission: SubmissionId::random(),
        budget: None,
    }
}

fn assistant() -> Known {
    let text = "The decoder holds the **open** line only; `read` gives it when its end has come.\n".repeat(5);
    Known::Assistant(Assistant { message: PartId::random(), text, model: Some("script".to_owned()) })
}

fn tool(call: &PartId) -> Known {
    Known::Tool(Tool {
        call: call.clone(),
        name: "bash".to_owned(),
        title: "cargo test -p shared line".to_owned(),
        class: ToolClass::Execute.into(),
        input: serde_json::json!({ "command": "cargo test -p shared line" }),
    })
}

fn result(call: PartId) -> Known {
    let text = "test line::tests::lines_come_out_as_they_went_in ... ok\n".repeat(16);
    Known::Result(ToolResult {
        call,
        status: ResultStatus::Ok.into(),
        text,
        diff: None,
        exit: None,
        truncated: None,
    })
}

fn now() -> Timestamp {
    Timestamp::from_milliseconds(1_796_000_000_000)
}
