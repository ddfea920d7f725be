//! The session as a pure machine: what happens comes in with the time, what is to be done comes out in order.
//!
//! Nothing is done before what was appended ahead of it is durable. A crash is the loss of this machine: a new one made from the log goes on
//! ([`super::restart`]).

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use shared::decision::Decision;
use shared::entry::{Known, Level, Origin, User};
use shared::failure::{Refusal, Refused};
use shared::fingerprint::Fingerprint;
use shared::fold::{Content, Seen};
use shared::frame::DeltaKind;
use shared::gate::Finding;
use shared::ids::{FrameId, InputId, PartId, SubmissionId};
use shared::kind::Empty;
use shared::limits;
use shared::request::{Answer, Configure, Device, Response};
use shared::settings::Settings;
use shared::status::{Began, DropReason, Ended, Fate, Phase, RanReason, Settled, Status};
use shared::time::Timestamp;

use super::policy::Policy;
use super::restart::{Restart, Waiting};
use crate::config::{OtherProvider, Permissions};
use crate::harness::{Abilities, AgentEvent, OpenError};

mod agent;
mod inputs;
mod merge;
#[cfg(test)]
mod tests;

/// How long an agent may take to end a turn that was interrupted; then it is killed. Agents answer in well under a second.
const INTERRUPT_GRACE: Duration = Duration::from_secs(10);
/// The same when the whole session ends: nobody waits for the agent's last words.
const STOP_GRACE: Duration = Duration::from_secs(3);
/// How long a closed agent may take to be gone before its processes are swept; longer than `process::Owned::kill` takes.
const CLOSE_GRACE: Duration = Duration::from_secs(12);
/// An agent that died so often without a completed turn is not started again.
const DEATHS: u32 = 3;
/// The pause before an agent that failed to start is tried again, times the number of deaths.
const RETRY: Duration = Duration::from_millis(500);
/// The pause after a turn that was interrupted or failed: an agent that is dying says so meanwhile, and takes no other turn with it.
const REST: Duration = Duration::from_millis(250);

/// How long a host whose agent may not run stays for whoever had it started: its link opens within milliseconds, and what is asked over it is
/// then answered instead of lost.
const LINGER: Duration = Duration::from_secs(2);

/// The time of an input.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Now {
    /// For people, and for the log.
    pub(super) clock: Timestamp,
    /// Since this host began; it never jumps.
    pub(super) elapsed: Duration,
}

/// What is fixed for one run of the host.
#[derive(Debug, Clone)]
pub(super) struct Terms {
    /// The word of the harness.
    pub(super) harness: String,
    /// What the harness can do.
    pub(super) abilities: Abilities,
    /// What becomes of the finding `other_provider`.
    pub(super) other_provider: OtherProvider,
    /// What agents may do without being asked.
    pub(super) permissions: Permissions,
    /// The rules for approvals.
    pub(super) policy: Policy,
    /// An agent that had nothing to do for so long is ended, until there is something to do.
    pub(super) unload_after: Option<Duration>,
    /// Why this host was started.
    pub(super) purpose: Purpose,
    /// The entry with which this run begins.
    pub(super) began: Began,
    /// The machine's own key, which `revoke all` does not mean.
    pub(super) owner: Option<Fingerprint>,
}

/// Why a host was started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// To run the session.
    Serve,
    /// To say what became of a run that died; it stays only where turns wait.
    Reconcile,
}

/// What happens to a session.
#[derive(Debug, Clone)]
pub(super) enum Input {
    /// The process has begun; once, and first.
    Start,
    /// The listener asks.
    Asked(FrameId, Ask),
    /// The gate was probed.
    Probed(Finding),
    /// The agent is there.
    Opened,
    /// The agent could not be started.
    OpenFailed(OpenError),
    /// The agent did something.
    Agent(AgentEvent),
    /// The branch was merged, or why not.
    Merged(Result<(), String>),
    /// The process is to end (SIGTERM).
    Terminate,
    /// Time has passed.
    Tick,
}

/// What a listener asks of a host.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Ask {
    /// One turn; the id of the frame is the id of the submission.
    Submit {
        /// Its lines.
        text: String,
        /// Its budget, in seconds.
        budget: Option<u64>,
        /// Its sender.
        origin: Origin,
    },
    /// End the running turn, or none when another submission than the named one runs.
    Interrupt(Option<SubmissionId>),
    /// Decide a question or an approval.
    Answer(Answer, Origin),
    /// Change model, effort or agent.
    Configure(Configure),
    /// End the session.
    Stop,
    /// Settle what a device sent.
    Revoke(Device),
    /// All prerequisites have answered.
    Release,
    /// Merge the branch of the session.
    Merge,
}

/// What is to be done, in order.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Output {
    /// Log this; everything after it waits until it is durable.
    Append(Known),
    /// Answer the listener.
    Respond(FrameId, Response),
    /// Send live text.
    Live {
        /// The message or call that it belongs to.
        message: PartId,
        /// What it will become.
        kind: DeltaKind,
        /// The text.
        text: String,
    },
    /// Probe the gate; [`Input::Probed`] follows.
    Probe,
    /// Start the agent; [`Input::Opened`] or [`Input::OpenFailed`] follows.
    Open {
        /// The conversation that goes on.
        conversation: Option<String>,
        /// What was chosen since the session began.
        chosen: Configure,
    },
    /// Tell the agent what was chosen.
    Configure(Configure),
    /// Give the agent a turn.
    Turn {
        /// The submission.
        submission: SubmissionId,
        /// Its lines.
        text: Arc<str>,
    },
    /// End the agent's turn.
    Interrupt,
    /// Tell the agent what was decided.
    Answer {
        /// What it asked.
        input: InputId,
        /// What was decided.
        decision: Decision,
    },
    /// End the agent, also one that is being started; [`AgentEvent::Exited`] follows.
    Close,
    /// Kill all processes of this run; [`AgentEvent::Exited`] follows.
    Sweep,
    /// Merge the branch of the session; [`Input::Merged`] follows.
    Merge,
    /// End the process.
    Exit,
}

/// The decisions of one run of a session host.
#[derive(Debug)]
pub(super) struct Machine {
    terms: Terms,
    restart: Restart,
    /// What this run has taken; the earlier ones are in the fold of the restart.
    taken: BTreeMap<SubmissionId, Content>,
    /// What was taken since the last [`Machine::save`].
    fresh: Vec<SubmissionId>,
    state: State,
}

/// A state to which a machine can return when what it wanted to log was not logged.
#[derive(Debug)]
pub(super) struct Saved(State);

#[derive(Debug, Clone)]
struct State {
    stage: Stage,
    is_held: bool,
    agent: AgentState,
    /// The agent is started without waiting for a submission: the first time in a run.
    is_eager: bool,
    queue: VecDeque<Waiting>,
    turn: Option<Turn>,
    last: Option<SubmissionId>,
    status: Option<Status>,
    settings: Option<Arc<Settings>>,
    /// Who wants the branch merged; no turn begins meanwhile.
    merging: Option<merge::Merging>,
    deaths: u32,
    /// No turn begins before.
    rest_until: Duration,
    /// The last turn failed, and the agent has said why.
    has_failed: bool,
    /// What waits for a person.
    inputs: BTreeMap<InputId, inputs::Waits>,
    /// What was decided last, oldest first.
    decided: VecDeque<inputs::Decided>,
    /// What was allowed until this host ends.
    grants: BTreeSet<Arc<str>>,
    /// What was chosen since the session began.
    chosen: Configure,
    /// It was chosen while the agent was being started.
    is_chosen_late: bool,
    /// Since when the agent has nothing to do.
    idle_since: Option<Duration>,
    /// Somebody has asked for a turn, a merge or the end: whoever had this host started was heard.
    is_heard: bool,
}

#[derive(Debug, Clone, PartialEq)]
enum Stage {
    Fresh,
    Serving,
    Leaving { ended: Ended, queue: Leftover },
    Over,
}

/// What becomes of the submissions that wait when the host ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Leftover {
    /// They are dropped.
    Dropped,
    /// The next host runs them.
    Kept,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AgentState {
    Probing,
    Closed { not_before: Duration },
    Opening,
    Open,
    Closing { sweep_at: Option<Duration> },
}

#[derive(Debug, Clone)]
struct Turn {
    submission: SubmissionId,
    origin: Origin,
    /// The end of the budget, for people.
    deadline: Option<Timestamp>,
    /// The end of the budget.
    budget_end: Option<Duration>,
    /// Why it is being ended.
    ending: Option<RanReason>,
    /// When the agent is killed because the turn does not end.
    kill_at: Option<Duration>,
    /// The last thing of substance in it was a text of the assistant.
    has_answer: bool,
}

impl Machine {
    /// The machine of a run that has not begun.
    pub(super) fn new(terms: Terms, restart: Restart) -> Self {
        let is_held = !restart.fold.facts().prerequisites.is_empty() && !restart.was_released;
        let state = State {
            stage: Stage::Fresh,
            is_held,
            agent: AgentState::Probing,
            is_eager: true,
            queue: VecDeque::new(),
            turn: None,
            last: restart.last.clone(),
            status: None,
            settings: restart.fold.settings().cloned().map(Arc::new),
            merging: None,
            deaths: 0,
            rest_until: Duration::ZERO,
            has_failed: false,
            inputs: BTreeMap::new(),
            decided: VecDeque::new(),
            grants: BTreeSet::new(),
            chosen: restart.chosen.clone(),
            is_chosen_late: false,
            idle_since: None,
            is_heard: false,
        };
        Self { terms, restart, taken: BTreeMap::new(), fresh: Vec::new(), state }
    }

    /// Takes an input, and adds what is to be done.
    pub(super) fn handle(&mut self, input: Input, now: Now, outputs: &mut Vec<Output>) {
        if self.state.stage == Stage::Over {
            return;
        }
        match input {
            Input::Start => self.start(outputs),
            Input::Asked(to, ask) => self.asked(to, ask, now, outputs),
            Input::Probed(finding) => self.probed(finding, now, outputs),
            Input::Opened => self.opened(outputs),
            Input::OpenFailed(error) => self.open_failed(&error, now, outputs),
            Input::Agent(event) => self.agent_event(event, now, outputs),
            Input::Merged(result) => self.merged(result, now, outputs),
            Input::Terminate => self.leave(Ended::Stopped, Leftover::Kept, now, outputs),
            Input::Tick => {}
        }
        self.pass_time(now, outputs);
        self.advance(now, outputs);
        self.note_idleness(now);
        self.tell_status(outputs);
    }

    /// When this machine wants a [`Input::Tick`], as time since the host began.
    pub(super) fn deadline(&self) -> Option<Duration> {
        let turn = self.state.turn.as_ref();
        let budget_end = turn.filter(|turn| turn.ending.is_none()).and_then(|turn| turn.budget_end);
        let kill_at = turn.and_then(|turn| turn.kill_at);
        let agent = match self.state.agent {
            AgentState::Closed { not_before } if self.wants_agent() => Some(not_before),
            AgentState::Closing { sweep_at } => sweep_at,
            AgentState::Open if turn.is_none() && self.wants_agent() => Some(self.state.rest_until),
            AgentState::Open => self.unload_at(),
            AgentState::Probing | AgentState::Closed { .. } | AgentState::Opening => None,
        };
        let linger = self.lingers().then_some(LINGER);
        [budget_end, kill_at, agent, linger].into_iter().flatten().min()
    }

    /// The state to which [`Machine::restore`] returns.
    pub(super) fn save(&mut self) -> Saved {
        self.fresh.clear();
        Saved(self.state.clone())
    }

    /// Forgets all inputs since `saved` was made; only the last one can be restored.
    pub(super) fn restore(&mut self, saved: Saved) {
        for id in self.fresh.drain(..) {
            self.taken.remove(&id);
        }
        self.state = saved.0;
    }

    /// Says what became of the run before, then begins this one.
    fn start(&mut self, outputs: &mut Vec<Output>) {
        for text in &self.restart.notices {
            outputs.push(Output::Append(Known::notice(Level::Warning, text)));
        }
        let has_died = self.restart.fold.began().is_some() && self.restart.fold.ended().is_none();
        if has_died {
            // The history has neither `settled` nor `ended`: without this it would just stop.
            let waiting = self.restart.waiting.len().min(limits::QUEUE);
            let notice = self.restart.progress.notice(self.restart.lost.len(), waiting);
            outputs.extend(notice.map(|text| Output::Append(Known::notice(Level::Warning, text))));
        }
        for input in self.restart.fold.inputs() {
            outputs.push(Output::Append(inputs::cancelled(*input)));
        }
        for (submission, origin) in self.restart.lost.clone() {
            self.settle(submission, origin, Fate::ran(RanReason::Lost), outputs);
        }
        for waiting in self.restart.revoked.clone() {
            self.settle(waiting.submission, waiting.origin, Fate::dropped(DropReason::Revoked), outputs);
        }
        self.state.queue = self.restart.waiting.clone().into();
        while self.state.queue.len() > limits::QUEUE {
            // A crash between its `user` and its `settled` entry; it was never acknowledged.
            if let Some(excess) = self.state.queue.pop_back() {
                self.settle(excess.submission, excess.origin, Fate::dropped(DropReason::QueueFull), outputs);
            }
        }
        if has_died {
            outputs.push(Output::Append(Known::Ended { ended: Ended::Died(None).into() }));
        }
        if self.terms.purpose == Purpose::Reconcile && self.state.queue.is_empty() {
            self.state.stage = Stage::Over;
            outputs.push(Output::Exit);
            return;
        }
        self.state.stage = Stage::Serving;
        outputs.push(Output::Append(Known::Began { began: self.terms.began.clone() }));
        let conversation = self.state.settings.as_ref().and_then(|settings| settings.conversation.as_ref());
        if conversation.is_some() && !self.terms.abilities.resume {
            let text = "This harness cannot go on with an earlier conversation: the agent starts without it.";
            outputs.push(Output::Append(Known::notice(Level::Warning, text)));
        }
        outputs.push(Output::Probe);
    }

    fn asked(&mut self, to: FrameId, ask: Ask, now: Now, outputs: &mut Vec<Output>) {
        self.state.is_heard |= matches!(ask, Ask::Submit { .. } | Ask::Merge | Ask::Stop);
        let response = match ask {
            Ask::Submit { text, budget, origin } => {
                self.submit(&to, text, budget, origin, outputs).map_or_else(Response::Refused, taken)
            }
            Ask::Interrupt(named) => {
                let is_meant = named.is_none_or(|named| self.runs(&named));
                if is_meant {
                    self.end_turn(RanReason::Interrupted, INTERRUPT_GRACE, now, outputs);
                }
                taken(())
            }
            Ask::Answer(answer, origin) => return self.answer(to, &answer, origin, outputs),
            Ask::Configure(configure) => return self.configure(to, configure, outputs),
            Ask::Stop => {
                self.leave(Ended::Stopped, Leftover::Dropped, now, outputs);
                taken(())
            }
            Ask::Revoke(device) => {
                self.revoke(&device, now, outputs);
                taken(())
            }
            Ask::Merge => match self.merge(&to) {
                // The answer follows with [`Input::Merged`].
                Ok(()) => return,
                Err(refused) => Response::Refused(refused),
            },
            Ask::Release => {
                self.state.is_held = false;
                taken(())
            }
        };
        outputs.push(Output::Respond(to, response));
    }

    fn submit(
        &mut self,
        id: &SubmissionId,
        text: String,
        budget: Option<u64>,
        origin: Origin,
        outputs: &mut Vec<Output>,
    ) -> Result<(), Refused> {
        if text.trim().is_empty() {
            return Err(Refused::bare(Refusal::Empty));
        }
        if text.len() > limits::TEXT_BYTES {
            return Err(Refused::bare(Refusal::TooLarge));
        }
        if budget.is_some_and(|seconds| !(1..=limits::BUDGET_SECONDS_MAX).contains(&seconds)) {
            let detail = format!("a budget is 1 to {} seconds", limits::BUDGET_SECONDS_MAX);
            return Err(Refused::with(Refusal::TooLarge, detail));
        }
        let content = Content::of(&text, budget);
        match self.seen(id, content) {
            Seen::Again { .. } => return Ok(()),
            Seen::Conflict => return Err(Refused::bare(Refusal::IdConflict)),
            Seen::New => {}
        }
        let user = User { text: text.clone(), origin: origin.clone(), submission: id.clone(), budget };
        outputs.push(Output::Append(Known::User(user)));
        self.taken.insert(id.clone(), content);
        self.fresh.push(id.clone());
        let dropped = match &self.state.stage {
            Stage::Leaving { queue: Leftover::Dropped, .. } => Some(DropReason::Stopped),
            Stage::Fresh | Stage::Serving | Stage::Leaving { queue: Leftover::Kept, .. } | Stage::Over => {
                (self.state.queue.len() >= limits::QUEUE).then_some(DropReason::QueueFull)
            }
        };
        match dropped {
            Some(reason) => self.settle(id.clone(), origin, Fate::dropped(reason), outputs),
            None => {
                let waiting = Waiting { submission: id.clone(), text: text.into(), budget, origin };
                self.state.queue.push_back(waiting);
            }
        }
        Ok(())
    }

    fn seen(&self, id: &SubmissionId, content: Content) -> Seen {
        match self.taken.get(id) {
            Some(known) if *known == content => Seen::Again { settled: None },
            Some(_) => Seen::Conflict,
            None => self.restart.fold.seen(id, content),
        }
    }

    fn runs(&self, id: &SubmissionId) -> bool {
        self.state.turn.as_ref().is_some_and(|turn| turn.submission == *id)
    }

    fn revoke(&mut self, device: &Device, now: Now, outputs: &mut Vec<Output>) {
        let owner = self.terms.owner;
        let is_meant = |origin: &Origin| match (origin.device, device) {
            (Some(sender), Device::All) => Some(sender) != owner,
            (Some(sender), Device::One(revoked)) => sender == *revoked,
            (None, Device::All | Device::One(_)) => false,
        };
        let (revoked, kept): (VecDeque<_>, VecDeque<_>) =
            std::mem::take(&mut self.state.queue).into_iter().partition(|waiting| is_meant(&waiting.origin));
        self.state.queue = kept;
        for waiting in revoked {
            self.settle(waiting.submission, waiting.origin, Fate::dropped(DropReason::Revoked), outputs);
        }
        if self.state.turn.as_ref().is_some_and(|turn| is_meant(&turn.origin)) {
            self.end_turn(RanReason::Interrupted, INTERRUPT_GRACE, now, outputs);
        }
    }

    /// Begins to end the session; [`Machine::advance`] goes on once the turn and the agent are over.
    fn leave(&mut self, ended: Ended, queue: Leftover, now: Now, outputs: &mut Vec<Output>) {
        let (ended, queue) = match &self.state.stage {
            // The first reason stands, but a `stop` during a SIGTERM drops the queue.
            Stage::Leaving { ended, queue: Leftover::Kept } => (ended.clone(), queue),
            Stage::Leaving { .. } | Stage::Over => return,
            Stage::Fresh | Stage::Serving => (ended, queue),
        };
        self.state.stage = Stage::Leaving { ended, queue };
        if queue == Leftover::Dropped {
            for waiting in std::mem::take(&mut self.state.queue) {
                self.settle(waiting.submission, waiting.origin, Fate::dropped(DropReason::Stopped), outputs);
            }
        }
        self.end_turn(RanReason::Interrupted, STOP_GRACE, now, outputs);
    }

    /// Does what can be done next: begins a turn, starts the agent, or ends the process.
    fn advance(&mut self, now: Now, outputs: &mut Vec<Output>) {
        if self.advance_merge(outputs) {
            return;
        }
        match &self.state.stage {
            Stage::Leaving { ended, .. } => {
                let ended = ended.clone();
                self.advance_leaving(ended, now, outputs);
            }
            Stage::Serving => self.advance_serving(now, outputs),
            Stage::Fresh | Stage::Over => {}
        }
    }

    fn advance_leaving(&mut self, ended: Ended, now: Now, outputs: &mut Vec<Output>) {
        if self.state.turn.is_some() {
            return;
        }
        match self.state.agent {
            AgentState::Opening | AgentState::Open => self.close(now, outputs),
            AgentState::Closing { .. } => {}
            AgentState::Probing | AgentState::Closed { .. } if self.lingers() && now.elapsed < LINGER => {}
            AgentState::Probing | AgentState::Closed { .. } => {
                self.tell_status(outputs);
                outputs.push(Output::Append(Known::Ended { ended: ended.into() }));
                outputs.push(Output::Exit);
                self.state.stage = Stage::Over;
            }
        }
    }

    /// Whether this host ends by itself before it has heard anybody.
    fn lingers(&self) -> bool {
        let is_alone = matches!(self.state.agent, AgentState::Probing | AgentState::Closed { .. });
        match &self.state.stage {
            Stage::Leaving {
                ended: Ended::Refused | Ended::UnknownModel | Ended::InstructionsFile, ..
            } => is_alone && !self.state.is_heard,
            Stage::Leaving { ended: Ended::Stopped | Ended::Died(_), .. }
            | Stage::Fresh
            | Stage::Serving
            | Stage::Over => false,
        }
    }

    fn advance_serving(&mut self, now: Now, outputs: &mut Vec<Output>) {
        match self.state.agent {
            AgentState::Closed { not_before } if self.wants_agent() && not_before <= now.elapsed => {
                self.state.agent = AgentState::Opening;
                let settings = self.state.settings.as_ref().filter(|_| self.terms.abilities.resume);
                let conversation = settings.and_then(|settings| settings.conversation.clone());
                self.state.is_chosen_late = false;
                self.tell_status(outputs);
                outputs.push(Output::Open { conversation, chosen: self.state.chosen.clone() });
            }
            AgentState::Open
                if self.state.turn.is_none()
                    && !self.state.is_held
                    && self.state.rest_until <= now.elapsed =>
            {
                if let Some(next) = self.state.queue.pop_front() {
                    self.begin_turn(next, now, outputs);
                }
            }
            AgentState::Probing
            | AgentState::Closed { .. }
            | AgentState::Opening
            | AgentState::Open
            | AgentState::Closing { .. } => {}
        }
    }

    fn wants_agent(&self) -> bool {
        let has_use = self.state.is_eager || !self.state.queue.is_empty();
        self.state.stage == Stage::Serving && !self.state.is_held && has_use
    }

    fn begin_turn(&mut self, next: Waiting, now: Now, outputs: &mut Vec<Output>) {
        let turn = Turn {
            submission: next.submission.clone(),
            origin: next.origin,
            deadline: next.budget.map(|seconds| now.clock.plus_milliseconds(seconds.saturating_mul(1000))),
            budget_end: next.budget.map(|seconds| now.elapsed + Duration::from_secs(seconds)),
            ending: None,
            kill_at: None,
            has_answer: false,
        };
        self.state.turn = Some(turn);
        self.state.has_failed = false;
        // The log says that it runs before the agent has it: what was begun never runs again.
        self.tell_status(outputs);
        outputs.push(Output::Turn { submission: next.submission, text: next.text });
    }

    /// Asks the agent to end the running turn, for the first reason that is given.
    fn end_turn(&mut self, reason: RanReason, grace: Duration, now: Now, outputs: &mut Vec<Output>) {
        let can_interrupt = self.terms.abilities.interrupt;
        let Some(turn) = self.state.turn.as_mut() else { return };
        let kill_at = now.elapsed + grace;
        if turn.ending.is_some() {
            turn.kill_at = turn.kill_at.map(|at| at.min(kill_at));
            return;
        }
        turn.ending = Some(reason);
        if can_interrupt {
            turn.kill_at = Some(kill_at);
        }
        // The log says that they are over before the agent hears of it.
        self.cancel_inputs(outputs);
        if can_interrupt {
            outputs.push(Output::Interrupt);
        } else {
            self.close(now, outputs);
        }
    }

    fn pass_time(&mut self, now: Now, outputs: &mut Vec<Output>) {
        let is_over = |at: Option<Duration>| at.is_some_and(|at| at <= now.elapsed);
        let turn = self.state.turn.as_ref();
        if turn.is_some_and(|turn| turn.ending.is_none() && is_over(turn.budget_end)) {
            self.end_turn(RanReason::Budget, INTERRUPT_GRACE, now, outputs);
        }
        if self.state.turn.as_ref().is_some_and(|turn| is_over(turn.kill_at)) {
            let text = "The agent did not end its turn when it was asked to, and was ended itself.";
            outputs.push(Output::Append(Known::notice(Level::Warning, text)));
            self.close(now, outputs);
        }
        if is_over(self.unload_at()) {
            self.close(now, outputs);
        }
        if let AgentState::Closing { sweep_at } = self.state.agent
            && is_over(sweep_at)
        {
            self.state.agent = AgentState::Closing { sweep_at: None };
            outputs.push(Output::Sweep);
        }
    }

    /// When the agent is ended for having nothing to do; never one that would forget its conversation.
    fn unload_at(&self) -> Option<Duration> {
        let after = self.terms.unload_after.filter(|_| self.terms.abilities.resume)?;
        Some(self.state.idle_since? + after)
    }

    fn note_idleness(&mut self, now: Now) {
        let has_work = self.state.turn.is_some() || !self.state.queue.is_empty();
        let is_idle = self.state.agent == AgentState::Open && self.state.stage == Stage::Serving && !has_work;
        self.state.idle_since = is_idle.then(|| self.state.idle_since.unwrap_or(now.elapsed));
    }

    fn settle(&mut self, submission: SubmissionId, origin: Origin, fate: Fate, outputs: &mut Vec<Output>) {
        self.state.last = Some(submission.clone());
        let settled = Settled { submission, origin, fate: fate.into() };
        outputs.push(Output::Append(Known::Settled { settled }));
    }

    /// Logs the status where it is another one than the last.
    fn tell_status(&mut self, outputs: &mut Vec<Output>) {
        let Some(phase) = self.phase() else { return };
        let status = Status {
            queue: self.state.queue.iter().map(|waiting| waiting.submission.clone()).collect(),
            last: self.state.last.clone(),
            phase: phase.into(),
        };
        if self.state.status.as_ref() != Some(&status) {
            self.state.status = Some(status.clone());
            outputs.push(Output::Append(Known::Status { status }));
        }
    }

    fn phase(&self) -> Option<Phase> {
        match self.state.stage {
            Stage::Fresh | Stage::Over => return None,
            Stage::Leaving { .. } => return Some(Phase::Exiting),
            Stage::Serving => {}
        }
        Some(match (&self.state.turn, self.state.agent) {
            (Some(turn), _) => {
                Phase::Busy { submissions: vec![turn.submission.clone()], deadline: turn.deadline }
            }
            (None, _) if self.state.is_held => Phase::Held,
            (None, AgentState::Open) => Phase::Idle,
            (None, AgentState::Probing | AgentState::Opening) => Phase::Starting,
            (None, AgentState::Closed { .. } | AgentState::Closing { .. }) => {
                if self.wants_agent() {
                    Phase::Starting
                } else {
                    Phase::Idle
                }
            }
        })
    }
}

fn taken((): ()) -> Response {
    Response::Taken(Empty {})
}
