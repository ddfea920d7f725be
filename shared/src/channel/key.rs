//! The private key of a machine or device.

use std::fmt;

use data_encoding::HEXLOWER;
use zeroize::{Zeroize, Zeroizing};

use super::ChannelError;
use crate::fingerprint::{Fingerprint, PublicKey};

/// A machine's or device's X25519 private key. `Debug` shows the fingerprint only, and the bytes are erased on drop.
#[derive(Clone)]
pub struct StaticKey(pub(super) Zeroizing<[u8; 32]>);

impl StaticKey {
    /// A new key.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn generate() -> Result<Self, ChannelError> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(bytes.as_mut()).map_err(|_| ChannelError::Random)?;
        Ok(Self(bytes))
    }

    /// The key that 64 lower-case hexadecimal characters write, as in `rc/machine.key`.
    ///
    /// # Errors
    /// When the text is anything else.
    pub fn from_hex(text: &str) -> Result<Self, ChannelError> {
        let mut bytes = HEXLOWER.decode(text.as_bytes()).map_err(|_| ChannelError::KeyText)?;
        let key = bytes.as_slice().try_into().map(|bytes| Self(Zeroizing::new(bytes)));
        bytes.zeroize();
        key.map_err(|_| ChannelError::KeyText)
    }

    /// The key as 64 lower-case hexadecimal characters, for its file and for a browser's store. Never log it.
    #[must_use]
    pub fn to_hex(&self) -> Zeroizing<String> {
        Zeroizing::new(HEXLOWER.encode(self.0.as_ref()))
    }

    /// The public key.
    #[must_use]
    pub fn public(&self) -> PublicKey {
        PublicKey::of_secret(&self.0)
    }

    /// The fingerprint of the public key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.public().fingerprint()
    }
}

impl fmt::Debug for StaticKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StaticKey({})", self.fingerprint())
    }
}
