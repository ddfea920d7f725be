//! The id of a stored session: a name that is safe as a file's, or nothing.

use std::fmt;
use std::str::FromStr;

use crate::automation::error::{AutomationError, Code};

/// The most characters of an id.
const CHARACTERS: usize = 128;

/// The id of a stored session: `[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, schemars::JsonSchema)]
pub struct StoredId(#[schemars(regex(pattern = r"^[A-Za-z0-9_-][A-Za-z0-9._-]{0,127}$"))] Box<str>);

impl StoredId {
    /// A new random id, a UUID.
    #[must_use]
    pub fn random() -> Self {
        Self(uuid::Uuid::new_v4().to_string().into())
    }

    /// The id as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for StoredId {
    type Err = AutomationError;

    /// # Errors
    /// `invalid_id` for any other text, before a file is touched.
    fn from_str(text: &str) -> Result<Self, AutomationError> {
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._-".contains(&byte);
        // A dot in front would hide the file, or lead out of the store.
        if (1..=CHARACTERS).contains(&text.len()) && !text.starts_with('.') && text.bytes().all(is_plain) {
            return Ok(Self(text.into()));
        }
        let message = format!(
            "{:?} is no id of a session: it takes 1 to {CHARACTERS} of A-Z, a-z, 0-9, _, - and (not first) .",
            crate::text::one_line(text, 60)
        );
        Err(AutomationError::new(Code::InvalidId, message))
    }
}

impl fmt::Display for StoredId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl serde::Serialize for StoredId {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&self.0)
    }
}

impl<'de> serde::Deserialize<'de> for StoredId {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?
            .parse()
            .map_err(|wrong: AutomationError| serde::de::Error::custom(wrong.message))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_safe_as_a_name() {
        for good in ["a", "-", "_", "9.json", "a..b", &"x".repeat(128)] {
            assert_eq!(good.parse::<StoredId>().unwrap().as_str(), good);
        }
        for bad in ["", ".", "..", ".a", "a/b", "../a", "a\0", "a b", "ä", "a\n", "a\\b", &"x".repeat(129)] {
            assert_eq!(bad.parse::<StoredId>().unwrap_err().code, Code::InvalidId, "{bad:?}");
        }
        assert!(StoredId::random().as_str().parse::<StoredId>().is_ok());
    }
}
