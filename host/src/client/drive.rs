//! The task behind a link: moves frames between the caller's channels, the link machine and the socket.

use std::collections::VecDeque;

use futures_util::{SinkExt, Stream, StreamExt};
use shared::frame::{Frame, ListenerBody, OpenerBody, Welcome};
use shared::link::{ClientEvent, ClientLink};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{mpsc, oneshot};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::{self, Message};

use super::Closed;
use crate::clock::Clock;

/// Messages between the driver and the task that writes; more would only hide a slow peer from the link machine.
const WRITING: usize = 1;

/// The caller's ends of a link.
pub(super) struct Ends {
    pub(super) outgoing: mpsc::Receiver<Frame<OpenerBody>>,
    pub(super) incoming: mpsc::Sender<Frame<ListenerBody>>,
    pub(super) welcomed: Option<oneshot::Sender<Welcome>>,
}

/// Runs until the caller drops its channels, the listener closes, or the connection breaks.
pub(super) async fn drive<T>(
    socket: WebSocketStream<T>,
    mut link: ClientLink,
    ends: Ends,
    clock: Clock,
) -> Closed
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
    let Ends { mut outgoing, incoming, mut welcomed } = ends;
    // Writing has a task of its own, so that a peer that does not read never keeps us from reading.
    let (mut sink, mut stream) = socket.split();
    let (writing, mut to_write) = mpsc::channel::<Vec<u8>>(WRITING);
    let writer = tokio::spawn(async move {
        while let Some(message) = to_write.recv().await {
            if sink.send(Message::Binary(message.into())).await.is_err() {
                return;
            }
        }
        // The peer may be gone already; then there is nobody to say goodbye to.
        let _ = sink.close().await;
    });
    let mut arrived: VecDeque<Frame<ListenerBody>> = VecDeque::new();
    let mut message = None;
    let mut closed = None;
    loop {
        message = message.or_else(|| link.next_message());
        // What came before the end is handed over, and what was queued before it is sent.
        if let (Some(closed), true, true) = (&closed, arrived.is_empty(), message.is_none()) {
            drop(writing);
            let _ = writer.await;
            return Closed::clone(closed);
        }
        let is_over = closed.is_some();
        let wake = link.wake_at().unwrap_or(u64::MAX);
        tokio::select! {
            frame = outgoing.recv(), if !is_over && link.is_open() && link.is_hungry() => match frame {
                Some(frame) => {
                    if let Err(error) = link.send(&frame) {
                        closed = Some(Closed::Broken(error.to_string()));
                    }
                }
                None => closed = Some(Closed::ByUs),
            },
            permit = writing.reserve(), if message.is_some() => match (permit, message.take()) {
                (Ok(permit), Some(message)) => {
                    permit.send(message);
                    link.sent(clock.now());
                }
                (Err(_), _) => {
                    closed.get_or_insert(Closed::Broken("the connection broke".to_owned()));
                    while link.next_message().is_some() {}
                }
                (Ok(_), None) => {}
            },
            permit = incoming.reserve(), if !arrived.is_empty() => match (permit, arrived.pop_front()) {
                (Ok(permit), Some(frame)) => permit.send(frame),
                (Err(_), _) => {
                    arrived.clear();
                    closed.get_or_insert(Closed::ByUs);
                }
                (Ok(_), None) => {}
            },
            // While frames wait for the caller, the socket is not read, and the listener waits in turn.
            received = receive(&mut stream), if !is_over && arrived.is_empty() => match received {
                Ok(bytes) => {
                    for event in link.receive(&bytes, clock.now()) {
                        take(event, &mut welcomed, &mut arrived, &mut closed);
                    }
                }
                Err(reason) => closed = Some(reason),
            },
            // It is we who do not read then, so the listener's silence means nothing.
            () = clock.until(wake), if !is_over && arrived.is_empty() => {
                if let Some(event) = link.tick(clock.now()) {
                    take(event, &mut welcomed, &mut arrived, &mut closed);
                }
            }
        }
    }
}

fn take(
    event: ClientEvent,
    welcomed: &mut Option<oneshot::Sender<Welcome>>,
    arrived: &mut VecDeque<Frame<ListenerBody>>,
    closed: &mut Option<Closed>,
) {
    match event {
        ClientEvent::Welcomed(welcome) => {
            if let Some(welcomed) = welcomed.take() {
                // A caller that has gone shows as a closed channel soon enough.
                let _ = welcomed.send(*welcome);
            }
        }
        ClientEvent::Frame(frame) => arrived.push_back(*frame),
        ClientEvent::Unreadable(bad) => tracing::warn!(%bad, "the listener sent a line that is no frame"),
        ClientEvent::Closed(reason) => *closed = Some(Closed::Link(reason)),
    }
}

/// The next binary message; anything else ends the link (wire §1). May be dropped and called again.
async fn receive<S>(stream: &mut S) -> Result<Vec<u8>, Closed>
where
    S: Stream<Item = Result<Message, tungstenite::Error>> + Unpin,
{
    loop {
        match stream.next().await {
            Some(Ok(Message::Binary(message))) => return Ok(message.into()),
            Some(Ok(Message::Ping(_) | Message::Pong(_))) => {}
            Some(Ok(Message::Close(_))) | None => return Err(Closed::ByListener),
            Some(Ok(Message::Text(_) | Message::Frame(_))) => {
                return Err(Closed::Broken("it sent something else than Noise".to_owned()));
            }
            Some(Err(error)) => return Err(Closed::Broken(error.to_string())),
        }
    }
}
