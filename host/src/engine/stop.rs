//! The wish that a turn ends: given once, seen by everybody who works on it.

use tokio::sync::watch;

/// The side that may stop a turn. Dropping it stops it too: nobody is left who wants the answer.
#[derive(Debug)]
pub struct Stopper(watch::Sender<bool>);

/// The side that is stopped.
#[derive(Debug, Clone)]
pub struct Stop(watch::Receiver<bool>);

/// Both sides.
#[must_use]
pub fn stop_pair() -> (Stopper, Stop) {
    let (sender, receiver) = watch::channel(false);
    (Stopper(sender), Stop(receiver))
}

impl Stopper {
    /// Stops the turn; a second time changes nothing.
    pub fn stop(&self) {
        self.0.send_replace(true);
    }
}

impl Stop {
    /// Returns once the turn is to end.
    pub async fn wait(&mut self) {
        // An error means that the stopper was dropped.
        let _ = self.0.wait_for(|stopped| *stopped).await;
    }

    /// Whether the turn is to end.
    #[must_use]
    pub fn is_stopped(&self) -> bool {
        *self.0.borrow() || self.0.has_changed().is_err()
    }
}
