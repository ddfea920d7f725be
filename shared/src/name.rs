//! Names of devices and sessions, cleaned so that they can neither break a line nor imitate each other by direction marks (wire §9).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use unicode_normalization::UnicodeNormalization;

use crate::ids::text_serde;
use crate::limits;

/// What a device is called that gave no usable name.
const NAMELESS: &str = "device";

/// The name of a device as its owner sees it: cleaned, 1 to 48 scalar values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceName(Box<str>);

impl DeviceName {
    /// The cleaned name; `device` when nothing is left.
    #[must_use]
    pub fn clean(text: &str) -> Self {
        let clean = clean(text);
        Self(if clean.is_empty() { NAMELESS.into() } else { clean.into() })
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for DeviceName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for DeviceName {
    type Err = std::convert::Infallible;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        Ok(Self::clean(text))
    }
}

text_serde!(DeviceName, "");

/// The name of a session: cleaned, 1 to 48 scalar values.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionName(Box<str>);

/// A name of which cleaning leaves nothing (`bad_name`).
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a session needs a name that a person can read")]
pub struct BadName;

impl SessionName {
    /// The cleaned name.
    ///
    /// # Errors
    /// When nothing is left: `refused` `bad_name`.
    pub fn clean(text: &str) -> Result<Self, BadName> {
        let clean = clean(text);
        if clean.is_empty() { Err(BadName) } else { Ok(Self(clean.into())) }
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for SessionName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl FromStr for SessionName {
    type Err = BadName;

    fn from_str(text: &str) -> Result<Self, BadName> {
        Self::clean(text)
    }
}

text_serde!(SessionName, "");

/// Control and bidi characters out, NFC, trimmed, cut to 48 scalar values, trimmed again.
fn clean(text: &str) -> String {
    let normal: String = text.chars().filter(|c| !c.is_control() && !is_bidi(*c)).nfc().collect();
    let cut: String = normal.trim().chars().take(limits::NAME_SCALARS).collect();
    cut.trim_end().to_owned()
}

/// Unicode's `Bidi_Control` property.
fn is_bidi(character: char) -> bool {
    matches!(character,
        '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_cleaned_name_is_clean(text in "[\\PC\\p{Cc}\\p{M}\u{202a}-\u{202e}]{0,80}") {
            let name = DeviceName::clean(&text);
            prop_assert_eq!(DeviceName::clean(name.as_str()), name.clone());
            prop_assert!((1..=limits::NAME_SCALARS).contains(&name.as_str().chars().count()));
            prop_assert!(name.as_str().chars().all(|c| !c.is_control() && !is_bidi(c)));
        }
    }
}
