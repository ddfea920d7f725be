//! `aude up`: everything at once, for the first minute with aude.

use clap::Args;
use shared::ids::SubmissionId;
use shared::record::Record;
use shared::request;
use tokio::time::{Duration, Instant, sleep};

use super::connect::Here;
use super::error::{CliError, Code};
use super::{output, pair, start};
use crate::files::{self, Liveness};
use crate::listener;
use crate::text::one_line;

/// Arguments of `aude up`.
#[derive(Debug, Args)]
pub(super) struct Up {
    /// The agent of the first session, as in `aude start --harness`: claude, codex, aura, opencode, gemini, qwen, goose, or an agent
    /// of config.toml
    #[arg(long)]
    harness: Option<String>,
    /// Where the first session works [default: this folder]
    #[arg(long, short = 'C')]
    directory: Option<std::path::PathBuf>,
}

/// The name of the first session.
const FIRST: &str = "first";

impl Up {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        if here.ensure_listener().await? {
            output::note("The listener of this machine runs now.");
        } else {
            output::note("The listener of this machine was running already.");
            if let Some(version) = listener::running(&here.home)?.and_then(|running| running.other_version())
            {
                output::note(format!(
                    "It is of version {version}, and this program is of version {}. `aude down`, then `aude up` brings the \
                     listener up to date; sessions go on meanwhile.",
                    env!("CARGO_PKG_VERSION")
                ));
            }
        }
        let session = self.session(&here).await?;
        output::note(format!(
            "Session {:?} ({}) works in {}.\n",
            one_line(&session.name, 48),
            session.harness,
            one_line(&session.working_directory, 4096)
        ));
        tokio::select! {
            Err(error) = self.pair_for_ever(&here) => return ended(&here, error).await,
            _ = tokio::signal::ctrl_c() => {}
        }
        self.farewell(&here).await
    }

    /// A session that can be tried at once: one that is there, else a new one.
    async fn session(&self, here: &Here) -> Result<Record, CliError> {
        let (_, records) = here.machine().await?;
        let live = records.iter().filter(|record| record.host.is_some()).max_by_key(|record| record.updated);
        if let Some(record) = live {
            return Ok(record.clone());
        }
        let harness = match &self.harness {
            Some(harness) => harness.clone(),
            None => start::default_harness(here).await?,
        };
        let directory = self.directory.clone().unwrap_or_else(|| ".".into());
        let working_directory = start::absolute(&directory)?;
        for number in 1..=1000 {
            let name = if number == 1 { FIRST.to_owned() } else { format!("{FIRST}-{number}") };
            // Nobody should pay for a greeting; the built-in engine's costs nothing and shows what can be tried.
            let text = (harness == "aura").then(|| "hello".to_owned());
            let start = request::Start {
                name,
                harness: harness.clone(),
                working_directory: working_directory.clone(),
                text,
                request: Some(SubmissionId::random()),
                ..request::Start::default()
            };
            match start::begin(here, start).await {
                Ok((record, ..)) => return Ok(record),
                // A name of an earlier day with another agent, or of a session that was removed.
                Err(error) if error.code == Code::Refused && number < 1000 => {
                    if !is_about_the_name(&error) {
                        return Err(error);
                    }
                }
                Err(error) => return Err(error),
            }
        }
        Err(CliError::failed("no name is free for the first session"))
    }

    async fn pair_for_ever(&self, here: &Here) -> Result<(), CliError> {
        loop {
            let pairing = pair::pair(here, |window| {
                pair::show(window);
                output::note("Ctrl-C ends this screen; the listener and the session go on.");
            });
            match pairing.await {
                Ok(paired) => {
                    output::note(format!(
                        "Paired with {}. Here is a link for the next device:\n",
                        one_line(&paired.name, 48)
                    ));
                }
                Err(error) if error.code == Code::Refused => {
                    output::note(format!("({}; here is a new link)\n", error.sentence));
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn farewell(&self, here: &Here) -> Result<(), CliError> {
        let Some(listener) = listener::running(&here.home)? else { return Ok(()) };
        let live = match here.machine().await {
            Ok((_, records)) => records.iter().filter(|record| record.host.is_some()).count(),
            Err(_) => 0,
        };
        output::note(format!(
            "\nThe listener (process {}) and {} go on without this screen.\n\
             Stop both with `aude down --sessions`, the listener alone with `aude down`; pair another device with `aude pair`.",
            listener.pid,
            output::count(live, "session")
        ));
        Ok(())
    }
}

/// How long the listener may take to be gone after it has closed our link.
const GONE_WITHIN: Duration = Duration::from_secs(5);

/// The end of the screen without a key: a listener that was stopped in order, from elsewhere, is no failure.
async fn ended(here: &Here, error: CliError) -> Result<(), CliError> {
    let began = Instant::now();
    while files::held(&here.home.listener_lock())? != Liveness::Gone {
        if began.elapsed() > GONE_WITHIN {
            return Err(error);
        }
        sleep(Duration::from_millis(30)).await;
    }
    // Only one that ended in order takes the file along that says where it is.
    if listener::Whereabouts::read(&here.home)?.is_some() {
        return Err(CliError::failed("the listener of this machine died")
            .hint("`aude up` starts it again; sessions go on meanwhile"));
    }
    output::note(
        "\nThe listener was stopped from elsewhere, so this link is closed. `aude up` starts it again.",
    );
    Ok(())
}

fn is_about_the_name(error: &CliError) -> bool {
    error.sentence.contains("name")
}
