//! What a person chose of the settings, from the press until the machine says what the session runs with (wire §4 `configure`).

use std::time::Duration;

use leptos::prelude::*;
use shared::entry::{Known, Level};
use shared::frame::{Frame, OpenerBody};
use shared::ids::FrameId;
use shared::kind::Open;
use shared::request::{Configure, Response};

use super::SessionState;
use crate::browser;
use crate::i18n::t;

/// How long a choice that was taken may go unheard of before the page shows again what is known.
const PATIENCE: Duration = Duration::from_secs(10);

/// A choice that was sent and is not in the log yet. The page shows it in place of the settings, and no longer than it has to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The frame that asked.
    frame: FrameId,
    /// What was chosen.
    pub(crate) configure: Configure,
}

impl SessionState {
    /// Asks the harness for another model, effort or agent.
    pub(crate) fn configure(self, configure: Configure) {
        let frame = Frame::new(browser::now().date, OpenerBody::Configure(configure.clone()));
        let id = frame.id.clone();
        self.wish.set(Some(Wish { frame: id.clone(), configure }));
        self.app.send_to_session(self.id, frame);
        set_timeout(
            move || {
                if self.is_wished(&id) {
                    self.wish.set(None);
                    self.app.say(t().choice_unheard());
                }
            },
            PATIENCE,
        );
    }

    fn is_wished(self, frame: &FrameId) -> bool {
        let is_it = |wish: &Option<Wish>| wish.as_ref().is_some_and(|wish| wish.frame == *frame);
        self.wish.try_with_untracked(is_it).unwrap_or_default()
    }

    /// Takes the response to a choice; whether it was one. The settings entry tells of one that was taken.
    pub(super) fn wish_heard(self, frame: &FrameId, response: &Open<Response>) -> bool {
        if !self.is_wished(frame) {
            return false;
        }
        match response {
            Open::Known(Response::Refused(refused)) => {
                self.wish_fails(&t().refused(refused.word.known().copied(), refused.detail.as_deref()));
            }
            Open::Known(Response::Failed(failed)) => {
                self.wish_fails(&t().failed(failed.word.known().copied(), failed.detail.as_deref()));
            }
            Open::Known(
                Response::Taken(_)
                | Response::Started(_)
                | Response::Continued(_)
                | Response::Window(_)
                | Response::Paired(_)
                | Response::Reach(_)
                | Response::Directories(_),
            )
            | Open::Unknown(_) => {}
        }
        true
    }

    /// Takes a failure that answers a choice; whether it does.
    pub(super) fn wish_failed(self, frame: &FrameId, detail: &str) -> bool {
        let is_it = self.is_wished(frame);
        if is_it {
            self.wish_fails(detail);
        }
        is_it
    }

    fn wish_fails(self, why: &str) {
        self.wish.set(None);
        self.app.say(t().not_chosen(why));
    }

    /// Takes an entry: new settings say what became of a choice, and so does an agent that refuses one, which it does in a notice.
    pub(super) fn wish_noted(self, known: &Known) {
        if self.wish.with_untracked(Option::is_none) {
            return;
        }
        match known {
            Known::Settings { .. } => self.wish.set(None),
            Known::Notice(notice) if !notice.level.is(&Level::Info) => self.wish_fails(&notice.text),
            Known::User(_)
            | Known::Assistant(_)
            | Known::Thinking(_)
            | Known::Tool(_)
            | Known::Result(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Input(_)
            | Known::Resolved(_)
            | Known::Status { .. }
            | Known::Gate { .. }
            | Known::Settled { .. }
            | Known::Ended { .. }
            | Known::Began { .. }
            | Known::Merged { .. } => {}
        }
    }

    /// The link was lost: whether a choice was heard is not known, and the settings tell it.
    pub(super) fn lose_wish(self) {
        if self.wish.with_untracked(Option::is_some) {
            self.wish_fails(t().choice_lost());
        }
    }
}
