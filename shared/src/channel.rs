//! Noise between two peers as consuming types without I/O: no value that can carry a frame exists before its peer was pinned or admitted (wire §1).
//!
//! A client goes [`Initiator`] → [`Pinned`] → [`Channel<Pin>`](Channel); a listener goes [`Responder`] → [`Answered`] → [`Unadmitted`] →
//! `Channel` of the right that admission gave. Every step consumes the one before, so nothing can be done out of order:
//!
//! ```compile_fail,E0599
//! fn too_early(peer: &mut shared::channel::Unadmitted, line: &shared::line::EncodedLine) {
//!     peer.send(line); // a stranger can only be sent a failure
//! }
//! ```
//!
//! ```compile_fail,E0599
//! fn too_early(listener: shared::channel::Initiator) {
//!     listener.finish(); // the third message needs the pin
//! }
//! ```
//!
//! ```compile_fail,E0451
//! fn forged(fingerprint: shared::fingerprint::Fingerprint) -> shared::channel::Pin {
//!     shared::channel::Pin { fingerprint } // only the comparison makes a pin
//! }
//! ```

mod key;
#[cfg(test)]
mod tests;
mod transport;

pub use key::StaticKey;
use snow::{Builder, HandshakeState};
use transport::{Inbox, Noise};

use crate::failure::Failure;
use crate::fingerprint::{Fingerprint, PublicKey};
use crate::frame::{Frame, ListenerBody};
use crate::ids::FrameId;
use crate::json;
use crate::limits;
use crate::line::{EncodedLine, LineDecoder, LineError};
use crate::time::Timestamp;

/// The Noise protocol of both versions.
const PATTERN: &str = "Noise_XX_25519_ChaChaPoly_SHA256";
/// The lengths of the three handshake messages with empty payloads, in bytes.
const FIRST: usize = 32;
const SECOND: usize = 96;
const THIRD: usize = 64;
/// The tag of a message, in bytes.
const TAG: usize = 16;

/// Why a channel cannot be had or used. In every case the link must be closed without another byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ChannelError {
    /// A handshake message has a wrong length, holds a low-order key or does not authenticate.
    #[error(
        "the encrypted handshake failed; the peer does not speak this protocol, or somebody changes what it sends"
    )]
    Handshake,
    /// The listener has another key than the one dialled.
    #[error(
        "the machine at this address is another one: its fingerprint is {found}, expected was {expected}"
    )]
    OtherMachine {
        /// The fingerprint that was dialled.
        expected: Fingerprint,
        /// The fingerprint of the key that answered.
        found: Fingerprint,
    },
    /// A message does not authenticate, was replayed or came out of order, or an earlier one did: nothing after it can be believed.
    #[error("a message was damaged, repeated or out of order, so the link is closed")]
    Broken,
    /// The proof of admission is for another key than the channel's.
    #[error("this admission belongs to another device")]
    OtherDevice,
    /// More was received than its reader took.
    #[error("more came than was read")]
    Unread,
    /// No randomness.
    #[error("the operating system gave no random bytes")]
    Random,
    /// The text is not a private key.
    #[error("a machine key is 64 hexadecimal characters")]
    KeyText,
}

/// What both ends mix into the handshake so that they agree on the protocol's version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Prologue {
    /// The current wire.
    Current,
    /// Version 21, whose prologue is empty.
    Version21,
}

impl Prologue {
    fn bytes(self) -> &'static [u8] {
        match self {
            Self::Current => b"aude-wire",
            Self::Version21 => b"",
        }
    }
}

/// A handshake's settings. A test that compares bytes fixes the ephemeral key; nothing else does.
fn builder<'a>(
    key: &'a StaticKey,
    prologue: Prologue,
    ephemeral: Option<&'a [u8; 32]>,
) -> Result<Builder<'a>, snow::Error> {
    let builder =
        Builder::new(PATTERN.parse()?).prologue(prologue.bytes())?.local_private_key(key.0.as_ref())?;
    Ok(match ephemeral {
        Some(bytes) => builder.fixed_ephemeral_key_for_testing_only(bytes),
        None => builder,
    })
}

fn write<const LENGTH: usize>(state: &mut HandshakeState) -> Result<[u8; LENGTH], ChannelError> {
    // snow wants room for a tag even where none is written.
    let mut buffer = [0; SECOND + TAG];
    match state.write_message(&[], &mut buffer) {
        Ok(length) => buffer[..length].try_into().map_err(|_| ChannelError::Handshake),
        Err(snow::Error::Rng) => Err(ChannelError::Random),
        Err(_) => Err(ChannelError::Handshake),
    }
}

fn read<const LENGTH: usize>(state: &mut HandshakeState, message: &[u8]) -> Result<(), ChannelError> {
    if message.len() != LENGTH {
        return Err(ChannelError::Handshake);
    }
    let mut payload = [0; LENGTH];
    match state.read_message(message, &mut payload) {
        Ok(0) => Ok(()),
        Ok(_) | Err(_) => Err(ChannelError::Handshake),
    }
}

/// Refuses an ephemeral key of low order: snow computes with it, and the result would be all zero.
fn check_ephemeral(message: &[u8]) -> Result<(), ChannelError> {
    let key = message.first_chunk().ok_or(ChannelError::Handshake)?;
    PublicKey::from_bytes(*key).map(|_| ()).map_err(|_| ChannelError::Handshake)
}

fn remote_key(state: &HandshakeState) -> Result<PublicKey, ChannelError> {
    let key = state.get_remote_static().and_then(|key| key.try_into().ok());
    PublicKey::from_bytes(key.ok_or(ChannelError::Handshake)?).map_err(|_| ChannelError::Handshake)
}

/// A client that has sent its first message and knows the fingerprint that must answer.
pub struct Initiator {
    state: HandshakeState,
    expected: Fingerprint,
}

impl Initiator {
    /// Begins a handshake: the first message is to be sent.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn new(
        key: &StaticKey,
        prologue: Prologue,
        expected: Fingerprint,
    ) -> Result<(Self, [u8; FIRST]), ChannelError> {
        Self::with_ephemeral(key, prologue, expected, None)
    }

    fn with_ephemeral(
        key: &StaticKey,
        prologue: Prologue,
        expected: Fingerprint,
        ephemeral: Option<&[u8; 32]>,
    ) -> Result<(Self, [u8; FIRST]), ChannelError> {
        let builder = builder(key, prologue, ephemeral).map_err(|_| ChannelError::Handshake)?;
        let mut state = builder.build_initiator().map_err(|_| ChannelError::Handshake)?;
        let first = write(&mut state)?;
        Ok((Self { state, expected }, first))
    }

    /// Reads the second message and compares the listener's key with the fingerprint that was dialled.
    ///
    /// # Errors
    /// When the message is wrong, or [`ChannelError::OtherMachine`].
    pub fn read_second(mut self, message: &[u8]) -> Result<Pinned, ChannelError> {
        read::<SECOND>(&mut self.state, message)?;
        check_ephemeral(message)?;
        let peer = remote_key(&self.state)?;
        let (expected, found) = (self.expected, peer.fingerprint());
        if expected != found {
            return Err(ChannelError::OtherMachine { expected, found });
        }
        Ok(Pinned { state: self.state, peer })
    }
}

/// A client whose listener has the key that was dialled; only now can the third message be made, which tells who the client is.
pub struct Pinned {
    state: HandshakeState,
    peer: PublicKey,
}

impl Pinned {
    /// Ends the handshake: the third message is to be sent, then frames may follow.
    ///
    /// # Errors
    /// When the handshake cannot be ended.
    pub fn finish(mut self) -> Result<([u8; THIRD], Channel<Pin>), ChannelError> {
        let third = write(&mut self.state)?;
        let noise = Noise::new(self.state, self.peer)?;
        let right = Pin { fingerprint: self.peer.fingerprint() };
        Ok((third, Channel { noise, inbox: Inbox::new(LineDecoder::new()), right }))
    }
}

/// Proof that the listener's key is the one that was dialled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pin {
    fingerprint: Fingerprint,
}

impl Pin {
    /// The fingerprint that was dialled and that answered.
    #[must_use]
    pub fn fingerprint(self) -> Fingerprint {
        self.fingerprint
    }
}

/// A listener that waits for the first message.
pub struct Responder {
    state: HandshakeState,
}

impl Responder {
    /// A listener's end with the machine's key.
    ///
    /// # Errors
    /// When Noise cannot be set up.
    pub fn new(key: &StaticKey, prologue: Prologue) -> Result<Self, ChannelError> {
        Self::with_ephemeral(key, prologue, None)
    }

    fn with_ephemeral(
        key: &StaticKey,
        prologue: Prologue,
        ephemeral: Option<&[u8; 32]>,
    ) -> Result<Self, ChannelError> {
        let builder = builder(key, prologue, ephemeral).map_err(|_| ChannelError::Handshake)?;
        let state = builder.build_responder().map_err(|_| ChannelError::Handshake)?;
        Ok(Self { state })
    }

    /// Reads the first message: the second is to be sent.
    ///
    /// # Errors
    /// When the message is wrong or the operating system gives no randomness.
    pub fn read_first(mut self, message: &[u8]) -> Result<(Answered, [u8; SECOND]), ChannelError> {
        read::<FIRST>(&mut self.state, message)?;
        check_ephemeral(message)?;
        let second = write(&mut self.state)?;
        Ok((Answered { state: self.state }, second))
    }
}

/// A listener that has sent the second message and waits for the third.
pub struct Answered {
    state: HandshakeState,
}

impl Answered {
    /// Reads the third message: the peer has proved its key, and nothing else.
    ///
    /// # Errors
    /// When the message is wrong.
    pub fn read_third(mut self, message: &[u8]) -> Result<Unadmitted, ChannelError> {
        read::<THIRD>(&mut self.state, message)?;
        let peer = remote_key(&self.state)?;
        let noise = Noise::new(self.state, peer)?;
        Ok(Unadmitted { noise, inbox: Inbox::new(LineDecoder::awaiting_hello()) })
    }
}

/// A proof of admission, which the listener's admission alone makes for the key that it decided about (wire §9).
pub trait Admission {
    /// The fingerprint of the key that was admitted.
    fn fingerprint(&self) -> Fingerprint;
}

/// A `failure` frame as a line: the only thing that may be said to a stranger.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureLine(EncodedLine);

impl FailureLine {
    /// The line of a failure, which answers the frame whose id was readable. A long `detail` is cut.
    ///
    /// # Errors
    /// Never in practice: a cut failure is far below a line's limit.
    pub fn new(
        timestamp: Timestamp,
        reply_to: Option<FrameId>,
        mut failure: Failure,
    ) -> Result<Self, LineError> {
        failure.detail.truncate(json::cut(&failure.detail, limits::DETAIL_BYTES).len());
        let mut frame = Frame::new(timestamp, ListenerBody::Failure(failure));
        frame.reply_to = reply_to;
        frame.encode().map(Self)
    }

    /// The line.
    #[must_use]
    pub fn line(&self) -> &EncodedLine {
        &self.0
    }
}

/// A listener's end whose peer has proved a key but was not admitted: it can say `hello` in 16 KiB and be told why not.
pub struct Unadmitted {
    noise: Noise,
    inbox: Inbox,
}

impl Unadmitted {
    /// The fingerprint of the key that the peer has proved.
    #[must_use]
    pub fn peer(&self) -> Fingerprint {
        self.noise.peer.fingerprint()
    }

    /// The key that the peer has proved.
    #[must_use]
    pub fn peer_key(&self) -> PublicKey {
        self.noise.peer
    }

    /// Takes a transport message; its lines are then read with [`Self::next_line`].
    ///
    /// # Errors
    /// When it does not authenticate, or when too much waits unread.
    pub fn receive(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        self.inbox.receive(&mut self.noise, message)
    }

    /// The next line without its `\n`, if it has come. Take no more lines once `hello` has come: the rest belongs to the admitted channel.
    ///
    /// # Errors
    /// [`LineError::NoHello`] beyond 16,384 bytes: fatal `unauthorised`, `no hello`.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        self.inbox.next_line()
    }

    /// The messages of a failure, which are to be sent.
    ///
    /// # Errors
    /// When the channel is broken.
    pub fn send_failure(&mut self, failure: &FailureLine) -> Result<Vec<Vec<u8>>, ChannelError> {
        self.noise.send(&failure.0)
    }

    /// Turns the proof of admission into the channel that carries frames; what came after `hello` is read from there.
    ///
    /// # Errors
    /// When the proof is for another key.
    pub fn admit<R: Admission>(mut self, right: R) -> Result<Channel<R>, ChannelError> {
        if right.fingerprint() != self.peer() {
            return Err(ChannelError::OtherDevice);
        }
        self.inbox.lines.accept_hello();
        Ok(Channel { noise: self.noise, inbox: self.inbox, right })
    }
}

/// An encrypted channel that carries lines, with the proof by which it may: a client's [`Pin`] or what a listener's admission gave.
pub struct Channel<R> {
    noise: Noise,
    inbox: Inbox,
    right: R,
}

impl<R> Channel<R> {
    /// The proof by which this channel carries frames.
    #[must_use]
    pub fn right(&self) -> &R {
        &self.right
    }

    /// The fingerprint of the peer.
    #[must_use]
    pub fn peer(&self) -> Fingerprint {
        self.noise.peer.fingerprint()
    }

    /// Takes a transport message; its lines are then read with [`Self::next_line`].
    ///
    /// # Errors
    /// When it does not authenticate, or when too much waits unread.
    pub fn receive(&mut self, message: &[u8]) -> Result<(), ChannelError> {
        self.inbox.receive(&mut self.noise, message)
    }

    /// The next line without its `\n`, if it has come.
    ///
    /// # Errors
    /// [`LineError::TooLong`] at the first byte beyond 8 MiB.
    pub fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        self.inbox.next_line()
    }

    /// The transport messages of a line, which are to be sent in this order.
    ///
    /// # Errors
    /// When the channel is broken.
    pub fn send(&mut self, line: &EncodedLine) -> Result<Vec<Vec<u8>>, ChannelError> {
        self.noise.send(line)
    }

    /// Bytes that are no whole line, as only a hostile peer sends them.
    #[cfg(test)]
    pub(crate) fn send_bytes_for_test(&mut self, plaintext: &[u8]) -> Vec<Vec<u8>> {
        plaintext
            .chunks(limits::NOISE_PLAINTEXT_BYTES)
            .map(|plaintext| self.noise.seal(plaintext).unwrap())
            .collect()
    }
}
