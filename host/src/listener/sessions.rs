//! All sessions of the machine: found at start, started, continued, stopped, removed; their hosts spawned, awaited and reconciled (wire §7, §10).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shared::ids::SessionId;
use shared::record::Facts;
use tokio::sync::{Semaphore, watch};

use crate::config::Config;
use crate::files;
use crate::home::Home;
use crate::identity::{Retired, RetiredError};
use crate::log::{self, Liveness};

pub(crate) mod directories;
mod hosts;
pub(crate) mod lines;
mod merge;
mod naming;
mod remove;
mod rename;
mod running;
pub(crate) mod session;
mod start;
mod worktrees;

use naming::Naming;

pub(crate) use hosts::blocking;
pub(crate) use session::{Answer, Joined, Opening, Purpose, Session, Since, Slot};
use start::await_within;
pub(crate) use start::{Pending, Sender, Submitted, await_host, line_at, tell_revoked};

/// More than the facts of any session, in bytes: the texts in them are bounded by the wire.
const RECORD_BYTES: u64 = 1024 * 1024;
/// What stands before the id in the name of a folder that is being removed.
const REMOVED: &str = ".removed-";

/// How hosts are started and what may be.
#[derive(Debug, Clone)]
pub(crate) struct Terms {
    /// The program that has the `host` command.
    pub program: PathBuf,
    /// The words of the harnesses that there are.
    pub harnesses: Vec<String>,
    /// The configuration.
    pub config: Config,
}

/// All sessions.
pub(crate) struct Sessions {
    home: Home,
    terms: Terms,
    state: Mutex<State>,
    /// One `start`, `rename` or `remove` of a name or a session at a time, so that a name is given once.
    naming: Arc<Naming>,
    /// One writer of `rc/retired.json` at a time. Held while the disk works, so only tasks that may block take it, and before `state`.
    retiring: Mutex<()>,
    /// Grows whenever a record may have changed, or a session came or went.
    changed: watch::Sender<u64>,
    /// Bounds how many hosts that reconcile start at one time.
    reconciling: Arc<Semaphore>,
    /// The listener ends: no host is started any more.
    has_ended: AtomicBool,
}

struct State {
    sessions: BTreeMap<SessionId, Arc<Session>>,
    retired: Retired,
}

/// What the machine has under an id.
pub(crate) enum Found {
    /// A session.
    Session(Arc<Session>),
    /// It was removed.
    Retired,
    /// Nothing.
    Nothing,
}

impl Sessions {
    /// Finds all sessions and folds their logs. Blocks for the disk.
    ///
    /// # Errors
    /// Where `rc/retired.json` cannot be read; a session that cannot be read is said loudly and left alone.
    pub(crate) fn load(home: &Home, terms: Terms) -> Result<Arc<Self>, RetiredError> {
        let retired = Retired::read(&home.rc().join("retired.json"))?;
        let changed = watch::Sender::new(0);
        let mut sessions = BTreeMap::new();
        for entry in std::fs::read_dir(home.sessions()).map_err(files::system("read", &home.sessions()))? {
            let Ok(entry) = entry else { continue };
            let file_name = entry.file_name();
            let name = file_name.to_string_lossy();
            if let Some(id) = name.parse().ok().filter(|id| !retired.has_id(*id)) {
                if let Some(session) = load(home, id, &changed) {
                    sessions.insert(id, session);
                }
            } else if name.starts_with(REMOVED) || name.parse::<SessionId>().is_ok() {
                // A removal that a crash cut short: its name and id are retired already.
                remove::finish(&entry.path());
            } else {
                tracing::warn!(path = %entry.path().display(), "this is not the folder of a session");
            }
        }
        let state = Mutex::new(State { sessions, retired });
        Ok(Arc::new(Self {
            home: home.clone(),
            terms,
            state,
            naming: Arc::default(),
            retiring: Mutex::default(),
            changed,
            reconciling: Arc::new(Semaphore::new(hosts::RECONCILING)),
            has_ended: AtomicBool::new(false),
        }))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the machine has under that id.
    pub(crate) fn find(&self, id: SessionId) -> Found {
        let state = self.lock();
        match state.sessions.get(&id) {
            Some(session) if !session.is_removed() => Found::Session(Arc::clone(session)),
            Some(_) => Found::Retired,
            None if state.retired.has_id(id) => Found::Retired,
            None => Found::Nothing,
        }
    }

    /// All sessions.
    pub(crate) fn all(&self) -> Vec<Arc<Session>> {
        self.lock().sessions.values().cloned().collect()
    }

    /// The versions of all records.
    pub(crate) fn versions(&self) -> BTreeMap<SessionId, u64> {
        self.lock().sessions.iter().map(|(id, session)| (*id, session.version())).collect()
    }

    /// Watches for changes of the list and of the records.
    pub(crate) fn changes(&self) -> watch::Receiver<u64> {
        self.changed.subscribe()
    }

    /// The listener ends: from now on no host is started.
    pub(crate) fn end(&self) {
        self.has_ended.store(true, Ordering::SeqCst);
    }

    fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }

    fn announce(&self) {
        self.changed.send_modify(|count| *count += 1);
    }

    /// Awaits the hosts that live, reconciles what claims one that does not, and tells hosts when their prerequisites have answered; for ever.
    pub(crate) async fn tend(self: Arc<Self>) {
        for session in self.all() {
            self.settle_at_start(session).await;
        }
        let mut changes = self.changes();
        loop {
            self.release_ready();
            if changes.changed().await.is_err() {
                return;
            }
        }
    }

    /// Tells the hosts of sessions whose prerequisites all have answered.
    fn release_ready(&self) {
        let sessions = self.lock().sessions.clone();
        for session in sessions.values() {
            let prerequisites = session.with_fold(|fold| fold.facts().prerequisites.clone());
            let is_ready = prerequisites
                .iter()
                .all(|id| sessions.get(id).is_some_and(|prerequisite| prerequisite.has_answered()));
            if !prerequisites.is_empty() && is_ready && session.release() {
                hosts::tell_released(session);
            }
        }
    }
}

/// One session from its folder; what is wrong with it is said.
fn load(home: &Home, id: SessionId, changed: &watch::Sender<u64>) -> Option<Arc<Session>> {
    let paths = home.session(id);
    let facts = match read_facts(&paths.record(), id) {
        Ok(facts) => facts,
        Err(problem) => {
            tracing::error!(
                session = %id, path = %paths.record().display(), problem,
                "this session cannot be shown; nothing of it was deleted"
            );
            return None;
        }
    };
    let session = Session::new(facts, paths, changed.clone());
    if let Err(error) = session.catch_up() {
        tracing::error!(session = %id, %error, "the log of this session cannot be read; nothing of it was deleted");
        return None;
    }
    let damage = session.damage();
    if damage.count > 0 {
        tracing::warn!(session = %id, lines = ?damage.lines, "lines of this log are damaged and are not shown");
    }
    if let Ok(Liveness::Live { holder }) = log::locked(&session.paths.log()) {
        session.await_holder(holder);
    }
    Some(session)
}

/// The sessions of a home that no listener can show, each with what is wrong with it.
#[must_use]
pub fn unreadable(home: &Home) -> Vec<(SessionId, String)> {
    let folders = std::fs::read_dir(home.sessions()).into_iter().flatten().flatten();
    let ids = folders.filter_map(|folder| folder.file_name().to_str()?.parse::<SessionId>().ok());
    let looked_at = ids.map(|id| (id, home.session(id).record()));
    looked_at
        .filter(|(_, record)| record.exists())
        .filter_map(|(id, record)| Some((id, read_facts(&record, id).err()?)))
        .collect()
}

fn read_facts(path: &std::path::Path, id: SessionId) -> Result<Facts, String> {
    let content = files::read_private(path, RECORD_BYTES).map_err(|error| error.to_string())?;
    let content = content.ok_or("it has no record.json")?;
    let facts: Facts =
        serde_json::from_slice(&content).map_err(|error| format!("its record.json is damaged: {error}"))?;
    if facts.id == id { Ok(facts) } else { Err("its record.json is another session's".to_owned()) }
}
