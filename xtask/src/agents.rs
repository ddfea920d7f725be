//! The real coding agents that the end-to-end tests drive, at the versions whose messages they know.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::command::{self, Failure};
use crate::versions::{CLAUDE_CODE, CODEX};
use crate::{programs, report};

const REMEDY: &str = "Check that npm reaches its registry and run this again.";

/// An agent as npm packs it.
pub(crate) struct Agent {
    /// The name for people.
    pub(crate) name: &'static str,
    /// The package.
    package: &'static str,
    /// The exact version: npm would silently take an older one that names this Node.js in `engines`.
    pub(crate) version: &'static str,
    /// The folder in the cache, without the version.
    folder: &'static str,
    /// The program.
    program: &'static str,
    /// What it takes on the disk, for people.
    size: &'static str,
    /// What tells the tests where it is.
    pub(crate) variable: &'static str,
}

/// All that are installed.
pub(crate) const AGENTS: [Agent; 2] = [
    Agent {
        name: "Claude Code",
        package: "@anthropic-ai/claude-code",
        version: CLAUDE_CODE,
        folder: "claude-code",
        program: "claude",
        size: "240 MB",
        variable: "AUDE_CLAUDE",
    },
    Agent {
        name: "Codex",
        package: "@openai/codex",
        version: CODEX,
        folder: "codex",
        program: "codex",
        size: "420 MB",
        variable: "AUDE_CODEX",
    },
];

impl Agent {
    /// The path of the program, installed from npm into the cache if it is not there.
    pub(crate) fn program(&self, cache: &Cache) -> Result<PathBuf, Failure> {
        let folder = cache
            .installed(&format!("agents/{}-{}", self.folder, self.version), |folder| self.install(folder))?;
        Ok(self.path(&folder))
    }

    fn path(&self, folder: &Path) -> PathBuf {
        folder.join("node_modules/.bin").join(self.program)
    }

    fn install(&self, folder: &Path) -> Result<(), Failure> {
        let Self { name, package, version, size, .. } = self;
        if programs::find(&["npm"]).is_none() {
            return Err(Failure::new(
                "The tests need Node.js and npm: install both (20 or newer) and run this again.",
            ));
        }
        report::note(format!("installing npm's {package} {version} (about {size}) into the cache"));
        let mut npm = Command::new("npm");
        // npm checks each package against the digest that its registry names.
        npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
            .arg(folder)
            .arg(format!("{package}@{version}"));
        command::run(&mut npm, REMEDY)?;
        let mut asked = Command::new(self.path(folder));
        asked.arg("--version").env("HOME", folder).env("DISABLE_AUTOUPDATER", "1");
        let found = command::output(&mut asked).unwrap_or_default();
        if found.split_whitespace().any(|word| word == *version) {
            Ok(())
        } else {
            Err(Failure::new(format!(
                "npm installed a {name} that says {found:?} for its version, not {version}. {REMEDY}"
            )))
        }
    }
}
