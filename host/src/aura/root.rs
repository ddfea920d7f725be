//! The flags that stand before every command of `aura`: where it is configured and keeps its sessions, and what a session begins with.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::Args;

use crate::automation::error::{AutomationError, Code};

/// The directory of `aura` where none is named, in the home of the user.
const USUAL: &str = ".aura";

/// The root flags.
#[derive(Debug, Clone, Default, PartialEq, Eq, Args)]
pub struct Root {
    /// The directory of settings and sessions; "" for none [default: ~/.aura]
    #[arg(long, value_name = "DIR")]
    home: Option<OsString>,
    /// A further directory of settings, later ones win; sessions are kept in the last one
    #[arg(long, value_name = "DIR")]
    config: Vec<OsString>,
    /// Continue this session
    #[arg(long, value_name = "ID")]
    pub resume: Option<String>,
    /// Record what is said, with the thinking, as plain text in this file
    #[arg(long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// The provider of the model, by its name in the settings
    #[arg(long, value_name = "NAME")]
    pub provider: Option<String>,
    /// The model
    #[arg(long, value_name = "NAME")]
    pub model: Option<String>,
    /// The agent, by its name in the settings
    #[arg(long, value_name = "NAME")]
    pub agent: Option<String>,
}

impl Root {
    /// The directories of settings in the order of their reading, absolute: the home, then each `--config`.
    ///
    /// # Errors
    /// `config_invalid` where a `--config` is empty, or where no home can be found and none is named.
    pub fn directories(&self) -> Result<Vec<PathBuf>, AutomationError> {
        let mut directories = Vec::new();
        match (&self.home, std::env::var_os("HOME").filter(|home| !home.is_empty())) {
            (Some(none), _) if none.is_empty() => {}
            (Some(home), _) => directories.push(absolute(home)?),
            (None, Some(user)) => directories.push(absolute(&Path::new(&user).join(USUAL).into_os_string())?),
            (None, None) if self.config.is_empty() => {
                return Err(invalid("HOME is not set: name a directory with --home or --config"));
            }
            (None, None) => {}
        }
        for directory in &self.config {
            if directory.is_empty() {
                return Err(invalid("--config needs a directory; only --home may be empty"));
            }
            directories.push(absolute(directory)?);
        }
        Ok(directories)
    }

    /// The directory in which sessions are kept, absolute: the last `--config`, else the home.
    ///
    /// # Errors
    /// `config_invalid` where there is none.
    pub fn write_home(&self) -> Result<PathBuf, AutomationError> {
        let last = self.directories()?.pop();
        last.ok_or_else(|| invalid("there is no directory for sessions: name one with --home or --config"))
    }
}

fn absolute(path: &OsString) -> Result<PathBuf, AutomationError> {
    std::path::absolute(path).map_err(|error| invalid(format!("{}: {error}", Path::new(path).display())))
}

fn invalid(message: impl Into<String>) -> AutomationError {
    AutomationError::new(Code::ConfigInvalid, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(home: Option<&str>, config: &[&str]) -> Root {
        Root {
            home: home.map(Into::into),
            config: config.iter().map(Into::into).collect(),
            ..Root::default()
        }
    }

    #[test]
    fn the_last_config_is_the_write_home_and_else_the_home() {
        for (home, config, expected) in [
            (Some("/h"), &["/a", "/b"][..], &["/h", "/a", "/b"][..]),
            (Some("/h"), &[], &["/h"]),
            (Some(""), &["/a", "/b"], &["/a", "/b"]),
        ] {
            let root = root(home, config);
            let expected: Vec<PathBuf> = expected.iter().map(PathBuf::from).collect();
            assert_eq!(root.directories().unwrap(), expected);
            assert_eq!(Some(&root.write_home().unwrap()), expected.last());
        }
    }

    #[test]
    fn a_relative_directory_is_one_of_the_working_directory() {
        let here = std::env::current_dir().unwrap();
        assert_eq!(root(Some(""), &[".aura"]).write_home().unwrap(), here.join(".aura"));
    }

    #[test]
    fn nothing_to_write_to_is_said() {
        assert_eq!(root(Some(""), &[]).write_home().unwrap_err().code, Code::ConfigInvalid);
        assert_eq!(root(Some("/h"), &[""]).directories().unwrap_err().code, Code::ConfigInvalid);
    }
}
