//! The ready file: how a launcher learns where the server is, or why there is none.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::Serialize;

use super::error::AutomationError;
use crate::files;

/// The version of the contract.
pub const API: u32 = 1;

/// Where a server is and what it serves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Whereabouts {
    /// The version of the contract, 1.
    pub api: u32,
    /// The address of the interface.
    pub url: String,
    /// The process.
    pub pid: u32,
    /// The session.
    pub session_id: String,
    /// The version of aura.
    pub aura_version: String,
    /// The commit that it was built from, or `unknown`.
    pub commit: String,
    /// The working directory.
    pub workdir: String,
    /// The directory in which sessions are kept.
    pub write_home: String,
}

#[derive(Serialize)]
struct Failed<'a> {
    api: u32,
    error: &'a AutomationError,
}

/// The file at the path that the launcher gave.
#[derive(Debug, Clone)]
pub struct ReadyFile(PathBuf);

impl ReadyFile {
    /// Takes the path; what a former server left there is removed, so that nobody takes it for ours.
    ///
    /// # Errors
    /// What the system says.
    pub fn claim(path: &Path) -> std::io::Result<Self> {
        match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
            Ok(()) | Err(_) => Ok(Self(path.to_path_buf())),
        }
    }

    /// The server is ready.
    ///
    /// # Errors
    /// A sentence where it cannot be written.
    pub fn ready(&self, whereabouts: &Whereabouts) -> Result<(), String> {
        self.write(whereabouts)
    }

    /// There will be no server.
    ///
    /// # Errors
    /// A sentence where it cannot be written.
    pub fn failed(&self, error: &AutomationError) -> Result<(), String> {
        self.write(&Failed { api: API, error })
    }

    /// Whole or not at all, for its owner alone.
    fn write(&self, content: &impl Serialize) -> Result<(), String> {
        let mut text = serde_json::to_vec(content).map_err(|error| error.to_string())?;
        text.push(b'\n');
        files::write_private(&self.0, &text).map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::automation::error::Code;

    #[test]
    fn what_a_former_server_left_is_gone_before_anything_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("ready");
        std::fs::write(&path, "old").unwrap();
        let file = ReadyFile::claim(&path).unwrap();
        assert!(!path.exists());
        file.failed(&AutomationError::new(Code::NotFound, "no")).unwrap();
        let json: serde_json::Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        let error =
            serde_json::json!({"code": "not_found", "message": "no", "retryable": false, "details": {}});
        assert_eq!(json, serde_json::json!({"api": 1, "error": error}));
        std::fs::create_dir(folder.path().join("folder")).unwrap();
        assert!(ReadyFile::claim(&folder.path().join("folder")).is_err());
    }
}
