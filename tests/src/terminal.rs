//! A person at a real terminal: a program on a pseudo-terminal of its own, the keys that are pressed and what stands on the screen.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::os::fd::OwnedFd;
use std::process::{Child, Command, ExitStatus};
use std::sync::{Arc, Mutex, PoisonError};

use nix::unistd::Pid;

use crate::wait;

/// What is remembered of a screen, in bytes.
const SCREEN: usize = 4 * 1024 * 1024;
/// What Ctrl-C sends.
pub const CTRL_C: &str = "\u{3}";
/// What Ctrl-D sends.
pub const CTRL_D: &str = "\u{4}";

/// A terminal in which one program runs; the program is killed when it is dropped.
pub struct Terminal {
    child: Child,
    keyboard: File,
    screen: Arc<Mutex<Vec<u8>>>,
}

impl Terminal {
    /// Starts a program, of which all three streams are the terminal.
    ///
    /// # Panics
    /// When there is no terminal or no such program.
    #[must_use]
    pub fn open(command: &Command) -> Self {
        let (pty, program_side) = pty_process::blocking::open().expect("a pseudo-terminal");
        pty.resize(pty_process::Size::new(50, 200)).expect("a size");
        let mut inside = pty_process::blocking::Command::new(command.get_program())
            .args(command.get_args())
            .env("TERM", "xterm-256color");
        if let Some(folder) = command.get_current_dir() {
            inside = inside.current_dir(folder);
        }
        for (name, value) in command.get_envs() {
            inside = match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        let child = inside.spawn(program_side).expect("the program starts");
        let keyboard = File::from(OwnedFd::from(pty));
        let screen = Arc::new(Mutex::new(Vec::new()));
        let mut output = keyboard.try_clone().expect("a second handle");
        let seen = Arc::clone(&screen);
        // Reading ends with an error once the last program has let go of the terminal.
        std::thread::spawn(move || {
            let mut buffer = [0; 4096];
            while let Ok(count @ 1..) = output.read(&mut buffer) {
                let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
                assert!(seen.len() + count <= SCREEN, "the program prints without end");
                seen.extend_from_slice(buffer.get(..count).unwrap_or_default());
            }
        });
        Self { child, keyboard, screen }
    }

    /// Presses keys.
    ///
    /// # Panics
    /// When the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal is there");
    }

    /// All that was printed so far, with what the terminal itself echoes.
    #[must_use]
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.screen.lock().unwrap_or_else(PoisonError::into_inner)).into_owned()
    }

    /// Waits until that stands on the screen.
    pub async fn shows(&self, text: &str) {
        self.shows_times(text, 1).await;
    }

    /// Waits until that stands on the screen so many times.
    ///
    /// # Panics
    /// When it does not; the message has the screen.
    pub async fn shows_times(&self, text: &str, times: usize) {
        let waiting =
            wait::until(text, || async { (self.screen().matches(text).count() >= times).then_some(()) });
        let limit = wait::LIMIT.saturating_sub(std::time::Duration::from_secs(1));
        let is_there = tokio::time::timeout(limit, waiting).await.is_ok();
        assert!(is_there, "{text:?} does not stand on the screen:\n{}", self.screen());
    }

    /// Waits until the program has ended.
    pub async fn ended(&mut self) -> ExitStatus {
        wait::until("the end of the program", || {
            let status = self.child.try_wait().expect("a child of ours");
            async move { status }
        })
        .await
    }

    /// The process.
    ///
    /// # Panics
    /// Never: Linux has no larger ids.
    #[must_use]
    pub fn pid(&self) -> Pid {
        Pid::from_raw(i32::try_from(self.child.id()).expect("a process id"))
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
