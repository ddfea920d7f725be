//! What the wire costs: frames to text and back, strict reading of JSON, sealing and opening lines.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a benchmark that cannot go on should stop where it stands"
)]

use std::hint::black_box;
use std::time::Duration;

use criterion::{BatchSize, BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use shared::channel::{Admission, Channel, Initiator, Pin, Prologue, Responder, StaticKey};
use shared::entry::{Assistant, Entry, Known, ResultStatus, ToolResult};
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, ListenerBody, OpenerBody, Submission};
use shared::ids::PartId;
use shared::json;
use shared::line::EncodedLine;
use shared::time::Timestamp;

criterion_group! {
    name = wire;
    config = Criterion::default()
        .sample_size(40)
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(2));
    targets = frames, strict_json, channel, handshake
}
criterion_main!(wire);

/// Writing and reading a frame.
fn frames(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("frame");
    let submission = submission();
    let line = submission.to_line();
    group.throughput(Throughput::Bytes(line.len() as u64));
    group.bench_function("write/submission", |bencher| {
        bencher.iter(|| black_box(&submission).encode().unwrap())
    });
    group.bench_function("read/submission", |bencher| {
        bencher.iter(|| Frame::<OpenerBody>::from_line(black_box(&line)).unwrap());
    });
    for (name, entry) in [("entry of 4 KiB", assistant(4 << 10)), ("result of 64 KiB", result(64 << 10))] {
        let line = entry.to_line();
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(format!("write/{name}"), |bencher| {
            bencher.iter(|| black_box(&entry).encode().unwrap())
        });
        group.bench_function(format!("read/{name}"), |bencher| {
            bencher.iter(|| Frame::<ListenerBody>::from_line(black_box(&line)).unwrap());
        });
    }
    group.finish();
}

/// Reading JSON by the wire's strict rules, beside serde_json's own reading of the same bytes.
fn strict_json(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("json");
    let lines = [
        ("submission", submission().to_line()),
        ("entry of 4 KiB", assistant(4 << 10).to_line()),
        ("result of 64 KiB", result(64 << 10).to_line()),
    ];
    for (name, line) in lines {
        group.throughput(Throughput::Bytes(line.len() as u64));
        group.bench_function(format!("strict/{name}"), |bencher| {
            bencher.iter(|| json::read_object(black_box(&line)).unwrap());
        });
        group.bench_function(format!("serde_json/{name}"), |bencher| {
            bencher.iter(|| serde_json::from_slice::<serde_json::Value>(black_box(&line)).unwrap());
        });
    }
    group.finish();
}

/// A line through the channel; its size counts the `\n`, and beyond 65,519 bytes it takes two messages.
fn channel(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("channel");
    for size in [256, 1 << 10, 4 << 10, 16 << 10, 64 << 10] {
        let line = EncodedLine::new(vec![b'a'; size - 1]).unwrap();
        group.throughput(Throughput::Bytes(size as u64));
        let (mut sender, _) = open();
        group.bench_function(BenchmarkId::new("seal", size), |bencher| {
            bencher.iter(|| sender.send(black_box(&line)).unwrap());
        });
        let (mut sender, mut receiver) = open();
        group.bench_function(BenchmarkId::new("open", size), |bencher| {
            // Messages open only in the order in which they were sealed; a batch is sealed in the order in which it is opened.
            bencher.iter_batched(
                || sender.send(&line).unwrap(),
                |messages| take(&mut receiver, &messages),
                BatchSize::SmallInput,
            );
        });
    }
    group.finish();
}

/// Both ends of a handshake, as a listener and a device on one machine do it.
fn handshake(criterion: &mut Criterion) {
    let (machine, device) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap());
    criterion.bench_function("handshake/both ends", |bencher| bencher.iter(|| connect(&machine, &device)));
}

fn take(receiver: &mut Channel<Device>, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut found = None;
    for message in messages {
        receiver.receive(message).unwrap();
        found = receiver.next_line().unwrap();
    }
    found.unwrap()
}

/// The proof of admission of a benchmark, which trusts the one device that it made.
struct Device(Fingerprint);

impl Admission for Device {
    fn fingerprint(&self) -> Fingerprint {
        self.0
    }
}

fn open() -> (Channel<Pin>, Channel<Device>) {
    connect(&StaticKey::generate().unwrap(), &StaticKey::generate().unwrap())
}

fn connect(machine: &StaticKey, device: &StaticKey) -> (Channel<Pin>, Channel<Device>) {
    let (initiator, first) = Initiator::new(device, Prologue::Current, machine.fingerprint()).unwrap();
    let (answered, second) = Responder::new(machine, Prologue::Current).unwrap().read_first(&first).unwrap();
    let (third, client) = initiator.read_second(&second).unwrap().finish().unwrap();
    let listener = answered.read_third(&third).unwrap().admit(Device(device.fingerprint())).unwrap();
    (client, listener)
}

fn submission() -> Frame<OpenerBody> {
    let text = "Look at the failing test in shared/src/line.rs and say why it fails.".to_owned();
    Frame::new(now(), OpenerBody::Submission(Submission { text, budget: Some(3600), origin: None }))
}

/// Prose with code, as a model writes it.
fn assistant(size: usize) -> Frame<ListenerBody> {
    let text = fill(
        "The loop reads **one line** at a time:\n\n```rust\nlet line = lines.read(&mut rest)?; // \"taken\"\n```\n\nÜber 8 MiB → failure.\n",
        size,
    );
    entry(Known::Assistant(Assistant {
        message: PartId::random(),
        text,
        model: Some("claude-sonnet-4-5".to_owned()),
    }))
}

/// What a compiler prints, with the control characters that JSON escapes.
fn result(size: usize) -> Frame<ListenerBody> {
    let text =
        fill("\u{1b}[1m\u{1b}[32m   Compiling\u{1b}[0m shared v0.1.0 (/home/person/aude/shared)\n", size);
    entry(Known::Result(ToolResult {
        call: PartId::random(),
        status: ResultStatus::Ok.into(),
        text,
        diff: None,
        exit: None,
        truncated: None,
    }))
}

fn entry(known: Known) -> Frame<ListenerBody> {
    Frame::new(
        now(),
        ListenerBody::Entry(Box::new(Entry { sequence: 4711, timestamp: now(), event: known.into() })),
    )
}

fn fill(pattern: &str, size: usize) -> String {
    let mut text = pattern.repeat(size / pattern.len() + 1);
    text.truncate(json::cut(&text, size).len());
    text
}

fn now() -> Timestamp {
    Timestamp::from_milliseconds(1_796_000_000_000)
}
