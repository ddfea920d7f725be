//! Handing a `merge` to the session's host, the one writer of its log; it is started where none lives (wire §7).

use std::sync::Arc;

use shared::failure::{Refusal, Refused};
use shared::frame::{Frame, ListenerBody};
use shared::ids::SessionId;
use shared::request::{Request, Response};

use super::{Answer, Found, Sender, Sessions, await_host};
use crate::clock;

impl Sessions {
    /// Carries out a `merge` request.
    pub(crate) async fn merge(self: &Arc<Self>, id: SessionId, sender: &Sender) -> Answer {
        let refused = |refused: Refused| -> Answer { Box::new(Response::Refused(refused).into()) };
        // A host that has logged its end takes nothing any more.
        self.until_ended(|session| session.id == id).await;
        let session = match self.find(id) {
            Found::Session(session) => session,
            Found::Retired => return refused(Refused::bare(Refusal::Retired)),
            Found::Nothing => return refused(Refused::bare(Refusal::NotFound)),
        };
        if session.with_fold(|fold| fold.facts().worktree.is_none()) {
            let detail =
                "this session has no worktree of its own: what it did is in its working directory already";
            return refused(Refused::with(Refusal::NotOffered, detail));
        }
        let frame = Frame::new(clock::now(), ListenerBody::Request(Request::Merge(id)));
        let answer = session.ask(frame, Some(Arc::clone(&sender.standing)));
        self.want_host(&session);
        await_host(answer).await
    }
}
