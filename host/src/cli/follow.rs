//! Following a session over a link that may break: reconnects from the last sequence, and says so.

use shared::entry::{Entry, Event, Known};
use shared::failure::FailureCode;
use shared::frame::{Delta, Frame, ListenerBody, OpenerBody};
use shared::ids::{FrameId, LogId, SessionId};
use shared::kind::Open;
use shared::link;
use shared::record::Record;
use shared::request::Response;
use tokio::time::{Duration, sleep};

use super::connect::Here;
use super::error::{CliError, Code};
use crate::client::{Closed, Link};

/// The first wait before a new try, and the longest.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// A session that is being followed.
#[derive(Debug)]
pub(super) struct Follow<'a> {
    here: &'a Here,
    session: SessionId,
    log: LogId,
    since: u64,
    link: Option<Link>,
    backoff: Duration,
    /// The record when the link was opened last.
    pub(super) record: Record,
    /// Transcript entries of the backlog that have not come yet.
    pub(super) backlog: u64,
}

/// What a follower sees.
#[derive(Debug)]
pub(super) enum Seen {
    /// An entry, in rising order and only once.
    Entry(Box<Entry>),
    /// What became of a submission that was sent again; it is as old as it says, and may have been seen before.
    Retold(Box<Entry>),
    /// Live text.
    Delta(Delta),
    /// The answer to a frame.
    Answer(FrameId, Open<Response>),
    /// A frame was refused as such; a defect of ours or of the listener's.
    Failed(Option<FrameId>, String),
    /// The link broke; the next call tries to open it again.
    Lost,
    /// The link is open again. What was not answered may be sent again.
    Back {
        /// The log is another one, so the history comes again from its beginning.
        is_anew: bool,
    },
}

impl<'a> Follow<'a> {
    /// Opens the link; entries after `since` come.
    pub(super) async fn open(
        here: &'a Here,
        session: SessionId,
        since: u64,
        log: Option<LogId>,
    ) -> Result<Self, CliError> {
        let (link, welcome) = here.session(session, since, log).await?;
        Ok(Self {
            here,
            session,
            log: welcome.log,
            since: welcome.from,
            link: Some(link),
            backoff: BACKOFF.0,
            record: welcome.record,
            backlog: welcome.backlog_count,
        })
    }

    /// Sends a frame, if the link is open; whether it arrived only its answer tells.
    pub(super) async fn send(&self, frame: Frame<OpenerBody>) {
        if let Some(link) = &self.link {
            // A link that broke shows in `next`, and the caller sends again after `Back`.
            let _ = link.sender.send(frame).await;
        }
    }

    /// What happens next. May be dropped and called again.
    pub(super) async fn next(&mut self) -> Result<Seen, CliError> {
        loop {
            let Some(link) = &mut self.link else { return self.reopen().await };
            let Some(frame) = link.frames.recv().await else {
                let Some(link) = self.link.take() else { return Ok(Seen::Lost) };
                return lost(link.closed().await);
            };
            let reply_to = frame.reply_to;
            match frame.body {
                ListenerBody::Entry(entry) if entry.sequence > self.since || self.backlog > 0 => {
                    self.since = self.since.max(entry.sequence);
                    if self.backlog > 0 {
                        self.backlog -= 1;
                        if self.backlog == 0 {
                            self.since = self.since.max(self.record.sequence);
                        }
                    }
                    return Ok(Seen::Entry(entry));
                }
                // Told again to a submission that was sent again.
                ListenerBody::Entry(entry) if is_settled(&entry) => return Ok(Seen::Retold(entry)),
                ListenerBody::Delta(delta) => return Ok(Seen::Delta(delta)),
                ListenerBody::Response(response) => {
                    if let Some(id) = reply_to {
                        return Ok(Seen::Answer(id, *response));
                    }
                }
                ListenerBody::Failure(failure) if !failure.is_fatal => {
                    return Ok(Seen::Failed(reply_to, failure.detail));
                }
                ListenerBody::Entry(_)
                | ListenerBody::Failure(_)
                | ListenerBody::Presence(_)
                | ListenerBody::Machine(_)
                | ListenerBody::Welcome(_)
                | ListenerBody::Submission(_)
                | ListenerBody::Interrupt(_)
                | ListenerBody::Answer(_)
                | ListenerBody::Configure(_)
                | ListenerBody::Request(_)
                | ListenerBody::Ping
                | ListenerBody::Pong
                | ListenerBody::Unknown(_) => {}
            }
        }
    }

    async fn reopen(&mut self) -> Result<Seen, CliError> {
        loop {
            sleep(self.backoff).await;
            match self.here.session(self.session, self.since, Some(self.log)).await {
                Ok((link, welcome)) => {
                    let is_anew = welcome.from == 0 && self.since > 0;
                    self.link = Some(link);
                    self.backoff = BACKOFF.0;
                    self.log = welcome.log;
                    self.since = welcome.from;
                    self.record = welcome.record;
                    self.backlog = welcome.backlog_count;
                    return Ok(Seen::Back { is_anew });
                }
                Err(error) if error.code == Code::NotFound => return Err(error),
                Err(_) => self.backoff = (self.backoff * 2).min(BACKOFF.1),
            }
        }
    }
}

fn is_settled(entry: &Entry) -> bool {
    matches!(&entry.event, Event::Known(known) if matches!(known.as_ref(), Known::Settled { .. }))
}

/// A refusal ends the following; everything else is a link that broke and can be opened again.
fn lost(closed: Closed) -> Result<Seen, CliError> {
    let Closed::Link(link::Closed::Failure(failure)) = closed else { return Ok(Seen::Lost) };
    match failure.code {
        Open::Known(FailureCode::Unauthorised | FailureCode::NotFound | FailureCode::Retired) => {
            Err(failure.into())
        }
        Open::Known(_) | Open::Unknown(_) => Ok(Seen::Lost),
    }
}
