//! HTTP over raw sockets: Host, then Origin, then the route, on every request (wire §1).

use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::{TcpStream, UnixStream};

use crate::kit::{Machine, within};

const UPGRADE: &str = "Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n";

/// Sends a request and gives the head of the answer.
async fn ask<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S, line: &str, headers: &str) -> String {
    stream.write_all(format!("{line} HTTP/1.1\r\n{headers}\r\n").as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    let mut buffer = [0; 4096];
    while !answer.windows(4).any(|bytes| bytes == b"\r\n\r\n") {
        let read = within("an answer", stream.read(&mut buffer)).await.unwrap();
        assert_ne!(read, 0, "closed: {}", String::from_utf8_lossy(&answer));
        answer.extend_from_slice(&buffer[..read]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

async fn status(machine: &Machine, line: &str, headers: &str) -> u16 {
    let stream = TcpStream::connect(("127.0.0.1", machine.port())).await.unwrap();
    code(&ask(stream, line, headers).await)
}

fn code(answer: &str) -> u16 {
    answer.split(' ').nth(1).unwrap().parse().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_foreign_host_or_origin_is_refused_on_every_route() {
    let machine = Machine::start().await;
    let port = machine.port();
    for path in ["/", "/wire", "/none.js", "/sessions"] {
        for host in ["evil.example", "127.0.0.1", &format!("127.0.0.1:{port}.evil.example"), "localhost", ""]
        {
            let headers = format!("Host: {host}\r\n{UPGRADE}");
            assert_eq!(status(&machine, &format!("GET {path}"), &headers).await, 403, "{path} {host}");
        }
        for origin in [
            "http://evil.example",
            "null",
            "",
            &format!("https://127.0.0.1:{port}"),
            &format!("http://localhost:{port}"),
        ] {
            let headers = format!("Host: 127.0.0.1:{port}\r\nOrigin: {origin}\r\n{UPGRADE}");
            assert_eq!(status(&machine, &format!("GET {path}"), &headers).await, 403, "{path} {origin}");
        }
        let twice = format!("Host: 127.0.0.1:{port}\r\nHost: 127.0.0.1:{port}\r\n");
        let refused = status(&machine, &format!("GET {path}"), &twice).await;
        assert!(refused == 403 || refused == 400, "{refused}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_page_may_open_a_link() {
    let machine = Machine::start().await;
    let port = machine.port();
    for host in [format!("127.0.0.1:{port}"), format!("localhost:{port}"), format!("[::1]:{port}")] {
        let headers = format!("Host: {host}\r\nOrigin: http://{host}\r\n{UPGRADE}");
        assert_eq!(status(&machine, "GET /wire", &headers).await, 101, "{host}");
        assert_eq!(status(&machine, "GET /wire", &format!("Host: {host}\r\n{UPGRADE}")).await, 101, "{host}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_link_needs_an_upgrade_and_gets_no_extension() {
    let machine = Machine::start().await;
    let host = format!("Host: 127.0.0.1:{}\r\n", machine.port());
    for line in ["GET /wire", "POST /wire", "HEAD /wire"] {
        assert_eq!(status(&machine, line, &host).await, 426, "{line}");
    }
    let stream = TcpStream::connect(("127.0.0.1", machine.port())).await.unwrap();
    let offers = format!(
        "{host}{UPGRADE}Sec-WebSocket-Extensions: permessage-deflate\r\nSec-WebSocket-Protocol: chat\r\n"
    );
    let answer = ask(stream, "GET /wire", &offers).await.to_lowercase();
    assert_eq!(code(&answer), 101);
    assert!(
        !answer.contains("sec-websocket-extensions") && !answer.contains("sec-websocket-protocol"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_page_answers_get_and_head_only_and_never_with_html_for_a_missing_file() {
    let machine = Machine::start().await;
    let host = format!("Host: 127.0.0.1:{}\r\n", machine.port());
    for line in ["POST /", "PUT /index.html", "DELETE /", "OPTIONS /"] {
        assert_eq!(status(&machine, line, &host).await, 405, "{line}");
    }
    let get = status(&machine, "GET /", &host).await;
    assert!(get == 200 || get == 503, "{get}");
    assert_eq!(status(&machine, "HEAD /", &host).await, get);
    let stream = TcpStream::connect(("127.0.0.1", machine.port())).await.unwrap();
    let answer = ask(stream, "GET /web-ffffffffffffffff.js", &host).await.to_lowercase();
    assert_eq!(code(&answer), 404);
    assert!(
        answer.contains("text/plain") && answer.contains("content-security-policy: default-src 'none'"),
        "{answer}"
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_socket_answers_no_origin_at_all_and_does_not_look_at_the_host() {
    let machine = Machine::start().await;
    let open = || async { UnixStream::connect(machine.home.listener_socket()).await.unwrap() };
    assert_eq!(code(&ask(open().await, "GET /wire", &format!("Host: anything\r\n{UPGRADE}")).await), 101);
    let port = machine.port();
    for origin in [format!("http://127.0.0.1:{port}"), "null".to_owned(), "http://evil.example".to_owned()] {
        for path in ["/wire", "/"] {
            let headers = format!("Host: anything\r\nOrigin: {origin}\r\n{UPGRADE}");
            assert_eq!(code(&ask(open().await, &format!("GET {path}"), &headers).await), 403, "{origin}");
        }
    }
}
