//! Paths of Unix sockets, also those that are longer than a socket address can hold.

use std::fs::File;
use std::path::{Path, PathBuf};

use super::FilesError;

/// The longest path in a socket address, in bytes: `sun_path` less its NUL.
const LONGEST: usize = if cfg!(target_os = "linux") { 107 } else { 103 };

/// A path at which the system lets us bind or connect a Unix socket, also where the real path is too long for that.
#[derive(Debug)]
pub struct SocketAddress {
    path: PathBuf,
    /// Kept open, because `path` may go through it.
    _directory: Option<File>,
}

impl SocketAddress {
    /// The address for the socket at `path`, whose directory must exist. Valid as long as the value lives.
    ///
    /// # Errors
    /// [`FilesError`] where the path is too long and the system has no way around, or its directory cannot be opened.
    pub fn of(path: &Path) -> Result<Self, FilesError> {
        if path.as_os_str().len() <= LONGEST {
            return Ok(Self { path: path.to_path_buf(), _directory: None });
        }
        Self::through_directory(path)
    }

    /// What to give to bind or connect.
    #[must_use]
    pub fn as_path(&self) -> &Path {
        &self.path
    }

    #[cfg(target_os = "linux")]
    fn through_directory(path: &Path) -> Result<Self, FilesError> {
        use std::os::fd::AsRawFd as _;

        let too_long = || FilesError::SocketPath {
            path: path.to_path_buf(),
            length: path.as_os_str().len(),
            limit: LONGEST,
        };
        let (parent, name) = path.parent().zip(path.file_name()).ok_or_else(too_long)?;
        let directory = File::open(parent).map_err(super::system("open", parent))?;
        let short = PathBuf::from(format!("/proc/self/fd/{}", directory.as_raw_fd())).join(name);
        if short.as_os_str().len() > LONGEST {
            return Err(too_long());
        }
        Ok(Self { path: short, _directory: Some(directory) })
    }

    #[cfg(not(target_os = "linux"))]
    fn through_directory(path: &Path) -> Result<Self, FilesError> {
        Err(FilesError::SocketPath {
            path: path.to_path_buf(),
            length: path.as_os_str().len(),
            limit: LONGEST,
        })
    }
}
