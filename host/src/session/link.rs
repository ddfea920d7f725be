//! The host's link to the listener: dialled for ever, given up without regret; what a broken link loses, its client asks for again.

use std::collections::VecDeque;
use std::time::Duration;

use shared::entry::Origin;
use shared::failure::{Refusal, Refused};
use shared::frame::{Delta, Frame, Head, Hello, HelloHost, ListenerBody, OpenerBody};
use shared::ids::{ConnectionId, FrameId, HostId, SessionId};
use shared::request::{Request, Response};
use tokio::sync::{mpsc, watch};
use tokio::task::JoinHandle;

use super::machine::Ask;
use crate::client::{Address, Link};
use crate::clock;
use crate::home::Home;
use crate::identity::machine_key;

/// What the listener asks that may wait for the host; a disk that stands still must not make us hold more.
const ASKED: usize = 64;
/// Answers that may wait for the link.
const RESPONSES: usize = 256;
/// Pieces of live text that may wait for the link; they are lossy, and stale ones are worth nothing.
const DELTAS: usize = 16;
/// The shortest and the longest pause before the listener is dialled again.
const PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(2));
/// How long the last words of a host may take to leave.
const GOODBYE: Duration = Duration::from_secs(1);

/// The host's end of the channels to its link.
#[derive(Debug)]
pub(super) struct Mailbox {
    /// What the listener asks.
    pub(super) asked: mpsc::Receiver<(FrameId, Ask)>,
    /// Live text; full means that the link is slow.
    pub(super) deltas: mpsc::Sender<Delta>,
    responses: mpsc::Sender<(FrameId, Response)>,
    head: watch::Sender<u64>,
    task: JoinHandle<()>,
}

impl Mailbox {
    /// Begins to dial the listener; `durable` is the last line of the log, `replaces` the run before.
    pub(super) fn open(home: Home, session: SessionId, replaces: Option<HostId>, durable: u64) -> Self {
        let (asked, asked_of_us) = mpsc::channel(ASKED);
        let (responses, to_respond) = mpsc::channel(RESPONSES);
        let (deltas, to_stream) = mpsc::channel(DELTAS);
        let (head, heads) = watch::channel(durable);
        let post = Post {
            asked,
            responses: to_respond,
            deltas: to_stream,
            heads,
            waiting: VecDeque::new(),
            told: 0,
            stalled: None,
        };
        let hello = HelloHost { session, replaces, code: None };
        let task = tokio::spawn(dial(home, hello, post));
        Self { asked: asked_of_us, deltas, responses, head, task }
    }

    /// The log is durable up to this line.
    pub(super) fn head(&self, durable: u64) {
        self.head.send_replace(durable);
    }

    /// Answers; where nobody takes it, the client asks again.
    pub(super) fn respond(&self, to: FrameId, response: Response) {
        if self.responses.try_send((to, response)).is_err() {
            tracing::warn!("an answer to the listener was dropped, because the link takes none");
        }
    }

    /// Waits, for a moment only, until what was said has left.
    pub(super) async fn close(self) {
        let Self { asked, deltas, responses, head, mut task } = self;
        drop((asked, deltas, responses, head));
        if tokio::time::timeout(GOODBYE, &mut task).await.is_err() {
            task.abort();
        }
    }
}

/// The link's end of the channels.
struct Post {
    asked: mpsc::Sender<(FrameId, Ask)>,
    responses: mpsc::Receiver<(FrameId, Response)>,
    deltas: mpsc::Receiver<Delta>,
    heads: watch::Receiver<u64>,
    /// Frames for the link; answers that the link makes itself.
    waiting: VecDeque<OpenerFrame>,
    /// The last head that this link was told.
    told: u64,
    /// What the host has no room for yet; until it has, the link is not read.
    stalled: Option<(FrameId, Ask)>,
}

type OpenerFrame = Frame<OpenerBody>;

async fn dial(home: Home, hello: HelloHost, mut post: Post) {
    let mut pause = PAUSES.0;
    let address = Address::Socket(home.listener_socket());
    loop {
        match connect(&home, &address, hello.clone()).await {
            Ok(link) => {
                tracing::info!("linked to the listener");
                pause = PAUSES.0;
                if post.carry(link).await == Carried::HostIsOver {
                    return;
                }
            }
            Err(reason) => tracing::debug!(%reason, "the listener cannot be reached"),
        }
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            // The other channels end together with this one.
            () = post.is_over() => return,
        }
        pause = (pause * 2).min(PAUSES.1);
    }
}

async fn connect(home: &Home, address: &Address, hello: HelloHost) -> Result<Link, String> {
    let key = machine_key(home).map_err(|error| error.to_string())?;
    let opened = Link::open(address, &key, key.fingerprint(), Hello::Host(hello)).await;
    opened.map(|(link, _)| link).map_err(|error| error.to_string())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Carried {
    LinkIsGone,
    HostIsOver,
}

impl Post {
    /// Ends when the host has let go of its end.
    async fn is_over(&mut self) {
        // Nobody is there to be answered while no link stands.
        while self.responses.recv().await.is_some() {}
    }

    async fn carry(&mut self, link: Link) -> Carried {
        self.waiting.clear();
        while self.responses.try_recv().is_ok() {}
        while self.deltas.try_recv().is_ok() {}
        let head = *self.heads.borrow_and_update();
        self.told = head;
        self.waiting.push_back(frame(OpenerBody::Head(Head { sequence: Some(head) })));
        let mut link = link;
        let asked = self.asked.clone();
        let mut has_heads = true;
        let mut is_over = false;
        let mut is_gone = false;
        while !(is_gone || is_over && self.waiting.is_empty()) {
            tokio::select! {
                biased;
                permit = link.sender.reserve(), if !self.waiting.is_empty() => match permit {
                    Ok(permit) => if let Some(frame) = self.waiting.pop_front() { permit.send(frame) },
                    Err(_) => is_gone = true,
                },
                changed = self.heads.changed(), if has_heads => {
                    self.tell_head();
                    // The host is over only when it has nothing more to answer.
                    has_heads = changed.is_ok();
                }
                response = self.responses.recv(), if !is_over && self.waiting.len() < RESPONSES => {
                    // What an answer speaks of is durable: the listener may read so far.
                    self.tell_head();
                    match response {
                        Some((to, response)) => self.answer(to, response),
                        None => is_over = true,
                    }
                }
                permit = asked.reserve(), if self.stalled.is_some() && !is_over => {
                    match (permit, self.stalled.take()) {
                        (Ok(permit), Some(stalled)) => permit.send(stalled),
                        // A host that takes nothing any more is about to say so by its answers' end.
                        (Err(_), _) | (Ok(_), None) => {}
                    }
                }
                // A listener that asks and does not read is not heard either, nor one that asks more than a slow disk allows.
                arrived = link.frames.recv(), if self.stalled.is_none() && self.waiting.len() < RESPONSES => match arrived {
                    Some(arrived) => self.take(arrived),
                    None => is_gone = true,
                },
                Some(delta) = self.deltas.recv(), if self.waiting.is_empty() => {
                    self.waiting.push_back(frame(OpenerBody::Delta(delta)));
                }
            }
        }
        // Frames that were accepted go out before the link closes.
        let reason = link.closed().await;
        tracing::info!(?reason, "the link to the listener ended");
        if is_over { Carried::HostIsOver } else { Carried::LinkIsGone }
    }

    fn tell_head(&mut self) {
        let head = *self.heads.borrow_and_update();
        if head > self.told {
            self.told = head;
            self.waiting.push_back(frame(OpenerBody::Head(Head { sequence: Some(head) })));
        }
    }

    /// Hands a frame of the listener to the host.
    fn take(&mut self, arrived: Frame<ListenerBody>) {
        let ask = match arrived.body {
            ListenerBody::Submission(submission) => Ask::Submit {
                text: submission.text,
                budget: submission.budget,
                origin: submission.origin.unwrap_or_else(unnamed),
            },
            ListenerBody::Interrupt(interrupt) => Ask::Interrupt(interrupt.submission),
            ListenerBody::Answer(mut answer) => {
                let origin = answer.origin.take().unwrap_or_else(unnamed);
                Ask::Answer(answer, origin)
            }
            ListenerBody::Configure(configure) => Ask::Configure(configure),
            ListenerBody::Request(Request::Stop(_)) => Ask::Stop,
            ListenerBody::Request(Request::Revoke(revoke)) => Ask::Revoke(revoke.device),
            ListenerBody::Request(Request::Release(_)) => Ask::Release,
            ListenerBody::Request(Request::Merge(_)) => Ask::Merge,
            ListenerBody::Request(
                Request::Start(_)
                | Request::Remove(_)
                | Request::Rename(_)
                | Request::Directories(_)
                | Request::Pair(_)
                | Request::Tunnel(_),
            ) => {
                let detail = "a session host does not answer this request";
                let refused = Response::Refused(Refused::with(Refusal::NotFound, detail));
                return self.answer(arrived.id, refused);
            }
            ListenerBody::Failure(failure) => {
                return tracing::warn!(
                    code = failure.code.word(),
                    detail = failure.detail,
                    "the listener objects"
                );
            }
            ListenerBody::Welcome(_)
            | ListenerBody::Entry(_)
            | ListenerBody::Presence(_)
            | ListenerBody::Machine(_)
            | ListenerBody::Response(_)
            | ListenerBody::Delta(_)
            | ListenerBody::Ping
            | ListenerBody::Pong
            | ListenerBody::Unknown(_) => return,
        };
        // Refusing would lose a `revoke` or a `release`, which nobody asks for again.
        if let Err(mpsc::error::TrySendError::Full(asked)) = self.asked.try_send((arrived.id, ask)) {
            self.stalled = Some(asked);
        }
    }

    fn answer(&mut self, to: FrameId, response: Response) {
        let body = OpenerBody::Response(Box::new(response.into()));
        self.waiting.push_back(Frame::reply(clock::now(), to, body));
    }
}

fn frame(body: OpenerBody) -> OpenerFrame {
    Frame::new(clock::now(), body)
}

/// The listener always says who sent a submission; an older one that does not is not a reason to lose it.
fn unnamed() -> Origin {
    Origin { connection: ConnectionId::random(), name: "unknown".to_owned(), device: None }
}
