//! Noise after the handshake, and the way from its plaintexts to lines.

use snow::{HandshakeState, TransportState};

use super::{ChannelError, TAG};
use crate::fingerprint::PublicKey;
use crate::limits;
use crate::line::{EncodedLine, LineDecoder, LineError};

/// Plaintext that may wait to be read as lines: that of two messages, so that a caller may take the next before it has seen the last one's end.
const WAITING_BYTES: usize = 2 * limits::NOISE_PLAINTEXT_BYTES;

/// Noise after the handshake. One message that cannot be opened ends it in both directions.
pub(super) struct Noise {
    transport: TransportState,
    pub(super) peer: PublicKey,
    is_broken: bool,
}

impl Noise {
    pub(super) fn new(state: HandshakeState, peer: PublicKey) -> Result<Self, ChannelError> {
        let transport = state.into_transport_mode().map_err(|_| ChannelError::Handshake)?;
        Ok(Self { transport, peer, is_broken: false })
    }

    pub(super) fn send(&mut self, line: &EncodedLine) -> Result<Vec<Vec<u8>>, ChannelError> {
        line.chunks().map(|plaintext| self.seal(plaintext)).collect()
    }

    pub(super) fn seal(&mut self, plaintext: &[u8]) -> Result<Vec<u8>, ChannelError> {
        if self.is_broken {
            return Err(ChannelError::Broken);
        }
        let mut message = vec![0; plaintext.len() + TAG];
        let length = self.transport.write_message(plaintext, &mut message);
        message.truncate(length.map_err(|_| self.broken())?);
        Ok(message)
    }

    /// Appends the plaintext of a message.
    pub(super) fn open(&mut self, message: &[u8], plaintext: &mut Vec<u8>) -> Result<(), ChannelError> {
        let length = message.len().checked_sub(TAG).filter(|_| message.len() <= limits::NOISE_MESSAGE_BYTES);
        let (Some(length), false) = (length, self.is_broken) else {
            return Err(self.broken());
        };
        let start = plaintext.len();
        plaintext.resize(start + length, 0);
        match self.transport.read_message(message, &mut plaintext[start..]) {
            Ok(opened) if opened == length => Ok(()),
            Ok(_) | Err(_) => {
                plaintext.truncate(start);
                Err(self.broken())
            }
        }
    }

    fn broken(&mut self) -> ChannelError {
        self.is_broken = true;
        ChannelError::Broken
    }
}

/// Plaintext on its way to lines.
pub(super) struct Inbox {
    waiting: Vec<u8>,
    /// How much of `waiting` was read already.
    read: usize,
    pub(super) lines: LineDecoder,
}

impl Inbox {
    pub(super) fn new(lines: LineDecoder) -> Self {
        Self { waiting: Vec::new(), read: 0, lines }
    }

    pub(super) fn receive(&mut self, noise: &mut Noise, message: &[u8]) -> Result<(), ChannelError> {
        self.waiting.drain(..self.read);
        self.read = 0;
        if self.waiting.len() + message.len() > WAITING_BYTES {
            return Err(ChannelError::Unread);
        }
        noise.open(message, &mut self.waiting)
    }

    pub(super) fn next_line(&mut self) -> Result<Option<Vec<u8>>, LineError> {
        let mut rest = &self.waiting[self.read..];
        let line = self.lines.read(&mut rest);
        self.read = self.waiting.len() - rest.len();
        line
    }
}
