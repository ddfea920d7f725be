//! Turns on their way: kept before they are sent, sent until they are answered, always with the same id.

use leptos::prelude::*;
use shared::frame::{Frame, Interrupt, OpenerBody, Submission};
use shared::ids::{SessionId, SubmissionId};
use wasm_bindgen_futures::spawn_local;

use super::App;
use crate::browser;
use crate::store::{Outgoing, OutgoingState};

impl App {
    /// Keeps a turn, then sends it.
    pub(crate) fn submit(self, session: SessionId, text: String) {
        let outgoing = Outgoing {
            id: SubmissionId::random(),
            session,
            text,
            created: browser::now().date.milliseconds(),
            state: OutgoingState::Waiting,
        };
        self.outgoing.update(|all| all.push(outgoing.clone()));
        self.keep_then_send(outgoing);
    }

    /// Sends a turn again that was refused or failed.
    pub(crate) fn submit_again(self, id: &SubmissionId) {
        self.set_outgoing(id, OutgoingState::Waiting);
        let found = self.outgoing.with_untracked(|all| all.iter().find(|one| one.id == *id).cloned());
        if let Some(outgoing) = found {
            self.keep_then_send(outgoing);
        }
    }

    fn keep_then_send(self, outgoing: Outgoing) {
        spawn_local(async move {
            let kept = match self.store() {
                Some(store) => store.keep_outgoing(&outgoing).await.is_ok(),
                None => false,
            };
            if !kept {
                self.is_lasting.set(false);
            }
            self.send_outgoing(&outgoing);
        });
    }

    fn send_outgoing(self, outgoing: &Outgoing) {
        let body =
            OpenerBody::Submission(Submission { text: outgoing.text.clone(), budget: None, origin: None });
        let date = browser::now().date;
        let frame = Frame { id: outgoing.id.clone(), timestamp: date, reply_to: None, body };
        self.send_to_session(outgoing.session, frame);
    }

    pub(super) fn send_to_session(self, session: SessionId, frame: Frame<OpenerBody>) {
        self.inner.with_value(|inner| {
            if let Some((id, link)) = &inner.session
                && *id == session
            {
                link.send(frame);
            }
        });
    }

    /// Sends what waits for a session, in the order in which it was written.
    pub(super) fn send_all_waiting(self, session: SessionId) {
        let waiting: Vec<Outgoing> = self.outgoing.with_untracked(|all| {
            let waits = |one: &&Outgoing| one.session == session && one.state == OutgoingState::Waiting;
            all.iter().filter(waits).cloned().collect()
        });
        for outgoing in &waiting {
            self.send_outgoing(outgoing);
        }
    }

    /// The machine has the turn: it need not be kept any more, and is shown until its entry comes.
    pub(super) fn outgoing_taken(self, id: &SubmissionId) {
        if self.set_outgoing(id, OutgoingState::Taken) {
            self.forget_kept(id.clone());
        }
    }

    /// The entry of the turn came.
    pub(super) fn outgoing_logged(self, id: &SubmissionId) {
        if self.outgoing.with_untracked(|all| all.iter().any(|one| one.id == *id)) {
            self.outgoing.update(|all| all.retain(|one| one.id != *id));
            self.forget_kept(id.clone());
        }
    }

    /// The machine did not take the turn; it stays until a person decides.
    pub(super) fn outgoing_not_taken(self, id: &SubmissionId, state: OutgoingState) {
        if !self.set_outgoing(id, state) {
            return;
        }
        let found = self.outgoing.with_untracked(|all| all.iter().find(|one| one.id == *id).cloned());
        spawn_local(async move {
            if let (Some(outgoing), Some(store)) = (found, self.store()) {
                let _ = store.keep_outgoing(&outgoing).await;
            }
        });
    }

    /// Forgets a turn that was not taken.
    pub(crate) fn discard_outgoing(self, id: &SubmissionId) {
        self.outgoing.update(|all| all.retain(|one| one.id != *id));
        self.forget_kept(id.clone());
    }

    fn forget_kept(self, id: SubmissionId) {
        spawn_local(async move {
            if let Some(store) = self.store() {
                let _ = store.forget_outgoing(&id).await;
            }
        });
    }

    fn set_outgoing(self, id: &SubmissionId, state: OutgoingState) -> bool {
        let is_there = self.outgoing.with_untracked(|all| all.iter().any(|one| one.id == *id));
        if is_there {
            self.outgoing.update(|all| {
                if let Some(one) = all.iter_mut().find(|one| one.id == *id) {
                    one.state = state;
                }
            });
        }
        is_there
    }

    /// Ends the running turn.
    pub(crate) fn interrupt(self, session: SessionId, submission: Option<SubmissionId>) {
        let body = OpenerBody::Interrupt(Interrupt { submission, origin: None });
        self.send_to_session(session, Frame::new(browser::now().date, body));
    }
}
