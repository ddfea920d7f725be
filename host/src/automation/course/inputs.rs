//! The questions and approvals of a run: they come one at a time, and an answer is read by what is asked (settled point 15).

use std::collections::VecDeque;

use shared::decision::{Ask, Confirm, Decision, Matter, Verdict};
use shared::ids::InputId;
use shared::limits;

use super::Decisions;
use crate::automation::error::{AutomationError, Code};
use crate::automation::event::{InputKind, InputOption, InputRequired};
use crate::engine::Question;

/// What a controller answers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Answer {
    /// `answer`: to a question.
    Said(String),
    /// `action`: to an approval.
    Action(String),
}

/// Those that are not resolved; the first of them was told.
#[derive(Debug, Default)]
pub(super) struct Inputs(VecDeque<Question>);

/// What came of a question.
pub(super) enum Asked {
    /// It is to be told now.
    Now(InputRequired),
    /// It waits for those before it.
    Later,
}

/// What an answer came to.
#[derive(Debug)]
pub(super) struct Resolved {
    /// What the journal keeps of it.
    pub(super) recorded: String,
    /// What it decides; with `allow_session` also what waited for the same grant.
    pub(super) decisions: Decisions,
    /// The input that is to be told next.
    pub(super) next: Option<InputRequired>,
}

impl Inputs {
    /// The engine asks.
    pub(super) fn ask(&mut self, question: Question) -> Asked {
        self.0.push_back(question);
        match self.0.front() {
            Some(first) if self.0.len() == 1 => Asked::Now(required(first)),
            _ => Asked::Later,
        }
    }

    /// Whether this one was told and not resolved.
    pub(super) fn waits_for(&self, input_id: &str) -> bool {
        self.0.front().is_some_and(|question| question.input.to_string() == input_id)
    }

    /// Resolves the one that was told.
    pub(super) fn resolve(&mut self, answer: &Answer) -> Result<Resolved, AutomationError> {
        let Some(question) = self.0.front() else { return Err(unfit("nothing is asked")) };
        let (decision, recorded) = match (&question.matter, answer) {
            (Matter::Ask(ask), Answer::Said(said)) => answered(ask, said)?,
            (Matter::Confirm(confirm), Answer::Action(action)) => decided(confirm, action)?,
            (Matter::Ask(_), Answer::Action(_)) => {
                return Err(unfit("a question takes an answer, no action"));
            }
            (Matter::Confirm(_), Answer::Said(_)) => {
                return Err(unfit("an approval takes an action, no answer"));
            }
        };
        let (input, grant) = (question.input, question.grant.clone());
        self.0.pop_front();
        let is_for_all = decision == Decision::AllowSession;
        let mut decisions = vec![(input, decision)];
        if is_for_all {
            // The others were not told yet: whoever allows all of the kind is not asked again for what waits already.
            self.0.retain(|other| {
                let is_covered = grant.is_some() && other.grant == grant;
                if is_covered {
                    decisions.push((other.input, Decision::Allow));
                }
                !is_covered
            });
        }
        Ok(Resolved { recorded, decisions, next: self.0.front().map(required) })
    }

    /// Nobody waits any more. Gives the one that was told.
    pub(super) fn drop_all(&mut self) -> Option<String> {
        let told: Option<InputId> = self.0.front().map(|question| question.input);
        self.0.clear();
        told.map(|input| input.to_string())
    }
}

fn answered(ask: &Ask, said: &str) -> Result<(Decision, String), AutomationError> {
    let text = said.trim();
    if text.is_empty() {
        return Err(unfit("the answer is empty"));
    }
    if text.len() > limits::ANSWER_BYTES {
        return Err(unfit("an answer has at most 16 KiB"));
    }
    let labels: Vec<&str> = ask.options.iter().map(|option| option.label.as_str()).collect();
    let exact = labels.iter().find(|label| **label == said || label.trim() == text);
    let chosen = match exact {
        Some(label) => Some(vec![(*label).to_owned()]),
        None if ask.multiple => several(&labels, text),
        None => numbered(&labels, text).map(|label| vec![label]),
    };
    Ok(match chosen {
        Some(chosen) => {
            let recorded = chosen.join(", ");
            (Decision::Chosen(chosen), recorded)
        }
        None => (Decision::Said(text.to_owned()), text.to_owned()),
    })
}

/// The label with this 1-based number.
fn numbered(labels: &[&str], text: &str) -> Option<String> {
    let index = text.parse::<usize>().ok()?.checked_sub(1)?;
    labels.get(index).map(|label| (*label).to_owned())
}

/// The labels that a JSON array of labels or a list of numbers names, in the order of the question.
fn several(labels: &[&str], text: &str) -> Option<Vec<String>> {
    let named: Vec<String> = match serde_json::from_str::<Vec<String>>(text) {
        Ok(named) => named,
        Err(_) => text.split(',').map(|number| numbered(labels, number.trim())).collect::<Option<_>>()?,
    };
    if named.is_empty() || !named.iter().all(|name| labels.contains(&name.as_str())) {
        return None;
    }
    let chosen = labels.iter().filter(|label| named.iter().any(|name| name == *label));
    Some(chosen.map(|label| (*label).to_owned()).collect())
}

fn decided(confirm: &Confirm, action: &str) -> Result<(Decision, String), AutomationError> {
    let offered = confirm.options.iter().filter_map(|option| option.known());
    let Some(verdict) = offered.into_iter().find(|verdict| verdict.word() == action) else {
        return Err(unfit("the action is none of those that are offered: allow, allow_session, deny"));
    };
    let decision = match verdict {
        Verdict::Allow => Decision::Allow,
        Verdict::AllowSession => Decision::AllowSession,
        Verdict::Deny => Decision::Deny { text: None },
    };
    Ok((decision, verdict.word().to_owned()))
}

/// What the journal tells of a question.
fn required(question: &Question) -> InputRequired {
    let input_id = question.input.to_string();
    match &question.matter {
        Matter::Ask(ask) => InputRequired {
            input_id,
            kind: InputKind::Ask,
            question: ask.question.clone(),
            options: ask
                .options
                .iter()
                .map(|option| InputOption {
                    label: option.label.clone(),
                    description: option.description.clone(),
                })
                .collect(),
            multi_select: ask.multiple,
            tool: None,
            detail: None,
            pattern: None,
        },
        Matter::Confirm(confirm) => InputRequired {
            input_id,
            kind: InputKind::Confirm,
            question: confirm.title.clone(),
            options: Vec::new(),
            multi_select: false,
            tool: question.subject.as_ref().map(|subject| subject.tool.clone()),
            detail: Some(confirm.detail.clone()),
            pattern: question.grant.clone(),
        },
    }
}

fn unfit(message: &str) -> AutomationError {
    AutomationError::new(Code::BadRequest, message)
}
