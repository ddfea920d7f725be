//! Where decisions are handed in: a call that a person must decide waits here, and nobody else waits with it. What is granted once and for all is kept
//! beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use shared::decision::Decision;
use shared::ids::InputId;
use tokio::sync::oneshot;

/// The desk of one engine; its clones are the same desk.
#[derive(Debug, Clone, Default)]
pub struct Desk(Arc<Mutex<BTreeMap<InputId, oneshot::Sender<Decision>>>>);

impl Desk {
    /// A place to wait for the decision about an input. Nothing comes once the place is dropped.
    pub(super) fn wait(&self, input: InputId) -> oneshot::Receiver<Decision> {
        let (sender, receiver) = oneshot::channel();
        let mut waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Whoever gave up waiting is forgotten, so that the desk stays small.
        waiting.retain(|_, sender| !sender.is_closed());
        waiting.insert(input, sender);
        receiver
    }

    /// Hands a decision in. For an input that nobody waits for any more nothing happens.
    pub fn decide(&self, input: InputId, decision: Decision) {
        let waiting = self.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&input);
        if let Some(waiting) = waiting {
            let _ = waiting.send(decision);
        }
    }
}

/// What was granted for as long as the engine lives; its clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Grants(Arc<Mutex<BTreeSet<String>>>);

impl Grants {
    /// Grants all calls with this pattern.
    pub fn add(&self, pattern: String) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).insert(pattern);
    }

    /// Whether they are granted.
    #[must_use]
    pub fn hold(&self, pattern: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains(pattern)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_decision_reaches_whoever_waits_for_it_once() {
        let desk = Desk::default();
        let (first, second) = (InputId::random(), InputId::random());
        let (waits, other) = (desk.wait(first), desk.wait(second));
        desk.decide(second, Decision::Allow);
        desk.decide(second, Decision::AllowSession);
        assert_eq!(other.await, Ok(Decision::Allow));
        drop(waits);
        desk.decide(first, Decision::Allow);
        let _third = desk.wait(InputId::random());
        assert_eq!(desk.0.lock().unwrap().len(), 1);
    }
}
