//! Several files as one: each is checked by itself, so that a mistake is named with its file, then later ones win key by key.

use std::io::Read as _;
use std::path::{Path, PathBuf};

use toml::{Table, Value};

use super::form::Form;

/// The name of the file in a directory of settings.
const FILE: &str = "config.toml";
/// More than a person writes by hand, in bytes.
const CONFIG_BYTES: u64 = 1024 * 1024;
/// Keys whose value is a path, or a list of paths, from the directory of their file.
const PATHS: [(&str, &str); 1] = [("provider", "script")];
/// Keys of `[sandbox]` whose value is a list of paths.
const SANDBOX_PATHS: [&str; 2] = ["read", "write"];

/// A configuration that cannot be used; the sentence names the file where one is to blame.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ConfigError(pub(super) String);

impl Form {
    /// All files as one, and which there are.
    pub(super) fn merged(directories: &[PathBuf]) -> Result<(Self, Vec<PathBuf>), ConfigError> {
        let mut all = Table::new();
        let mut files = Vec::new();
        for directory in directories {
            let path = directory.join(FILE);
            let wrong = |detail: String| ConfigError(format!("{}: {detail}", path.display()));
            let Some(text) = read(&path)? else { continue };
            let mut table: Table = toml::from_str(&text).map_err(|error| wrong(sentence(&text, &error)))?;
            toml::from_str::<Self>(&text).map_err(|error| wrong(sentence(&text, &error)))?;
            resolve(&mut table, directory);
            merge(&mut all, table);
            files.push(path);
        }
        let together =
            all.try_into().map_err(|error: toml::de::Error| ConfigError(error.message().to_owned()))?;
        Ok((together, files))
    }
}

/// What is wrong and where, without the line itself: somebody may have written a key into it.
fn sentence(text: &str, error: &toml::de::Error) -> String {
    let before = error.span().and_then(|span| text.get(..span.start));
    match before {
        Some(before) => format!("line {}: {}", before.matches('\n').count() + 1, error.message()),
        None => error.message().to_owned(),
    }
}

fn read(path: &Path) -> Result<Option<String>, ConfigError> {
    let wrong = |detail: String| ConfigError(format!("{}: {detail}", path.display()));
    let file = match std::fs::File::open(path) {
        Ok(file) => file,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(wrong(error.to_string())),
    };
    let mut text = String::new();
    file.take(CONFIG_BYTES + 1).read_to_string(&mut text).map_err(|error| wrong(error.to_string()))?;
    if u64::try_from(text.len()).is_ok_and(|length| length > CONFIG_BYTES) {
        return Err(wrong(format!("it is larger than {CONFIG_BYTES} bytes")));
    }
    Ok(Some(text))
}

/// Makes the paths of a file absolute, as long as it is known whose they are.
fn resolve(table: &mut Table, directory: &Path) {
    let absolute = |value: &mut Value| {
        let one = |value: &mut Value| {
            if let Value::String(path) = value {
                *path = directory.join(&*path).to_string_lossy().into_owned();
            }
        };
        match value {
            Value::Array(values) => values.iter_mut().for_each(one),
            Value::String(_) => one(value),
            Value::Integer(_)
            | Value::Float(_)
            | Value::Boolean(_)
            | Value::Datetime(_)
            | Value::Table(_) => {}
        }
    };
    for (section, key) in PATHS {
        let named = table.get_mut(section).and_then(Value::as_table_mut);
        for (_, named) in named.into_iter().flatten() {
            named.get_mut(key).map(absolute);
        }
    }
    if let Some(sandbox) = table.get_mut("sandbox").and_then(Value::as_table_mut) {
        for key in SANDBOX_PATHS {
            sandbox.get_mut(key).map(absolute);
        }
    }
}

/// Puts `later` over `all`: tables key by key, everything else whole.
fn merge(all: &mut Table, later: Table) {
    for (key, value) in later {
        match (all.get_mut(&key), value) {
            (Some(Value::Table(before)), Value::Table(after)) => merge(before, after),
            (_, value) => {
                all.insert(key, value);
            }
        }
    }
}
