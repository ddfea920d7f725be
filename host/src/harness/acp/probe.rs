//! Whether an ACP agent may run: it is there, answers to `initialize`, and where it tells that without a prompt, is logged in (wire §6).

use std::time::Duration;

use serde_json::{Value, json};
use shared::gate::Finding;
use tokio::io::{AsyncWriteExt, BufWriter};
use tokio::process::ChildStdin;

use super::driver;
use super::presets::Program;
use super::wire::{self, Message};
use crate::harness::Place;
use crate::harness::claude::lines::{Lines, Read};
use crate::process::{self, Owned, SpawnError};

/// The slowest agent that is known takes four seconds on a machine that is not busy, and eighteen on one that is.
const LIMIT: Duration = Duration::from_secs(40);
/// What a guard exits with for a program that the system refused to execute.
const NOT_RUN: i32 = 126;

/// Asks the agent. What it prints is read and forgotten.
pub(super) async fn probe(program: &Program, place: &Place) -> Finding {
    let mut process = match Owned::spawn(driver::spec(program, place)) {
        Ok(process) => process,
        Err(SpawnError::NotFound(_)) => return Finding::NotFound,
        Err(SpawnError::WorkingDirectory(_)) => {
            return Finding::Spawn { detail: "the working directory cannot be entered".to_owned() };
        }
        Err(SpawnError::System { source, .. }) => {
            return Finding::Spawn { detail: source.kind().to_string() };
        }
    };
    let found = tokio::time::timeout(LIMIT, ask(program, place, &mut process)).await;
    let finding = found.unwrap_or(Finding::TimedOut);
    if let Err(error) = process.kill().await {
        tracing::warn!(%error, "an agent that was probed could not be waited for");
    }
    finding
}

async fn ask(program: &Program, place: &Place, process: &mut Owned) -> Finding {
    let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
        return Finding::Spawn { detail: "its pipes were not there".to_owned() };
    };
    if let Some(mut stderr) = process.stderr.take() {
        tokio::spawn(async move { tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await });
    }
    let mut stdin = BufWriter::new(stdin);
    let mut lines = Lines::new(stdout);
    let mut has_spoken = false;
    // Where it takes no line it has ended, which its output tells.
    let _ = write(&mut stdin, &wire::initialize(1)).await;
    let mut asked = 1;
    loop {
        let line = match lines.next().await {
            Read::Line(line) => line,
            Read::TooLong => {
                has_spoken = true;
                continue;
            }
            Read::End if has_spoken => return Finding::Unreadable,
            Read::End => {
                return match process.wait().await {
                    Ok(process::Exit::Status(NOT_RUN)) => {
                        Finding::Spawn { detail: "the system cannot execute it".to_owned() }
                    }
                    Ok(exit) => Finding::Silent { exit: driver::exit(exit) },
                    Err(error) => Finding::Spawn { detail: error.kind().to_string() },
                };
            }
        };
        has_spoken |= !line.iter().all(u8::is_ascii_whitespace);
        let Some(Message::Response { id, result }) = wire::read(&line) else { continue };
        match (id == asked, asked, result) {
            (true, 1, Ok(answer)) => {
                if answer.get("protocolVersion").and_then(Value::as_u64) != Some(wire::VERSION) {
                    return Finding::Unreadable;
                }
                if !program.tells_login {
                    return Finding::Ok;
                }
                asked = 2;
                let params =
                    json!({ "cwd": place.working_directory.display().to_string(), "mcpServers": [] });
                let _ = write(&mut stdin, &wire::request(asked, "session/new", params)).await;
            }
            (true, 2, Err(failure)) if failure.code == wire::NOT_LOGGED_IN => return Finding::NotLoggedIn,
            (true, _, Ok(_)) => return Finding::Ok,
            (true, _, Err(_)) => return Finding::Unreadable,
            (false, ..) => {}
        }
    }
}

async fn write(stdin: &mut BufWriter<ChildStdin>, value: &Value) -> std::io::Result<()> {
    stdin.write_all(format!("{value}\n").as_bytes()).await?;
    stdin.flush().await
}
