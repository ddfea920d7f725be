//! The guard: a small process between host and agent that ends the agent's whole tree when the agent, the host or the guard is asked to end.

use std::ffi::OsString;
use std::process::ExitCode;

/// `aude guard [--parent PID] -- PROGRAM ARGUMENTS…`: runs the program with our standard streams and ends as it ended.
#[must_use]
pub fn guard_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let _ = arguments;
    todo!()
}
