//! Connections that know when bytes came and went, and that end by themselves when nobody says `hello` or asks for a page (wire §9).

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::{Context, Poll};

use shared::limits;
use shared::link::Now;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Duration, Instant, Sleep, sleep_until};

use crate::clock;

/// A clock that never goes back, from when the listener started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Steady {
    base: Instant,
}

impl Steady {
    /// A clock that starts now.
    pub(crate) fn new() -> Self {
        Self { base: Instant::now() }
    }

    /// Milliseconds since it started.
    pub(crate) fn milliseconds(self) -> u64 {
        u64::try_from(self.base.elapsed().as_millis()).unwrap_or(u64::MAX)
    }

    /// Now on both clocks.
    pub(crate) fn now(self) -> Now {
        Now { date: clock::now(), steady: self.milliseconds() }
    }

    /// That moment for a timer.
    pub(crate) fn instant(self, milliseconds: u64) -> Instant {
        self.base + Duration::from_millis(milliseconds)
    }
}

/// When bytes came and went over one connection, in steady milliseconds.
#[derive(Debug)]
pub(crate) struct Traffic {
    clock: Steady,
    accepted: u64,
    patience: u64,
    read: AtomicU64,
    written: AtomicU64,
    is_link: AtomicBool,
}

impl Traffic {
    /// A connection that was accepted just now.
    pub(crate) fn new(clock: Steady) -> Self {
        Self::with_patience(clock, limits::HELLO_MILLISECONDS)
    }

    fn with_patience(clock: Steady, patience: u64) -> Self {
        let accepted = clock.milliseconds();
        Self {
            clock,
            accepted,
            patience,
            read: AtomicU64::new(accepted),
            written: AtomicU64::new(accepted),
            is_link: AtomicBool::new(false),
        }
    }

    /// When a link that is asked for now began: when the connection was accepted, unless it has had an answer before.
    pub(crate) fn link_began(&self) -> u64 {
        if self.written() > self.accepted { self.clock.milliseconds() } else { self.accepted }
    }

    /// When the last byte came.
    pub(crate) fn read(&self) -> u64 {
        self.read.load(Ordering::Relaxed)
    }

    /// When the peer last took a byte.
    pub(crate) fn written(&self) -> u64 {
        self.written.load(Ordering::Relaxed)
    }

    /// The connection is a link now, which has timers of its own.
    pub(crate) fn becomes_link(&self) {
        self.is_link.store(true, Ordering::Relaxed);
    }

    /// When a connection that only asks for pages has been idle for too long: what it sends does not count, only what it takes.
    fn idle_at(&self) -> Option<u64> {
        let is_link = self.is_link.load(Ordering::Relaxed);
        (!is_link).then(|| self.written().saturating_add(self.patience))
    }
}

/// A stream with its traffic.
#[derive(Debug)]
pub(crate) struct Watched<S> {
    inner: S,
    traffic: Arc<Traffic>,
    timer: Option<Pin<Box<Sleep>>>,
}

impl<S> Watched<S> {
    pub(crate) fn new(inner: S, traffic: Arc<Traffic>) -> Self {
        Self { inner, traffic, timer: None }
    }

    fn poll_idle(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let Some(idle_at) = self.traffic.idle_at() else {
            self.timer = None;
            return Poll::Pending;
        };
        let at = self.traffic.clock.instant(idle_at);
        let timer = self.timer.get_or_insert_with(|| Box::pin(sleep_until(at)));
        if timer.deadline() != at {
            timer.as_mut().reset(at);
        }
        timer.as_mut().poll(cx)
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Watched<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if self.poll_idle(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
        }
        let before = buffer.filled().len();
        let outcome = Pin::new(&mut self.inner).poll_read(cx, buffer);
        if buffer.filled().len() > before {
            self.traffic.read.store(self.traffic.clock.milliseconds(), Ordering::Relaxed);
        }
        outcome
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Watched<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.inner).poll_write(cx, bytes);
        if matches!(outcome, Poll::Ready(Ok(1..))) {
            self.traffic.written.store(self.traffic.clock.milliseconds(), Ordering::Relaxed);
        }
        outcome
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.inner).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

    /// Short enough for a test, long enough for a busy machine to tell it from none.
    const PATIENCE: u64 = 200;

    #[tokio::test]
    async fn a_connection_that_drips_or_says_nothing_ends_with_our_patience() {
        for drips in [false, true] {
            let (mut client, server) = tokio::io::duplex(64);
            let clock = Steady::new();
            let traffic = Arc::new(Traffic::with_patience(clock, PATIENCE));
            let mut watched = Watched::new(server, traffic);
            let drip = tokio::spawn(async move {
                while drips && client.write_all(b"x").await.is_ok() {
                    tokio::task::yield_now().await;
                }
                client
            });
            let mut buffer = [0; 8];
            let error = loop {
                match watched.read(&mut buffer).await {
                    Ok(_) => {}
                    Err(error) => break error,
                }
            };
            assert_eq!(error.kind(), io::ErrorKind::TimedOut);
            assert!(clock.milliseconds() >= PATIENCE, "{}", clock.milliseconds());
            drop(watched);
            drip.await.unwrap();
        }
    }

    #[tokio::test]
    async fn a_link_is_left_to_its_own_timers_and_a_page_that_is_read_slowly_is_not_cut() {
        let (mut client, server) = tokio::io::duplex(64);
        let traffic = Arc::new(Traffic::with_patience(Steady::new(), PATIENCE));
        let mut watched = Watched::new(server, Arc::clone(&traffic));
        let before = traffic.idle_at().unwrap();
        while traffic.idle_at().unwrap() == before {
            watched.write_all(b"x").await.unwrap();
            let mut byte = [0];
            client.read_exact(&mut byte).await.unwrap();
        }
        traffic.becomes_link();
        assert_eq!(traffic.idle_at(), None);
    }
}
