//! What the gate and the agent do to the session.

use std::sync::Arc;
use std::time::Duration;

use shared::entry::{Known, Level};
use shared::failure::{Refusal, Refused};
use shared::gate::{Finding, Gate};
use shared::ids::FrameId;
use shared::request::{Configure, Response};
use shared::settings::Settings;
use shared::status::{Ended, Exit, Fate, RanReason};

use super::{AgentState, CLOSE_GRACE, DEATHS, Leftover, Machine, Now, Output, REST, RETRY, Stage, taken};
use crate::config::OtherProvider;
use crate::harness::{AgentEvent, OpenError, Said, TurnEnd};
use crate::session::bounds;

impl Machine {
    pub(super) fn probed(&mut self, finding: Finding, now: Now, outputs: &mut Vec<Output>) {
        if self.state.agent != AgentState::Probing {
            return;
        }
        let may_run = match &finding {
            Finding::Ok => true,
            Finding::OtherProvider => self.terms.other_provider == OtherProvider::Allow,
            Finding::NotLoggedIn
            | Finding::TimedOut
            | Finding::NotFound
            | Finding::Silent { .. }
            | Finding::Unreadable
            | Finding::Spawn { .. }
            | Finding::Unreported => false,
        };
        let gate = Gate { harness: self.terms.harness.clone(), finding: finding.into() };
        outputs.push(Output::Append(Known::Gate { gate }));
        self.state.agent = AgentState::Closed { not_before: Duration::ZERO };
        if !may_run {
            self.leave(Ended::Refused, Leftover::Dropped, now, outputs);
        }
    }

    pub(super) fn opened(&mut self, outputs: &mut Vec<Output>) {
        if self.state.agent == AgentState::Opening {
            self.state.agent = AgentState::Open;
            self.state.is_eager = false;
            if std::mem::take(&mut self.state.is_chosen_late) {
                outputs.push(Output::Configure(self.state.chosen.clone()));
            }
        }
    }

    /// Somebody chose model, effort or agent: from what the harness offers, and kept for an agent that is started later.
    pub(super) fn configure(&mut self, to: FrameId, configure: Configure, outputs: &mut Vec<Output>) {
        if let Err(why) = self.may_choose(&configure) {
            let refused = Refused::with(Refusal::NotOffered, why);
            outputs.push(Output::Respond(to, Response::Refused(refused)));
            return;
        }
        let chosen = &mut self.state.chosen;
        for (kept, new) in [
            (&mut chosen.model, &configure.model),
            (&mut chosen.effort, &configure.effort),
            (&mut chosen.agent, &configure.agent),
        ] {
            if new.is_some() {
                kept.clone_from(new);
            }
        }
        outputs.push(Output::Respond(to, taken(())));
        match self.state.agent {
            AgentState::Open => outputs.push(Output::Configure(configure)),
            AgentState::Opening => self.state.is_chosen_late = true,
            AgentState::Probing | AgentState::Closed { .. } | AgentState::Closing { .. } => {}
        }
    }

    fn may_choose(&self, configure: &Configure) -> Result<(), String> {
        if !self.terms.abilities.configure {
            return Err("this harness cannot change them in mid-session".to_owned());
        }
        let Some(settings) = &self.state.settings else {
            return Err("the agent has not said yet what it offers".to_owned());
        };
        let choices = &settings.choices;
        let lists = [
            ("model", &configure.model, &choices.models),
            ("effort", &configure.effort, &choices.efforts),
            ("agent", &configure.agent, &choices.agents),
        ];
        if lists.iter().all(|(_, wanted, _)| wanted.is_none()) {
            return Err("nothing was chosen".to_owned());
        }
        for (what, wanted, offered) in lists {
            if wanted.as_ref().is_some_and(|wanted| !offered.contains(wanted)) {
                return Err(format!("the agent does not offer this {what}"));
            }
        }
        Ok(())
    }

    pub(super) fn open_failed(&mut self, error: &OpenError, now: Now, outputs: &mut Vec<Output>) {
        match self.state.agent {
            AgentState::Opening => {}
            // It was closed meanwhile; that it never came is as good as gone.
            AgentState::Closing { .. } => return self.gone(now),
            AgentState::Probing | AgentState::Closed { .. } | AgentState::Open => return,
        }
        outputs.push(Output::Append(Known::notice(Level::Error, bounds::sentence(&error.to_string()))));
        self.gone(now);
        match error {
            OpenError::NotFound { .. } => self.leave(Ended::Refused, Leftover::Dropped, now, outputs),
            OpenError::UnknownModel { .. } => {
                self.leave(Ended::UnknownModel, Leftover::Dropped, now, outputs);
            }
            OpenError::Worktree { .. } => self.leave(Ended::Refused, Leftover::Dropped, now, outputs),
            OpenError::Start { .. } => self.died(None, now, outputs),
        }
    }

    pub(super) fn agent_event(&mut self, event: AgentEvent, now: Now, outputs: &mut Vec<Output>) {
        match event {
            AgentEvent::Settings(settings) => self.settings(settings, outputs),
            AgentEvent::Said(said) => self.said(said, outputs),
            AgentEvent::Delta { message, kind, text } => outputs.push(Output::Live { message, kind, text }),
            AgentEvent::Asked(asked) => self.agent_asks(*asked, outputs),
            AgentEvent::Withdrawn(input) => self.withdrawn(input, outputs),
            AgentEvent::TurnEnded(end) => self.turn_ended(&end, now, outputs),
            AgentEvent::Exited(exit) => self.exited(exit, now, outputs),
        }
    }

    fn settings(&mut self, settings: Settings, outputs: &mut Vec<Output>) {
        let worktree = self.restart.fold.facts().worktree.as_ref();
        let branch = settings.branch.clone().or_else(|| worktree.map(|worktree| worktree.branch.clone()));
        let settings = Arc::new(bounds::settings(Settings { branch, ..settings }));
        if self.state.settings.as_ref() != Some(&settings) {
            outputs.push(Output::Append(Known::Settings { settings: (*settings).clone() }));
            self.state.settings = Some(settings);
        }
    }

    fn said(&mut self, said: Said, outputs: &mut Vec<Output>) {
        if let Some(turn) = self.state.turn.as_mut() {
            match &said {
                Said::Assistant(assistant) if !assistant.text.trim().is_empty() => turn.has_answer = true,
                Said::Tool(_) | Said::Result(_) => turn.has_answer = false,
                Said::Assistant(_) | Said::Thinking(_) | Said::Plan(_) | Said::Usage(_) | Said::Notice(_) => {
                }
            }
        }
        outputs.extend(bounds::fit(said).into_iter().map(Output::Append));
    }

    fn turn_ended(&mut self, end: &TurnEnd, now: Now, outputs: &mut Vec<Output>) {
        let Some(turn) = self.state.turn.take() else { return };
        let fate = match (end, turn.ending) {
            // Also when an interrupt crossed it: the turn came to its own end first.
            (TurnEnd::Completed, _) if turn.has_answer => Fate::Answered,
            (TurnEnd::Completed | TurnEnd::Interrupted | TurnEnd::Failed, Some(reason)) => Fate::ran(reason),
            (TurnEnd::Completed, None) => Fate::Ran(None),
            (TurnEnd::Interrupted, None) => Fate::ran(RanReason::Interrupted),
            (TurnEnd::Failed, None) => Fate::ran(RanReason::Failed),
        };
        if *end != TurnEnd::Failed {
            self.state.deaths = 0;
        }
        if *end != TurnEnd::Completed {
            self.state.rest_until = now.elapsed + REST;
        }
        self.state.has_failed = *end == TurnEnd::Failed;
        self.cancel_inputs(outputs);
        self.settle(turn.submission, turn.origin, fate, outputs);
    }

    fn exited(&mut self, exit: Exit, now: Now, outputs: &mut Vec<Output>) {
        let was_asked = match self.state.agent {
            AgentState::Closing { .. } => true,
            AgentState::Opening | AgentState::Open => {
                let is_ending = self.state.turn.as_ref().is_some_and(|turn| turn.ending.is_some());
                is_ending || self.state.stage != Stage::Serving
            }
            AgentState::Probing | AgentState::Closed { .. } => return,
        };
        // An agent that dies in mid-turn says so itself at the end of the turn.
        let is_said = self.state.has_failed && now.elapsed <= self.state.rest_until;
        let is_last = self.state.deaths + 1 >= DEATHS;
        if !was_asked && (is_last || !is_said) {
            let how = match exit {
                Exit::Status(status) => format!("with status {status}"),
                Exit::Signal(signal) => format!("by signal {signal}"),
            };
            let next = if is_last {
                "It is not started again, because that happened too often."
            } else {
                "It is started anew for the next turn."
            };
            let text = format!("The agent ended unexpectedly, {how}. {next}");
            outputs.push(Output::Append(Known::notice(Level::Error, text)));
        }
        self.gone(now);
        self.cancel_inputs(outputs);
        if let Some(turn) = self.state.turn.take() {
            let reason = turn.ending.unwrap_or(RanReason::Failed);
            self.settle(turn.submission, turn.origin, Fate::ran(reason), outputs);
        }
        if !was_asked {
            self.died(Some(exit), now, outputs);
        }
    }

    /// Ends the agent, which says that it is gone before anything else is started.
    pub(super) fn close(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if let Some(turn) = self.state.turn.as_mut() {
            turn.kill_at = None;
        }
        self.cancel_inputs(outputs);
        match self.state.agent {
            AgentState::Opening | AgentState::Open => {
                self.state.agent = AgentState::Closing { sweep_at: Some(now.elapsed + CLOSE_GRACE) };
                outputs.push(Output::Close);
            }
            AgentState::Probing | AgentState::Closed { .. } | AgentState::Closing { .. } => {}
        }
    }

    fn gone(&mut self, now: Now) {
        self.state.agent = AgentState::Closed { not_before: now.elapsed };
    }

    fn died(&mut self, exit: Option<Exit>, now: Now, outputs: &mut Vec<Output>) {
        self.state.deaths += 1;
        self.state.agent = AgentState::Closed { not_before: now.elapsed + RETRY * self.state.deaths };
        if self.state.deaths >= DEATHS {
            self.leave(Ended::Died(exit), Leftover::Dropped, now, outputs);
        }
    }
}
