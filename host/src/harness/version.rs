//! Versions of agents' programs: read out of what they print, compared with the oldest that is known to work.

use std::fmt;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt};

use crate::process::{Owned, Spec};

/// How long a program may take to say its version.
const LIMIT: Duration = Duration::from_secs(10);
/// More than such an answer has, in bytes.
const ANSWER_BYTES: u64 = 16 * 1024;

/// The version of a program: three numbers, and nothing else of what it printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Version(pub u32, pub u32, pub u32);

impl Version {
    /// The version that a word is, like `1.2.3` or `1.2.3-alpha`.
    pub(super) fn of(word: &str) -> Option<Self> {
        let mut numbers = word.trim_start_matches('v').split(['.', '-', '+']).map(str::parse::<u32>);
        match (numbers.next(), numbers.next(), numbers.next()) {
            (Some(Ok(major)), Some(Ok(minor)), Some(Ok(patch))) => Some(Self(major, minor, patch)),
            _ => None,
        }
    }

    /// The first version in a text.
    pub(super) fn within(text: &str) -> Option<Self> {
        text.split_whitespace().find_map(Self::of)
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(major, minor, patch) = self;
        write!(f, "{major}.{minor}.{patch}")
    }
}

/// The version that a program prints; none where it prints none in time.
pub(super) async fn printed(spec: Spec) -> Option<Version> {
    tokio::time::timeout(LIMIT, ask(spec)).await.ok().flatten()
}

async fn ask(spec: Spec) -> Option<Version> {
    let mut process = Owned::spawn(spec).ok()?;
    drop(process.stdin.take());
    let (output, _) = tokio::join!(kept(process.stdout.take()), kept(process.stderr.take()));
    process.wait().await.ok()?;
    Version::within(&String::from_utf8_lossy(&output))
}

/// The start of what comes; the rest is read and dropped, so that the program can end.
async fn kept(source: Option<impl AsyncRead + Unpin>) -> Vec<u8> {
    let mut kept = Vec::new();
    if let Some(mut source) = source {
        // A pipe that breaks ends the text where it broke.
        let _ = (&mut source).take(ANSWER_BYTES).read_to_end(&mut kept).await;
        let _ = tokio::io::copy(&mut source, &mut tokio::io::sink()).await;
    }
    kept
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_is_found_and_compared() {
        for (text, version) in [
            ("2.1.332 (Claude Code)\n", Some(Version(2, 1, 332))),
            ("codex-cli 0.42.0-alpha.1", Some(Version(0, 42, 0))),
            (" v1.34.0", Some(Version(1, 34, 0))),
            ("usage: agent", None),
            ("1.2", None),
            ("", None),
        ] {
            assert_eq!(Version::within(text), version, "{text}");
        }
        assert!(Version(2, 0, 77) < Version(2, 1, 197) && Version(3, 0, 0) > Version(2, 9, 9));
        assert_eq!(Version(2, 1, 197).to_string(), "2.1.197");
    }
}
