//! Random lives of a session: any order of requests, an agent that does anything, a disk that refuses, and crashes at any line.

use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::*;

#[derive(Debug, Clone)]
enum Step {
    Submit {
        id: u8,
        text: u8,
        device: u8,
        budget: bool,
    },
    Interrupt(Option<u8>),
    Stop,
    Revoke(u8),
    Release,
    Terminate,
    /// The gate, the start of the agent or the agent goes on, in the way that this number says.
    Agent(u8),
    /// The agent asks, where it runs a turn.
    Ask,
    /// The agent does not wait any more for one of the last that it asked.
    Withdraw(u8),
    /// A device decides one of the last that was asked.
    Answer {
        back: u8,
        verdict: u8,
        device: u8,
    },
    Wait(u16),
    /// The disk refuses the next batch.
    Refuse,
    /// The process dies after so many of the next step's lines were written, and a new one begins.
    Crash(u8),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => (0..24u8, 0..6u8, 0..2u8, any::<bool>())
            .prop_map(|(id, text, device, budget)| Step::Submit { id, text: text / 5, device, budget }),
        2 => prop::option::of(0..24u8).prop_map(Step::Interrupt),
        1 => (0..3u8).prop_map(Step::Revoke),
        1 => Just(Step::Release),
        16 => any::<u8>().prop_map(Step::Agent),
        6 => Just(Step::Ask),
        1 => (0..4u8).prop_map(Step::Withdraw),
        6 => (0..4u8, 0..3u8, 0..3u8)
            .prop_map(|(back, verdict, device)| Step::Answer { back, verdict, device }),
        4 => (0..20_000u16).prop_map(Step::Wait),
        1 => Just(Step::Refuse),
        2 => (0..8u8).prop_map(Step::Crash),
        1 => (0..12u8).prop_map(|number| if number == 0 { Step::Stop } else { Step::Wait(1) }),
        1 => (0..12u8).prop_map(|number| if number == 0 { Step::Terminate } else { Step::Wait(1) }),
    ]
}

/// The world around the machine, which also keeps what the machine must not forget.
struct World {
    story: Story,
    /// How far gate and agent are: what a real process would report next.
    agent: Agent,
    turn: Option<SubmissionId>,
    turns: BTreeSet<SubmissionId>,
    acknowledged: BTreeMap<SubmissionId, String>,
    is_over: bool,
    refuse_next: bool,
    lines_before_crash: Option<usize>,
    was_gate_ok: bool,
    is_held: bool,
    /// What agents have asked, in order.
    asked: Vec<Asked>,
    /// What an agent was answered.
    answered: BTreeSet<InputId>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Agent {
    Probing,
    Gone,
    Opening,
    Open,
    Closing,
}

impl World {
    fn new(story: Story) -> Self {
        let is_held = !story.facts.prerequisites.is_empty();
        let mut world = Self {
            story,
            agent: Agent::Gone,
            turn: None,
            turns: BTreeSet::new(),
            acknowledged: BTreeMap::new(),
            is_over: false,
            refuse_next: false,
            lines_before_crash: None,
            was_gate_ok: false,
            is_held,
            asked: Vec::new(),
            answered: BTreeSet::new(),
        };
        world.give(Input::Start);
        world
    }

    fn begin_anew(&mut self) {
        self.agent = Agent::Gone;
        self.turn = None;
        self.is_over = false;
        self.was_gate_ok = false;
        self.story.elapsed += Duration::from_secs(1);
        self.story.machine = Machine::new(terms(Purpose::Serve), self.story.restart());
        self.give(Input::Start);
    }

    fn give(&mut self, input: Input) {
        if self.is_over {
            return;
        }
        let now = self.story.now();
        let mut outputs = Vec::new();
        if std::mem::take(&mut self.refuse_next) {
            let saved = self.story.machine.save();
            self.story.machine.handle(input.clone(), now, &mut outputs);
            self.story.machine.restore(saved);
            outputs.clear();
        }
        self.story.machine.handle(input, now, &mut outputs);
        let appends: Vec<Known> = outputs
            .iter()
            .filter_map(|output| match output {
                Output::Append(known) => Some(known.clone()),
                _ => None,
            })
            .collect();
        if let Some(lines) = self.lines_before_crash.take() {
            for known in appends.into_iter().take(lines) {
                self.story.append(known);
            }
            self.begin_anew();
            return;
        }
        for known in appends {
            self.story.append(known);
        }
        for output in outputs {
            self.perform(output);
        }
        self.look();
    }

    fn perform(&mut self, output: Output) {
        match output {
            Output::Append(_) | Output::Live { .. } | Output::Configure(_) => {}
            Output::Respond(id, Response::Taken(_)) => {
                let text = self.story.log.iter().find_map(|entry| match &entry.event {
                    Event::Known(known) => match &**known {
                        Known::User(user) if user.submission == id => Some(user.text.clone()),
                        _ => None,
                    },
                    Event::Unknown(_) => None,
                });
                if id.as_str().starts_with('s') {
                    let text = text.expect("a submission was acknowledged that is not in the log");
                    self.acknowledged.insert(id, text);
                }
            }
            Output::Respond(..) => {}
            Output::Probe => self.agent = Agent::Probing,
            Output::Open { .. } => {
                assert_eq!(self.agent, Agent::Gone, "two agents");
                assert!(self.was_gate_ok, "opened before the gate");
                assert!(!self.is_held, "opened before the release");
                self.agent = Agent::Opening;
            }
            Output::Turn { submission, .. } => {
                assert_eq!(self.agent, Agent::Open);
                assert!(self.turns.insert(submission.clone()), "{submission} runs twice");
                assert_eq!(self.turn.replace(submission.clone()), None, "two turns at once");
                let busy = format!("busy {submission}");
                assert!(
                    self.briefs().any(|brief| brief.starts_with(&busy)),
                    "it is not in the log that {busy}"
                );
            }
            Output::Answer { input, .. } => {
                assert!(self.answered.insert(input), "an agent was answered twice");
            }
            Output::Interrupt => assert!(self.turn.is_some()),
            Output::Close => {
                assert!(matches!(self.agent, Agent::Opening | Agent::Open));
                self.agent = Agent::Closing;
            }
            Output::Sweep => assert_eq!(self.agent, Agent::Closing),
            Output::Merge => assert_eq!(self.turn, None, "merged while somebody works"),
            Output::Exit => self.is_over = true,
        }
    }

    fn briefs(&self) -> impl Iterator<Item = String> {
        self.story.log.iter().map(|entry| match &entry.event {
            Event::Known(known) => brief_entry(known),
            Event::Unknown(_) => String::new(),
        })
    }

    /// What must hold of every log, at any time.
    fn look(&self) {
        let mut users = BTreeSet::new();
        let mut settled = BTreeSet::new();
        let mut last: Option<Status> = None;
        let mut open: BTreeMap<InputId, SubmissionId> = BTreeMap::new();
        let mut inputs = BTreeSet::new();
        for entry in &self.story.log {
            let Event::Known(known) = &entry.event else { continue };
            match &**known {
                Known::User(user) => assert!(users.insert(user.submission.clone()), "logged twice"),
                Known::Settled { settled: end } => {
                    assert!(users.contains(&end.submission), "settled before it was logged");
                    assert!(open.values().all(|of| *of != end.submission), "an input outlives its turn");
                    assert!(settled.insert(end.submission.clone()), "{} settled twice", end.submission);
                }
                Known::Input(input) => {
                    assert!(inputs.insert(input.input), "asked twice");
                    assert!(!settled.contains(&input.submission), "asked after its turn");
                    open.insert(input.input, input.submission.clone());
                    assert!(open.len() <= limits::INPUTS);
                }
                Known::Resolved(resolved) => {
                    assert!(open.remove(&resolved.input).is_some(), "resolved twice, or never asked");
                }
                Known::Ended { .. } => assert!(open.is_empty(), "an input outlives its host"),
                Known::Began { .. } => {
                    assert!(open.is_empty(), "an input outlives its host");
                    last = None;
                }
                Known::Status { status } => {
                    assert!(status.queue.len() <= limits::QUEUE, "{:?}", status.queue);
                    assert_ne!(last.as_ref(), Some(status), "a status that says nothing new");
                    if let Open::Known(Phase::Busy { submissions, .. }) = &status.phase {
                        assert!(!settled.contains(&submissions[0]), "busy with what is settled");
                    }
                    last = Some(status.clone());
                }
                _ => {}
            }
        }
        for (id, text) in &self.acknowledged {
            assert!(users.contains(id), "{id} ({text}) was acknowledged and is lost");
        }
        let busy = last.and_then(|status| match status.phase {
            Open::Known(Phase::Busy { submissions, .. }) => Some(submissions[0].clone()),
            _ => None,
        });
        if !self.is_over {
            let deadline = self.story.machine.deadline();
            assert!(
                deadline.is_none_or(|at| at > self.story.elapsed),
                "it would spin: {:?}",
                self.story.machine.state
            );
        }
        if !self.is_over && busy.is_some() {
            assert_eq!(busy, self.story.machine.state.turn.as_ref().map(|turn| turn.submission.clone()));
        }
    }

    fn take(&mut self, step: &Step) {
        if self.is_over && !matches!(step, Step::Wait(_)) {
            // The listener starts another host when somebody wants something.
            self.begin_anew();
        }
        match step {
            Step::Submit { id, text, device, budget } => {
                let ask = submission(&format!("text {text}"), budget.then_some(5), *device);
                self.give(asked(&format!("s{id}"), ask));
            }
            Step::Interrupt(named) => {
                let named = named.map(|number| id(&format!("s{number}")));
                self.give(asked("interrupt", Ask::Interrupt(named)));
            }
            Step::Stop => self.give(asked("end", Ask::Stop)),
            Step::Revoke(2) => self.give(asked("revoke", Ask::Revoke(Device::All))),
            Step::Revoke(number) => self.give(asked("revoke", Ask::Revoke(Device::One(device(*number))))),
            Step::Release => {
                self.is_held = false;
                self.give(asked("release", Ask::Release));
            }
            Step::Terminate => self.give(Input::Terminate),
            Step::Agent(choice) => self.agent_goes_on(*choice),
            Step::Ask => {
                if self.agent == Agent::Open && self.turn.is_some() {
                    let number = self.asked.len() as u64;
                    // Some are alike, so that what was allowed for the session is met again.
                    let asked = approval(number, &format!("command {}", number % 5));
                    self.asked.push(asked.clone());
                    self.give(asks(asked));
                }
            }
            Step::Withdraw(back) => {
                if let Some(asked) = self.asked_back(*back)
                    && self.agent == Agent::Open
                {
                    self.give(Input::Agent(AgentEvent::Withdrawn(asked.input)));
                }
            }
            Step::Answer { back, verdict, device } => {
                if let Some(asked) = self.asked_back(*back) {
                    let decision = match verdict {
                        0 => Decision::Allow,
                        1 => Decision::AllowSession,
                        _ => Decision::Deny { text: None },
                    };
                    self.give(super::asked("answer", answer_to(&asked, &decision, *device)));
                }
            }
            Step::Wait(milliseconds) => {
                self.story.elapsed += Duration::from_millis((*milliseconds).into());
                if self.story.machine.deadline().is_some_and(|deadline| deadline <= self.story.elapsed) {
                    self.give(Input::Tick);
                }
            }
            Step::Refuse => self.refuse_next = true,
            Step::Crash(lines) => self.lines_before_crash = Some((*lines).into()),
        }
    }

    fn asked_back(&self, back: u8) -> Option<Asked> {
        self.asked.iter().rev().nth(back.into()).cloned()
    }

    fn agent_goes_on(&mut self, choice: u8) {
        match (self.agent, choice % 16) {
            (Agent::Probing, 0) => {
                self.agent = Agent::Gone;
                self.give(Input::Probed(Finding::NotLoggedIn));
            }
            (Agent::Probing, _) => {
                self.agent = Agent::Gone;
                self.was_gate_ok = true;
                self.give(Input::Probed(Finding::Ok));
            }
            (Agent::Opening, 0) => {
                self.agent = Agent::Gone;
                self.give(Input::OpenFailed(OpenError::Start { detail: "x".into() }));
            }
            (Agent::Opening, _) => {
                self.agent = Agent::Open;
                self.give(Input::Opened);
            }
            (Agent::Open, 0) | (Agent::Closing, 0..=9) => {
                self.agent = Agent::Gone;
                self.turn = None;
                self.give(exited());
            }
            (Agent::Open, 1..=5) | (Agent::Closing, 10 | 11) => self.give(said("words")),
            (Agent::Open, 6) => self.give(tool()),
            (Agent::Open | Agent::Closing, other) if self.turn.is_some() => {
                self.turn = None;
                self.give(turn_ended(match other {
                    7 => TurnEnd::Failed,
                    8 | 9 => TurnEnd::Interrupted,
                    _ => TurnEnd::Completed,
                }));
            }
            (Agent::Gone | Agent::Open | Agent::Closing, _) => {}
        }
    }

    /// Ends the session in order, and looks at what is left.
    fn finish(mut self) {
        self.refuse_next = false;
        self.lines_before_crash = None;
        if self.is_over {
            self.begin_anew();
        }
        self.give(asked("end", Ask::Stop));
        for _ in 0..8 {
            self.agent_goes_on(0);
            self.story.elapsed += CLOSE_GRACE.max(STOP_GRACE);
            self.give(Input::Tick);
        }
        assert!(self.is_over, "it does not end: {:?}", self.story.machine.state);
        let fold = self.story.restart().fold;
        assert!(fold.is_reconciled());
        assert_eq!(self.briefs().last().unwrap().split(' ').next(), Some("ended"));
        for id in self.acknowledged.keys() {
            assert!(fold.submission(id).unwrap().settled.is_some(), "{id} was never settled");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 256, ..ProptestConfig::default() })]

    #[test]
    fn nothing_is_lost_or_run_twice(steps in prop::collection::vec(step(), 1..120), is_held in any::<bool>()) {
        let mut world = World::new(if is_held { Story::held() } else { Story::new() });
        for step in &steps {
            world.take(step);
        }
        world.finish();
    }
}
