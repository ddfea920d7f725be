//! X25519 public keys in canonical form, and the fingerprints that name them (wire §1).

use std::fmt;
use std::str::FromStr;

use curve25519_dalek::montgomery::MontgomeryPoint;
use data_encoding::{BASE64URL_NOPAD, Encoding, Specification};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use sha2::{Digest, Sha256};

use crate::ids::text_serde;

/// The length of a fingerprint, in characters: 140 bits of SHA-256.
pub const FINGERPRINT_CHARACTERS: usize = 28;

/// An X25519 public key in canonical form: the top bit clear, reduced mod 2^255 − 19, not of low order.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PublicKey([u8; 32]);

/// A public key of low order: whoever sends it forces a shared secret that everybody knows.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this is no usable public key: its order is low")]
pub struct LowOrder;

impl PublicKey {
    /// The key that these bytes encode; two encodings of one key give the same value.
    ///
    /// # Errors
    /// When the point is of low order, so that every Diffie-Hellman result with it would be zero.
    pub fn from_bytes(encoded: [u8; 32]) -> Result<Self, LowOrder> {
        // A clamped scalar is a multiple of 8 and below 8 times the group's order: zero comes out for low order alone.
        if MontgomeryPoint(encoded).mul_clamped([0; 32]).0 == [0; 32] {
            return Err(LowOrder);
        }
        Ok(Self(canonical(encoded)))
    }

    /// The public key of a private one, which is never of low order.
    pub(crate) fn of_secret(secret: &[u8; 32]) -> Self {
        Self(MontgomeryPoint::mul_base_clamped(*secret).0)
    }

    /// The canonical bytes.
    #[must_use]
    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// SHA-256 of the canonical bytes, from which both versions of the protocol make their fingerprints.
    #[must_use]
    pub fn sha256(&self) -> [u8; 32] {
        Sha256::digest(self.0).into()
    }

    /// The fingerprint that names this key.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        Fingerprint::of_digest(&self.sha256())
    }

    /// The fingerprint of version 21: the whole SHA-256 in base64url without padding.
    #[must_use]
    pub fn fingerprint_21(&self) -> String {
        BASE64URL_NOPAD.encode(&self.sha256())
    }
}

impl fmt::Debug for PublicKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PublicKey({})", self.fingerprint())
    }
}

/// Clears the top bit and reduces mod 2^255 − 19. Only the 19 values from 2^255 − 19 up are not reduced already.
fn canonical(mut bytes: [u8; 32]) -> [u8; 32] {
    bytes[31] &= 0x7f;
    let is_reduced = bytes[0] < 0xed || bytes[1..31].iter().any(|byte| *byte != 0xff) || bytes[31] != 0x7f;
    if !is_reduced {
        let rest = bytes[0] - 0xed;
        bytes = [0; 32];
        bytes[0] = rest;
    }
    bytes
}

/// The name of a key: SHA-256 of its canonical form in lower-case base32, cut to 28 characters (wire §1).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; FINGERPRINT_CHARACTERS]);

/// A text that is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a fingerprint is 28 characters of a-z and 2-7")]
pub struct BadFingerprint;

impl Fingerprint {
    /// The fingerprint as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        // Every constructor writes ASCII only.
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn of_digest(digest: &[u8; 32]) -> Self {
        let mut text = [0; FINGERPRINT_CHARACTERS];
        for (place, character) in text.iter_mut().zip(base32().encode(digest).bytes()) {
            *place = character;
        }
        Self(text)
    }
}

/// RFC 4648 base32 in lower case without padding.
fn base32() -> Encoding {
    let mut specification = Specification::new();
    specification.symbols.push_str("abcdefghijklmnopqrstuvwxyz234567");
    // The specification is a constant that the library takes; the tests hold its output.
    specification.encoding().unwrap_or(data_encoding::BASE32_NOPAD)
}

/// Whether a character belongs to lower-case base32.
pub(crate) fn is_base32(character: char) -> bool {
    matches!(character, 'a'..='z' | '2'..='7')
}

impl FromStr for Fingerprint {
    type Err = BadFingerprint;

    /// Takes exactly the written form: no case folding, no white space.
    fn from_str(text: &str) -> Result<Self, BadFingerprint> {
        if !text.chars().all(is_base32) {
            return Err(BadFingerprint);
        }
        text.as_bytes().try_into().map(Self).map_err(|_| BadFingerprint)
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

text_serde!(Fingerprint, "^[a-z2-7]{28}$");

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_top_bit_does_not_change_a_key(mut encoded: [u8; 32]) {
            encoded[31] &= 0x7f;
            let clear = PublicKey::from_bytes(encoded);
            encoded[31] |= 0x80;
            prop_assert_eq!(clear, PublicKey::from_bytes(encoded));
            if let Ok(key) = clear {
                prop_assert_eq!(PublicKey::from_bytes(*key.as_bytes()), Ok(key));
            }
        }

        #[test]
        fn parsing_never_panics(text in "\\PC*|[a-z2-7]{28}") {
            if let Ok(fingerprint) = text.parse::<Fingerprint>() {
                prop_assert_eq!(fingerprint.as_str(), text);
            }
        }
    }
}
