//! What the end-to-end tests share: a machine in a temporary home, devices, a proxy with bad weather, a model server, a browser.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    clippy::missing_panics_doc,
    clippy::must_use_candidate,
    reason = "a test that cannot go on should stop where it stands"
)]

pub mod agent;
pub mod aura;
pub mod device;
pub mod home;
pub mod model_server;
pub mod page;
pub mod programs;
pub mod proxy;
pub mod served;
pub mod story;
pub mod terminal;
pub mod wait;
