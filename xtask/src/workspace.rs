//! Where the parts of this clone are.

use std::path::{Path, PathBuf};

use crate::command::Failure;

/// The root of the clone.
pub(crate) fn root() -> &'static Path {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here)
}

/// The folder that Trunk fills with the browser client and that the host embeds.
pub(crate) fn web_dist() -> PathBuf {
    root().join("web/dist")
}

/// Makes sure that the folder to embed exists: the host does not compile without it.
pub(crate) fn create_web_dist() -> Result<(), Failure> {
    let dist = web_dist();
    std::fs::create_dir_all(&dist).map_err(|error| Failure::file("create", &dist, &error))
}

/// Cargo's target folder, found from this program's own place in it (`TARGET/debug/xtask`).
pub(crate) fn target() -> Result<PathBuf, Failure> {
    let own = std::env::current_exe()
        .map_err(|error| Failure::new(format!("The path of xtask itself is unknown: {error}.")))?;
    own.ancestors().nth(2).map(Path::to_owned).ok_or_else(|| {
        Failure::new("xtask does not run from cargo's target folder: start it with `cargo xtask`.")
    })
}
