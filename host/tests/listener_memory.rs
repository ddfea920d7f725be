//! Memory of one link, measured in a process of its own: it must not grow with the log, whatever its reader does (wire §9).
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    dead_code,
    missing_docs,
    reason = "a test that panics has failed, as it should; the kit serves other tests too"
)]

#[path = "listener/kit.rs"]
mod kit;

use kit::{Machine, Raw, notice, numbered, session_hello, until};
use shared::frame::{ListenerBody, OpenerBody};

fn resident_bytes() -> usize {
    let pages: usize =
        std::fs::read_to_string("/proc/self/statm").unwrap().split(' ').nth(1).unwrap().parse().unwrap();
    pages * 4096
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_that_does_not_read_holds_little_memory_and_gets_everything_in_the_end() {
    let mut machine = Machine::prepare();
    let text = "x".repeat(64 * 1024);
    let lines: Vec<_> = (1..=750).map(|number| numbered(notice(&text), number)).collect();
    let session = machine.write_session("s", &lines);
    drop(lines);
    machine.listen().await;
    let phone = machine.paired("phone").await;
    let mut raw = Raw::dial(&machine, &phone).await;
    let before = resident_bytes();
    let hello = shared::frame::Frame::new(host::clock::now(), OpenerBody::Hello(session_hello(session, 0)));
    raw.send(&hello.to_line()).await;
    // The listener sends until the socket takes no more; then nothing moves until we read.
    let mut last = 0;
    let mut calm = 0;
    until("the listener waits for its reader", || {
        let now = resident_bytes();
        calm = if now == last { calm + 1 } else { 0 };
        last = now;
        calm > 40
    })
    .await;
    let grown = resident_bytes().saturating_sub(before);
    assert!(grown < 16 * 1024 * 1024, "{grown} bytes for 48 MiB of backlog");
    let mut expected = 1;
    while expected <= 750 {
        let frame = raw.next().await.unwrap();
        if let ListenerBody::Entry(entry) = frame.body {
            assert_eq!(entry.sequence, expected);
            expected += 1;
        }
    }
}
