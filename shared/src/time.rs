//! Timestamps exactly like `2026-01-01T12:00:00.000Z` (wire §2).

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use time::format_description::BorrowedFormatItem;
use time::macros::format_description;
use time::{OffsetDateTime, PrimitiveDateTime};

use crate::ids::text_serde;

/// How a timestamp is written: always UTC, always milliseconds.
const FORMAT: &[BorrowedFormatItem<'static>] =
    format_description!("[year]-[month]-[day]T[hour]:[minute]:[second].[subsecond digits:3]Z");

/// The last millisecond that the form can write, 9999-12-31T23:59:59.999Z.
const LAST: i64 = 253_402_300_799_999;

/// A moment in UTC, in milliseconds since 1970; between the years 1970 and 9999 of the form.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

/// A text that is not such a timestamp.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a timestamp must be a real date like 2026-01-01T12:00:00.000Z")]
pub struct BadTimestamp;

impl Timestamp {
    /// The moment so many milliseconds after 1970 began, held to what the form can write.
    #[must_use]
    pub fn from_milliseconds(milliseconds: u64) -> Self {
        Self(i64::try_from(milliseconds).unwrap_or(LAST).min(LAST))
    }

    /// Milliseconds since 1970 began; negative before it.
    #[must_use]
    pub fn milliseconds(self) -> i64 {
        self.0
    }

    /// The moment so many milliseconds later.
    #[must_use]
    pub fn plus_milliseconds(self, milliseconds: u64) -> Self {
        Self(self.0.saturating_add(i64::try_from(milliseconds).unwrap_or(LAST)).min(LAST))
    }
}

impl FromStr for Timestamp {
    type Err = BadTimestamp;

    fn from_str(text: &str) -> Result<Self, BadTimestamp> {
        if text.len() != 24 || !text.is_ascii() {
            return Err(BadTimestamp);
        }
        let moment = PrimitiveDateTime::parse(text, FORMAT).map_err(|_| BadTimestamp)?.assume_utc();
        let milliseconds = moment.unix_timestamp_nanos() / 1_000_000;
        let timestamp = Self(i64::try_from(milliseconds).map_err(|_| BadTimestamp)?);
        // What the parser takes leniently (a sign, a leap second) does not come out again as it went in.
        if timestamp.to_string() == text { Ok(timestamp) } else { Err(BadTimestamp) }
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let moment = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000_000)
            .map_err(|_| fmt::Error)?;
        let text = moment.format(FORMAT).map_err(|_| fmt::Error)?;
        f.write_str(&text)
    }
}

text_serde!(Timestamp, r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{3}Z$");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_form_is_exact() {
        let good = "2026-01-01T12:00:00.000Z";
        assert_eq!(good.parse::<Timestamp>().unwrap().to_string(), good);
        for bad in [
            "2026-01-01T12:00:00Z",
            "2026-01-01T12:00:00.000+00:00",
            "2026-01-01 12:00:00.000Z",
            "2026-02-30T12:00:00.000Z",
            "2026-01-01T24:00:00.000Z",
            "2026-01-01T12:00:60.000Z",
            "2026-01-01t12:00:00.000z",
            "+026-01-01T12:00:00.000Z",
            "",
        ] {
            assert!(bad.parse::<Timestamp>().is_err(), "{bad}");
        }
    }

    #[test]
    fn milliseconds_go_in_and_out() {
        for milliseconds in [0, 1, 999, 1_767_268_800_000, 253_402_300_799_999] {
            let timestamp = Timestamp::from_milliseconds(milliseconds);
            assert_eq!(timestamp.to_string().parse::<Timestamp>().unwrap(), timestamp);
        }
        assert_eq!(Timestamp::from_milliseconds(u64::MAX).to_string(), "9999-12-31T23:59:59.999Z");
    }
}
