//! What the end-to-end tests share.
#![allow(clippy::expect_used, reason = "a test that panics has failed, as it should")]

pub mod model_server;
pub mod programs;
