//! The opener's end of a link: handshake, pin, `hello`, then frames.

use std::mem;

use super::{Closed, Due, Liveness, Now, Outbox, SendError, send_line};
use crate::channel::{Channel, Initiator, Pin, Pinned, Prologue, StaticKey};
use crate::fingerprint::Fingerprint;
use crate::frame::{BadFrame, Frame, Hello, ListenerBody, OpenerBody, Welcome};
use crate::ids::FrameId;
use crate::limits;
use crate::line::{EncodedLine, LineError};

/// What a client's link has to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum ClientEvent {
    /// The listener admitted us; from now on frames can be sent.
    Welcomed(Box<Welcome>),
    /// A frame came. `ping` and `pong` are dealt with here and do not show.
    Frame(Box<Frame<ListenerBody>>),
    /// A line came that is no frame; the link goes on without it.
    Unreadable(BadFrame),
    /// The link is over; this is the last event.
    Closed(Closed),
}

/// The opener's end of a link.
///
/// ```
/// use shared::channel::StaticKey;
/// use shared::frame::Hello;
/// use shared::link::{ClientLink, Now};
/// # let (key, machine) = (StaticKey::generate().unwrap(), StaticKey::generate().unwrap().fingerprint());
/// # let now = Now { date: shared::time::Timestamp::from_milliseconds(0), steady: 0 };
/// let mut link = ClientLink::new(&key, machine, Hello::Home(Default::default()), now).unwrap();
/// let first = link.next_message().unwrap(); // goes to the socket as one binary message, then:
/// link.sent(now);
/// assert_eq!(first.len(), 32);
/// ```
pub struct ClientLink {
    phase: Phase,
    outbox: Outbox,
    liveness: Liveness,
    /// Until when the listener must have said `welcome`, on the steady clock.
    welcome_by: u64,
    unreadable_in_a_row: u32,
}

enum Phase {
    /// The second message of the handshake is awaited, then `hello` is sent.
    Handshake { initiator: Box<Initiator>, hello: EncodedLine, id: FrameId },
    /// `hello` was sent; `welcome` must come before any other frame.
    Greeting { channel: Box<Channel<Pin>>, hello: FrameId },
    /// Frames go both ways.
    Open { channel: Box<Channel<Pin>> },
    /// The link is over.
    Closed,
}

impl ClientLink {
    /// Begins a link to the listener with that fingerprint; the first message waits in [`Self::next_message`].
    ///
    /// # Errors
    /// When the operating system gives no randomness, or the `hello` is too long for a listener.
    pub fn new(key: &StaticKey, expected: Fingerprint, hello: Hello, now: Now) -> Result<Self, SendError> {
        let hello = Frame::new(now.date, OpenerBody::Hello(hello));
        let line = hello.encode()?;
        if line.as_bytes().len() > limits::HELLO_BYTES {
            return Err(SendError::Line(LineError::NoHello));
        }
        let (initiator, first) = Initiator::new(key, Prologue::Current, expected)?;
        let mut outbox = Outbox::default();
        outbox.push(first.to_vec());
        Ok(Self {
            phase: Phase::Handshake { initiator: Box::new(initiator), hello: line, id: hello.id },
            outbox,
            liveness: Liveness::new(now.steady),
            welcome_by: now.steady.saturating_add(limits::HELLO_MILLISECONDS),
            unreadable_in_a_row: 0,
        })
    }

    /// Takes a binary message from the socket.
    #[must_use]
    pub fn receive(&mut self, message: &[u8], now: Now) -> Vec<ClientEvent> {
        let mut events = Vec::new();
        if let Err(closed) = self.try_receive(message, now, &mut events) {
            events.extend(self.close(closed));
        }
        events
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// When the link is not open, or the socket is too slow for what waits already.
    pub fn send(&mut self, frame: &Frame<OpenerBody>) -> Result<(), SendError> {
        let Phase::Open { channel } = &mut self.phase else { return Err(SendError::NotOpen) };
        send_line(channel, &mut self.outbox, &frame.encode()?)
    }

    /// The next transport message for the socket, which goes out as one binary message.
    pub fn next_message(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop()
    }

    /// The socket took bytes of a message.
    pub fn sent(&mut self, now: Now) {
        self.liveness.sent(now.steady);
    }

    /// Whether more frames should be queued to keep the socket busy.
    #[must_use]
    pub fn is_hungry(&self) -> bool {
        self.outbox.is_hungry()
    }

    /// Whether frames can be sent.
    #[must_use]
    pub fn is_open(&self) -> bool {
        matches!(self.phase, Phase::Open { .. })
    }

    /// When [`Self::tick`] must be called, on the steady clock; never once the link is over.
    #[must_use]
    pub fn wake_at(&self) -> Option<u64> {
        match self.phase {
            Phase::Handshake { .. } | Phase::Greeting { .. } => Some(self.welcome_by),
            Phase::Open { .. } => Some(self.liveness.wake_at()),
            Phase::Closed => None,
        }
    }

    /// Does what time asks for.
    #[must_use]
    pub fn tick(&mut self, now: Now) -> Option<ClientEvent> {
        match &mut self.phase {
            Phase::Handshake { .. } | Phase::Greeting { .. } => {
                if now.steady >= self.welcome_by {
                    self.close(Closed::Late)
                } else {
                    None
                }
            }
            Phase::Open { channel } => match self.liveness.due(now.steady) {
                Due::Nothing => None,
                Due::Close => self.close(Closed::Silent),
                Due::Ping => {
                    let ping = Frame::new(now.date, OpenerBody::Ping);
                    let outcome = answer(channel, &mut self.outbox, &ping);
                    outcome.err().and_then(|closed| self.close(closed))
                }
            },
            Phase::Closed => None,
        }
    }

    fn try_receive(&mut self, message: &[u8], now: Now, events: &mut Vec<ClientEvent>) -> Result<(), Closed> {
        self.liveness.heard(now.steady);
        match mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Handshake { initiator, hello, id } => {
                let (third, mut channel) = initiator.read_second(message).and_then(Pinned::finish)?;
                self.outbox.push(third.to_vec());
                for message in channel.send(&hello)? {
                    self.outbox.push(message);
                }
                self.phase = Phase::Greeting { channel: Box::new(channel), hello: id };
                return Ok(());
            }
            Phase::Greeting { mut channel, hello } => {
                channel.receive(message)?;
                self.phase = Phase::Greeting { channel, hello };
            }
            Phase::Open { mut channel } => {
                channel.receive(message)?;
                self.phase = Phase::Open { channel };
            }
            Phase::Closed => return Ok(()),
        }
        while let Some(line) = self.next_line()? {
            match Frame::from_line(&line) {
                Ok(frame) => {
                    self.unreadable_in_a_row = 0;
                    events.extend(self.take(frame, now)?);
                }
                Err(bad) => {
                    self.unreadable_in_a_row += 1;
                    if self.unreadable_in_a_row >= limits::BAD_JSON_IN_A_ROW {
                        return Err(Closed::Protocol);
                    }
                    events.push(ClientEvent::Unreadable(bad));
                }
            }
        }
        Ok(())
    }

    fn next_line(&mut self) -> Result<Option<Vec<u8>>, Closed> {
        match &mut self.phase {
            Phase::Greeting { channel, .. } | Phase::Open { channel } => Ok(channel.next_line()?),
            Phase::Handshake { .. } | Phase::Closed => Ok(None),
        }
    }

    fn take(&mut self, frame: Frame<ListenerBody>, now: Now) -> Result<Option<ClientEvent>, Closed> {
        match (&frame.body, &mut self.phase) {
            (ListenerBody::Failure(failure), _) if failure.is_fatal => Err(Closed::Failure(failure.clone())),
            (ListenerBody::Ping, Phase::Greeting { channel, .. } | Phase::Open { channel }) => {
                let pong = Frame::reply(now.date, frame.id, OpenerBody::Pong);
                answer(channel, &mut self.outbox, &pong).map(|()| None)
            }
            (ListenerBody::Pong | ListenerBody::Unknown(_), _) => Ok(None),
            (ListenerBody::Failure(_), _) => Ok(Some(ClientEvent::Frame(Box::new(frame)))),
            (ListenerBody::Welcome(_), Phase::Greeting { hello, .. })
                if frame.reply_to.as_ref() == Some(hello) =>
            {
                Ok(self.welcomed(frame))
            }
            (_, Phase::Open { .. }) if !matches!(frame.body, ListenerBody::Welcome(_)) => {
                Ok(Some(ClientEvent::Frame(Box::new(frame))))
            }
            // Before the right welcome, or a second one.
            _ => Err(Closed::Protocol),
        }
    }

    fn welcomed(&mut self, frame: Frame<ListenerBody>) -> Option<ClientEvent> {
        match (mem::replace(&mut self.phase, Phase::Closed), frame.body) {
            (Phase::Greeting { channel, .. }, ListenerBody::Welcome(welcome)) => {
                self.phase = Phase::Open { channel };
                Some(ClientEvent::Welcomed(welcome))
            }
            (phase, _) => {
                self.phase = phase;
                None
            }
        }
    }

    /// Ends the link; says so once. A client has nothing to send after that.
    fn close(&mut self, closed: Closed) -> Option<ClientEvent> {
        self.phase = Phase::Closed;
        self.outbox.clear();
        Some(ClientEvent::Closed(closed))
    }
}

/// Queues what the other end made us send; when even that has no room, the link cannot go on.
fn answer(channel: &mut Channel<Pin>, outbox: &mut Outbox, frame: &Frame<OpenerBody>) -> Result<(), Closed> {
    send_line(channel, outbox, &frame.encode()?).map_err(Closed::from)
}
