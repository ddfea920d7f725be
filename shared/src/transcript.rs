//! Entries and live text folded into the items that a person reads: calls paired with their results, plans replaced, live
//! text replaced by its entry (wire §4, §5).

use std::collections::HashMap;

use serde_json::{Map, Value};

use crate::entry::{Diff, Entry, Event, Input, Known, Level, Resolved, ResultStatus, Step, ToolClass, Usage};
use crate::fingerprint::Fingerprint;
use crate::frame::{Delta, DeltaKind};
use crate::gate::Gate;
use crate::ids::{InputId, PartId, SubmissionId};
use crate::kind::Open;
use crate::limits;
use crate::status::{Ended, Exit, Fate};
use crate::time::Timestamp;

/// Live messages that are kept at once; an agent writes one at a time, and a peer may send any number.
const LIVE_MESSAGES: usize = 64;
/// What stands where live text was lost; the entry will hold the whole.
const GAP: &str = " … ";

/// What one reader sees of a session: items in order. An item keeps its [`Item::key`] and its place for ever; its content may change.
#[derive(Debug, Clone, Default)]
pub struct Transcript {
    items: Vec<Item>,
    by_key: HashMap<Key, usize>,
    calls: HashMap<PartId, Key>,
    inputs: HashMap<InputId, Key>,
    /// Questions and approvals that nobody has decided, oldest first.
    open: Vec<Input>,
    /// The plan of the present turn, which the next one replaces.
    plan: Option<Key>,
    live: Vec<Live>,
    sequence: u64,
}

/// What names an item for ever: the sequence of its first entry, or a place in the live part.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Key {
    /// The item of the entry with that sequence.
    Logged(u64),
    /// Text that is not in the log yet.
    Live(PartId, DeltaKind),
}

/// One thing that a person reads.
#[derive(Debug, Clone, PartialEq)]
pub struct Item {
    /// Its name for ever.
    pub key: Key,
    /// When it was logged; for live text none.
    pub timestamp: Option<Timestamp>,
    /// What it is.
    pub body: Body,
}

/// What an item is.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// A turn that a person sent.
    User {
        /// The lines of the turn.
        text: String,
        /// The sender's name for itself.
        name: String,
        /// The key of the sender's device.
        device: Option<Fingerprint>,
        /// The id of the submission.
        submission: SubmissionId,
    },
    /// What the assistant said, in Markdown.
    Assistant {
        /// The Markdown.
        text: String,
        /// The model that wrote it.
        model: Option<String>,
    },
    /// What the assistant thought.
    Thinking {
        /// The thought.
        text: String,
    },
    /// A tool call and what came of it.
    Tool(ToolCall),
    /// A plan, the last of its turn.
    Plan(Vec<Step>),
    /// Tokens and cost.
    Usage(Usage),
    /// Something a person should know.
    Notice {
        /// How much it matters.
        level: Open<Level>,
        /// The sentence.
        text: String,
    },
    /// A question or an approval, and what became of it.
    Question {
        /// What is asked.
        input: Input,
        /// What was decided.
        resolved: Option<Resolved>,
    },
    /// What became of a submission, where a person has to be told.
    Settled {
        /// The submission.
        submission: SubmissionId,
        /// The key of its sender's device.
        device: Option<Fingerprint>,
        /// What became of it.
        fate: Open<Fate>,
    },
    /// The probe of the harness found something to mend.
    Gate(Gate),
    /// The end of the host process.
    Ended(Open<Ended>),
    /// The session's branch was merged.
    Merged,
    /// An entry of a kind that this version does not know.
    Unknown(Map<String, Value>),
}

/// A tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolCall {
    /// The harness's name of the tool.
    pub name: String,
    /// One line for people.
    pub title: String,
    /// What sort of tool it is.
    pub class: Open<ToolClass>,
    /// What the tool was given.
    pub input: Value,
    /// What it has printed so far, while there is no result.
    pub output: String,
    /// What came of it.
    pub outcome: Option<Outcome>,
}

/// The result of a tool call.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// How it went.
    pub status: Open<ResultStatus>,
    /// What the tool gave.
    pub text: String,
    /// What changed in a file, as lines.
    pub diff: Option<FileChange>,
    /// How the command ended.
    pub exit: Option<Exit>,
    /// Bytes that were left out of `text`.
    pub truncated: Option<u64>,
}

/// A change of one file as the lines of a unified diff.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileChange {
    /// The file.
    pub path: String,
    /// The lines.
    pub lines: Vec<DiffLine>,
}

/// A line of a unified diff, without its mark.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DiffLine {
    /// What became of it.
    pub mark: DiffMark,
    /// The text of the line.
    pub text: String,
}

/// What became of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DiffMark {
    /// It is new.
    Added,
    /// It is gone.
    Removed,
    /// It stands as it was.
    Same,
    /// It says where in the file the next lines are.
    Place,
}

/// What a new entry or live text did to the items.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// An item came at the end.
    Added,
    /// The item at this place has a new content.
    Changed(usize),
    /// The live items are others than before.
    Live,
    /// Nothing that is shown.
    Nothing,
}

#[derive(Debug, Clone)]
struct Live {
    item: Item,
    /// Where the next text of the message begins, in bytes of the message.
    next: u64,
}

impl Transcript {
    /// Nothing yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The items of the log in order.
    #[must_use]
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// The items that are being written, in the order in which they began.
    pub fn live(&self) -> impl Iterator<Item = &Item> {
        // What a tool prints is shown in its call.
        let of_tool = |item: &&Item| matches!(item.key, Key::Live(_, DeltaKind::Tool));
        self.live.iter().map(|live| &live.item).filter(move |item| !of_tool(item))
    }

    /// The sequence of the last entry that came.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Questions and approvals that are open, oldest first (wire §5.3).
    #[must_use]
    pub fn open_inputs(&self) -> &[Input] {
        &self.open
    }

    /// The tool call of that id, where this reader has it.
    #[must_use]
    pub fn call(&self, id: &PartId) -> Option<&ToolCall> {
        match &self.items.get(self.place_of_call(id)?)?.body {
            Body::Tool(call) => Some(call),
            Body::User { .. }
            | Body::Assistant { .. }
            | Body::Thinking { .. }
            | Body::Plan(_)
            | Body::Usage(_)
            | Body::Notice { .. }
            | Body::Question { .. }
            | Body::Settled { .. }
            | Body::Gate(_)
            | Body::Ended(_)
            | Body::Merged
            | Body::Unknown(_) => None,
        }
    }

    /// Forgets what was being written: what a link has missed of it cannot be told.
    pub fn forget_live(&mut self) {
        self.live.clear();
    }

    /// Takes an entry. One at or before the last changes nothing, so that a reader may overlap.
    pub fn apply(&mut self, entry: Entry) -> Change {
        if entry.sequence <= self.sequence {
            return Change::Nothing;
        }
        self.sequence = entry.sequence;
        let (sequence, at) = (entry.sequence, entry.timestamp);
        match entry.event {
            Event::Known(known) => self.apply_known(*known, sequence, at),
            Event::Unknown(fields) => self.add(sequence, at, Body::Unknown(fields)),
        }
    }

    fn apply_known(&mut self, known: Known, sequence: u64, at: Timestamp) -> Change {
        match known {
            Known::User(user) => {
                self.plan = None;
                let crate::entry::User { text, origin, submission, budget: _ } = user;
                self.add(
                    sequence,
                    at,
                    Body::User { text, name: origin.name, device: origin.device, submission },
                )
            }
            Known::Assistant(assistant) => {
                self.end_live(&assistant.message, DeltaKind::Assistant);
                self.add(sequence, at, Body::Assistant { text: assistant.text, model: assistant.model })
            }
            Known::Thinking(thinking) => {
                self.end_live(&thinking.message, DeltaKind::Thinking);
                self.add(sequence, at, Body::Thinking { text: thinking.text })
            }
            Known::Tool(tool) => {
                self.calls.insert(tool.call, Key::Logged(sequence));
                let call = ToolCall {
                    name: tool.name,
                    title: tool.title,
                    class: tool.class,
                    input: tool.input,
                    output: String::new(),
                    outcome: None,
                };
                self.add(sequence, at, Body::Tool(call))
            }
            Known::Result(result) => {
                self.end_live(&result.call, DeltaKind::Tool);
                let outcome = Outcome {
                    status: result.status,
                    text: result.text,
                    diff: result.diff.as_ref().map(FileChange::of),
                    exit: result.exit,
                    truncated: result.truncated,
                };
                self.resolve_call(&result.call, outcome, sequence, at)
            }
            Known::Plan(plan) => match self.plan.clone().and_then(|key| self.by_key.get(&key).copied()) {
                Some(place) => self.change(place, |body| *body = Body::Plan(plan.steps)),
                None => {
                    self.plan = Some(Key::Logged(sequence));
                    self.add(sequence, at, Body::Plan(plan.steps))
                }
            },
            Known::Usage(usage) => self.add(sequence, at, Body::Usage(usage)),
            Known::Notice(notice) => {
                self.add(sequence, at, Body::Notice { level: notice.level, text: notice.text })
            }
            Known::Input(input) => {
                self.open.push(input.clone());
                self.inputs.insert(input.input, Key::Logged(sequence));
                self.add(sequence, at, Body::Question { input, resolved: None })
            }
            Known::Resolved(resolved) => self.resolve_input(resolved),
            Known::Settled { settled } => match settled.fate {
                Open::Known(Fate::Answered) => Change::Nothing,
                fate @ (Open::Known(Fate::Dropped(_) | Fate::Ran(_)) | Open::Unknown(_)) => {
                    let device = settled.origin.device;
                    self.add(sequence, at, Body::Settled { submission: settled.submission, device, fate })
                }
            },
            Known::Gate { gate } if gate.finding.is(&crate::gate::Finding::Ok) => Change::Nothing,
            Known::Gate { gate } => self.add(sequence, at, Body::Gate(gate)),
            Known::Ended { ended } => {
                self.live.clear();
                self.open.clear();
                self.add(sequence, at, Body::Ended(ended))
            }
            Known::Merged { .. } => self.add(sequence, at, Body::Merged),
            Known::Began { .. } => {
                // Nothing stays open without the run that asked.
                self.open.clear();
                Change::Nothing
            }
            Known::Settings { .. } | Known::Status { .. } => Change::Nothing,
        }
    }

    fn add(&mut self, sequence: u64, at: Timestamp, body: Body) -> Change {
        let key = Key::Logged(sequence);
        self.by_key.insert(key.clone(), self.items.len());
        self.items.push(Item { key, timestamp: Some(at), body });
        Change::Added
    }

    fn change(&mut self, place: usize, change: impl FnOnce(&mut Body)) -> Change {
        match self.items.get_mut(place) {
            Some(item) => {
                change(&mut item.body);
                Change::Changed(place)
            }
            None => Change::Nothing,
        }
    }

    fn place_of_call(&self, call: &PartId) -> Option<usize> {
        self.calls.get(call).and_then(|key| self.by_key.get(key)).copied()
    }

    fn resolve_call(&mut self, call: &PartId, outcome: Outcome, sequence: u64, at: Timestamp) -> Change {
        let Some(place) = self.place_of_call(call) else {
            // The call lies before what this reader has, or was never logged.
            let call = ToolCall {
                name: String::new(),
                title: String::new(),
                class: ToolClass::Other.into(),
                input: Value::Null,
                output: String::new(),
                outcome: Some(outcome),
            };
            return self.add(sequence, at, Body::Tool(call));
        };
        self.change(place, |body| {
            if let Body::Tool(tool) = body {
                tool.output.clear();
                tool.outcome = Some(outcome);
            }
        })
    }

    fn resolve_input(&mut self, decided: Resolved) -> Change {
        self.open.retain(|input| input.input != decided.input);
        let place = self.inputs.get(&decided.input).and_then(|key| self.by_key.get(key)).copied();
        place.map_or(Change::Nothing, |place| {
            self.change(place, |body| {
                if let Body::Question { resolved, .. } = body {
                    *resolved = Some(decided);
                }
            })
        })
    }

    /// Takes live text. Text that was seen is passed over, and where text was lost the reader sees a gap.
    pub fn apply_delta(&mut self, delta: &Delta) -> Change {
        let Open::Known(kind) = delta.kind else { return Change::Nothing };
        let key = Key::Live(delta.message.clone(), kind);
        let place = match self.live.iter().position(|live| live.item.key == key) {
            Some(place) => place,
            None if self.live.len() < LIVE_MESSAGES => {
                let body = match kind {
                    DeltaKind::Assistant => Body::Assistant { text: String::new(), model: None },
                    DeltaKind::Thinking => Body::Thinking { text: String::new() },
                    DeltaKind::Tool => match self.place_of_call(&delta.message) {
                        Some(place) if self.awaits_result(place) => Body::Thinking { text: String::new() },
                        Some(_) | None => return Change::Nothing,
                    },
                };
                self.live.push(Live { item: Item { key, timestamp: None, body }, next: 0 });
                self.live.len() - 1
            }
            None => return Change::Nothing,
        };
        let Some(live) = self.live.get_mut(place) else { return Change::Nothing };
        let added = live.take(delta);
        if added.is_empty() {
            return Change::Nothing;
        }
        match kind {
            DeltaKind::Assistant | DeltaKind::Thinking => {
                live.append(&added);
                Change::Live
            }
            DeltaKind::Tool => match self.place_of_call(&delta.message) {
                Some(place) => self.change(place, |body| {
                    if let Body::Tool(tool) = body
                        && tool.output.len() + added.len() <= limits::RESULT_BYTES
                    {
                        tool.output.push_str(&added);
                    }
                }),
                None => Change::Nothing,
            },
        }
    }

    fn awaits_result(&self, place: usize) -> bool {
        matches!(self.items.get(place).map(|item| &item.body), Some(Body::Tool(tool)) if tool.outcome.is_none())
    }

    fn end_live(&mut self, message: &PartId, kind: DeltaKind) {
        self.live.retain(|live| !matches!(&live.item.key, Key::Live(id, of) if id == message && *of == kind));
    }
}

impl Live {
    /// The part of the text that is new, after a gap where some was lost.
    fn take(&mut self, delta: &Delta) -> String {
        let end = delta.offset.saturating_add(delta.text.len() as u64);
        if end <= self.next {
            return String::new();
        }
        let text = if delta.offset > self.next {
            format!("{GAP}{}", delta.text)
        } else {
            let seen = usize::try_from(self.next - delta.offset).unwrap_or(usize::MAX);
            // A character that is seen in part cannot be: then the offsets are wrong, and the whole is shown.
            delta.text.get(seen..).unwrap_or(&delta.text).to_owned()
        };
        self.next = end;
        text
    }

    fn append(&mut self, added: &str) {
        match &mut self.item.body {
            Body::Assistant { text, .. } | Body::Thinking { text } => {
                if text.len() + added.len() <= limits::MESSAGE_BYTES {
                    text.push_str(added);
                }
            }
            Body::User { .. }
            | Body::Tool(_)
            | Body::Plan(_)
            | Body::Usage(_)
            | Body::Notice { .. }
            | Body::Question { .. }
            | Body::Settled { .. }
            | Body::Gate(_)
            | Body::Ended(_)
            | Body::Merged
            | Body::Unknown(_) => {}
        }
    }
}

impl Body {
    /// The word of what it is, for programs that look at a page.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Self::User { .. } => "user",
            Self::Assistant { .. } => "assistant",
            Self::Thinking { .. } => "thinking",
            Self::Tool(_) => "tool",
            Self::Plan(_) => "plan",
            Self::Usage(_) => "usage",
            Self::Notice { .. } => "notice",
            Self::Question { .. } => "question",
            Self::Settled { .. } => "settled",
            Self::Gate(_) => "gate",
            Self::Ended(_) => "ended",
            Self::Merged => "merged",
            Self::Unknown(_) => "unknown",
        }
    }
}

/// Lines on either side of a change that are shown.
const CONTEXT: usize = 3;
/// Lines of a text that are compared line by line; beyond it the middle is shown as removed and added whole.
const COMPARED_LINES: usize = 1500;

impl FileChange {
    /// The change as lines: those of the patch, or a comparison of the text before with the text after.
    #[must_use]
    pub fn of(diff: &Diff) -> Self {
        let lines = match (&diff.patch, &diff.before, &diff.after) {
            (Some(patch), _, _) => patch_lines(patch),
            (None, before, after) => {
                compare(before.as_deref().unwrap_or_default(), after.as_deref().unwrap_or_default())
            }
        };
        Self { path: diff.path.clone(), lines }
    }

    /// How many lines are new, and how many are gone.
    #[must_use]
    pub fn counts(&self) -> (usize, usize) {
        let count = |mark| self.lines.iter().filter(|line| line.mark == mark).count();
        (count(DiffMark::Added), count(DiffMark::Removed))
    }
}

fn line(mark: DiffMark, text: &str) -> DiffLine {
    DiffLine { mark, text: text.to_owned() }
}

fn patch_lines(patch: &str) -> Vec<DiffLine> {
    let mut in_hunk = false;
    let mut lines = Vec::new();
    for text in patch.lines() {
        if text.starts_with("@@") {
            in_hunk = true;
            lines.push(line(DiffMark::Place, text));
            continue;
        }
        let is_head = !in_hunk || text.starts_with("diff --git ");
        if is_head {
            in_hunk = in_hunk && !text.starts_with("diff --git ");
            // File names and modes stand before the first place; the path is shown elsewhere.
            if in_hunk || !is_patch_head(text) {
                lines.push(marked(text));
            }
        } else if !text.starts_with('\\') {
            lines.push(marked(text));
        }
    }
    lines
}

fn is_patch_head(text: &str) -> bool {
    [
        "--- ",
        "+++ ",
        "diff ",
        "index ",
        "new file",
        "deleted file",
        "old mode",
        "new mode",
        "similarity",
        "rename ",
    ]
    .iter()
    .any(|head| text.starts_with(head))
}

fn marked(text: &str) -> DiffLine {
    if let Some(rest) = text.strip_prefix('+') {
        line(DiffMark::Added, rest)
    } else if let Some(rest) = text.strip_prefix('-') {
        line(DiffMark::Removed, rest)
    } else {
        line(DiffMark::Same, text.strip_prefix(' ').unwrap_or(text))
    }
}

/// A line by line comparison: what both ends share is left out but for its context.
fn compare(before: &str, after: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let (old_rest, new_rest) = (&old[head..], &new[head..]);
    let tail = old_rest.iter().rev().zip(new_rest.iter().rev()).take_while(|(old, new)| old == new).count();
    let (old_middle, new_middle) = (&old_rest[..old_rest.len() - tail], &new_rest[..new_rest.len() - tail]);
    if old_middle.is_empty() && new_middle.is_empty() {
        return Vec::new();
    }
    let mut all: Vec<DiffLine> = Vec::new();
    all.extend(old[..head].iter().map(|text| line(DiffMark::Same, text)));
    all.extend(middle(old_middle, new_middle));
    all.extend(old_rest[old_rest.len() - tail..].iter().map(|text| line(DiffMark::Same, text)));
    near_changes(all)
}

/// The differing middle by the longest common subsequence, or whole where that would take too long.
fn middle(old: &[&str], new: &[&str]) -> Vec<DiffLine> {
    let removed = |text: &&str| line(DiffMark::Removed, text);
    let added = |text: &&str| line(DiffMark::Added, text);
    if old.len() > COMPARED_LINES || new.len() > COMPARED_LINES {
        return old.iter().map(removed).chain(new.iter().map(added)).collect();
    }
    let width = new.len() + 1;
    let mut common = vec![0_u16; (old.len() + 1) * width];
    for (i, old_line) in old.iter().enumerate().rev() {
        for (j, new_line) in new.iter().enumerate().rev() {
            common[i * width + j] = if old_line == new_line {
                common[(i + 1) * width + j + 1] + 1
            } else {
                common[(i + 1) * width + j].max(common[i * width + j + 1])
            };
        }
    }
    let (mut i, mut j) = (0, 0);
    let mut lines = Vec::new();
    while i < old.len() && j < new.len() {
        if old[i] == new[j] {
            lines.push(line(DiffMark::Same, old[i]));
            (i, j) = (i + 1, j + 1);
        } else if common[(i + 1) * width + j] >= common[i * width + j + 1] {
            lines.push(removed(&old[i]));
            i += 1;
        } else {
            lines.push(added(&new[j]));
            j += 1;
        }
    }
    lines.extend(old[i..].iter().map(removed));
    lines.extend(new[j..].iter().map(added));
    lines
}

/// Keeps what stands near a change, with a place where something is left out.
fn near_changes(all: Vec<DiffLine>) -> Vec<DiffLine> {
    let mut is_near = vec![false; all.len()];
    for (index, one) in all.iter().enumerate() {
        if one.mark != DiffMark::Same {
            let last = (index + CONTEXT).min(all.len() - 1);
            is_near[index.saturating_sub(CONTEXT)..=last].fill(true);
        }
    }
    let (mut old, mut new) = (0_usize, 0_usize);
    let mut lines = Vec::new();
    let mut was_near = false;
    for (one, near) in all.into_iter().zip(is_near) {
        let is_place = near && !was_near;
        if is_place {
            lines.push(line(DiffMark::Place, &format!("@@ -{} +{} @@", old + 1, new + 1)));
        }
        was_near = near;
        old += usize::from(one.mark != DiffMark::Added);
        new += usize::from(one.mark != DiffMark::Removed);
        if near {
            lines.push(one);
        }
    }
    lines
}

#[cfg(test)]
mod tests;
