//! `aude down`: ends the listener, and the sessions where that is asked for.

use clap::Args;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shared::request::Request;
use tokio::time::{Duration, Instant, sleep};

use super::connect::{Here, request};
use super::error::{CliError, Code};
use super::output;
use crate::files::{self, Liveness};
use crate::listener;

/// How long a listener may take to end.
const END_WITHIN: Duration = Duration::from_secs(10);

/// Arguments of `aude down`.
#[derive(Debug, Args)]
pub(super) struct Down {
    /// Also stop every session
    #[arg(long)]
    sessions: bool,
}

impl Down {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let lock = here.home.listener_lock();
        let Some(running) = listener::running(&here.home)? else {
            return Err(CliError {
                sentence: "no listener runs on this machine".into(),
                hint: None,
                code: Code::NoListener,
            });
        };
        let mut stopped = 0_usize;
        if self.sessions {
            let (mut link, records) = here.machine().await?;
            for record in records.iter().filter(|record| record.host.is_some()) {
                request(&mut link, Request::Stop(record.id)).await?;
                stopped += 1;
            }
        }
        let pid = Pid::from_raw(
            i32::try_from(running.pid).map_err(|_| CliError::failed("the listener has no process id"))?,
        );
        kill(pid, Signal::SIGTERM)
            .map_err(|error| CliError::failed(format!("cannot end process {pid}: {error}")))?;
        let began = Instant::now();
        while files::held(&lock)? != Liveness::Gone {
            if began.elapsed() > END_WITHIN {
                return Err(CliError::failed(format!("the listener (process {pid}) does not end"))
                    .hint(format!("`kill -9 {pid}` ends it; no session is lost")));
            }
            sleep(Duration::from_millis(20)).await;
        }
        output::note(match (self.sessions, stopped) {
            (true, 0) => "The listener is stopped; no session ran.".to_owned(),
            (true, count) => format!("The listener and {} are stopped.", output::count(count, "session")),
            (false, _) => "The listener is stopped; sessions go on and come back with the next `aude up` or `aude listen`.".to_owned(),
        });
        Ok(())
    }
}
