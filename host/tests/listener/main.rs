//! The listener over real sockets: admission, pairing, backlog, sessions with real and made-up hosts, every failure of the wire.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::wildcard_enum_match_arm,
    clippy::print_stderr,
    missing_docs,
    reason = "a test that panics has failed, as it should"
)]

mod backlog;
mod failures;
mod hosts;
mod http;
mod kit;
mod pairing;
mod process;
mod sessions;
