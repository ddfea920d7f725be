//! The command line as a person and a script meet it: exit codes, JSON, a real terminal, and the machine around it.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::process::Output;

use tests::home::TestHome;
use tests::story::machine;

mod codes;
mod json;
mod live;
mod workstation;

/// A machine with a listener.
async fn running() -> TestHome {
    let mut home = machine();
    home.listen().await;
    home
}

/// What a command said beside its output.
fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// What a command printed.
fn printed(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}
