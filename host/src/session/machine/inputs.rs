//! Questions and approvals (wire §5.3): asked once, decided once, cancelled with their turn; nothing is ever approved by itself.

use std::sync::Arc;

use shared::decision::{CANCELLED, Decision, Matter, Unfit};
use shared::entry::{Known, Level, Origin, Resolved};
use shared::failure::{Refusal, Refused};
use shared::ids::{FrameId, InputId};
use shared::json::cut;
use shared::limits;
use shared::request::{Answer, AnswerChoice, Response};

use super::{Machine, Output, taken};
use crate::config::{Permissions, Verdict};
use crate::harness::Asked;
use crate::session::bounds;

/// Decided inputs that are remembered, so that an answer that comes again is known and a late one is told why it is late.
pub(super) const DECIDED: usize = 256;
/// Grants of one run; a person presses no more buttons.
pub(super) const GRANTS: usize = 256;
/// How much of what is decided a notice shows, in bytes.
const SHOWN_BYTES: usize = 512;

/// An input that waits for a person.
#[derive(Debug, Clone)]
pub(super) struct Waits {
    matter: Arc<Matter>,
    digest: Arc<str>,
    grant: Option<Arc<str>>,
}

/// What became of an input in this run.
#[derive(Debug, Clone)]
pub(super) struct Decided {
    input: InputId,
    digest: Arc<str>,
    /// What was decided and by whom; `None` when it was cancelled.
    by: Option<(Arc<Origin>, Arc<Decision>)>,
}

impl Machine {
    /// The agent waits for a decision.
    pub(super) fn agent_asks(&mut self, asked: Asked, outputs: &mut Vec<Output>) {
        let Asked { input, matter, subject, grant } = asked;
        if self.state.inputs.contains_key(&input)
            || self.state.decided.iter().any(|known| known.input == input)
        {
            // It was asked already; the one answer that it gets is on its way.
            return;
        }
        let deny =
            |text: &str| Output::Answer { input, decision: Decision::Deny { text: Some(text.to_owned()) } };
        let Some(turn) = self.state.turn.as_ref().filter(|turn| turn.ending.is_none()) else {
            outputs.push(deny("The turn is over."));
            return;
        };
        let submission = turn.submission.clone();
        let matter = match bounds::matter(matter, grant.as_deref()) {
            Ok(matter) => matter,
            Err(why) => {
                outputs.push(Output::Append(Known::notice(Level::Warning, format!("Denied unasked: {why}"))));
                outputs.push(deny(why));
                return;
            }
        };
        let what = shown(&matter);
        let judged = subject.as_ref().and_then(|subject| self.terms.policy.judge(subject));
        let is_granted = grant.as_deref().is_some_and(|grant| self.state.grants.contains(grant));
        match judged {
            Some((Verdict::Allow, number)) => {
                let text = format!("Allowed by rule {number} of config.toml: {what}");
                outputs.push(Output::Append(Known::notice(Level::Info, text)));
                outputs.push(Output::Answer { input, decision: Decision::Allow });
                return;
            }
            Some((Verdict::Deny, number)) => {
                let text = format!("Denied by rule {number} of config.toml: {what}");
                outputs.push(Output::Append(Known::notice(Level::Warning, text)));
                outputs
                    .push(deny("A rule of the machine's owner forbids this. Do not try it in another way."));
                return;
            }
            Some((Verdict::Ask, _)) | None if is_granted => {
                let text = format!("Allowed, as it was allowed for this session: {what}");
                outputs.push(Output::Append(Known::notice(Level::Info, text)));
                outputs.push(Output::Answer { input, decision: Decision::Allow });
                return;
            }
            Some((Verdict::Ask, _)) => {}
            None if self.terms.permissions == Permissions::Deny => {
                let text = format!("Denied, because permissions = \"deny\" asks nobody: {what}");
                outputs.push(Output::Append(Known::notice(Level::Warning, text)));
                outputs.push(deny("Nobody watches this session, so nobody can be asked."));
                return;
            }
            None => {}
        }
        if self.state.inputs.len() >= limits::INPUTS {
            let text = format!("Denied, because {} questions are open already: {what}", limits::INPUTS);
            outputs.push(Output::Append(Known::notice(Level::Warning, text)));
            outputs
                .push(deny("Too many questions are open at once. Wait for their answers, then ask again."));
            return;
        }
        let entry = matter.clone().into_input(input, submission);
        let waits = Waits {
            matter: Arc::new(matter),
            digest: entry.digest.as_str().into(),
            grant: grant.map(Into::into),
        };
        self.state.inputs.insert(input, waits);
        outputs.push(Output::Append(Known::Input(entry)));
    }

    /// The agent does not wait any more, by its own will.
    pub(super) fn withdrawn(&mut self, input: InputId, outputs: &mut Vec<Output>) {
        if let Some(waits) = self.state.inputs.remove(&input) {
            self.cancel(input, waits, outputs);
        }
    }

    /// Somebody answers.
    pub(super) fn answer(&mut self, to: FrameId, answer: &Answer, origin: Origin, outputs: &mut Vec<Output>) {
        let refuse = |refusal: Refusal, why: String| Response::Refused(Refused::with(refusal, why));
        let Some(waits) = self.state.inputs.get(&answer.input) else {
            let response = self.answer_late(answer, &origin);
            outputs.push(Output::Respond(to, response));
            return;
        };
        let decision = match waits.matter.decide(&waits.digest, answer) {
            Ok(decision) => decision,
            Err(unfit) => {
                let refusal = match unfit {
                    Unfit::Digest => Refusal::NotPending,
                    Unfit::NotOffered => Refusal::NotOffered,
                    Unfit::Empty => Refusal::Empty,
                    Unfit::TooLarge => Refusal::TooLarge,
                };
                outputs.push(Output::Respond(to, refuse(refusal, unfit.to_string())));
                return;
            }
        };
        let Some(waits) = self.state.inputs.remove(&answer.input) else { return };
        if let (Decision::AllowSession, Some(grant)) = (&decision, &waits.grant)
            && self.state.grants.len() < GRANTS
        {
            self.state.grants.insert(Arc::clone(grant));
        }
        let (choice, text) = decision.words();
        let resolved = Resolved { input: answer.input, origin: Some(origin.clone()), choice, text };
        outputs.push(Output::Append(Known::Resolved(resolved)));
        outputs.push(Output::Respond(to, taken(())));
        outputs.push(Output::Answer { input: answer.input, decision: told(&decision) });
        let by = Some((Arc::new(origin), Arc::new(decision)));
        self.remember(Decided { input: answer.input, digest: waits.digest, by });
    }

    /// The answer to what is not open (any more): the same one from the same device is taken again.
    fn answer_late(&self, answer: &Answer, origin: &Origin) -> Response {
        let refuse = |why: String| Response::Refused(Refused::with(Refusal::NotPending, why));
        let Some(known) = self.state.decided.iter().find(|known| known.input == answer.input) else {
            return refuse(
                "nothing of that id is open; what an earlier run of the session asked was cancelled"
                    .to_owned(),
            );
        };
        let Some((who, decision)) = &known.by else {
            return refuse(
                "it was cancelled, because the agent or its turn did not wait for it any more".to_owned(),
            );
        };
        let is_same_sender = match (who.device, origin.device) {
            (Some(known), Some(sender)) => known == sender,
            (None, None) => who.connection == origin.connection,
            (Some(_), None) | (None, Some(_)) => false,
        };
        let text = answer.text.as_deref().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned);
        let is_same = (answer.choice.clone(), text) == decision.words() && *answer.digest == *known.digest;
        if is_same_sender && is_same {
            return taken(());
        }
        refuse(format!("{} has decided it already: {}", who.name, said(decision)))
    }

    /// Resolves all that is open as cancelled; before the agent is told anything.
    pub(super) fn cancel_inputs(&mut self, outputs: &mut Vec<Output>) {
        for (input, waits) in std::mem::take(&mut self.state.inputs) {
            self.cancel(input, waits, outputs);
        }
    }

    fn cancel(&mut self, input: InputId, waits: Waits, outputs: &mut Vec<Output>) {
        outputs.push(Output::Append(cancelled(input)));
        self.remember(Decided { input, digest: waits.digest, by: None });
    }

    fn remember(&mut self, decided: Decided) {
        if self.state.decided.len() >= DECIDED {
            self.state.decided.pop_front();
        }
        self.state.decided.push_back(decided);
    }
}

/// The entry of an input that nobody decided.
pub(super) fn cancelled(input: InputId) -> Known {
    let choice = Some(AnswerChoice::Word(CANCELLED.to_owned()));
    Known::Resolved(Resolved { input, origin: None, choice, text: None })
}

/// What the agent is told of a decision. What holds for the session is remembered here alone: an agent that remembers it, too, would use it unseen.
fn told(decision: &Decision) -> Decision {
    match decision {
        Decision::AllowSession => Decision::Allow,
        Decision::Allow | Decision::Deny { .. } | Decision::Chosen(_) | Decision::Said(_) => decision.clone(),
    }
}

/// What is decided, short, for a notice.
fn shown(matter: &Matter) -> String {
    let text = match matter {
        Matter::Ask(ask) => ask.question.clone(),
        Matter::Confirm(confirm) => format!("{}: {}", confirm.title, confirm.detail),
    };
    let short = cut(&text, SHOWN_BYTES);
    if short.len() < text.len() { format!("{short}…") } else { text }
}

fn said(decision: &Decision) -> String {
    match decision.words() {
        (Some(AnswerChoice::Word(word)), _) => word,
        (Some(AnswerChoice::Labels(labels)), _) => cut(&labels.join(", "), SHOWN_BYTES).to_owned(),
        (None, text) => cut(&text.unwrap_or_default(), SHOWN_BYTES).to_owned(),
    }
}
