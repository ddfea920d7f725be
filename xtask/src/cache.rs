//! The cache folder that all clones of one person share: tools and agents, each in a folder named after its version.

use std::fs::{self, File, TryLockError};
use std::path::{Path, PathBuf};

use crate::command::Failure;
use crate::report;

/// A cache that this process alone may write to until the value is dropped.
pub(crate) struct Cache {
    root: PathBuf,
    _lock: File,
}

impl Cache {
    /// Opens the cache, and waits while another clone installs something.
    pub(crate) fn open() -> Result<Self, Failure> {
        Self::open_at(root()?)
    }

    fn open_at(root: PathBuf) -> Result<Self, Failure> {
        fs::create_dir_all(&root).map_err(|error| Failure::file("create", &root, &error))?;
        let path = root.join("install.lock");
        let lock = File::create(&path).map_err(|error| Failure::file("open", &path, &error))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => {
                report::note("another `cargo xtask` is installing tools; waiting until it is done");
                lock.lock().map_err(|error| Failure::file("lock", &path, &error))?;
            }
            Err(TryLockError::Error(error)) => return Err(Failure::file("lock", &path, &error)),
        }
        Ok(Self { root, _lock: lock })
    }

    /// A folder inside the cache that need not exist.
    pub(crate) fn folder(&self, name: &str) -> PathBuf {
        self.root.join(name)
    }

    /// Fills the folder `name` with `install` unless it is there.
    ///
    /// The installation goes to a folder beside it that is renamed at the end, so an installation that was killed is
    /// never taken for a complete one.
    pub(crate) fn installed(
        &self,
        name: &str,
        install: impl FnOnce(&Path) -> Result<(), Failure>,
    ) -> Result<PathBuf, Failure> {
        let complete = self.folder(name);
        if complete.is_dir() {
            return Ok(complete);
        }
        let partial = self.folder(&format!("{name}.partial"));
        remove_folder(&partial)?;
        fs::create_dir_all(&partial).map_err(|error| Failure::file("create", &partial, &error))?;
        install(&partial)?;
        fs::rename(&partial, &complete).map_err(|error| Failure::file("rename", &partial, &error))?;
        Ok(complete)
    }
}

/// Removes a folder with all that is in it; one that is not there is no failure.
pub(crate) fn remove_folder(path: &Path) -> Result<(), Failure> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(Failure::file("remove", path, &error))
        }
        _ => Ok(()),
    }
}

/// `$XDG_CACHE_HOME/aude`, or `~/.cache/aude`.
fn root() -> Result<PathBuf, Failure> {
    let variable =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path: &PathBuf| path.is_absolute());
    let base = variable("XDG_CACHE_HOME").or_else(|| variable("HOME").map(|home| home.join(".cache")));
    base.map(|base| base.join("aude")).ok_or_else(|| {
        Failure::new("Neither XDG_CACHE_HOME nor HOME is set, so there is no folder for tools: set HOME.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Scratch(PathBuf);

    impl Scratch {
        fn new(name: &str) -> Self {
            let folder = std::env::temp_dir().join(format!("xtask-{}-{name}", std::process::id()));
            remove_folder(&folder).unwrap();
            Self(folder)
        }
    }

    impl Drop for Scratch {
        fn drop(&mut self) {
            // A folder left in the temporary folder is no reason to fail.
            let _left = remove_folder(&self.0);
        }
    }

    #[test]
    fn a_complete_installation_is_used_again() {
        let scratch = Scratch::new("again");
        let cache = Cache::open_at(scratch.0.clone()).unwrap();
        let first = cache.installed("tools/a-1", |folder| {
            fs::write(folder.join("a"), "a").map_err(|error| Failure::file("write", folder, &error))
        });
        let again = cache.installed("tools/a-1", |_| panic!("it is there"));
        assert_eq!(first.unwrap(), again.unwrap());
        assert!(scratch.0.join("tools/a-1/a").is_file());
    }

    #[test]
    fn an_installation_that_did_not_end_is_not_taken_for_a_complete_one() {
        let scratch = Scratch::new("partial");
        let cache = Cache::open_at(scratch.0.clone()).unwrap();
        let failed = cache.installed("tools/a-1", |folder| {
            fs::write(folder.join("left"), "").unwrap();
            Err(Failure::new("No."))
        });
        assert!(failed.is_err());
        assert!(!scratch.0.join("tools/a-1").exists());
        cache.installed("tools/a-1", |_| Ok(())).unwrap();
        assert!(!scratch.0.join("tools/a-1/left").exists(), "what the first one left is gone");
    }

    #[test]
    fn two_clones_do_not_install_at_once() {
        let scratch = Scratch::new("lock");
        let cache = Cache::open_at(scratch.0.clone()).unwrap();
        let other = File::create(scratch.0.join("install.lock")).unwrap();
        assert!(matches!(other.try_lock(), Err(TryLockError::WouldBlock)));
        drop(cache);
        other.try_lock().unwrap();
    }
}
