//! `aude interrupt`, `aude stop` and `aude remove`.

use clap::Args;
use shared::frame::{self, Frame, OpenerBody};
use shared::kind::Open;
use shared::request::{Request, Response};
use shared::status::Phase;

use super::connect::{Here, ask, request};
use super::error::CliError;
use super::output;
use super::quoted::quoted;
use crate::clock;

/// Arguments of `aude interrupt`.
#[derive(Debug, Args)]
pub(super) struct Interrupt {
    /// The session
    session: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Interrupt {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let (_, record) = here.find(&self.session).await?;
        let (mut link, welcome) = here.session(record.id, record.sequence, Some(record.log)).await?;
        let phase = welcome.record.host.map(|host| host.phase);
        let is_busy = matches!(phase, Some(Open::Known(Phase::Busy { .. })));
        let frame = Frame::new(clock::now(), OpenerBody::Interrupt(frame::Interrupt::default()));
        let response = ask(&mut link, frame, |_| {}).await?;
        match &response {
            Open::Known(taken @ Response::Taken(_)) if self.json => output::json(taken),
            Open::Known(Response::Taken(_)) if is_busy => output::note("interrupted"),
            Open::Known(Response::Taken(_)) => output::note("no turn was running"),
            Open::Known(_) | Open::Unknown(_) => return Err(CliError::from_response(&response)),
        }
        Ok(())
    }
}

/// Arguments of `aude stop`.
#[derive(Debug, Args)]
pub(super) struct Stop {
    /// The session
    session: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Stop {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (mut link, record) = Here::open()?.find(&self.session).await?;
        let response = request(&mut link, Request::Stop(record.id)).await?;
        done(
            self.json,
            &response,
            &format!("{} is stopped; `aude send {}` continues it", record.name, quoted(&record.name)),
        );
        Ok(())
    }
}

/// Arguments of `aude remove`.
#[derive(Debug, Args)]
pub(super) struct Remove {
    /// The session; its agent must have ended
    session: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Remove {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (mut link, record) = Here::open()?.find(&self.session).await?;
        let response = request(&mut link, Request::Remove(record.id)).await;
        let response = response.map_err(|error| error.about(&record.name))?;
        done(self.json, &response, &format!("{} is removed", record.name));
        Ok(())
    }
}

fn done(json: bool, response: &Response, sentence: &str) {
    if json {
        output::json(response);
    } else {
        output::note(sentence);
    }
}
