//! The revision of a session: the SHA-256 of the bytes of its file.

use std::fmt;
use std::io::Read;
use std::str::FromStr;

use data_encoding::HEXLOWER;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

use crate::automation::error::{AutomationError, Code};

/// 64 lower-case hexadecimal digits.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(try_from = "String", into = "String")]
#[schemars(!try_from, !into)]
pub struct Revision(#[schemars(regex(pattern = r"^[0-9a-f]{64}$"))] Box<str>);

impl Revision {
    /// The revision of these bytes.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self::from_digest(Sha256::new().chain_update(bytes))
    }

    /// As text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn from_digest(digest: Sha256) -> Self {
        Self(HEXLOWER.encode(&digest.finalize()).into())
    }
}

impl FromStr for Revision {
    type Err = AutomationError;

    /// # Errors
    /// `bad_request` for any other text.
    fn from_str(text: &str) -> Result<Self, AutomationError> {
        if text.len() == 64 && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f')) {
            return Ok(Self(text.into()));
        }
        Err(AutomationError::new(Code::BadRequest, "a revision has 64 lower-case hexadecimal digits"))
    }
}

impl TryFrom<String> for Revision {
    type Error = AutomationError;

    fn try_from(text: String) -> Result<Self, AutomationError> {
        text.parse()
    }
}

impl From<Revision> for String {
    fn from(revision: Revision) -> Self {
        revision.0.into()
    }
}

impl fmt::Display for Revision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A reader that counts and digests what is read through it.
pub(super) struct Hashing<R> {
    inner: R,
    digest: Sha256,
    bytes: u64,
}

impl<R: Read> Hashing<R> {
    pub(super) fn new(inner: R) -> Self {
        Self { inner, digest: Sha256::new(), bytes: 0 }
    }

    /// The bytes that were read so far.
    pub(super) fn count(&self) -> u64 {
        self.bytes
    }

    /// The revision of all that was read.
    pub(super) fn revision(self) -> Revision {
        Revision::from_digest(self.digest)
    }
}

impl<R: Read> Read for Hashing<R> {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        let read = self.inner.read(buffer)?;
        self.digest.update(buffer.get(..read).unwrap_or_default());
        self.bytes = self.bytes.saturating_add(u64::try_from(read).unwrap_or(u64::MAX));
        Ok(read)
    }
}
