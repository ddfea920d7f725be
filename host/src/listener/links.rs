//! What each kind of link does with its frames: tasks of its own behind bounded queues (wire §3).

use std::sync::Arc;

use shared::channel::Admission as _;
use shared::entry::Origin;
use shared::failure::{Failure, FailureCode};
use shared::frame::{Frame, Hello, ListenerBody, OpenerBody, Welcome};
use shared::ids::{ConnectionId, FrameId, SessionId};
use shared::line::EncodedLine;
use shared::name::DeviceName;
use tokio::sync::mpsc;
use tokio::task::{JoinHandle, JoinSet};

use super::Station;
use super::admission::Role;
use super::devices::Pass;
use super::sessions::directories::Bounds;
use super::sessions::{Answer, Found, Sender, Session};

mod home;
mod host;
mod machine;
mod session;

/// Frames of the peer that wait for the link's tasks; beyond them the socket is not read.
const INBOUND: usize = 16;
/// What waits to be sent, each at most a line: enough to keep the socket busy.
const OUTBOUND: usize = 2;
/// Requests of one link that are being carried out; beyond them the socket is not read.
const IN_FLIGHT: usize = 64;

/// What the tasks of a link send.
#[derive(Debug)]
pub(super) enum Outgoing {
    /// A frame.
    Frame(Frame<ListenerBody>),
    /// A line that is a frame already.
    Line(EncodedLine),
    /// A failure, which ends the link when it is fatal.
    Fail(Option<FrameId>, Failure),
    /// Nothing more: the link ends when all is sent.
    Close,
}

/// The inner end of a link. The tasks end with it.
pub(super) struct Ends {
    /// Frames of the peer.
    pub inbound: mpsc::Sender<Frame<OpenerBody>>,
    /// Frames for the peer.
    pub outbound: mpsc::Receiver<Outgoing>,
    /// The tasks between the two.
    pub tasks: JoinSet<()>,
    /// One that takes what has come already also when the link is closed; it ends with `inbound`.
    pub last: Option<JoinHandle<()>>,
}

/// Opens what a `hello` names, for a peer that was admitted.
pub(super) async fn open(
    station: &Arc<Station>,
    hello: Hello,
    pass: &Pass,
) -> Result<(Welcome, Ends), Failure> {
    match hello {
        Hello::Machine(hello) => Ok(machine::open(station, sender(pass, &hello.name))),
        Hello::Session(hello) => {
            let session = find(station, hello.session)?;
            session::open(station, session, sender(pass, &hello.name), &hello).await
        }
        Hello::Host(hello) => {
            let session = find(station, hello.session)?;
            host::open(station, session, hello.replaces)
        }
        Hello::Home(_) => Ok(home::open(station)),
    }
}

fn find(station: &Station, id: SessionId) -> Result<Arc<Session>, Failure> {
    match station.sessions.find(id) {
        Found::Session(session) => Ok(session),
        Found::Retired => Err(retired()),
        Found::Nothing => Err(Failure::new(FailureCode::NotFound, "this machine does not hold that session")),
    }
}

/// The failure of a link to a session that was removed.
fn retired() -> Failure {
    Failure::new(FailureCode::Retired, "that session was removed")
}

fn sender(pass: &Pass, name: &str) -> Sender {
    let origin = Origin {
        connection: ConnectionId::random(),
        name: DeviceName::clean(name).as_str().to_owned(),
        device: Some(pass.right.fingerprint()),
    };
    let bounds = match pass.right.role() {
        Role::Machine => Bounds::Anywhere,
        Role::Device => Bounds::Roots,
    };
    Sender { origin, standing: Arc::clone(&pass.standing), bounds }
}

/// The frame of an answer.
fn response(station: &Station, reply_to: FrameId, answer: Answer) -> Outgoing {
    Outgoing::Frame(Frame::reply(station.clock.now().date, reply_to, ListenerBody::Response(answer)))
}
