//! Host processes: started, waited for, reaped; their sessions reconciled when they die.

use std::fs::OpenOptions;
use std::os::unix::fs::OpenOptionsExt as _;
use std::process::{ExitStatus, Stdio};
use std::sync::Arc;

use shared::kind::Empty;
use shared::request::Request;
use tokio::process::{Child, Command};
use tokio::time::{Duration, sleep};

use super::start::tell;
use super::{Purpose, Session, Sessions, Slot};
use crate::log::{self, Liveness, LogError};

/// The first pause between two looks at whether an awaited host still lives; it doubles up to [`LAST_LOOK`].
const FIRST_LOOK: Duration = Duration::from_millis(20);
const LAST_LOOK: Duration = Duration::from_secs(1);
/// Hosts that reconcile and start at one time: after a crash of the machine every session may need one.
pub(super) const RECONCILING: usize = 4;
/// How long a host that starts holds up the next one that reconciles.
const START_WITHIN: Duration = Duration::from_secs(10);

impl Sessions {
    /// Makes sure that a host lives or is being started.
    pub(crate) fn want_host(self: &Arc<Self>, session: &Arc<Session>) {
        let (slot, generation) = session.slot();
        match slot {
            Slot::Empty => self.spawn(session, generation, Purpose::Serve),
            // When the one that reconciles ends and somebody waits, another one is started.
            Slot::Spawned(_) | Slot::Awaited | Slot::Attached { .. } => {}
        }
    }

    /// After the listener's own start: awaits the host that lives, or reconciles.
    pub(super) async fn settle_at_start(self: &Arc<Self>, session: Arc<Session>) {
        let (slot, generation) = session.slot();
        match slot {
            Slot::Awaited => self.watch(session, generation),
            Slot::Empty => self.reconcile(&session, generation),
            Slot::Spawned(_) | Slot::Attached { .. } => {}
        }
    }

    /// The host's link closed: it lives on and comes back, or it is gone.
    pub(crate) fn host_detached(self: &Arc<Self>, session: Arc<Session>, place: u64) {
        if let Some(generation) = session.detach_host(place) {
            self.watch(session, generation);
        }
    }

    /// Looks until the awaited host has come back or is gone.
    fn watch(self: &Arc<Self>, session: Arc<Session>, generation: u64) {
        let sessions = Arc::clone(self);
        tokio::spawn(async move {
            let mut pause = FIRST_LOOK;
            while session.slot() == (Slot::Awaited, generation) && !sessions.has_ended() {
                match blocking(&session, |session| log::locked(&session.paths.log())).await {
                    Ok(Liveness::Live { .. }) => {}
                    Ok(Liveness::Gone) => {
                        sessions.host_gone(&session, generation, &Gone::Unseen).await;
                        return;
                    }
                    Err(error) => {
                        tracing::error!(session = %session.id, %error, "cannot tell whether its host lives")
                    }
                }
                sleep(pause).await;
                pause = (pause * 2).min(LAST_LOOK);
            }
        });
    }

    fn spawn(self: &Arc<Self>, session: &Arc<Session>, generation: u64, purpose: Purpose) {
        if self.has_ended() {
            return;
        }
        let Some(generation) = session.move_slot(generation, Slot::Spawned(purpose)) else { return };
        let (sessions, session) = (Arc::clone(self), Arc::clone(session));
        tokio::spawn(async move {
            let permit = match purpose {
                Purpose::Reconcile => sessions.reconciling.clone().acquire_owned().await.ok(),
                Purpose::Serve => None,
            };
            if let Some(permit) = permit {
                let starting = Arc::clone(&session);
                tokio::spawn(async move {
                    starting.until_started(purpose, generation, START_WITHIN).await;
                    drop(permit);
                });
            }
            if sessions.has_ended() {
                return;
            }
            let gone = match sessions.command(&session, purpose).and_then(|mut command| command.spawn()) {
                Ok(child) => wait(child).await,
                Err(error) => {
                    tracing::error!(session = %session.id, %error, "the session host could not be started");
                    Gone::NotStarted(error.to_string())
                }
            };
            sessions.process_gone(&session, generation, purpose, gone).await;
        });
    }

    fn command(&self, session: &Session, purpose: Purpose) -> std::io::Result<Command> {
        let mut command = Command::new(&self.terms.program);
        command.arg("host").arg("--session").arg(session.id.to_string());
        if purpose == Purpose::Reconcile {
            command.arg("--reconcile");
        }
        // A host says there why it ended; only the last run is kept.
        let diagnostics = OpenOptions::new()
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(session.diagnostics())?;
        command
            .env("AUDE_HOME", self.home.root())
            .current_dir(session.paths.directory())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(diagnostics)
            .process_group(0)
            .kill_on_drop(false);
        Ok(command)
    }

    /// A process that we started has ended.
    async fn process_gone(
        self: &Arc<Self>,
        session: &Arc<Session>,
        generation: u64,
        purpose: Purpose,
        gone: Gone,
    ) {
        tracing::info!(session = %session.id, ?purpose, ?gone, "a session host ended");
        // When it had opened its link, the end of the link, or the look for its lock, is what counts.
        if session.slot() != (Slot::Spawned(purpose), generation) {
            return;
        }
        match blocking(session, |session| log::locked(&session.paths.log())).await {
            // Another host has the log: one that a listener before us started.
            Ok(Liveness::Live { .. }) => {
                if let Some(generation) = session.move_slot(generation, Slot::Awaited) {
                    self.watch(Arc::clone(session), generation);
                }
            }
            Ok(Liveness::Gone) | Err(_) => self.host_gone(session, generation, &gone).await,
        }
    }

    /// No host lives any more: reads what it left, and does what follows.
    async fn host_gone(self: &Arc<Self>, session: &Arc<Session>, generation: u64, gone: &Gone) {
        if let Err(error) = blocking(session, |session| session.catch_up()).await {
            tracing::error!(session = %session.id, %error, "the log cannot be read any further");
        }
        let (slot, _) = session.slot();
        let Some(generation) = session.move_slot(generation, Slot::Empty) else { return };
        // Whoever waited for one that served has waited for nothing; after any other one, a new one is due.
        let has_failed = match (slot, gone) {
            (Slot::Spawned(Purpose::Serve), _) | (_, Gone::NotStarted(_)) => true,
            (Slot::Spawned(Purpose::Reconcile) | Slot::Awaited | Slot::Attached { .. } | Slot::Empty, _) => {
                false
            }
        };
        if has_failed {
            session.fail_waiting(&format!("the session host {gone}; `aude doctor` says what is missing"));
        } else if session.is_wanted() {
            self.spawn(session, generation, Purpose::Serve);
            return;
        }
        if !matches!(gone, Gone::NotStarted(_)) {
            self.reconcile(session, generation);
        }
    }

    /// Starts a host where the log claims what no longer lives.
    fn reconcile(self: &Arc<Self>, session: &Arc<Session>, generation: u64) {
        if session.needs_reconciling() {
            tracing::info!(session = %session.id, "the last host of this session died: a new one says what became of its turns");
            self.spawn(session, generation, Purpose::Reconcile);
        }
    }
}

/// Puts `release` into the line for the host.
pub(super) fn tell_released(session: &Arc<Session>) {
    tell(session, Request::Release(Empty {}));
}

/// How a host went.
#[derive(Debug)]
enum Gone {
    /// It could not be started.
    NotStarted(String),
    /// It ended.
    Ended(ExitStatus),
    /// We are not its parent.
    Unseen,
}

impl std::fmt::Display for Gone {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NotStarted(reason) => write!(f, "could not be started ({reason})"),
            Self::Ended(status) => write!(f, "ended before it was ready ({status})"),
            Self::Unseen => f.write_str("ended"),
        }
    }
}

async fn wait(mut child: Child) -> Gone {
    child.wait().await.map_or_else(|error| Gone::NotStarted(error.to_string()), Gone::Ended)
}

/// Does what blocks for the disk on a thread for that.
pub(crate) async fn blocking<T: Send + 'static>(
    session: &Arc<Session>,
    work: impl FnOnce(&Session) -> Result<T, LogError> + Send + 'static,
) -> Result<T, LogError> {
    let session = Arc::clone(session);
    let path = session.paths.log();
    tokio::task::spawn_blocking(move || work(&session)).await.unwrap_or(Err(LogError::Changed { path }))
}
