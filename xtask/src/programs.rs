//! Finds programs on this machine, and installs Debian's packages where this user may.

use std::path::PathBuf;
use std::process::Command;

use crate::command::{self, Failure};
use crate::report;

/// The first of these programs that is on `PATH`.
pub(crate) fn find(names: &[&str]) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    names.iter().find_map(|name| {
        std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| file.is_file())
    })
}

/// Whether this user can install Debian's packages without being asked anything.
pub(crate) fn can_install_debian_packages() -> bool {
    find(&["apt-get"]).is_some() && command::output(Command::new("id").arg("-u")).as_deref() == Some("0")
}

/// Installs Debian's packages. Call it only where [`can_install_debian_packages`] says so.
pub(crate) fn install_debian_packages(names: &[&str]) -> Result<(), Failure> {
    report::note(format!("installing Debian's {}", names.join(", ")));
    let apt = || {
        let mut command = Command::new("apt-get");
        command.env("DEBIAN_FRONTEND", "noninteractive").arg("--quiet=2");
        command
    };
    let remedy = format!("Install {} by hand and run this again.", names.join(" and "));
    command::run(apt().arg("update"), &remedy)?;
    command::run(apt().args(["install", "--yes", "--no-install-recommends"]).args(names), &remedy)
}
