//! The only place that prints: lines for people, JSON for programs, errors with what to do next.
#![expect(clippy::print_stderr, reason = "this module is where the program prints")]

use std::io::{IsTerminal, Write};
use std::process::exit;

use serde::Serialize;

use super::error::CliError;

/// Whether a person reads standard output at a terminal.
pub(super) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// Whether to colour: a terminal, and nobody said no.
pub(super) fn is_coloured() -> bool {
    is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty())
}

/// The columns of the terminal, or 80.
pub(super) fn columns() -> usize {
    std::env::var("COLUMNS")
        .ok()
        .and_then(|text| text.parse().ok())
        .filter(|columns| *columns >= 20)
        .unwrap_or(80)
}

/// Prints a line.
pub(super) fn line(text: impl AsRef<str>) {
    raw(format!("{}\n", text.as_ref()).as_bytes());
}

/// Prints text as it is, for live output.
pub(super) fn text(text: &str) {
    raw(text.as_bytes());
}

/// Prints one JSON value on one line.
pub(super) fn json(value: &impl Serialize) {
    // Everything that is printed as JSON is made of the wire's own types, which serialise without fail.
    line(serde_json::to_string(value).unwrap_or_default());
}

/// Prints bytes. A reader that has gone away ends the program quietly, as `head` expects.
pub(super) fn raw(bytes: &[u8]) {
    let mut out = std::io::stdout().lock();
    if out.write_all(bytes).and_then(|()| out.flush()).is_err() {
        exit(0);
    }
}

/// Says something beside the output proper.
pub(super) fn note(text: impl AsRef<str>) {
    eprintln!("{}", text.as_ref());
}

/// What stands before what to do next.
pub(super) const HINT: &str = "      ";

/// Says what went wrong and what to do next.
pub(super) fn error(error: &CliError) {
    eprintln!("aude: {}", error.sentence.trim_end_matches('.'));
    if let Some(hint) = &error.hint {
        eprintln!("{HINT}{hint}");
    }
}

/// A number of things in words: `1 session`, `2 sessions`.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
