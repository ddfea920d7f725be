//! Folders in which sessions work: which a device may start in, and which it is offered (wire §7).

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use shared::limits;

use super::Sessions;

/// Why a folder cannot be worked in; the sentence is the detail of `bad_directory`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum BadDirectory {
    #[error("the working directory must be an absolute path")]
    Relative,
    #[error("{0} does not exist on the machine")]
    Missing(String),
    #[error("{0} is a file, not a folder")]
    File(String),
    #[error("{0} cannot be opened: {1}")]
    System(String, String),
    #[error(
        "{path} is not in a folder in which devices may start sessions ({roots}): start it on the machine, or add a folder to `start.roots` in config.toml"
    )]
    Outside { path: String, roots: String },
    #[error("the real path of {0} is not UTF-8, which a record cannot hold")]
    Encoding(String),
}

/// Whom the configured roots bind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Bounds {
    /// A device: within the roots.
    Roots,
    /// The machine's own user, who may work anywhere.
    Anywhere,
}

/// The real path of a folder in which a session may work, all symbolic links resolved.
pub(crate) fn working_directory(
    text: &str,
    roots: &[PathBuf],
    bounds: Bounds,
) -> Result<String, BadDirectory> {
    let path = Path::new(text);
    if !path.is_absolute() {
        return Err(BadDirectory::Relative);
    }
    #[expect(clippy::wildcard_enum_match_arm, reason = "the system's kinds of failure are not ours and grow")]
    let real = path.canonicalize().map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => BadDirectory::Missing(text.to_owned()),
        std::io::ErrorKind::NotADirectory => BadDirectory::File(text.to_owned()),
        _ => BadDirectory::System(text.to_owned(), error.to_string()),
    })?;
    if !real.is_dir() {
        return Err(BadDirectory::File(text.to_owned()));
    }
    if bounds == Bounds::Roots {
        let is_inside = roots.iter().any(|root| root.canonicalize().is_ok_and(|root| real.starts_with(root)));
        if !is_inside {
            let roots: Vec<_> = roots.iter().map(|root| root.display().to_string()).collect();
            return Err(BadDirectory::Outside { path: text.to_owned(), roots: roots.join(", ") });
        }
    }
    real.into_os_string().into_string().map_err(|_| BadDirectory::Encoding(text.to_owned()))
}

impl Sessions {
    /// The folders in and below which a device may start sessions.
    pub(crate) fn roots(&self) -> Vec<PathBuf> {
        let configured = &self.terms.config.start.roots;
        if configured.is_empty() {
            std::env::var_os("HOME").map(PathBuf::from).into_iter().collect()
        } else {
            configured.clone()
        }
    }

    /// The folders that a device is offered: where sessions work, then the roots; only those that are there. Blocks for the disk.
    pub(crate) fn directories(&self) -> Vec<String> {
        let mut known: Vec<_> = self
            .all()
            .iter()
            .map(|session| {
                let record = session.record();
                (std::cmp::Reverse(record.updated), record.working_directory)
            })
            .collect();
        known.sort();
        let roots = self.roots().into_iter().filter_map(|root| root.into_os_string().into_string().ok());
        let mut seen = BTreeSet::new();
        known
            .into_iter()
            .map(|(_, path)| path)
            .chain(roots)
            .filter(|path| {
                path.len() <= limits::PATH_BYTES && Path::new(path).is_dir() && seen.insert(path.clone())
            })
            .take(limits::CHOICES)
            .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_working_directory_is_real_and_inside() {
        let scratch = tempfile::tempdir().unwrap();
        let base = scratch.path().canonicalize().unwrap();
        let inside = base.join("root").join("my 🦀 project");
        let outside = base.join("outside");
        std::fs::create_dir_all(&inside).unwrap();
        std::fs::create_dir_all(&outside).unwrap();
        std::fs::write(inside.join("file"), "").unwrap();
        std::os::unix::fs::symlink(&outside, inside.join("way-out")).unwrap();
        std::os::unix::fs::symlink(&inside, base.join("way-in")).unwrap();
        let roots = [base.join("root")];
        let judge = |path: PathBuf, bounds| working_directory(path.to_str().unwrap(), &roots, bounds);
        let real = inside.to_str().unwrap().to_owned();
        assert_eq!(judge(inside.clone(), Bounds::Roots), Ok(real.clone()));
        assert_eq!(judge(base.join("way-in"), Bounds::Roots), Ok(real));
        assert!(matches!(judge(inside.join("way-out"), Bounds::Roots), Err(BadDirectory::Outside { .. })));
        assert!(matches!(
            judge(inside.join("../../outside"), Bounds::Roots),
            Err(BadDirectory::Outside { .. })
        ));
        assert!(matches!(judge(base.join("root-2"), Bounds::Roots), Err(BadDirectory::Missing(_))));
        assert!(judge(inside.join("way-out"), Bounds::Anywhere).is_ok());
        assert!(matches!(judge(inside.join("file"), Bounds::Anywhere), Err(BadDirectory::File(_))));
        assert!(matches!(judge(inside.join("file/deeper"), Bounds::Anywhere), Err(BadDirectory::File(_))));
        assert_eq!(working_directory("root", &roots, Bounds::Anywhere), Err(BadDirectory::Relative));
        assert_eq!(working_directory("", &roots, Bounds::Roots), Err(BadDirectory::Relative));
    }
}
