//! The device's X25519 key, kept encrypted by a key of the browser's that no script can read out.
//!
//! Noise needs the raw key, which WebCrypto does not give. So the key is kept sealed by a non-extractable AES-GCM key beside it:
//! a copy of the browser's files alone does not yield it, but a script of this origin could use it.

use js_sys::{ArrayBuffer, Object, Reflect, Uint8Array};
use leptos::prelude::window;
use shared::channel::StaticKey;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AesGcmParams, AesKeyGenParams, CryptoKey, SubtleCrypto};
use zeroize::Zeroizing;

use super::StoreError;
use super::database::{Database, Inserted};

/// The name of the device's key in its store.
const DEVICE: &str = "device";
/// The initialisation vector of AES-GCM, in bytes; each wrapping key seals one message.
const VECTOR_BYTES: usize = 12;

/// A new key that nothing keeps.
pub(super) fn fresh() -> Result<StaticKey, StoreError> {
    StaticKey::generate().map_err(|_| StoreError::Cryptography)
}

/// The key that is kept, or a new one that is kept from now on.
pub(super) async fn kept_or_made(database: &Database, store: &str) -> Result<StaticKey, StoreError> {
    if let Some(kept) = database.read_value(store, DEVICE).await? {
        return unwrap(&kept).await;
    }
    let key = fresh()?;
    let wrapped = wrap(&key).await?;
    match database.insert(store, DEVICE, &wrapped).await? {
        Inserted::Yes => Ok(key),
        // Another tab was faster; its key is the device's.
        Inserted::TakenAlready => {
            unwrap(&database.read_value(store, DEVICE).await?.ok_or(StoreError::Damaged)?).await
        }
    }
}

/// Forgets the key.
pub(super) async fn forget(database: &Database, store: &str) -> Result<(), StoreError> {
    database.remove(store, DEVICE).await
}

fn subtle() -> Result<SubtleCrypto, StoreError> {
    let crypto = window().crypto().map_err(|_| StoreError::Cryptography)?;
    let subtle = crypto.subtle();
    if subtle.is_undefined() { Err(StoreError::Cryptography) } else { Ok(subtle) }
}

async fn wrap(key: &StaticKey) -> Result<JsValue, StoreError> {
    let bad = |_| StoreError::Cryptography;
    let subtle = subtle()?;
    let usages = js_sys::Array::of2(&"encrypt".into(), &"decrypt".into());
    let algorithm = AesKeyGenParams::new("AES-GCM", 256);
    let wrapping = subtle.generate_key_with_object(&algorithm, false, &usages).map_err(bad)?;
    let wrapping: CryptoKey =
        JsFuture::from(wrapping).await.map_err(bad)?.dyn_into().map_err(|_| StoreError::Cryptography)?;
    let vector = Uint8Array::new_with_length(u32::try_from(VECTOR_BYTES).unwrap_or(12));
    let crypto = window().crypto().map_err(bad)?;
    crypto.get_random_values_with_array_buffer_view(&vector).map_err(bad)?;
    let plain = key.to_hex();
    let sealed = subtle
        .encrypt_with_object_and_u8_array(&AesGcmParams::new("AES-GCM", &vector), &wrapping, plain.as_bytes())
        .map_err(bad)?;
    let sealed = JsFuture::from(sealed).await.map_err(bad)?;
    let wrapped = Object::new();
    for (name, value) in [("wrapping", wrapping.into()), ("vector", vector.into()), ("sealed", sealed)] {
        Reflect::set(&wrapped, &name.into(), &value).map_err(bad)?;
    }
    Ok(wrapped.into())
}

async fn unwrap(wrapped: &JsValue) -> Result<StaticKey, StoreError> {
    let field = |name: &str| Reflect::get(wrapped, &name.into()).map_err(|_| StoreError::Damaged);
    let wrapping: CryptoKey = field("wrapping")?.dyn_into().map_err(|_| StoreError::Damaged)?;
    let vector: Uint8Array = field("vector")?.dyn_into().map_err(|_| StoreError::Damaged)?;
    let sealed: ArrayBuffer = field("sealed")?.dyn_into().map_err(|_| StoreError::Damaged)?;
    let opening = subtle()?
        .decrypt_with_object_and_buffer_source(&AesGcmParams::new("AES-GCM", &vector), &wrapping, &sealed)
        .map_err(|_| StoreError::Cryptography)?;
    let opened = JsFuture::from(opening).await.map_err(|_| StoreError::Damaged)?;
    let plain = Zeroizing::new(Uint8Array::new(&opened).to_vec());
    let text = std::str::from_utf8(&plain).map_err(|_| StoreError::Damaged)?;
    StaticKey::from_hex(text).map_err(|_| StoreError::Damaged)
}
