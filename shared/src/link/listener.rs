//! The listener's end of a link: handshake, a stranger's `hello`, admission by the caller, then the frames that this kind of link takes.

use std::mem;

use super::{Closed, Due, Liveness, Now, Outbox, SendError, send_line};
use crate::channel::{
    Admission, Answered, Channel, ChannelError, FailureLine, Prologue, Responder, StaticKey, Unadmitted,
};
use crate::failure::{Failure, FailureCode, NO_HELLO, NOT_LISTED};
use crate::fingerprint::{Fingerprint, PublicKey};
use crate::frame::{BadFrame, Frame, FrameFault, Hello, ListenerBody, OpenerBody};
use crate::ids::FrameId;
use crate::limits;
use crate::line::{EncodedLine, LineError};
use crate::request::Request;

/// What a listener's link has to tell.
#[derive(Debug, Clone, PartialEq)]
pub enum ListenerEvent {
    /// A stranger said `hello`: answer with [`ListenerLink::admit`] or [`ListenerLink::fail`], and give no message to the link before.
    Hello {
        /// The frame's id, to which the answer replies.
        id: FrameId,
        /// What it asks for.
        hello: Hello,
        /// The key that it has proved.
        peer: Fingerprint,
    },
    /// A frame came that this kind of link takes. `ping` and `pong` are dealt with here and do not show.
    Frame(Box<Frame<OpenerBody>>),
    /// The link is over; this is the last event. What is left in `next_message` still goes out.
    Closed(Closed),
}

/// The four kinds of link (wire §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum LinkKind {
    /// A device: every session.
    Machine,
    /// A device: one session.
    Session,
    /// A session host.
    Host,
    /// aude itself.
    Home,
}

impl LinkKind {
    /// The kind that a `hello` names.
    #[must_use]
    pub fn of(hello: &Hello) -> Self {
        match hello {
            Hello::Machine(_) => Self::Machine,
            Hello::Session(_) => Self::Session,
            Hello::Host(_) => Self::Host,
            Hello::Home(_) => Self::Home,
        }
    }

    /// Whether a link of this kind takes such a frame (settled points, Submissions). `ping` and `pong` are taken by all.
    #[must_use]
    pub fn takes(self, body: &OpenerBody) -> bool {
        match body {
            OpenerBody::Hello(_) => false,
            OpenerBody::Ping | OpenerBody::Pong => true,
            OpenerBody::Submission(_)
            | OpenerBody::Interrupt(_)
            | OpenerBody::Answer(_)
            | OpenerBody::Configure(_) => self == Self::Session,
            OpenerBody::Response(_) | OpenerBody::Head(_) | OpenerBody::Delta(_) => self == Self::Host,
            OpenerBody::Request(request) => match request {
                Request::Start(_)
                | Request::Remove(_)
                | Request::Stop(_)
                | Request::Rename(_)
                | Request::Merge(_)
                | Request::Directories(_) => self == Self::Machine,
                Request::Pair(_) | Request::Revoke(_) | Request::Tunnel(_) => self == Self::Home,
                Request::Release(_) => false,
            },
        }
    }
}

/// The listener's end of a link; `R` is the proof that its admission gives.
pub struct ListenerLink<R> {
    phase: Phase<R>,
    outbox: Outbox,
    liveness: Liveness,
    /// Until when `hello` must have come, on the steady clock.
    hello_by: u64,
    bad_in_a_row: u32,
}

enum Phase<R> {
    /// The first message of the handshake is awaited.
    First(Responder),
    /// The third message of the handshake is awaited.
    Third(Answered),
    /// `hello` is awaited.
    Stranger(Unadmitted),
    /// The caller decides about a `hello`.
    Deciding(Unadmitted, LinkKind),
    /// Frames go both ways.
    Open(Channel<R>, LinkKind),
    /// The link is over.
    Closed,
}

impl<R: Admission> ListenerLink<R> {
    /// A link whose connection was accepted at that moment of the steady clock.
    ///
    /// # Errors
    /// When Noise cannot be set up.
    pub fn new(key: &StaticKey, accepted: u64) -> Result<Self, ChannelError> {
        Ok(Self {
            phase: Phase::First(Responder::new(key, Prologue::Current)?),
            outbox: Outbox::default(),
            liveness: Liveness::new(accepted),
            hello_by: accepted.saturating_add(limits::HELLO_MILLISECONDS),
            bad_in_a_row: 0,
        })
    }

    /// Takes a binary message from the socket.
    #[must_use]
    pub fn receive(&mut self, message: &[u8], now: Now) -> Vec<ListenerEvent> {
        self.liveness.heard(now.steady);
        let mut events = Vec::new();
        let outcome = self.advance(message).and_then(|()| self.read_lines(now, &mut events));
        if let Err(closed) = outcome {
            events.push(self.close(closed, now));
        }
        events
    }

    /// Admits the peer that said `hello`: `welcome` goes out, then frames. What came behind `hello` already is returned.
    ///
    /// # Errors
    /// When nobody waits for a decision, or the proof is for another key, in which case the link is over.
    pub fn admit(
        &mut self,
        right: R,
        welcome: &Frame<ListenerBody>,
        now: Now,
    ) -> Result<Vec<ListenerEvent>, SendError> {
        let phase = mem::replace(&mut self.phase, Phase::Closed);
        let Phase::Deciding(unadmitted, kind) = phase else {
            self.phase = phase;
            return Err(SendError::NotOpen);
        };
        self.phase = Phase::Open(unadmitted.admit(right)?, kind);
        self.liveness.heard(now.steady);
        self.send(welcome)?;
        let mut events = Vec::new();
        if let Err(closed) = self.read_lines(now, &mut events) {
            events.push(self.close(closed, now));
        }
        Ok(events)
    }

    /// Sends a failure; a fatal one ends the link, which the returned event says.
    pub fn fail(&mut self, reply_to: Option<FrameId>, failure: Failure, now: Now) -> Option<ListenerEvent> {
        if failure.is_fatal {
            self.queue_failure(reply_to, failure.clone(), now).ok();
            self.phase = Phase::Closed;
            return Some(ListenerEvent::Closed(Closed::Failure(failure)));
        }
        let outcome = self.queue_failure(reply_to, failure, now);
        outcome.err().map(|error| self.close(error.into(), now))
    }

    /// Queues a frame.
    ///
    /// # Errors
    /// When the link is not open, or the socket is too slow for what waits already.
    pub fn send(&mut self, frame: &Frame<ListenerBody>) -> Result<(), SendError> {
        self.send_line(&frame.encode()?)
    }

    /// Queues a line that is a frame already, such as an entry straight from the log.
    ///
    /// # Errors
    /// When the link is not open, or the socket is too slow for what waits already.
    pub fn send_line(&mut self, line: &EncodedLine) -> Result<(), SendError> {
        match &mut self.phase {
            Phase::Open(channel, _) => send_line(channel, &mut self.outbox, line),
            Phase::First(_) | Phase::Third(_) | Phase::Stranger(_) | Phase::Deciding(..) | Phase::Closed => {
                Err(SendError::NotOpen)
            }
        }
    }

    /// The proof of admission of an open link.
    #[must_use]
    pub fn right(&self) -> Option<&R> {
        match &self.phase {
            Phase::Open(channel, _) => Some(channel.right()),
            Phase::First(_) | Phase::Third(_) | Phase::Stranger(_) | Phase::Deciding(..) | Phase::Closed => {
                None
            }
        }
    }

    /// The key that a peer has proved which said `hello` and was not admitted yet: what pairing lists.
    #[must_use]
    pub fn stranger_key(&self) -> Option<PublicKey> {
        match &self.phase {
            Phase::Stranger(unadmitted) | Phase::Deciding(unadmitted, _) => Some(unadmitted.peer_key()),
            Phase::First(_) | Phase::Third(_) | Phase::Open(..) | Phase::Closed => None,
        }
    }

    /// Bytes came that are no whole message yet: the peer lives.
    pub fn heard(&mut self, now: Now) {
        self.liveness.heard(now.steady);
    }

    /// The next transport message for the socket, which goes out as one binary message.
    pub fn next_message(&mut self) -> Option<Vec<u8>> {
        self.outbox.pop()
    }

    /// The socket took bytes of a message.
    pub fn sent(&mut self, now: Now) {
        self.liveness.sent(now.steady);
    }

    /// Whether more frames should be queued to keep the socket busy: how a backlog goes out at the peer's speed.
    #[must_use]
    pub fn is_hungry(&self) -> bool {
        self.outbox.is_hungry()
    }

    /// When [`Self::tick`] must be called, on the steady clock; `None` while the caller decides, and once the link is over.
    #[must_use]
    pub fn wake_at(&self) -> Option<u64> {
        match self.phase {
            Phase::First(_) | Phase::Third(_) | Phase::Stranger(_) => Some(self.hello_by),
            Phase::Open(..) => Some(self.liveness.wake_at()),
            Phase::Deciding(..) | Phase::Closed => None,
        }
    }

    /// Does what time asks for.
    #[must_use]
    pub fn tick(&mut self, now: Now) -> Option<ListenerEvent> {
        match &mut self.phase {
            Phase::First(_) | Phase::Third(_) | Phase::Stranger(_) if now.steady >= self.hello_by => {
                Some(self.close(Closed::Late, now))
            }
            Phase::Open(..) => match self.liveness.due(now.steady) {
                Due::Nothing => None,
                Due::Close => Some(self.close(Closed::Silent, now)),
                Due::Ping => {
                    let outcome = self.send(&Frame::new(now.date, ListenerBody::Ping));
                    outcome.err().map(|error| self.close(error.into(), now))
                }
            },
            Phase::First(_) | Phase::Third(_) | Phase::Stranger(_) | Phase::Deciding(..) | Phase::Closed => {
                None
            }
        }
    }

    /// Takes a message into the phase that it belongs to.
    fn advance(&mut self, message: &[u8]) -> Result<(), Closed> {
        self.phase = match mem::replace(&mut self.phase, Phase::Closed) {
            Phase::First(responder) => {
                let (answered, second) = responder.read_first(message)?;
                self.outbox.push(second.to_vec());
                Phase::Third(answered)
            }
            Phase::Third(answered) => Phase::Stranger(answered.read_third(message)?),
            Phase::Stranger(mut unadmitted) => {
                unadmitted.receive(message)?;
                Phase::Stranger(unadmitted)
            }
            Phase::Deciding(mut unadmitted, kind) => {
                unadmitted.receive(message)?;
                Phase::Deciding(unadmitted, kind)
            }
            Phase::Open(mut channel, kind) => {
                channel.receive(message)?;
                Phase::Open(channel, kind)
            }
            Phase::Closed => Phase::Closed,
        };
        Ok(())
    }

    fn read_lines(&mut self, now: Now, events: &mut Vec<ListenerEvent>) -> Result<(), Closed> {
        loop {
            let line = match &mut self.phase {
                Phase::Stranger(unadmitted) => unadmitted.next_line(),
                Phase::Open(channel, _) => channel.next_line(),
                Phase::First(_) | Phase::Third(_) | Phase::Deciding(..) | Phase::Closed => return Ok(()),
            };
            let Some(line) = line? else { return Ok(()) };
            match Frame::from_line(&line) {
                Ok(frame) => events.extend(self.take(frame, now)?),
                Err(bad) => self.complain(bad, now)?,
            }
        }
    }

    fn take(&mut self, frame: Frame<OpenerBody>, now: Now) -> Result<Option<ListenerEvent>, Closed> {
        match mem::replace(&mut self.phase, Phase::Closed) {
            Phase::Stranger(unadmitted) => {
                let peer = unadmitted.peer();
                if let OpenerBody::Hello(hello) = frame.body {
                    self.phase = Phase::Deciding(unadmitted, LinkKind::of(&hello));
                    return Ok(Some(ListenerEvent::Hello { id: frame.id, hello, peer }));
                }
                self.phase = Phase::Stranger(unadmitted);
                Err(self.refuse(Some(frame.id), NO_HELLO, now))
            }
            Phase::Open(channel, kind) => {
                self.phase = Phase::Open(channel, kind);
                if !kind.takes(&frame.body) {
                    let detail = "this link does not take such a frame".to_owned();
                    self.complain(BadFrame { id: Some(frame.id), detail, fault: FrameFault::BadJson }, now)?;
                    return Ok(None);
                }
                self.bad_in_a_row = 0;
                match frame.body {
                    OpenerBody::Ping => {
                        self.send(&Frame::reply(now.date, frame.id, ListenerBody::Pong))?;
                        Ok(None)
                    }
                    OpenerBody::Pong => Ok(None),
                    OpenerBody::Hello(_)
                    | OpenerBody::Submission(_)
                    | OpenerBody::Interrupt(_)
                    | OpenerBody::Answer(_)
                    | OpenerBody::Configure(_)
                    | OpenerBody::Request(_)
                    | OpenerBody::Response(_)
                    | OpenerBody::Head(_)
                    | OpenerBody::Delta(_) => Ok(Some(ListenerEvent::Frame(Box::new(frame)))),
                }
            }
            other @ (Phase::First(_) | Phase::Third(_) | Phase::Deciding(..) | Phase::Closed) => {
                self.phase = other;
                Ok(None)
            }
        }
    }

    /// Answers a bad line; a hundred in a row end the link.
    fn complain(&mut self, bad: BadFrame, now: Now) -> Result<(), Closed> {
        match bad.fault {
            FrameFault::UnknownLink if matches!(self.phase, Phase::Stranger(_)) => {
                return Err(self.refuse(bad.id, NOT_LISTED, now));
            }
            FrameFault::UnknownLink | FrameFault::BadJson => {}
        }
        self.queue_failure(bad.id, Failure::new(FailureCode::BadJson, bad.detail), now)?;
        self.bad_in_a_row += 1;
        if self.bad_in_a_row >= limits::BAD_JSON_IN_A_ROW { Err(Closed::Protocol) } else { Ok(()) }
    }

    /// Sends the fatal `unauthorised` that ends the link.
    fn refuse(&mut self, reply_to: Option<FrameId>, detail: &str, now: Now) -> Closed {
        let failure = Failure::new(FailureCode::Unauthorised, detail);
        self.queue_failure(reply_to, failure.clone(), now).ok();
        self.phase = Phase::Closed;
        Closed::Failure(failure)
    }

    fn queue_failure(
        &mut self,
        reply_to: Option<FrameId>,
        failure: Failure,
        now: Now,
    ) -> Result<(), SendError> {
        let failure = FailureLine::new(now.date, reply_to, failure)?;
        match &mut self.phase {
            Phase::Stranger(unadmitted) | Phase::Deciding(unadmitted, _) => {
                for message in unadmitted.send_failure(&failure)? {
                    self.outbox.push(message);
                }
                Ok(())
            }
            Phase::Open(channel, _) => send_line(channel, &mut self.outbox, failure.line()),
            // Before Noise stands nothing can be said (settled points, Transport).
            Phase::First(_) | Phase::Third(_) | Phase::Closed => Err(SendError::NotOpen),
        }
    }

    /// Ends the link, after a last word where the wire has one for this reason.
    fn close(&mut self, closed: Closed, now: Now) -> ListenerEvent {
        let last_word = match &closed {
            Closed::Line(LineError::TooLong) => {
                Some(Failure::new(FailureCode::LineTooLong, "a line is longer than 8 MiB"))
            }
            Closed::Line(LineError::NoHello) | Closed::Late => {
                Some(Failure::new(FailureCode::Unauthorised, NO_HELLO))
            }
            // A failure was sent when it was found.
            Closed::Failure(_)
            | Closed::Channel(_)
            | Closed::Line(LineError::Broken)
            | Closed::Silent
            | Closed::Flooded
            | Closed::Protocol => None,
        };
        if let Some(failure) = last_word {
            self.queue_failure(None, failure, now).ok();
        }
        self.phase = Phase::Closed;
        ListenerEvent::Closed(closed)
    }
}
