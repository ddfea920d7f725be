//! The command line of `aude`: one file a command, one place that prints, errors with what to do next.

use std::process::ExitCode;

use clap::{CommandFactory, Parser, Subcommand};

mod answer;
mod attach;
mod configure;
mod connect;
mod devices;
mod doctor;
mod down;
mod error;
mod follow;
mod inputs;
mod listen;
mod merge;
mod output;
mod pair;
mod qr;
mod quoted;
mod remedies;
mod rename;
mod render;
mod send;
mod sessions;
mod start;
mod steer;
mod up;

pub use error::{CliError, Code};

/// Coding-agent sessions on this workstation, steered from any browser, phone or terminal.
#[derive(Debug, Parser)]
#[command(name = "aude", version, about, propagate_version = true, max_term_width = 100)]
#[command(
    after_help = "Exit codes: 0 done, 1 failed, 2 wrong use, 3 no listener runs, 4 no such session or device, 5 refused.\n\
    Files are in ~/.aude, or in AUDE_HOME. Set AUDE_LOG=debug to see more of what a listener does."
)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Start everything: the listener, a first session, and a pairing link for a browser
    Up(up::Up),
    /// Run the listener of this machine in the foreground
    Listen(listen::Listen),
    /// Start a session, or continue one that has ended
    Start(start::Start),
    /// Send a turn to a session
    Send(send::Send),
    /// Watch a session live, with its history; lines that you type are sent
    Attach(attach::Attach),
    /// Show what a session waits for, and allow, deny or answer it
    Answer(answer::Answer),
    /// List the sessions of this machine
    Sessions(sessions::Sessions),
    /// Show everything about one session
    Show(sessions::Show),
    /// Interrupt the running turn of a session
    Interrupt(steer::Interrupt),
    /// End a session's agent; what was said stays
    Stop(steer::Stop),
    /// Show or change the model, effort or agent of a session
    Configure(configure::Configure),
    /// Give a session another name
    Rename(rename::Rename),
    /// Merge the branch of a session that was started with --worktree, and remove its worktree
    Merge(merge::Merge),
    /// Delete a session that has ended, and all that was said in it
    Remove(steer::Remove),
    /// Pair a browser or phone: prints a link and a QR code
    Pair(pair::Pair),
    /// List the paired devices
    Devices(devices::Devices),
    /// Take a device's access away
    Revoke(devices::Revoke),
    /// Stop the listener, and the sessions with --sessions
    Down(down::Down),
    /// Say what is missing on this machine, and how to get it
    Doctor(doctor::Doctor),
    /// Print shell completions
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Write the manual pages into a folder
    Man {
        /// The folder
        directory: std::path::PathBuf,
    },
    /// Run one session; the listener starts this
    #[command(hide = true)]
    Host(listen::Host),
}

/// Runs the command line and gives its exit code.
#[must_use]
pub fn main() -> ExitCode {
    let arguments = Arguments::parse();
    match run(arguments.command) {
        Ok(code) => code,
        Err(error) => {
            output::error(&error);
            ExitCode::from(error.code as u8)
        }
    }
}

fn run(command: Command) -> Result<ExitCode, CliError> {
    match command {
        Command::Listen(command) => return command.run(),
        Command::Host(command) => return command.run(),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(shell, &mut Arguments::command(), "aude", &mut script);
            output::raw(&script);
            return Ok(ExitCode::SUCCESS);
        }
        Command::Man { directory } => {
            std::fs::create_dir_all(&directory)
                .map_err(|error| CliError::io("create", &directory, &error))?;
            clap_mangen::generate_to(Arguments::command(), &directory)
                .map_err(|error| CliError::io("write to", &directory, &error))?;
            return Ok(ExitCode::SUCCESS);
        }
        Command::Up(_)
        | Command::Start(_)
        | Command::Send(_)
        | Command::Attach(_)
        | Command::Answer(_)
        | Command::Sessions(_)
        | Command::Show(_)
        | Command::Interrupt(_)
        | Command::Stop(_)
        | Command::Configure(_)
        | Command::Rename(_)
        | Command::Merge(_)
        | Command::Remove(_)
        | Command::Pair(_)
        | Command::Devices(_)
        | Command::Revoke(_)
        | Command::Down(_)
        | Command::Doctor(_) => {}
    }
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(|error| CliError::failed(format!("the program could not start: {error}")))?;
    let result = runtime.block_on(client_command(command));
    // A thread that still reads the terminal would keep the program from ending.
    runtime.shutdown_background();
    result.map(|()| ExitCode::SUCCESS)
}

async fn client_command(command: Command) -> Result<(), CliError> {
    match command {
        Command::Up(command) => command.run().await,
        Command::Start(command) => command.run().await,
        Command::Send(command) => command.run().await,
        Command::Attach(command) => command.run().await,
        Command::Answer(command) => command.run().await,
        Command::Sessions(command) => command.run().await,
        Command::Show(command) => command.run().await,
        Command::Interrupt(command) => command.run().await,
        Command::Stop(command) => command.run().await,
        Command::Configure(command) => command.run().await,
        Command::Rename(command) => command.run().await,
        Command::Merge(command) => command.run().await,
        Command::Remove(command) => command.run().await,
        Command::Pair(command) => command.run().await,
        Command::Devices(command) => command.run(),
        Command::Revoke(command) => command.run().await,
        Command::Down(command) => command.run().await,
        Command::Doctor(command) => command.run().await,
        Command::Listen(_) | Command::Host(_) | Command::Completions { .. } | Command::Man { .. } => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }

    #[test]
    fn every_harness_is_named_where_one_can_be_chosen() {
        let harnesses = crate::harness::all(&crate::config::Config::default());
        for name in ["start", "up"] {
            let mut command = Arguments::command();
            let help = command.find_subcommand_mut(name).unwrap().render_long_help().to_string();
            for harness in &harnesses {
                assert!(help.contains(harness.name()), "{name}: {help}");
            }
        }
    }
}
