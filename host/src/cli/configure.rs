//! `aude configure`: another model, effort or agent in mid-session; without any, what can be chosen.

use clap::Args;
use shared::frame::{Frame, OpenerBody};
use shared::kind::Open;
use shared::record::Record;
use shared::request::{self, Response};

use super::connect::{Here, ask};
use super::error::CliError;
use super::output;
use super::quoted::quoted;
use crate::clock;
use crate::text::one_line;

/// Arguments of `aude configure`.
#[derive(Debug, Args)]
pub(super) struct Configure {
    /// The session
    session: String,
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// How hard the model thinks
    #[arg(long)]
    effort: Option<String>,
    /// The agent or mode of the harness
    #[arg(long)]
    agent: Option<String>,
    /// Print the response, or without a choice the settings, as JSON
    #[arg(long)]
    json: bool,
}

impl Configure {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let (_, record) = here.find(&self.session).await?;
        if self.model.is_none() && self.effort.is_none() && self.agent.is_none() {
            self.show(&record);
            return Ok(());
        }
        let wanted = request::Configure { model: self.model, effort: self.effort, agent: self.agent };
        let (mut link, _) = here.session(record.id, record.sequence, Some(record.log)).await?;
        let frame = Frame::new(clock::now(), OpenerBody::Configure(wanted));
        let response = ask(&mut link, frame, |_| {}).await?;
        match &response {
            Open::Known(taken @ Response::Taken(_)) if self.json => output::json(taken),
            Open::Known(Response::Taken(_)) => {
                output::note(format!("{} uses it from the next call of its model on", record.name));
            }
            Open::Known(_) | Open::Unknown(_) => {
                let hint = format!("`aude configure {}` shows what can be chosen", quoted(&record.name));
                return Err(CliError::from_response(&response).hint(&hint));
            }
        }
        Ok(())
    }

    fn show(&self, record: &Record) {
        if self.json {
            return output::json(&record.settings);
        }
        let Some(settings) = &record.settings else {
            return output::note("the agent of this session has not said yet what can be chosen");
        };
        let rows = [
            ("model", &settings.model, &settings.choices.models),
            ("effort", &settings.effort, &settings.choices.efforts),
            ("agent", &settings.agent, &settings.choices.agents),
        ];
        for (label, now, choices) in rows {
            let now = now.as_deref().unwrap_or("-");
            let choices = if choices.is_empty() { "nothing to choose".to_owned() } else { choices.join(" ") };
            output::line(format!("{label:8} {}   ({})", one_line(now, 100), one_line(&choices, 4000)));
        }
    }
}
