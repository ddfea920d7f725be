//! Waiting for conditions, with one generous limit; no test waits for a time to pass.

use std::future::Future;
use std::time::{Duration, Instant};

/// How long a condition may take on a busy machine with two cores.
pub const LIMIT: Duration = Duration::from_secs(60);

/// Waits until `condition` gives something.
///
/// # Panics
/// When it does not within [`LIMIT`]; the message names what was awaited.
pub async fn until<T, F: Future<Output = Option<T>>>(what: &str, mut condition: impl FnMut() -> F) -> T {
    let began = Instant::now();
    loop {
        if let Some(value) = condition().await {
            return value;
        }
        assert!(began.elapsed() < LIMIT, "waited in vain for {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Waits for a future.
///
/// # Panics
/// When it is not ready within [`LIMIT`].
pub async fn within<T>(what: &str, future: impl Future<Output = T>) -> T {
    match tokio::time::timeout(LIMIT, future).await {
        Ok(value) => value,
        Err(_) => panic!("waited in vain for {what}"),
    }
}
