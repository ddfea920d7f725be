//! Runs programs; a program that fails becomes one sentence that says what to do.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};

use crate::environment;

/// The signal that Ctrl-C sends.
const INTERRUPT: i32 = 2;

/// Why a command of the project could not be carried out, as a sentence for a person.
#[derive(Debug)]
pub(crate) struct Failure(String);

impl Failure {
    pub(crate) fn new(sentence: impl Into<String>) -> Self {
        Self(sentence.into())
    }

    /// A failed operation on a file or folder.
    pub(crate) fn file(doing: &str, path: &Path, error: &io::Error) -> Self {
        Self(format!("Could not {doing} {}: {error}.", path.display()))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

/// Runs a program with its output where the person sees it; `remedy` says what to do when it fails.
pub(crate) fn run(command: &mut Command, remedy: &str) -> Result<(), Failure> {
    let status = command.stdin(Stdio::null()).status().map_err(|error| {
        Failure::new(format!("`{}` could not be started: {error}. {remedy}", shown(command)))
    })?;
    judged(status, &shown(command), remedy)
}

fn judged(status: ExitStatus, program: &str, remedy: &str) -> Result<(), Failure> {
    if status.success() {
        Ok(())
    } else if status.signal() == Some(INTERRUPT) {
        // Somebody pressed Ctrl-C: there is nothing to mend.
        Err(Failure::new(format!("`{program}` was interrupted.")))
    } else {
        Err(Failure::new(format!("`{program}` failed ({status}). {remedy}")))
    }
}

/// What a program prints on standard output, or `None` when it cannot be started or fails.
pub(crate) fn output(command: &mut Command) -> Option<String> {
    let output = command.stdin(Stdio::null()).stderr(Stdio::null()).output().ok()?;
    output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// The cargo that runs this xtask, so that a whole command uses one toolchain.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    environment::without_this_package(&mut cargo);
    cargo
}

/// Puts folders in front of `PATH` for one program.
pub(crate) fn with_path<'a>(
    command: &'a mut Command,
    folders: &[impl AsRef<Path>],
) -> Result<&'a mut Command, Failure> {
    let inherited = std::env::var_os("PATH").unwrap_or_default();
    let folders = folders.iter().map(|folder| folder.as_ref().to_owned());
    let path = std::env::join_paths(folders.chain(std::env::split_paths(&inherited))).map_err(|error| {
        Failure::new(format!(
            "The cache folder cannot be put on PATH: {error}. Set XDG_CACHE_HOME to another folder."
        ))
    })?;
    Ok(command.env("PATH", path))
}

fn shown(command: &Command) -> String {
    let program = Path::new(command.get_program());
    let program = program.file_name().unwrap_or(OsStr::new("?"));
    std::iter::once(program)
        .chain(command.get_args())
        .map(|word| word.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interrupted_program_is_not_said_to_have_failed() {
        let said = |raw: i32| {
            judged(ExitStatus::from_raw(raw), "cargo build", "Mend it.").map_err(|failure| failure.0)
        };
        assert_eq!(said(0), Ok(()));
        assert_eq!(said(INTERRUPT), Err("`cargo build` was interrupted.".to_owned()));
        assert!(said(9).unwrap_err().ends_with("Mend it."));
        assert!(said(1 << 8).unwrap_err().contains("failed (exit status: 1). Mend it."));
    }
}
