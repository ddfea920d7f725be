//! Handing a `merge` to the session's host, the one writer of its log; it is started where none lives (wire §7).

use std::sync::Arc;

use shared::failure::{Refusal, Refused};
use shared::frame::{Frame, ListenerBody};
use shared::ids::SessionId;
use shared::request::{Request, Response};
use tokio::sync::oneshot;
use tokio::time::Duration;

use super::{Answer, Found, Sender, Sessions, await_within};
use crate::clock;
use crate::worktree::GIT_COMMAND;

/// How long somebody waits for a merge: some twelve commands of git, each of which may take its time.
const MERGED_WITHIN: Duration = GIT_COMMAND.saturating_mul(12);

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
        await_merge(answer).await
    }
}

/// Waits for as long as git may take. A host that goes meanwhile is told of at once, as its link says.
async fn await_merge(answer: oneshot::Receiver<Answer>) -> Answer {
    await_within(
        MERGED_WITHIN,
        answer,
        "git still works on the merge; the session says `merged` when it is done",
    )
    .await
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::kind::Empty;
    use tokio::time::sleep;

    #[tokio::test(start_paused = true)]
    async fn a_merge_is_waited_for_as_long_as_git_may_take() {
        let (reply, answer) = oneshot::channel();
        let host = async {
            sleep(GIT_COMMAND * 3).await;
            let answer: Answer = Box::new(Response::Taken(Empty {}).into());
            assert!(reply.send(answer).is_ok(), "somebody still waits");
        };
        let (answered, ()) = tokio::join!(await_merge(answer), host);
        assert_eq!(answered.known(), Some(&Response::Taken(Empty {})));
        let (_reply, never) = oneshot::channel();
        let late = await_merge(never).await;
        assert!(format!("{late:?}").contains("git still works"), "{late:?}");
    }
}
