//! Questions and approvals (wire §5.3): what an agent asks is judged by rules and grants, else a person is asked; the first answer wins.

use std::sync::Arc;

use shared::decision::{CANCELLED, Decision, Matter, Unfit, Verdict};
use shared::entry::{Input, Known, Level, Resolved};
use shared::failure::{Refusal, Refused};
use shared::ids::{FrameId, InputId};
use shared::limits;
use shared::request::{Answer, AnswerChoice, Configure};

use super::{Machine, Output};
use crate::config::{self, Permissions};
use crate::harness::{Asked, Subject};
use crate::text::one_line;

/// Answers that are remembered, so that one that is sent again is not told that it lost against itself.
const WON: usize = 64;
/// Grants that a session remembers; a further one holds for its own call only.
const GRANTS: usize = 256;

/// Something that waits for a person.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    entry: Input,
    matter: Matter,
    grant: Option<String>,
}

impl Machine {
    /// The agent needs a decision.
    pub(super) fn ask(&mut self, asked: Asked, outputs: &mut Vec<Output>) {
        let Asked { input, matter, subject, grant } = asked;
        let Some(turn) = self.state.turn.as_ref().filter(|turn| turn.ending.is_none()) else {
            // An interrupt has crossed it, or the agent works on its own account: nobody is there who could mean it.
            return deny(input, "no turn runs in which a person could decide this", outputs);
        };
        let submission = turn.submission.clone();
        if self.state.inputs.iter().any(|open| open.entry.input == input) {
            return;
        }
        let matter = offered(matter, grant.as_deref());
        let what = title(&matter);
        if size(&matter) > limits::CONFIRM_BYTES {
            return denied(input, &what, "it is too large to be shown whole", outputs);
        }
        if self.state.inputs.len() >= limits::INPUTS {
            return denied(input, &what, "too much waits for an answer already", outputs);
        }
        if self.is_judged(input, &what, subject.as_ref(), grant.as_ref(), outputs) {
            return;
        }
        let entry = matter.clone().into_input(input, submission);
        outputs.push(Output::Append(Known::Input(entry.clone())));
        self.state.inputs.push(Arc::new(Waiting { entry, matter, grant }));
    }

    /// Whether a rule, a grant or the configuration has decided, without a person.
    fn is_judged(
        &self,
        input: InputId,
        what: &str,
        subject: Option<&Subject>,
        grant: Option<&String>,
        outputs: &mut Vec<Output>,
    ) -> bool {
        let judged = subject.and_then(|subject| self.terms.policy.judge(subject));
        match judged {
            Some((number, config::Verdict::Allow)) => {
                allowed(input, &format!("Allowed by rule {number} of config.toml: {what}"), outputs);
                return true;
            }
            Some((number, config::Verdict::Deny)) => {
                denied(input, what, &format!("rule {number} of config.toml says so"), outputs);
                return true;
            }
            Some((_, config::Verdict::Ask)) => return false,
            None => {}
        }
        if grant.is_some_and(|grant| self.state.grants.contains(grant)) {
            allowed(input, &format!("Allowed, as it was allowed for the session: {what}"), outputs);
            return true;
        }
        let is_unattended = self.terms.permissions == Permissions::Deny;
        if is_unattended {
            denied(input, what, "permissions = \"deny\" in config.toml: nobody is asked", outputs);
        }
        is_unattended
    }

    /// The agent does not wait any more.
    pub(super) fn withdraw(&mut self, input: InputId, outputs: &mut Vec<Output>) {
        let before = self.state.inputs.len();
        self.state.inputs.retain(|open| open.entry.input != input);
        if self.state.inputs.len() < before {
            outputs.push(cancelled(input));
        }
    }

    /// Resolves all that is open as cancelled: nothing outlives its turn.
    pub(super) fn cancel_inputs(&mut self, outputs: &mut Vec<Output>) {
        outputs.extend(self.state.inputs.drain(..).map(|open| cancelled(open.entry.input)));
    }

    /// A device decides.
    pub(super) fn answer(
        &mut self,
        id: &FrameId,
        answer: Answer,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Refused> {
        if self.state.won.contains(id) {
            return Ok(());
        }
        let at = self.state.inputs.iter().position(|open| open.entry.input == answer.input);
        let Some(open) = at.and_then(|at| self.state.inputs.get(at)).cloned() else {
            return Err(Refused::bare(Refusal::NotPending));
        };
        let decision = open.matter.decide(&open.entry.digest, &answer).map_err(refusal)?;
        self.state.inputs.retain(|other| other.entry.input != answer.input);
        self.state.won.push_back(id.clone());
        if self.state.won.len() > WON {
            self.state.won.pop_front();
        }
        if let (Decision::AllowSession, Some(grant)) = (&decision, &open.grant)
            && self.state.grants.len() < GRANTS
        {
            self.state.grants.insert(grant.clone());
        }
        let (choice, text) = decision.words();
        let resolved = Resolved { input: answer.input, origin: answer.origin, choice, text };
        outputs.push(Output::Append(Known::Resolved(resolved)));
        outputs.push(Output::Answer { input: answer.input, decision });
        Ok(())
    }

    /// A device changes model, effort or agent.
    pub(super) fn configure(&mut self, wanted: Configure, outputs: &mut Vec<Output>) -> Result<(), Refused> {
        let not_offered = || Refused::bare(Refusal::NotOffered);
        if !self.terms.abilities.configure {
            return Err(Refused::with(Refusal::NotOffered, "this harness cannot change while it runs"));
        }
        let settings = self.state.settings.as_ref().ok_or_else(not_offered)?;
        let choices = &settings.choices;
        let is_offered = |wanted: &Option<String>, offered: &[String]| {
            wanted.as_ref().is_none_or(|wanted| offered.contains(wanted))
        };
        if !is_offered(&wanted.model, &choices.models) {
            return Err(Refused::bare(Refusal::UnknownModel));
        }
        if !is_offered(&wanted.effort, &choices.efforts) || !is_offered(&wanted.agent, &choices.agents) {
            return Err(not_offered());
        }
        let mut changed = (**settings).clone();
        let Configure { model, effort, agent } = &wanted;
        for (slot, value) in
            [(&mut changed.model, model), (&mut changed.effort, effort), (&mut changed.agent, agent)]
        {
            if value.is_some() {
                slot.clone_from(value);
            }
        }
        if changed != **settings {
            outputs.push(Output::Append(Known::Settings { settings: changed.clone() }));
            self.state.settings = Some(Arc::new(changed));
        }
        let chosen = &mut self.state.chosen;
        for (slot, value) in
            [(&mut chosen.model, model), (&mut chosen.effort, effort), (&mut chosen.agent, agent)]
        {
            if value.is_some() {
                slot.clone_from(value);
            }
        }
        if self.state.agent == super::AgentState::Open {
            outputs.push(Output::Configure(wanted));
        }
        Ok(())
    }
}

/// The matter with `allow_session` offered exactly where there is a grant.
fn offered(matter: Matter, grant: Option<&str>) -> Matter {
    match matter {
        Matter::Confirm(mut confirm) => {
            if grant.is_none() {
                confirm.options.retain(|option| !option.is(&Verdict::AllowSession));
                confirm.session = None;
            }
            Matter::Confirm(confirm)
        }
        Matter::Ask(mut ask) => {
            ask.options.truncate(limits::CHOICES);
            Matter::Ask(ask)
        }
    }
}

fn title(matter: &Matter) -> String {
    let (title, detail) = match matter {
        Matter::Confirm(confirm) => (&confirm.title, confirm.detail.as_str()),
        Matter::Ask(ask) => (&ask.question, ""),
    };
    if title.contains(detail) { one_line(title, 160) } else { one_line(&format!("{title}: {detail}"), 160) }
}

fn size(matter: &Matter) -> usize {
    match matter {
        Matter::Confirm(confirm) => {
            confirm.title.len() + confirm.detail.len() + confirm.session.as_ref().map_or(0, String::len)
        }
        Matter::Ask(ask) => {
            let options = ask.options.iter().map(|option| option.label.len() + option.description.len());
            ask.question.len() + options.sum::<usize>()
        }
    }
}

fn cancelled(input: InputId) -> Output {
    let choice = Some(AnswerChoice::Word(CANCELLED.to_owned()));
    Output::Append(Known::Resolved(Resolved { input, origin: None, choice, text: None }))
}

fn allowed(input: InputId, text: &str, outputs: &mut Vec<Output>) {
    outputs.push(Output::Append(Known::notice(Level::Info, text)));
    outputs.push(Output::Answer { input, decision: Decision::Allow });
}

fn denied(input: InputId, what: &str, why: &str, outputs: &mut Vec<Output>) {
    outputs.push(Output::Append(Known::notice(Level::Warning, format!("Denied, because {why}: {what}"))));
    deny(input, why, outputs);
}

fn deny(input: InputId, why: &str, outputs: &mut Vec<Output>) {
    let text = Some(format!("aude denied this without asking a person, because {why}."));
    outputs.push(Output::Answer { input, decision: Decision::Deny { text } });
}

fn refusal(unfit: Unfit) -> Refused {
    let word = match unfit {
        Unfit::Digest => Refusal::NotPending,
        Unfit::NotOffered => Refusal::NotOffered,
        Unfit::Empty => Refusal::Empty,
        Unfit::TooLarge => Refusal::TooLarge,
    };
    Refused::with(word, unfit.to_string())
}
