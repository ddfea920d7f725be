//! The bearer token of a server: checked in constant time, never shown ("`aura serve`").

use std::fmt;

use sha2::{Digest as _, Sha256};
use subtle::ConstantTimeEq as _;

use super::error::{AutomationError, Code};

/// The fewest characters of a token.
const CHARACTERS: usize = 32;
/// The most: what one write to a pipe takes whole.
pub const CHARACTERS_MOST: usize = 4096;

/// A token, as its digest: so all have one length to compare, and nothing can show it.
#[derive(Clone)]
pub struct Token([u8; 32]);

impl Token {
    /// The token with this text.
    ///
    /// # Errors
    /// `unauthorized` where it is missing, shorter than 32 characters, longer than 4,096, or not of visible ASCII.
    pub fn of(text: Option<&str>) -> Result<Self, AutomationError> {
        let wrong = |message: &str| Err(AutomationError::new(Code::Unauthorized, message));
        match text {
            None => wrong("AURA_SERVE_TOKEN is not set: set it to at least 32 random characters"),
            Some(text) if text.len() < CHARACTERS => {
                wrong("AURA_SERVE_TOKEN is too short: it needs at least 32 characters")
            }
            Some(text) if text.len() > CHARACTERS_MOST => {
                wrong("AURA_SERVE_TOKEN is too long: it has at most 4096 characters")
            }
            Some(text) if !text.bytes().all(|byte| byte.is_ascii_graphic()) => {
                wrong("AURA_SERVE_TOKEN may have visible ASCII characters only")
            }
            Some(text) => Ok(Self(Sha256::digest(text).into())),
        }
    }

    /// Whether a request with this `Authorization` header may pass.
    #[must_use]
    pub fn admits(&self, authorization: Option<&[u8]>) -> bool {
        let Some((scheme, shown)) = authorization.and_then(|value| value.split_at_checked(7)) else {
            return false;
        };
        let digest: [u8; 32] = Sha256::digest(shown.trim_ascii()).into();
        scheme.eq_ignore_ascii_case(b"bearer ") && bool::from(digest.ct_eq(&self.0))
    }
}

impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Token(…)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_passes() {
        let text = "0123456789abcdef0123456789abcdef";
        let token = Token::of(Some(text)).unwrap();
        for good in [format!("Bearer {text}"), format!("bearer {text}"), format!("BEARER  {text}")] {
            assert!(token.admits(Some(good.as_bytes())), "{good}");
        }
        let bad = [
            text.to_owned(),
            format!("Basic {text}"),
            format!("Bearer {text}x"),
            format!("Bearer {}", &text[1..]),
        ];
        for bad in bad.iter().map(String::as_str).chain(["", "Bearer ", "Bearer"]) {
            assert!(!token.admits(Some(bad.as_bytes())), "{bad}");
        }
        assert!(!token.admits(None));
        assert!(!format!("{token:?}").contains(text));
    }

    #[test]
    fn a_weak_token_is_none() {
        let spaced = format!("{} {}", "a".repeat(20), "b".repeat(20));
        let (short, long) = ("a".repeat(31), "a".repeat(4097));
        for weak in [None, Some(""), Some(short.as_str()), Some(long.as_str()), Some(spaced.as_str())] {
            assert_eq!(Token::of(weak).unwrap_err().code, Code::Unauthorized);
        }
        assert!(Token::of(Some(&"a".repeat(4096))).is_ok());
    }
}
