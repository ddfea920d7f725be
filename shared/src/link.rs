//! The two ends of a link as machines without I/O: transport messages and moments in, transport messages and events out (wire §1 to §4, §9).
//!
//! [`ClientLink`] is the opener's end (a device, a session host, `aude pair`), [`ListenerLink`] the listener's. Whoever owns the socket
//! gives each binary message to `receive`, sends what `next_message` returns and then calls `sent`, and calls `tick` at `wake_at`.

mod client;
mod listener;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

pub use client::{ClientEvent, ClientLink};
pub use listener::{LinkKind, ListenerEvent, ListenerLink};

use crate::channel::{Channel, ChannelError};
use crate::failure::Failure;
use crate::limits;
use crate::line::{EncodedLine, LineError};
use crate::time::Timestamp;

/// Bytes of transport messages that may wait for the socket: two of the largest lines, so that one can always be queued behind another.
const OUTBOX_BYTES: usize = 2 * (limits::LINE_BYTES + limits::LINE_BYTES / 1000);
/// Bytes that should wait for the socket while there is more to send: enough to keep it busy, little enough to keep memory low.
const HUNGRY_BYTES: usize = 256 * 1024;

/// A moment on both clocks: what frames carry, and what timers count, which no correction of the date moves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Now {
    /// The date.
    pub date: Timestamp,
    /// Milliseconds of a clock that never goes back, from any zero.
    pub steady: u64,
}

/// Why a link is over. Whoever owns the socket sends what is left in `next_message`, then closes it.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum Closed {
    /// The encryption could not be set up, or broke.
    #[error(transparent)]
    Channel(#[from] ChannelError),
    /// The peer sent a line that is too long.
    #[error(transparent)]
    Line(#[from] LineError),
    /// A fatal failure was received, or sent.
    #[error("{}", .0.detail)]
    Failure(Failure),
    /// The peer neither sent nor took a byte in time.
    #[error("the other end does not answer any more")]
    Silent,
    /// The handshake and the first frame took too long.
    #[error("the other end did not answer in time")]
    Late,
    /// The peer made us answer more than it took.
    #[error("the other end asks without taking the answers")]
    Flooded,
    /// The peer sent what it may not.
    #[error("the other end does not keep to the protocol")]
    Protocol,
}

/// Why a frame was not queued.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// The link is not open (yet, or any more).
    #[error("the connection is not open")]
    NotOpen,
    /// Too much waits for the socket already.
    #[error("the connection is too slow for what is to be sent")]
    Full,
    /// The frame is too long for the wire.
    #[error(transparent)]
    Line(#[from] LineError),
    /// The channel is broken.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// Tells a link whose peer is gone from one that is only quiet (wire §9 and the settled points, Transport).
///
/// Nothing heard for 15 s: a `ping` is due. Nothing heard for 30 s after that, counted anew whenever the peer took bytes: it is gone.
#[derive(Debug, Clone, Copy)]
pub struct Liveness {
    state: Hearing,
}

#[derive(Debug, Clone, Copy)]
enum Hearing {
    /// The last byte came then.
    Heard(u64),
    /// A ping was queued; the last sign of life, also that the peer took bytes, was then.
    Asked(u64),
}

/// What is due by [`Liveness`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// Nothing yet.
    Nothing,
    /// A `ping` is to be queued; it counts as asked.
    Ping,
    /// The link is to be closed.
    Close,
}

impl Liveness {
    /// A link on which the last byte came just now.
    #[must_use]
    pub fn new(steady: u64) -> Self {
        Self { state: Hearing::Heard(steady) }
    }

    /// Bytes came, whatever they were.
    pub fn heard(&mut self, steady: u64) {
        self.state = Hearing::Heard(steady);
    }

    /// The transport took bytes: the ping may be among them, and a peer that takes them is not gone.
    pub fn sent(&mut self, steady: u64) {
        if let Hearing::Asked(since) = &mut self.state {
            *since = steady;
        }
    }

    /// What is due at this moment.
    pub fn due(&mut self, steady: u64) -> Due {
        if steady < self.wake_at() {
            return Due::Nothing;
        }
        match self.state {
            Hearing::Heard(_) => {
                self.state = Hearing::Asked(steady);
                Due::Ping
            }
            Hearing::Asked(_) => Due::Close,
        }
    }

    /// When something will be due, if nothing happens.
    #[must_use]
    pub fn wake_at(&self) -> u64 {
        match self.state {
            Hearing::Heard(since) => since.saturating_add(limits::PING_AFTER_MILLISECONDS),
            Hearing::Asked(since) => since.saturating_add(limits::PONG_WITHIN_MILLISECONDS),
        }
    }
}

/// Transport messages that wait for the socket.
#[derive(Debug, Default)]
struct Outbox {
    messages: VecDeque<Vec<u8>>,
    bytes: usize,
}

impl Outbox {
    fn has_room_for(&self, bytes: usize) -> bool {
        self.bytes.saturating_add(bytes) <= OUTBOX_BYTES
    }

    fn is_hungry(&self) -> bool {
        self.bytes < HUNGRY_BYTES
    }

    fn push(&mut self, message: Vec<u8>) {
        self.bytes += message.len();
        self.messages.push_back(message);
    }

    fn pop(&mut self) -> Option<Vec<u8>> {
        let message = self.messages.pop_front()?;
        self.bytes -= message.len();
        Some(message)
    }

    fn clear(&mut self) {
        *self = Self::default();
    }
}

impl From<SendError> for Closed {
    fn from(error: SendError) -> Self {
        match error {
            SendError::NotOpen => Self::Protocol,
            SendError::Full => Self::Flooded,
            SendError::Line(error) => Self::Line(error),
            SendError::Channel(error) => Self::Channel(error),
        }
    }
}

/// Encrypts and queues a line, if there is room for all of it.
fn send_line<R>(channel: &mut Channel<R>, outbox: &mut Outbox, line: &EncodedLine) -> Result<(), SendError> {
    if !outbox.has_room_for(line.as_bytes().len()) {
        return Err(SendError::Full);
    }
    for message in channel.send(line)? {
        outbox.push(message);
    }
    Ok(())
}
