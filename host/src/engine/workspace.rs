//! The directory that the tools may not leave: a path is resolved, symlinks are followed, and only then is it looked at.

use std::path::{Component, Path, PathBuf};

/// The working directory, resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Workspace {
    root: PathBuf,
    closed: Vec<PathBuf>,
}

/// A path inside the workspace, without a symlink in it when it was made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inside {
    path: PathBuf,
    shown: String,
}

/// Why a path cannot be used; each sentence is for the model and for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Outside {
    /// It leads out of the workspace.
    #[error("{0} is outside of the working directory")]
    Escapes(String),
    /// It belongs to aude.
    #[error("{0} belongs to aude itself, with the keys of this machine; no tool may use it")]
    Closed(String),
    /// There is nothing at it.
    #[error("{0} does not exist")]
    Missing(String),
    /// It cannot be resolved.
    #[error("{path} cannot be used: {detail}")]
    Unusable {
        /// The path as it was given.
        path: String,
        /// What the system said.
        detail: String,
    },
}

impl Workspace {
    /// The workspace in a directory.
    ///
    /// # Errors
    /// What the system says where it is no directory.
    pub fn open(directory: &Path) -> std::io::Result<Self> {
        let root = directory.canonicalize()?;
        if root.is_dir() {
            Ok(Self { root, closed: Vec::new() })
        } else {
            Err(std::io::ErrorKind::NotADirectory.into())
        }
    }

    /// The workspace without a directory that may lie in it. One that holds the workspace itself closes nothing.
    #[must_use]
    pub fn without(mut self, directory: &Path) -> Self {
        self.closed.extend(directory.canonicalize().ok().filter(|closed| !self.root.starts_with(closed)));
        self
    }

    /// The directory itself.
    #[must_use]
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// What is there at `path`, which may be relative.
    ///
    /// # Errors
    /// [`Outside`] where there is nothing, or it leads out.
    pub fn existing(&self, path: &str) -> Result<Inside, Outside> {
        match self.root.join(path).canonicalize() {
            Ok(real) => self.inside(path, real),
            Err(missing) if missing.kind() == std::io::ErrorKind::NotFound => {
                // Whether something is there outside is not told.
                self.writable(path).and(Err(Outside::Missing(path.to_owned())))
            }
            Err(refused) => Err(unusable(path, &refused)),
        }
    }

    /// Where `path` is or would be; its last parts may be missing.
    ///
    /// # Errors
    /// [`Outside`] where it leads out, or hangs on a symlink to nothing.
    pub fn writable(&self, path: &str) -> Result<Inside, Outside> {
        let wanted = self.root.join(path);
        let mut missing = Vec::new();
        let mut there = wanted.as_path();
        let real = loop {
            match there.canonicalize() {
                Ok(real) => break real,
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                    if there.symlink_metadata().is_ok() {
                        return Err(Outside::Unusable {
                            path: path.to_owned(),
                            detail: "it is a symbolic link to nothing".to_owned(),
                        });
                    }
                    // What is missing must be named plainly: `..` behind a name that is not there means nothing.
                    let Some(Component::Normal(name)) = there.components().next_back() else {
                        return Err(Outside::Escapes(path.to_owned()));
                    };
                    missing.push(name.to_owned());
                    let Some(parent) = there.parent() else {
                        return Err(Outside::Escapes(path.to_owned()));
                    };
                    there = parent;
                }
                Err(refused) => return Err(unusable(path, &refused)),
            }
        };
        let real = missing.iter().rev().fold(real, |real, name| real.join(name));
        self.inside(path, real)
    }

    fn inside(&self, path: &str, real: PathBuf) -> Result<Inside, Outside> {
        let Ok(relative) = real.strip_prefix(&self.root) else {
            return Err(Outside::Escapes(path.to_owned()));
        };
        if self.closed.iter().any(|closed| real.starts_with(closed)) {
            return Err(Outside::Closed(path.to_owned()));
        }
        let shown = if relative.as_os_str().is_empty() { Path::new(".") } else { relative };
        Ok(Inside { shown: shown.to_string_lossy().into_owned(), path: real })
    }
}

impl Inside {
    /// The resolved path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The path from the working directory, for people.
    #[must_use]
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// Whether it belongs to a repository's own directory, in which files name programs that git will run.
    #[must_use]
    pub fn is_repository_internal(&self) -> bool {
        Path::new(&self.shown).components().any(|part| part.as_os_str().eq_ignore_ascii_case(".git"))
    }
}

fn unusable(path: &str, refused: &std::io::Error) -> Outside {
    Outside::Unusable { path: path.to_owned(), detail: refused.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::os::unix::fs::symlink;

    /// `outside` beside `inside`, and in there a file, a directory and symlinks in all directions.
    fn world() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        let inside = directory.path().join("inside");
        std::fs::create_dir_all(inside.join("folder")).unwrap();
        std::fs::create_dir(directory.path().join("outside")).unwrap();
        std::fs::create_dir(directory.path().join("inside-too")).unwrap();
        std::fs::write(inside.join("file"), "x").unwrap();
        std::fs::write(directory.path().join("outside/secret"), "x").unwrap();
        symlink("../outside", inside.join("out")).unwrap();
        symlink("../outside/secret", inside.join("secret")).unwrap();
        symlink("folder", inside.join("in")).unwrap();
        symlink("../outside/new", inside.join("dangling")).unwrap();
        symlink("loop", inside.join("loop")).unwrap();
        let workspace = Workspace::open(&inside).unwrap();
        (directory, workspace)
    }

    #[test]
    fn what_is_inside_is_found_by_every_name() {
        let (_directory, workspace) = world();
        let absolute = workspace.root().join("file");
        for path in ["file", "./file", "folder/../file", "in/../file", absolute.to_str().unwrap()] {
            assert_eq!(workspace.existing(path).unwrap().shown(), "file", "{path}");
        }
        assert_eq!(workspace.existing("").unwrap().shown(), ".");
        assert_eq!(workspace.existing("in").unwrap().shown(), "folder");
        assert_eq!(workspace.writable("in/a/b").unwrap().shown(), "folder/a/b");
    }

    #[test]
    fn no_name_leads_out() {
        let (_directory, workspace) = world();
        for path in [
            "..",
            "../outside/secret",
            "../inside-too",
            "/etc/passwd",
            "/",
            "out",
            "out/secret",
            "secret",
            "folder/../../outside/secret",
            "in/../../outside/secret",
            "../absent",
            "out/absent",
            "/absent/x",
        ] {
            assert!(matches!(workspace.existing(path), Err(Outside::Escapes(_))), "{path}");
            assert!(matches!(workspace.writable(path), Err(Outside::Escapes(_))), "{path}");
        }
        for path in ["dangling", "dangling/x", "loop", "file/x", "a\0b"] {
            assert!(workspace.existing(path).is_err(), "{path:?}");
            assert!(workspace.writable(path).is_err(), "{path:?}");
        }
        assert!(workspace.writable("absent/../../outside/x").is_err());
        assert_eq!(workspace.existing("absent"), Err(Outside::Missing("absent".into())));
    }

    #[test]
    fn what_is_closed_is_closed_by_every_name() {
        let (_directory, workspace) = world();
        let folder = workspace.root().join("folder");
        let outside = workspace.root().parent().unwrap().to_path_buf();
        let workspace = workspace.without(&folder).without(&outside).without(Path::new("/nowhere"));
        for path in ["folder", "folder/key", "in/key", "./folder/../folder/key"] {
            assert!(matches!(workspace.writable(path), Err(Outside::Closed(_))), "{path}");
            assert!(matches!(workspace.existing(path), Err(Outside::Closed(_))), "{path}");
        }
        assert!(workspace.existing("file").is_ok());
    }

    #[test]
    fn the_inside_of_a_repository_is_known() {
        let (_directory, workspace) = world();
        assert!(workspace.writable("a/.Git/hooks/x").unwrap().is_repository_internal());
        assert!(!workspace.writable(".gitignore").unwrap().is_repository_internal());
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
        #[test]
        fn whatever_is_named_stays_inside(
            parts in prop::collection::vec(
                prop::sample::select(vec!["..", ".", "folder", "in", "out", "file", "secret", "dangling", "loop", "new", "", "outside"]), 0..8),
            is_absolute in any::<bool>(),
        ) {
            let (_directory, workspace) = world();
            let path = format!("{}{}", if is_absolute { "/" } else { "" }, parts.join("/"));
            if let Ok(found) = workspace.existing(&path) {
                prop_assert!(found.path().canonicalize().unwrap().starts_with(workspace.root()));
            }
            if let Ok(found) = workspace.writable(&path) {
                let there = found.path().ancestors().find_map(|path| path.canonicalize().ok()).unwrap();
                prop_assert!(there.starts_with(workspace.root()), "{path} is {there:?}");
            }
        }
    }
}
