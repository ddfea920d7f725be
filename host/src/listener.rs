//! The listener: one process a machine that admits devices, knows the sessions, carries links between them, and serves the page (wire §1, §9).

use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde::{Deserialize, Serialize};
use shared::channel::StaticKey;
use shared::fingerprint::Fingerprint;
use tokio::sync::{oneshot, watch};
use tokio::task::JoinSet;
use tokio::time::{Duration, timeout};

use crate::config::Config;
use crate::files::{self, FilesError, Liveness, Lock};
use crate::home::Home;
use crate::identity::{self, Audit, KeyError, Peers, PeersError, RetiredError};
use crate::log::LogError;

mod admission;
mod assets;
mod authority;
mod bind;
mod devices;
mod http;
mod links;
mod pace;
mod presence;
mod sessions;
mod strangers;
mod traffic;
mod wire;

pub use bind::{BindError, Holder};
pub use sessions::unreadable;

use authority::Authorities;
use bind::Door;
use devices::Devices;
use sessions::{Sessions, Terms};
use strangers::Strangers;
use traffic::Steady;

/// More than the file that says where the listener is, in bytes.
const WHERE_BYTES: u64 = 64 * 1024;

/// How long the open links may take to end with the listener.
const GOODBYE: Duration = Duration::from_secs(2);

/// What the caller of the listener decides.
#[derive(Debug, Clone)]
pub struct Options {
    /// The words of the harnesses that there are; a `start` of another one is refused.
    pub harnesses: Vec<String>,
    /// The program that has the `host` command; this one where none is given.
    pub host_program: Option<PathBuf>,
}

/// Why the listener cannot run.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// Another one runs.
    #[error("a listener runs already: process {}; stop it first, or use it", holder.map_or_else(|| "unknown".to_owned(), |pid| pid.to_string()))]
    Running {
        /// Its pid, where it is known.
        holder: Option<u32>,
    },
    /// A private file cannot be used.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// The machine's key.
    #[error(transparent)]
    Key(#[from] KeyError),
    /// The list of devices.
    #[error(transparent)]
    Peers(#[from] PeersError),
    /// The list of removed sessions.
    #[error(transparent)]
    Retired(#[from] RetiredError),
    /// The audit log.
    #[error(transparent)]
    Audit(#[from] LogError),
    /// The port.
    #[error(transparent)]
    Bind(#[from] BindError),
    /// The program's own path is not known.
    #[error("the path of this program is not known, so no session host can be started: {0}")]
    Program(std::io::Error),
}

/// Where the running listener is, as `rc/listener.json` says.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Whereabouts {
    /// The port on the loopback addresses.
    pub port: u16,
    /// The process.
    pub pid: u32,
    /// The version of the program.
    pub version: String,
}

impl Whereabouts {
    /// What the file of a home says; `None` where there is none. Whether that listener still lives, its lock says.
    ///
    /// # Errors
    /// [`FilesError`] where the file cannot be read.
    pub fn read(home: &Home) -> Result<Option<Self>, FilesError> {
        let content = files::read_private(&whereabouts_path(home), WHERE_BYTES)?;
        Ok(content.and_then(|content| serde_json::from_slice(&content).ok()))
    }

    /// Its version as one line, where it is another one than this program's: an update does not restart a listener that runs.
    #[must_use]
    pub fn other_version(&self) -> Option<String> {
        (self.version != env!("CARGO_PKG_VERSION")).then(|| crate::text::one_line(&self.version, 40))
    }
}

fn whereabouts_path(home: &Home) -> PathBuf {
    home.rc().join("listener.json")
}

/// What every link of the listener needs.
struct Station {
    key: StaticKey,
    port: u16,
    version: String,
    clock: Steady,
    authorities: Authorities,
    devices: Arc<Devices>,
    sessions: Arc<Sessions>,
    strangers: Mutex<Strangers<oneshot::Sender<()>>>,
    shutdown: watch::Receiver<bool>,
}

impl Station {
    fn fingerprint(&self) -> Fingerprint {
        self.key.fingerprint()
    }

    fn strangers(&self) -> MutexGuard<'_, Strangers<oneshot::Sender<()>>> {
        self.strangers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A listener that runs in this process. Dropping it ends it; session hosts live on.
pub struct Listener {
    port: u16,
    fingerprint: Fingerprint,
    home: Home,
    sessions: Arc<Sessions>,
    shutdown: watch::Sender<bool>,
    tasks: JoinSet<()>,
    _lock: Lock,
}

impl Listener {
    /// Starts the one listener of the machine.
    ///
    /// # Errors
    /// [`ListenError`]: another one runs, the port is taken, or a private file cannot be used.
    pub async fn start(home: Home, config: Config, options: Options) -> Result<Self, ListenError> {
        let lock = Lock::take(&home.listener_lock()).map_err(|error| match error {
            FilesError::Held { holder, .. } => ListenError::Running { holder },
            FilesError::Exposed { .. }
            | FilesError::Foreign { .. }
            | FilesError::WrongKind { .. }
            | FilesError::TooLarge { .. }
            | FilesError::SocketPath { .. }
            | FilesError::System { .. } => ListenError::Files(error),
        })?;
        let program = match options.host_program {
            Some(program) => program,
            None => std::env::current_exe().map_err(ListenError::Program)?,
        };
        let key = identity::machine_key(&home)?;
        let peers = Peers::read(&home.peers())?;
        let audit = Audit::open(&home.audit())?;
        let devices = Devices::new(&key, peers, audit);
        let (port, doors) = bind::bind_port(config.port).await?;
        let terms = Terms { program, harnesses: options.harnesses, config };
        let loading = (home.clone(), terms);
        let sessions = tokio::task::spawn_blocking(move || Sessions::load(&loading.0, loading.1)).await;
        let sessions = sessions.map_err(|error| ListenError::Program(std::io::Error::other(error)))??;
        let socket = bind::bind_socket(&home.listener_socket())?;
        let whereabouts =
            Whereabouts { port, pid: std::process::id(), version: env!("CARGO_PKG_VERSION").to_owned() };
        let (shutdown, ends) = watch::channel(false);
        let clock = Steady::new();
        let station = Arc::new(Station {
            port,
            version: whereabouts.version.clone(),
            clock,
            authorities: Authorities::loopback(port),
            devices,
            sessions: Arc::clone(&sessions),
            strangers: Mutex::default(),
            shutdown: ends,
            key,
        });
        let fingerprint = station.fingerprint();
        // Before anybody is answered: whoever reaches the socket may ask next where the port is.
        let content = serde_json::to_vec(&whereabouts).unwrap_or_default();
        files::write_private(&whereabouts_path(&home), &content)?;
        let mut tasks = JoinSet::new();
        tasks.spawn(Arc::clone(&sessions).tend());
        let service = http::router(station).into_make_service_with_connect_info::<bind::Arrival>();
        for door in doors {
            let serving = axum::serve(Door::new(door, clock), service.clone());
            // It ends with its task only: a failed accept is tried again.
            tasks.spawn(async move { drop(serving.await) });
        }
        let serving = axum::serve(Door::new(socket, clock), service);
        tasks.spawn(async move { drop(serving.await) });
        tracing::info!(port, %fingerprint, "the listener is ready");
        Ok(Self { port, fingerprint, home, sessions, shutdown, tasks, _lock: lock })
    }

    /// The port on the loopback addresses.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The fingerprint of the machine.
    #[must_use]
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// Ends the listener in order: no new links, the open ones close, its socket and file go. Session hosts live on.
    pub async fn stop(mut self) {
        self.sessions.end();
        self.shutdown.send_replace(true);
        self.tasks.shutdown().await;
        // Every link holds a receiver; one that does not end in time ends with the process.
        let _ = timeout(GOODBYE, self.shutdown.closed()).await;
        for path in [self.home.listener_socket(), whereabouts_path(&self.home)] {
            // A file that cannot be removed is replaced by the next listener.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// The process of the listener of a home, if one runs.
///
/// # Errors
/// [`FilesError`] where its lock cannot be looked at.
pub fn running(home: &Home) -> Result<Option<Whereabouts>, FilesError> {
    match files::held(&home.listener_lock())? {
        // A listener that starts has the lock before it has written where it is; the file may still be its predecessor's.
        Liveness::Live { holder } => {
            Ok(Whereabouts::read(home)?.filter(|whereabouts| Some(whereabouts.pid) == holder))
        }
        Liveness::Gone => Ok(None),
    }
}

/// Whether this build has the page for browsers.
#[must_use]
pub fn has_page() -> bool {
    assets::has_page()
}
