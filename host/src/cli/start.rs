//! `aude start`: a new session, or one that has ended and goes on.

use std::path::PathBuf;

use clap::Args;
use shared::ids::SubmissionId;
use shared::kind::Open;
use shared::record::Record;
use shared::request::{self, Request, Response};

use super::attach::{self, Attach};
use super::connect::{Here, request_again};
use super::error::CliError;
use super::quoted::{quoted, session_name};
use super::{output, send};
use crate::config::Config;
use crate::harness;

/// Arguments of `aude start`.
#[derive(Debug, Args)]
pub(super) struct Start {
    /// The name of the session
    #[arg(value_parser = session_name)]
    name: String,
    /// The first turn; standard input is read where there is none. Without any, the session waits
    text: Vec<String>,
    /// The agent: claude, codex, aura, opencode, gemini, qwen, goose, or an agent of config.toml; where none is given, the first
    /// of them that is installed and logged in
    #[arg(long)]
    harness: Option<String>,
    /// Where the agent works [default: this folder]
    #[arg(long, short = 'C')]
    directory: Option<PathBuf>,
    /// How long the first turn may take: 90, 90s, 10m or 2h
    #[arg(long, value_parser = send::budget)]
    budget: Option<u64>,
    /// A session that must have answered first; may be given more than once
    #[arg(long)]
    after: Vec<String>,
    /// The model
    #[arg(long)]
    model: Option<String>,
    /// How hard the model thinks
    #[arg(long)]
    effort: Option<String>,
    /// The agent or mode of the harness
    #[arg(long)]
    agent: Option<String>,
    /// Work in a git worktree and on a branch of its own; `aude merge NAME` brings the work back
    #[arg(long)]
    worktree: bool,
    /// The id of the request; the same one never starts a second session
    #[arg(long)]
    request: Option<SubmissionId>,
    /// Attach to the session at once
    #[arg(long)]
    attach: bool,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Start {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let text = send::text_or_input(&self.text)?;
        if here.ensure_listener().await? {
            output::note("(started the listener of this machine; `aude down` stops it)");
        }
        let mut prerequisites = Vec::new();
        for word in &self.after {
            prerequisites.push(here.find(word).await?.1.id);
        }
        let harness = match self.harness {
            Some(harness) => harness,
            None => default_harness(&here).await?,
        };
        let directory = self.directory.unwrap_or_else(|| PathBuf::from("."));
        let start = request::Start {
            name: self.name,
            harness,
            working_directory: absolute(&directory)?,
            text,
            budget: self.budget,
            prerequisites,
            model: self.model,
            effort: self.effort,
            agent: self.agent,
            request: Some(self.request.unwrap_or_else(SubmissionId::random)),
            worktree: self.worktree.then_some(true),
        };
        let name = start.name.clone();
        let begun = begin(&here, start).await;
        let (record, is_new, response) = begun.map_err(|error| error.about(&name))?;
        if self.json {
            output::json(&response);
        } else {
            let verb = if is_new { "started" } else { "continued" };
            output::note(format!(
                "{verb} {} with {} in {}",
                record.name, record.harness, record.working_directory
            ));
        }
        if self.attach {
            let options = Attach { session: record.name, no_follow: false, since: 0, json: self.json };
            return attach::attach(&here, record.id, &options).await;
        }
        if !self.json {
            output::note(format!("watch with `aude attach {}`", quoted(&record.name)));
        }
        Ok(())
    }
}

/// Starts a session; gives its record, and whether it is new.
pub(super) async fn begin(here: &Here, start: request::Start) -> Result<(Record, bool, Response), CliError> {
    let (mut link, _) = here.machine().await?;
    let response = request_again(&mut link, Request::Start(Box::new(start))).await?;
    if let Response::Started(record) = &response {
        return Ok((record.as_ref().clone(), true, response));
    }
    if let Response::Continued(record) = &response {
        return Ok((record.as_ref().clone(), false, response));
    }
    Err(CliError::from_response(&Open::Known(response)))
}

/// The harness where none was asked for: Claude Code when it may run, else the built-in one.
pub(super) async fn default_harness(here: &Here) -> Result<String, CliError> {
    let config = Config::read(&here.home.configuration())?;
    let harnesses = harness::all(&config);
    let place = harness::probe_place(&here.home, config);
    for harness in harnesses {
        if harness.probe(&place).await == shared::gate::Finding::Ok {
            return Ok(harness.name().to_owned());
        }
    }
    Ok("aura".to_owned())
}

/// An absolute path without `.` and `..`; symlinks stay as the person wrote them.
pub(super) fn absolute(path: &std::path::Path) -> Result<String, CliError> {
    let absolute = std::path::absolute(path).map_err(|error| CliError::io("find", path, &error))?;
    absolute
        .into_os_string()
        .into_string()
        .map_err(|_| CliError::failed("the folder's name is not UTF-8, which this protocol cannot carry"))
}
