//! Where the programs are that the tests drive; see CONTRIBUTING.md, "Environment of the end-to-end tests".

use std::path::{Path, PathBuf};

/// The version of Claude Code of which the tests know the messages; the same as in `xtask/src/versions.rs`.
const CLAUDE_CODE: &str = "2.1.332";

/// The version of Codex, likewise.
const CODEX: &str = "0.171.0";

/// The program `aude`.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn aude() -> PathBuf {
    own("AUDE_BIN", "aude")
}

/// The program `aura`.
///
/// # Panics
/// When it was not built.
#[must_use]
pub fn aura() -> PathBuf {
    own("AURA_BIN", "aura")
}

fn own(variable: &str, program: &str) -> PathBuf {
    // Benchmarks are compiled as releases are, and measure the program that is.
    let (profile, remedy) = if cfg!(debug_assertions) {
        ("debug", "run `cargo build -p host --bins` first")
    } else {
        ("release", "run `cargo build --release -p host --bins` first")
    };
    found(variable, workspace().join("target").join(profile).join(program), remedy)
}

/// The real Claude Code program.
///
/// # Panics
/// When it was not installed.
#[must_use]
pub fn claude() -> PathBuf {
    agent("AUDE_CLAUDE", &format!("claude-code-{CLAUDE_CODE}"), "claude")
}

/// The real Codex program.
///
/// # Panics
/// When it was not installed.
#[must_use]
pub fn codex() -> PathBuf {
    agent("AUDE_CODEX", &format!("codex-{CODEX}"), "codex")
}

fn agent(variable: &str, folder: &str, program: &str) -> PathBuf {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME")
        .or_else(|| absolute("HOME").map(|home| home.join(".cache")))
        .unwrap_or_default();
    let program = format!("aude/agents/{folder}/node_modules/.bin/{program}");
    found(variable, cache.join(program), "run `cargo xtask tools` first")
}

/// Chromium.
///
/// # Panics
/// When it is not there.
#[must_use]
pub fn chromium() -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let on_path =
        std::env::split_paths(&path).map(|folder| folder.join("chromium")).find(|file| file.is_file());
    found(
        "AUDE_CHROMIUM",
        on_path.unwrap_or_else(|| PathBuf::from("chromium")),
        "run `cargo xtask tools` first",
    )
}

/// The project's folder.
#[must_use]
pub fn workspace() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap_or(Path::new("."))
}

fn found(variable: &str, usual: PathBuf, remedy: &str) -> PathBuf {
    let path = std::env::var_os(variable).map_or(usual, PathBuf::from);
    assert!(path.is_file(), "{} is not there: {remedy}, or set {variable}", path.display());
    path.canonicalize().unwrap_or(path)
}
