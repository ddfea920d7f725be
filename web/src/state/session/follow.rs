//! A record that follows the entries of a live link.

use shared::entry::Known;
use shared::kind::Open;
use shared::record::{Record, Work, WorkState};
use shared::status::{Ended, Fate, Phase, RanReason};
use shared::time::Timestamp;

/// Brings a record up to an entry that came over a live link, as far as this page shows it. The machine's own record follows.
pub(super) fn follow(record: &mut Record, known: &Known, sequence: u64, at: Timestamp) {
    record.sequence = sequence;
    record.updated = record.updated.max(at);
    let mut work = |state: WorkState| record.work = Work { state: state.into(), since: at };
    match known {
        Known::Status { status } => {
            match &status.phase {
                Open::Known(Phase::Busy { .. }) => work(WorkState::Working),
                Open::Known(Phase::Held) => work(WorkState::Held),
                Open::Known(Phase::Starting | Phase::Idle | Phase::Exiting) | Open::Unknown(_) => {}
            }
            record.host = Some(status.clone());
        }
        Known::Settings { settings } => {
            record.branch.clone_from(&settings.branch);
            record.settings = Some(settings.clone());
        }
        Known::Settled { settled } => match &settled.fate {
            Open::Known(Fate::Answered) => work(WorkState::Answered),
            Open::Known(Fate::Ran(Some(Open::Known(RanReason::Interrupted)))) => work(WorkState::Interrupted),
            Open::Known(Fate::Ran(_)) => work(WorkState::Failed),
            Open::Known(Fate::Dropped(_)) | Open::Unknown(_) => {}
        },
        Known::Ended { ended } => {
            let is_unfinished = matches!(
                record.work.state.known(),
                Some(WorkState::New | WorkState::Held | WorkState::Working | WorkState::Waiting)
            );
            if is_unfinished {
                let is_stopped = ended.is(&Ended::Stopped);
                record.work = Work {
                    state: if is_stopped { WorkState::Stopped } else { WorkState::Failed }.into(),
                    since: at,
                };
            }
            record.ended = Some(ended.clone());
            record.host = None;
        }
        Known::Began { .. } => record.ended = None,
        Known::Input(_) => {
            record.inputs += 1;
            record.work = Work { state: WorkState::Waiting.into(), since: at };
        }
        Known::Resolved(_) => {
            record.inputs = record.inputs.saturating_sub(1);
            if record.inputs == 0 && record.work.state.is(&WorkState::Waiting) {
                record.work = Work { state: WorkState::Working.into(), since: at };
            }
        }
        Known::Merged { .. } => work(WorkState::Merged),
        Known::User(_)
        | Known::Assistant(_)
        | Known::Thinking(_)
        | Known::Tool(_)
        | Known::Result(_)
        | Known::Plan(_)
        | Known::Usage(_)
        | Known::Notice(_)
        | Known::Gate { .. } => {}
    }
}
