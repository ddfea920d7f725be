//! `aude doctor`: what is there, what is missing, and the one thing to do about it.

use clap::Args;
use serde_json::json;
use shared::gate::Finding;

use super::connect::Here;
use super::error::CliError;
use super::output;
use super::remedies::explain;
use crate::config::Config;
use crate::harness;
use crate::listener;

/// Arguments of `aude doctor`.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    /// Print each finding as one line of JSON
    #[arg(long)]
    json: bool,
}

/// One thing that was looked at.
struct Look {
    what: String,
    state: State,
    finding: String,
    remedy: Option<String>,
}

/// How a thing stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// As it should be.
    Good,
    /// Something is to be done.
    Missing,
    /// Not there, and nobody needs it who does not want it.
    Optional,
}

impl Doctor {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let mut looks = Vec::new();
        match Here::open() {
            Ok(here) => look_around(&here, &mut looks).await,
            Err(error) => looks.push(Look {
                what: "files".into(),
                state: State::Missing,
                finding: error.sentence,
                remedy: error.hint,
            }),
        }
        for look in &looks {
            if self.json {
                output::json(&json!({
                    "what": look.what,
                    "good": look.state == State::Good,
                    "optional": look.state == State::Optional,
                    "finding": look.finding,
                    "remedy": look.remedy,
                }));
                continue;
            }
            let mark = match look.state {
                State::Good => "ok  ",
                State::Missing => "MISS",
                State::Optional => "--  ",
            };
            output::line(format!("{mark}  {:10} {}", look.what, look.finding));
            if let Some(remedy) = &look.remedy {
                output::line(format!("                 → {remedy}"));
            }
        }
        // Something to run with is all that is needed; the rest is advice.
        if looks.iter().any(|look| look.what == "files" && look.state != State::Good) {
            return Err(CliError::failed("the files of aude cannot be used"));
        }
        Ok(())
    }
}

async fn look_around(here: &Here, looks: &mut Vec<Look>) {
    let mut look = |what: &str, is_good: bool, finding: String, remedy: Option<String>| {
        let state = if is_good { State::Good } else { State::Missing };
        looks.push(Look { what: what.to_owned(), state, finding, remedy });
    };
    look("files", true, format!("{} is private", here.home.root().display()), None);
    let config = match Config::read(&here.home.configuration()) {
        Ok(config) => config,
        Err(error) => {
            look("config", false, error.to_string(), Some("mend or remove that file".into()));
            Config::default()
        }
    };
    match listener::running(&here.home) {
        Ok(Some(running)) => {
            let finding = format!("runs as process {}, port {}", running.pid, running.port);
            match running.other_version() {
                None => look("listener", true, finding, None),
                Some(version) => look(
                    "listener",
                    false,
                    format!(
                        "{finding}, but is of version {version}; this program is of {}",
                        env!("CARGO_PKG_VERSION")
                    ),
                    Some("`aude down`, then `aude up`; sessions go on meanwhile".into()),
                ),
            }
        }
        Ok(None) => look("listener", false, "does not run".into(), Some("`aude up` starts it".into())),
        Err(error) => look("listener", false, error.to_string(), None),
    }
    for (session, problem) in listener::unreadable(&here.home) {
        let record = here.home.session(session).record();
        look(
            "session",
            false,
            format!("{session} cannot be shown: {problem}"),
            Some(format!(
                "mend {}, then `aude down` and `aude up`; nothing of it was deleted",
                record.display()
            )),
        );
    }
    let has_page = listener::has_page();
    let remedy = (!has_page).then(|| "build it with `cargo xtask up`".to_owned());
    look(
        "browser",
        has_page,
        if has_page { "the page is built in" } else { "this build has no page for browsers" }.into(),
        remedy,
    );
    let harnesses = harness::all(&config);
    let place = harness::probe_place(&here.home, config);
    for harness in harnesses {
        let finding = harness.probe(&place).await;
        let version = if finding == Finding::NotFound { None } else { harness.version(&place).await };
        let (sentence, remedy) = explain(harness.name(), &finding, version, harness.oldest());
        let state = match finding {
            Finding::Ok => State::Good,
            // Nobody has all of the agents that could be there.
            Finding::NotFound if harness::acp::is_preset(harness.name()) => State::Optional,
            Finding::NotFound
            | Finding::NotLoggedIn
            | Finding::OtherProvider
            | Finding::TimedOut
            | Finding::Silent { .. }
            | Finding::Unreadable
            | Finding::Spawn { .. }
            | Finding::Unreported => State::Missing,
        };
        looks.push(Look { what: harness.name().to_owned(), state, finding: sentence, remedy });
    }
}
