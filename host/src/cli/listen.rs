//! `aude listen`, `aude host`, and the listener that other commands start in the background.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{Command, ExitCode, Stdio};
use std::time::Instant;

use clap::Args;
use shared::ids::SessionId;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Duration, sleep};

use super::connect::LISTENER_WITHIN;
use super::error::CliError;
use super::output;
use crate::config::Config;
use crate::home::Home;
use crate::listener::{Listener, Options};
use crate::{files, harness, session};

/// Arguments of `aude listen`.
#[derive(Debug, Args)]
pub(super) struct Listen {
    /// The port on 127.0.0.1; 0 picks a free one
    #[arg(long)]
    port: Option<u16>,
    /// Detach from the terminal
    #[arg(long, hide = true)]
    background: bool,
}

impl Listen {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let home = Home::from_environment()?;
        let mut config = Config::read(&home.configuration())?;
        config.port = self.port.unwrap_or(config.port);
        start_tracing();
        if self.background {
            // The terminal that started us may close; the listener stays.
            nix::unistd::setsid()
                .map_err(|error| CliError::failed(format!("cannot leave the terminal: {error}")))?;
        }
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .build()
            .map_err(|error| CliError::failed(format!("the listener could not start: {error}")))?;
        let options = Options {
            harnesses: harness::all(&config).iter().map(|harness| harness.name().to_owned()).collect(),
            host_program: None,
        };
        runtime.block_on(async {
            let ends = end_signal()?;
            let socket = home.listener_socket();
            let listener = Listener::start(home, config, options).await.map_err(|error| CliError::failed(error.to_string()))?;
            if !self.background {
                output::note(format!(
                    "listening on http://127.0.0.1:{} and on {}\nCtrl-C ends the listener; sessions go on without it.",
                    listener.port(),
                    socket.display()
                ));
            }
            ends.await;
            listener.stop().await;
            Ok::<(), CliError>(())
        })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// Arguments of `aude host`.
#[derive(Debug, Args)]
pub(super) struct Host {
    /// The session
    #[arg(long)]
    session: SessionId,
    /// Settle what a host that died left behind, and end when nothing is queued
    #[arg(long)]
    reconcile: bool,
}

impl Host {
    pub(super) fn run(self) -> Result<ExitCode, CliError> {
        let home = Home::from_environment()?;
        start_tracing();
        let purpose = if self.reconcile { session::Purpose::Reconcile } else { session::Purpose::Serve };
        Ok(session::host::run(&home, self.session, purpose))
    }
}

/// Ends with SIGTERM or SIGINT.
fn end_signal() -> Result<impl Future<Output = ()>, CliError> {
    let refused =
        |error: std::io::Error| CliError::failed(format!("the listener cannot wait for signals: {error}"));
    let mut terminate = signal(SignalKind::terminate()).map_err(refused)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(refused)?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}

/// Logs go to standard error; `AUDE_LOG` says how much.
fn start_tracing() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("AUDE_LOG")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    let subscriber =
        tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).with_ansi(false);
    // A second subscriber in one process would mean that somebody else set one up; theirs stays.
    let _ = subscriber.try_init();
}

/// What of the log of a listener that failed is shown, in bytes.
const LAST_WORDS: usize = 4096;

/// Starts a listener that stays, and waits until it answers.
pub(super) async fn start_in_background<F, A>(home: &Home, answers: A) -> Result<(), CliError>
where
    A: Fn() -> F,
    F: Future<Output = bool>,
{
    let path = home.rc().join("listener.log");
    files::private_directory(&home.rc())?;
    let log = OpenOptions::new()
        .create(true)
        .write(true)
        .truncate(true)
        .mode(0o600)
        .open(&path)
        .map_err(|error| CliError::io("write", &path, &error))?;
    let program = std::env::current_exe()
        .map_err(|error| CliError::failed(format!("cannot find this program: {error}")))?;
    let mut child = Command::new(&program)
        .args(["listen", "--background"])
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .map_err(|error| CliError::io("start", &program, &error))?;
    let began = Instant::now();
    loop {
        if answers().await {
            return Ok(());
        }
        if let Ok(Some(_)) = child.try_wait() {
            let log = std::fs::read(&path).unwrap_or_default();
            let end = log.get(log.len().saturating_sub(LAST_WORDS)..).unwrap_or(&log);
            return Err(last_words(&String::from_utf8_lossy(end)));
        }
        if began.elapsed() > LISTENER_WITHIN {
            return Err(CliError::failed("the listener was started but does not answer")
                .hint(format!("see {}", path.display())));
        }
        sleep(Duration::from_millis(30)).await;
    }
}

/// The error with which a listener ended, read back from how `output::error` prints one; its sentence may have several lines.
fn last_words(log: &str) -> CliError {
    let lines: Vec<&str> = log.lines().collect();
    let begin = lines.iter().rposition(|line| line.starts_with("aude: "));
    let Some(said) = begin.and_then(|begin| lines.get(begin..)) else {
        return CliError::failed(lines.last().copied().unwrap_or("the listener ended at once"));
    };
    let (said, hint) = match said.split_last() {
        Some((last, said)) if !said.is_empty() && last.starts_with(output::HINT) => (said, Some(*last)),
        Some(_) | None => (said, None),
    };
    let sentence = said.join("\n");
    let error = CliError::failed(sentence.strip_prefix("aude: ").unwrap_or(&sentence));
    match hint {
        Some(hint) => error.hint(hint.trim_start()),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_words_of_a_listener_are_shown_whole() {
        let error = last_words("12:00 INFO ready\naude: the port is taken\n      choose another\n");
        assert_eq!(
            (error.sentence.as_str(), error.hint.as_deref()),
            ("the port is taken", Some("choose another"))
        );
        let error =
            last_words("aude: config.toml is damaged: at line 1\n  |\n1 | port = \n  |        ^\nno value\n");
        assert_eq!(
            error.sentence,
            "config.toml is damaged: at line 1\n  |\n1 | port = \n  |        ^\nno value"
        );
        assert_eq!(error.hint, None);
        assert_eq!(last_words("first\npanicked\n").sentence, "panicked");
        assert_eq!(last_words("").sentence, "the listener ended at once");
    }
}
