//! Pairing and revoking, from the window to the list and off it again (wire §7, §9).

use std::time::{Duration, Instant};

use host::identity::Peers;
use serde_json::json;
use shared::channel::StaticKey;
use shared::frame::{Hello, HelloSession, ListenerBody, OpenerBody};
use shared::ids::SessionId;
use shared::kind::Empty;
use shared::limits;
use shared::pairing::{OfferedCode, Pasted};
use shared::request::{Device, Request, Response, Revoke, Tunnel};

use crate::kit::{
    FakeHost, Machine, Raw, failed, machine_hello, refusal, refused, session_hello, session_of, status,
    wrong_code,
};

fn revoke(device: Device) -> Request {
    Request::Revoke(Revoke { device })
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_device_is_paired_by_its_code_and_stays_so_over_a_restart() {
    let mut machine = Machine::start().await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    let url =
        shared::pairing::PairingUrl { endpoint: window.url.endpoint.clone(), code: window.url.code.clone() };
    assert!(matches!(url.expose().parse(), Ok(Pasted::Url(again)) if again == url));
    assert!(url.expose().starts_with(&format!("http://127.0.0.1:{}/#pair=", machine.port())));
    let phone = StaticKey::generate().unwrap();
    let name = "  my\u{202e} phone\n 🦀  ";
    machine.device(&phone, machine_hello(name, Some(&window.url.code))).await.unwrap();
    let Response::Paired(paired) = home.answer(&asked).await else { panic!() };
    assert_eq!((paired.name.as_str(), paired.fingerprint), ("my phone 🦀", phone.fingerprint()));
    let late =
        machine.device(&StaticKey::generate().unwrap(), machine_hello("late", Some(&window.url.code))).await;
    assert_eq!(refusal(late).1, "pairing code rejected");
    machine.stop_listening().await;
    machine.listen().await;
    machine.device(&phone, machine_hello("phone", None)).await.unwrap();
    let audit = std::fs::read_to_string(machine.home.audit()).unwrap();
    assert!(audit.contains("\"pair\"") && audit.contains("\"refuse\""), "{audit}");
    assert!(!audit.contains(window.url.code.expose()), "no secret is written");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_devices_that_race_for_a_code_exactly_one_wins() {
    let machine = Machine::start().await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    let racers: Vec<_> = (0..6).map(|_| StaticKey::generate().unwrap()).collect();
    let races = racers.iter().map(|key| machine.device(key, machine_hello("racer", Some(&window.url.code))));
    let outcomes = futures_util::future::join_all(races).await;
    let winners: Vec<_> = racers
        .iter()
        .zip(&outcomes)
        .filter(|(_, outcome)| outcome.is_ok())
        .map(|(key, _)| key.fingerprint())
        .collect();
    let Response::Paired(paired) = home.answer(&asked).await else { panic!() };
    assert_eq!(winners, [paired.fingerprint]);
    assert_eq!(Peers::read(&machine.home.peers()).unwrap().devices().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn five_wrong_codes_close_the_window() {
    let machine = Machine::start().await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    for _ in 0..limits::WRONG_CODES {
        let stranger = StaticKey::generate().unwrap();
        assert_eq!(refusal(machine.device(&stranger, wrong_code()).await).1, "pairing code rejected");
    }
    assert_eq!(refused(&home.answer(&asked).await), "too_many_tries");
    let late =
        machine.device(&StaticKey::generate().unwrap(), machine_hello("late", Some(&window.url.code))).await;
    assert_eq!(refusal(late).1, "pairing code rejected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_newer_window_replaces_the_older_and_a_window_closes_with_its_asker() {
    let machine = Machine::start().await;
    let mut first = machine.own_home().await;
    let (asked, old) = first.window().await;
    let mut second = machine.own_home().await;
    let (_, new) = second.window().await;
    assert_eq!(refused(&first.answer(&asked).await), "replaced");
    let stranger = StaticKey::generate().unwrap();
    let outcome = machine.device(&stranger, machine_hello("a", Some(&old.url.code))).await;
    assert_eq!(refusal(outcome).1, "pairing code rejected");
    drop(second);
    let end = Instant::now() + crate::kit::PATIENCE;
    // The link's end is seen a moment after it; once it is, the code is worth nothing. A fresh key each time would use up the tries.
    loop {
        let mut third = machine.own_home().await;
        let (asked, window) = third.window().await;
        drop(third);
        let outcome = machine.device(&stranger, machine_hello("a", Some(&window.url.code))).await;
        if outcome.is_err() {
            break;
        }
        assert!(Instant::now() < end, "the window outlives its asker: {asked:?}");
        let mut home = machine.own_home().await;
        home.request(revoke(Device::All)).await;
    }
    let outcome = machine.device(&stranger, machine_hello("a", Some(&new.url.code))).await;
    assert_eq!(refusal(outcome).1, "pairing code rejected");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_right_code_on_the_wrong_link_is_not_spent() {
    let machine = Machine::start().await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    let phone = StaticKey::generate().unwrap();
    let on_session = Hello::Session(HelloSession {
        name: "phone".to_owned(),
        session: SessionId::random(),
        since: 0,
        log: None,
        code: Some(OfferedCode::from(&window.url.code)),
    });
    for _ in 0..2 * limits::WRONG_CODES {
        assert_eq!(refusal(machine.device(&phone, on_session.clone()).await).1, "pairing code rejected");
    }
    machine.device(&phone, machine_hello("phone", Some(&window.url.code))).await.unwrap();
    assert!(matches!(home.answer(&asked).await, Response::Paired(_)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_listed_device_that_brings_a_code_renews_its_name() {
    let machine = Machine::start().await;
    let phone = machine.paired("old name").await;
    let mut home = machine.own_home().await;
    let (asked, window) = home.window().await;
    machine.device(&phone, machine_hello("new name", Some(&window.url.code))).await.unwrap();
    assert!(matches!(home.answer(&asked).await, Response::Paired(paired) if paired.name == "new name"));
    let peers = Peers::read(&machine.home.peers()).unwrap();
    assert_eq!(peers.devices()[&phone.fingerprint()].name.as_str(), "new name");
    assert_eq!(peers.devices().len(), 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn revoking_closes_the_links_of_the_device_at_once_and_tells_the_hosts() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let (phone, tablet) = (machine.paired("phone").await, machine.paired("tablet").await);
    let mut host = FakeHost::attach(&machine, session).await;
    host.append(&[status(json!("idle"))]).await;
    let (on_machine, _) = machine.device(&phone, machine_hello("phone", None)).await.unwrap();
    let (on_session, _) = session_of(machine.device(&phone, session_hello(session, 0)).await.unwrap());
    // One that does not read is closed as well.
    let mut deaf = Raw::open(&machine, &phone).await;
    assert!(deaf.is_open().await);
    let (mut other, _) = machine.device(&tablet, machine_hello("tablet", None)).await.unwrap();
    let mut home = machine.own_home().await;
    let began = Instant::now();
    assert_eq!(home.request(revoke(Device::One(phone.fingerprint()))).await, Response::Taken(Empty {}));
    for link in [on_machine, on_session] {
        let (code, detail) = link.closed().await.unwrap();
        assert_eq!(
            (code.as_str(), detail.as_str()),
            ("unauthorised", "this machine does not list this device")
        );
    }
    assert_eq!(deaf.failure().await.unwrap().0, "unauthorised fatal");
    assert!(began.elapsed() < Duration::from_secs(1), "{:?}", began.elapsed());
    let asked = host.asked().await;
    assert_eq!(asked.body, ListenerBody::Request(revoke(Device::One(phone.fingerprint()))));
    assert_eq!(refusal(machine.device(&phone, machine_hello("phone", None)).await).0, "unauthorised");
    assert!(matches!(other.request(Request::Directories(Empty {})).await, Response::Directories(_)));
    assert_eq!(refused(&home.request(revoke(Device::One(phone.fingerprint()))).await), "unknown_device");
    assert_eq!(home.request(revoke(Device::All)).await, Response::Taken(Empty {}));
    assert_eq!(other.closed().await.unwrap().0, "unauthorised");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_host_that_was_away_is_told_what_it_still_has_of_a_revoked_device() {
    let mut machine = Machine::prepare();
    let session = machine.write_session("s", &[]);
    machine.listen().await;
    let phone = machine.paired("phone").await;
    let mut host = FakeHost::attach(&machine, session).await;
    host.append(&[json!({"kind": "user", "text": "hi", "submission": "a", "origin": {
        "connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "phone", "device": phone.fingerprint()}})])
    .await;
    let mut watching = machine.own_machine().await;
    watching.record(session, |record| record.sequence == 2).await;
    let FakeHost { link, writer, .. } = host;
    drop(link);
    let mut home = machine.own_home().await;
    home.request(revoke(Device::One(phone.fingerprint()))).await;
    // The lock is held, so the listener awaits the host, which comes back.
    let (mut link, _) = machine.own(crate::kit::host_hello(session, None)).await.unwrap();
    let asked = link.next().await;
    assert_eq!(asked.body, ListenerBody::Request(revoke(Device::One(phone.fingerprint()))));
    drop(writer);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_tunnel_is_off() {
    let machine = Machine::start().await;
    let mut home = machine.own_home().await;
    for tunnel in [None, Some("off".to_owned())] {
        let Response::Reach(reach) = home.request(Request::Tunnel(Tunnel { tunnel })).await else { panic!() };
        assert_eq!((reach.tunnel.as_str(), reach.state.as_str(), reach.origin), ("off", "off", None));
    }
    let asked = Request::Tunnel(Tunnel { tunnel: Some("cloudflare".to_owned()) });
    assert_eq!(failed(&home.request(asked).await), "tunnel");
    home.send(OpenerBody::Ping).await;
}
