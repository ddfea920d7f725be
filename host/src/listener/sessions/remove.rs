//! Removing a session for ever: its name and id are retired first, then its folder goes (wire §7, §8).

use std::path::Path;
use std::sync::{Arc, PoisonError};

use shared::failure::{Failed, Fault, Refusal, Refused};
use shared::ids::SessionId;
use shared::kind::Empty;
use shared::request::Response;

use super::naming::Key;
use super::{Found, REMOVED, Sessions};
use crate::files;

impl Sessions {
    /// Carries out a `remove` request.
    pub(crate) async fn remove(self: &Arc<Self>, id: SessionId) -> Response {
        self.until_ended(|session| session.id == id).await;
        let working = || {
            Response::Refused(Refused::with(
                Refusal::Running,
                "somebody works with this session or its name right now; try again in a while",
            ))
        };
        let Some(_session) = self.naming.own_soon(Key::Session(id)).await else { return working() };
        let session = match self.find(id) {
            Found::Session(session) => session,
            Found::Retired => return Response::Refused(Refused::bare(Refusal::Retired)),
            Found::Nothing => return Response::Refused(Refused::bare(Refusal::NotFound)),
        };
        let Some(_name) = self.naming.own_soon(Key::Name(session.name())).await else { return working() };
        if !session.begin_removal() {
            return Response::Refused(Refused::with(
                Refusal::Running,
                "the session still runs; stop it first",
            ));
        }
        let worktree = session.with_fold(|fold| fold.facts().worktree.clone());
        if let Some(worktree) = worktree
            && let Err(response) = self.remove_worktree(&worktree).await
        {
            session.cancel_removal();
            return response;
        }
        let sessions = Arc::clone(self);
        let name = session.name();
        let retired = tokio::task::spawn_blocking(move || {
            // Written beside the lock on the state, so that nobody waits for the disk.
            let _retiring = sessions.retiring.lock().unwrap_or_else(PoisonError::into_inner);
            let mut retired = sessions.lock().retired.clone();
            retired.add(id, &name)?;
            let mut state = sessions.lock();
            state.retired = retired;
            state.sessions.remove(&id);
            Ok::<(), crate::identity::RetiredError>(())
        })
        .await;
        match retired {
            Ok(Ok(())) => {}
            Ok(Err(error)) => {
                session.cancel_removal();
                return Response::Failed(Failed::with(Fault::Storage, error.to_string()));
            }
            Err(error) => {
                session.cancel_removal();
                return Response::Failed(Failed::with(Fault::Storage, error.to_string()));
            }
        }
        session.removed();
        self.announce();
        let (folder, gone) = (session.paths.directory().to_path_buf(), self.home.sessions());
        let gone = gone.join(format!("{REMOVED}{id}"));
        let emptied = tokio::task::spawn_blocking(move || {
            // A rename is all or nothing; what it leaves is deleted now, or when the listener starts again.
            std::fs::rename(&folder, &gone)?;
            files::sync_parent(&gone).map_err(std::io::Error::other)?;
            finish(&gone);
            Ok::<(), std::io::Error>(())
        })
        .await;
        if let Ok(Err(error)) = emptied {
            tracing::error!(session = %id, %error, "the folder of a removed session could not be deleted; it is tried again at the next start");
        }
        Response::Taken(Empty {})
    }
}

/// Deletes the folder of a session whose name and id are retired.
pub(super) fn finish(folder: &Path) {
    let deleted = std::fs::remove_dir_all(folder);
    if let Err(error) = deleted {
        tracing::error!(path = %folder.display(), %error, "the folder of a removed session could not be deleted");
    } else if let Err(error) = files::sync_parent(folder) {
        tracing::error!(%error, "a deletion could not be made durable");
    }
}
