//! Binding: the port on every loopback address there is, the socket under the lock, and who holds a port that is taken (wire §1).

use std::fmt;
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _};
use std::path::Path;
use std::sync::Arc;

use axum::extract::connect_info::Connected;
use axum::serve::IncomingStream;
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::time::{Duration, sleep};

use super::admission::Via;
use super::traffic::{Steady, Traffic, Watched};
use crate::files::{FilesError, SocketAddress, system};

/// Tries to find a port that is free on both loopback addresses, where any will do.
const TRIES: usize = 16;
/// The pause after an accept that failed, as when no file descriptor is left.
const PAUSE: Duration = Duration::from_millis(100);

/// A port that cannot be had.
#[derive(Debug, thiserror::Error)]
pub enum BindError {
    /// Another program listens there.
    #[error("port {port} of {address} is taken by {holder}: end it, or set another `port` in config.toml")]
    Occupied {
        /// The port.
        port: u16,
        /// The loopback address.
        address: std::net::IpAddr,
        /// Who listens there.
        holder: Holder,
    },
    /// The system refused.
    #[error("cannot listen on port {port} of {address}: {source}")]
    System {
        /// The port.
        port: u16,
        /// The loopback address.
        address: std::net::IpAddr,
        /// What the system said.
        source: io::Error,
    },
}

/// Who listens on a port, as far as the system tells us.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Holder {
    /// A process of ours.
    Process {
        /// Its id.
        pid: u32,
        /// Its program.
        program: String,
    },
    /// A process that we may not look at.
    Unknown,
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Process { pid, program } => write!(f, "process {pid} ({program})"),
            Self::Unknown => f.write_str("a process of another user"),
        }
    }
}

/// Binds 127.0.0.1 and, where there is one, ::1 on the same port.
pub(super) async fn bind_port(port: u16) -> Result<(u16, Vec<TcpListener>), BindError> {
    let mut tries = 0;
    loop {
        tries += 1;
        let first = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).await?;
        let actual = first.local_addr().map_err(|source| BindError::System {
            port,
            address: Ipv4Addr::LOCALHOST.into(),
            source,
        })?;
        match bind(SocketAddr::from((Ipv6Addr::LOCALHOST, actual.port()))).await {
            Ok(second) => return Ok((actual.port(), vec![first, second])),
            Err(BindError::System { source, .. }) if is_missing(&source) => {
                return Ok((actual.port(), vec![first]));
            }
            Err(BindError::Occupied { .. }) if port == 0 && tries < TRIES => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the system has no such address at all.
fn is_missing(error: &io::Error) -> bool {
    use nix::errno::Errno;
    let missing = [Errno::EADDRNOTAVAIL, Errno::EAFNOSUPPORT];
    error.raw_os_error().is_some_and(|code| missing.contains(&Errno::from_raw(code)))
}

async fn bind(address: SocketAddr) -> Result<TcpListener, BindError> {
    match TcpListener::bind(address).await {
        Ok(listener) => Ok(listener),
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let holder = holder(address.port());
            Err(BindError::Occupied { port: address.port(), address: address.ip(), holder })
        }
        Err(source) => Err(BindError::System { port: address.port(), address: address.ip(), source }),
    }
}

/// Looks for the process that listens on a port; Linux alone tells.
fn holder(port: u16) -> Holder {
    let inodes: Vec<String> = ["/proc/net/tcp", "/proc/net/tcp6"]
        .iter()
        .filter_map(|table| std::fs::read_to_string(table).ok())
        .flat_map(|table| listening_inodes(&table, port))
        .collect();
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let Ok(processes) = std::fs::read_dir("/proc") else { return Holder::Unknown };
    for process in processes.flatten() {
        let Some(pid) = process.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        let Ok(files) = std::fs::read_dir(process.path().join("fd")) else { continue };
        let holds = files.flatten().any(|file| {
            std::fs::read_link(file.path())
                .is_ok_and(|target| wanted.iter().any(|wanted| target.as_os_str() == wanted.as_str()))
        });
        if holds {
            let program = std::fs::read_to_string(process.path().join("comm")).unwrap_or_default();
            let program = program.trim().chars().filter(|c| !c.is_control()).collect();
            return Holder::Process { pid, program };
        }
    }
    Holder::Unknown
}

/// The inodes of the sockets that listen on a port, from a table of the kernel.
fn listening_inodes(table: &str, port: u16) -> Vec<String> {
    const LISTENS: &str = "0A";
    let local = format!(":{port:04X}");
    let mut inodes = Vec::new();
    for line in table.lines().skip(1) {
        let fields: Vec<&str> = line.split_whitespace().collect();
        if let (Some(address), Some(state), Some(inode)) = (fields.get(1), fields.get(3), fields.get(9))
            && address.ends_with(&local)
            && *state == LISTENS
        {
            inodes.push((*inode).to_owned());
        }
    }
    inodes
}

/// Binds the socket; called only under the listener's lock, so that a socket file that stands there is nobody's.
pub(super) fn bind_socket(path: &Path) -> Result<UnixListener, FilesError> {
    match std::fs::symlink_metadata(path) {
        Ok(metadata) if metadata.file_type().is_socket() => {
            std::fs::remove_file(path).map_err(system("replace", path))?;
        }
        Ok(_) => return Err(FilesError::WrongKind { path: path.to_path_buf(), expected: "socket" }),
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(system("look at", path)(error)),
    }
    let address = SocketAddress::of(path)?;
    let listener = UnixListener::bind(address.as_path()).map_err(system("bind", path))?;
    // The directory is private already, so nobody came in between.
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))
        .map_err(system("protect", path))?;
    Ok(listener)
}

/// How a connection came in.
#[derive(Debug, Clone)]
pub(crate) struct Arrival {
    /// Over what.
    pub via: Via,
    /// Its bytes.
    pub traffic: Arc<Traffic>,
}

/// Accepts connections of one kind.
#[derive(Debug)]
pub(super) struct Door<L> {
    listener: L,
    clock: Steady,
}

impl<L> Door<L> {
    pub(super) fn new(listener: L, clock: Steady) -> Self {
        Self { listener, clock }
    }
}

impl axum::serve::Listener for Door<TcpListener> {
    type Io = Watched<TcpStream>;
    type Addr = Arrival;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    // A key press must not wait for the acknowledgement of the one before; without it the link only is slower.
                    let _ = stream.set_nodelay(true);
                    let traffic = Arc::new(Traffic::new(self.clock));
                    return (Watched::new(stream, Arc::clone(&traffic)), Arrival { via: Via::Port, traffic });
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Arrival { via: Via::Port, traffic: Arc::new(Traffic::new(self.clock)) })
    }
}

impl axum::serve::Listener for Door<UnixListener> {
    type Io = Watched<UnixStream>;
    type Addr = Arrival;

    async fn accept(&mut self) -> (Self::Io, Self::Addr) {
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => {
                    let traffic = Arc::new(Traffic::new(self.clock));
                    return (
                        Watched::new(stream, Arc::clone(&traffic)),
                        Arrival { via: Via::Socket, traffic },
                    );
                }
                Err(error) => pause(&error).await,
            }
        }
    }

    fn local_addr(&self) -> io::Result<Self::Addr> {
        Ok(Arrival { via: Via::Socket, traffic: Arc::new(Traffic::new(self.clock)) })
    }
}

/// A peer that is gone again is no reason to wait; anything else would come again at once.
async fn pause(error: &io::Error) {
    if !matches!(error.kind(), io::ErrorKind::ConnectionAborted | io::ErrorKind::ConnectionReset) {
        tracing::error!(%error, "a connection could not be accepted");
        sleep(PAUSE).await;
    }
}

impl Connected<IncomingStream<'_, Door<TcpListener>>> for Arrival {
    fn connect_info(stream: IncomingStream<'_, Door<TcpListener>>) -> Self {
        stream.remote_addr().clone()
    }
}

impl Connected<IncomingStream<'_, Door<UnixListener>>> for Arrival {
    fn connect_info(stream: IncomingStream<'_, Door<UnixListener>>) -> Self {
        stream.remote_addr().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_listening_socket_is_found_in_the_table_of_the_kernel() {
        let table = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n   \
            0: 0100007F:10D6 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4242 1\n   \
            1: 0100007F:10D6 0100007F:8000 01 00000000:00000000 00:00000000 00000000     0        0 4243 1\n   \
            2: 00000000:10D7 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 4244 1\n";
        assert_eq!(listening_inodes(table, 4310), ["4242"]);
    }

    #[tokio::test]
    async fn a_taken_port_is_named_with_its_holder() {
        let (port, _listeners) = bind_port(0).await.unwrap();
        let error = bind_port(port).await.unwrap_err();
        let said = error.to_string();
        assert!(said.contains(&format!("port {port}")), "{said}");
        if cfg!(target_os = "linux") {
            assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
        }
    }

    #[tokio::test]
    async fn only_a_socket_is_replaced() {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("listener.socket");
        drop(bind_socket(&path).unwrap());
        drop(bind_socket(&path).unwrap());
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        let other = scratch.path().join("file");
        std::fs::write(&other, "precious").unwrap();
        assert!(matches!(bind_socket(&other), Err(FilesError::WrongKind { .. })));
        assert_eq!(std::fs::read(&other).unwrap(), b"precious");
    }
}
