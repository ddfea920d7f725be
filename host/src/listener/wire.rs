//! One WebSocket and the link machine behind it: moves messages both ways, bounded in both, and hands frames to the link's own tasks.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::{Context, Poll};

use axum::extract::ws::{Message, WebSocket};
use futures_util::{SinkExt as _, StreamExt as _};
use shared::failure::{Failure, FailureCode, NO_HELLO, NOT_LISTED};
use shared::frame::{Frame, Hello, ListenerBody, OpenerBody};
use shared::ids::FrameId;
use shared::limits;
use shared::link::{ListenerEvent, ListenerLink};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::time::{Duration, sleep_until, timeout};

use super::Station;
use super::admission::{Admitted, Via};
use super::bind::Arrival;
use super::devices::Pass;
use super::links::{self, Ends, Outgoing};
use super::traffic::{Steady, Traffic};

/// How long the last words of a link may take: a peer that does not read them has to do without.
const LAST_WORDS: Duration = Duration::from_secs(5);
/// The same when the listener ends, and for a device that was revoked: its links are closed within a second.
const BRIEFLY: Duration = Duration::from_millis(500);
/// How long a peer whose frames we do not read may take nothing of what waits for it, in milliseconds: as long as silence may last (wire §9).
const STALLED: u64 = limits::PING_AFTER_MILLISECONDS + limits::PONG_WITHIN_MILLISECONDS;

/// Serves one link from its upgrade to its end; the time for its `hello` runs from `began`.
pub(super) async fn serve(station: Arc<Station>, socket: WebSocket, arrival: Arrival, began: u64) {
    arrival.traffic.becomes_link();
    serve_until_closed(&station, socket, arrival, began).await;
}

async fn serve_until_closed(station: &Arc<Station>, socket: WebSocket, arrival: Arrival, began: u64) {
    let link = match ListenerLink::new(&station.key, began) {
        Ok(link) => link,
        Err(error) => {
            tracing::error!(%error, "a link could not be set up");
            return;
        }
    };
    let mut wire = Wire::new(socket, link, Arc::clone(&arrival.traffic), station);
    let stranger = Stranger::new(station, arrival.via);
    let Some(stranger_hello) = wire.await_hello(stranger.evicted).await else {
        wire.finish(LAST_WORDS).await;
        return;
    };
    let StrangerHello { id, hello } = stranger_hello;
    match welcome(station, &mut wire, arrival.via, &id, hello).await {
        Ok((pass, ends)) => {
            drop(stranger.place);
            let grace = wire.run(ends, &pass).await;
            wire.finish(grace).await;
        }
        Err(failure) => {
            tracing::info!(code = failure.code.word(), detail = failure.detail, "refused a link");
            wire.link.fail(Some(id), failure, station.clock.now());
            wire.finish(LAST_WORDS).await;
        }
    }
}

/// Decides about a `hello`, opens what it names and welcomes it.
async fn welcome(
    station: &Arc<Station>,
    wire: &mut Wire,
    via: Via,
    id: &FrameId,
    hello: Hello,
) -> Result<(Pass, Ends), Failure> {
    let internal = |detail: &str| Failure::new(FailureCode::Internal, detail);
    let key = wire.link.stranger_key().ok_or_else(|| internal("the link is over"))?;
    let (devices, asked, now) = (Arc::clone(&station.devices), hello.clone(), station.clock.now());
    let admitted = tokio::task::spawn_blocking(move || devices.admit(via, key, &asked, now)).await;
    let pass = admitted.map_err(|error| internal(&error.to_string()))??;
    let (welcome, ends) = links::open(station, hello, &pass).await?;
    let welcome =
        Frame::reply(station.clock.now().date, id.clone(), ListenerBody::Welcome(Box::new(welcome)));
    match wire.link.admit(pass.right.clone(), &welcome, station.clock.now()) {
        Ok(events) => {
            wire.events.extend(events);
            Ok((pass, ends))
        }
        Err(error) => Err(internal(&error.to_string())),
    }
}

/// The place of a link among the strangers of the port.
struct Stranger<'a> {
    evicted: Option<oneshot::Receiver<()>>,
    place: Place<'a>,
}

struct Place<'a> {
    station: &'a Station,
    number: Option<u64>,
}

impl<'a> Stranger<'a> {
    fn new(station: &'a Station, via: Via) -> Self {
        if via == Via::Socket {
            return Self { evicted: None, place: Place { station, number: None } };
        }
        let (evict, evicted) = oneshot::channel();
        let (number, earliest) = station.strangers().arrive(evict);
        if let Some(earliest) = earliest {
            // It may have closed already.
            let _ = earliest.send(());
        }
        Self { evicted: Some(evicted), place: Place { station, number: Some(number) } }
    }
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        if let Some(number) = self.number {
            self.station.strangers().leave(number);
        }
    }
}

struct StrangerHello {
    id: FrameId,
    hello: Hello,
}

/// Whether messages of the peer are taken now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Intake {
    Open,
    Shut,
}

enum Exchanged {
    /// A message came.
    Message(Vec<u8>),
    /// The socket took so much that there is room for more.
    Hungry,
    /// The socket is gone, or the peer sent what no link takes.
    Closed,
}

struct Wire {
    socket: WebSocket,
    link: ListenerLink<Admitted>,
    /// What the machine has told and nobody has dealt with.
    events: VecDeque<ListenerEvent>,
    traffic: Arc<Traffic>,
    clock: Steady,
    shutdown: watch::Receiver<bool>,
    heard: u64,
    sent: u64,
    is_flushed: bool,
    stall: Stall,
}

/// Tells a peer that is gone from one whose frames we do not read: while we do not, only what it takes is a sign of life.
#[derive(Debug, Default)]
struct Stall {
    /// Since when nothing is known of the peer, while its frames are not read.
    since: Option<u64>,
}

impl Stall {
    /// When it is to be looked at again, if that is while the intake is shut.
    fn wake_at(&mut self, intake: Intake, now: u64) -> Option<u64> {
        match intake {
            Intake::Open => self.since = None,
            Intake::Shut => return Some(self.since.get_or_insert(now).saturating_add(STALLED)),
        }
        None
    }

    /// Whether the peer has taken nothing for too long although something waits for it; `taken` is when it last did.
    fn is_over(&mut self, taken: u64, flushed: Flushed, now: u64) -> bool {
        let since = self.since.get_or_insert(now);
        *since = match flushed {
            // Nothing waits for it, so it owes us nothing.
            Flushed::Yes => now,
            Flushed::No => taken.max(*since),
        };
        now >= since.saturating_add(STALLED)
    }
}

/// Whether the socket has taken all that was given to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flushed {
    Yes,
    No,
}

impl Wire {
    fn new(
        socket: WebSocket,
        link: ListenerLink<Admitted>,
        traffic: Arc<Traffic>,
        station: &Station,
    ) -> Self {
        let (heard, sent) = (traffic.read(), traffic.written());
        let (clock, shutdown) = (station.clock, station.shutdown.clone());
        Self {
            socket,
            link,
            events: VecDeque::new(),
            traffic,
            clock,
            shutdown,
            heard,
            sent,
            is_flushed: true,
            stall: Stall::default(),
        }
    }

    /// Waits for the `hello` of a stranger; `None` when the link is over.
    async fn await_hello(&mut self, evicted: Option<oneshot::Receiver<()>>) -> Option<StrangerHello> {
        let mut evicted = std::pin::pin!(async {
            match evicted {
                Some(evicted) => evicted.await.is_ok(),
                None => std::future::pending().await,
            }
        });
        loop {
            match self.events.pop_front() {
                Some(ListenerEvent::Hello { id, hello, peer: _ }) => {
                    return Some(StrangerHello { id, hello });
                }
                Some(ListenerEvent::Closed(closed)) => {
                    tracing::debug!(%closed, "a stranger's link ended");
                    return None;
                }
                Some(ListenerEvent::Frame(_)) => continue,
                None => {}
            }
            let wake = self.clock.instant(self.link.wake_at().unwrap_or(u64::MAX / 2));
            let mut shutdown = self.shutdown.clone();
            tokio::select! {
                // The sender only ever says that it is time, or is gone itself.
                _ = shutdown.wait_for(|ends| *ends) => return None,
                _ = &mut evicted => {
                    let failure = Failure::new(FailureCode::Unauthorised, NO_HELLO);
                    self.link.fail(None, failure, self.clock.now());
                    return None;
                }
                exchanged = self.exchange(Intake::Open) => match exchanged {
                    Exchanged::Message(message) => self.receive(&message),
                    Exchanged::Hungry => {}
                    Exchanged::Closed => return None,
                },
                () = sleep_until(wake) => {
                    let event = self.link.tick(self.clock.now());
                    self.events.extend(event);
                }
            }
        }
    }

    /// Moves frames until the link is over, and hands over what has come before its end; gives how long the last words may take.
    async fn run(&mut self, ends: Ends, pass: &Pass) -> Duration {
        let Ends { inbound, mut outbound, tasks: _tasks, last } = ends;
        let grace = self.carry(&inbound, &mut outbound, pass).await;
        if let Some(mut last) = last {
            let handing_over = async {
                for event in self.events.drain(..) {
                    if let ListenerEvent::Frame(frame) = event
                        && inbound.send(*frame).await.is_err()
                    {
                        break;
                    }
                }
                drop(inbound);
                (&mut last).await
            };
            if timeout(LAST_WORDS, handing_over).await.is_err() {
                last.abort();
            }
        }
        grace
    }

    /// Moves frames until the link is over; gives how long its last words may take.
    async fn carry(
        &mut self,
        inbound: &mpsc::Sender<Frame<OpenerBody>>,
        outbound: &mut mpsc::Receiver<Outgoing>,
        pass: &Pass,
    ) -> Duration {
        let revoked = pass.standing.revoked();
        let mut revoked = std::pin::pin!(revoked);
        loop {
            let frame = match self.events.front() {
                Some(ListenerEvent::Closed(closed)) => {
                    tracing::debug!(%closed, "a link ended");
                    return LAST_WORDS;
                }
                Some(ListenerEvent::Hello { .. }) => {
                    self.events.pop_front();
                    continue;
                }
                Some(ListenerEvent::Frame(frame)) => Some(frame),
                None => None,
            };
            let intake = if frame.is_some() { Intake::Shut } else { Intake::Open };
            self.note_traffic();
            let wake = self.clock.instant(self.link.wake_at().unwrap_or(u64::MAX / 2));
            let stalled = self.stall.wake_at(intake, self.clock.milliseconds());
            let stalled = self.clock.instant(stalled.unwrap_or(u64::MAX / 2));
            let mut shutdown = self.shutdown.clone();
            tokio::select! {
                biased;
                // The sender only ever says that it is time, or is gone itself.
                _ = shutdown.wait_for(|ends| *ends) => return BRIEFLY,
                () = &mut revoked => {
                    let failure = Failure::new(FailureCode::Unauthorised, NOT_LISTED);
                    self.link.fail(None, failure, self.clock.now());
                    return BRIEFLY;
                }
                permit = inbound.reserve(), if intake == Intake::Shut => match (permit, self.events.pop_front()) {
                    (Ok(permit), Some(ListenerEvent::Frame(frame))) => permit.send(*frame),
                    _ => return LAST_WORDS,
                },
                outgoing = outbound.recv(), if self.link.is_hungry() => {
                    if let Some(grace) = self.send(outgoing) {
                        return grace;
                    }
                }
                exchanged = self.exchange(intake) => match exchanged {
                    Exchanged::Message(message) => self.receive(&message),
                    Exchanged::Hungry => {}
                    Exchanged::Closed => return Duration::ZERO,
                },
                () = sleep_until(stalled), if intake == Intake::Shut => {
                    self.note_traffic();
                    let flushed = if self.is_flushed { Flushed::Yes } else { Flushed::No };
                    if self.stall.is_over(self.sent, flushed, self.clock.milliseconds()) {
                        tracing::debug!("a link whose peer takes nothing any more ended");
                        return Duration::ZERO;
                    }
                }
                // While it is we who do not read, the peer's silence means nothing.
                () = sleep_until(wake), if intake == Intake::Open => {
                    self.note_traffic();
                    let event = self.link.tick(self.clock.now());
                    self.events.extend(event);
                }
            }
        }
    }

    /// Queues what a task of the link sends; gives how long the last words may take when it was the last.
    fn send(&mut self, outgoing: Option<Outgoing>) -> Option<Duration> {
        let now = self.clock.now();
        let sent = match outgoing {
            Some(Outgoing::Frame(frame)) => self.link.send(&frame),
            Some(Outgoing::Line(line)) => self.link.send_line(&line),
            Some(Outgoing::Fail(reply_to, failure)) => {
                let event = self.link.fail(reply_to, failure, now);
                self.events.extend(event);
                Ok(())
            }
            Some(Outgoing::Close) | None => return Some(LAST_WORDS),
        };
        match sent {
            Ok(()) => None,
            Err(error) => {
                tracing::warn!(%error, "a frame could not be sent, so its link is closed");
                Some(LAST_WORDS)
            }
        }
    }

    fn receive(&mut self, message: &[u8]) {
        let events = self.link.receive(message, self.clock.now());
        self.events.extend(events);
    }

    /// Tells the machine of bytes that came and went and are no whole message.
    fn note_traffic(&mut self) {
        let (heard, sent) = (self.traffic.read(), self.traffic.written());
        if heard > self.heard {
            self.heard = heard;
            self.link.heard(shared::link::Now { steady: heard, ..self.clock.now() });
        }
        if sent > self.sent {
            self.sent = sent;
            self.link.sent(shared::link::Now { steady: sent, ..self.clock.now() });
        }
    }

    /// Writes what waits, and waits for a message. May be dropped at any time: all that it knows is in `self`.
    async fn exchange(&mut self, intake: Intake) -> Exchanged {
        let was_hungry = self.link.is_hungry();
        std::future::poll_fn(|cx| {
            let exchanged = self.poll_exchange(cx, intake);
            if exchanged.is_pending() && !was_hungry && self.link.is_hungry() {
                return Poll::Ready(Exchanged::Hungry);
            }
            exchanged
        })
        .await
    }

    fn poll_exchange(&mut self, cx: &mut Context<'_>, intake: Intake) -> Poll<Exchanged> {
        if self.poll_write(cx).is_err() {
            return Poll::Ready(Exchanged::Closed);
        }
        if intake != Intake::Open {
            return Poll::Pending;
        }
        loop {
            match self.socket.poll_next_unpin(cx) {
                Poll::Ready(Some(Ok(Message::Binary(message)))) if !message.is_empty() => {
                    return Poll::Ready(Exchanged::Message(message.into()));
                }
                Poll::Ready(Some(Ok(Message::Ping(_) | Message::Pong(_)))) => {}
                Poll::Ready(
                    Some(Ok(Message::Binary(_) | Message::Text(_) | Message::Close(_)) | Err(_)) | None,
                ) => return Poll::Ready(Exchanged::Closed),
                Poll::Pending => return Poll::Pending,
            }
        }
    }

    /// Gives the socket as much as it takes.
    fn poll_write(&mut self, cx: &mut Context<'_>) -> Result<Poll<()>, axum::Error> {
        loop {
            match self.socket.poll_ready_unpin(cx)? {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(()) => {}
            }
            let Some(message) = self.link.next_message() else { break };
            self.socket.start_send_unpin(Message::Binary(message.into()))?;
            self.is_flushed = false;
        }
        if !self.is_flushed {
            match self.socket.poll_flush_unpin(cx)? {
                Poll::Pending => return Ok(Poll::Pending),
                Poll::Ready(()) => self.is_flushed = true,
            }
        }
        Ok(Poll::Ready(()))
    }

    /// Sends what is left, then closes the socket.
    async fn finish(&mut self, grace: Duration) {
        let last_words = async {
            let written = std::future::poll_fn(|cx| match self.poll_write(cx) {
                Ok(Poll::Pending) => Poll::Pending,
                Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
                Err(error) => Poll::Ready(Err(error)),
            });
            if written.await.is_ok() {
                // The peer may be gone already; then there is nobody to say goodbye to.
                let _ = self.socket.close().await;
            }
        };
        // A peer that does not take its last words in time goes without them.
        let _ = timeout(grace, last_words).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peer_that_takes_nothing_while_we_do_not_read_is_given_up_and_one_that_takes_is_not() {
        let mut stall = Stall::default();
        assert_eq!(stall.wake_at(Intake::Open, 0), None);
        assert_eq!(stall.wake_at(Intake::Shut, 1000), Some(1000 + STALLED));
        // Something waits, and the peer last took a byte before its frames were left unread.
        assert!(!stall.is_over(500, Flushed::No, STALLED));
        assert!(stall.is_over(500, Flushed::No, 1000 + STALLED));
        let mut slow = Stall::default();
        slow.wake_at(Intake::Shut, 0);
        assert!(!slow.is_over(STALLED - 1, Flushed::No, STALLED));
        assert_eq!(slow.wake_at(Intake::Shut, STALLED), Some(2 * STALLED - 1));
        let mut idle = Stall::default();
        idle.wake_at(Intake::Shut, 0);
        assert!(!idle.is_over(0, Flushed::Yes, STALLED));
        assert!(!idle.is_over(0, Flushed::No, STALLED + 1));
        // Once its frames are read again, what was before does not count.
        assert_eq!(idle.wake_at(Intake::Open, STALLED + 2), None);
        assert_eq!(idle.wake_at(Intake::Shut, 9 * STALLED), Some(10 * STALLED));
    }
}
