//! The last of what the program wrote and nobody understood, kept in the session's own directory and nowhere else.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use crate::files;

/// What is kept, in bytes: enough for the message of a crash.
const KEPT_BYTES: usize = 64 * 1024;
/// What is kept of one line, in bytes.
const LINE_BYTES: usize = 4096;
/// The file in the session's directory.
pub(super) const FILE: &str = "claude-trace.txt";

/// A bounded trace that several tasks write to.
#[derive(Debug, Clone, Default)]
pub(in crate::harness) struct Trace(Arc<Mutex<VecDeque<u8>>>);

impl Trace {
    /// Keeps the start of a line, with the reason.
    pub(in crate::harness) fn line(&self, reason: &str, line: &[u8]) {
        let kept = &line[..line.len().min(LINE_BYTES)];
        self.bytes(format!("[{reason}, {} bytes] ", line.len()).as_bytes());
        self.bytes(kept);
        self.bytes(b"\n");
    }

    /// Keeps bytes as they came; the oldest give way.
    pub(in crate::harness) fn bytes(&self, bytes: &[u8]) {
        let bytes = &bytes[bytes.len().saturating_sub(KEPT_BYTES)..];
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let excess = (kept.len() + bytes.len()).saturating_sub(KEPT_BYTES);
        kept.drain(..excess);
        kept.extend(bytes);
    }

    /// Writes it to the session's directory, if there is anything. Failing to is no failure of the agent.
    pub(in crate::harness) fn save(&self, session_directory: &Path) {
        self.save_as(&session_directory.join(FILE));
    }

    /// Writes it to this file, as [`Trace::save`] does.
    pub(in crate::harness) fn save_as(&self, file: &Path) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.is_empty() {
            return;
        }
        if let Err(error) = files::write_private(file, kept.make_contiguous()) {
            tracing::warn!(%error, "the trace of an agent could not be kept");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_kept_and_it_never_grows() {
        let trace = Trace::default();
        trace.bytes(&vec![b'a'; 3 * KEPT_BYTES]);
        trace.line("garbage", &vec![b'b'; 3 * KEPT_BYTES]);
        let directory = tempfile::tempdir().unwrap();
        trace.save(directory.path());
        let kept = std::fs::read(directory.path().join(FILE)).unwrap();
        assert_eq!(kept.len(), KEPT_BYTES);
        assert!(kept.ends_with(b"bb\n"));
        let kept = String::from_utf8(kept).unwrap();
        assert!(kept.starts_with('a') && kept.contains("a[garbage, 196608 bytes] bb"));
    }
}
