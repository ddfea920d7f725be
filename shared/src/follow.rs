//! A record that follows the entries of a live link, where the whole log was not read.

use crate::entry::Known;
use crate::kind::Open;
use crate::limits;
use crate::record::{Record, Work, WorkState};
use crate::status::{Ended, Fate, Phase, RanReason};
use crate::time::Timestamp;

/// Brings a record up to an entry that came over a live link, as the [fold](crate::fold::Fold) of the
/// whole log would have it. What only the machine knows, such as a host that died, comes with its own record.
pub fn follow(record: &mut Record, known: &Known, sequence: u64, at: Timestamp) {
    record.sequence = sequence;
    record.updated = record.updated.max(at);
    let is_waiting = record.work.state.is(&WorkState::Waiting);
    let is_unfinished = matches!(
        record.work.state.known(),
        Some(WorkState::New | WorkState::Held | WorkState::Working | WorkState::Waiting)
    );
    let mut work = |state: WorkState| {
        if !record.work.state.is(&state) {
            record.work = Work { state: state.into(), since: at };
        }
    };
    match known {
        Known::Status { status } => {
            match &status.phase {
                // The host tells of its queue also while it waits for a person.
                Open::Known(Phase::Busy { .. }) if is_waiting => {}
                Open::Known(Phase::Busy { .. }) => work(WorkState::Working),
                Open::Known(Phase::Held) => work(WorkState::Held),
                Open::Known(Phase::Starting | Phase::Idle | Phase::Exiting) | Open::Unknown(_) => {}
            }
            record.host = Some(status.clone());
        }
        Known::Settings { settings } => {
            // A worktree's branch is known before the harness has told of its settings.
            if settings.branch.is_some() {
                record.branch.clone_from(&settings.branch);
            }
            record.settings = Some(settings.clone());
        }
        Known::Settled { settled } => match &settled.fate {
            Open::Known(Fate::Answered) => work(WorkState::Answered),
            Open::Known(Fate::Ran(Some(Open::Known(RanReason::Interrupted)))) => work(WorkState::Interrupted),
            Open::Known(Fate::Ran(_)) => work(WorkState::Failed),
            Open::Known(Fate::Dropped(_)) | Open::Unknown(_) => {}
        },
        Known::Ended { ended } => {
            if is_unfinished {
                work(if ended.is(&Ended::Stopped) { WorkState::Stopped } else { WorkState::Failed });
            }
            record.ended = Some(ended.clone());
            record.host = None;
            // Nothing stays open without the run that asked.
            record.inputs = 0;
        }
        Known::Began { .. } => {
            record.ended = None;
            record.host = None;
        }
        Known::Input(_) => {
            work(WorkState::Waiting);
            record.inputs += 1;
        }
        Known::Resolved(_) => {
            if record.inputs == 1 && is_waiting {
                work(WorkState::Working);
            }
            record.inputs = record.inputs.saturating_sub(1);
        }
        Known::Assistant(assistant) => {
            record.last = Some(assistant.text.chars().take(limits::LAST_SCALARS).collect());
        }
        Known::Merged { .. } => work(WorkState::Merged),
        Known::User(_)
        | Known::Thinking(_)
        | Known::Tool(_)
        | Known::Result(_)
        | Known::Plan(_)
        | Known::Usage(_)
        | Known::Notice(_)
        | Known::Gate { .. } => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::entry::{Entry, Event};
    use crate::fold::{Fold, Liveness};
    use crate::ids::{LogId, SessionId};
    use crate::record::Facts;

    fn facts() -> Facts {
        serde_json::from_value(json!({
            "id": SessionId::random(), "name": "one", "harness": "aura", "working_directory": "/w",
            "created": "2026-01-01T00:00:00.000Z", "log": LogId::random(),
        }))
        .unwrap()
    }

    fn status(phase: &Value, queue: &[&str]) -> Value {
        json!({"kind": "status", "status": {"queue": queue, "last": null, "phase": phase}})
    }

    fn settled(fate: &Value) -> Value {
        json!({"kind": "settled", "settled": {"submission": "s", "fate": fate,
            "origin": {"connection": "6bcf8fed-99c2-4b27-8a5a-24d7caff9bfb", "name": "d"}}})
    }

    #[test]
    fn a_followed_record_is_the_folded_one_after_each_entry() {
        let busy = json!({"busy": {"submissions": ["s"], "deadline": null}});
        let input = |id: &str| json!({"kind": "input", "input": id, "submission": "s", "ask": {"question": "?"}, "digest": "d"});
        let resolved = |id: &str| json!({"kind": "resolved", "input": id, "choice": "cancelled"});
        let (one, two) = ("6bcf8fed-99c2-4b27-8a5a-24d7caff9bf1", "6bcf8fed-99c2-4b27-8a5a-24d7caff9bf2");
        let began = json!({"kind": "began", "began": {"identity": one, "lifetime": "resident", "pid": 1, "started": "2026-01-01T00:00:00.000Z"}});
        let story = [
            began.clone(),
            status(&json!("idle"), &[]),
            status(&busy, &[]),
            input(one),
            status(&busy, &["t"]),
            input(two),
            resolved(one),
            resolved(two),
            json!({"kind": "assistant", "message": "m", "text": "hi"}),
            settled(&json!("answered")),
            status(&busy, &[]),
            settled(&json!({"ran": {"reason": "interrupted"}})),
            status(&busy, &[]),
            input(one),
            json!({"kind": "ended", "ended": "stopped"}),
            began,
            status(&busy, &[]),
            settled(&json!({"ran": {"reason": "failed"}})),
            json!({"kind": "ended", "ended": "refused"}),
        ];
        let mut fold = Fold::new(facts());
        let mut record = fold.record(Liveness::Alive);
        for (sequence, mut body) in (1..).zip(story) {
            body["sequence"] = json!(sequence);
            body["timestamp"] = json!(format!("2026-01-01T00:00:{sequence:02}.000Z"));
            let entry = Entry::of_line(sequence, &body.to_string()).unwrap();
            let Event::Known(known) = &entry.event else { panic!("not read: {body}") };
            fold.apply(&entry);
            follow(&mut record, known, entry.sequence, entry.timestamp);
            let ended = fold.record(Liveness::Alive);
            assert_eq!(record, ended, "after {body}");
        }
    }
}
