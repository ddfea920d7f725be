//! The lease of the launcher: the read end of a pipe whose other end it holds. A byte releases the server; the end of the pipe before that ends it.

use std::path::PathBuf;

use tokio::io::AsyncReadExt as _;
use tokio::net::unix::pipe;

use super::error::{AutomationError, Code};

/// Descriptors below are the standard streams.
const FIRST: i32 = 3;

/// The pipe, ours alone.
#[derive(Debug)]
pub struct Lease(std::fs::File);

/// What became of the launcher.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Launcher {
    /// It has written down that we are there; we may outlive it.
    Released,
    /// It died before.
    Lost,
}

impl Lease {
    /// Takes the inherited descriptor: it is opened anew so that no child inherits it, and closed.
    ///
    /// # Errors
    /// `config_invalid` where it is no pipe.
    pub fn take(descriptor: i32) -> Result<Self, AutomationError> {
        use std::os::unix::fs::{FileTypeExt as _, OpenOptionsExt as _};
        let invalid = |why: String| {
            let message = format!("--launcher-fd {descriptor}: {why}; it must be the read end of a pipe");
            AutomationError::new(Code::ConfigInvalid, message)
        };
        if descriptor < FIRST {
            return Err(invalid("that is a standard stream".to_owned()));
        }
        let path = PathBuf::from(format!("/dev/fd/{descriptor}"));
        // Without waiting: with its launcher dead nobody would ever open the other end.
        let opened = std::fs::OpenOptions::new()
            .read(true)
            .custom_flags(nix::fcntl::OFlag::O_NONBLOCK.bits())
            .open(&path)
            .map_err(|error| invalid(error.to_string()))?;
        let kind = opened.metadata().map_err(|error| invalid(error.to_string()))?.file_type();
        if !kind.is_fifo() {
            return Err(invalid("that is no pipe".to_owned()));
        }
        nix::unistd::close(descriptor).map_err(|error| invalid(error.to_string()))?;
        Ok(Self(opened))
    }

    /// Watches the pipe until it is decided. Needs a runtime.
    ///
    /// # Errors
    /// `config_invalid` where it cannot be watched.
    pub fn watch(self) -> Result<Watched, AutomationError> {
        let receiver = pipe::Receiver::from_file(self.0).map_err(|error| {
            AutomationError::new(Code::ConfigInvalid, format!("the launcher's pipe cannot be read: {error}"))
        })?;
        Ok(Watched(receiver))
    }
}

/// The pipe while it is watched.
#[derive(Debug)]
pub struct Watched(pipe::Receiver);

impl Watched {
    /// Returns once it is decided.
    pub async fn decided(&mut self) -> Launcher {
        let mut byte = [0; 1];
        match self.0.read(&mut byte).await {
            Ok(1..) => Launcher::Released,
            // A pipe that cannot be read any more is one that nobody holds.
            Ok(0) | Err(_) => Launcher::Lost,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::os::fd::{AsRawFd as _, IntoRawFd as _};

    use super::*;

    #[tokio::test]
    async fn a_byte_releases_and_the_end_of_the_pipe_loses() {
        for (written, expected) in [(&b"x"[..], Launcher::Released), (b"", Launcher::Lost)] {
            let (read, mut write) = std::io::pipe().unwrap();
            let mut watched = Lease::take(read.into_raw_fd()).unwrap().watch().unwrap();
            write.write_all(written).unwrap();
            drop(write);
            assert_eq!(watched.decided().await, expected);
        }
    }

    #[test]
    fn anything_but_a_pipe_is_refused() {
        let file = tempfile::tempfile().unwrap();
        for bad in [-1, 0, 1, 2, file.as_raw_fd(), 9_999] {
            assert_eq!(Lease::take(bad).unwrap_err().code, Code::ConfigInvalid, "{bad}");
        }
    }
}
