//! Runs programs; a program that fails becomes one sentence that says what to do.

use std::ffi::OsStr;
use std::fmt;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::environment;

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
    if status.success() {
        Ok(())
    } else {
        Err(Failure::new(format!("`{}` failed ({status}). {remedy}", shown(command))))
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
