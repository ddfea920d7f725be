//! Takes back what rustup and `cargo run` put into the environment, so that what we start sees what the person's shell had.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::workspace;

/// For programs of the build: without the variables that describe this package.
///
/// Build scripts watch them, so crates would compile again whenever `cargo xtask` and plain cargo take turns.
pub(crate) fn without_this_package(command: &mut Command) -> &mut Command {
    for (name, _) in std::env::vars_os() {
        let described = name
            .to_str()
            .is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_"));
        if described {
            command.env_remove(name);
        }
    }
    if let Some(inherited) = std::env::var_os("LD_LIBRARY_PATH") {
        match libraries_of_others(&inherited) {
            Some(path) => command.env("LD_LIBRARY_PATH", path),
            None => command.env_remove("LD_LIBRARY_PATH"),
        };
    }
    command
}

/// For programs that outlive the build: also without the toolchain of this clone, which is not the one of other projects.
pub(crate) fn without_this_build(command: &mut Command) -> &mut Command {
    let chosen_by_the_person =
        std::env::var_os("RUSTUP_TOOLCHAIN_SOURCE").is_some_and(|source| source == "env");
    if !chosen_by_the_person {
        command.env_remove("RUSTUP_TOOLCHAIN");
    }
    command.env_remove("RUSTUP_TOOLCHAIN_SOURCE").env_remove("RUST_RECURSION_COUNT").env_remove("CARGO");
    without_this_package(command)
}

/// The library path without cargo's target folder and rustup's toolchains; `None` when nothing else is on it.
fn libraries_of_others(inherited: &OsString) -> Option<OsString> {
    let ours: Vec<PathBuf> = workspace::target()
        .ok()
        .into_iter()
        .chain(std::env::var_os("RUSTUP_HOME").map(PathBuf::from))
        .collect();
    let is_ours = |folder: &Path| ours.iter().any(|root| folder.starts_with(root));
    let rest: Vec<PathBuf> = std::env::split_paths(inherited).filter(|folder| !is_ours(folder)).collect();
    if rest.is_empty() { None } else { std::env::join_paths(rest).ok() }
}
