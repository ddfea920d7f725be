//! Builds the browser client with Trunk when what it is made from has changed.

use std::fs;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::command::{self, Failure};
use crate::report::Steps;
use crate::tools::{self, WebTools};
use crate::{environment, report, versions, workspace};

/// Everything that the browser client is made from, relative to the root of the clone.
const SOURCES: [&str; 7] =
    ["web", "pwa", "shared", "Cargo.toml", "Cargo.lock", "Trunk.toml", "rust-toolchain.toml"];

/// How many steps [`build`] takes at most.
const STEPS: usize = tools::WEB_STEPS + 1;

/// The steps of a command that builds the browser client where needed and then takes `more` steps of its own.
pub(crate) fn steps_and(more: usize) -> Result<Steps, Failure> {
    Ok(Steps::new(if is_current()? { more } else { STEPS + more }))
}

/// Installs the tools and builds the browser client into web/dist, both only where needed.
pub(crate) fn build(steps: &mut Steps) -> Result<(), Failure> {
    if is_current()? {
        report::note("the browser client in web/dist is current");
        return Ok(());
    }
    let tools = tools::for_web(steps)?;
    steps.step("browser client", || build_with(&tools))
}

/// Builds the browser client with tools that are there, unless web/dist is current.
pub(crate) fn build_with(tools: &WebTools) -> Result<(), Failure> {
    if is_current()? {
        report::note("the one in web/dist is current");
        return Ok(());
    }
    workspace::create_web_dist()?;
    // Trunk runs cargo without the network, so what a fresh clone lacks is fetched before.
    command::run(
        command::cargo().args(["fetch", "--locked", "--quiet"]).current_dir(workspace::root()),
        "Check that cargo reaches its registry and that Cargo.lock is current, and run this again.",
    )?;
    let sources = sources_hash()?;
    let mut trunk = Command::new(&tools.trunk);
    environment::without_this_package(&mut trunk)
        .args(["build", "--release"])
        // Trunk would print its own call stack after the compiler's error.
        .env("RUST_BACKTRACE", "0")
        .current_dir(workspace::root());
    if std::env::var_os("NO_COLOR").is_some() {
        // Trunk reads a word there and refuses the usual `1`.
        trunk.env("NO_COLOR", "true");
    }
    command::run(
        command::with_path(&mut trunk, &tools.path)?,
        "Mend what it reports above and run this again.",
    )?;
    let stamp = stamp_file()?;
    fs::write(&stamp, stamp_text(sources)?).map_err(|error| Failure::file("write", &stamp, &error))
}

/// Whether web/dist holds what the last build here made from the present sources.
fn is_current() -> Result<bool, Failure> {
    if !index().is_file() {
        return Ok(false);
    }
    let stamp = fs::read_to_string(stamp_file()?).unwrap_or_default();
    Ok(stamp == stamp_text(sources_hash()?)?)
}

/// Names the sources and the result: the page names all other files by their hashes, so it stands for them.
fn stamp_text(sources: u64) -> Result<String, Failure> {
    let mut result = DefaultHasher::new();
    hash_path(&index(), &mut result)?;
    Ok(format!("{sources:016x} {:016x}\n", result.finish()))
}

fn stamp_file() -> Result<PathBuf, Failure> {
    Ok(workspace::target()?.join("web.stamp"))
}

fn index() -> PathBuf {
    workspace::web_dist().join("index.html")
}

fn sources_hash() -> Result<u64, Failure> {
    let mut hasher = DefaultHasher::new();
    (versions::TRUNK, versions::WASM_BINDGEN).hash(&mut hasher);
    for source in SOURCES {
        hash_path(&workspace::root().join(source), &mut hasher)?;
    }
    Ok(hasher.finish())
}

fn hash_path(path: &Path, hasher: &mut impl Hasher) -> Result<(), Failure> {
    if path == workspace::web_dist() {
        return Ok(());
    }
    path.hash(hasher);
    if path.is_dir() {
        let entries = fs::read_dir(path).and_then(|entries| {
            entries.map(|entry| entry.map(|entry| entry.path())).collect::<Result<Vec<_>, _>>()
        });
        let mut entries = entries.map_err(|error| Failure::file("read", path, &error))?;
        entries.sort();
        entries.iter().try_for_each(|entry| hash_path(entry, hasher))
    } else {
        let content = fs::read(path).map_err(|error| Failure::file("read", path, &error))?;
        content.hash(hasher);
        Ok(())
    }
}
