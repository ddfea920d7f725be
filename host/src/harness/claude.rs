//! The `claude` harness: the person's own installed and logged-in Claude Code, through its stream-json interface.

mod approval;
mod configuring;
mod driver;
mod handshake;
pub(super) mod lines;
mod mapping;
mod probe;
mod proposal;
mod tools;
pub(super) mod trace;
mod wire;

pub(super) use wire::read as read_json;

use shared::gate::Finding;
use shared::status::Exit;

use super::{Abilities, Agent, Harness, Later, OpenError, Opening, Place, Version, version};
use crate::process;

/// Claude Code. It keeps its conversations and its login itself; aude reads neither.
#[derive(Debug, Clone, Copy, Default)]
pub struct ClaudeHarness;

impl Harness for ClaudeHarness {
    fn name(&self) -> &'static str {
        "claude"
    }

    fn abilities(&self) -> Abilities {
        Abilities { interrupt: true, resume: true, configure: true }
    }

    /// `unreported` stands for a version that is too old to be asked about its login.
    fn probe<'a>(&'a self, place: &'a Place) -> Later<'a, Finding> {
        Box::pin(probe::probe(place))
    }

    fn version<'a>(&'a self, place: &'a Place) -> Later<'a, Option<Version>> {
        Box::pin(version::printed(driver::spec(place, vec!["--version".into()])))
    }

    fn oldest(&self) -> Option<Version> {
        Some(probe::OLDEST)
    }

    fn open(&self, opening: Opening) -> Later<'_, Result<Agent, OpenError>> {
        Box::pin(driver::open(opening))
    }
}

/// How a process ended, for the wire.
fn exit(exit: process::Exit) -> Exit {
    match exit {
        process::Exit::Status(status) => Exit::Status(status.unsigned_abs()),
        process::Exit::Signal(signal) => Exit::Signal(signal.unsigned_abs()),
    }
}
