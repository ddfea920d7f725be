//! Whatever is killed: what was acknowledged is in the log, begins at most once and settles exactly once.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::collections::BTreeMap;
use std::fs;

use host::client::DialError;
use nix::sys::signal::{Signal, kill};
use shared::entry::{Entry, Event, Known};
use shared::failure::{FailureCode, NOT_LISTED};
use shared::frame::{Hello, HelloMachine};
use shared::ids::{SessionId, SubmissionId};
use shared::kind::Open;
use shared::request::{Response, Start};
use shared::status::Phase;
use tests::device::Device;
use tests::home::{TestHome, is_alive};
use tests::wait;

/// `hold X` begins to speak and goes on when the file X is there; `say X` says X.
const SCRIPT: &str = r#"
[[step]]
match = "say *"
text = "{{1}}"

[[step]]
match = "hold *"
parts = [{ text = "Holding." }, { wait_for_file = "{{1}}" }, { text = " Done." }]
"#;

async fn machine() -> TestHome {
    let mut home = TestHome::new();
    let script = home.path().join("script.toml");
    fs::write(&script, SCRIPT).unwrap();
    home.write_config(&format!(
        "[aura]\nscript = \"{}\"\n[start]\nroots = [\"{}\"]",
        script.display(),
        home.path().display()
    ));
    home.listen().await;
    home
}

fn start(home: &TestHome, name: &str) -> Start {
    let working_directory = home.work().to_str().unwrap().to_owned();
    Start { name: name.into(), harness: "aura".into(), working_directory, ..Start::default() }
}

fn known(entries: &[Entry]) -> impl Iterator<Item = &Known> {
    entries.iter().filter_map(|entry| match &entry.event {
        Event::Known(known) => Some(known.as_ref()),
        Event::Unknown(_) => None,
    })
}

/// How often each submission was logged, began and was settled.
fn book(entries: &[Entry]) -> BTreeMap<SubmissionId, [u32; 3]> {
    let mut book: BTreeMap<SubmissionId, [u32; 3]> = BTreeMap::new();
    let mut running: Vec<SubmissionId> = Vec::new();
    for known in known(entries) {
        match known {
            Known::User(user) => book.entry(user.submission.clone()).or_default()[0] += 1,
            Known::Settled { settled } => book.entry(settled.submission.clone()).or_default()[2] += 1,
            Known::Status { status } => {
                let now = match &status.phase {
                    Open::Known(Phase::Busy { submissions, .. }) => submissions.clone(),
                    _ => Vec::new(),
                };
                for began in now.iter().filter(|id| !running.contains(id)) {
                    book.entry(began.clone()).or_default()[1] += 1;
                }
                running = now;
            }
            Known::Began { .. } => running.clear(),
            _ => {}
        }
    }
    book
}

/// Sends until it is taken, over as many links as that needs.
async fn submit(device: &Device, session: SessionId, id: &SubmissionId, text: &str) {
    wait::until("a link that takes the turn", || async {
        let hello =
            shared::frame::HelloSession { name: "d".into(), session, since: 0, log: None, code: None };
        let (mut link, _) = device.open(Hello::Session(hello)).await.ok()?;
        let body = shared::frame::Submission { text: text.into(), budget: None, origin: None };
        let frame = shared::frame::Frame {
            id: id.clone(),
            timestamp: host::clock::now(),
            reply_to: None,
            body: shared::frame::OpenerBody::Submission(body),
        };
        link.sender.send(frame).await.ok()?;
        loop {
            let frame = link.frames.recv().await?;
            if let shared::frame::ListenerBody::Response(response) = frame.body
                && frame.reply_to.as_ref() == Some(id)
            {
                return matches!(*response, Open::Known(Response::Taken(_))).then_some(());
            }
        }
    })
    .await;
}

#[tokio::test]
async fn a_host_that_is_killed_loses_nothing_and_repeats_nothing() {
    let home = machine().await;
    let device = Device::paired(&home, "phone").await;
    let session = device.start(start(&home, "mortal")).await.id;
    let mut ids = Vec::new();
    for round in 0..5 {
        let gate = format!("gate-{round}");
        let (running, queued) = (SubmissionId::random(), SubmissionId::random());
        let mut attached = device.session(session, 0).await;
        assert!(matches!(attached.submit(&running, &format!("hold {gate}")).await, Response::Taken(_)));
        assert!(matches!(attached.submit(&queued, &format!("say after {round}")).await, Response::Taken(_)));
        // In even rounds the turn has begun for sure, in odd ones it may just be beginning.
        if round % 2 == 0 {
            wait::until("the turn", || async {
                (book(&home.log(session)).get(&running)?[1] > 0).then_some(())
            })
            .await;
        }
        let pid = home.host_pid(session).unwrap();
        kill(pid, Signal::SIGKILL).unwrap();
        fs::write(home.work().join(&gate), "").unwrap();
        // Sent again although it was taken: it is the same turn.
        submit(&device, session, &running, &format!("hold {gate}")).await;
        for id in [&running, &queued] {
            wait::until("the end", || async { (book(&home.log(session)).get(id)?[2] > 0).then_some(()) })
                .await;
        }
        assert!(!is_alive(pid));
        ids.extend([running, queued]);
    }
    let log = home.log(session);
    assert!(log.iter().zip(1..).all(|(entry, number)| entry.sequence == number), "the log is contiguous");
    let book = book(&log);
    for id in &ids {
        let [logged, began, settled] = book[id];
        assert_eq!((logged, settled), (1, 1), "{id}: {book:?}");
        assert!(began <= 1, "{id} began {began} times");
    }
    let died = known(&log).filter(|known| matches!(known, Known::Ended { .. })).count();
    assert_eq!(died, 5, "each death is in the log");
    // A history shows neither `ended` nor `settled`: a person reads there what happened, once for each death.
    let history = home.ok(["attach", "mortal", "--no-follow"]);
    assert_eq!(history.matches("The process of this session died").count(), 5, "{history}");
    assert!(history.contains("in the middle of a turn. Nothing that the agent said"), "{history}");
    assert!(history.contains("not run a second time by itself"), "{history}");
}

#[tokio::test]
async fn a_listener_that_is_killed_takes_no_session_with_it() {
    let mut home = machine().await;
    let device = Device::paired(&home, "phone").await;
    let session = device.start(start(&home, "steady")).await.id;
    let held = SubmissionId::random();
    submit(&device, session, &held, "hold gate").await;
    let pid = wait::until("the host", || async { home.host_pid(session) }).await;
    let mut sent = vec![held.clone()];
    for round in 0..4 {
        home.kill_listener();
        assert!(is_alive(pid), "the session goes on without its listener");
        home.listen().await;
        let device = Device { name: "phone".into(), key: device.key.clone(), endpoint: home.endpoint() };
        let id = SubmissionId::random();
        submit(&device, session, &id, &format!("say {round}")).await;
        sent.push(id);
    }
    fs::write(home.work().join("gate"), "").unwrap();
    for id in &sent {
        wait::until("the end", || async { (book(&home.log(session)).get(id)?[2] > 0).then_some(()) }).await;
    }
    let book = book(&home.log(session));
    assert!(sent.iter().all(|id| book[id] == [1, 1, 1]), "{book:?}");
    assert_eq!(home.host_pid(session), Some(pid), "one process did it all");
}

#[tokio::test]
async fn listener_and_host_killed_at_once_leave_no_session_that_claims_to_work() {
    let mut home = machine().await;
    let device = Device::paired(&home, "phone").await;
    let session = device.start(start(&home, "both")).await.id;
    let id = SubmissionId::random();
    submit(&device, session, &id, "hold never").await;
    wait::until("the turn", || async { (book(&home.log(session)).get(&id)?[1] > 0).then_some(()) }).await;
    let pid = home.host_pid(session).unwrap();
    home.kill_listener();
    kill(pid, Signal::SIGKILL).unwrap();
    home.listen().await;
    assert_ne!(home.record("both")["work"]["state"], "working");
    wait::until("what became of the turn", || async {
        (book(&home.log(session)).get(&id)?[2] > 0).then_some(())
    })
    .await;
    let fate = known(&home.log(session)).find_map(|known| match known {
        Known::Settled { settled } => serde_json::to_value(&settled.fate).ok(),
        _ => None,
    });
    assert_eq!(fate, Some(serde_json::json!({"ran": {"reason": "lost"}})));
    let text = home.ok(["send", "both", "say again", "--wait"]);
    assert!(text.contains("again"), "{text}");
}

#[tokio::test]
async fn a_man_in_the_middle_is_refused_by_both_sides() {
    let home = machine().await;
    let middle = machine().await;
    let device = Device::paired(&home, "phone").await;
    // The device is led to the other's port, and expects the machine that it was paired with.
    let led_astray = device.through(middle.endpoint().place.port());
    let hello = || Hello::Machine(HelloMachine { name: "phone".into(), code: None });
    match led_astray.open(hello()).await {
        Err(DialError::Channel(error)) => assert!(error.to_string().contains("another"), "{error}"),
        other => panic!("the device went on: {:?}", other.map(|(_, welcome)| welcome)),
    }
    // The machine in turn lists no key of the middle's.
    let middle = Device { name: "phone".into(), key: middle.machine_key(), endpoint: home.endpoint() };
    match middle.open(hello()).await {
        Err(DialError::Refused(failure)) => {
            assert_eq!(failure.code, Open::Known(FailureCode::Unauthorised));
            assert_eq!(failure.detail, NOT_LISTED);
        }
        other => panic!("the machine let it in: {:?}", other.map(|(_, welcome)| welcome)),
    }
}
