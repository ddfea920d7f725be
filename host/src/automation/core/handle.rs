//! How the rest of the server asks the core; an answer comes once all that it tells of is on the disk.

use std::time::Duration;

use tokio::sync::{broadcast, mpsc, oneshot, watch};

use super::{Ask, Seen, internal, no_run};
use crate::automation::course::{Answer, shutting_down};
use crate::automation::error::AutomationError;
use crate::automation::event::{Status, StopReason};
use crate::automation::journal::{JournalError, Reader, Recorded};
use crate::automation::live::Transient;
use crate::automation::run::{Request, Run, RunId};
use crate::automation::store::Summary;

/// Asks the core; its clones ask the same one.
#[derive(Clone)]
pub struct Handle {
    asks: mpsc::Sender<Ask>,
    reader: Reader,
    transients: broadcast::Sender<Transient>,
    done: watch::Receiver<bool>,
    /// The last of the events with which the server began.
    first: u64,
}

/// How the server is right now.
#[derive(Debug, Clone)]
pub struct Overview {
    /// The run that has not settled.
    pub active_run: Option<RunId>,
    /// Whether it ends.
    pub is_stopping: bool,
    /// How the session works.
    pub status: Status,
    /// The event that told of the last save.
    pub persisted_seq: u64,
    /// The title, which the next save writes.
    pub title: String,
    /// The session as it is stored.
    pub stored: Summary,
    /// The last event that it depends on.
    pub(super) seq: u64,
}

/// A request that is taken.
pub struct Submitted {
    pub(super) seen: Seen,
    pub(super) is_replay: bool,
}

impl Handle {
    pub(super) fn new(
        asks: mpsc::Sender<Ask>,
        reader: Reader,
        transients: broadcast::Sender<Transient>,
        done: watch::Receiver<bool>,
        first: u64,
    ) -> Self {
        Self { asks, reader, transients, done, first }
    }

    /// Returns once the first events of the server are durable.
    ///
    /// # Errors
    /// [`JournalError::Broken`].
    pub async fn first(&self) -> Result<(), JournalError> {
        self.reader.durable(self.first).await
    }

    /// Submits a run; true where it is the replay of an earlier request.
    ///
    /// # Errors
    /// `request_conflict`, `bad_request` for what is no command, `shutting_down`, `busy`; `internal`.
    pub async fn submit(&self, request: Request) -> Result<(Run, bool), AutomationError> {
        let submitted = self.ask(|reply| Ask::Submit { request, reply }).await??;
        Ok((self.shown(submitted.seen).await?, submitted.is_replay))
    }

    /// The run of a request.
    ///
    /// # Errors
    /// `not_found`; `internal`.
    pub async fn of_request(&self, request_id: String) -> Result<Run, AutomationError> {
        let seen = self.ask(|reply| Ask::OfRequest { request_id, reply }).await?;
        self.shown(seen.ok_or_else(no_run)?).await
    }

    /// The run with this id.
    ///
    /// # Errors
    /// `not_found`; `internal`.
    pub async fn of_id(&self, id: RunId) -> Result<Run, AutomationError> {
        let seen = self.ask(|reply| Ask::OfId { id, reply }).await?;
        self.shown(seen.ok_or_else(no_run)?).await
    }

    /// Asks to cancel a run; one that has settled is unchanged.
    ///
    /// # Errors
    /// `not_found`; `internal`.
    pub async fn cancel(&self, id: RunId) -> Result<Run, AutomationError> {
        let seen = self.ask(|reply| Ask::Cancel { id, reply }).await?;
        self.shown(seen.ok_or_else(no_run)?).await
    }

    /// Answers an input of a run; durable on return.
    ///
    /// # Errors
    /// `not_found`, `not_pending`, `bad_request`; `internal`.
    pub async fn answer(&self, id: RunId, input: String, answer: Answer) -> Result<(), AutomationError> {
        self.ask(|reply| Ask::Answer { id, input, answer, reply }).await?
    }

    /// How the server is.
    ///
    /// # Errors
    /// `shutting_down` once it has ended; `internal`.
    pub async fn overview(&self) -> Result<Overview, AutomationError> {
        let overview = self.ask(|reply| Ask::Overview { reply }).await?;
        self.durable(overview.seq).await?;
        Ok(overview)
    }

    /// The server is to end; more than once changes nothing.
    pub async fn stop(&self, reason: StopReason) {
        // One that has ended already needs no reason.
        let _ = self.asks.send(Ask::Stop(reason)).await;
    }

    /// The number of the last event that can be read.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.reader.last_seq()
    }

    /// Up to `limit` events after the event `after`; where there are none, waits for so long for the first.
    ///
    /// # Errors
    /// `internal` where the file cannot be read.
    pub async fn events(
        &self,
        after: u64,
        limit: usize,
        wait: Duration,
    ) -> Result<Vec<Recorded>, AutomationError> {
        if !wait.is_zero() && self.reader.last_seq() <= after {
            tokio::select! {
                () = self.reader.later_than(after) => {}
                () = self.done() => {}
                () = tokio::time::sleep(wait) => {}
            }
        }
        self.read(after, limit).await
    }

    /// Returns once there is an event after this one, or the server has ended.
    pub async fn later_than(&self, after: u64) {
        tokio::select! {
            () = self.reader.later_than(after) => {}
            () = self.done() => {}
        }
    }

    /// Whether the last event is told.
    #[must_use]
    pub fn is_done(&self) -> bool {
        *self.done.borrow()
    }

    /// Returns once the last event is told.
    pub async fn done(&self) {
        let mut done = self.done.clone();
        // An error means that the core is gone, which is the end too.
        let _ = done.wait_for(|done| *done).await;
    }

    /// Live events from now on.
    #[must_use]
    pub fn transients(&self) -> broadcast::Receiver<Transient> {
        self.transients.subscribe()
    }

    async fn read(&self, after: u64, limit: usize) -> Result<Vec<Recorded>, AutomationError> {
        let reader = self.reader.clone();
        blocking(move || reader.read(after, limit)).await
    }

    /// The record of a run, once all of it is durable.
    async fn shown(&self, seen: Seen) -> Result<Run, AutomationError> {
        match seen {
            Seen::Active(run, seq) => {
                self.durable(seq).await?;
                Ok(*run)
            }
            Seen::Recorded(seq) => {
                self.durable(seq).await?;
                let reader = self.reader.clone();
                let run = blocking(move || reader.run(seq)).await?;
                run.ok_or_else(|| internal("the record of the run is not in the journal"))
            }
        }
    }

    async fn durable(&self, seq: u64) -> Result<(), AutomationError> {
        self.reader.durable(seq).await.map_err(|error| internal(&error.to_string()))
    }

    async fn ask<T>(&self, make: impl FnOnce(oneshot::Sender<T>) -> Ask) -> Result<T, AutomationError> {
        let (reply, answer) = oneshot::channel();
        self.asks.send(make(reply)).await.map_err(|_| shutting_down())?;
        answer.await.map_err(|_| shutting_down())
    }
}

/// Reads the file where blocking is allowed.
async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> std::io::Result<T> + Send + 'static,
) -> Result<T, AutomationError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(Ok(read)) => Ok(read),
        Ok(Err(error)) => Err(internal(&format!("the journal cannot be read: {error}"))),
        Err(_) => Err(internal("the journal could not be read")),
    }
}
