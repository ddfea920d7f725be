//! The task behind a link: moves frames between the caller's channels and the socket, and keeps the link alive.

use std::collections::VecDeque;

use futures_util::{SinkExt, StreamExt};
use shared::channel::{Channel, Pin};
use shared::failure::Failure;
use shared::frame::{Frame, ListenerBody, OpenerBody};
use shared::limits;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant, sleep_until};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;

use super::{Closed, receive, seal};
use crate::clock;

/// Sealed messages that may wait for the socket.
const WRITING: usize = 4;

/// Runs until the caller drops its channels, the listener closes, or the connection breaks.
pub(super) async fn drive<T>(
    socket: WebSocketStream<T>,
    mut channel: Channel<Pin>,
    mut outgoing: mpsc::Receiver<Frame<OpenerBody>>,
    incoming: mpsc::Sender<Frame<ListenerBody>>,
) -> Closed
where
    T: AsyncRead + AsyncWrite + Send + Unpin + 'static,
{
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
    let mut state = State::new();
    let closed = loop {
        if let Err(closed) = state.take_lines(&mut channel).and_then(|()| state.seal_answers(&mut channel)) {
            break closed;
        }
        let deadline = state.silent_since + state.patience();
        tokio::select! {
            frame = outgoing.recv(), if state.sealed.is_empty() => match frame {
                Some(frame) => match seal(&mut channel, &frame) {
                    Ok(messages) => state.sealed.extend(messages),
                    Err(error) => break Closed::Broken(error.to_string()),
                },
                None => break Closed::ByUs,
            },
            permit = writing.reserve(), if !state.sealed.is_empty() => match (permit, state.sealed.pop_front()) {
                (Ok(permit), Some(message)) => permit.send(message),
                (Err(_), _) => break state.by_listener("the connection broke"),
                (Ok(_), None) => {}
            },
            permit = incoming.reserve(), if state.arrived.is_some() => match (permit, state.arrived.take()) {
                (Ok(permit), Some(frame)) => permit.send(frame),
                (Err(_), _) => break Closed::ByUs,
                (Ok(_), None) => {}
            },
            message = receive(&mut stream), if state.arrived.is_none() => match message {
                Ok(message) => {
                    state.heard();
                    if let Err(error) = channel.receive(&message) {
                        break Closed::Broken(error.to_string());
                    }
                }
                Err(detail) => break state.by_listener(&detail),
            },
            // While a frame waits for the caller it is we who do not read; the listener's silence then means nothing.
            () = sleep_until(deadline), if state.arrived.is_none() => {
                if state.is_pinged {
                    break Closed::Broken("the listener fell silent".to_owned());
                }
                state.is_pinged = true;
                state.silent_since = Instant::now();
                state.answers.push_back(OpenerBody::Ping.into());
            },
        }
    };
    // What was accepted for sending goes out before we close by ourselves; a broken link takes nothing any more.
    if closed == Closed::ByUs {
        for message in state.sealed {
            if writing.send(message).await.is_err() {
                break;
            }
        }
    }
    drop(writing);
    let _ = writer.await;
    closed
}

struct State {
    /// Messages of frames that are being sent.
    sealed: VecDeque<Vec<u8>>,
    /// Our own `ping` and `pong`.
    answers: VecDeque<Reply>,
    /// A frame that waits until the caller takes it.
    arrived: Option<Frame<ListenerBody>>,
    silent_since: Instant,
    is_pinged: bool,
    failure: Option<Failure>,
}

struct Reply {
    body: OpenerBody,
    to: Option<shared::ids::FrameId>,
}

impl From<OpenerBody> for Reply {
    fn from(body: OpenerBody) -> Self {
        Self { body, to: None }
    }
}

impl State {
    fn new() -> Self {
        Self {
            sealed: VecDeque::new(),
            answers: VecDeque::new(),
            arrived: None,
            silent_since: Instant::now(),
            is_pinged: false,
            failure: None,
        }
    }

    fn heard(&mut self) {
        self.silent_since = Instant::now();
        self.is_pinged = false;
    }

    fn patience(&self) -> Duration {
        Duration::from_millis(if self.is_pinged {
            limits::PONG_WITHIN_MILLISECONDS
        } else {
            limits::PING_AFTER_MILLISECONDS
        })
    }

    fn by_listener(&self, detail: &str) -> Closed {
        match &self.failure {
            Some(failure) => Closed::ByListener(Some(failure.clone())),
            None if detail == "it closed the connection" => Closed::ByListener(None),
            None => Closed::Broken(detail.to_owned()),
        }
    }

    /// Reads lines until there is a frame for the caller.
    fn take_lines(&mut self, channel: &mut Channel<Pin>) -> Result<(), Closed> {
        let broken = |error: &dyn std::fmt::Display| Closed::Broken(error.to_string());
        while self.arrived.is_none() {
            let Some(line) = channel.next_line().map_err(|error| broken(&error))? else { return Ok(()) };
            let frame = Frame::<ListenerBody>::from_line(&line).map_err(|error| broken(&error))?;
            if matches!(frame.body, ListenerBody::Ping) {
                // One answer is enough for pings that come together: any byte shows that we live.
                self.answers.truncate(0);
                self.answers.push_back(Reply { body: OpenerBody::Pong, to: Some(frame.id) });
                continue;
            }
            if matches!(frame.body, ListenerBody::Pong | ListenerBody::Unknown(_)) {
                continue;
            }
            if let ListenerBody::Failure(failure) = &frame.body
                && failure.is_fatal
            {
                self.failure = Some(failure.clone());
            }
            self.arrived = Some(frame);
        }
        Ok(())
    }

    fn seal_answers(&mut self, channel: &mut Channel<Pin>) -> Result<(), Closed> {
        while let Some(Reply { body, to }) = self.answers.pop_front() {
            let mut frame = Frame::new(clock::now(), body);
            frame.reply_to = to;
            let messages = seal(channel, &frame).map_err(|error| Closed::Broken(error.to_string()))?;
            self.sealed.extend(messages);
        }
        Ok(())
    }
}
