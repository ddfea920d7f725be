//! Entries as lines for a terminal: pure, without colours where nobody sees them, without anything that steers the terminal.

use std::collections::BTreeSet;

use shared::entry::{Entry, Event, Known, Level, Resolved, ResultStatus, StepState, ToolResult};
use shared::frame::{Delta, DeltaKind};
use shared::ids::{PartId, SubmissionId};
use shared::kind::Open;
use shared::request::AnswerChoice;
use shared::status::{DropReason, Ended, Fate, RanReason, Settled};

use super::error::spoken;
use super::inputs::question;
use crate::text::{Stripper, one_line, strip_controls};

/// Lines of a tool's result that are shown.
const RESULT_LINES: usize = 12;

/// Whether to colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Colour {
    /// For a terminal.
    On,
    /// For a file or a pipe.
    Off,
}

/// Turns what happens in a session into text.
#[derive(Debug)]
pub(super) struct Renderer {
    colour: Colour,
    /// The submissions that we sent: only their ends are shown (wire §5.2).
    own: BTreeSet<SubmissionId>,
    live: Option<Live>,
}

/// Live text that stands on the screen already.
#[derive(Debug)]
struct Live {
    message: PartId,
    shown: String,
    stripper: Stripper,
    bytes: u64,
}

impl Renderer {
    pub(super) fn new(colour: Colour) -> Self {
        Self { colour, own: BTreeSet::new(), live: None }
    }

    /// Remembers a submission as ours.
    pub(super) fn owns(&mut self, submission: SubmissionId) {
        self.own.insert(submission);
    }

    /// The text for live text: what is new of an assistant's message, nothing for the rest.
    pub(super) fn delta(&mut self, delta: &Delta) -> String {
        if !delta.kind.is(&DeltaKind::Assistant) {
            return String::new();
        }
        let mut text = String::new();
        if self.live.as_ref().is_none_or(|live| live.message != delta.message) {
            // A message that we did not see from its beginning is shown whole once its entry comes.
            if delta.offset != 0 {
                return text;
            }
            text = self.end_live();
            self.live = Some(Live {
                message: delta.message.clone(),
                shown: String::new(),
                stripper: Stripper::default(),
                bytes: 0,
            });
        }
        // After a broken link a message comes again from its beginning; what was seen of it is passed over.
        if let Some(live) = &mut self.live
            && let Some(seen) = live.bytes.checked_sub(delta.offset)
            && let Some(rest) = usize::try_from(seen).ok().and_then(|seen| delta.text.get(seen..))
        {
            let new = live.stripper.push(rest);
            live.bytes += rest.len() as u64;
            live.shown.push_str(&new);
            text.push_str(&new);
        }
        text
    }

    fn end_live(&mut self) -> String {
        match self.live.take() {
            Some(live) if !live.shown.is_empty() && !live.shown.ends_with('\n') => "\n".to_owned(),
            Some(_) | None => String::new(),
        }
    }

    /// The text for an entry, with its line ends; empty for what nobody needs to see.
    pub(super) fn entry(&mut self, entry: &Entry) -> String {
        let Event::Known(known) = &entry.event else {
            let line = format!("({} entry of a newer version)", one_line(entry.event.kind(), 40));
            return self.end_live() + &self.dim(&line) + "\n";
        };
        if let Known::Assistant(assistant) = known.as_ref() {
            return self.assistant(&assistant.message, &assistant.text);
        }
        let Some(text) = self.known(known) else { return String::new() };
        format!("{}{text}\n", self.end_live())
    }

    fn assistant(&mut self, message: &PartId, text: &str) -> String {
        let clean = strip_controls(text);
        if let Some(live) = self.live.take_if(|live| live.message == *message) {
            return match clean.strip_prefix(live.shown.as_str()) {
                Some(rest) => format!("{}\n\n", rest.trim_end()),
                None => format!("\n{}\n\n", clean.trim_end()),
            };
        }
        format!("{}{}\n\n", self.end_live(), clean.trim_end())
    }

    /// The line that says why nobody works in a session.
    pub(super) fn ended(&mut self, ended: &Open<Ended>) -> String {
        format!("{}{}\n", self.end_live(), self.ended_line(ended))
    }

    fn ended_line(&self, ended: &Open<Ended>) -> String {
        self.dim(&format!("— {} —", ended_sentence(ended)))
    }

    fn known(&self, known: &Known) -> Option<String> {
        Some(match known {
            Known::User(user) => {
                let name = one_line(&user.origin.name, 48);
                let text = strip_controls(&user.text);
                self.bold(&format!("› {}", text.trim_end().replace('\n', "\n  ")))
                    + &self.dim(&format!("  ({name})"))
            }
            Known::Thinking(thinking) => self.dim(&format!("· {}", one_line(&thinking.text, 160))),
            Known::Tool(tool) => self.paint("36", &format!("◆ {}", one_line(&tool.title, 160))),
            Known::Result(result) => self.result(result),
            Known::Plan(plan) => {
                let steps = plan.steps.iter().map(|step| {
                    let mark = match step.state.known() {
                        Some(StepState::Done) => "✓",
                        Some(StepState::Active) => "▸",
                        Some(StepState::Pending) | None => "·",
                    };
                    format!("  {mark} {}", one_line(&step.text, 160))
                });
                std::iter::once("plan:".to_owned()).chain(steps).collect::<Vec<_>>().join("\n")
            }
            Known::Usage(usage) => {
                let cost = usage.cost.map(|cost| format!(", ${cost:.4}")).unwrap_or_default();
                self.dim(&format!("  {} tokens in, {} out{cost}", usage.input_tokens, usage.output_tokens))
            }
            Known::Notice(notice) => {
                let text = strip_controls(&notice.text);
                match notice.level.known() {
                    Some(Level::Error) => self.paint("31", &format!("! {text}")),
                    Some(Level::Warning) => self.paint("33", &format!("! {text}")),
                    Some(Level::Info) | None => self.dim(&format!("i {text}")),
                }
            }
            Known::Settled { settled } => self.dim(&format!("  {}", self.settled(settled)?)),
            Known::Ended { ended } => self.ended_line(ended),
            Known::Input(input) => self.paint("33", &question(input)),
            Known::Resolved(resolved) => self.dim(&format!("  {}", resolved_sentence(resolved))),
            Known::Settings { .. }
            | Known::Status { .. }
            | Known::Gate { .. }
            | Known::Began { .. }
            | Known::Merged { .. }
            | Known::Assistant(_) => return None,
        })
    }

    fn result(&self, result: &ToolResult) -> String {
        let text = strip_controls(&result.text);
        let mut lines: Vec<String> =
            text.trim_end().lines().take(RESULT_LINES).map(|line| format!("  {line}")).collect();
        let left = text.trim_end().lines().count().saturating_sub(RESULT_LINES);
        if left > 0 {
            lines.push(format!("  … {left} more {}", if left == 1 { "line" } else { "lines" }));
        }
        if let Some(bytes) = result.truncated {
            lines.push(format!(
                "  … {bytes} {} left out of the log",
                if bytes == 1 { "byte was" } else { "bytes were" }
            ));
        }
        let word = match result.status.known() {
            Some(ResultStatus::Ok) => None,
            Some(ResultStatus::Error | ResultStatus::Denied | ResultStatus::Interrupted) | None => {
                Some(self.paint("31", &format!("  {}", spoken(&result.status))))
            }
        };
        let text = self.dim(&lines.join("\n"));
        [Some(text).filter(|_| !lines.is_empty()), word].into_iter().flatten().collect::<Vec<_>>().join("\n")
    }

    /// What became of a submission of ours, where it was not simply answered.
    fn settled(&self, settled: &Settled) -> Option<String> {
        if !self.own.contains(&settled.submission) {
            return None;
        }
        fate_sentence(&settled.fate)
    }

    fn bold(&self, text: &str) -> String {
        self.paint("1", text)
    }

    fn dim(&self, text: &str) -> String {
        self.paint("2", text)
    }

    fn paint(&self, style: &str, text: &str) -> String {
        match self.colour {
            Colour::On if !text.is_empty() => format!("\u{1b}[{style}m{text}\u{1b}[0m"),
            Colour::On | Colour::Off => text.to_owned(),
        }
    }
}

/// What was decided, in a sentence.
fn resolved_sentence(resolved: &Resolved) -> String {
    let Some(origin) = &resolved.origin else {
        return "not answered: it is not needed any more".to_owned();
    };
    let choice = match &resolved.choice {
        Some(AnswerChoice::Word(word)) => match word.as_str() {
            "allow" => "allowed".to_owned(),
            "allow_session" => "allowed, and its like until the session's process ends".to_owned(),
            "deny" => "denied".to_owned(),
            word => one_line(word, 40),
        },
        Some(AnswerChoice::Labels(labels)) => one_line(&labels.join(", "), 160),
        None => "answered".to_owned(),
    };
    let text = resolved.text.as_deref().map(|text| format!(": {}", one_line(text, 160))).unwrap_or_default();
    format!("{choice}{text}  ({})", one_line(&origin.name, 48))
}

/// What became of a submission, in a sentence; `None` for one that was answered.
pub(super) fn fate_sentence(fate: &Open<Fate>) -> Option<String> {
    let sentence = match fate {
        Open::Known(Fate::Answered) => return None,
        Open::Known(Fate::Dropped(reason)) => match reason.as_ref().and_then(Open::known) {
            Some(DropReason::QueueFull) => "not run: too many turns were waiting; send it again later",
            Some(DropReason::Held) => "not run: the session waits for others",
            Some(DropReason::Stopped) => "not run: the session was stopped",
            Some(DropReason::Cancelled) => "not run: it was taken back",
            Some(DropReason::Revoked) => "not run: the device that sent it was revoked",
            None => "not run",
        },
        Open::Known(Fate::Ran(reason)) => match reason.as_ref().and_then(Open::known) {
            Some(RanReason::Interrupted) => "interrupted",
            Some(RanReason::Budget) => "ended: its time was used up",
            Some(RanReason::Failed) => "failed",
            Some(RanReason::Lost) => "lost: its process died while it ran; it is not run again by itself",
            None => "ended without an answer",
        },
        Open::Unknown(kind) => return Some(kind.word.replace('_', " ")),
    };
    Some(sentence.to_owned())
}

/// Why a host ended, in a sentence.
pub(super) fn ended_sentence(ended: &Open<Ended>) -> String {
    match ended {
        Open::Known(Ended::Stopped) => "the session was stopped; a new turn continues it".to_owned(),
        Open::Known(Ended::Refused) => "the agent may not run; `aude doctor` says why".to_owned(),
        Open::Known(Ended::InstructionsFile) => "the instructions file could not be used".to_owned(),
        Open::Known(Ended::Died(_)) => {
            "the session's process died; a new turn continues the conversation".to_owned()
        }
        Open::Known(Ended::UnknownModel) => "the agent does not know the model".to_owned(),
        Open::Unknown(kind) => format!("the session ended: {}", kind.word.replace('_', " ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn entry(mut value: Value) -> Entry {
        value["sequence"] = json!(1);
        value["timestamp"] = json!("2026-01-01T12:00:00.000Z");
        serde_json::from_value(value).unwrap()
    }

    fn delta(message: &str, offset: u64, text: &str) -> Delta {
        serde_json::from_value(
            json!({"message": message, "kind": "assistant", "offset": offset, "text": text}),
        )
        .unwrap()
    }

    #[test]
    fn live_text_is_not_said_twice() {
        let mut renderer = Renderer::new(Colour::Off);
        let live = renderer.delta(&delta("m", 0, "Hel")) + &renderer.delta(&delta("m", 3, "lo"));
        let rest =
            renderer.entry(&entry(json!({"kind": "assistant", "message": "m", "text": "Hello world"})));
        assert_eq!(live + &rest, "Hello world\n\n");
    }

    #[test]
    fn a_message_that_comes_again_from_its_beginning_goes_on_where_it_was() {
        let mut renderer = Renderer::new(Colour::Off);
        let pieces = [(0, "Hel"), (0, "Hello "), (3, "lo "), (0, "He"), (6, "world")];
        let live: String = pieces.map(|(at, text)| renderer.delta(&delta("m", at, text))).concat();
        assert_eq!(live, "Hello world");
    }

    #[test]
    fn a_lost_delta_makes_the_entry_complete() {
        let mut renderer = Renderer::new(Colour::Off);
        let live = renderer.delta(&delta("m", 0, "He")) + &renderer.delta(&delta("m", 4, "o"));
        let rest = renderer.entry(&entry(json!({"kind": "assistant", "message": "m", "text": "Hello"})));
        assert_eq!(live + &rest, "Hello\n\n");
        assert_eq!(renderer.delta(&delta("late", 5, "x")), "");
    }

    #[test]
    fn what_an_agent_prints_cannot_steer_the_terminal() {
        let mut renderer = Renderer::new(Colour::Off);
        let evil = "a\u{1b}]0;owned\u{7}b\u{1b}[2Jc";
        let origin = json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": evil});
        for value in [
            json!({"kind": "assistant", "message": "m", "text": evil}),
            json!({"kind": "notice", "level": "error", "text": evil}),
            json!({"kind": "tool", "call": "c", "name": evil, "title": evil, "class": "other", "input": {}}),
            json!({"kind": "result", "call": "c", "status": "ok", "text": evil}),
            json!({"kind": "thinking", "message": "m", "text": evil}),
            json!({"kind": "user", "text": evil, "origin": origin, "submission": "s"}),
            json!({"kind": "plan", "steps": [{"text": evil, "state": "done"}]}),
            json!({"kind": evil}),
        ] {
            let text = renderer.entry(&entry(value.clone()));
            assert!(!text.contains('\u{1b}') && !text.contains('\u{7}'), "{value}: {text:?}");
        }
        assert_eq!(renderer.delta(&delta("n", 0, "x\u{1b}[3")), "x");
        assert_eq!(renderer.delta(&delta("n", 4, "1my")), "y");
    }

    #[test]
    fn only_the_end_of_an_own_submission_is_shown() {
        let origin = json!({"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "n"});
        let settled = entry(
            json!({"kind": "settled", "settled": {"submission": "s", "origin": origin, "fate": {"ran": {"reason": "interrupted"}}}}),
        );
        let mut renderer = Renderer::new(Colour::Off);
        assert_eq!(renderer.entry(&settled), "");
        renderer.owns("s".parse().unwrap());
        assert_eq!(renderer.entry(&settled), "  interrupted\n");
    }
}
