//! The real Claude Code as a person has it: a program of that name that knows the model server of a test, and how it is logged in.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::model_server::ModelServer;
use crate::programs;

/// A `claude` in `root` that asks `server`; `login` stands in the person's profile. Its home is `root/home`, which must be there.
///
/// # Panics
/// When it cannot be written, or Claude Code was not installed.
#[must_use]
pub fn claude(root: &Path, server: &ModelServer, login: &str) -> PathBuf {
    let script = format!(
        "unset ANTHROPIC_AUTH_TOKEN ANTHROPIC_API_KEY CLAUDE_CODE_OAUTH_TOKEN CLAUDE_CONFIG_DIR\n\
         export HOME='{home}' ANTHROPIC_BASE_URL={url} CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC=1 TMPDIR='{root}'\n\
         {login}\nexec '{claude}' \"$@\"\n",
        home = root.join("home").display(),
        url = server.url(),
        root = root.display(),
        claude = programs::claude().display(),
    );
    script_in(root, "claude", &script)
}

/// A shell script that can be executed. Another process writes it: a file that we hold open for writing while some test starts
/// a process cannot be executed ("text file busy").
///
/// # Panics
/// When it cannot be written.
#[must_use]
pub fn script_in(folder: &Path, name: &str, script: &str) -> PathBuf {
    let path = folder.join(name);
    let written = Command::new("sh")
        .args(["-c", "printf '#!/bin/sh\\n%s' \"$1\" > \"$2\" && chmod 755 \"$2\"", "sh", script])
        .arg(&path)
        .status()
        .expect("a shell");
    assert!(written.success(), "{} can be written", path.display());
    path
}
