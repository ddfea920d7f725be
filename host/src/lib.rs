//! The native side of aude.
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, reason = "a test that panics has failed, as it should")
)]

pub mod aura;
pub mod automation;
pub mod cli;
pub mod client;
pub mod clock;
pub mod config;
pub mod engine;
pub mod files;
pub mod harness;
pub mod home;
pub mod identity;
pub mod listener;
pub mod log;
pub mod process;
pub mod session;
pub mod text;
pub mod worktree;
