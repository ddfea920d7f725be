//! The machine's key: 64 hexadecimal characters in `rc/machine.key`, made on first use (wire §10).

use std::path::{Path, PathBuf};

use shared::channel::{ChannelError, StaticKey};

use crate::files::{self, FilesError};
use crate::home::Home;

/// More than a key and a line break, in bytes.
const KEY_BYTES: u64 = 256;

/// Why the machine's key cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum KeyError {
    /// The file cannot be read or written, or others can read it.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The file holds something else.
    #[error(
        "{} does not hold a machine key (64 hexadecimal characters): restore it from a copy, or move it away and pair every device anew",
        .0.display()
    )]
    Wrong(PathBuf),
    /// No randomness.
    #[error(transparent)]
    Channel(#[from] ChannelError),
}

/// The machine's key; made when there is none. Two programs that need it at once get the same one.
///
/// # Errors
/// [`KeyError`] where it cannot be read, is no key, or others can read it.
pub fn machine_key(home: &Home) -> Result<StaticKey, KeyError> {
    let path = home.machine_key();
    if let Some(key) = read(&path)? {
        return Ok(key);
    }
    let key = StaticKey::generate()?;
    // Written under a name of its own and then linked, so that the first of two writers wins and nobody reads half a key.
    let temporary = path.with_file_name(format!(".machine.key.{}.new", uuid::Uuid::new_v4().simple()));
    files::write_private(&temporary, key.to_hex().as_bytes())?;
    let linked = std::fs::hard_link(&temporary, &path);
    // Best effort: a name that is left behind holds a key that nobody uses.
    let _ = std::fs::remove_file(&temporary);
    match linked {
        Ok(()) => {
            files::sync_parent(&path)?;
            Ok(key)
        }
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            read(&path)?.ok_or(KeyError::Wrong(path))
        }
        Err(error) => Err(files::system("write", &path)(error).into()),
    }
}

fn read(path: &Path) -> Result<Option<StaticKey>, KeyError> {
    let Some(bytes) = files::read_private(path, KEY_BYTES)? else { return Ok(None) };
    let text = std::str::from_utf8(&bytes).unwrap_or_default().trim_ascii_end();
    StaticKey::from_hex(text).map(Some).map_err(|_| KeyError::Wrong(path.to_path_buf()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    fn home() -> (tempfile::TempDir, Home) {
        let scratch = tempfile::tempdir().unwrap();
        let home = Home::open(&scratch.path().join("home")).unwrap();
        (scratch, home)
    }

    #[test]
    fn the_key_is_made_once_and_private() {
        let (_scratch, home) = home();
        let first = machine_key(&home).unwrap().fingerprint();
        assert_eq!(machine_key(&home).unwrap().fingerprint(), first);
        let mode = std::fs::metadata(home.machine_key()).unwrap().permissions().mode();
        assert_eq!(mode & 0o7777, 0o600);
        assert_eq!(std::fs::read(home.machine_key()).unwrap().len(), 64);
        assert_eq!(std::fs::read_dir(home.rc()).unwrap().count(), 1, "no temporary file stays");
    }

    #[test]
    fn two_at_once_get_the_same_key() {
        let (_scratch, home) = home();
        let makers: Vec<_> = (0..8)
            .map(|_| {
                let home = home.clone();
                std::thread::spawn(move || machine_key(&home).unwrap().fingerprint())
            })
            .collect();
        let keys: Vec<_> = makers.into_iter().map(|maker| maker.join().unwrap()).collect();
        assert!(keys.windows(2).all(|pair| pair[0] == pair[1]));
    }

    #[test]
    fn a_damaged_or_open_key_is_refused() {
        let (_scratch, home) = home();
        files::write_private(&home.machine_key(), b"short").unwrap();
        assert!(matches!(machine_key(&home), Err(KeyError::Wrong(_))));
        files::write_private(&home.machine_key(), "a".repeat(64).as_bytes()).unwrap();
        std::fs::set_permissions(home.machine_key(), std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(machine_key(&home), Err(KeyError::Files(FilesError::Exposed { .. }))));
    }
}
