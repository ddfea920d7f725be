//! `config.toml`: what a person may set, every key with its default; an unknown key is an error that names it (wire §10).

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::files::{self, FilesError};

/// The port of the listener where none is set (wire §1).
pub const DEFAULT_PORT: u16 = 4310;

/// More than a person writes by hand, in bytes.
const CONFIG_BYTES: u64 = 1024 * 1024;

/// The whole configuration.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// The port of the listener; 0 picks a free one.
    pub port: u16,
    /// What agents may do without being asked.
    pub permissions: Permissions,
    /// Rules for approvals, in order.
    pub rules: Vec<Rule>,
    /// The seconds after which an agent that has nothing to do is ended; the next turn brings it back. Never where none is set.
    pub unload_agent_after: Option<u64>,
    /// Starting sessions.
    pub start: Start,
    /// Sessions with a git worktree of their own.
    pub worktree: Worktree,
    /// The gate.
    pub gate: Gate,
    /// The `claude` harness.
    pub claude: Claude,
    /// The `codex` harness.
    pub codex: Codex,
    /// The `aura` harness.
    pub aura: Aura,
    /// Agents that speak ACP, by the word that chooses them: changes to the presets, and agents of one's own.
    pub harness: BTreeMap<String, AcpAgent>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            port: DEFAULT_PORT,
            permissions: Permissions::default(),
            rules: Vec::new(),
            unload_agent_after: None,
            start: Start::default(),
            worktree: Worktree::default(),
            gate: Gate::default(),
            claude: Claude::default(),
            codex: Codex::default(),
            aura: Aura::default(),
            harness: BTreeMap::new(),
        }
    }
}

/// What agents may do without being asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Permissions {
    /// What the agent itself takes for harmless; a person is asked for the rest.
    #[default]
    Ask,
    /// What the agent itself takes for harmless; the rest is denied, for sessions that nobody watches.
    Deny,
    /// Also edits inside the working directory; a person is asked for the rest.
    Edits,
}

/// A rule for approvals: the first one that fits decides, before anybody is asked. Every field that is set has to fit.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// What it decides.
    pub decision: Verdict,
    /// The tool, by the harness's name or by its class (`edit`, `execute` …); `*` stands for any characters.
    pub tool: Option<String>,
    /// The command line; `*` stands for any characters. An `allow` fits only a single plain command, a `deny` any part of a longer one.
    pub command: Option<String>,
    /// All files that the call touches, from the working directory; `*` stands for any characters but `/`, `**` for any.
    pub path: Option<String>,
}

/// What a rule decides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It may run.
    Allow,
    /// A person is asked.
    Ask,
    /// It may not run.
    Deny,
}

/// Starting sessions.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Start {
    /// The folders in and below which a device may start sessions; the home folder of the person when empty.
    pub roots: Vec<PathBuf>,
}

/// Sessions with a git worktree of their own.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Worktree {
    /// The folder for the worktrees; beside `AUDE_HOME`, as in `~/.aude-worktrees`, where none is set.
    pub root: Option<PathBuf>,
    /// A command that is run by `/bin/sh` once in each new worktree, before the first turn.
    pub setup: Option<String>,
}

/// The gate.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Gate {
    /// Whether a harness may run that is logged in with another provider than its own.
    pub other_provider: OtherProvider,
}

/// What becomes of the finding `other_provider`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum OtherProvider {
    /// The session is refused.
    #[default]
    Refuse,
    /// The harness starts.
    Allow,
}

/// The `claude` harness.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Claude {
    /// The program; `claude` on the PATH where none is set.
    pub program: Option<PathBuf>,
}

/// An agent that speaks the Agent Client Protocol.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct AcpAgent {
    /// The program and its arguments; a preset has its own.
    pub command: Vec<String>,
    /// The mode in which it asks before it acts; it is set at each start and verified.
    pub mode: Option<String>,
    /// It always asks before it acts, although it has no mode that says so.
    pub asks: bool,
    /// Variables that are set for it.
    pub env: BTreeMap<String, String>,
}

/// The `codex` harness.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Codex {
    /// The program; `codex` on the PATH where none is set.
    pub program: Option<PathBuf>,
}

/// The `aura` harness.
#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Aura {
    /// The file of steps for the `script` provider; the built-in tour where none is set.
    pub script: Option<PathBuf>,
}

/// A configuration that cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// The file cannot be read.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The file is no configuration.
    #[error("{}: {detail}", path.display())]
    Wrong {
        /// The file.
        path: PathBuf,
        /// What is wrong, with the line.
        detail: String,
    },
}

impl Config {
    /// Reads the file; one that is not there gives the defaults.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, others can read it, or it is wrong.
    pub fn read(path: &Path) -> Result<Self, ConfigError> {
        let Some(bytes) = files::read_private(path, CONFIG_BYTES)? else {
            return Ok(Self::default());
        };
        let wrong = |detail: String| ConfigError::Wrong { path: path.to_owned(), detail };
        let text = String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8".to_owned()))?;
        toml::from_str(&text).map_err(|error| wrong(error.to_string()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_set_has_its_default_and_an_unknown_key_is_named() {
        let config: Config =
            toml::from_str("permissions = \"edits\"\n[gate]\nother_provider = \"allow\"").unwrap();
        assert_eq!(config.port, DEFAULT_PORT);
        assert_eq!(config.permissions, Permissions::Edits);
        assert_eq!(config.gate.other_provider, OtherProvider::Allow);
        let error = toml::from_str::<Config>("prot = 1").unwrap_err();
        assert!(error.to_string().contains("prot"));
    }
}
