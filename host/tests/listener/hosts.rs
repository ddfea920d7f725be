//! What goes between devices and a session host through the listener, with hosts that do what the test says (wire §4, §7).

use serde_json::json;
use shared::failure::{Refusal, Refused};
use shared::frame::{ListenerBody, OpenerBody};
use shared::kind::Empty;
use shared::request::{Answer, AnswerChoice, Configure, Request, Response};

use crate::kit::{FakeHost, Machine, failed, host_hello, notice, numbered, refused, settled, status};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_submission_goes_to_the_host_with_its_origin_and_is_answered_by_it() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (mut link, welcome) = machine.own_session(session, 0).await;
    let asked = tokio::spawn(async move {
        let taken = host.take().await;
        (host, taken)
    });
    assert_eq!(link.submit("my-1", "hi 🦀").await, Response::Taken(Empty {}));
    let (mut host, (id, submission)) = asked.await.unwrap();
    assert_eq!((id.as_str(), submission.text.as_str()), ("my-1", "hi 🦀"));
    assert_eq!(submission.origin, Some(welcome.origin));
    // Now that the log has it, the listener answers a repetition by itself, and never asks again.
    assert_eq!(link.submit("my-1", "hi 🦀").await, Response::Taken(Empty {}));
    assert_eq!(refused(&link.submit("my-1", "something else").await), "id_conflict");
    let interrupt = link.send(OpenerBody::Interrupt(shared::frame::Interrupt::default())).await;
    let asked = host.asked().await;
    assert!(matches!(asked.body, ListenerBody::Interrupt(_)), "{:?}", asked.body);
    host.respond(&asked.id, Response::Taken(Empty {})).await;
    assert_eq!(link.answer(&interrupt).await, Response::Taken(Empty {}));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn turns_of_one_link_reach_the_host_in_order() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (link, _) = machine.own_session(session, 0).await;
    let ids: Vec<_> = (0..40).map(|index| format!("turn-{index}")).collect();
    for id in &ids {
        let submission = shared::frame::Submission { text: id.clone(), budget: None, origin: None };
        link.send_as(id, OpenerBody::Submission(submission)).await;
    }
    for id in &ids {
        assert_eq!(host.take().await.0.as_str(), id);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn answers_and_configurations_are_the_hosts_to_decide() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (mut link, welcome) = machine.own_session(session, 0).await;
    let input = "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb".parse().unwrap();
    let answer = |text: Option<String>| {
        OpenerBody::Answer(Answer {
            input,
            digest: "d".to_owned(),
            choice: Some(AnswerChoice::Word("allow".to_owned())),
            text,
            origin: None,
        })
    };
    let id = link.send(answer(None)).await;
    let asked = host.asked().await;
    let ListenerBody::Answer(forwarded) = &asked.body else { panic!("{:?}", asked.body) };
    assert_eq!(forwarded.origin.as_ref(), Some(&welcome.origin));
    host.respond(&asked.id, Response::Refused(Refused::bare(Refusal::NotPending))).await;
    assert_eq!(refused(&link.answer(&id).await), "not_pending");
    let id = link.send(answer(Some("x".repeat(16 * 1024 + 1)))).await;
    assert_eq!(refused(&link.answer(&id).await), "too_large");
    let id = link
        .send(OpenerBody::Configure(Configure { model: Some("m".to_owned()), ..Configure::default() }))
        .await;
    let asked = host.asked().await;
    assert!(matches!(asked.body, ListenerBody::Configure(_)));
    host.respond(&asked.id, Response::Refused(Refused::bare(Refusal::NotOffered))).await;
    assert_eq!(refused(&link.answer(&id).await), "not_offered");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_goes_before_it_answers_is_said_and_the_turn_may_be_sent_again() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let (mut link, _) = machine.own_session(session, 0).await;
    let asked = tokio::spawn(async move {
        host.asked().await;
        host
    });
    let body = OpenerBody::Submission(shared::frame::Submission {
        text: "hi".to_owned(),
        budget: None,
        origin: None,
    });
    let id = link.send_as("a", body).await;
    let host = asked.await.unwrap();
    let FakeHost { link: host_link, writer, .. } = host;
    drop(host_link);
    assert_eq!(failed(&link.answer(&id).await), "host_gone");
    // It comes back, because it holds the lock still.
    let (back, _) = machine.own(host_hello(session, None)).await.unwrap();
    let mut host = FakeHost { link: back, writer, identity: shared::ids::HostId::random() };
    let taking = tokio::spawn(async move { host.take().await });
    assert_eq!(link.submit("a", "hi").await, Response::Taken(Empty {}));
    assert_eq!(taking.await.unwrap().0.as_str(), "a");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_claims_a_host_only_while_one_lives() {
    let mut machine = Machine::prepare();
    machine.program = "/bin/false".into();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut watching = machine.own_machine().await;
    let record = watching.record(session, |_| true).await;
    assert!(record.host.is_none());
    let mut host = FakeHost::attach(&machine, session).await;
    let origin = json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"});
    host.append(&[
        json!({"kind": "user", "text": "hi", "origin": origin, "submission": "a"}),
        status(json!({"busy": {"submissions": ["a"], "deadline": null}})),
    ])
    .await;
    let record = watching.record(session, |record| record.work.state.word() == "working").await;
    assert!(record.host.is_some());
    // Killed: the lock goes with the process, and the one that should reconcile cannot run.
    drop(host);
    let record = watching.record(session, |record| record.work.state.word() != "working").await;
    assert_eq!((record.work.state.word().as_str(), record.host), ("failed", None));
    let (mut link, _) = machine.own_session(session, 0).await;
    assert_eq!(failed(&link.submit("b", "ho").await), "spawn");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_is_released_when_all_prerequisites_have_answered() {
    let mut machine = Machine::prepare();
    let answered = machine.write_session("first", &[numbered(settled("a", "answered"), 1)]);
    let pending = machine.write_session("second", &[]);
    let held = machine.write_session("third", &[]);
    let path = machine.home.session(held).record();
    let mut facts: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    facts["prerequisites"] = json!([answered, pending]);
    host::files::write_private(&path, facts.to_string().as_bytes()).unwrap();
    machine.listen().await;
    let mut waiting = FakeHost::attach(&machine, held).await;
    let mut working = FakeHost::attach(&machine, pending).await;
    working.append(&[settled("x", "ran")]).await;
    let mut watching = machine.own_machine().await;
    watching.record(pending, |record| record.sequence == 2).await;
    working.append(&[settled("y", "answered"), notice("goes on")]).await;
    let asked = waiting.asked().await;
    assert_eq!(asked.body, ListenerBody::Request(Request::Release(Empty {})));
    waiting.respond(&asked.id, Response::Taken(Empty {})).await;
    // A host that comes back is told again: it may be another one.
    let FakeHost { link, writer, .. } = waiting;
    drop(link);
    crate::kit::within("a place for the host", async {
        loop {
            if let Ok((mut link, _)) = machine.own(host_hello(held, None)).await {
                assert_eq!(link.next().await.body, ListenerBody::Request(Request::Release(Empty {})));
                return;
            }
        }
    })
    .await;
    drop(writer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn changes_of_a_record_come_at_their_pace_and_the_last_one_always() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let mut host = FakeHost::attach(&machine, session).await;
    let mut watching = machine.own_machine().await;
    watching.record(session, |_| true).await;
    let began = std::time::Instant::now();
    for index in 0..400 {
        host.append(&[notice(&index.to_string())]).await;
    }
    let told = std::cell::Cell::new(0_u128);
    let record = watching.record(session, |record| {
        told.set(told.get() + 1);
        record.sequence == 401
    });
    record.await;
    let most = began.elapsed().as_millis() / 250 + 2;
    assert!(told.get() <= most, "{} records where {most} may come", told.get());
}
