//! IndexedDB as futures: one request a transaction, and a write is done when its transaction is complete.

use std::cell::RefCell;
use std::rc::Rc;

use futures_channel::oneshot;
use leptos::prelude::window;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{
    Event, IdbDatabase, IdbObjectStore, IdbOpenDbRequest, IdbRequest, IdbTransaction, IdbTransactionMode,
};

use super::StoreError;

/// The database of this origin.
const NAME: &str = "aude";
/// Counted up when the list of stores changes.
const VERSION: u32 = 1;

/// An open database.
pub(crate) struct Database {
    database: IdbDatabase,
}

/// What became of an insertion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Inserted {
    /// The value is there now.
    Yes,
    /// Another value was there before.
    TakenAlready,
}

impl Database {
    /// Opens the database, with these stores where it is new.
    pub(crate) async fn open(stores: &'static [&'static str]) -> Result<Self, StoreError> {
        let factory = window().indexed_db().ok().flatten().ok_or(StoreError::Refused)?;
        let request = factory.open_with_u32(NAME, VERSION).map_err(|_| StoreError::Refused)?;
        let upgrading = request.clone();
        let upgrade = Closure::<dyn FnMut(Event)>::new(move |_| create_stores(&upgrading, stores));
        request.set_onupgradeneeded(Some(upgrade.as_ref().unchecked_ref()));
        let database: IdbDatabase = result_of(&request).await?.dyn_into().map_err(|_| StoreError::Refused)?;
        let closing = database.clone();
        // Another tab with a newer version of this page must not wait for this one.
        let close = Closure::<dyn FnMut(Event)>::new(move |_| closing.close());
        database.set_onversionchange(Some(close.as_ref().unchecked_ref()));
        close.forget();
        Ok(Self { database })
    }

    /// The text under a key.
    pub(crate) async fn read(&self, store: &str, key: &str) -> Result<Option<String>, StoreError> {
        Ok(self.read_value(store, key).await?.and_then(|value| value.as_string()))
    }

    /// The value under a key.
    pub(crate) async fn read_value(&self, store: &str, key: &str) -> Result<Option<JsValue>, StoreError> {
        let (_, store) = self.store(store, IdbTransactionMode::Readonly)?;
        let request = store.get(&key.into()).map_err(|_| StoreError::Refused)?;
        let value = result_of(&request).await?;
        Ok(if value.is_undefined() || value.is_null() { None } else { Some(value) })
    }

    /// All texts of a store.
    pub(crate) async fn read_all(&self, store: &str) -> Result<Vec<String>, StoreError> {
        let (_, store) = self.store(store, IdbTransactionMode::Readonly)?;
        let request = store.get_all().map_err(|_| StoreError::Refused)?;
        let values: js_sys::Array = result_of(&request).await?.dyn_into().map_err(|_| StoreError::Damaged)?;
        Ok(values.iter().filter_map(|value| value.as_string()).collect())
    }

    /// Writes a text under a key.
    pub(crate) async fn write(&self, store: &str, key: &str, text: &str) -> Result<(), StoreError> {
        let (transaction, store) = self.store(store, IdbTransactionMode::Readwrite)?;
        store.put_with_key(&text.into(), &key.into()).map_err(|_| StoreError::Refused)?;
        end_of(&transaction).await
    }

    /// Writes a value under a key where there is none: of several that try, exactly one does.
    pub(crate) async fn insert(
        &self,
        store: &str,
        key: &str,
        value: &JsValue,
    ) -> Result<Inserted, StoreError> {
        let (transaction, store) = self.store(store, IdbTransactionMode::Readwrite)?;
        let request = store.add_with_key(value, &key.into()).map_err(|_| StoreError::Refused)?;
        let failed = request.clone();
        let constraint = Rc::new(RefCell::new(false));
        let noted = constraint.clone();
        let on_error = Closure::<dyn FnMut(Event)>::new(move |event: Event| {
            let name = failed.error().ok().flatten().map(|error| error.name());
            if name.as_deref() == Some("ConstraintError") {
                *noted.borrow_mut() = true;
                // Else the transaction is aborted, and the error is reported as ours.
                event.prevent_default();
                event.stop_propagation();
            }
        });
        request.set_onerror(Some(on_error.as_ref().unchecked_ref()));
        end_of(&transaction).await?;
        Ok(if constraint.take() { Inserted::TakenAlready } else { Inserted::Yes })
    }

    /// Removes what is under a key.
    pub(crate) async fn remove(&self, store: &str, key: &str) -> Result<(), StoreError> {
        let (transaction, store) = self.store(store, IdbTransactionMode::Readwrite)?;
        store.delete(&key.into()).map_err(|_| StoreError::Refused)?;
        end_of(&transaction).await
    }

    fn store(
        &self,
        name: &str,
        mode: IdbTransactionMode,
    ) -> Result<(IdbTransaction, IdbObjectStore), StoreError> {
        let transaction =
            self.database.transaction_with_str_and_mode(name, mode).map_err(|_| StoreError::Refused)?;
        let store = transaction.object_store(name).map_err(|_| StoreError::Refused)?;
        Ok((transaction, store))
    }
}

fn create_stores(request: &IdbOpenDbRequest, stores: &[&str]) {
    let Ok(Ok(database)) = request.result().map(JsCast::dyn_into::<IdbDatabase>) else { return };
    for store in stores {
        // One that is there already stays as it is.
        let _ = database.create_object_store(store);
    }
}

type Outcome = Rc<RefCell<Option<oneshot::Sender<bool>>>>;

fn told(outcome: &Outcome, is_good: bool) -> Closure<dyn FnMut(Event)> {
    let outcome = outcome.clone();
    Closure::new(move |event: Event| {
        if !is_good {
            event.prevent_default();
        }
        if let Some(sender) = outcome.borrow_mut().take() {
            let _ = sender.send(is_good);
        }
    })
}

/// Waits for the result of a request.
async fn result_of(request: &IdbRequest) -> Result<JsValue, StoreError> {
    let (sender, receiver) = oneshot::channel();
    let outcome: Outcome = Rc::new(RefCell::new(Some(sender)));
    let (good, bad) = (told(&outcome, true), told(&outcome, false));
    request.set_onsuccess(Some(good.as_ref().unchecked_ref()));
    request.set_onerror(Some(bad.as_ref().unchecked_ref()));
    let is_good = receiver.await.unwrap_or(false);
    request.set_onsuccess(None);
    request.set_onerror(None);
    if is_good { request.result().map_err(|_| StoreError::Refused) } else { Err(StoreError::Refused) }
}

/// Waits until a transaction is complete.
async fn end_of(transaction: &IdbTransaction) -> Result<(), StoreError> {
    let (sender, receiver) = oneshot::channel();
    let outcome: Outcome = Rc::new(RefCell::new(Some(sender)));
    let (good, bad) = (told(&outcome, true), told(&outcome, false));
    transaction.set_oncomplete(Some(good.as_ref().unchecked_ref()));
    transaction.set_onabort(Some(bad.as_ref().unchecked_ref()));
    let is_good = receiver.await.unwrap_or(false);
    transaction.set_oncomplete(None);
    transaction.set_onabort(None);
    if is_good { Ok(()) } else { Err(StoreError::Refused) }
}
