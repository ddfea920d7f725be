//! Whether Claude Code may run: its version, then its own answer about the login, without a prompt (wire §6).

use std::time::Duration;

use serde_json::Value;
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
/// The oldest version that was tried. Far older ones have no `auth status` and would take the words for a prompt.
pub(super) const OLDEST: Version = Version(2, 1, 197);

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
        // It is there, but has no question that it could be asked.
        Ok(version) if version < OLDEST => return Finding::Unreported,
        Ok(_) => {}
        Err(finding) => return finding,
    }
    match answer(place, &["auth", "status"]).await {
        Ok(answer) => login(&answer),
        Err(finding) => finding,
    }
}

/// What the program printed, and how it ended.
struct Answer {
    output: Vec<u8>,
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
    let (output, _) = tokio::join!(kept(process.stdout.take()), drained(process.stderr.take()));
    let ended = process.wait().await.map_err(|error| Finding::Spawn { detail: error.kind().to_string() })?;
    if output.is_empty() && ended == process::Exit::Status(NOT_RUN) {
        return Err(Finding::Spawn { detail: "the system cannot execute it".to_owned() });
    }
    Ok(Answer { output, exit: exit(ended) })
}

/// The start of what comes; the rest is read and dropped, so that the program can end.
async fn kept(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut source) = source {
        let _ = (&mut source).take(ANSWER_BYTES).read_to_end(&mut kept).await;
        drained(Some(source)).await;
    }
    kept
}

async fn drained(source: Option<impl AsyncRead + Unpin>) {
    if let Some(mut source) = source {
        let _ = tokio::io::copy(&mut source, &mut tokio::io::sink()).await;
    }
}

fn version_of(answer: &Answer) -> Result<Version, Finding> {
    let text = text(answer)?;
    let word = text.split_whitespace().next().ok_or(Finding::Unreadable)?;
    Version::of(word).ok_or(Finding::Unreadable)
}

fn login(answer: &Answer) -> Finding {
    let text = match text(answer) {
        Ok(text) => text,
        Err(finding) => return finding,
    };
    let Ok(status) = serde_json::from_str::<Value>(text) else { return Finding::Unreadable };
    let field = |name: &str| status.get(name).and_then(Value::as_str);
    match status.get("loggedIn").and_then(Value::as_bool) {
        None => Finding::Unreadable,
        Some(false) => Finding::NotLoggedIn,
        // A subscription, an API key or a token of Anthropic's own service, also through a base URL that the person set.
        Some(true) if field("authMethod") == Some("third_party") => Finding::OtherProvider,
        Some(true) => match field("apiProvider") {
            None | Some("firstParty") => Finding::Ok,
            Some(_) => Finding::OtherProvider,
        },
    }
}

fn text(answer: &Answer) -> Result<&str, Finding> {
    let text = std::str::from_utf8(&answer.output).map_err(|_| Finding::Unreadable)?.trim();
    if text.is_empty() { Err(Finding::Silent { exit: answer.exit }) } else { Ok(text) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn printed(text: &str) -> Answer {
        Answer { output: text.as_bytes().to_vec(), exit: Exit::Status(1) }
    }

    #[test]
    fn a_version_is_read_and_compared() {
        assert_eq!(version_of(&printed("2.1.332 (Claude Code)\n")), Ok(Version(2, 1, 332)));
        assert!(Version(2, 0, 77) < OLDEST && Version(2, 1, 197) >= OLDEST && Version(3, 0, 0) > OLDEST);
        assert_eq!(version_of(&printed("usage: claude")), Err(Finding::Unreadable));
        assert_eq!(version_of(&printed(" \n")), Err(Finding::Silent { exit: Exit::Status(1) }));
    }

    #[test]
    fn the_login_is_what_the_program_says() {
        let finding = |text: &str| login(&printed(text));
        let first = r#"{"loggedIn":true,"authMethod":"api_key","apiProvider":"firstParty","apiKeySource":"ANTHROPIC_API_KEY"}"#;
        assert_eq!(finding(first), Finding::Ok);
        assert_eq!(finding(r#"{"loggedIn":true,"authMethod":"oauth_token"}"#), Finding::Ok);
        assert_eq!(finding(r#"{"loggedIn":false,"authMethod":"none"}"#), Finding::NotLoggedIn);
        let bedrock = r#"{"loggedIn":true,"authMethod":"third_party","apiProvider":"bedrock"}"#;
        assert_eq!(finding(bedrock), Finding::OtherProvider);
        assert_eq!(finding(r#"{"loggedIn":true,"apiProvider":"vertex"}"#), Finding::OtherProvider);
        assert_eq!(finding("{}"), Finding::Unreadable);
        assert_eq!(finding("Invalid API key"), Finding::Unreadable);
        assert_eq!(finding(""), Finding::Silent { exit: Exit::Status(1) });
    }
}
