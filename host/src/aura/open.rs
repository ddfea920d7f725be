//! From the root flags to a session that this process holds, ready for an engine: the same for every front.

use std::path::PathBuf;
use std::sync::Arc;

use shared::ids::HostId;

use super::root::Root;
use crate::automation::core::{Checkpoints, Parts, Recorder};
use crate::automation::error::{AutomationError, Code};
use crate::automation::journal::Journal;
use crate::automation::store::{LiveSession, Store, StoredId};
use crate::engine::Engine;
use crate::engine::config::{Choice, EngineConfig};
use crate::engine::conversation::Conversation;
use crate::engine::setup::{Place, Setup, engine_from};

/// A session that is held, with all that its engine is made from.
pub(super) struct Session {
    pub(super) store: Store,
    pub(super) live: Arc<LiveSession>,
    conversation: Conversation,
    /// The revision that was resumed; none for a new session.
    resumed: Option<String>,
    pub(super) setup: Setup,
    pub(super) working_directory: PathBuf,
    /// The directory in which sessions are kept, as it really is.
    pub(super) write_home: PathBuf,
}

/// Settings first, then the session: the one that is named, else a new one.
///
/// # Errors
/// `config_invalid`; then, in the order of settled point 25, what keeps a session from being held.
pub(super) async fn session(root: &Root) -> Result<Session, AutomationError> {
    let write_home = root.write_home()?;
    let working_directory = std::env::current_dir()
        .map_err(|error| invalid(format!("the working directory cannot be used: {error}")))?;
    let setup = configured(root)?;
    let store = Store::of(&write_home);
    let (live, conversation) = blocking({
        let (store, resume) = (store.clone(), root.resume.clone());
        move || hold(&store, resume.as_deref())
    })
    .await?;
    let resumed = root.resume.as_ref().map(|_| live.summary().revision.to_string());
    // It is there now; whoever reads it is not to resolve what was typed.
    let write_home = std::fs::canonicalize(&write_home).unwrap_or(write_home);
    Ok(Session { store, live: Arc::new(live), conversation, resumed, setup, working_directory, write_home })
}

impl Session {
    /// The engine on its conversation, and what keeps that.
    ///
    /// # Errors
    /// `config_invalid`.
    pub(super) fn engine(&self) -> Result<(Engine, Arc<Checkpoints>), AutomationError> {
        let checkpoints = Arc::new(Checkpoints::new(Arc::clone(&self.live)));
        let place = Place {
            working_directory: self.working_directory.clone(),
            run: HostId::random(),
            guard_program: std::env::current_exe().map_err(|error| failed(error.to_string()))?,
            closed: vec![self.store.directory().to_path_buf()],
        };
        let engine = self.setup.engine(place, self.conversation.clone(), checkpoints.clone());
        Ok((engine.map_err(|error| invalid(error.to_string()))?, checkpoints))
    }

    /// All that a server serves, with the journal opened.
    ///
    /// # Errors
    /// `startup_failed` where the journal is damaged or the transcript cannot be begun; `config_invalid`.
    pub(super) async fn parts(&self, root: &Root) -> Result<Parts, AutomationError> {
        let id = self.live.id().clone();
        let journal_path = self.store.journal(&id);
        let opened = blocking({
            let path = journal_path.clone();
            move || Journal::open(&path, id.as_str()).map_err(|error| failed(error.to_string()))
        })
        .await?;
        let (engine, checkpoints) = self.engine()?;
        Ok(Parts {
            checkpoints,
            engine,
            setup: self.setup.clone(),
            opened,
            journal_path,
            resumed: self.resumed.clone(),
            notices: Vec::new(),
            recorder: recorder(root)?,
        })
    }
}

/// Settings and flags, whole and usable.
fn configured(root: &Root) -> Result<Setup, AutomationError> {
    let config = EngineConfig::read(&root.directories()?).map_err(|error| invalid(error.to_string()))?;
    let choice =
        Choice { provider: root.provider.clone(), model: root.model.clone(), agent: root.agent.clone() };
    engine_from(Arc::new(config), &choice).map_err(|error| invalid(error.to_string()))
}

/// A session of our own: the one that is named, else a new one.
fn hold(store: &Store, resume: Option<&str>) -> Result<(LiveSession, Conversation), AutomationError> {
    let held = match resume {
        None => store.begin(StoredId::random()),
        Some(id) => id.parse().and_then(|id| store.resume(&id)),
    };
    held.map_err(|error| {
        if error.code == Code::InvalidSession {
            AutomationError { code: Code::ResumeFailed, ..error }
        } else if matches!(error.code, Code::Internal | Code::Exists) {
            failed(error.message)
        } else {
            error
        }
    })
}

/// The transcript of `--output`.
///
/// # Errors
/// `startup_failed` where the file cannot be begun.
pub(super) fn recorder(root: &Root) -> Result<Option<Recorder>, AutomationError> {
    let begin = |path: &PathBuf| {
        Recorder::begin(path).map_err(|error| failed(format!("--output {}: {error}", path.display())))
    };
    root.output.as_ref().map(begin).transpose()
}

/// Does something that blocks where that is allowed.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, AutomationError> + Send + 'static,
) -> Result<T, AutomationError> {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(died) => Err(failed(died.to_string())),
    }
}

/// What a front runs in.
///
/// # Errors
/// `startup_failed`.
pub(super) fn runtime() -> Result<tokio::runtime::Runtime, AutomationError> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| failed(error.to_string()))
}

/// `startup_failed`.
pub(super) fn failed(message: String) -> AutomationError {
    AutomationError::new(Code::StartupFailed, message)
}

/// `config_invalid`.
pub(super) fn invalid(message: String) -> AutomationError {
    AutomationError::new(Code::ConfigInvalid, message)
}
