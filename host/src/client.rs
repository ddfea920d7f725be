//! The native client side of a link: WebSocket and Noise over the listener's socket or port, typed frames in and out.

use std::io;
use std::path::PathBuf;

use futures_util::{Sink, SinkExt, Stream, StreamExt};
use shared::channel::{Channel, ChannelError, Initiator, Pin, Prologue, StaticKey};
use shared::failure::Failure;
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, Hello, ListenerBody, OpenerBody, Welcome};
use shared::ids::FrameId;
use shared::limits;
use shared::line::{EncodedLine, LineError};
use shared::pairing::Place;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpStream, UnixStream};
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::{Duration, timeout};
use tokio_tungstenite::tungstenite::protocol::WebSocketConfig;
use tokio_tungstenite::tungstenite::{self, Message};
use tokio_tungstenite::{WebSocketStream, client_async_with_config};

use crate::clock;
use crate::files::{FilesError, SocketAddress};

mod drive;

/// How long dialling, handshake and `welcome` may take together: a listener that is there answers in milliseconds.
const OPEN_WITHIN: Duration = Duration::from_secs(20);
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

/// An open link. Dropping it closes the link.
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
    #[error("no listener answers at {at}; start one with `aude listen` or `aude up`")]
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
    /// The listener closed it, after this failure if it sent a fatal one.
    ByListener(Option<Failure>),
    /// The connection broke, or the listener fell silent.
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
        let opening = async {
            match address {
                Address::Socket(path) => {
                    let socket = SocketAddress::of(path)?;
                    let stream = UnixStream::connect(socket.as_path()).await;
                    Self::over(
                        stream.map_err(|error| nobody(&at, &error))?,
                        "ws://socket/wire",
                        &at,
                        key,
                        expected,
                        hello,
                    )
                    .await
                }
                Address::Port(place) if place.is_loopback() => {
                    let host = place.host().trim_matches(['[', ']']);
                    let stream = TcpStream::connect((host, place.port()))
                        .await
                        .map_err(|error| nobody(&at, &error))?;
                    // A key press must not wait for the acknowledgement of the one before.
                    stream.set_nodelay(true).map_err(|error| nobody(&at, &error))?;
                    Self::over(stream, &place.link_url(), &at, key, expected, hello).await
                }
                Address::Port(_) => Err(DialError::Elsewhere { at: at.clone() }),
            }
        };
        timeout(OPEN_WITHIN, opening).await.unwrap_or(Err(DialError::Silent { at: at.clone() }))
    }

    async fn over<S>(
        stream: S,
        url: &str,
        at: &str,
        key: &StaticKey,
        expected: Fingerprint,
        hello: Hello,
    ) -> Result<(Self, Welcome), DialError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let broken = |detail: String| DialError::Transport { at: at.to_owned(), detail };
        let (mut socket, _) = client_async_with_config(url, stream, Some(socket_config()))
            .await
            .map_err(|error| broken(error.to_string()))?;
        let (initiator, first) = Initiator::new(key, Prologue::Current, expected)?;
        send(&mut socket, first.to_vec()).await.map_err(|error| broken(error.to_string()))?;
        let second = receive(&mut socket).await.map_err(&broken)?;
        let (third, mut channel) = initiator.read_second(&second)?.finish()?;
        send(&mut socket, third.to_vec()).await.map_err(|error| broken(error.to_string()))?;
        let hello = Frame::new(clock::now(), OpenerBody::Hello(hello));
        for message in seal(&mut channel, &hello)? {
            send(&mut socket, message).await.map_err(|error| broken(error.to_string()))?;
        }
        let welcome = welcome(&mut socket, &mut channel, &hello.id, &broken).await?;
        let (sender, outgoing) = mpsc::channel(OUTGOING);
        let (incoming, frames) = mpsc::channel(INCOMING);
        let driver = tokio::spawn(drive::drive(socket, channel, outgoing, incoming));
        Ok((Self { sender, frames, driver }, welcome))
    }

    /// Why the link ended; call it when [`Link::frames`] has ended, otherwise it closes the link.
    pub async fn closed(self) -> Closed {
        drop(self.sender);
        drop(self.frames);
        self.driver.await.unwrap_or_else(|error| Closed::Broken(error.to_string()))
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

fn seal<R>(channel: &mut Channel<R>, frame: &Frame<OpenerBody>) -> Result<Vec<Vec<u8>>, ChannelError> {
    // Our own frames are far below the limit of a line; the texts that people send are bounded before they come here.
    let line = EncodedLine::new(frame.to_line()).map_err(|_: LineError| ChannelError::Unread)?;
    channel.send(&line)
}

async fn send<S>(socket: &mut S, message: Vec<u8>) -> Result<(), tungstenite::Error>
where
    S: Sink<Message, Error = tungstenite::Error> + Unpin,
{
    socket.send(Message::Binary(message.into())).await
}

/// The next binary message; anything else ends the link (wire §1).
async fn receive<S>(socket: &mut S) -> Result<Vec<u8>, String>
where
    S: Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    loop {
        match socket.next().await {
            Some(Ok(Message::Binary(message))) if !message.is_empty() => return Ok(message.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err("it closed the connection".to_owned()),
            Some(Ok(Message::Binary(_) | Message::Text(_) | Message::Frame(_))) => {
                return Err("it sent something else than Noise".to_owned());
            }
            Some(Err(error)) => return Err(error.to_string()),
        }
    }
}

async fn welcome<T>(
    socket: &mut WebSocketStream<T>,
    channel: &mut Channel<Pin>,
    hello: &FrameId,
    broken: &impl Fn(String) -> DialError,
) -> Result<Welcome, DialError>
where
    T: AsyncRead + AsyncWrite + Unpin,
{
    loop {
        while let Some(line) = channel.next_line().map_err(|error| broken(error.to_string()))? {
            let frame = Frame::<ListenerBody>::from_line(&line).map_err(|error| broken(error.to_string()))?;
            if let ListenerBody::Failure(failure) = frame.body {
                return Err(DialError::Refused(failure));
            }
            if let ListenerBody::Welcome(welcome) = frame.body
                && frame.reply_to.as_ref() == Some(hello)
            {
                return Ok(*welcome);
            }
        }
        let message = receive(socket).await.map_err(broken)?;
        channel.receive(&message)?;
    }
}
