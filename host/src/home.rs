//! Where everything that aude keeps on this machine lives (wire §10).

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use shared::ids::SessionId;

use crate::files::{self, FilesError};

/// Why the home directory of aude cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum HomeError {
    /// Neither `AUDE_HOME` nor `HOME` says where it is.
    #[error(
        "neither AUDE_HOME nor HOME is set: set AUDE_HOME to an absolute path of a directory of your own"
    )]
    Unset,
    /// `AUDE_HOME` is a relative path: it would be another place for every program.
    #[error("AUDE_HOME is {0:?}, which is not an absolute path: set it to an absolute path")]
    Relative(PathBuf),
    /// A directory cannot be created or is open to others.
    #[error(transparent)]
    Files(#[from] FilesError),
}

/// The private directory `~/.aude`, or what `AUDE_HOME` names. It exists, and only its owner can read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Home {
    root: PathBuf,
}

impl Home {
    /// Opens the home that the environment names, and creates what is missing of it.
    ///
    /// # Errors
    /// [`HomeError`] where no variable names it, or a directory cannot be created or can be read by others.
    pub fn from_environment() -> Result<Self, HomeError> {
        Self::open(&named_by(std::env::var_os("AUDE_HOME"), std::env::var_os("HOME"))?)
    }

    /// Opens the home at `root`, and creates it, `rc` and `sessions` where they are missing.
    ///
    /// # Errors
    /// [`HomeError`] where the path is relative, or a directory cannot be created or can be read by others.
    pub fn open(root: &Path) -> Result<Self, HomeError> {
        if !root.is_absolute() {
            return Err(HomeError::Relative(root.to_path_buf()));
        }
        let home = Self { root: root.to_path_buf() };
        files::private_directory(&home.root)?;
        files::private_directory(&home.rc())?;
        files::private_directory(&home.sessions())?;
        Ok(home)
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// `config.toml`: what the user configures.
    #[must_use]
    pub fn configuration(&self) -> PathBuf {
        self.root.join("config.toml")
    }

    /// `rc`: what belongs to the machine as a whole.
    #[must_use]
    pub fn rc(&self) -> PathBuf {
        self.root.join("rc")
    }

    /// `rc/machine.key`: the secret key of the machine, 64 hex characters.
    #[must_use]
    pub fn machine_key(&self) -> PathBuf {
        self.rc().join("machine.key")
    }

    /// `rc/peers.json`: the devices that are paired.
    #[must_use]
    pub fn peers(&self) -> PathBuf {
        self.rc().join("peers.json")
    }

    /// `rc/listener.socket`: for files and messages. To bind or connect use [`files::SocketAddress`], which also takes long paths.
    #[must_use]
    pub fn listener_socket(&self) -> PathBuf {
        self.rc().join("listener.socket")
    }

    /// `rc/listener.lock`: held by the one listener of this machine.
    #[must_use]
    pub fn listener_lock(&self) -> PathBuf {
        self.rc().join("listener.lock")
    }

    /// `rc/audit.jsonl`: who paired, revoked, answered and started.
    #[must_use]
    pub fn audit(&self) -> PathBuf {
        self.rc().join("audit.jsonl")
    }

    /// `sessions`: one directory for each session.
    #[must_use]
    pub fn sessions(&self) -> PathBuf {
        self.root.join("sessions")
    }

    /// The folder for worktrees of sessions where none is configured: beside the home, which agents may not read.
    #[must_use]
    pub fn worktrees(&self) -> PathBuf {
        let mut name = self.root.file_name().unwrap_or_default().to_os_string();
        name.push("-worktrees");
        self.root.with_file_name(name)
    }

    /// The paths of one session; nothing is created.
    #[must_use]
    pub fn session(&self, id: SessionId) -> SessionPaths {
        SessionPaths { directory: self.sessions().join(id.to_string()) }
    }
}

/// The paths of one session, `sessions/ID`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionPaths {
    directory: PathBuf,
}

impl SessionPaths {
    /// The directory of the session.
    #[must_use]
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// `record.json`: what never changes about the session.
    #[must_use]
    pub fn record(&self) -> PathBuf {
        self.directory.join("record.json")
    }

    /// `log.jsonl`: everything else about the session.
    #[must_use]
    pub fn log(&self) -> PathBuf {
        self.directory.join("log.jsonl")
    }
}

fn named_by(aude_home: Option<OsString>, home: Option<OsString>) -> Result<PathBuf, HomeError> {
    if let Some(named) = aude_home.filter(|value| !value.is_empty()) {
        return Ok(PathBuf::from(named));
    }
    let home = home.filter(|value| !value.is_empty()).ok_or(HomeError::Unset)?;
    Ok(PathBuf::from(home).join(".aude"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn named(aude_home: Option<&str>, home: Option<&str>) -> Result<PathBuf, HomeError> {
        named_by(aude_home.map(OsString::from), home.map(OsString::from))
    }

    #[test]
    fn the_environment_names_the_home() {
        assert_eq!(named(Some("/a b/🦀"), Some("/h")).unwrap(), Path::new("/a b/🦀"));
        assert_eq!(named(Some(""), Some("/h")).unwrap(), Path::new("/h/.aude"));
        assert_eq!(named(None, Some("/h")).unwrap(), Path::new("/h/.aude"));
        assert!(matches!(named(None, None), Err(HomeError::Unset)));
        assert!(matches!(named(None, Some("")), Err(HomeError::Unset)));
    }

    #[test]
    fn a_relative_home_is_refused() {
        assert!(matches!(Home::open(Path::new("aude")), Err(HomeError::Relative(_))));
    }

    #[test]
    fn a_home_with_spaces_and_emoji_is_made_private_and_opened_again() {
        let scratch = tempfile::tempdir().unwrap();
        let root = scratch.path().join("my 🦀 home").join("deep");
        let home = Home::open(&root).unwrap();
        for directory in [home.root().to_path_buf(), home.rc(), home.sessions()] {
            let mode = std::fs::metadata(&directory).unwrap().permissions().mode();
            assert_eq!(mode & 0o7777, 0o700, "{}", directory.display());
        }
        assert_eq!(Home::open(&root).unwrap(), home);
        std::fs::set_permissions(home.rc(), std::fs::Permissions::from_mode(0o750)).unwrap();
        let said = Home::open(&root).unwrap_err().to_string();
        assert!(said.contains(&format!("`chmod 700 '{}'`", home.rc().display())), "{said}");
    }

    #[test]
    fn a_session_has_a_directory_of_its_own() {
        let scratch = tempfile::tempdir().unwrap();
        std::fs::set_permissions(scratch.path(), std::fs::Permissions::from_mode(0o700)).unwrap();
        let home = Home::open(scratch.path()).unwrap();
        let id = SessionId::random();
        assert_eq!(home.session(id).log(), home.sessions().join(id.to_string()).join("log.jsonl"));
        assert_eq!(home.session(id).record().parent().unwrap(), home.session(id).directory());
    }
}
