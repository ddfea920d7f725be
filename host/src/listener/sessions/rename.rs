//! Giving a session another name: unique on the machine, durable before it is said (wire §7).

use std::sync::Arc;

use shared::failure::{Failed, Fault, Refusal, Refused};
use shared::kind::Empty;
use shared::name::SessionName;
use shared::request::{Rename, Response};

use super::naming::Key;
use super::{Found, Sessions};
use crate::files;

impl Sessions {
    /// Carries out a `rename` request. The same one again changes nothing.
    pub(crate) async fn rename(self: &Arc<Self>, rename: Rename) -> Response {
        let refused = |refusal, detail: &str| Response::Refused(Refused::with(refusal, detail));
        let name = match SessionName::clean(&rename.name) {
            Ok(name) => name.as_str().to_owned(),
            Err(error) => return refused(Refusal::BadName, &error.to_string()),
        };
        let Some(_session) = self.naming.own_soon(Key::Session(rename.session)).await else {
            let detail = "somebody renames or removes this session right now; try again in a while";
            return refused(Refusal::Running, detail);
        };
        let Some(_name) = self.naming.own_soon(Key::Name(name.clone())).await else {
            let detail = "a session of that name is being started; take another one";
            return refused(Refusal::NameTaken, detail);
        };
        let session = match self.find(rename.session) {
            Found::Session(session) => session,
            Found::Retired => return Response::Refused(Refused::bare(Refusal::Retired)),
            Found::Nothing => return Response::Refused(Refused::bare(Refusal::NotFound)),
        };
        if session.is_named(&name) {
            return Response::Taken(Empty {});
        }
        if self.lock().retired.has_name(&name) {
            let detail = "a session of that name was removed; take another name";
            return refused(Refusal::NameTaken, detail);
        }
        if self.all().iter().any(|other| other.is_named(&name)) {
            return refused(Refusal::NameTaken, "another session has that name; take another one");
        }
        let mut facts = session.with_fold(|fold| fold.facts().clone());
        facts.name.clone_from(&name);
        let path = session.paths.record();
        let stored = tokio::task::spawn_blocking(move || {
            let content = serde_json::to_vec_pretty(&facts).map_err(|error| error.to_string())?;
            files::write_private(&path, &content).map_err(|error| error.to_string())
        });
        match stored.await {
            Ok(Ok(())) => {
                session.renamed(name);
                Response::Taken(Empty {})
            }
            Ok(Err(detail)) => Response::Failed(Failed::with(Fault::Storage, detail)),
            Err(error) => Response::Failed(Failed::with(Fault::Storage, error.to_string())),
        }
    }
}
