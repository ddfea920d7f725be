//! The aude-wire protocol: what goes over a link between a device, the listener and a session host, and the pure rules
//! that both ends share. This crate does no I/O, reads no clock and starts no task; it compiles to native code and to wasm32.
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        reason = "a test that cannot go on should stop where it stands"
    )
)]

pub mod attention;
pub mod channel;
pub mod decision;
pub mod entry;
pub mod failure;
pub mod fingerprint;
pub mod fold;
pub mod follow;
pub mod frame;
pub mod gate;
pub mod ids;
pub mod json;
pub mod kind;
pub mod limits;
pub mod line;
pub mod link;
pub mod markdown;
pub mod name;
pub mod pairing;
pub mod record;
pub mod request;
#[cfg(feature = "schema")]
pub mod schema;
pub mod settings;
pub mod status;
pub mod time;
pub mod transcript;
