//! The only place of `aura`'s commands that prints: text for people, one JSON object for programs, errors in either form.

use std::io::Write as _;
use std::process::ExitCode;

use serde::Serialize;

use crate::automation::error::AutomationError;

/// For whom it is printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// For people.
    Text,
    /// For programs: one JSON object.
    Json,
}

/// An error as the contract has it.
#[derive(Serialize)]
struct Failed<'a> {
    error: &'a AutomationError,
}

/// Prints a line on standard output. Whoever is to read it and cannot, must not take it for done.
pub(super) fn line(text: &str) -> ExitCode {
    let mut out = std::io::stdout().lock();
    let written =
        out.write_all(text.as_bytes()).and_then(|()| out.write_all(b"\n")).and_then(|()| out.flush());
    if written.is_ok() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// Says on standard error what went wrong; gives the exit code for it.
pub(super) fn failed(error: &AutomationError, form: Form) -> ExitCode {
    let text = match form {
        Form::Text => format!("aura: {}\n", crate::text::strip_controls(&error.message)),
        Form::Json => serde_json::to_string(&Failed { error }).unwrap_or_default() + "\n",
    };
    // With standard error gone, the exit code still tells.
    let _ = std::io::stderr().lock().write_all(text.as_bytes());
    ExitCode::FAILURE
}

/// What is wrong with a command line, in one line.
pub(super) fn clap_sentence(wrong: &clap::Error) -> String {
    let text = wrong.render().to_string();
    let first = text.split("\n\n").next().unwrap_or_default();
    crate::text::one_line(first.strip_prefix("error: ").unwrap_or(first), 400)
}
