//! `aude merge`: brings the work of a session with a worktree into the branch from which it was started.

use clap::Args;
use shared::request::Request;

use super::connect::{Here, request};
use super::error::CliError;
use super::output;

/// Arguments of `aude merge`.
#[derive(Debug, Args)]
pub(super) struct Merge {
    /// The session, started with `--worktree`
    session: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Merge {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (mut link, record) = Here::open()?.find(&self.session).await?;
        let response = request(&mut link, Request::Merge(record.id)).await?;
        if self.json {
            output::json(&response);
        } else {
            let branch = record.branch.as_deref().unwrap_or("its branch");
            output::note(format!("{} is merged; its worktree and {branch} are removed", record.name));
        }
        Ok(())
    }
}
