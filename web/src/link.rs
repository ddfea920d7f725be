//! The only code that opens sockets: a WebSocket joined to the link machine of `shared`, opened again whenever it is lost.

use std::time::Duration;

use futures_channel::mpsc;
use futures_util::stream::{Fuse, SplitSink, SplitStream};
use futures_util::{FutureExt, SinkExt, StreamExt, select_biased};
use gloo_net::websocket::Message;
use gloo_net::websocket::futures::WebSocket;
use gloo_timers::future::sleep;
use shared::channel::{ChannelError, StaticKey};
use shared::failure::Failure;
use shared::fingerprint::Fingerprint;
use shared::frame::{Frame, Hello, ListenerBody, OpenerBody, Welcome};
use shared::link::{ClientEvent, ClientLink, Closed};

use crate::browser;

/// The first wait before a lost link is opened again, in milliseconds; each further one is twice as long.
const FIRST_WAIT: u64 = 500;
/// The longest wait, in milliseconds.
const LONGEST_WAIT: u64 = 30_000;
/// Time for a socket to open, in milliseconds: a network that swallows packets must not hold us longer.
const OPEN_WITHIN: u64 = 15_000;
/// Time for a sign of life after the page woke up, in milliseconds: a socket that slept through a change of network looks open.
const PROBE_WITHIN: u64 = 4_000;
/// How long a link must have been open to count as a good one, in milliseconds: one that breaks at once is waited for longer each time.
const GOOD_AFTER: u64 = 5_000;
/// What may wait for the loop below; what has no room is sent again from the outbox later.
const COMMANDS: usize = 1024;

/// How a link stands.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Connection {
    /// It is being opened.
    Connecting,
    /// Frames go both ways.
    Connected,
    /// It was lost and is opened again at that moment of the steady clock, in milliseconds.
    Waiting {
        /// The moment.
        until: u64,
    },
    /// The machine refused it; it is opened again only when a person asks.
    Refused(Failure),
    /// Another machine answered; it is opened again only when a person asks.
    OtherMachine,
}

/// What a link has to tell.
pub(crate) enum LinkEvent {
    /// How it stands now.
    Connection(Connection),
    /// The machine let us in.
    Welcomed(Box<Welcome>),
    /// A frame came.
    Frame(Box<Frame<ListenerBody>>),
    /// A line came that this version cannot read; it counts, so that a backlog comes to its end.
    Unreadable,
}

/// Whom a link calls, and as whom.
pub(crate) struct Dial {
    /// The address of the WebSocket.
    pub(crate) url: String,
    /// The device's key.
    pub(crate) key: StaticKey,
    /// The key that must answer.
    pub(crate) machine: Fingerprint,
    /// The first frame, made anew for each try.
    pub(crate) hello: Box<dyn Fn() -> Hello>,
}

enum Command {
    Send(Box<Frame<OpenerBody>>),
    Wake,
    Now,
}

/// A link that is kept open until this value is dropped.
pub(crate) struct Link {
    commands: mpsc::Sender<Command>,
}

impl Link {
    /// Opens a link and keeps it open. After the drop nothing is told any more.
    pub(crate) fn open(dial: Dial, tell: impl FnMut(LinkEvent) + 'static) -> Self {
        let (commands, receiver) = mpsc::channel(COMMANDS);
        wasm_bindgen_futures::spawn_local(run(dial, receiver, tell));
        Self { commands }
    }

    /// Sends a frame if the link is open; else it is lost.
    pub(crate) fn send(&self, frame: Frame<OpenerBody>) {
        self.command(Command::Send(Box::new(frame)));
    }

    /// The page came to life or has a network again: a lost link is opened at once, an open one has to give a sign of life.
    pub(crate) fn wake(&self) {
        self.command(Command::Wake);
    }

    /// A person asks to try again now.
    pub(crate) fn try_now(&self) {
        self.command(Command::Now);
    }

    fn command(&self, command: Command) {
        // A loop with that much before it is as good as a lost link.
        let _ = self.commands.clone().try_send(command);
    }
}

type Commands = mpsc::Receiver<Command>;

/// Why one socket is over.
enum End {
    /// The owner of the link dropped it.
    Dropped,
    /// It was lost, after it was open for a while or before.
    Lost { was_good: bool },
    /// It must not be opened again by itself.
    Final(Connection),
}

async fn run(dial: Dial, mut commands: Commands, mut tell: impl FnMut(LinkEvent)) {
    let mut losses = 0_u32;
    loop {
        tell(LinkEvent::Connection(Connection::Connecting));
        match attempt(&dial, &mut commands, &mut tell).await {
            End::Dropped => return,
            End::Final(connection) => {
                losses = 0;
                tell(LinkEvent::Connection(connection));
                if !asked_to_try(&mut commands).await {
                    return;
                }
            }
            End::Lost { was_good } => {
                losses = if was_good { 0 } else { losses.saturating_add(1) };
                let wait = backoff(losses, browser::chance());
                tell(LinkEvent::Connection(Connection::Waiting { until: browser::steady() + wait }));
                if !waited(wait, &mut commands).await {
                    return;
                }
            }
        }
    }
}

/// The wait after so many losses in a row: doubled each time, and up to half of it off by chance, so that devices do not come all at once.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_precision_loss,
    reason = "a few thousand milliseconds"
)]
fn backoff(losses: u32, chance: f64) -> u64 {
    let full = FIRST_WAIT.saturating_mul(1 << losses.min(8)).min(LONGEST_WAIT);
    (full as f64 * (1.0 - chance / 2.0)) as u64
}

/// Waits; false when the link was dropped. What was to be sent is lost meanwhile.
async fn waited(milliseconds: u64, commands: &mut Commands) -> bool {
    let mut timer = sleep(Duration::from_millis(milliseconds)).fuse();
    loop {
        select_biased! {
            command = commands.next() => match command {
                None => return false,
                Some(Command::Now | Command::Wake) => return true,
                Some(Command::Send(_)) => {}
            },
            () = timer => return true,
        }
    }
}

/// Waits until a person asks to try again; false when the link was dropped.
async fn asked_to_try(commands: &mut Commands) -> bool {
    loop {
        match commands.next().await {
            None => return false,
            Some(Command::Now) => return true,
            Some(Command::Send(_) | Command::Wake) => {}
        }
    }
}

struct Socket {
    write: SplitSink<WebSocket, Message>,
    machine: ClientLink,
    /// Since when frames go both ways, on the steady clock.
    open_since: Option<u64>,
    /// Until when a sign of life must have come, on the steady clock.
    probe_until: Option<u64>,
}

async fn attempt(dial: &Dial, commands: &mut Commands, tell: &mut impl FnMut(LinkEvent)) -> End {
    let lost = End::Lost { was_good: false };
    let Ok(machine) = ClientLink::new(&dial.key, dial.machine, (dial.hello)(), browser::now()) else {
        return lost;
    };
    let Ok(socket) = WebSocket::open(&dial.url) else { return lost };
    let (write, read) = socket.split();
    let mut read = read.fuse();
    let mut socket = Socket { write, machine, open_since: None, probe_until: None };
    if let Err(end) = socket.opened(commands).await {
        return end;
    }
    socket.carry(&mut read, commands, tell).await
}

impl Socket {
    fn lost(&self) -> End {
        End::Lost { was_good: self.open_since.is_some_and(|since| browser::steady() >= since + GOOD_AFTER) }
    }

    /// Waits until the socket is open and has the first message.
    async fn opened(&mut self, commands: &mut Commands) -> Result<(), End> {
        let mut timer = sleep(Duration::from_millis(OPEN_WITHIN)).fuse();
        let mut flush = Box::pin(self.flush()).fuse();
        loop {
            select_biased! {
                command = commands.next() => if command.is_none() { return Err(End::Dropped) },
                is_sent = flush => return if is_sent { Ok(()) } else { Err(End::Lost { was_good: false }) },
                () = timer => return Err(End::Lost { was_good: false }),
            }
        }
    }

    /// Gives the socket what waits for it; false when the socket is gone.
    async fn flush(&mut self) -> bool {
        while let Some(message) = self.machine.next_message() {
            if self.write.send(Message::Bytes(message)).await.is_err() {
                return false;
            }
            self.machine.sent(browser::now());
        }
        true
    }

    async fn carry(
        &mut self,
        read: &mut Fuse<SplitStream<WebSocket>>,
        commands: &mut Commands,
        tell: &mut impl FnMut(LinkEvent),
    ) -> End {
        let mut timer = self.timer();
        loop {
            if !self.flush().await {
                return self.lost();
            }
            select_biased! {
                command = commands.next() => match command {
                    None => return End::Dropped,
                    Some(Command::Now) => {}
                    Some(Command::Wake) => {
                        self.probe();
                        timer = self.timer();
                    }
                    Some(Command::Send(frame)) => {
                        // What is not sent stays in the outbox of the store, or its asker is told that the link was lost.
                        let _ = self.machine.send(&frame);
                    }
                },
                message = read.next() => {
                    let Some(Ok(Message::Bytes(bytes))) = message else { return self.lost() };
                    self.probe_until = None;
                    for event in self.machine.receive(&bytes, browser::now()) {
                        if let Some(end) = self.told(event, tell) {
                            return end;
                        }
                    }
                },
                () = timer => {
                    if self.probe_until.is_some_and(|until| browser::steady() >= until) {
                        return self.lost();
                    }
                    if let Some(end) = self.machine.tick(browser::now()).and_then(|event| self.told(event, tell)) {
                        return end;
                    }
                    timer = self.timer();
                },
            }
        }
    }

    /// Fires when the link machine, or the probe, wants to be looked at.
    fn timer(&self) -> futures_util::future::Fuse<impl Future<Output = ()> + use<>> {
        let due = self.machine.wake_at().into_iter().chain(self.probe_until).min();
        let wait = due.map_or(LONGEST_WAIT, |due| due.saturating_sub(browser::steady()));
        // A millisecond more, so that a coarse clock does not make us look twice.
        sleep(Duration::from_millis(wait.min(LONGEST_WAIT) + 1)).fuse()
    }

    /// Asks for a sign of life.
    fn probe(&mut self) {
        let ping = Frame::new(browser::now().date, OpenerBody::Ping);
        if self.machine.is_open() && self.probe_until.is_none() && self.machine.send(&ping).is_ok() {
            self.probe_until = Some(browser::steady() + PROBE_WITHIN);
        }
    }

    fn told(&mut self, event: ClientEvent, tell: &mut impl FnMut(LinkEvent)) -> Option<End> {
        match event {
            ClientEvent::Welcomed(welcome) => {
                self.open_since = Some(browser::steady());
                tell(LinkEvent::Connection(Connection::Connected));
                tell(LinkEvent::Welcomed(welcome));
                None
            }
            ClientEvent::Frame(frame) => {
                tell(LinkEvent::Frame(frame));
                None
            }
            ClientEvent::Unreadable(_) => {
                tell(LinkEvent::Unreadable);
                None
            }
            ClientEvent::Closed(Closed::Failure(failure)) => Some(End::Final(Connection::Refused(failure))),
            ClientEvent::Closed(Closed::Channel(ChannelError::OtherMachine { .. })) => {
                Some(End::Final(Connection::OtherMachine))
            }
            ClientEvent::Closed(
                Closed::Channel(_)
                | Closed::Line(_)
                | Closed::Silent
                | Closed::Late
                | Closed::Flooded
                | Closed::Protocol,
            ) => Some(self.lost()),
        }
    }
}
