//! The open questions and approvals of a session, and what this page answers to them (wire §5.3).

use std::time::Duration;

use leptos::prelude::*;
use shared::decision::{Decision, Matter, Unreadable};
use shared::entry::{Input, ToolClass};
use shared::failure::Refusal;
use shared::frame::{Frame, OpenerBody};
use shared::ids::{FrameId, InputId};
use shared::kind::Open;
use shared::request::Response;

use super::SessionState;
use crate::browser;
use crate::i18n::t;

/// How long open questions must have stood still before a press counts: what moves under a finger is not what was meant.
const STEADY: Duration = Duration::from_millis(400);

/// A question or an approval that is open.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Asked {
    /// The entry, whose digest an answer names.
    pub(crate) input: Input,
    /// What it asks, when its digest is of exactly that.
    pub(crate) matter: Result<Matter, Unreadable>,
    /// Whether the call that waits changes files, so that its detail is a change.
    pub(crate) is_edit: bool,
}

/// How an answer of this page stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum AnswerState {
    /// It was sent in that frame.
    Sent(FrameId),
    /// It did not count, for that reason.
    Problem(String),
}

impl SessionState {
    /// Shows what is open now.
    pub(super) fn show_open(self) {
        let is_same = self.inner.with_value(|inner| {
            let inputs = inner.transcript.open_inputs();
            self.open.with_untracked(|open| {
                open.len() == inputs.len() && open.iter().zip(inputs).all(|(one, input)| one.input == *input)
            })
        });
        if is_same {
            return;
        }
        let open: Vec<Asked> = self.inner.with_value(|inner| {
            let asked = |input: &Input| {
                let matter = Matter::of(input);
                let call = match &matter {
                    Ok(Matter::Confirm(confirm)) => inner.transcript.call(&confirm.tool),
                    Ok(Matter::Ask(_)) | Err(_) => None,
                };
                let is_edit = call.is_some_and(|call| call.class.is(&ToolClass::Edit));
                Asked { input: input.clone(), matter, is_edit }
            };
            inner.transcript.open_inputs().iter().map(asked).collect()
        });
        let newest = open.last().filter(|newest| {
            self.open.with_untracked(|old| old.iter().all(|one| one.input.input != newest.input.input))
        });
        if let Some(newest) = newest {
            self.app.announcement.set(t().asks(&newest.title()));
        }
        self.answers.update(|answers| {
            answers.retain(|id, _| open.iter().any(|one| one.input.input == *id));
        });
        self.open.set(open);
        self.is_steady.set(false);
        set_timeout(
            move || {
                let _ = self.is_steady.try_set(true);
            },
            STEADY,
        );
    }

    /// Sends an answer to an input as it is shown. It is not sent twice while it is under way, and not when the link is lost.
    pub(crate) fn answer(self, input: &Input, decision: &Decision) {
        let is_under_way = self
            .answers
            .with_untracked(|answers| matches!(answers.get(&input.input), Some(AnswerState::Sent(_))));
        if is_under_way || !self.is_steady.get_untracked() {
            return;
        }
        let frame = Frame::new(browser::now().date, OpenerBody::Answer(decision.answer(input)));
        self.answers.update(|answers| {
            answers.insert(input.input, AnswerState::Sent(frame.id.clone()));
        });
        self.app.send_to_session(self.id, frame);
    }

    fn answer_of(self, frame: &FrameId) -> Option<InputId> {
        self.answers.with_untracked(|answers| {
            let is_it = |state: &AnswerState| matches!(state, AnswerState::Sent(sent) if sent == frame);
            answers.iter().find(|(_, state)| is_it(state)).map(|(id, _)| *id)
        })
    }

    /// Takes the response to an answer; whether it was one.
    pub(super) fn answer_heard(self, frame: &FrameId, response: &Open<Response>) -> bool {
        let Some(input) = self.answer_of(frame) else { return false };
        let sentence = match response {
            Open::Known(Response::Refused(refused)) => match refused.word.known() {
                Some(Refusal::NotPending) => t().answer_stale().to_owned(),
                word => t().refused(word.copied(), refused.detail.as_deref()),
            },
            Open::Known(Response::Failed(failed)) => {
                t().failed(failed.word.known().copied(), failed.detail.as_deref())
            }
            // The `resolved` entry ends it.
            Open::Known(
                Response::Taken(_)
                | Response::Started(_)
                | Response::Continued(_)
                | Response::Window(_)
                | Response::Paired(_)
                | Response::Reach(_)
                | Response::Directories(_),
            )
            | Open::Unknown(_) => return true,
        };
        self.answer_did_not_count(input, sentence);
        true
    }

    /// Takes a failure that answers an answer; whether it does.
    pub(super) fn answer_failed(self, frame: &FrameId, detail: &str) -> bool {
        let Some(input) = self.answer_of(frame) else { return false };
        self.answer_did_not_count(input, detail.to_owned());
        true
    }

    /// The link was lost: whether an answer counted is not known until the log comes again.
    pub(super) fn lose_answers(self) {
        let is_sent = |state: &AnswerState| matches!(state, AnswerState::Sent(_));
        if self.answers.with_untracked(|answers| answers.values().any(is_sent)) {
            self.answers.update(|answers| {
                for state in answers.values_mut().filter(|state| is_sent(state)) {
                    *state = AnswerState::Problem(t().answer_lost().to_owned());
                }
            });
        }
    }

    fn answer_did_not_count(self, input: InputId, sentence: String) {
        // Its card may be gone already, so the sentence is also said beside it.
        self.app.say(sentence.clone());
        self.answers.update(|answers| {
            answers.insert(input, AnswerState::Problem(sentence));
        });
    }
}

impl Asked {
    /// One line that says what is asked.
    pub(crate) fn title(&self) -> String {
        match &self.matter {
            Ok(Matter::Confirm(confirm)) => confirm.title.clone(),
            Ok(Matter::Ask(ask)) => ask.question.clone(),
            Err(_) => t().question_unreadable().to_owned(),
        }
    }
}
