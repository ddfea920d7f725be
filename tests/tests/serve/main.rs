//! `aura serve` as controllers use it: the real program, its journal, its stream, its end, and what a kill at any time leaves.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

mod crash;
mod ending;
mod inputs;
mod outcomes;
mod requests;
mod start;
mod stream;

/// A step that answers everything at once.
const HI: &str = "[[step]]\ntext = \"hi\"\ntimes = \"always\"\n";
