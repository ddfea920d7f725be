//! What a person carries from the machine to a device to pair it: codes, endpoints and pairing URLs (wire §9).

use std::fmt;
use std::net::Ipv6Addr;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use subtle::ConstantTimeEq;

use crate::fingerprint::{Fingerprint, is_base32};
use crate::ids::text_serde;

/// Characters of a code that we make: 100 random bits, 80 are asked for.
const CODE_CHARACTERS: usize = 20;
/// The lengths that a code may have.
const CODE_LENGTHS: std::ops::RangeInclusive<usize> = 16..=26;
/// The port that is meant when none is written.
const DEFAULT_PORT: u16 = 443;
/// The longest name of the domain name system.
const HOST_BYTES_MAX: usize = 253;
/// What stands between the origin and the secret of a pairing URL: a fragment, which no browser sends.
const FRAGMENT: &str = "/#pair=";

/// A text that is no code, endpoint or pairing URL. It never holds the text, which may be half a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum PairingError {
    /// Not a code.
    #[error("a pairing code is 16 to 26 characters of a-z and 2-7")]
    Code,
    /// Not an endpoint.
    #[error("an endpoint looks like FINGERPRINT@HOST or FINGERPRINT@HOST:PORT")]
    Endpoint,
    /// Not a pairing URL.
    #[error(
        "a pairing URL looks like https://HOST/#pair=FINGERPRINT.CODE; copy it whole, with everything after the #"
    )]
    Url,
    /// No randomness.
    #[error("the operating system gave no random bytes")]
    Random,
}

/// The secret of a pairing window: 16 to 26 characters of `[a-z2-7]`. `Debug` shows nothing of it.
#[derive(Clone)]
pub struct PairingCode(Box<str>);

impl PairingCode {
    /// A new code of 100 random bits.
    ///
    /// # Errors
    /// When the operating system gives no randomness.
    pub fn random() -> Result<Self, PairingError> {
        let mut bytes = [0; CODE_CHARACTERS];
        getrandom::fill(&mut bytes).map_err(|_| PairingError::Random)?;
        // 256 is a multiple of 32, so each character is equally likely.
        let code: String = bytes.iter().map(|byte| base32_digit(byte & 31)).collect();
        Ok(Self(code.into()))
    }

    /// The code that a person typed, or read aloud: case, white space and dashes do not count.
    ///
    /// # Errors
    /// When what is left is not a code.
    pub fn typed(text: &str) -> Result<Self, PairingError> {
        fold(text).parse()
    }

    /// Whether a peer's text is this code, in a time that does not tell how much of it was right.
    #[must_use]
    pub fn matches(&self, offered: &str) -> bool {
        self.0.as_bytes().ct_eq(offered.as_bytes()).into()
    }

    /// The code itself, for the pairing URL, the QR code and `hello`. Never log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

fn base32_digit(value: u8) -> char {
    char::from(if value < 26 { b'a' + value } else { b'2' + value - 26 })
}

fn fold(text: &str) -> String {
    let dashes = |c: char| matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}');
    text.chars().filter(|c| !c.is_whitespace() && !dashes(*c)).map(|c| c.to_ascii_lowercase()).collect()
}

impl FromStr for PairingCode {
    type Err = PairingError;

    fn from_str(text: &str) -> Result<Self, PairingError> {
        if CODE_LENGTHS.contains(&text.len()) && text.chars().all(is_base32) {
            Ok(Self(text.into()))
        } else {
            Err(PairingError::Code)
        }
    }
}

impl PartialEq for PairingCode {
    fn eq(&self, other: &Self) -> bool {
        self.matches(&other.0)
    }
}

impl Eq for PairingCode {}

impl fmt::Debug for PairingCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PairingCode(…)")
    }
}

impl Serialize for PairingCode {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> Deserialize<'de> for PairingCode {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What a `hello` offers as a code: any text, since a wrong one must be counted and not lost as bad JSON. `Debug` shows nothing of it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct OfferedCode(String);

impl OfferedCode {
    /// The text as it was offered. Never log it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl From<&PairingCode> for OfferedCode {
    fn from(code: &PairingCode) -> Self {
        Self(code.0.clone().into())
    }
}

impl fmt::Debug for OfferedCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("OfferedCode(…)")
    }
}

#[cfg(feature = "schema")]
mod schema {
    use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};

    impl JsonSchema for super::PairingCode {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "PairingCode".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "string", "pattern": "^[a-z2-7]{16,26}$" })
        }
    }

    impl JsonSchema for super::OfferedCode {
        fn schema_name() -> std::borrow::Cow<'static, str> {
            "OfferedCode".into()
        }
        fn json_schema(_: &mut SchemaGenerator) -> Schema {
            json_schema!({ "type": "string" })
        }
    }
}

/// Where a listener is reached: a host and a port. Plain HTTP on this machine's own addresses, else TLS.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Place {
    host: Box<str>,
    port: u16,
}

impl Place {
    /// The host: a lower-case name, an IPv4 address, or an IPv6 address in brackets.
    #[must_use]
    pub fn host(&self) -> &str {
        &self.host
    }

    /// The port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Whether the host is this machine: `127.0.0.1`, `localhost` or `[::1]`.
    #[must_use]
    pub fn is_loopback(&self) -> bool {
        matches!(&*self.host, "127.0.0.1" | "localhost" | "[::1]")
    }

    /// The web origin, as a browser writes it: `http://127.0.0.1:4310`, `https://NAME`.
    #[must_use]
    pub fn origin(&self) -> String {
        self.with_scheme(if self.is_loopback() { Scheme::Http } else { Scheme::Https }, "")
    }

    /// The address of the WebSocket: `ws://127.0.0.1:4310/wire`, `wss://NAME/wire`.
    #[must_use]
    pub fn link_url(&self) -> String {
        self.with_scheme(if self.is_loopback() { Scheme::Ws } else { Scheme::Wss }, "/wire")
    }

    /// The place of a web origin, `http://127.0.0.1:4310` or `https://NAME[:PORT]`, with or without a final slash.
    ///
    /// # Errors
    /// When it is none, or when its scheme is not the one that its host asks for.
    pub fn from_origin(origin: &str) -> Result<Self, PairingError> {
        let origin = origin.strip_suffix('/').unwrap_or(origin);
        let (scheme, authority) = origin.split_once("://").ok_or(PairingError::Url)?;
        let default_port = match scheme.to_ascii_lowercase().as_str() {
            "http" => 80,
            "https" => DEFAULT_PORT,
            _ => return Err(PairingError::Url),
        };
        let place = Self::from_authority(authority, default_port).ok_or(PairingError::Url)?;
        // An endpoint has no word for plain HTTP elsewhere or TLS here, and nobody should get either by a typing error.
        let is_plain = default_port == 80;
        if place.is_loopback() == is_plain { Ok(place) } else { Err(PairingError::Url) }
    }

    fn from_authority(authority: &str, default_port: u16) -> Option<Self> {
        let end = authority.rfind(']').map_or(0, |bracket| bracket + 1);
        let (host, port) = match authority[end..].rfind(':') {
            Some(colon) => (&authority[..end + colon], parse_port(&authority[end + colon + 1..])?),
            None => (authority, default_port),
        };
        Some(Self { host: parse_host(host)?.into(), port })
    }

    fn with_scheme(&self, scheme: Scheme, path: &str) -> String {
        let (word, default_port) = match scheme {
            Scheme::Http => ("http", 80),
            Scheme::Https => ("https", 443),
            Scheme::Ws => ("ws", 80),
            Scheme::Wss => ("wss", 443),
        };
        if self.port == default_port {
            format!("{word}://{}{path}", self.host)
        } else {
            format!("{word}://{}:{}{path}", self.host, self.port)
        }
    }
}

enum Scheme {
    Http,
    Https,
    Ws,
    Wss,
}

/// A port as people write it: digits alone, no sign, not zero.
fn parse_port(text: &str) -> Option<u16> {
    let is_plain = !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit());
    if is_plain { text.parse().ok() } else { None }
}

/// A host in its one written form.
fn parse_host(text: &str) -> Option<String> {
    if let Some(address) = text.strip_prefix('[') {
        let address: Ipv6Addr = address.strip_suffix(']')?.parse().ok()?;
        return Some(format!("[{address}]"));
    }
    let host = text.to_ascii_lowercase();
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-' || c == '.';
    let is_name = host.len() <= HOST_BYTES_MAX
        && host.split('.').all(|label| !label.is_empty() && !label.starts_with('-') && !label.ends_with('-'))
        && host.chars().all(allowed);
    is_name.then_some(host)
}

/// A listener by key and place, written `FINGERPRINT@HOST[:PORT]`; no port means 443.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// The key that the listener must prove to have.
    pub fingerprint: Fingerprint,
    /// Where it is reached.
    pub place: Place,
}

impl FromStr for Endpoint {
    type Err = PairingError;

    fn from_str(text: &str) -> Result<Self, PairingError> {
        let (fingerprint, authority) = text.split_once('@').ok_or(PairingError::Endpoint)?;
        Ok(Self {
            fingerprint: fingerprint.parse().map_err(|_| PairingError::Endpoint)?,
            place: Place::from_authority(authority, DEFAULT_PORT).ok_or(PairingError::Endpoint)?,
        })
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}@{}", self.fingerprint, self.place.host)?;
        if self.place.port == DEFAULT_PORT { Ok(()) } else { write!(f, ":{}", self.place.port) }
    }
}

text_serde!(Endpoint, "^[a-z2-7]{28}@.+$");

/// A pairing URL, `ORIGIN/#pair=FINGERPRINT.CODE`. It holds a secret, so only [`PairingUrl::expose`] writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingUrl {
    /// The listener.
    pub endpoint: Endpoint,
    /// The code of its open window.
    pub code: PairingCode,
}

impl PairingUrl {
    /// The URL with its secret, for the screen and the QR code. Never log it.
    #[must_use]
    pub fn expose(&self) -> String {
        let Endpoint { fingerprint, place } = &self.endpoint;
        format!("{}{FRAGMENT}{fingerprint}.{}", place.origin(), self.code.expose())
    }
}

impl FromStr for PairingUrl {
    type Err = PairingError;

    fn from_str(text: &str) -> Result<Self, PairingError> {
        let (origin, secret) = text.split_once(FRAGMENT).ok_or(PairingError::Url)?;
        let place = Place::from_origin(origin)?;
        let PairingSecret { fingerprint, code } = secret.parse()?;
        Ok(Self { endpoint: Endpoint { fingerprint, place }, code })
    }
}

/// What the fragment of a pairing URL holds, `FINGERPRINT.CODE`: enough where the place is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairingSecret {
    /// The key that the listener must prove to have.
    pub fingerprint: Fingerprint,
    /// The code of its open window.
    pub code: PairingCode,
}

impl FromStr for PairingSecret {
    type Err = PairingError;

    /// Takes `FINGERPRINT.CODE`, also after `#pair=`, and folds what a person types.
    fn from_str(text: &str) -> Result<Self, PairingError> {
        let text = text.trim();
        let text = text.strip_prefix('#').unwrap_or(text);
        let text = text.strip_prefix("pair=").unwrap_or(text);
        let (fingerprint, code) = text.split_once('.').ok_or(PairingError::Url)?;
        Ok(Self {
            fingerprint: fold(fingerprint).parse().map_err(|_| PairingError::Url)?,
            code: PairingCode::typed(code)?,
        })
    }
}

/// What a person pasted in order to pair: the whole URL, or its secret alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pasted {
    /// A whole pairing URL.
    Url(PairingUrl),
    /// `FINGERPRINT.CODE`; the place must be known otherwise.
    Secret(PairingSecret),
}

impl FromStr for Pasted {
    type Err = PairingError;

    fn from_str(text: &str) -> Result<Self, PairingError> {
        let text = text.trim();
        if text.contains("://") { text.parse().map(Self::Url) } else { text.parse().map(Self::Secret) }
    }
}

#[cfg(test)]
mod tests;
