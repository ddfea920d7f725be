//! wasm-opt, which makes the browser client smaller: Debian's, else npm's, else none.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::cache::Cache;
use crate::command::{self, Failure};
use crate::versions::NPM_BINARYEN;
use crate::{programs, report};

/// Stands in for wasm-opt where there is none: Trunk must find some program of that name. It copies its input.
const STAND_IN: &str = r#"#!/bin/sh
# Written by `cargo xtask`: no wasm-opt could be had, so the module is used as it is.
for word in "$@"; do
  case "$word" in
    --version) echo "wasm-opt version 0 (none)"; exit 0 ;;
    --output=*) output=${word#--output=} ;;
    -*) ;;
    *) input=$word ;;
  esac
done
exec cp "$input" "$output"
"#;

/// The folder to put on `PATH` so that Trunk finds wasm-opt, or `None` when it is on `PATH` already.
pub(crate) fn folder(cache: &Cache) -> Result<Option<PathBuf>, Failure> {
    if programs::find(&["wasm-opt"]).is_some() {
        return Ok(None);
    }
    if programs::can_install_debian_packages() {
        match programs::install_debian_packages(&["binaryen"]) {
            Ok(()) => return Ok(None),
            Err(failure) => report::note(failure),
        }
    }
    if programs::find(&["npm"]).is_some() {
        match cache.installed(&format!("tools/binaryen-{NPM_BINARYEN}"), install_from_npm) {
            Ok(folder) => return Ok(Some(folder.join("node_modules/.bin"))),
            Err(failure) => report::note(failure),
        }
    }
    report::warning(
        "there is no wasm-opt, so the browser client is larger than it needs to be. Install `binaryen` for a smaller one.",
    );
    cache.installed("tools/without-wasm-opt", write_stand_in).map(Some)
}

fn install_from_npm(folder: &Path) -> Result<(), Failure> {
    report::note(format!("installing npm's binaryen {NPM_BINARYEN} into the cache"));
    let mut npm = Command::new("npm");
    npm.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "--prefix"])
        .arg(folder)
        .arg(format!("binaryen@{NPM_BINARYEN}"));
    command::run(&mut npm, "Install `binaryen` by hand and run this again.")
}

fn write_stand_in(folder: &Path) -> Result<(), Failure> {
    let file = folder.join("wasm-opt");
    fs::write(&file, STAND_IN).map_err(|error| Failure::file("write", &file, &error))?;
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755))
        .map_err(|error| Failure::file("make executable", &file, &error))
}
