//! `GET /v1/events`: the journal as server-sent events, with live text beside it where that is asked for ("Streaming").

use std::collections::VecDeque;
use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{Request, State};
use axum::http::{HeaderName, HeaderValue, header};
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::Stream;
use futures_util::stream::unfold;
use tokio::sync::broadcast::{self, error::RecvError};

use super::input::{self, Query};
use super::{Refused, Station, event_cursor};
use crate::automation::core::Handle;
use crate::automation::error::AutomationError;
use crate::automation::journal::Recorded;
use crate::automation::live::Transient;

/// Seconds of silence before a heartbeat where nothing is asked for.
const HEARTBEAT: u64 = 15;
/// The longest silence, in seconds.
const HEARTBEAT_MOST: u64 = 60;
/// Events that one stream reads at once: what it holds in memory.
const READ: usize = 64;
/// The header with which a client goes on where it was.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// The header that keeps a proxy from holding events back.
const BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// Answers with the stream.
pub(super) async fn events(
    State(station): State<Arc<Station>>,
    request: Request,
) -> Result<Response, Refused> {
    let query = Query::of(&request, &["after", "transient", "thinking", "heartbeat"])?;
    let last = request.headers().get(LAST_EVENT_ID).map(last_event_id).transpose()?;
    let named = query.cursor("after")?;
    let (with_transients, with_thinking) = (query.flag("transient")?, query.flag("thinking")?);
    let heartbeat = query.number("heartbeat", 1, HEARTBEAT_MOST)?.unwrap_or(HEARTBEAT);
    let after = event_cursor(&station.handle, last.or(named).unwrap_or(0))?;
    let following = Following {
        after,
        read: VecDeque::new(),
        transients: with_transients.then(|| station.handle.transients()),
        with_thinking,
        handle: station.handle.clone(),
    };
    let alive = KeepAlive::new()
        .interval(Duration::from_secs(heartbeat))
        .event(Event::default().event("heartbeat").data("{}"));
    let mut response = Sse::new(following.stream()).keep_alive(alive).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache, no-transform"));
    headers.insert(BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

fn last_event_id(value: &HeaderValue) -> Result<i128, AutomationError> {
    input::cursor("Last-Event-ID", value.to_str().unwrap_or_default())
}

/// One reader of events.
struct Following {
    /// The last event that was read.
    after: u64,
    /// Read and not sent yet.
    read: VecDeque<Recorded>,
    transients: Option<broadcast::Receiver<Transient>>,
    with_thinking: bool,
    handle: Handle,
}

impl Following {
    /// The events in order; it ends behind the last one of the server, or where the journal cannot be read.
    fn stream(self) -> impl Stream<Item = Result<Event, Infallible>> {
        unfold(self, |mut following| async move {
            let event = following.next().await?;
            Some((Ok(event), following))
        })
    }

    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some(recorded) = self.read.pop_front() {
                let (seq, name) = recorded.label()?;
                return Some(Event::default().id(seq.to_string()).event(name).data(recorded.text()));
            }
            // In this order: what is told before the end is there once the end is seen.
            let is_done = self.handle.is_done();
            if self.handle.last_seq() > self.after {
                self.read.extend(self.handle.events(self.after, READ, Duration::ZERO).await.ok()?);
                self.after = self.read.back()?.label()?.0;
                continue;
            }
            if is_done {
                return None;
            }
            tokio::select! {
                () = self.handle.later_than(self.after) => {}
                transient = live(&mut self.transients) => match transient {
                    Some(Transient::Thinking { .. }) if !self.with_thinking => {}
                    Some(transient) => return event_of(&transient),
                    None => self.transients = None,
                },
            }
        }
    }
}

/// The next live event; what a slow reader missed is passed over. None once there are no more.
async fn live(transients: &mut Option<broadcast::Receiver<Transient>>) -> Option<Transient> {
    let Some(receiver) = transients else { return std::future::pending().await };
    loop {
        match receiver.recv().await {
            Ok(transient) => return Some(transient),
            Err(RecvError::Lagged(_)) => {}
            Err(RecvError::Closed) => return None,
        }
    }
}

fn event_of(transient: &Transient) -> Option<Event> {
    let value = serde_json::to_value(transient).ok()?;
    let name = value.get("type")?.as_str()?;
    Some(Event::default().event(name).data(value.get("data")?.to_string()))
}
