//! Entries folded into the record of a session and the book of its submissions: the same pure code in listener, host and
//! browser (wire §11).

use std::collections::{BTreeMap, BTreeSet};

use sha2::{Digest, Sha256};

use crate::entry::{Entry, Event, Known, Origin};
use crate::ids::{HostId, InputId, SubmissionId};
use crate::kind::Open;
use crate::limits;
use crate::record::{Facts, Record, Work, WorkState};
use crate::settings::Settings;
use crate::status::{Ended, Fate, Phase, RanReason, Settled, Status};
use crate::time::Timestamp;

/// The state of a session after the entries that it was given.
#[derive(Debug, Clone)]
pub struct Fold {
    facts: Facts,
    updated: Timestamp,
    sequence: u64,
    settings: Option<Settings>,
    status: Option<Status>,
    began: Option<HostId>,
    ended: Option<Open<Ended>>,
    work: Work,
    inputs: BTreeSet<InputId>,
    last: Option<String>,
    submissions: BTreeMap<SubmissionId, Submitted>,
}

/// What the log says of one submission.
#[derive(Debug, Clone, PartialEq)]
pub struct Submitted {
    /// The sequence of its `user` entry.
    pub sequence: u64,
    /// What tells a repetition from another submission of the same id.
    pub content: Content,
    /// Its sender.
    pub origin: Origin,
    /// Whether a `busy` status named it: its turn has begun and never runs again.
    pub began: bool,
    /// The sequence of its `settled` entry, once there is one.
    pub settled: Option<u64>,
}

/// The digest of a submission's text and budget.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content([u8; 32]);

impl Content {
    /// The digest of that text and budget; no budget differs from any number.
    #[must_use]
    pub fn of(text: &str, budget: Option<u64>) -> Self {
        let mut hash = Sha256::new();
        hash.update(budget.map_or(u64::MAX, |seconds| seconds).to_be_bytes());
        hash.update(text.as_bytes());
        Self(hash.finalize().into())
    }
}

/// What a submission means for a log that may know its id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Seen {
    /// The id is new.
    New,
    /// The same submission again; with the sequence of its `settled` entry if it has one.
    Again {
        /// Where it was settled.
        settled: Option<u64>,
    },
    /// The id belongs to another text or budget.
    Conflict,
}

impl Fold {
    /// A session with an empty log.
    #[must_use]
    pub fn new(facts: Facts) -> Self {
        let created = facts.created;
        Self {
            facts,
            updated: created,
            sequence: 0,
            settings: None,
            status: None,
            began: None,
            ended: None,
            work: Work { state: WorkState::New.into(), since: created },
            inputs: BTreeSet::new(),
            last: None,
            submissions: BTreeMap::new(),
        }
    }

    /// Takes the next entry. Entries at or before the last one change nothing, so that a reader may overlap.
    pub fn apply(&mut self, entry: &Entry) {
        if entry.sequence <= self.sequence {
            return;
        }
        self.sequence = entry.sequence;
        self.updated = self.updated.max(entry.timestamp);
        match &entry.event {
            Event::Known(known) => self.apply_known(known, entry.sequence, entry.timestamp),
            Event::Unknown(_) => {}
        }
    }

    /// Passes over a damaged line, which keeps its number.
    pub fn skip(&mut self, sequence: u64) {
        self.sequence = self.sequence.max(sequence);
    }

    fn apply_known(&mut self, known: &Known, sequence: u64, timestamp: Timestamp) {
        match known {
            Known::User(user) => {
                let submitted = Submitted {
                    sequence,
                    content: Content::of(&user.text, user.budget),
                    origin: user.origin.clone(),
                    began: false,
                    settled: None,
                };
                self.submissions.entry(user.submission.clone()).or_insert(submitted);
            }
            Known::Assistant(assistant) => {
                self.last = Some(assistant.text.chars().take(limits::LAST_SCALARS).collect());
            }
            Known::Input(input) => {
                self.inputs.insert(input.input);
                self.set_work(WorkState::Waiting, timestamp);
            }
            Known::Resolved(resolved) => {
                let was_open = self.inputs.remove(&resolved.input);
                if was_open && self.inputs.is_empty() && self.work.state.is(&WorkState::Waiting) {
                    self.set_work(WorkState::Working, timestamp);
                }
            }
            Known::Settings { settings } => self.settings = Some(settings.clone()),
            Known::Status { status } => self.apply_status(status, timestamp),
            Known::Settled { settled } => self.apply_settled(settled, sequence, timestamp),
            Known::Ended { ended } => self.apply_ended(ended, timestamp),
            Known::Began { began } => {
                self.began = Some(began.identity);
                self.ended = None;
                self.status = None;
            }
            Known::Merged { .. } => self.set_work(WorkState::Merged, timestamp),
            Known::Thinking(_)
            | Known::Tool(_)
            | Known::Result(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Gate { .. } => {}
        }
    }

    fn apply_status(&mut self, status: &Status, timestamp: Timestamp) {
        match &status.phase {
            Open::Known(Phase::Busy { submissions, .. }) => {
                for submission in submissions {
                    if let Some(submitted) = self.submissions.get_mut(submission) {
                        submitted.began = true;
                    }
                }
                if !self.work.state.is(&WorkState::Waiting) {
                    self.set_work(WorkState::Working, timestamp);
                }
            }
            Open::Known(Phase::Held) => self.set_work(WorkState::Held, timestamp),
            Open::Known(Phase::Starting | Phase::Idle | Phase::Exiting) | Open::Unknown(_) => {}
        }
        self.status = Some(status.clone());
    }

    fn apply_settled(&mut self, settled: &Settled, sequence: u64, timestamp: Timestamp) {
        if let Some(submitted) = self.submissions.get_mut(&settled.submission)
            && submitted.settled.is_none()
        {
            submitted.settled = Some(sequence);
        }
        match &settled.fate {
            Open::Known(Fate::Answered) => self.set_work(WorkState::Answered, timestamp),
            Open::Known(Fate::Ran(Some(Open::Known(RanReason::Interrupted)))) => {
                self.set_work(WorkState::Interrupted, timestamp);
            }
            Open::Known(Fate::Ran(_)) => self.set_work(WorkState::Failed, timestamp),
            Open::Known(Fate::Dropped(_)) | Open::Unknown(_) => {}
        }
    }

    fn apply_ended(&mut self, ended: &Open<Ended>, timestamp: Timestamp) {
        let is_unfinished = matches!(
            self.work.state.known(),
            Some(WorkState::New | WorkState::Held | WorkState::Working | WorkState::Waiting)
        );
        match ended {
            Open::Known(Ended::Stopped) if is_unfinished => self.set_work(WorkState::Stopped, timestamp),
            Open::Known(Ended::Refused | Ended::InstructionsFile | Ended::UnknownModel | Ended::Died(_))
            | Open::Unknown(_)
                if is_unfinished =>
            {
                self.set_work(WorkState::Failed, timestamp);
            }
            Open::Known(_) | Open::Unknown(_) => {}
        }
        self.ended = Some(ended.clone());
        self.inputs.clear();
    }

    fn set_work(&mut self, state: WorkState, since: Timestamp) {
        if !self.work.state.is(&state) {
            self.work = Work { state: state.into(), since };
        }
    }

    /// The record; `host` is shown, and work is claimed, only while a host process lives.
    #[must_use]
    pub fn record(&self, host: Liveness) -> Record {
        let is_alive = host == Liveness::Alive;
        let mut work = self.work.clone();
        if !is_alive && matches!(work.state.known(), Some(WorkState::Working | WorkState::Waiting)) {
            work.state = WorkState::Failed.into();
        }
        Record {
            id: self.facts.id,
            name: self.facts.name.clone(),
            harness: self.facts.harness.clone(),
            working_directory: self.facts.working_directory.clone(),
            branch: self
                .settings
                .as_ref()
                .and_then(|settings| settings.branch.clone())
                .or_else(|| self.facts.worktree.as_ref().map(|worktree| worktree.branch.clone())),
            created: self.facts.created,
            updated: self.updated,
            sequence: self.sequence,
            log: self.facts.log,
            prerequisites: self.facts.prerequisites.clone(),
            settings: self.settings.clone(),
            host: self.status.clone().filter(|_| is_alive && self.ended.is_none()),
            work,
            inputs: if is_alive { self.inputs.len() as u64 } else { 0 },
            last: self.last.clone(),
            ended: self.ended.clone(),
        }
    }

    /// What a submission of that id, text and budget is to this log.
    #[must_use]
    pub fn seen(&self, id: &SubmissionId, content: Content) -> Seen {
        match self.submissions.get(id) {
            None => Seen::New,
            Some(submitted) if submitted.content == content => Seen::Again { settled: submitted.settled },
            Some(_) => Seen::Conflict,
        }
    }

    /// The submissions that have no `settled` yet, in the order in which they were taken.
    #[must_use]
    pub fn unsettled(&self) -> Vec<(SubmissionId, Submitted)> {
        let open = self.submissions.iter().filter(|(_, submitted)| submitted.settled.is_none());
        let mut open: Vec<_> = open.map(|(id, submitted)| (id.clone(), submitted.clone())).collect();
        open.sort_by_key(|(_, submitted)| submitted.sequence);
        open
    }

    /// What the log says of one submission.
    #[must_use]
    pub fn submission(&self, id: &SubmissionId) -> Option<&Submitted> {
        self.submissions.get(id)
    }

    /// Whether the log ends as a host process leaves it that ended in order, or none has begun. When no host lives and this
    /// is false, somebody has to reconcile.
    #[must_use]
    pub fn is_reconciled(&self) -> bool {
        (self.began.is_none() || self.ended.is_some())
            && self.unsettled().is_empty()
            && self.inputs.is_empty()
    }

    /// What was fixed at the start.
    #[must_use]
    pub fn facts(&self) -> &Facts {
        &self.facts
    }

    /// The session has another name from now on.
    pub fn rename(&mut self, name: String) {
        self.facts.name = name;
    }

    /// The sequence of the last entry.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// The last settings.
    #[must_use]
    pub fn settings(&self) -> Option<&Settings> {
        self.settings.as_ref()
    }

    /// The last status, whether its host lives or not.
    #[must_use]
    pub fn status(&self) -> Option<&Status> {
        self.status.as_ref()
    }

    /// The host run that began last.
    #[must_use]
    pub fn began(&self) -> Option<HostId> {
        self.began
    }

    /// How the last host run ended; `None` while it has not.
    #[must_use]
    pub fn ended(&self) -> Option<&Open<Ended>> {
        self.ended.as_ref()
    }

    /// The questions and approvals that are open.
    #[must_use]
    pub fn inputs(&self) -> &BTreeSet<InputId> {
        &self.inputs
    }
}

/// Whether the host process of a session lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Liveness {
    /// It holds the lock of the log.
    Alive,
    /// Nobody does.
    Gone,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn facts() -> Facts {
        serde_json::from_value(json!({
            "id": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "n", "harness": "aura", "working_directory": "/w",
            "created": "2026-01-01T12:00:00.000Z", "log": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfc",
        }))
        .unwrap()
    }

    fn fold(entries: &[Value]) -> Fold {
        let mut fold = Fold::new(facts());
        for (index, entry) in entries.iter().enumerate() {
            let mut entry = entry.clone();
            entry["sequence"] = json!(index + 1);
            entry["timestamp"] = json!(format!("2026-01-01T12:00:{:02}.000Z", index + 1));
            fold.apply(&serde_json::from_value(entry).unwrap());
        }
        fold
    }

    fn began() -> Value {
        json!({"kind": "began", "began": {"identity": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfd", "lifetime": "resident", "pid": 1, "started": "2026-01-01T12:00:00.000Z"}})
    }

    fn origin() -> Value {
        json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfe", "name": "d"})
    }

    fn user(id: &str, text: &str) -> Value {
        json!({"kind": "user", "text": text, "origin": origin(), "submission": id})
    }

    fn busy(id: &str) -> Value {
        json!({"kind": "status", "status": {"queue": [], "last": null, "phase": {"busy": {"submissions": [id], "deadline": null}}}})
    }

    fn settled(id: &str, fate: Value) -> Value {
        json!({"kind": "settled", "settled": {"submission": id, "origin": origin(), "fate": fate}})
    }

    #[test]
    fn a_record_never_says_working_without_a_live_host() {
        let fold = fold(&[began(), user("a", "hi"), busy("a")]);
        let alive = fold.record(Liveness::Alive);
        assert!(alive.work.state.is(&WorkState::Working));
        assert!(alive.host.is_some());
        let gone = fold.record(Liveness::Gone);
        assert!(gone.work.state.is(&WorkState::Failed));
        assert!(gone.host.is_none());
        assert!(!fold.is_reconciled());
    }

    #[test]
    fn the_book_tells_repetition_from_conflict() {
        let fold =
            fold(&[began(), user("a", "hi"), busy("a"), settled("a", json!("answered")), user("b", "ho")]);
        let id = |text: &str| text.parse::<SubmissionId>().unwrap();
        assert_eq!(fold.seen(&id("a"), Content::of("hi", None)), Seen::Again { settled: Some(4) });
        assert_eq!(fold.seen(&id("b"), Content::of("ho", None)), Seen::Again { settled: None });
        assert_eq!(fold.seen(&id("a"), Content::of("hi", Some(1))), Seen::Conflict);
        assert_eq!(fold.seen(&id("c"), Content::of("hi", None)), Seen::New);
        let unsettled = fold.unsettled();
        assert_eq!(unsettled.len(), 1);
        assert!(!unsettled[0].1.began);
    }

    #[test]
    fn work_follows_the_turns() {
        let cases = [
            (settled("a", json!("answered")), WorkState::Answered),
            (settled("a", json!({"ran": {"reason": "interrupted"}})), WorkState::Interrupted),
            (settled("a", json!({"ran": {"reason": "lost"}})), WorkState::Failed),
            (settled("a", json!("ran")), WorkState::Failed),
            (json!({"kind": "ended", "ended": "stopped"}), WorkState::Stopped),
            (json!({"kind": "ended", "ended": "died"}), WorkState::Failed),
        ];
        for (entry, state) in cases {
            let fold = fold(&[began(), user("a", "hi"), busy("a"), entry.clone()]);
            assert!(fold.record(Liveness::Alive).work.state.is(&state), "{entry}");
        }
        let answered = fold(&[
            began(),
            user("a", "hi"),
            busy("a"),
            settled("a", json!("answered")),
            json!({"kind": "ended", "ended": "stopped"}),
        ]);
        assert!(answered.record(Liveness::Gone).work.state.is(&WorkState::Answered));
        assert!(answered.is_reconciled());
    }
}
