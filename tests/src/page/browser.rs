//! The browser's processes: Chromium without a window, with a profile of its own, gone when nobody holds it.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::process::{ChildStdin, ChildStdout};

use super::cdp::Cdp;
use crate::programs;

/// What Chromium is started with; measured to need no other service of the machine, nor a network.
const FLAGS: [&str; 21] = [
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--no-default-browser-check",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-default-apps",
    "--disable-extensions",
    "--disable-sync",
    "--disable-breakpad",
    "--disable-background-timer-throttling",
    "--disable-backgrounding-occluded-windows",
    "--disable-renderer-backgrounding",
    "--disable-features=Translate,MediaRouter,OptimizationHints",
    "--password-store=basic",
    "--mute-audio",
    "--lang=en-GB",
    "--remote-debugging-pipe",
];

/// A running browser.
pub(super) struct Browser {
    pub(super) cdp: Cdp,
    process: Child,
    /// Profile, home and temporary files.
    folder: Arc<TempDir>,
    /// What this browser was started with beyond [`FLAGS`].
    flags: Vec<String>,
}

impl Browser {
    /// A browser with a new profile.
    pub(super) fn start(flags: Vec<String>) -> Self {
        let folder = tempfile::Builder::new().prefix("aude-browser-").tempdir().expect("a temporary folder");
        Self::with_folder(Arc::new(folder), flags)
    }

    /// A browser with the profile in that folder, whose last browser must be gone.
    pub(super) fn with_folder(folder: Arc<TempDir>, flags: Vec<String>) -> Self {
        let path = folder.path();
        fs::create_dir_all(path.join("tmp")).expect("a folder for temporary files");
        let errors = fs::File::create(path.join("stderr")).expect("a file for what the browser says");
        // The protocol's pipes are the descriptors 3 and 4. When this process dies in any way, they close and the browser ends.
        let mut process = Command::new("/bin/sh")
            .args(["-c", "exec \"$0\" \"$@\" 3<&0 4>&1 </dev/null >/dev/null"])
            .arg(programs::chromium())
            .args(FLAGS)
            .args(&flags)
            .arg(format!("--user-data-dir={}", profile(path).display()))
            .arg("about:blank")
            .env("HOME", path)
            .env("TMPDIR", path.join("tmp"))
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_CACHE_HOME")
            .env_remove("DBUS_SESSION_BUS_ADDRESS")
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(errors)
            .spawn()
            .expect("the browser starts");
        let input = process.stdin.take().and_then(|pipe| ChildStdin::from_std(pipe).ok());
        let output = process.stdout.take().and_then(|pipe| ChildStdout::from_std(pipe).ok());
        let cdp = Cdp::over(input.expect("a pipe to the browser"), output.expect("a pipe from the browser"));
        Self { cdp, process, folder, flags }
    }

    /// The folder, for a browser that comes after this one.
    pub(super) fn folder(&self) -> Arc<TempDir> {
        Arc::clone(&self.folder)
    }

    /// The flags, for a browser that comes after this one.
    pub(super) fn flags(&self) -> Vec<String> {
        self.flags.clone()
    }

    /// The folder of the profile.
    pub(super) fn profile(&self) -> PathBuf {
        profile(self.folder.path())
    }

    /// Runs a command of the browser itself.
    ///
    /// # Panics
    /// When it fails; the message tells what the browser said.
    pub(super) async fn command(&self, method: &str, parameters: Value) -> Value {
        match self.cdp.command(None, method, parameters).await {
            Ok(answer) => answer,
            Err(error) => {
                let said = fs::read_to_string(self.folder.path().join("stderr")).unwrap_or_default();
                panic!("the browser did not do {method}: {error:?}\n{said}");
            }
        }
    }

    /// Ends the browser as a person does, so that it writes its profile; then waits until it is gone.
    pub(super) async fn close(mut self) {
        self.command("Browser.close", json!({})).await;
        let process = &mut self.process;
        crate::wait::until("the browser's end", || {
            let end = process.try_wait();
            async move { end.expect("our own child") }
        })
        .await;
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        if let Ok(group) = i32::try_from(self.process.id()).map(Pid::from_raw) {
            let _ = killpg(group, Signal::SIGKILL);
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        kill_processes_of(self.folder.path());
    }
}

fn profile(folder: &Path) -> PathBuf {
    folder.join("profile")
}

/// Ends what has left the browser's process group: its name for the profile gives it away.
fn kill_processes_of(folder: &Path) {
    let marker = folder.display().to_string();
    for process in fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<i32>().ok()) else {
            continue;
        };
        let command = fs::read(process.path().join("cmdline")).unwrap_or_default();
        if String::from_utf8_lossy(&command).contains(&marker) {
            let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}
