//! The real Claude Code program at the version that the end-to-end tests drive.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::command::{self, Failure};
use crate::versions::CLAUDE_CODE;
use crate::{programs, report};

const PROGRAM: &str = "node_modules/.bin/claude";

/// The path of the program, installed from npm into the cache if it is not there.
pub(crate) fn program(cache: &Cache) -> Result<PathBuf, Failure> {
    let folder = cache.installed(&format!("agents/claude-code-{CLAUDE_CODE}"), install)?;
    Ok(folder.join(PROGRAM))
}

fn install(folder: &Path) -> Result<(), Failure> {
    const REMEDY: &str = "Check that npm reaches its registry and run this again.";
    if programs::find(&["npm"]).is_none() {
        return Err(Failure::new(
            "The tests need Node.js and npm: install both (20 or newer) and run this again.",
        ));
    }
    report::note(format!(
        "installing npm's @anthropic-ai/claude-code {CLAUDE_CODE} (about 240 MB) into the cache"
    ));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(folder)
        // An exact version: npm would silently take an older one that names this Node.js in `engines`.
        .arg(format!("@anthropic-ai/claude-code@{CLAUDE_CODE}"));
    command::run(&mut npm, REMEDY)?;
    let mut version = Command::new(folder.join(PROGRAM));
    version.arg("--version").env("HOME", folder).env("DISABLE_AUTOUPDATER", "1");
    let found = command::output(&mut version).unwrap_or_default();
    if found.split_whitespace().next() == Some(CLAUDE_CODE) {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "npm installed a Claude Code that says {found:?} for its version, not {CLAUDE_CODE}. {REMEDY}"
        )))
    }
}
