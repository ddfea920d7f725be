//! A `host` link: what the session's host says of its log, its answers and its live text, and what devices ask of it (wire §3, §4).

use std::sync::Arc;

use shared::failure::{Failure, FailureCode};
use shared::frame::{Frame, Head, OpenerBody, Welcome};
use shared::ids::HostId;
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::{Ends, INBOUND, OUTBOUND, Outgoing};
use crate::listener::Station;
use crate::listener::sessions::{Session, blocking, tell_revoked};

pub(super) fn open(
    station: &Arc<Station>,
    session: Arc<Session>,
    replaces: Option<HostId>,
) -> Result<(Welcome, Ends), Failure> {
    // Watched from before the place is taken, so that its loss is seen.
    let work = session.host_work.subscribe();
    let place = session
        .attach_host(replaces)
        .map_err(|_| Failure::new(FailureCode::Busy, "the session has a host already"))?;
    tracing::info!(session = %session.id, "a session host has opened its link");
    let attached = Attached { station: Arc::clone(station), session: Arc::clone(&session), place };
    // What it has of devices that were revoked while it was away.
    for device in session.devices_waiting() {
        if !station.devices.trusts(device) {
            tell_revoked(&session, device);
        }
    }
    let (inbound, frames) = mpsc::channel(INBOUND);
    let (sending, outbound) = mpsc::channel(OUTBOUND);
    let mut tasks = JoinSet::new();
    tasks.spawn(hand_over(Arc::clone(&session), place, work, sending));
    // The last words of a host are answers that somebody waits for.
    let last = Some(tokio::spawn(handle(attached, frames)));
    Ok((Welcome::Host { aude_version: station.version.clone() }, Ends { inbound, outbound, tasks, last }))
}

/// That a host is attached; ends with the link.
struct Attached {
    station: Arc<Station>,
    session: Arc<Session>,
    place: u64,
}

impl Drop for Attached {
    fn drop(&mut self) {
        self.station.sessions.host_detached(Arc::clone(&self.session), self.place);
    }
}

/// Hands to the host what devices ask of it, at its speed; ends when another host has taken its place.
async fn hand_over(
    session: Arc<Session>,
    place: u64,
    mut work: tokio::sync::watch::Receiver<u64>,
    sending: mpsc::Sender<Outgoing>,
) {
    loop {
        work.borrow_and_update();
        if !session.is_host(place) {
            // The link may have closed by itself.
            let _ = sending.send(Outgoing::Close).await;
            return;
        }
        match session.next_for_host(place) {
            Some(frame) => {
                if sending.send(Outgoing::Frame(frame)).await.is_err() {
                    return;
                }
            }
            None => {
                if work.changed().await.is_err() {
                    return;
                }
            }
        }
    }
}

/// Takes what the host says, in order.
async fn handle(attached: Attached, mut frames: mpsc::Receiver<Frame<OpenerBody>>) {
    let session = &attached.session;
    while let Some(frame) = frames.recv().await {
        match frame.body {
            OpenerBody::Response(answer) => {
                if let Some(reply_to) = &frame.reply_to {
                    session.answered(attached.place, reply_to, answer);
                }
            }
            OpenerBody::Head(Head { sequence }) => {
                let extended = blocking(session, move |session| match sequence {
                    Some(sequence) => session.extend(sequence),
                    None => session.catch_up(),
                });
                if let Err(error) = extended.await {
                    tracing::error!(session = %session.id, %error, "the log is not what its host says");
                }
            }
            OpenerBody::Delta(delta) => {
                session.told_live(delta);
            }
            // The link machine lets none of these through on this kind of link.
            OpenerBody::Hello(_)
            | OpenerBody::Submission(_)
            | OpenerBody::Interrupt(_)
            | OpenerBody::Answer(_)
            | OpenerBody::Configure(_)
            | OpenerBody::Request(_)
            | OpenerBody::Ping
            | OpenerBody::Pong => {}
        }
    }
}
