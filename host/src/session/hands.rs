//! The host's hands on its agent: probes, starts, commands and ends it, and brings back what it does.

use std::collections::VecDeque;
use std::sync::Arc;

use shared::decision::Decision;
use shared::gate::Finding;
use shared::ids::{InputId, SubmissionId};
use shared::record::Facts;
use shared::request::Configure;
use shared::status::Exit;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use super::machine::Input;
use crate::harness::{Agent, AgentCommand, AgentEvent, Harness, OpenError, Opening, Place};
use crate::process;
use crate::worktree::{self, Git};

/// The exit that is reported of an agent that never said how it ended.
const UNTOLD: Exit = Exit::Signal(9);

/// Gate and agent of one session.
pub(super) struct Hands {
    harness: Arc<dyn Harness>,
    place: Place,
    facts: Facts,
    probing: Option<JoinHandle<Finding>>,
    opening: Option<JoinHandle<Result<Agent, OpenError>>>,
    sweeping: Option<JoinHandle<usize>>,
    merging: Option<JoinHandle<Result<(), String>>>,
    commands: Option<mpsc::Sender<AgentCommand>>,
    events: Option<mpsc::Receiver<AgentEvent>>,
    /// What happened without waiting.
    at_once: VecDeque<Input>,
}

impl Hands {
    pub(super) fn new(harness: Arc<dyn Harness>, place: Place, facts: Facts) -> Self {
        Self {
            harness,
            place,
            facts,
            probing: None,
            opening: None,
            sweeping: None,
            merging: None,
            commands: None,
            events: None,
            at_once: VecDeque::new(),
        }
    }

    pub(super) fn probe(&mut self) {
        let (harness, place) = (self.harness.clone(), self.place.clone());
        let (git, worktree) = (self.git(), self.facts.worktree.clone());
        self.probing = Some(tokio::spawn(async move {
            // It is there since the start; it was removed when it was merged, or the start was cut short.
            if let Some(worktree) = worktree
                && let Err(error) = worktree::ensure(&git, &worktree).await
            {
                return Finding::Spawn { detail: error.to_string() };
            }
            harness.probe(&place).await
        }));
    }

    pub(super) fn open(&mut self, conversation: Option<String>, chosen: Configure) {
        let harness = self.harness.clone();
        let opening = Opening {
            place: self.place.clone(),
            conversation,
            model: chosen.model.or_else(|| self.facts.model.clone()),
            effort: chosen.effort.or_else(|| self.facts.effort.clone()),
            agent: chosen.agent.or_else(|| self.facts.agent.clone()),
            permissions: self.place.config.permissions,
        };
        let (git, worktree) = (self.git(), self.facts.worktree.clone());
        self.opening = Some(tokio::spawn(async move {
            if let (Some(worktree), Some(command)) = (worktree, &opening.place.config.worktree.setup) {
                let ready = worktree::set_up(&git, &worktree, command).await;
                ready.map_err(|error| OpenError::Worktree { detail: error.to_string() })?;
            }
            harness.open(opening).await
        }));
    }

    fn git(&self) -> Git {
        Git { run: self.place.run, guard_program: self.place.guard_program.clone() }
    }

    /// Merges the branch of the session and removes its worktree.
    pub(super) fn merge(&mut self) {
        let (git, facts) = (self.git(), self.facts.clone());
        self.merging = Some(tokio::spawn(async move {
            let worktree = facts.worktree.ok_or("this session has no worktree of its own")?;
            let merged = worktree::merge(&git, &worktree, &facts.name).await;
            merged.map(|_| ()).map_err(|error| error.to_string())
        }));
    }

    pub(super) fn turn(&mut self, submission: SubmissionId, text: &str) {
        self.command(AgentCommand::Turn { submission, text: text.to_owned() });
    }

    pub(super) fn interrupt(&mut self) {
        self.command(AgentCommand::Interrupt);
    }

    pub(super) fn answer(&mut self, input: InputId, decision: Decision) {
        self.command(AgentCommand::Answer { input, decision });
    }

    pub(super) fn configure(&mut self, chosen: Configure) {
        self.command(AgentCommand::Configure(chosen));
    }

    /// Where the channel is closed, the agent's end is on its way. One that takes nothing any more is ended: what it misses could be a denial.
    fn command(&mut self, command: AgentCommand) {
        if let Some(commands) = &self.commands
            && commands.try_send(command).is_err()
        {
            tracing::warn!("the agent takes no command any more");
            self.commands = None;
        }
    }

    /// Ends the agent: it hears of it by its commands, and says when it is gone.
    pub(super) fn close(&mut self) {
        self.commands = None;
        if let Some(opening) = self.opening.take() {
            opening.abort();
            self.at_once.push_back(Input::Agent(AgentEvent::Exited(UNTOLD)));
        }
    }

    /// Kills all processes of this run; the agent is then gone, whether it says so or not.
    pub(super) fn sweep(&mut self) {
        self.events = None;
        let run = self.place.run;
        self.sweeping = Some(tokio::task::spawn_blocking(move || process::sweep(run)));
    }

    /// What happens next to gate or agent. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Input {
        if let Some(input) = self.at_once.pop_front() {
            return input;
        }
        tokio::select! {
            found = joined(&mut self.probing) => Input::Probed(found.unwrap_or_else(|detail| Finding::Spawn { detail })),
            opened = joined(&mut self.opening) => {
                match opened.unwrap_or_else(|detail| Err(OpenError::Start { detail })) {
                    Ok(agent) => {
                        self.commands = Some(agent.commands);
                        self.events = Some(agent.events);
                        Input::Opened
                    }
                    Err(error) => Input::OpenFailed(error),
                }
            }
            merged = joined(&mut self.merging) => Input::Merged(merged.unwrap_or_else(Err)),
            _ = joined(&mut self.sweeping) => Input::Agent(AgentEvent::Exited(UNTOLD)),
            event = received(&mut self.events) => self.event(event),
        }
    }

    /// What the agent has done already.
    pub(super) fn try_next(&mut self) -> Option<Input> {
        if let Some(input) = self.at_once.pop_front() {
            return Some(input);
        }
        match self.events.as_mut()?.try_recv() {
            Ok(event) => Some(self.event(Some(event))),
            Err(mpsc::error::TryRecvError::Empty) => None,
            Err(mpsc::error::TryRecvError::Disconnected) => Some(self.event(None)),
        }
    }

    fn event(&mut self, event: Option<AgentEvent>) -> Input {
        let event = event.unwrap_or(AgentEvent::Exited(UNTOLD));
        if matches!(event, AgentEvent::Exited(_)) {
            self.commands = None;
            self.events = None;
        }
        Input::Agent(event)
    }

    /// Lets go of everything; what the harness still runs ends with it.
    pub(super) async fn end(&mut self) {
        if let Some(probing) = self.probing.take() {
            probing.abort();
        }
        if let Some(opening) = self.opening.take() {
            opening.abort();
        }
        self.commands = None;
        self.events = None;
        // The aborted tasks drop what they own here, while there is a runtime to end it.
        tokio::task::yield_now().await;
    }
}

/// The result of a task that may not be there; why it has none otherwise.
async fn joined<T>(task: &mut Option<JoinHandle<T>>) -> Result<T, String> {
    let Some(running) = task else { return std::future::pending().await };
    let result = running.await;
    *task = None;
    result.map_err(|_| "it failed inside of aude; this is a bug".to_owned())
}

async fn received(events: &mut Option<mpsc::Receiver<AgentEvent>>) -> Option<AgentEvent> {
    match events {
        Some(events) => events.recv().await,
        None => std::future::pending().await,
    }
}
