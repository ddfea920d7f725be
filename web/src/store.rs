//! What this browser keeps in IndexedDB: the device's key, the machines it is paired with, what is to be sent, what was read.

mod database;
mod key;

use std::rc::Rc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use shared::channel::StaticKey;
use shared::fingerprint::Fingerprint;
use shared::ids::{LogId, SessionId, SubmissionId};

use database::Database;

const KEYS: &str = "keys";
const MACHINES: &str = "machines";
const OUTBOX: &str = "outbox";
const PLACES: &str = "places";
/// Every store of the database; another list needs another version of it.
const STORES: [&str; 4] = [KEYS, MACHINES, OUTBOX, PLACES];

/// Why something was not kept or not found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum StoreError {
    /// The browser keeps nothing for this page: a private window, or no space.
    #[error("this browser keeps nothing for this page")]
    Refused,
    /// What was kept cannot be read.
    #[error("what this browser kept for this page cannot be read")]
    Damaged,
    /// The browser gives no cryptography or randomness.
    #[error("this browser gives this page no cryptography")]
    Cryptography,
}

/// The machine that serves this origin.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct Machine {
    /// The key that it must prove to have.
    pub(crate) fingerprint: Fingerprint,
    /// What this device calls itself there.
    pub(crate) device_name: String,
}

/// A turn on its way to the machine.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Outgoing {
    /// The id that it keeps for ever, so that it never runs twice.
    pub(crate) id: SubmissionId,
    /// The session.
    pub(crate) session: SessionId,
    /// The lines of the turn.
    pub(crate) text: String,
    /// When it was written, in milliseconds since 1970.
    pub(crate) created: i64,
    /// How far it is.
    pub(crate) state: OutgoingState,
}

/// How far a turn is on its way.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) enum OutgoingState {
    /// Not answered yet; it is sent again after each loss of the link.
    Waiting,
    /// The machine has it; its entry has not come yet.
    Taken,
    /// The machine refused it.
    Refused(String),
    /// The machine could not take it.
    Failed(String),
}

/// How far a session was read in this browser.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Place {
    /// The log that the sequence counts in.
    pub(crate) log: LogId,
    /// The last sequence that was shown.
    pub(crate) sequence: u64,
}

/// The browser's storage, or none where it is refused: then nothing outlives the page, and all else works.
#[derive(Clone)]
pub(crate) struct Store {
    database: Option<Rc<Database>>,
}

impl Store {
    /// Opens the storage.
    pub(crate) async fn open() -> Self {
        let database = Database::open(&STORES).await.ok().map(Rc::new);
        Self { database }
    }

    fn database(&self) -> Result<&Database, StoreError> {
        self.database.as_deref().ok_or(StoreError::Refused)
    }

    /// The device's key, made when there is none yet; of several tabs that make one at once, all get the same.
    /// Where nothing can be kept, the key lives as long as the page.
    ///
    /// # Errors
    /// When the browser gives no cryptography, or the key that was kept cannot be read.
    pub(crate) async fn device_key(&self) -> Result<DeviceKey, StoreError> {
        let Ok(database) = self.database() else { return key::fresh().map(DeviceKey::Visit) };
        match key::kept_or_made(database, KEYS).await {
            Ok(key) => Ok(DeviceKey::Kept(key)),
            Err(StoreError::Refused) => key::fresh().map(DeviceKey::Visit),
            Err(error) => Err(error),
        }
    }

    /// Forgets a key that cannot be read, so that a new one can be made.
    pub(crate) async fn forget_key(&self) -> Result<(), StoreError> {
        key::forget(self.database()?, KEYS).await
    }

    /// The machine of an origin, if this browser was paired with it.
    pub(crate) async fn machine(&self, origin: &str) -> Option<Machine> {
        let text = self.database().ok()?.read(MACHINES, origin).await.ok()??;
        serde_json::from_str(&text).ok()
    }

    /// Pins the machine of an origin.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn keep_machine(&self, origin: &str, machine: &Machine) -> Result<(), StoreError> {
        self.keep(MACHINES, origin, machine).await
    }

    /// What waits to be sent, in the order in which it was written.
    pub(crate) async fn outgoing(&self) -> Vec<Outgoing> {
        let mut all: Vec<Outgoing> = self.all(OUTBOX).await;
        all.sort_by_key(|outgoing| outgoing.created);
        all
    }

    /// Keeps a turn until the machine has it. When this returns, it outlives the page.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn keep_outgoing(&self, outgoing: &Outgoing) -> Result<(), StoreError> {
        self.keep(OUTBOX, outgoing.id.as_str(), outgoing).await
    }

    /// Forgets a turn that the machine has, or that its writer took back.
    pub(crate) async fn forget_outgoing(&self, id: &SubmissionId) -> Result<(), StoreError> {
        self.database()?.remove(OUTBOX, id.as_str()).await
    }

    /// How far each session was read.
    pub(crate) async fn places(&self) -> Vec<(SessionId, Place)> {
        self.all(PLACES).await
    }

    /// Keeps how far a session was read.
    ///
    /// # Errors
    /// When it cannot be kept.
    pub(crate) async fn keep_place(&self, session: SessionId, place: Place) -> Result<(), StoreError> {
        self.keep(PLACES, &session.to_string(), &(session, place)).await
    }

    async fn keep(&self, store: &str, key: &str, value: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_string(value).map_err(|_| StoreError::Damaged)?;
        self.database()?.write(store, key, &text).await
    }

    async fn all<T: DeserializeOwned>(&self, store: &str) -> Vec<T> {
        let Ok(database) = self.database() else { return Vec::new() };
        let texts = database.read_all(store).await.unwrap_or_default();
        texts.iter().filter_map(|text| serde_json::from_str(text).ok()).collect()
    }
}

/// The device's key, and how long it will be there.
pub(crate) enum DeviceKey {
    /// It is kept in this browser.
    Kept(StaticKey),
    /// It goes with this page.
    Visit(StaticKey),
}
