//! Connections: a bounded number of them, each with a bounded time to say what it wants.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::JoinSet;

/// Connections at once; whoever comes then waits.
const CONNECTIONS: usize = 1024;
/// How long the head of a request may take, also of the next one on a connection that is kept.
const HEAD: Duration = Duration::from_secs(30);
/// The pause after a connection could not be taken.
const PAUSE: Duration = Duration::from_millis(100);

/// Serves whoever comes, until the server is done: then each connection ends after the answer that it is at.
pub async fn serve(listener: TcpListener, router: Router, done: impl Future<Output = ()>) {
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let (end, ends) = watch::channel(());
    let mut connections = JoinSet::new();
    let accept = async {
        loop {
            while connections.try_join_next().is_some() {}
            let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                // Too many files are open: those that are done give theirs back.
                tokio::time::sleep(PAUSE).await;
                continue;
            };
            connections.spawn(connection(stream, router.clone(), ends.clone(), place));
        }
    };
    tokio::select! {
        () = accept => {}
        () = done => {}
    }
    drop((listener, end));
    while connections.join_next().await.is_some() {}
}

async fn connection(
    stream: TcpStream,
    router: Router,
    mut ends: watch::Receiver<()>,
    _place: OwnedSemaphorePermit,
) {
    // An answer is small and is waited for.
    let _ = stream.set_nodelay(true);
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .serve_connection(TokioIo::new(stream), TowerToHyperService::new(router));
    let mut connection = std::pin::pin!(connection);
    // A connection that breaks is the client's matter.
    tokio::select! {
        _ = connection.as_mut() => {}
        _ = ends.changed() => {
            connection.as_mut().graceful_shutdown();
            let _ = connection.await;
        }
    }
}
