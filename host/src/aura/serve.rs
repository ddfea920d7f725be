//! `aura serve`: from the command line to a server that controllers can use, and to its end ("`aura serve`").

use std::ffi::OsString;
use std::io::{Read as _, Write as _};
use std::net::SocketAddr;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, ExitCode};
use std::sync::Arc;
use std::time::Duration;

use clap::Args;
use tokio::net::TcpListener;
use tokio::signal::unix::{SignalKind, signal};
use tokio::task::JoinHandle;

use super::open::{self, failed, invalid, runtime};
use super::output::{self, Form};
use super::root::Root;
use crate::automation::core::{self, Ended, Handle};
use crate::automation::error::{AutomationError, Code};
use crate::automation::event::StopReason;
use crate::automation::http::{self, Station};
use crate::automation::launcher::{Launcher, Lease, Watched};
use crate::automation::ready::{API, ReadyFile, Whereabouts};
use crate::automation::token::{self, Token};
use crate::clock;

/// The variable that holds the token.
const TOKEN: &str = "AURA_SERVE_TOKEN";
/// The flag with which the program starts itself anew, without the token in its environment.
const ON_STDIN: &str = "--token-on-stdin";
/// How long clients that read may take once the last event is told.
const LINGER: Duration = Duration::from_secs(2);

/// Serve one session to controllers over HTTP on this machine
#[derive(Debug, Args)]
#[command(after_help = "The token is read from AURA_SERVE_TOKEN (at least 32 characters).")]
pub(super) struct Serve {
    /// Where to listen: an address of this machine alone; port 0 for any that is free
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1:0")]
    bind: String,
    /// The file that tells when the server is ready, and where, or why it is not
    #[arg(long, value_name = "FILE")]
    ready_file: PathBuf,
    /// The read end of a pipe of the launcher: a byte releases the server, the end of the pipe before that ends it
    #[arg(long, value_name = "N", allow_negative_numbers = true)]
    launcher_fd: Option<i32>,
    #[arg(long = "token-on-stdin", hide = true)]
    token_on_stdin: bool,
}

/// What is up once a server has started.
struct Started {
    handle: Handle,
    core: JoinHandle<Ended>,
    door: JoinHandle<()>,
    url: String,
}

impl Serve {
    pub(super) fn run(self, root: &Root) -> ExitCode {
        let ready = match ReadyFile::claim(&self.ready_file) {
            Ok(ready) => ready,
            Err(error) => {
                let message = format!("{}: {error}", self.ready_file.display());
                return output::failed(&AutomationError::new(Code::StartupFailed, message), Form::Text);
            }
        };
        match self.token().and_then(|token| runtime().map(|runtime| (token, runtime))) {
            Ok((token, runtime)) => {
                let code = runtime.block_on(self.serve(root.clone(), token, &ready));
                // What still reads a disk that hangs must not keep the process.
                runtime.shutdown_background();
                code
            }
            Err(error) => refused(&ready, &error),
        }
    }

    /// The token. A process that has it in its environment becomes one that has not: what its children inherit, and what others can read of a process, is
    /// as it was at the start of the program.
    fn token(&self) -> Result<Token, AutomationError> {
        if self.token_on_stdin {
            let mut text = String::new();
            let read =
                std::io::stdin().lock().take(token::CHARACTERS_MOST as u64 + 1).read_to_string(&mut text);
            read.map_err(|error| failed(format!("the token could not be handed over: {error}")))?;
            return Token::of(Some(&text));
        }
        let text = std::env::var_os(TOKEN).map(|text| text.into_string().unwrap_or_else(lossy));
        let text = text.as_deref();
        Token::of(text)?;
        let handed = || -> std::io::Result<std::io::Error> {
            let (reader, mut writer) = std::io::pipe()?;
            // A pipe holds more than the longest token, so that this does not wait for a reader.
            writer.write_all(text.unwrap_or_default().as_bytes())?;
            drop(writer);
            let mut ourselves = Command::new(std::env::current_exe()?);
            ourselves.args(std::env::args_os().skip(1)).arg(ON_STDIN).env_remove(TOKEN).stdin(reader);
            Ok(ourselves.exec())
        };
        let (Ok(error) | Err(error)) = handed();
        Err(failed(format!("the program could not start itself anew without its token: {error}")))
    }

    /// Starts, serves, ends.
    async fn serve(self, root: Root, token: Token, ready: &ReadyFile) -> ExitCode {
        let (mut ends, mut lease) = match (Signals::new(), self.lease()) {
            (Ok(ends), Ok(lease)) => (ends, lease),
            (Err(error), _) | (_, Err(error)) => return refused(ready, &error),
        };
        let bind = self.bind;
        let started = tokio::select! {
            started = start(&bind, &root, token) => started,
            () = lost(&mut lease) => {
                let message = "the launcher was gone before it released the server";
                Err(AutomationError::new(Code::LauncherLost, message))
            }
            () = ends.next() => Err(failed("the server was told to end while it started".to_owned())),
        };
        let told = started
            .and_then(|(started, whereabouts)| ready.ready(&whereabouts).map(|()| started).map_err(failed));
        let Started { handle, mut core, door, url } = match told {
            Ok(started) => started,
            Err(error) => return refused(ready, &error),
        };
        // Only for people who start it by hand.
        let _ = writeln!(std::io::stderr().lock(), "aura: serving on {url}");
        let ended = loop {
            tokio::select! {
                ended = &mut core => break ended,
                () = lost(&mut lease) => {
                    lease = None;
                    handle.stop(StopReason::LauncherLost).await;
                }
                () = ends.next() => handle.stop(StopReason::Signal).await,
            }
        };
        // Whoever reads gets the last event; whoever does not read does not keep us.
        let _ = tokio::time::timeout(LINGER, door).await;
        let trouble = match ended {
            Ok(Ended::Saved) => return ExitCode::SUCCESS,
            Ok(Ended::NotSaved(why)) => AutomationError::new(Code::PersistFailed, why),
            Ok(Ended::Broken(why)) => AutomationError::new(Code::Internal, why),
            Err(died) => AutomationError::new(Code::Internal, format!("the server died: {died}")),
        };
        output::failed(&trouble, Form::Text)
    }

    fn lease(&self) -> Result<Option<Watched>, AutomationError> {
        self.launcher_fd.map(|descriptor| Lease::take(descriptor)?.watch()).transpose()
    }
}

/// Everything up to the first event, in the order of settled point 25.
async fn start(bind: &str, root: &Root, token: Token) -> Result<(Started, Whereabouts), AutomationError> {
    let address = loopback(bind)?;
    let session = open::session(root).await?;
    let parts = session.parts(root).await?;
    let listener = TcpListener::bind(address).await.map_err(|error| failed(format!("{address}: {error}")))?;
    let url = match listener.local_addr() {
        Ok(address) => format!("http://{address}"),
        Err(error) => return Err(failed(error.to_string())),
    };
    let (handle, core) = core::start(parts);
    handle.first().await.map_err(|error| failed(error.to_string()))?;
    let whereabouts = Whereabouts {
        api: API,
        url: url.clone(),
        pid: std::process::id(),
        session_id: session.live.id().to_string(),
        aura_version: env!("CARGO_PKG_VERSION").to_owned(),
        commit: option_env!("AURA_COMMIT").unwrap_or("unknown").to_owned(),
        workdir: session.working_directory.to_string_lossy().into_owned(),
        write_home: session.write_home.to_string_lossy().into_owned(),
    };
    let station = Station {
        handle: handle.clone(),
        token,
        store: session.store,
        session: session.live.id().clone(),
        whereabouts: whereabouts.clone(),
        started_at: clock::now(),
    };
    let is_done = handle.clone();
    let door = tokio::spawn(async move {
        http::serve(listener, http::router(Arc::new(station)), async move { is_done.done().await }).await;
    });
    Ok((Started { handle, core, door, url }, whereabouts))
}

/// An address that only this machine reaches.
fn loopback(bind: &str) -> Result<SocketAddr, AutomationError> {
    match bind.parse::<SocketAddr>() {
        Ok(address) if address.ip().is_loopback() => Ok(address),
        Ok(_) | Err(_) => {
            let bind = crate::text::one_line(bind, 80);
            Err(invalid(format!("--bind {bind}: it must be a loopback address with a port, as 127.0.0.1:0")))
        }
    }
}

/// The signals that end a server.
struct Signals {
    interrupt: tokio::signal::unix::Signal,
    terminate: tokio::signal::unix::Signal,
}

impl Signals {
    fn new() -> Result<Self, AutomationError> {
        let listen = |kind| signal(kind).map_err(|error| failed(error.to_string()));
        Ok(Self { interrupt: listen(SignalKind::interrupt())?, terminate: listen(SignalKind::terminate())? })
    }

    async fn next(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Returns once the launcher is lost; never where there is none or it has released us.
async fn lost(lease: &mut Option<Watched>) {
    if let Some(watched) = lease
        && watched.decided().await == Launcher::Lost
    {
        return;
    }
    *lease = None;
    std::future::pending().await
}

/// There is no server: the launcher reads it in the ready file, a person on standard error.
fn refused(ready: &ReadyFile, error: &AutomationError) -> ExitCode {
    if let Err(unwritable) = ready.failed(error) {
        let message = format!("{}; and the ready file cannot be written: {unwritable}", error.message);
        return output::failed(&AutomationError::new(error.code, message), Form::Text);
    }
    output::failed(error, Form::Text)
}

fn lossy(text: OsString) -> String {
    text.to_string_lossy().into_owned()
}
