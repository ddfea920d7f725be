//! Who works with a request, a session or a name right now: each has one owner, and nobody waits for the owner of another one, as git may take minutes.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, PoisonError};

use shared::ids::{SessionId, SubmissionId};
use tokio::sync::watch;
use tokio::time::{Duration, timeout};

/// How long somebody waits for a session or a name that another one works with: it takes milliseconds, except where git works.
const PATIENCE: Duration = Duration::from_secs(5);

/// What can have an owner. Whoever needs several takes them in this order, so that no two wait for each other.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Key {
    /// A `start`, so that the same one again waits for its own outcome.
    Request(SubmissionId),
    /// A session that is renamed or removed.
    Session(SessionId),
    /// A name that is given, used or retired.
    Name(String),
}

/// What has an owner.
#[derive(Debug)]
pub(super) struct Naming {
    owned: Mutex<BTreeSet<Key>>,
    /// Grows whenever something is given back.
    freed: watch::Sender<u64>,
}

impl Default for Naming {
    fn default() -> Self {
        Self { owned: Mutex::default(), freed: watch::Sender::new(0) }
    }
}

/// Something that one task owns until it drops this.
#[derive(Debug)]
pub(super) struct Owned {
    naming: Arc<Naming>,
    key: Key,
}

impl Naming {
    /// Waits until it has no other owner, however long that takes.
    pub(super) async fn own(self: &Arc<Self>, key: Key) -> Owned {
        let mut freed = self.freed.subscribe();
        loop {
            freed.borrow_and_update();
            if self.owned.lock().unwrap_or_else(PoisonError::into_inner).insert(key.clone()) {
                return Owned { naming: Arc::clone(self), key };
            }
            // The sender lives as long as we do.
            let _ = freed.changed().await;
        }
    }

    /// The same for a moment; `None` where the owner works on.
    pub(super) async fn own_soon(self: &Arc<Self>, key: Key) -> Option<Owned> {
        timeout(PATIENCE, self.own(key)).await.ok()
    }
}

impl Drop for Owned {
    fn drop(&mut self) {
        self.naming.owned.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.key);
        self.naming.freed.send_modify(|count| *count += 1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(name: &str) -> Key {
        Key::Name(name.to_owned())
    }

    #[tokio::test(start_paused = true)]
    async fn a_name_has_one_owner_and_no_other_name_waits_for_it() {
        let naming = Arc::new(Naming::default());
        let owned = naming.own(name("a")).await;
        let other = naming.own_soon(name("b")).await;
        assert!(other.is_some() && naming.own_soon(name("a")).await.is_none());
        let waits = tokio::spawn({
            let naming = Arc::clone(&naming);
            async move { naming.own(name("a")).await }
        });
        drop((owned, other));
        let next = waits.await.unwrap();
        assert!(naming.own_soon(name("a")).await.is_none());
        drop(next);
        assert!(naming.own_soon(name("a")).await.is_some());
    }
}
