//! The wall clock, read at the rim alone.

use std::time::{SystemTime, UNIX_EPOCH};

use shared::time::Timestamp;

/// Now, to the millisecond; the year 1970 where the clock stands before it.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_milliseconds(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}
