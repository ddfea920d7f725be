//! The native client side of a link: WebSocket and Noise over the listener's socket or port, typed frames in and out.

use std::io;
use std::path::PathBuf;

use shared::channel::{ChannelError, StaticKey};
use shared::failure::Failure;
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, Hello, ListenerBody, OpenerBody, Welcome};
use shared::limits;
use shared::link::{self, ClientLink, SendError};
use shared::pairing::Place;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};
use tokio_tungstenite::client_async_with_config;
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;

use crate::clock::Clock;
use crate::files::{FilesError, SocketAddress};

mod drive;

/// How long the connection and the WebSocket's own handshake may take: a listener that is there answers in milliseconds.
const CONNECT_WITHIN: Duration = Duration::from_secs(10);
/// Frames that may wait to be sent; a sender that is faster than the link waits.
const OUTGOING: usize = 64;
/// Frames that may wait to be taken; beyond them the link is not read, and the listener waits.
const INCOMING: usize = 64;

/// Where a listener is dialled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// Its socket on this machine.
    Socket(PathBuf),
    /// Its port on this machine; a tunnel's name needs TLS, which only browsers dial.
    Port(Place),
}

/// An open link. Dropping it closes the link, once what was sent has gone out.
#[derive(Debug)]
pub struct Link {
    /// Frames to the listener; `ping` and `pong` are not the caller's business.
    pub sender: mpsc::Sender<Frame<OpenerBody>>,
    /// Frames of the listener; ends when the link is closed.
    pub frames: mpsc::Receiver<Frame<ListenerBody>>,
    driver: JoinHandle<Closed>,
}

/// Why a link could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum DialError {
    /// Nobody listens there.
    #[error("no listener answers at {at}; start one with `aude up`")]
    NobodyThere {
        /// Where it was dialled.
        at: String,
    },
    /// The address cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The address is not one that this client can dial.
    #[error("{at} cannot be dialled from here: only this machine's own addresses can")]
    Elsewhere {
        /// Where it was to be dialled.
        at: String,
    },
    /// The connection broke or is no WebSocket.
    #[error("the listener at {at} did not speak as expected: {detail}")]
    Transport {
        /// Where it was dialled.
        at: String,
        /// What happened.
        detail: String,
    },
    /// The handshake failed, or another machine answered.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The `hello` cannot be sent.
    #[error(transparent)]
    Hello(#[from] SendError),
    /// The listener refused the link.
    #[error("the listener refused: {}", .0.detail)]
    Refused(Failure),
    /// It took too long.
    #[error("the listener at {at} took the connection and then said nothing")]
    Silent {
        /// Where it was dialled.
        at: String,
    },
}

/// Why a link ended.
#[derive(Debug, Clone, PartialEq)]
pub enum Closed {
    /// We closed it.
    ByUs,
    /// The listener closed it.
    ByListener,
    /// A protocol failure, a broken channel, or silence.
    Link(link::Closed),
    /// The connection broke.
    Broken(String),
}

impl Link {
    /// Opens a link: dials, pins the listener's key, says `hello` and waits for `welcome`.
    ///
    /// # Errors
    /// [`DialError`].
    pub async fn open(
        address: &Address,
        key: &StaticKey,
        expected: Fingerprint,
        hello: Hello,
    ) -> Result<(Self, Welcome), DialError> {
        let at = address.to_string();
        let clock = Clock::default();
        let machine = ClientLink::new(key, expected, hello, clock.now())?;
        match address {
            Address::Socket(path) => {
                let socket = SocketAddress::of(path)?;
                let stream =
                    UnixStream::connect(socket.as_path()).await.map_err(|error| nobody(&at, &error))?;
                Self::over(stream, "ws://socket/wire", at, machine, clock).await
            }
            Address::Port(place) if place.is_loopback() => {
                let host = place.host().trim_matches(['[', ']']);
                let stream =
                    TcpStream::connect((host, place.port())).await.map_err(|error| nobody(&at, &error))?;
                // A key press must not wait for the acknowledgement of the one before.
                stream.set_nodelay(true).map_err(|error| nobody(&at, &error))?;
                Self::over(stream, &place.link_url(), at, machine, clock).await
            }
            Address::Port(_) => Err(DialError::Elsewhere { at }),
        }
    }

    async fn over<S>(
        stream: S,
        url: &str,
        at: String,
        machine: ClientLink,
        clock: Clock,
    ) -> Result<(Self, Welcome), DialError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let upgrade = timeout(CONNECT_WITHIN, client_async_with_config(url, stream, Some(socket_config())));
        let socket = match upgrade.await {
            Ok(Ok((socket, _))) => socket,
            Ok(Err(error)) => return Err(DialError::Transport { at, detail: error.to_string() }),
            Err(_) => return Err(DialError::Silent { at }),
        };
        let (sender, outgoing) = mpsc::channel(OUTGOING);
        let (incoming, frames) = mpsc::channel(INCOMING);
        let (welcomed, welcome) = oneshot::channel();
        let ends = drive::Ends { outgoing, incoming, welcomed: Some(welcomed) };
        let driver = tokio::spawn(drive::drive(socket, machine, ends, clock));
        let link = Self { sender, frames, driver };
        match welcome.await {
            Ok(welcome) => Ok((link, welcome)),
            Err(_) => Err(match link.closed().await {
                Closed::Link(link::Closed::Failure(failure)) => DialError::Refused(failure),
                Closed::Link(link::Closed::Channel(error)) => DialError::Channel(error),
                Closed::Link(link::Closed::Late | link::Closed::Silent) => DialError::Silent { at },
                Closed::Link(closed) => DialError::Transport { at, detail: closed.to_string() },
                Closed::Broken(detail) => DialError::Transport { at, detail },
                Closed::ByUs | Closed::ByListener => {
                    DialError::Transport { at, detail: "it closed the connection".to_owned() }
                }
            }),
        }
    }

    /// Why the link ended; call it when [`Link::frames`] has ended, otherwise it closes the link.
    pub async fn closed(self) -> Closed {
        let Self { sender, mut frames, driver } = self;
        drop(sender);
        // Where nobody took what arrived, what we have to say would not go out.
        while frames.recv().await.is_some() {}
        driver.await.unwrap_or_else(|error| Closed::Broken(error.to_string()))
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "{}", path.display()),
            Self::Port(place) => f.write_str(&place.origin()),
        }
    }
}

fn nobody(at: &str, error: &io::Error) -> DialError {
    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused) {
        DialError::NobodyThere { at: at.to_owned() }
    } else {
        DialError::Transport { at: at.to_owned(), detail: error.to_string() }
    }
}

/// No message is larger than Noise allows, so nothing larger is buffered.
fn socket_config() -> WebSocketConfig {
    WebSocketConfig::default()
        .max_message_size(Some(limits::NOISE_MESSAGE_BYTES))
        .max_frame_size(Some(limits::NOISE_MESSAGE_BYTES))
}
