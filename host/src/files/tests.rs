use super::*;
use std::io::BufRead as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

fn mode_of(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().mode() & 0o7777
}

fn set_mode(path: &Path, mode: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
}

/// The command between the back-quotes of an error sentence.
fn mend_of(sentence: &str) -> String {
    sentence.split('`').nth(1).unwrap_or_else(|| panic!("no command in {sentence}")).to_owned()
}

#[test]
fn what_is_written_is_private_and_read_back() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("a").join("b c");
    private_directory(&directory).unwrap();
    assert_eq!(mode_of(&directory), 0o700);
    assert_eq!(mode_of(&scratch.path().join("a")), 0o700);
    let path = directory.join("peers.json");
    assert_eq!(read_private(&path, 10).unwrap(), None);
    write_private(&path, b"one").unwrap();
    write_private(&path, b"two!").unwrap();
    assert_eq!(mode_of(&path), 0o600);
    assert_eq!(read_private(&path, 4).unwrap().unwrap(), b"two!");
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 1, "no temporary file is left");
}

#[test]
fn the_command_in_a_refusal_mends_it() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("it's $HOME; `🦀` \"here\"");
    private_directory(&directory).unwrap();
    let path = directory.join("machine.key");
    write_private(&path, b"secret").unwrap();
    for mode in [0o640, 0o604, 0o620, 0o611] {
        set_mode(&path, mode);
        let refused = read_private(&path, 100).unwrap_err();
        let FilesError::Exposed { mend, .. } = &refused else { panic!("{refused}") };
        assert!(refused.to_string().contains(mend), "{refused}");
        assert!(Command::new("sh").args(["-c", mend]).status().unwrap().success());
        assert_eq!(mode_of(&path), 0o600);
        assert!(read_private(&path, 100).is_ok());
    }
    set_mode(&directory, 0o755);
    let FilesError::Exposed { mend, .. } = private_directory(&directory).unwrap_err() else { panic!() };
    assert!(Command::new("sh").args(["-c", &mend]).status().unwrap().success());
    private_directory(&directory).unwrap();
}

#[test]
fn a_plain_path_is_not_quoted() {
    assert_eq!(shell_quoted(Path::new("/home/me/.aude/config.toml")), "/home/me/.aude/config.toml");
    assert_eq!(shell_quoted(Path::new("/a b")), "'/a b'");
    assert_eq!(shell_quoted(Path::new("/~x")), "'/~x'");
    assert_eq!(mend_of("x: run `chmod 600 /a`"), "chmod 600 /a");
}

#[test]
fn a_file_over_its_bound_a_directory_and_a_fifo_are_refused() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("file");
    write_private(&path, b"12345").unwrap();
    assert!(read_private(&path, 5).is_ok());
    assert!(matches!(read_private(&path, 4), Err(FilesError::TooLarge { limit: 4, .. })));
    let directory = scratch.path().join("directory");
    private_directory(&directory).unwrap();
    assert!(matches!(read_private(&directory, 5), Err(FilesError::WrongKind { .. })));
    assert!(matches!(private_directory(&path), Err(FilesError::WrongKind { .. })));
    let fifo = scratch.path().join("fifo");
    nix::unistd::mkfifo(&fifo, nix::sys::stat::Mode::from_bits_truncate(0o600)).unwrap();
    assert!(matches!(read_private(&fifo, 5), Err(FilesError::WrongKind { .. })));
}

#[test]
fn a_failed_write_leaves_the_old_content_and_no_temporary_file() {
    let scratch = tempfile::tempdir().unwrap();
    let occupied = scratch.path().join("occupied");
    std::fs::create_dir(&occupied).unwrap();
    assert!(write_private(&occupied, b"x").is_err());
    assert_eq!(std::fs::read_dir(scratch.path()).unwrap().count(), 1);
}

#[test]
fn a_reader_never_sees_half_of_a_write() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("record.json");
    let contents = [vec![b'a'; 100_000], vec![b'b'; 70_000]];
    write_private(&path, &contents[0]).unwrap();
    let is_done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0..60 {
                write_private(&path, &contents[round % 2]).unwrap();
            }
            is_done.store(true, Ordering::Release);
        });
        while !is_done.load(Ordering::Acquire) {
            let seen = read_private(&path, 1_000_000).unwrap().unwrap();
            assert!(contents.contains(&seen), "{} bytes that are neither", seen.len());
        }
    });
}

#[test]
fn a_second_lock_names_the_holder() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("listener.lock");
    assert_eq!(held(&path).unwrap(), Liveness::Gone);
    let lock = Lock::take(&path).unwrap();
    let me = Some(std::process::id());
    assert_eq!(held(&path).unwrap(), Liveness::Live { holder: me });
    let refused = Lock::take(&path).unwrap_err();
    assert!(matches!(refused, FilesError::Held { holder, .. } if holder == me), "{refused}");
    assert!(refused.to_string().contains(&format!("process {}", std::process::id())), "{refused}");
    drop(lock);
    assert_eq!(held(&path).unwrap(), Liveness::Gone);
    Lock::take(&path).unwrap();
}

#[test]
fn a_lock_is_not_inherited_by_what_we_start() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lock");
    let lock = Lock::take(&path).unwrap();
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    drop(lock);
    Lock::take(&path).unwrap();
    drop(child.stdin.take());
    child.wait().unwrap();
}

#[test]
fn a_stale_pid_is_not_named_as_holder() {
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("lock");
    let mut child = Command::new("true").spawn().unwrap();
    let dead = child.id();
    child.wait().unwrap();
    write_private(&path, format!("{dead}\n").as_bytes()).unwrap();
    assert_eq!(written_holder(&path), None);
    write_private(&path, b"-1\n").unwrap();
    assert_eq!(written_holder(&path), None);
    write_private(&path, b"no pid at all, and rather long for one\n").unwrap();
    assert_eq!(written_holder(&path), None);
}

#[test]
fn a_socket_works_at_a_path_longer_than_an_address() {
    let scratch = tempfile::tempdir().unwrap();
    let directory = scratch.path().join("x".repeat(90)).join("🦀 y".repeat(12));
    private_directory(&directory).unwrap();
    let path = directory.join("listener.socket");
    assert!(UnixListener::bind(&path).is_err(), "the path is short enough to prove nothing");
    let address = SocketAddress::of(&path).unwrap();
    let listener = UnixListener::bind(address.as_path()).unwrap();
    drop(address);
    assert!(path.exists());
    let mut near = UnixStream::connect(SocketAddress::of(&path).unwrap().as_path()).unwrap();
    let (far, _) = listener.accept().unwrap();
    near.write_all(b"hello\n").unwrap();
    let mut line = String::new();
    std::io::BufReader::new(far).read_line(&mut line).unwrap();
    assert_eq!(line, "hello\n");
}
