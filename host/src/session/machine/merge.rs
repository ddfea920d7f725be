//! Merging the branch of the session, between turns: nobody works in the worktree while it is looked at and removed.

use shared::entry::Known;
use shared::failure::{Refusal, Refused};
use shared::ids::FrameId;
use shared::kind::Empty;
use shared::request::Response;
use shared::status::Ended;

use super::{AgentState, Leftover, Machine, Now, Output, Stage};

/// A merge that somebody waits for.
#[derive(Debug, Clone)]
pub(super) struct Merging {
    to: FrameId,
    is_running: bool,
}

impl Machine {
    pub(super) fn merge(&mut self, to: &FrameId) -> Result<(), Refused> {
        let running = |detail: &str| Err(Refused::with(Refusal::Running, detail));
        if self.restart.fold.facts().worktree.is_none() {
            return Err(Refused::with(Refusal::NotOffered, "this session has no worktree of its own"));
        }
        if self.state.merging.is_some() {
            return running("the session is being merged already");
        }
        if self.state.turn.is_some() || !self.state.queue.is_empty() {
            return running("the session still works: wait for its turns, or interrupt it, then merge again");
        }
        self.state.merging = Some(Merging { to: to.clone(), is_running: false });
        Ok(())
    }

    /// Begins a merge as soon as nobody works in the worktree; true while nothing else may happen.
    pub(super) fn advance_merge(&mut self, outputs: &mut Vec<Output>) -> bool {
        let is_leaving = matches!(self.state.stage, Stage::Leaving { .. });
        let agent_rests = match self.state.agent {
            AgentState::Closed { .. } => true,
            // An idle agent is left alone where the session goes on if it cannot be merged.
            AgentState::Open => !is_leaving,
            AgentState::Probing => is_leaving,
            AgentState::Opening | AgentState::Closing { .. } => false,
        };
        let is_idle = agent_rests && self.state.turn.is_none();
        let Some(merging) = &mut self.state.merging else { return false };
        if !merging.is_running && is_idle {
            merging.is_running = true;
            outputs.push(Output::Merge);
        }
        merging.is_running
    }

    pub(super) fn merged(&mut self, result: Result<(), String>, now: Now, outputs: &mut Vec<Output>) {
        let Some(merging) = self.state.merging.take() else { return };
        let is_merged = result.is_ok();
        let response = match result {
            Ok(()) => {
                outputs.push(Output::Append(Known::Merged { merged: Empty {} }));
                Response::Taken(Empty {})
            }
            Err(detail) => Response::Refused(Refused::with(Refusal::Conflict, detail)),
        };
        outputs.push(Output::Respond(merging.to, response));
        // The agent stands in a folder that is gone; the next turn gets a new one.
        if is_merged {
            self.leave(Ended::Stopped, Leftover::Kept, now, outputs);
        }
    }
}
