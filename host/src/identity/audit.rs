//! The audit log `rc/audit.jsonl`: who paired, was revoked or refused, started, renamed, merged or answered; each line holds the digest of the one before (wire §10).

use std::path::Path;

use data_encoding::HEXLOWER;
use serde::Serialize;
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use shared::fingerprint::Fingerprint;
use shared::ids::{InputId, SessionId};
use shared::time::Timestamp;

use crate::log::{LogError, Mark, Writer};

/// Refusals that are written in one minute; strangers must not be able to fill the disk.
const REFUSALS_A_MINUTE: u32 = 60;
const MINUTE_MILLISECONDS: i64 = 60_000;

/// What is remembered. Never a secret and never a text of a person.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum AuditEvent {
    /// A device was paired.
    Pair {
        /// Its key.
        device: Fingerprint,
        /// Its name for itself.
        name: String,
    },
    /// A device was revoked.
    Revoke {
        /// Its key.
        device: Fingerprint,
    },
    /// A device was refused.
    Refuse {
        /// Its key.
        device: Fingerprint,
        /// Why.
        detail: String,
    },
    /// A session was started or continued.
    Start {
        /// Who asked for it.
        device: Fingerprint,
        /// The session.
        session: SessionId,
    },
    /// A session got another name.
    Rename {
        /// Who asked for it.
        device: Fingerprint,
        /// The session.
        session: SessionId,
    },
    /// The branch of a session was merged.
    Merge {
        /// Who asked for it.
        device: Fingerprint,
        /// The session.
        session: SessionId,
    },
    /// A question or an approval was answered.
    Answer {
        /// Who answered.
        device: Fingerprint,
        /// The session.
        session: SessionId,
        /// The question or approval.
        input: InputId,
        /// The digest of what was decided.
        digest: String,
    },
}

/// The writer of the audit log.
#[derive(Debug)]
pub struct Audit {
    writer: Writer,
    /// The digest of the last line.
    previous: String,
    minute: i64,
    refusals: u32,
}

impl Audit {
    /// Opens the log or creates it.
    ///
    /// # Errors
    /// [`LogError`] where another process writes it or the system refuses.
    pub fn open(path: &Path) -> Result<Self, LogError> {
        let mut previous = String::new();
        let opened = Writer::open(path, &mut |number, text| {
            if chained(text).as_deref() != Some(previous.as_str()) {
                tracing::warn!(
                    line = number,
                    "the audit log is not in one piece: a line before this one was changed or taken out"
                );
            }
            previous = digest(text);
            Mark::Counted
        })?;
        Ok(Self { writer: opened.writer, previous, minute: 0, refusals: 0 })
    }

    /// Appends what happened; durable on return.
    ///
    /// # Errors
    /// [`LogError`] where it cannot be written.
    pub fn append(&mut self, now: Timestamp, event: &AuditEvent) -> Result<(), LogError> {
        if matches!(event, AuditEvent::Refuse { .. }) && !self.may_refuse(now) {
            return Ok(());
        }
        let line = line(now, event, &self.previous);
        self.writer.append_batch(&[line.clone().into_bytes()])?;
        self.previous = digest(&line);
        Ok(())
    }

    fn may_refuse(&mut self, now: Timestamp) -> bool {
        let minute = now.milliseconds() / MINUTE_MILLISECONDS;
        if minute != self.minute {
            self.minute = minute;
            self.refusals = 0;
        }
        self.refusals = self.refusals.saturating_add(1);
        self.refusals <= REFUSALS_A_MINUTE
    }
}

fn line(now: Timestamp, event: &AuditEvent, previous: &str) -> String {
    json!({ "timestamp": now, "event": event, "previous": previous }).to_string()
}

/// The digest that a line says the one before has.
fn chained(text: &str) -> Option<String> {
    let line: Value = serde_json::from_str(text).ok()?;
    line.get("previous")?.as_str().map(str::to_owned)
}

fn digest(text: &str) -> String {
    HEXLOWER.encode(&Sha256::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::channel::StaticKey;

    fn event(detail: &str) -> AuditEvent {
        let device = StaticKey::generate().unwrap().fingerprint();
        AuditEvent::Refuse { device, detail: detail.to_owned() }
    }

    #[test]
    fn every_line_holds_the_digest_of_the_one_before_also_over_a_restart() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("audit.jsonl");
        let now = Timestamp::from_milliseconds(1);
        for _ in 0..2 {
            let mut audit = Audit::open(&path).unwrap();
            audit.append(now, &event("a")).unwrap();
            audit.append(now, &event("b")).unwrap();
        }
        let text = std::fs::read_to_string(&path).unwrap();
        let mut previous = String::new();
        for line in text.lines() {
            assert_eq!(chained(line).as_deref(), Some(previous.as_str()), "{line}");
            previous = digest(line);
        }
        assert_eq!(text.lines().count(), 4);
    }

    #[test]
    fn strangers_cannot_fill_the_disk() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("audit.jsonl");
        let mut audit = Audit::open(&path).unwrap();
        for _ in 0..200 {
            audit.append(Timestamp::from_milliseconds(1), &event("a")).unwrap();
        }
        audit.append(Timestamp::from_milliseconds(60_001), &event("later")).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap().lines().count(), 61);
    }
}
