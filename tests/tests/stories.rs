//! What a person does with sessions, told as stories with the real programs: start, send, watch, interrupt, wait, stop, go on.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::os::unix::fs::symlink;

use shared::entry::{Entry, Event, Known};
use shared::failure::Refusal;
use shared::frame::{DeltaKind, Interrupt, ListenerBody, Machine, OpenerBody, Presence};
use shared::ids::{SessionId, SubmissionId};
use shared::kind::{Empty, Open};
use shared::record::{Record, WorkState};
use shared::request::{Request, Response, Start};
use shared::status::{DropReason, Ended, Fate, Phase, RanReason};
use tests::device::{Attached, Device, request};
use tests::home::TestHome;
use tests::story::{allow, counted, fate, fates, logged, machine, machine_with, start, start_in};
use tests::wait;

const TAKEN: Response = Response::Taken(Empty {});

/// A machine with a listener, and a device of it.
async fn paired() -> (TestHome, Device) {
    let mut home = machine();
    home.listen().await;
    let device = Device::paired(&home, "phone").await;
    (home, device)
}

fn refusal(response: &Response) -> Option<Refusal> {
    match response {
        Response::Refused(refused) => refused.word.known().copied(),
        _ => None,
    }
}

async fn ask(device: &Device, what: Request) -> Response {
    request(&mut device.machine().await.0, what).await
}

async fn try_start(device: &Device, start: Start) -> Response {
    ask(device, Request::Start(Box::new(start))).await
}

async fn record(device: &Device, session: SessionId) -> Record {
    let (_, records) = device.machine().await;
    records.into_iter().find(|record| record.id == session).expect("the session is listed")
}

/// Waits until the record of a session fits, as a list of sessions on a screen would.
async fn until_record(device: &Device, session: SessionId, fits: impl Fn(&Record) -> bool) -> Record {
    let (mut link, records) = device.machine().await;
    if let Some(record) = records.into_iter().find(|record| record.id == session && fits(record)) {
        return record;
    }
    loop {
        let frame = wait::within("the record", link.frames.recv()).await.expect("the link is open");
        if let ListenerBody::Machine(machine) = frame.body
            && let Machine::Record(record) = *machine
            && record.id == session
            && fits(&record)
        {
            return *record;
        }
    }
}

fn is(state: WorkState) -> impl Fn(&Record) -> bool {
    move |record| record.work.state.is(&state)
}

/// Waits until that submission runs.
async fn running(attached: &mut Attached, submission: &SubmissionId) {
    let what = format!("{submission} runs");
    attached
        .entry(&what, |known| match known {
            Known::Status { status } => match status.phase.known() {
                Some(Phase::Busy { submissions, .. }) => submissions.contains(submission).then_some(()),
                _ => None,
            },
            _ => None,
        })
        .await;
}

fn known(entry: &Entry) -> Option<&Known> {
    match &entry.event {
        Event::Known(known) => Some(known),
        Event::Unknown(_) => None,
    }
}

#[tokio::test]
async fn two_devices_see_the_same_and_each_other() {
    let (home, phone) = paired().await;
    let laptop = Device::paired(&home, "laptop").await;
    let session = phone.start(start(&home, "together")).await.id;
    let mut first = phone.session(session, 0).await;
    let mut second = laptop.session(session, 0).await;
    first.until("the laptop came", |first| first.presences.len() == 1).await;
    assert!(matches!(&first.presences[0], Presence::Attached(origin) if origin.name == "laptop"
        && origin.device == Some(laptop.key.fingerprint())));

    let id = SubmissionId::random();
    assert_eq!(first.submit(&id, "hold the-line").await, TAKEN);
    second.until("live text", |second| !second.deltas.is_empty()).await;
    let own = SubmissionId::random();
    assert_eq!(second.submit(&own, "echo after it").await, TAKEN);
    allow(&home, "the-line");
    for attached in [&mut first, &mut second] {
        assert_eq!(attached.fate(&id).await, Fate::Answered);
        assert_eq!(attached.fate(&own).await, Fate::Answered);
    }

    // What both saw is one stretch of the log, without a gap and in its order.
    let common = |attached: &Attached, from: u64, to: u64| -> Vec<Entry> {
        attached.seen.iter().filter(|entry| (from..=to).contains(&entry.sequence)).cloned().collect()
    };
    let from = first.welcome.record.sequence.max(second.welcome.record.sequence) + 1;
    let to = first.seen.last().unwrap().sequence.min(second.seen.last().unwrap().sequence);
    let (one, other) = (common(&first, from, to), common(&second, from, to));
    assert_eq!(one, other);
    assert_eq!(one.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), (from..=to).collect::<Vec<_>>());
    assert_eq!(one, home.log(session)[usize::try_from(from - 1).unwrap()..usize::try_from(to).unwrap()]);

    // Live text came before the entry that replaces it, and is a part of it.
    for attached in [&first, &second] {
        let (place, message, text) = attached
            .seen
            .iter()
            .enumerate()
            .find_map(|(place, entry)| match known(entry) {
                Some(Known::Assistant(assistant)) => Some((place, &assistant.message, &assistant.text)),
                _ => None,
            })
            .unwrap();
        assert_eq!(text, "holding the-line let go");
        let live: Vec<_> = attached.deltas.iter().filter(|(_, delta)| delta.message == *message).collect();
        assert!(!live.is_empty());
        for (before, delta) in live {
            assert!(*before <= place, "live text after its entry");
            assert!(delta.kind.is(&DeltaKind::Assistant));
            let offset = usize::try_from(delta.offset).unwrap();
            assert_eq!(text[offset..offset + delta.text.len()], delta.text);
        }
    }

    drop(second);
    first
        .until("the laptop went", |first| matches!(first.presences.last(), Some(Presence::Detached(_))))
        .await;
}

#[tokio::test]
async fn whoever_joins_in_the_middle_of_an_answer_reads_it_from_its_beginning() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "late")).await.id;
    let mut first = phone.session(session, 0).await;
    let id = SubmissionId::random();
    assert_eq!(first.submit(&id, "hold the-line").await, TAKEN);
    let live = |attached: &Attached| -> String {
        attached.deltas.iter().map(|(_, delta)| delta.text.as_str()).collect()
    };
    first.until("live text", |first| live(first) == "holding the-line").await;
    // Nothing more is said until the line is let go.
    let mut late = phone.session(session, 0).await;
    late.until("what was said", |late| live(late) == "holding the-line").await;
    assert_eq!(late.deltas[0].1.offset, 0);
    let before = late.seen.iter().filter(|entry| entry.event.kind() == "user").count();
    assert_eq!(before, 1, "the turn stands before its answer");
    allow(&home, "the-line");
    assert_eq!(late.fate(&id).await, Fate::Answered);
    // Once the entry has replaced it, it is not said again.
    let mut after = phone.session(session, 0).await;
    let next = SubmissionId::random();
    assert_eq!(after.submit(&next, "echo x").await, TAKEN);
    assert_eq!(after.fate(&next).await, Fate::Answered);
    assert!(!live(&after).contains("holding"));
}

#[tokio::test]
async fn eight_turns_wait_and_the_ninth_is_dropped() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "queue")).await.id;
    let mut attached = phone.session(session, 0).await;
    let first = SubmissionId::random();
    assert_eq!(attached.submit(&first, "hold first").await, TAKEN);
    running(&mut attached, &first).await;
    let waiting: Vec<SubmissionId> = (0..8).map(|_| SubmissionId::random()).collect();
    for (number, id) in waiting.iter().enumerate() {
        assert_eq!(attached.submit(id, &format!("echo {number}")).await, TAKEN);
    }
    let ninth = SubmissionId::random();
    assert_eq!(attached.submit(&ninth, "echo too much").await, TAKEN);
    assert_eq!(attached.fate(&ninth).await, Fate::dropped(DropReason::QueueFull));
    let host = until_record(&phone, session, |record| {
        record.host.as_ref().is_some_and(|host| host.queue == waiting)
    })
    .await;
    assert!(is(WorkState::Working)(&host));

    allow(&home, "first");
    for id in &waiting {
        assert_eq!(attached.fate(id).await, Fate::Answered);
    }
    let answers: Vec<&str> = attached
        .seen
        .iter()
        .filter_map(|entry| match known(entry) {
            Some(Known::Assistant(assistant)) => Some(assistant.text.as_str()),
            _ => None,
        })
        .collect();
    assert_eq!(answers, ["holding first let go", "0", "1", "2", "3", "4", "5", "6", "7"]);
    // Its id is spent: sent again, it is not run either.
    assert_eq!(attached.submit(&ninth, "echo too much").await, TAKEN);
    assert_eq!(fates(&home.log(session), &ninth).len(), 1);
}

#[tokio::test]
async fn a_budget_ends_its_turn_and_the_next_one_runs() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "budget")).await.id;
    let mut attached = phone.session(session, 0).await;
    let (long, next) = (SubmissionId::random(), SubmissionId::random());
    assert_eq!(attached.submit_within(&long, "hold never", 1).await, TAKEN);
    assert_eq!(attached.submit(&next, "echo next").await, TAKEN);
    assert_eq!(attached.fate(&long).await, Fate::ran(RanReason::Budget));
    assert_eq!(attached.fate(&next).await, Fate::Answered);
}

#[tokio::test]
async fn an_interrupt_ends_the_turn_that_it_means_and_no_other() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "interrupt")).await.id;
    let mut attached = phone.session(session, 0).await;
    let interrupt = |submission: Option<&SubmissionId>| {
        OpenerBody::Interrupt(Interrupt { submission: submission.cloned(), origin: None })
    };
    // Nothing runs: nothing happens.
    assert_eq!(attached.ask(interrupt(None)).await, TAKEN);

    let (first, second) = (SubmissionId::random(), SubmissionId::random());
    assert_eq!(attached.submit(&first, "hold one").await, TAKEN);
    assert_eq!(attached.submit(&second, "hold two").await, TAKEN);
    running(&mut attached, &first).await;
    assert_eq!(attached.ask(interrupt(Some(&second))).await, TAKEN);
    assert_eq!(attached.ask(interrupt(Some(&first))).await, TAKEN);
    assert_eq!(attached.fate(&first).await, Fate::ran(RanReason::Interrupted));
    running(&mut attached, &second).await;
    assert_eq!(attached.ask(interrupt(Some(&first))).await, TAKEN);
    allow(&home, "two");
    assert_eq!(attached.fate(&second).await, Fate::Answered);

    let third = SubmissionId::random();
    assert_eq!(attached.submit(&third, "hold three").await, TAKEN);
    running(&mut attached, &third).await;
    assert_eq!(attached.ask(interrupt(None)).await, TAKEN);
    assert_eq!(attached.fate(&third).await, Fate::ran(RanReason::Interrupted));
    until_record(&phone, session, is(WorkState::Interrupted)).await;
}

#[tokio::test]
async fn a_submission_sent_again_runs_once_and_its_end_is_told_again() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "again")).await.id;
    let mut attached = phone.session(session, 0).await;
    let id = SubmissionId::random();
    assert_eq!(attached.submit(&id, "count once").await, TAKEN);
    running(&mut attached, &id).await;
    assert_eq!(attached.submit(&id, "count once").await, TAKEN);
    assert_eq!(refusal(&attached.submit(&id, "count twice").await), Some(Refusal::IdConflict));
    let with_budget = attached.submit_within(&id, "count once", 60).await;
    assert_eq!(refusal(&with_budget), Some(Refusal::IdConflict));
    allow(&home, "count once");
    assert_eq!(attached.fate(&id).await, Fate::Answered);

    // Another device, a fresh link, the same answer: taken, and how it ended.
    let mut later = Device::paired(&home, "laptop").await.session(session, u64::from(u32::MAX)).await;
    assert_eq!(later.submit(&id, "count once").await, TAKEN);
    assert_eq!(later.fate(&id).await, Fate::Answered);
    assert_eq!(refusal(&later.submit(&id, "count twice").await), Some(Refusal::IdConflict));
    assert_eq!(fates(&home.log(session), &id), [Fate::Answered]);
    assert_eq!(counted(&home), ["once"]);
}

#[tokio::test]
async fn a_start_sent_again_starts_nothing_twice() {
    let (home, phone) = paired().await;
    let id = SubmissionId::random();
    let first =
        Start { text: Some("count start".into()), request: Some(id.clone()), ..start(&home, "twice") };
    let session = phone.start(first.clone()).await.id;
    allow(&home, "count start");
    assert_eq!(phone.start(first.clone()).await.id, session);
    assert_eq!(fate(&home, session, &id).await, Fate::Answered);
    assert_eq!(phone.start(first.clone()).await.id, session);
    assert_eq!(counted(&home), ["start"]);
    assert_eq!(phone.machine().await.1.len(), 1);
    let other = Start { text: Some("count other".into()), ..first };
    assert_eq!(refusal(&try_start(&phone, other).await), Some(Refusal::IdConflict));
}

#[tokio::test]
async fn a_stopped_session_goes_on_with_its_history() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "goes on")).await.id;
    let mut attached = phone.session(session, 0).await;
    let (runs, waits) = (SubmissionId::random(), SubmissionId::random());
    assert_eq!(attached.submit(&runs, "hold it").await, TAKEN);
    running(&mut attached, &runs).await;
    assert_eq!(attached.submit(&waits, "echo waits").await, TAKEN);
    assert_eq!(ask(&phone, Request::Stop(session)).await, TAKEN);
    assert_eq!(attached.fate(&waits).await, Fate::dropped(DropReason::Stopped));
    assert_eq!(attached.fate(&runs).await, Fate::ran(RanReason::Interrupted));
    attached
        .entry("the end", |known| {
            matches!(known, Known::Ended { ended } if ended.is(&Ended::Stopped)).then_some(())
        })
        .await;
    attached.end().await;
    let stopped = until_record(&phone, session, |record| record.host.is_none()).await;
    assert_eq!(stopped.ended, Some(Open::Known(Ended::Stopped)));

    // By a start of the same name …
    let again = Start { text: Some("echo welcome back".into()), ..start(&home, "goes on") };
    match try_start(&phone, again).await {
        Response::Continued(record) => assert_eq!(record.id, session),
        response => panic!("not continued: {response:?}"),
    }
    let done = until_record(&phone, session, |record| record.last.as_deref() == Some("welcome back")).await;
    assert_eq!(done.ended, None);
    let mut attached = phone.session(session, 0).await;
    assert_eq!(ask(&phone, Request::Stop(session)).await, TAKEN);

    // … and by a turn that is sent to it, also while the process of the old host still goes away.
    attached.end().await;
    let mut attached = phone.session(session, 0).await;
    let id = SubmissionId::random();
    assert_eq!(attached.submit(&id, "echo once more").await, TAKEN);
    assert_eq!(attached.fate(&id).await, Fate::Answered);
    let log = home.log(session);
    assert!(log.iter().zip(1..).all(|(entry, number)| entry.sequence == number));
}

#[tokio::test]
async fn a_session_waits_for_those_that_it_needs() {
    let (home, phone) = paired().await;
    let text = |text: &str| Some(text.to_owned());
    let needed = phone.start(Start { text: text("hold needed"), ..start(&home, "needed") }).await.id;
    let id = SubmissionId::random();
    let after = Start {
        text: text("count after"),
        prerequisites: vec![needed],
        request: Some(id.clone()),
        ..start(&home, "after")
    };
    allow(&home, "count after");
    let session = phone.start(after).await.id;
    let held = until_record(&phone, session, is(WorkState::Held)).await;
    assert!(held.host.is_some_and(|host| host.phase.is(&Phase::Held)));
    assert!(counted(&home).is_empty());
    allow(&home, "needed");
    assert_eq!(fate(&home, session, &id).await, Fate::Answered);
    assert_eq!(counted(&home), ["after"]);
}

#[tokio::test]
async fn what_a_failed_session_holds_is_held_until_it_is_stopped() {
    let (home, phone) = paired().await;
    let text = |text: &str| Some(text.to_owned());
    let failing = phone.start(Start { text: text("fail"), ..start(&home, "failing") }).await.id;
    until_record(&phone, failing, is(WorkState::Failed)).await;
    let id = SubmissionId::random();
    let after = Start {
        text: text("count never"),
        prerequisites: vec![failing],
        request: Some(id.clone()),
        ..start(&home, "held")
    };
    let session = phone.start(after).await.id;
    until_record(&phone, session, is(WorkState::Held)).await;
    assert_eq!(ask(&phone, Request::Stop(session)).await, TAKEN);
    logged(&home, session, "the end", |known| matches!(known, Known::Ended { .. }).then_some(())).await;
    assert!(matches!(fates(&home.log(session), &id)[..], [Fate::Dropped(_)]));
    assert!(counted(&home).is_empty());
    assert!(!is(WorkState::Held)(&until_record(&phone, session, |record| record.host.is_none()).await));
}

#[tokio::test]
async fn what_cannot_be_started_is_refused_with_its_reason() {
    let (home, phone) = paired().await;
    let file = home.work().join("file");
    fs::write(&file, "").unwrap();
    let named = |name: &str| start(&home, name);
    let at = |path: &str| Start { working_directory: path.to_owned(), ..start(&home, "place") };
    for (start, reason) in [
        (named(""), Refusal::BadName),
        (named("\u{202e}\u{7}"), Refusal::BadName),
        (Start { harness: "nobody".into(), ..named("harness") }, Refusal::UnknownHarness),
        (at("work"), Refusal::BadDirectory),
        (at("./work"), Refusal::BadDirectory),
        (at(home.work().join("missing").to_str().unwrap()), Refusal::BadDirectory),
        (at(file.to_str().unwrap()), Refusal::BadDirectory),
        (Start { prerequisites: vec![SessionId::random()], ..named("after") }, Refusal::NotFound),
        (Start { text: Some("x".repeat(256 * 1024 + 1)), ..named("large") }, Refusal::TooLarge),
    ] {
        let response = try_start(&phone, start.clone()).await;
        assert_eq!(refusal(&response), Some(reason), "{start:?}: {response:?}");
    }
    assert!(phone.machine().await.1.is_empty());
    assert_eq!(fs::read_dir(home.root().join("sessions")).unwrap().count(), 0);
}

#[tokio::test]
async fn a_name_is_taken_while_it_is_used_and_retired_after() {
    let (home, phone) = paired().await;
    let session = phone.start(start(&home, "name")).await.id;
    assert_eq!(refusal(&try_start(&phone, start(&home, "name")).await), Some(Refusal::NameTaken));
    // Names are compared as they are kept.
    assert_eq!(refusal(&try_start(&phone, start(&home, " na\u{7}me ")).await), Some(Refusal::NameTaken));
    assert_eq!(refusal(&ask(&phone, Request::Remove(session)).await), Some(Refusal::Running));
    let (mut watching, _) = phone.machine().await;
    assert_eq!(ask(&phone, Request::Stop(session)).await, TAKEN);
    until_record(&phone, session, |record| record.host.is_none()).await;
    assert_eq!(ask(&phone, Request::Remove(session)).await, TAKEN);
    loop {
        let frame = wait::within("the removal", watching.frames.recv()).await.expect("the link is open");
        if matches!(frame.body, ListenerBody::Machine(machine) if *machine == Machine::Removed(session)) {
            break;
        }
    }
    assert_eq!(refusal(&try_start(&phone, start(&home, "name")).await), Some(Refusal::Retired));
    assert_eq!(refusal(&ask(&phone, Request::Remove(session)).await), Some(Refusal::Retired));
    assert_eq!(refusal(&ask(&phone, Request::Stop(session)).await), Some(Refusal::Retired));
    assert_eq!(refusal(&ask(&phone, Request::Stop(SessionId::random())).await), Some(Refusal::NotFound));
    assert!(!home.root().join("sessions").join(session.to_string()).exists());
}

#[tokio::test]
async fn folders_with_spaces_and_emoji_and_links_to_folders_work() {
    let (home, phone) = paired().await;
    let folder = home.work().join("mein Ordner 🦀 'x' \"y\"");
    fs::create_dir(&folder).unwrap();
    fs::write(folder.join("note"), "inside").unwrap();
    let link = home.work().join("link");
    symlink(&folder, &link).unwrap();
    for (name, place) in [("emoji 🦀", &folder), ("symlink", &link)] {
        let id = SubmissionId::random();
        let start =
            Start { text: Some("read note".into()), request: Some(id.clone()), ..start_in(place, name) };
        let session = phone.start(start).await.id;
        assert_eq!(fate(&home, session, &id).await, Fate::Answered);
        let record = record(&phone, session).await;
        assert_eq!((record.name.as_str(), record.last.as_deref()), (name, Some("It said: inside")));
    }
}

#[tokio::test]
async fn roots_bind_a_device_and_not_the_terminal() {
    let elsewhere = tempfile::tempdir().unwrap();
    let inside = tempfile::tempdir().unwrap();
    let mut home = machine_with(&format!("start.roots = [{:?}]", inside.path()));
    home.listen().await;
    let phone = Device::paired(&home, "phone").await;
    let response = try_start(&phone, start_in(elsewhere.path(), "outside")).await;
    assert_eq!(refusal(&response), Some(Refusal::BadDirectory));
    // Not by a detour either.
    symlink(elsewhere.path(), inside.path().join("way-out")).unwrap();
    let detour = inside.path().join("way-out");
    assert_eq!(refusal(&try_start(&phone, start_in(&detour, "detour")).await), Some(Refusal::BadDirectory));
    let dots = inside.path().join("..").join(elsewhere.path().file_name().unwrap());
    assert_eq!(refusal(&try_start(&phone, start_in(&dots, "dots")).await), Some(Refusal::BadDirectory));
    phone.start(start_in(inside.path(), "inside")).await;

    let folder = elsewhere.path().to_str().unwrap();
    let started = home.ok(["start", "mine", "echo hi", "--harness", "aura", "-C", folder, "--json"]);
    assert!(started.contains("started"), "{started}");
}
