//! The `acp` driver: any agent that speaks the Agent Client Protocol, by presets and by command lines of the configuration.

mod driver;
mod handshake;
mod mapping;
mod options;
mod permission;
mod presets;
mod probe;
mod tools;
mod wire;

use std::sync::Arc;

use shared::gate::Finding;

use super::{Abilities, Agent, Harness, Later, OpenError, Opening, Place, Version, version};
use crate::config::Config;

use presets::Program;
pub use presets::is_preset;

/// One agent that speaks ACP. It keeps its conversations and its login itself; aude reads neither.
#[derive(Debug, Clone)]
pub struct AcpHarness {
    program: Program,
}

/// The presets, changed by what the configuration says of them, then the agents that only the configuration knows.
pub(super) fn all(config: &Config) -> impl Iterator<Item = Arc<dyn Harness>> {
    presets::all(config).into_iter().map(|program| Arc::new(AcpHarness { program }) as Arc<dyn Harness>)
}

impl Harness for AcpHarness {
    fn name(&self) -> &str {
        &self.program.name
    }

    fn abilities(&self) -> Abilities {
        Abilities { interrupt: true, resume: true, configure: true }
    }

    /// `ok` says that it is installed and speaks ACP; about a login only some agents can tell without a prompt.
    fn probe<'a>(&'a self, place: &'a Place) -> Later<'a, Finding> {
        Box::pin(probe::probe(&self.program, place))
    }

    fn version<'a>(&'a self, place: &'a Place) -> Later<'a, Option<Version>> {
        Box::pin(async move {
            // Only of a preset is it known that the words before its own arguments are the agent itself, and what it prints.
            let command = presets::version(&self.program)?;
            version::printed(driver::spec(&command, place)).await
        })
    }

    fn open(&self, opening: Opening) -> Later<'_, Result<Agent, OpenError>> {
        Box::pin(driver::open(&self.program, opening))
    }
}
