//! One listener a machine: its lock, its port, its files, its end (wire §1, §10).

use std::os::unix::fs::PermissionsExt as _;

use host::files;
use host::listener::{BindError, ListenError, Listener, Whereabouts};

use crate::kit::Machine;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_listener_says_who_holds_the_machine() {
    let machine = Machine::start().await;
    let second = Listener::start(machine.home.clone(), machine.config.clone(), machine.options()).await;
    let Err(error @ ListenError::Running { holder: Some(holder) }) = second else { panic!() };
    assert_eq!(holder, std::process::id());
    assert!(error.to_string().contains(&format!("process {holder}")), "{error}");
    machine.own_home().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_occupied_port_is_named_with_its_holder() {
    let first = Machine::start().await;
    let mut second = Machine::prepare();
    second.config.port = first.port();
    let outcome = Listener::start(second.home.clone(), second.config.clone(), second.options()).await;
    let Err(error @ ListenError::Bind(BindError::Occupied { .. })) = outcome else { panic!() };
    let said = error.to_string();
    assert!(said.contains(&format!("port {}", first.port())), "{said}");
    if cfg!(target_os = "linux") {
        assert!(said.contains(&format!("process {}", std::process::id())), "{said}");
    }
    second.config.port = 0;
    second.listen().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn files_are_private_say_where_it_is_and_go_with_it() {
    let mut machine = Machine::start().await;
    let whereabouts = Whereabouts::read(&machine.home).unwrap().unwrap();
    assert_eq!((whereabouts.port, whereabouts.pid), (machine.port(), std::process::id()));
    for path in [
        machine.home.listener_socket(),
        machine.home.machine_key(),
        machine.home.audit(),
        machine.home.rc().join("listener.json"),
    ] {
        let mode = std::fs::metadata(&path).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600, "{}", path.display());
    }
    let link = machine.own_machine().await;
    machine.stop_listening().await;
    assert_eq!(link.closed().await, None);
    assert_eq!(Whereabouts::read(&machine.home).unwrap(), None);
    assert!(!machine.home.listener_socket().exists());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_socket_that_a_killed_listener_left_is_replaced() {
    let mut machine = Machine::prepare();
    drop(std::os::unix::net::UnixListener::bind(machine.home.listener_socket()).unwrap());
    assert!(machine.home.listener_socket().exists());
    machine.listen().await;
    machine.own_home().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn state_that_others_can_read_is_refused_with_the_command_that_mends_it() {
    let machine = Machine::prepare();
    files::write_private(&machine.home.peers(), b"{}\n").unwrap();
    std::fs::set_permissions(machine.home.peers(), std::fs::Permissions::from_mode(0o644)).unwrap();
    let outcome = Listener::start(machine.home.clone(), machine.config.clone(), machine.options()).await;
    let Err(error) = outcome else { panic!() };
    assert!(error.to_string().contains("chmod 600"), "{error}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn both_loopback_addresses_are_served() {
    let machine = Machine::start().await;
    tokio::net::TcpStream::connect(("127.0.0.1", machine.port())).await.unwrap();
    // Where the machine has no ::1, nobody can have it.
    if tokio::net::TcpListener::bind("[::1]:0").await.is_ok() {
        tokio::net::TcpStream::connect(("::1", machine.port())).await.unwrap();
        assert!(tokio::net::TcpListener::bind(("::1", machine.port())).await.is_err());
    }
}
