//! The clocks, read at the rim alone.

use std::time::{SystemTime, UNIX_EPOCH};

use shared::link::Now;
use shared::time::Timestamp;
use tokio::time::{Duration, Instant, sleep_until};

/// Now, to the millisecond; the year 1970 where the clock stands before it.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Timestamp::from_milliseconds(u64::try_from(since.as_millis()).unwrap_or(u64::MAX))
}

/// Longer than any timer of ours; a sleep of this length only stands in for none.
const NEVER: Duration = Duration::from_secs(365 * 24 * 3600);

/// Both clocks, the steady one counted from when this value was made.
#[derive(Debug, Clone, Copy)]
pub struct Clock {
    zero: Instant,
}

impl Default for Clock {
    fn default() -> Self {
        Self { zero: Instant::now() }
    }
}

impl Clock {
    /// This moment on both clocks.
    #[must_use]
    pub fn now(&self) -> Now {
        Now { date: now(), steady: u64::try_from(self.zero.elapsed().as_millis()).unwrap_or(u64::MAX) }
    }

    /// Waits until the steady clock shows that many milliseconds.
    pub async fn until(&self, steady: u64) {
        let ahead = Duration::from_millis(steady).min(NEVER);
        sleep_until(self.zero + ahead).await;
    }
}
