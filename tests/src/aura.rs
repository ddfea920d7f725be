//! A write home of `aura` for one test, and the real program run on it.

use std::ffi::OsStr;
use std::fs;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::programs;

/// A write home below a temporary folder.
pub struct AuraHome {
    folder: TempDir,
}

impl Default for AuraHome {
    fn default() -> Self {
        Self::new()
    }
}

impl AuraHome {
    /// A new one, without a store yet.
    pub fn new() -> Self {
        Self { folder: tempfile::Builder::new().prefix("aura 🦀 ").tempdir().expect("a temporary folder") }
    }

    /// The temporary folder: also a place for files beside the store.
    pub fn path(&self) -> &Path {
        self.folder.path()
    }

    /// The write home.
    pub fn root(&self) -> PathBuf {
        self.path().join("home")
    }

    /// The store.
    pub fn store(&self) -> PathBuf {
        self.root().join("sessions")
    }

    /// The file of a session.
    pub fn file(&self, id: &str) -> PathBuf {
        self.store().join(format!("{id}.json"))
    }

    /// `aura` with its home, to which arguments are added.
    pub fn command(&self) -> Command {
        let mut command = Command::new(programs::aura());
        command.arg("--home").arg(self.root()).current_dir(self.path()).stdin(Stdio::null());
        command
    }

    /// `aura session ARGUMENTS --json`, to its end.
    pub fn session<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Output {
        self.command().arg("session").args(arguments).arg("--json").output().expect("aura runs")
    }

    /// The same, begun.
    pub fn begun<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Child {
        let mut command = self.command();
        command.arg("session").args(arguments).arg("--json").stdout(Stdio::piped()).stderr(Stdio::piped());
        command.spawn().expect("aura runs")
    }

    /// The one object that it answers.
    pub fn ok<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> Value {
        answer(&self.session(arguments))
    }

    /// The code with which it fails.
    pub fn code<I: AsRef<OsStr>>(&self, arguments: impl IntoIterator<Item = I>) -> String {
        code(&self.session(arguments))
    }

    /// Stores a session with this content by importing it; gives its summary.
    pub fn stored(&self, id: &str, content: &Value) -> Value {
        let source = self.path().join(format!("{id}.source"));
        fs::write(&source, content.to_string()).expect("a source");
        let source = source.to_str().expect("UTF-8");
        self.ok(["import", source, "--id", id])["session"].clone()
    }
}

/// The one object on standard output of a run that did what it was asked.
pub fn answer(output: &Output) -> Value {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{:?} {stderr}", output.status);
    assert_eq!(stderr, "", "nothing but the answer");
    one_line(&output.stdout)
}

/// The code of the one error object on standard error of a run that failed.
pub fn code(output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "signal {:?}: {stderr}", output.status.signal());
    assert_eq!(output.stdout, b"", "nothing but the error");
    let said = one_line(&output.stderr);
    let error = &said["error"];
    assert_eq!(said, json!({ "error": error }));
    let keys: Vec<&String> = error.as_object().expect("an object").keys().collect();
    assert_eq!(keys, ["code", "details", "message", "retryable"]);
    assert_eq!((&error["retryable"], &error["details"]), (&json!(false), &json!({})));
    assert_ne!(error["message"], "");
    error["code"].as_str().expect("a code").to_owned()
}

fn one_line(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    assert_eq!(text.matches('\n').count(), 1, "one line: {text}");
    serde_json::from_str(text).expect("one JSON object")
}

/// A conversation with each kind of message, as `export` writes it.
pub fn conversation() -> Value {
    json!({
        "title": "a title",
        "metadata": {"task": "t-1"},
        "todos": [{"text": "look", "state": "done"}],
        "messages": [
            {"role": "system", "message_id": "m0", "content": "be kind"},
            {"role": "user", "message_id": "m1", "content": "go"},
            {"role": "assistant", "message_id": "m2", "content": "",
             "tool_calls": [{"call_id": "c1", "name": "bash", "args": {"command": "ls"}}]},
            {"role": "tool", "message_id": "m3", "call_id": "c1", "name": "bash", "status": "ok", "content": "a"},
            {"role": "assistant", "message_id": "m4", "content": "done"}
        ]
    })
}
