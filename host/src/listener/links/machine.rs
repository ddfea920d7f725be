//! A `machine` link: every record, then what changes, and requests about sessions (wire §3, §7).

use std::collections::BTreeMap;
use std::sync::Arc;

use shared::failure::{Failed, Fault};
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, ListenerBody, Machine, OpenerBody, Welcome};
use shared::ids::{FrameId, SessionId};
use shared::kind::Open;
use shared::limits;
use shared::request::{Request, Response};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::{Ends, IN_FLIGHT, INBOUND, OUTBOUND, Outgoing, response};
use crate::identity::AuditEvent;
use crate::listener::Station;
use crate::listener::pace::{Pace, Turn};
use crate::listener::sessions::{Answer, Found, Sender};

/// The time between two frames of one session, in milliseconds.
const APART: u64 = 1000 / limits::MACHINE_FRAMES_A_SECOND as u64;

pub(super) fn open(station: &Arc<Station>, sender: Sender) -> (Welcome, Ends) {
    let changes = station.sessions.changes();
    let backlog = station.sessions.versions();
    let welcome = Welcome::Machine { backlog_count: backlog.len() as u64 };
    let (inbound, requests) = mpsc::channel(INBOUND);
    let (sending, outbound) = mpsc::channel(OUTBOUND);
    let (done, is_done) = watch::channel(false);
    let mut tasks = JoinSet::new();
    tasks.spawn(tell(Arc::clone(station), backlog, changes, sending.clone(), done));
    tasks.spawn(handle(Arc::clone(station), sender, requests, sending, is_done));
    (welcome, Ends { inbound, outbound, tasks, last: None })
}

/// Sends the backlog, then every change at its pace.
async fn tell(
    station: Arc<Station>,
    backlog: BTreeMap<SessionId, u64>,
    mut changes: watch::Receiver<u64>,
    sending: mpsc::Sender<Outgoing>,
    done: watch::Sender<bool>,
) {
    let mut pace = Pace::new(APART);
    for (id, version) in backlog {
        let now = station.clock.milliseconds();
        let machine = present(&station, id);
        if matches!(machine, Machine::Record(_)) {
            pace.told(id, version, now);
        }
        if sending.send(frame(&station, machine)).await.is_err() {
            return;
        }
    }
    done.send_replace(true);
    loop {
        changes.borrow_and_update();
        let now = station.clock.milliseconds();
        let machine = match pace.next(&station.sessions.versions(), now) {
            Turn::Tell(id) => present(&station, id),
            Turn::Gone(id) => Machine::Removed(id),
            Turn::WaitUntil(moment) => {
                sleep_until(station.clock.instant(moment)).await;
                continue;
            }
            Turn::Nothing => {
                if changes.changed().await.is_err() {
                    return;
                }
                continue;
            }
        };
        if sending.send(frame(&station, machine)).await.is_err() {
            return;
        }
    }
}

fn present(station: &Station, id: SessionId) -> Machine {
    match station.sessions.find(id) {
        Found::Session(session) => Machine::Record(Box::new(session.record())),
        Found::Retired | Found::Nothing => Machine::Removed(id),
    }
}

fn frame(station: &Station, machine: Machine) -> Outgoing {
    Outgoing::Frame(Frame::new(station.clock.now().date, ListenerBody::Machine(Box::new(machine))))
}

/// Carries out requests, some at a time; their answers come after the backlog.
async fn handle(
    station: Arc<Station>,
    sender: Sender,
    mut requests: mpsc::Receiver<Frame<OpenerBody>>,
    sending: mpsc::Sender<Outgoing>,
    mut is_done: watch::Receiver<bool>,
) {
    let mut running = JoinSet::new();
    loop {
        let may_answer = *is_done.borrow_and_update();
        tokio::select! {
            frame = requests.recv(), if running.len() < IN_FLIGHT => {
                let Some(frame) = frame else { return };
                if let OpenerBody::Request(request) = frame.body {
                    // A task of its own: the link may go at any moment, and what has begun is done whole and noted.
                    running.spawn(tokio::spawn(carry_out(Arc::clone(&station), sender.clone(), frame.id, request)));
                }
            }
            Some(answered) = running.join_next(), if may_answer => {
                if let Ok(Ok((id, answer))) = answered
                    && sending.send(response(&station, id, answer)).await.is_err()
                {
                    return;
                }
            }
            changed = is_done.changed(), if !may_answer => {
                if changed.is_err() {
                    return;
                }
            }
        }
    }
}

async fn carry_out(
    station: Arc<Station>,
    sender: Sender,
    id: FrameId,
    request: Request,
) -> (FrameId, Answer) {
    let sessions = &station.sessions;
    let answer = match request {
        Request::Start(start) => {
            let answer = sessions.start(id.clone(), *start, &sender).await;
            if let Some(Response::Started(record) | Response::Continued(record)) = answer.known() {
                let session = record.id;
                note(&station, &sender, |device| AuditEvent::Start { device, session }).await;
            }
            answer
        }
        Request::Remove(session) => Box::new(sessions.remove(session).await.into()),
        Request::Stop(session) => sessions.stop(session).await,
        Request::Rename(rename) => {
            let session = rename.session;
            let response = sessions.rename(rename).await;
            if matches!(response, Response::Taken(_)) {
                note(&station, &sender, |device| AuditEvent::Rename { device, session }).await;
            }
            Box::new(response.into())
        }
        Request::Merge(session) => {
            let answer = sessions.merge(session, &sender).await;
            if matches!(answer.known(), Some(Response::Taken(_))) {
                note(&station, &sender, |device| AuditEvent::Merge { device, session }).await;
            }
            answer
        }
        Request::Directories(_) => {
            let sessions = Arc::clone(sessions);
            let found = tokio::task::spawn_blocking(move || sessions.directories()).await;
            let response = found.map_or_else(
                |error| Response::Failed(Failed::with(Fault::Storage, error.to_string())),
                Response::Directories,
            );
            Box::new(Open::Known(response))
        }
        // The link machine lets none of these through on this kind of link.
        Request::Pair(_) | Request::Revoke(_) | Request::Tunnel(_) | Request::Release(_) => {
            Box::new(Response::Failed(Failed::bare(Fault::HostGone)).into())
        }
    };
    (id, answer)
}

/// Writes into the audit log what a device had done.
async fn note(station: &Arc<Station>, sender: &Sender, event: impl FnOnce(Fingerprint) -> AuditEvent) {
    let Some(device) = sender.origin.device else { return };
    let event = event(device);
    let (devices, now) = (Arc::clone(&station.devices), station.clock.now());
    // What could not be written is said there.
    let _ = tokio::task::spawn_blocking(move || devices.note(now, &event)).await;
}
