//! What the log says to a host that begins: the same look at each line that the writer takes when it opens the log.

use std::collections::BTreeMap;
use std::sync::Arc;

use shared::entry::{Entry, Event, Known, Origin, is_transcript};
use shared::fingerprint::Fingerprint;
use shared::fold::Fold;
use shared::ids::SubmissionId;
use shared::kind::Open;
use shared::record::Facts;
use shared::request::Configure;
use shared::settings::Settings;
use shared::status::Phase;

use super::death::Progress;
use crate::log::{Damage, Mark};

/// With these words begins the notice about damaged lines, so that a later host knows that it was given.
const DAMAGED: &str = "The log of this session is damaged: ";
/// Ranges of damaged lines that a notice names.
const RANGES_NAMED: usize = 8;

/// A submission whose turn has not begun.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Waiting {
    /// Its id.
    pub(super) submission: SubmissionId,
    /// Its lines; shared, because a queue is copied with every round of the machine.
    pub(super) text: Arc<str>,
    /// Its budget, in seconds.
    pub(super) budget: Option<u64>,
    /// Its sender.
    pub(super) origin: Origin,
}

/// What a new host has to know of the log.
#[derive(Debug, Clone)]
pub(super) struct Restart {
    /// The log as it was opened.
    pub(super) fold: Fold,
    /// What was taken and never began, in order.
    pub(super) waiting: Vec<Waiting>,
    /// What began and was not settled, in order; it never runs again.
    pub(super) lost: Vec<(SubmissionId, Origin)>,
    /// What was taken of devices that were revoked while no host lived; it never runs.
    pub(super) revoked: Vec<Waiting>,
    /// What a person must be told about the log.
    pub(super) notices: Vec<String>,
    /// The prerequisites have answered once.
    pub(super) was_released: bool,
    /// The submission that was settled last.
    pub(super) last: Option<SubmissionId>,
    /// What the last settings have of what the harness itself offers: a conversation goes on as it was.
    pub(super) chosen: Configure,
    /// How far the last run had got.
    pub(super) progress: Progress,
}

impl Restart {
    /// Takes out of the queue what came from devices that are not trusted any more.
    pub(super) fn distrust(&mut self, is_trusted: impl Fn(Fingerprint) -> bool) {
        let (kept, revoked) = std::mem::take(&mut self.waiting)
            .into_iter()
            .partition(|waiting| waiting.origin.device.is_none_or(&is_trusted));
        self.waiting = kept;
        self.revoked = revoked;
    }
}

/// Reads a log line by line.
#[derive(Debug)]
pub(super) struct Retrace {
    fold: Fold,
    /// What was taken and is not settled.
    open: BTreeMap<SubmissionId, Waiting>,
    last: Option<SubmissionId>,
    was_released: bool,
    /// The last line that could not be read.
    last_damaged: u64,
    /// The last notice about damaged lines.
    said: Option<String>,
    progress: Progress,
}

impl Retrace {
    /// Before the first line.
    pub(super) fn new(facts: Facts) -> Self {
        Self {
            fold: Fold::new(facts),
            open: BTreeMap::new(),
            last: None,
            was_released: false,
            last_damaged: 0,
            said: None,
            progress: Progress::default(),
        }
    }

    /// Looks at a line.
    pub(super) fn look(&mut self, number: u64, line: &str) -> Mark {
        let Some(entry) = Entry::of_line(number, line) else {
            self.fold.skip(number);
            self.last_damaged = number;
            return Mark::Damaged;
        };
        if number > self.fold.sequence() + 1 {
            self.last_damaged = number - 1;
        }
        if let Event::Known(known) = &entry.event {
            self.look_at(known);
        }
        self.fold.apply(&entry);
        if is_transcript(entry.event.kind()) { Mark::Counted } else { Mark::Plain }
    }

    fn look_at(&mut self, known: &Known) {
        self.progress.look(known);
        match known {
            Known::User(user) if self.fold.submission(&user.submission).is_none() => {
                let waiting = Waiting {
                    submission: user.submission.clone(),
                    text: user.text.as_str().into(),
                    budget: user.budget,
                    origin: user.origin.clone(),
                };
                self.open.insert(user.submission.clone(), waiting);
            }
            Known::Settled { settled } => {
                self.open.remove(&settled.submission);
                self.last = Some(settled.submission.clone());
            }
            Known::Status { status } => match &status.phase {
                Open::Known(Phase::Busy { .. } | Phase::Starting | Phase::Idle) => self.was_released = true,
                Open::Known(Phase::Held | Phase::Exiting) | Open::Unknown(_) => {}
            },
            Known::Notice(notice) if notice.text.starts_with(DAMAGED) => {
                self.said = Some(notice.text.clone());
            }
            Known::User(_)
            | Known::Assistant(_)
            | Known::Thinking(_)
            | Known::Tool(_)
            | Known::Result(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Input(_)
            | Known::Resolved(_)
            | Known::Settings { .. }
            | Known::Gate { .. }
            | Known::Ended { .. }
            | Known::Began { .. }
            | Known::Merged { .. } => {}
        }
    }

    /// After the last line.
    pub(super) fn finish(mut self, damage: &Damage) -> Restart {
        if let Some(range) = damage.lines.last() {
            self.last_damaged = self.last_damaged.max(*range.end());
        }
        let mut waiting = Vec::new();
        let mut lost = Vec::new();
        for (id, submitted) in self.fold.unsettled() {
            // A damaged line may have been the one that said that it runs.
            let may_have_begun = submitted.began || submitted.sequence < self.last_damaged;
            match self.open.remove(&id).filter(|_| !may_have_begun) {
                Some(open) => waiting.push(open),
                None => lost.push((id, submitted.origin)),
            }
        }
        let mut notices = Vec::new();
        if damage.cut > 0 {
            notices.push(format!(
                "The last line of the log was unfinished and was cut ({} bytes): the host had been ended while it wrote. \
                 Nothing that was acknowledged is lost.",
                damage.cut
            ));
        }
        if let Some(text) = damaged_lines(damage)
            && self.said.as_ref() != Some(&text)
        {
            notices.push(text);
        }
        let Self { fold, last, was_released, progress, .. } = self;
        let chosen = fold.settings().map(chosen).unwrap_or_default();
        Restart { fold, waiting, lost, revoked: Vec::new(), notices, was_released, last, chosen, progress }
    }
}

fn chosen(settings: &Settings) -> Configure {
    let of = |value: &Option<String>, offered: &[String]| {
        value.clone().filter(|value| settings.conversation.is_some() && offered.contains(value))
    };
    Configure {
        model: of(&settings.model, &settings.choices.models),
        effort: of(&settings.effort, &settings.choices.efforts),
        agent: of(&settings.agent, &settings.choices.agents),
    }
}

fn damaged_lines(damage: &Damage) -> Option<String> {
    if damage.count == 0 {
        return None;
    }
    let named: Vec<String> = damage
        .lines
        .iter()
        .take(RANGES_NAMED)
        .map(|range| {
            if range.start() == range.end() {
                range.start().to_string()
            } else {
                format!("{}–{}", range.start(), range.end())
            }
        })
        .collect();
    let more = if damage.lines.len() > RANGES_NAMED { " and more" } else { "" };
    let lines = if damage.count == 1 { "line" } else { "lines" };
    Some(format!(
        "{DAMAGED}{} {lines} cannot be read ({lines} {}{more}). They are left out; everything else is shown.",
        damage.count,
        named.join(", "),
    ))
}
