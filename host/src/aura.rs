//! The command line of `aura`: root flags, one file a command, one place that prints.

use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory as _, Parser, Subcommand};

use crate::automation::error::{AutomationError, Code};

mod open;
mod output;
mod root;
mod serve;
mod session;

pub use root::Root;

/// One coding agent in a terminal or behind an API for controllers, with sessions that survive it.
#[derive(Debug, Parser)]
#[command(name = "aura", version, about, propagate_version = true, max_term_width = 100)]
#[command(after_help = "Exit codes: 0 done, 1 failed, 2 wrong use (with --json 1).")]
struct Arguments {
    #[command(flatten)]
    root: Root,
    #[command(subcommand)]
    command: Option<Command>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Look at stored sessions, copy them in and out, fork and freeze them
    Session(session::Session),
    Serve(serve::Serve),
}

/// Runs the command line and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    // A controller reads one form of error only, also for a command line that is none.
    let json = std::env::args_os().skip(1).take_while(|word| word != "--").any(|word| word == "--json");
    let arguments = match Arguments::try_parse() {
        Ok(arguments) => arguments,
        Err(wrong) if json && !matches!(wrong.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion) => {
            let message = output::clap_sentence(&wrong);
            return output::failed(&AutomationError::new(Code::BadRequest, message), output::Form::Json);
        }
        Err(wrong) => wrong.exit(),
    };
    match arguments.command {
        Some(Command::Session(session)) => session.run(&arguments.root),
        Some(Command::Serve(serve)) => serve.run(&arguments.root),
        None => output::line(&Arguments::command().render_help().to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
