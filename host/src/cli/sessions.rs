//! `aude sessions` and `aude show`.

use clap::Args;
use shared::kind::Open;
use shared::record::{Record, WorkState};
use shared::status::Phase;

use super::connect::Here;
use super::error::{CliError, spoken};
use super::output;
use crate::clock;
use crate::text::one_line;

/// Arguments of `aude sessions`.
#[derive(Debug, Args)]
pub(super) struct Sessions {
    /// Print each record as one line of JSON
    #[arg(long)]
    json: bool,
}

impl Sessions {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (_link, mut records) = Here::open()?.machine().await?;
        records.sort_by_key(|record| std::cmp::Reverse(record.updated));
        if self.json {
            records.iter().for_each(output::json);
            return Ok(());
        }
        if records.is_empty() {
            output::note("There is no session yet. Start one with `aude start NAME \"what to do\"`.");
            return Ok(());
        }
        let width = records.iter().map(|record| record.name.chars().count()).max().unwrap_or(0).max(4);
        output::line(format!("{:width$}  {:15}  {:8}  {:>7}  LAST", "NAME", "STATE", "HARNESS", "UPDATED"));
        for record in &records {
            let state = state(record);
            let ago = ago(clock::now().milliseconds() - record.updated.milliseconds());
            let left = output::columns().saturating_sub(width + 40).max(20);
            let last = one_line(record.last.as_deref().unwrap_or(""), left);
            let harness = one_line(&record.harness, 8);
            let name = one_line(&record.name, 48);
            output::line(format!("{name:width$}  {state:15}  {harness:8}  {ago:>7}  {last}").trim_end());
        }
        Ok(())
    }
}

/// Arguments of `aude show`.
#[derive(Debug, Args)]
pub(super) struct Show {
    /// The session: its name, its id, or the beginning of its id
    session: String,
    /// Print the record as JSON
    #[arg(long)]
    json: bool,
}

impl Show {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (_link, record) = Here::open()?.find(&self.session).await?;
        if self.json {
            output::json(&record);
            return Ok(());
        }
        for (label, value) in facts(&record) {
            output::line(format!("{label:12} {}", one_line(&value, 2000)));
        }
        Ok(())
    }
}

fn facts(record: &Record) -> Vec<(&'static str, String)> {
    let settings = record.settings.as_ref();
    let some = |value: Option<&String>| value.cloned().unwrap_or_else(|| "-".to_owned());
    let mut facts = vec![
        ("name", record.name.clone()),
        ("id", record.id.to_string()),
        ("state", state(record)),
        ("harness", record.harness.clone()),
        ("folder", record.working_directory.clone()),
        ("branch", some(record.branch.as_ref())),
        ("model", some(settings.and_then(|settings| settings.model.as_ref()))),
        ("created", record.created.to_string()),
        ("updated", record.updated.to_string()),
        ("entries", record.sequence.to_string()),
    ];
    if let Some(host) = &record.host {
        facts.push(("host", spoken(&host.phase)));
        facts.push(("waiting", output::count(host.queue.len(), "turn")));
        if let Open::Known(Phase::Busy { deadline: Some(deadline), .. }) = &host.phase {
            facts.push(("until", deadline.to_string()));
        }
    }
    if let Some(ended) = &record.ended {
        facts.push(("ended", spoken(ended)));
    }
    if !record.prerequisites.is_empty() {
        let ids: Vec<String> = record.prerequisites.iter().map(ToString::to_string).collect();
        facts.push(("after", ids.join(" ")));
    }
    facts.push(("last", some(record.last.as_ref())));
    facts
}

/// The state of a session in a word or two that are true: an ended host is said.
pub(super) fn state(record: &Record) -> String {
    let word = spoken(&record.work.state);
    if record.inputs > 0 && record.host.is_some() {
        return "needs an answer".to_owned();
    }
    match record.work.state.known() {
        Some(WorkState::Working | WorkState::Waiting | WorkState::Held | WorkState::Stopped) | None => word,
        Some(
            WorkState::New
            | WorkState::Answered
            | WorkState::Interrupted
            | WorkState::Failed
            | WorkState::Merged,
        ) if record.host.is_none() && record.ended.is_some() => {
            format!("{word}, ended")
        }
        Some(_) => word,
    }
}

fn ago(milliseconds: i64) -> String {
    let seconds = milliseconds.max(0) / 1000;
    match seconds {
        0..=59 => format!("{seconds} s"),
        60..=3599 => format!("{} min", seconds / 60),
        3600..=86_399 => format!("{} h", seconds / 3600),
        _ => format!("{} d", seconds / 86_400),
    }
}
