//! `aude rename`: another name for a session.

use clap::Args;
use shared::request::{Rename as Wanted, Request};

use super::connect::{Here, request};
use super::error::CliError;
use super::output;
use super::quoted::session_name;

/// Arguments of `aude rename`.
#[derive(Debug, Args)]
pub(super) struct Rename {
    /// The session
    session: String,
    /// Its new name
    #[arg(value_parser = session_name)]
    name: String,
    /// Print the response as JSON
    #[arg(long)]
    json: bool,
}

impl Rename {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let (mut link, record) = Here::open()?.find(&self.session).await?;
        let wanted = Wanted { session: record.id, name: self.name.clone() };
        let response = request(&mut link, Request::Rename(wanted)).await?;
        if self.json {
            output::json(&response);
        } else {
            output::note(format!("{} is now {}", record.name, self.name.trim()));
        }
        Ok(())
    }
}
