//! Whether Codex may run: its version, then its own answer about the login, without a prompt (wire §6).

use std::time::Duration;

use shared::gate::Finding;
use shared::status::Exit;
use tokio::io::{AsyncRead, AsyncReadExt};

use super::{driver, exit};
use crate::harness::{Place, Version};
use crate::process::{self, Owned, SpawnError};

/// For both questions together; each takes well under a second on a machine that is not busy.
const LIMIT: Duration = Duration::from_secs(10);
/// More than both answers have, in bytes.
const ANSWER_BYTES: u64 = 64 * 1024;
/// What a guard exits with for a program that the system refused to execute.
const NOT_RUN: i32 = 126;
/// The oldest version that was tried: the app-server is experimental, and far older ones have none.
pub(super) const OLDEST: Version = Version(0, 166, 0);

/// Asks the program. What it prints is read and forgotten.
pub(super) async fn probe(place: &Place) -> Finding {
    tokio::time::timeout(LIMIT, ask(place)).await.unwrap_or(Finding::TimedOut)
}

async fn ask(place: &Place) -> Finding {
    let version = match answer(place, &["--version"]).await {
        Ok(answer) => answer,
        Err(finding) => return finding,
    };
    match version_of(&version) {
        Ok(version) if version < OLDEST => return Finding::Unreported,
        Ok(_) => {}
        Err(finding) => return finding,
    }
    match answer(place, &["login", "status"]).await {
        Ok(answer) if login(&answer) == Finding::NotLoggedIn => {
            // Another service needs no login of OpenAI's: only the app-server knows which one is configured.
            if driver::needs_login(place).await == Some(false) {
                Finding::OtherProvider
            } else {
                Finding::NotLoggedIn
            }
        }
        Ok(answer) => login(&answer),
        Err(finding) => finding,
    }
}

/// What the program printed, and how it ended.
struct Answer {
    output: Vec<u8>,
    errors: Vec<u8>,
    exit: Exit,
}

async fn answer(place: &Place, arguments: &[&str]) -> Result<Answer, Finding> {
    let arguments = arguments.iter().map(Into::into).collect();
    let mut process = Owned::spawn(driver::spec(place, arguments)).map_err(|error| match error {
        SpawnError::NotFound(_) => Finding::NotFound,
        SpawnError::WorkingDirectory(_) => {
            Finding::Spawn { detail: "the working directory cannot be entered".to_owned() }
        }
        SpawnError::System { source, .. } => Finding::Spawn { detail: source.kind().to_string() },
    })?;
    drop(process.stdin.take());
    let (output, errors) = tokio::join!(kept(process.stdout.take()), kept(process.stderr.take()));
    let ended = process.wait().await.map_err(|error| Finding::Spawn { detail: error.kind().to_string() })?;
    if output.is_empty() && ended == process::Exit::Status(NOT_RUN) {
        return Err(Finding::Spawn { detail: "the system cannot execute it".to_owned() });
    }
    Ok(Answer { output, errors, exit: exit(ended) })
}

/// The start of what comes; the rest is read and dropped, so that the program can end.
async fn kept(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut source) = source {
        let _ = (&mut source).take(ANSWER_BYTES).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut source, &mut tokio::io::sink()).await;
    }
    kept
}

fn version_of(answer: &Answer) -> Result<Version, Finding> {
    let text = String::from_utf8_lossy(&answer.output);
    if text.trim().is_empty() {
        return Err(Finding::Silent { exit: answer.exit });
    }
    let word = text.split_whitespace().nth(1).ok_or(Finding::Unreadable)?;
    Version::of(word).ok_or(Finding::Unreadable)
}

/// It answers on its standard error, below warnings of its own.
fn login(answer: &Answer) -> Finding {
    let text = [&answer.errors[..], b"\n", &answer.output].concat();
    let text = String::from_utf8_lossy(&text);
    if text.trim().is_empty() {
        return Finding::Silent { exit: answer.exit };
    }
    let says = |words: &str| text.lines().any(|line| line.trim_start().starts_with(words));
    match answer.exit {
        Exit::Status(0) if says("Logged in") || says("API key configured") => Finding::Ok,
        Exit::Status(_) if says("Not logged in") => Finding::NotLoggedIn,
        Exit::Status(_) | Exit::Signal(_) => Finding::Unreadable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(output: &str, errors: &str, status: u32) -> Answer {
        Answer { output: output.into(), errors: errors.into(), exit: Exit::Status(status) }
    }

    #[test]
    fn a_version_is_read_and_compared() {
        let version = |text: &str| version_of(&printed(text, "", 0));
        assert_eq!(version("codex-cli 0.171.0\n"), Ok(Version(0, 171, 0)));
        assert!(version("codex-cli 0.42.0-alpha.1").unwrap() < OLDEST);
        assert_eq!(version("usage: codex"), Err(Finding::Unreadable));
        assert_eq!(version(" \n"), Err(Finding::Silent { exit: Exit::Status(0) }));
    }

    #[test]
    fn the_login_is_what_the_program_says() {
        let finding = |text: &str, status| login(&printed("", text, status));
        assert_eq!(finding("Not logged in\n", 1), Finding::NotLoggedIn);
        assert_eq!(finding("WARNING: a thing\nLogged in using ChatGPT\n", 0), Finding::Ok);
        assert_eq!(finding("API key configured - ***\n", 0), Finding::Ok);
        assert_eq!(finding("Logged in using ChatGPT\n", 1), Finding::Unreadable);
        assert_eq!(finding("no", 0), Finding::Unreadable);
        assert_eq!(finding("", 2), Finding::Silent { exit: Exit::Status(2) });
    }
}
