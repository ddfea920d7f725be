//! A TCP proxy that misbehaves on command: it stalls, delays, cuts and comes back, so that tests own the faults of a network.

use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// More than the head of a request takes, in bytes.
const HEAD: usize = 64 * 1024;

/// How the proxy treats its connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Weather {
    /// Bytes pass.
    Fair,
    /// Bytes pass so much later.
    Slow(Duration),
    /// Connections stay open and carry nothing, as when a phone loses its network.
    Stalled,
    /// Connections are cut, and new ones are refused at once.
    Cut,
}

/// The proxy; it ends when it is dropped.
pub struct FaultProxy {
    port: u16,
    weather: Arc<watch::Sender<Weather>>,
    task: JoinHandle<()>,
}

impl FaultProxy {
    /// A proxy to that port of 127.0.0.1.
    pub async fn to(port: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let own = listener.local_addr().expect("an address").port();
        let weather = Arc::new(watch::Sender::new(Weather::Fair));
        let task = tokio::spawn(serve(listener, port, Arc::clone(&weather)));
        Self { port: own, weather, task }
    }

    /// The port on which it listens.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Changes the weather for all connections, old and new.
    pub fn set(&self, weather: Weather) {
        self.weather.send_replace(weather);
    }
}

impl Drop for FaultProxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn serve(listener: TcpListener, port: u16, weather: Arc<watch::Sender<Weather>>) {
    let mut connections = JoinSet::new();
    while let Ok((client, _)) = listener.accept().await {
        if *weather.borrow() == Weather::Cut {
            continue;
        }
        let weather = weather.subscribe();
        connections.spawn(async move {
            let mut client = client;
            let Some(head) = head(&mut client, port).await else { return };
            let Ok(mut server) = TcpStream::connect(("127.0.0.1", port)).await else { return };
            if server.write_all(head.as_bytes()).await.is_ok() {
                carry(client, server, weather).await;
            }
        });
    }
}

/// The head of the first request, of which the `Host` is that of the port behind, as a forwarding of ports would leave it.
async fn head(client: &mut TcpStream, port: u16) -> Option<String> {
    let own = client.local_addr().ok()?.port();
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() >= HEAD {
            return None;
        }
        head.push(client.read_u8().await.ok()?);
    }
    let head = String::from_utf8(head).ok()?;
    Some(head.replacen(&format!("127.0.0.1:{own}\r\n"), &format!("127.0.0.1:{port}\r\n"), 1))
}

async fn carry(client: TcpStream, server: TcpStream, weather: watch::Receiver<Weather>) {
    let (client_in, client_out) = client.into_split();
    let (server_in, server_out) = server.into_split();
    let mut cut = weather.clone();
    tokio::select! {
        () = one_way(client_in, server_out, weather.clone()) => {}
        () = one_way(server_in, client_out, weather) => {}
        _ = cut.wait_for(|weather| *weather == Weather::Cut) => {}
    }
}

async fn one_way(
    mut from: impl AsyncReadExt + Unpin,
    mut to: impl AsyncWriteExt + Unpin,
    mut weather: watch::Receiver<Weather>,
) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(count) = from.read(&mut buffer).await else { return };
        let Some(bytes) = buffer.get(..count).filter(|bytes| !bytes.is_empty()) else { return };
        let now = *weather.borrow();
        if let Weather::Slow(delay) = now {
            tokio::time::sleep(delay).await;
        }
        if weather.wait_for(|weather| *weather != Weather::Stalled).await.is_err()
            || to.write_all(bytes).await.is_err()
        {
            return;
        }
    }
}
