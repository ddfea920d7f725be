//! A `home` link: pairing windows, revocation and the tunnel, for the machine's own user (wire §7).

use std::sync::Arc;

use shared::failure::{Failed, Fault, Refusal, Refused};
use shared::frame::{Frame, OpenerBody, Welcome};
use shared::ids::FrameId;
use shared::kind::Empty;
use shared::limits;
use shared::pairing::Endpoint;
use shared::request::{Reach, Request, Response, Revoke, Tunnel, Window, WindowUrl};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use super::{Ends, INBOUND, OUTBOUND, Outgoing, response};
use crate::identity::WindowClosed;
use crate::listener::Station;
use crate::listener::devices::{Asker, Outcome, internal};

/// The word of the tunnel that is none.
const OFF: &str = "off";

pub(super) fn open(station: &Arc<Station>) -> (Welcome, Ends) {
    let (inbound, requests) = mpsc::channel(INBOUND);
    let (sending, outbound) = mpsc::channel(OUTBOUND);
    let mut tasks = JoinSet::new();
    tasks.spawn(handle(Arc::clone(station), requests, sending));
    (Welcome::Home { aude_version: station.version.clone() }, Ends { inbound, outbound, tasks, last: None })
}

/// Carries out requests one after the other; a window stays open beside them, and closes with this task.
async fn handle(
    station: Arc<Station>,
    mut requests: mpsc::Receiver<Frame<OpenerBody>>,
    sending: mpsc::Sender<Outgoing>,
) {
    let mut windows: JoinSet<(FrameId, Response)> = JoinSet::new();
    loop {
        let outgoing = tokio::select! {
            frame = requests.recv() => {
                let Some(frame) = frame else { return };
                let OpenerBody::Request(request) = frame.body else { continue };
                carry_out(&station, frame.id, request, &mut windows).await
            }
            Some(closed) = windows.join_next() => {
                let Ok((id, outcome)) = closed else { continue };
                response(&station, id, Box::new(outcome.into()))
            }
        };
        if sending.send(outgoing).await.is_err() {
            return;
        }
    }
}

async fn carry_out(
    station: &Arc<Station>,
    id: FrameId,
    request: Request,
    windows: &mut JoinSet<(FrameId, Response)>,
) -> Outgoing {
    let answer = match request {
        Request::Pair(_) => pair(station, &id, windows),
        Request::Revoke(Revoke { device }) => {
            let (devices, now) = (Arc::clone(&station.devices), station.clock.now());
            let which = device.clone();
            match tokio::task::spawn_blocking(move || devices.revoke(&which, now)).await {
                Ok(Ok(gone)) if gone.is_empty() && matches!(device, shared::request::Device::One(_)) => {
                    Response::Refused(Refused::with(
                        Refusal::UnknownDevice,
                        "no device with that fingerprint is paired",
                    ))
                }
                Ok(Ok(gone)) => {
                    for device in gone {
                        station.sessions.tell_revoked(device);
                    }
                    Response::Taken(Empty {})
                }
                Ok(Err(error)) => {
                    tracing::error!(%error, "a device could not be revoked");
                    return Outgoing::Fail(Some(id), internal(&error));
                }
                Err(error) => Response::Failed(Failed::with(Fault::Storage, error.to_string())),
            }
        }
        Request::Tunnel(Tunnel { tunnel }) => match tunnel.as_deref() {
            None | Some(OFF) => {
                Response::Reach(Reach { tunnel: OFF.into(), state: OFF.into(), origin: None, checked: None })
            }
            Some(_) => Response::Failed(Failed::with(
                Fault::Tunnel,
                "this version opens no tunnels yet; forward the port with a tool of your own",
            )),
        },
        // The link machine lets none of these through on this kind of link.
        Request::Start(_)
        | Request::Remove(_)
        | Request::Stop(_)
        | Request::Rename(_)
        | Request::Merge(_)
        | Request::Directories(_)
        | Request::Release(_) => Response::Failed(Failed::bare(Fault::Tunnel)),
    };
    response(station, id, Box::new(answer.into()))
}

fn pair(station: &Arc<Station>, id: &FrameId, windows: &mut JoinSet<(FrameId, Response)>) -> Response {
    let failed = |detail: String| Response::Failed(Failed::with(Fault::Storage, detail));
    let opened = station.clock.now();
    let asker = match station.devices.open_window(opened.steady) {
        Ok(asker) => asker,
        Err(error) => return failed(error.to_string()),
    };
    let endpoint: Endpoint = match format!("{}@127.0.0.1:{}", station.fingerprint(), station.port).parse() {
        Ok(endpoint) => endpoint,
        Err(error) => return failed(error.to_string()),
    };
    let window = Window {
        expires: opened.date.plus_milliseconds(limits::WINDOW_MILLISECONDS),
        url: WindowUrl { endpoint, code: asker.code.clone() },
        also: Vec::new(),
    };
    windows.spawn(await_outcome(Arc::clone(station), id.clone(), asker, opened.steady));
    Response::Window(window)
}

async fn await_outcome(
    station: Arc<Station>,
    id: FrameId,
    mut asker: Asker,
    opened: u64,
) -> (FrameId, Response) {
    let expires = station.clock.instant(opened.saturating_add(limits::WINDOW_MILLISECONDS));
    let outcome = tokio::select! {
        outcome = &mut asker.outcome => outcome,
        () = sleep_until(expires) => {
            station.devices.expire_window(station.clock.milliseconds());
            // Whoever came last has decided, if the time has not.
            (&mut asker.outcome).await
        }
    };
    let refused = |refusal| Response::Refused(Refused::bare(refusal));
    let response = match outcome {
        Ok(Outcome::Paired(paired)) => Response::Paired(paired),
        Ok(Outcome::Closed(WindowClosed::Replaced)) => refused(Refusal::Replaced),
        Ok(Outcome::Closed(WindowClosed::TooManyTries)) => refused(Refusal::TooManyTries),
        Ok(Outcome::Closed(WindowClosed::Expired)) | Err(_) => refused(Refusal::Expired),
        Ok(Outcome::Failed(detail)) => Response::Failed(Failed::with(Fault::Storage, detail)),
    };
    (id, response)
}
