//! What the history says of a host that died: how far its turn had got, and that it is not run twice. Pure.

use shared::entry::Known;
use shared::ids::PartId;
use shared::kind::Open;
use shared::status::Phase;

use crate::text::one_line;

/// With these words begins the notice, so that a host that dies while it gives the notice leaves it given.
const DIED: &str = "The process of this session died";
/// Characters of a tool call's title that are named.
const TITLE: usize = 120;
/// Calls without a result that are remembered; an agent makes a few at once.
const OPEN_CALLS: usize = 64;

/// What the log has of the run that wrote it last, and of its turn.
#[derive(Debug, Clone, Default)]
pub(super) struct Progress {
    /// Texts of the assistant.
    texts: usize,
    /// Tool calls.
    calls: usize,
    /// The calls without a result, with their titles.
    open: Vec<(PartId, String)>,
    /// The notice was given already.
    is_told: bool,
}

impl Progress {
    /// Takes an entry, in order.
    pub(super) fn look(&mut self, known: &Known) {
        match known {
            Known::Began { .. } => *self = Self::default(),
            Known::Status { status } => {
                if matches!(status.phase, Open::Known(Phase::Busy { .. })) {
                    // A turn begins, after the end of the one before has emptied this, or only the queue behind it has changed.
                    return;
                }
                self.forget_turn();
            }
            Known::Settled { .. } => self.forget_turn(),
            Known::Assistant(assistant) if !assistant.text.trim().is_empty() => self.texts += 1,
            Known::Tool(tool) => {
                self.calls += 1;
                if self.open.len() < OPEN_CALLS {
                    self.open.push((tool.call.clone(), one_line(&tool.title, TITLE)));
                }
            }
            Known::Result(result) => self.open.retain(|(call, _)| *call != result.call),
            Known::Notice(notice) if notice.text.starts_with(DIED) => self.is_told = true,
            Known::User(_)
            | Known::Assistant(_)
            | Known::Thinking(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Input(_)
            | Known::Resolved(_)
            | Known::Settings { .. }
            | Known::Gate { .. }
            | Known::Ended { .. }
            | Known::Merged { .. } => {}
        }
    }

    fn forget_turn(&mut self) {
        *self = Self { is_told: self.is_told, ..Self::default() };
    }

    /// The notice about a host that died with so many turns begun and so many waiting; none where it was given.
    pub(super) fn notice(&self, lost: usize, waiting: usize) -> Option<String> {
        if self.is_told {
            return None;
        }
        let what = match lost {
            0 => " while no turn ran.".to_owned(),
            1 => format!(
                " in the middle of a turn. {} The turn is not run a second time by itself; send it again if it is still wanted.",
                self.far()
            ),
            count => format!(
                ". {count} turns had begun, or may have, and are not run a second time by themselves; send again what is still wanted."
            ),
        };
        let kept = match waiting {
            0 => String::new(),
            1 => " One turn that waited had not begun: it is kept, and runs.".to_owned(),
            count => {
                format!(" {count} turns that waited had not begun: they are kept, and run in their order.")
            }
        };
        Some(format!("{DIED}{what}{kept}"))
    }

    /// How far the turn had got.
    fn far(&self) -> String {
        let count = |number: usize, thing: &str| match number {
            1 => format!("one {thing}"),
            _ => format!("{number} {thing}s"),
        };
        let logged = match (self.texts, self.calls) {
            (0, 0) => {
                return "Nothing that the agent said or did in it is in the history; what was shown live of it is gone."
                    .to_owned();
            }
            (texts, 0) => count(texts, "text"),
            (0, calls) => count(calls, "tool call"),
            (texts, calls) => format!("{} and {}", count(texts, "text"), count(calls, "tool call")),
        };
        let open = match self.open.as_slice() {
            [] => String::new(),
            [(_, title)] => {
                format!(" The call \"{title}\" has no result: it may have been done, in part or not at all.")
            }
            [.., (_, title)] => format!(
                " {} calls have no result, the last of them \"{title}\": they may have been done, in part or not at all.",
                self.open.len()
            ),
        };
        format!("The history has {logged} of it; what was shown live after that is gone.{open}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};
    use shared::entry::{Entry, Event};

    fn progress(events: &[Value]) -> Progress {
        let mut progress = Progress::default();
        for event in events {
            let mut event = event.clone();
            event["sequence"] = json!(1);
            event["timestamp"] = json!("2026-01-01T12:00:00.000Z");
            match serde_json::from_value::<Entry>(event).unwrap().event {
                Event::Known(known) => progress.look(&known),
                Event::Unknown(unknown) => panic!("{unknown:?}"),
            }
        }
        progress
    }

    fn status(phase: Value) -> Value {
        json!({"kind": "status", "status": {"queue": [], "last": null, "phase": phase}})
    }

    fn busy() -> Value {
        status(json!({"busy": {"submissions": ["a"], "deadline": null}}))
    }

    fn text() -> Value {
        json!({"kind": "assistant", "message": "m", "text": "hi"})
    }

    fn call(name: &str) -> Value {
        json!({"kind": "tool", "call": name, "name": "bash", "title": format!("run {name}\nx"), "class": "execute", "input": {}})
    }

    fn result(name: &str) -> Value {
        json!({"kind": "result", "call": name, "status": "ok", "text": ""})
    }

    #[test]
    fn the_notice_names_how_far_the_turn_had_got() {
        let nothing = progress(&[busy()]).notice(1, 0).unwrap();
        assert!(nothing.contains("Nothing that the agent said") && nothing.contains("not run a second time"));
        let some =
            progress(&[busy(), text(), call("1"), result("1"), busy(), call("2")]).notice(1, 2).unwrap();
        assert!(some.contains("one text and 2 tool calls"), "{some}");
        assert!(some.contains("The call \"run 2 x\" has no result"), "{some}");
        assert!(
            some.ends_with("2 turns that waited had not begun: they are kept, and run in their order."),
            "{some}"
        );
        let several = progress(&[busy(), call("1"), call("2"), call("3"), result("1")]).notice(1, 0).unwrap();
        assert!(several.contains("2 calls have no result, the last of them \"run 3 x\""), "{several}");
    }

    #[test]
    fn what_an_earlier_turn_had_done_is_no_part_of_it() {
        let idle = status(json!("idle"));
        let settled = json!({"kind": "settled", "settled": {"submission": "a", "fate": "answered",
            "origin": {"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfe", "name": "n"}}});
        for end in [idle, settled] {
            let notice = progress(&[busy(), text(), call("1"), end, busy()]).notice(1, 0).unwrap();
            assert!(notice.contains("Nothing that the agent said"), "{notice}");
        }
        assert!(
            progress(&[text()]).notice(0, 1).unwrap().contains("while no turn ran. One turn that waited")
        );
        assert!(progress(&[busy(), text()]).notice(3, 0).unwrap().contains("3 turns had begun, or may have"));
    }

    #[test]
    fn it_is_given_once_for_each_run() {
        let notice = |text: String| json!({"kind": "notice", "level": "warning", "text": text});
        let given = notice(progress(&[busy()]).notice(1, 0).unwrap());
        assert_eq!(progress(&[busy(), given.clone()]).notice(1, 0), None);
        let began = json!({"kind": "began", "began": {"identity": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfd", "pid": 1,
            "started": "2026-01-01T12:00:00.000Z", "lifetime": "resident"}});
        assert!(progress(&[busy(), given, began]).notice(0, 0).is_some());
    }
}
