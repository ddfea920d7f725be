//! Process trees with the real guard: however parent, guard or program end, nothing of the tree is left.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    missing_docs,
    reason = "a test that panics has failed, as it should"
)]

use std::ffi::OsString;
use std::io::{BufRead as _, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use host::process::{
    Environment, Exit, GRACE, Owned, RUN_VARIABLE, SpawnError, Spec, become_subreaper, sweep,
};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use shared::ids::HostId;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

/// Longer than anything here takes on a busy machine; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// Descendants that try to get away, each of which appends its pid to the file `pids` before it sleeps.
const FUGITIVES: &str = r#"
note='echo $$ >> pids; exec sleep 1000'
sh -c "$note" &
setsid sh -c "$note" &
(setsid sh -c "trap '' TERM HUP INT; $note" &)
env -i PATH="$PATH" setsid sh -c "$note" &
(env -i PATH="$PATH" setsid sh -c "$note" &)
perl -e 'use POSIX; exit if fork; POSIX::setsid(); exit if fork; open(F, ">>", "pids"); print F "$$\n"; close F; $SIG{TERM} = "IGNORE"; sleep 1000;' &
(perl -e '$0 = "x" x 4000; open(F, ">>", "pids"); print F "$$\n"; close F; sleep 1000;' &)
"#;
/// How many there are.
const FUGITIVE_COUNT: usize = 7;

fn scratch() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("aude 🦀 ").tempdir().unwrap()
}

fn spec(directory: &Path, run: HostId, script: &str) -> Spec {
    Spec {
        program: "sh".into(),
        arguments: vec!["-c".into(), script.into()],
        working_directory: directory.to_path_buf(),
        environment: Environment::Inherited(Vec::new()),
        run,
        guard_program: env!("CARGO_BIN_EXE_aude").into(),
    }
}

fn start(directory: &Path, script: &str) -> Owned {
    Owned::spawn(spec(directory, HostId::random(), script)).unwrap()
}

fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !is_so() {
        assert!(Instant::now() < end, "waited in vain until {what}");
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn is_alive(pid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit(')')
        .next()
        .is_some_and(|rest| !rest.trim().is_empty() && !rest.trim_start().starts_with(['Z', 'X']))
}

fn pids(directory: &Path) -> Vec<i32> {
    let text = std::fs::read_to_string(directory.join("pids")).unwrap_or_default();
    text.split_inclusive('\n')
        .filter(|line| line.ends_with('\n'))
        .map(|line| line.trim().parse().unwrap())
        .collect()
}

fn fugitives(directory: &Path) -> Vec<i32> {
    until("all descendants run", || pids(directory).len() == FUGITIVE_COUNT);
    let pids = pids(directory);
    assert!(pids.iter().all(|pid| is_alive(*pid)));
    pids
}

fn until_gone(pids: &[i32]) {
    until("no descendant is left", || !pids.iter().any(|pid| is_alive(*pid)));
}

async fn text_of(mut stream: impl tokio::io::AsyncRead + Unpin) -> String {
    let mut text = String::new();
    tokio::time::timeout(PATIENCE, stream.read_to_string(&mut text))
        .await
        .expect("no end of the stream")
        .unwrap();
    text
}

#[tokio::test]
async fn the_program_has_the_streams_and_its_exit_is_passed_on() {
    let directory = scratch();
    for status in [0, 1, 42, 126, 127, 128, 255] {
        let mut owned = start(directory.path(), &format!("cat; echo hint >&2; pwd >&2; exit {status}"));
        let mut stdin = owned.stdin.take().unwrap();
        stdin.write_all("through\u{1f980}".as_bytes()).await.unwrap();
        drop(stdin);
        assert_eq!(text_of(owned.stdout.take().unwrap()).await, "through\u{1f980}");
        let said = text_of(owned.stderr.take().unwrap()).await;
        assert_eq!(said, format!("hint\n{}\n", directory.path().canonicalize().unwrap().display()));
        assert_eq!(owned.wait().await.unwrap(), Exit::Status(status));
        assert_eq!(owned.wait().await.unwrap(), Exit::Status(status), "asked twice");
        assert_eq!(owned.guard_pid(), None);
    }
}

#[tokio::test]
async fn the_signal_that_ended_the_program_is_passed_on() {
    let directory = scratch();
    for signal in [
        Signal::SIGTERM,
        Signal::SIGINT,
        Signal::SIGKILL,
        Signal::SIGSEGV,
        Signal::SIGABRT,
        Signal::SIGHUP,
        Signal::SIGUSR1,
        Signal::SIGPIPE,
    ] {
        let mut owned = start(directory.path(), &format!("ulimit -c 0; kill -{} $$", signal as i32));
        assert_eq!(owned.wait().await.unwrap(), Exit::Signal(signal as i32), "{signal}");
    }
}

#[tokio::test]
async fn the_guard_does_not_hold_what_the_program_has_closed() {
    let directory = scratch();
    let mut owned = start(directory.path(), "echo last; exec >&- 2>&- <&-; exec sleep 1000");
    assert_eq!(text_of(owned.stdout.take().unwrap()).await, "last\n");
    assert_eq!(text_of(owned.stderr.take().unwrap()).await, "");
    let mut stdin = owned.stdin.take().unwrap();
    let refused = tokio::time::timeout(PATIENCE, async {
        loop {
            if let Err(error) = stdin.write_all(&[b'x'; 4096]).await {
                return error;
            }
        }
    });
    assert_eq!(refused.await.unwrap().kind(), std::io::ErrorKind::BrokenPipe);
    assert_eq!(owned.kill().await.unwrap(), Exit::Signal(Signal::SIGTERM as i32));
}

#[tokio::test]
async fn the_environment_is_what_was_asked_for() {
    let directory = scratch();
    let run = HostId::random();
    let print = "echo \"$A/$HOME/$AUDE_SESSION_RUN\"";
    let mut cleared = spec(directory.path(), run, print);
    cleared.environment = Environment::Cleared(vec![("A".into(), "a b".into())]);
    let mut owned = Owned::spawn(cleared).unwrap();
    assert_eq!(text_of(owned.stdout.take().unwrap()).await, format!("a b//{run}\n"));
    let mut changed = spec(directory.path(), run, print);
    changed.environment = Environment::Inherited(vec![
        ("HOME".into(), None),
        ("A".into(), Some("1".into())),
        (RUN_VARIABLE.into(), Some("forged".into())),
    ]);
    let mut owned = Owned::spawn(changed).unwrap();
    assert_eq!(text_of(owned.stdout.take().unwrap()).await, format!("1//{run}\n"));
}

#[tokio::test]
async fn what_cannot_be_started_is_named() {
    let directory = scratch();
    let base = spec(directory.path(), HostId::random(), "");
    let refused = |program: &str| Owned::spawn(Spec { program: program.into(), ..base.clone() }).unwrap_err();
    for program in ["no-such-program-here", "./missing", "/nowhere/at/all"] {
        let error = refused(program);
        assert!(matches!(&error, SpawnError::NotFound(name) if name == program), "{error}");
    }
    let path = Environment::Cleared(vec![("PATH".into(), OsString::from("relative:/nowhere"))]);
    assert!(matches!(Owned::spawn(Spec { environment: path, ..base.clone() }), Err(SpawnError::NotFound(_))));
    let file = directory.path().join("file");
    std::fs::write(&file, "no program").unwrap();
    for wrong in [PathBuf::from("/nowhere/at/all"), file.clone()] {
        let error = Owned::spawn(Spec { working_directory: wrong, ..base.clone() }).unwrap_err();
        assert!(matches!(error, SpawnError::WorkingDirectory(_)), "{error}");
    }
    let error = Owned::spawn(Spec { guard_program: "/nowhere/aude".into(), ..base.clone() }).unwrap_err();
    assert!(matches!(error, SpawnError::System { .. }), "{error}");
    let mut owned = Owned::spawn(Spec { program: file.into(), ..base }).unwrap();
    assert!(text_of(owned.stderr.take().unwrap()).await.contains("cannot run"));
    assert_eq!(owned.wait().await.unwrap(), Exit::Status(126));
}

#[tokio::test]
async fn descendants_end_when_the_program_exits() {
    let directory = scratch();
    let mut owned = start(directory.path(), &format!("{FUGITIVES} read go; exit 7"));
    let pids = fugitives(directory.path());
    owned.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(owned.wait().await.unwrap(), Exit::Status(7));
    assert!(!pids.iter().any(|pid| is_alive(*pid)), "wait returns only when all are gone");
}

#[tokio::test]
async fn kill_gives_the_program_time_to_say_goodbye() {
    let directory = scratch();
    let mut owned = start(
        directory.path(),
        &format!("trap 'echo bye > said; exit 3' TERM; {FUGITIVES} while :; do sleep 0.05; done"),
    );
    let pids = fugitives(directory.path());
    assert_eq!(owned.kill().await.unwrap(), Exit::Status(3));
    assert_eq!(std::fs::read_to_string(directory.path().join("said")).unwrap(), "bye\n");
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn kill_ends_a_program_that_does_not_listen() {
    let directory = scratch();
    let mut owned =
        start(directory.path(), &format!("trap '' TERM; {FUGITIVES} while :; do sleep 0.05; done"));
    let pids = fugitives(directory.path());
    let began = Instant::now();
    assert_eq!(owned.kill().await.unwrap(), Exit::Signal(Signal::SIGKILL as i32));
    assert!(began.elapsed() >= GRACE);
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
}

#[tokio::test]
async fn what_is_dropped_ends() {
    let directory = scratch();
    let owned = start(directory.path(), &format!("{FUGITIVES} sleep 1000"));
    let pids = fugitives(directory.path());
    drop(owned);
    until_gone(&pids);
}

#[tokio::test]
async fn what_a_program_sends_to_its_own_group_does_not_reach_the_guard() {
    let directory = scratch();
    let mut owned = start(directory.path(), &format!("{FUGITIVES} read go; kill -9 0"));
    let pids = fugitives(directory.path());
    owned.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(owned.wait().await.unwrap(), Exit::Signal(Signal::SIGKILL as i32));
    until_gone(&pids);
}

#[tokio::test]
async fn a_tree_that_forks_all_the_time_ends() {
    let directory = scratch();
    let script = "perl -e 'for (1 .. 20) { if (!fork) { while (1) { my $p = fork; if (!defined $p) { next } if (!$p) { select(undef, undef, undef, 0.01); exit } wait } } } \
                  open(F, \">\", \"pids\"); print F \"$$\\n\"; close F; sleep 1000' & read go";
    let mut owned = start(directory.path(), script);
    until("it forks", || pids(directory.path()).len() == 1);
    let marker = format!("{}", directory.path().display());
    assert!(processes_in(&marker) > 20);
    owned.stdin.take().unwrap().write_all(b"go\n").await.unwrap();
    assert_eq!(owned.wait().await.unwrap(), Exit::Status(0));
    assert_eq!(processes_in(&marker), 0);
}

/// The live processes whose working directory is `directory`.
fn processes_in(directory: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().filter_map(Result::ok);
    entries
        .filter(|entry| {
            std::fs::read_link(entry.path().join("cwd")).is_ok_and(|cwd| cwd == Path::new(directory))
        })
        .count()
}

/// A process of its own that acts as a session host: it starts `script` in `directory` and says what happens to it.
struct Host {
    child: std::process::Child,
    out: BufReader<std::process::ChildStdout>,
    guard: i32,
    run: HostId,
}

const PART: &str = "AUDE_TEST_PART";

impl Host {
    fn start(directory: &Path, script: &str) -> Self {
        let run = HostId::random();
        let script = format!("touch started; {script}");
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "part_host", "--ignored", "--nocapture"])
            .env(PART, format!("{}\n{run}\n{script}", directory.display()))
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut host = Self { out: BufReader::new(child.stdout.take().unwrap()), child, guard: 0, run };
        host.guard = host.word("guard").parse().unwrap();
        host
    }

    /// What the host says after `key`.
    fn word(&mut self, key: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the host ended before it said {key}");
            if let Some(word) = line.strip_prefix(key) {
                return word.trim().to_owned();
            }
        }
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        sweep(self.run);
    }
}

#[test]
#[ignore = "a part of other tests, as a process of its own"]
fn part_host() {
    use std::io::Write as _;
    let order = std::env::var(PART).unwrap();
    let (directory, rest) = order.split_once('\n').unwrap();
    let (run, script) = rest.split_once('\n').unwrap();
    become_subreaper().unwrap();
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let mut spec = spec(Path::new(directory), run.parse().unwrap(), script);
        spec.environment = Environment::Inherited(vec![(PART.into(), None)]);
        // Started by a thread that ends while the program runs, which must not be taken for the end of the host.
        let handle = tokio::runtime::Handle::current();
        let started = Path::new(directory).join("started");
        let mut owned = std::thread::spawn(move || {
            let _entered = handle.enter();
            let owned = Owned::spawn(spec).unwrap();
            until("the program runs", || started.exists());
            owned
        })
        .join()
        .unwrap();
        writeln!(std::io::stdout(), "\nguard {}", owned.guard_pid().unwrap()).unwrap();
        let exit = owned.wait().await.unwrap();
        writeln!(std::io::stdout(), "\nexit {exit:?}").unwrap();
        let children = std::process::id();
        let left = std::fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| std::fs::read_to_string(entry.ok()?.path().join("stat")).ok());
        let left = left
            .filter(|stat| stat.rsplit(") ").next().unwrap().split(' ').nth(1) == Some(&children.to_string()))
            .count();
        writeln!(std::io::stdout(), "\nleft {left}").unwrap();
    });
}

#[test]
fn a_killed_host_takes_its_tree_along() {
    let directory = scratch();
    let mut host =
        Host::start(directory.path(), &format!("trap '' TERM; {FUGITIVES} while :; do sleep 0.05; done"));
    let mut pids = fugitives(directory.path());
    pids.push(host.guard);
    host.kill();
    until_gone(&pids);
}

#[test]
fn the_end_of_the_thread_that_started_it_is_not_the_end_of_the_host() {
    let directory = scratch();
    // The guard looks for its parent every second; the program outlives two looks.
    let mut host = Host::start(directory.path(), "sleep 2.2; exit 5");
    assert_eq!(host.word("exit"), "Status(5)");
}

#[test]
fn a_killed_guard_leaves_its_tree_to_the_host_which_ends_it() {
    let directory = scratch();
    let mut host = Host::start(directory.path(), &format!("{FUGITIVES} echo $$ > leader; exec sleep 1000"));
    let pids = fugitives(directory.path());
    until("the leader is known", || {
        std::fs::read_to_string(directory.path().join("leader")).is_ok_and(|text| text.ends_with('\n'))
    });
    kill(Pid::from_raw(host.guard), Signal::SIGKILL).unwrap();
    assert_eq!(host.word("exit"), "Signal(9)");
    let left = host.word("left");
    assert!(!pids.iter().any(|pid| is_alive(*pid)));
    assert!(!is_alive(
        std::fs::read_to_string(directory.path().join("leader")).unwrap().trim().parse().unwrap()
    ));
    assert_eq!(left, "0", "the host has asked how its orphans ended");
}

#[test]
fn a_sweep_ends_what_host_and_guard_left_when_both_were_killed() {
    let directory = scratch();
    let mut host = Host::start(directory.path(), &format!("{FUGITIVES} exec sleep 1000"));
    let other_directory = scratch();
    let other = Host::start(other_directory.path(), "echo $$ > pids; exec sleep 1000");
    until("the other runs", || pids(other_directory.path()).len() == 1);
    let pids_here = fugitives(directory.path());
    // Stopped first, so that neither sees the other go.
    for pid in [host.guard, host.child.id().cast_signed()] {
        kill(Pid::from_raw(pid), Signal::SIGSTOP).unwrap();
    }
    kill(Pid::from_raw(host.guard), Signal::SIGKILL).unwrap();
    host.kill();
    assert!(sweep(host.run) >= FUGITIVE_COUNT - 1);
    assert_eq!(sweep(host.run), 0);
    // An orphan that has cleared its environment and founded its own session cannot be told from a stranger any more.
    let marked: Vec<i32> = pids_here.into_iter().filter(|pid| is_alive(*pid)).collect();
    assert!(marked.len() <= 1, "{marked:?}");
    for pid in marked {
        kill(Pid::from_raw(pid), Signal::SIGKILL).unwrap();
    }
    assert!(pids(other_directory.path()).iter().all(|pid| is_alive(*pid)), "another run is left alone");
    assert!(is_alive(other.guard));
}

#[test]
fn a_guard_whose_parent_is_gone_starts_nothing() {
    let directory = scratch();
    let proof = directory.path().join("started");
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let status = Command::new(env!("CARGO_BIN_EXE_aude"))
        .args(["guard", "--parent", &gone.id().to_string(), "--", "touch"])
        .arg(&proof)
        .status()
        .unwrap();
    assert!(!status.success());
    assert!(!proof.exists());
}

#[test]
fn a_guard_used_by_hand_says_how() {
    let output = Command::new(env!("CARGO_BIN_EXE_aude")).args(["guard", "cat"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("usage: aude guard"));
    let output = Command::new(env!("CARGO_BIN_EXE_aude"))
        .args(["guard", "--", "no-such-program-here"])
        .output()
        .unwrap();
    assert_eq!(output.status.code(), Some(127));
}

#[test]
fn a_sweep_spares_itself_and_what_is_above_it() {
    let directory = scratch();
    // The sweeper carries the mark itself, as does the shell above it.
    let run = HostId::random();
    let script = "\"$0\" --exact part_sweeper --ignored --nocapture; sleep 1000";
    let mut child = Command::new("sh")
        .args(["-c", script])
        .arg(std::env::current_exe().unwrap())
        .env(PART, run.to_string())
        .env(RUN_VARIABLE, run.to_string())
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    until("the sweeper is done", || directory.path().join("swept").exists());
    assert_eq!(std::fs::read_to_string(directory.path().join("swept")).unwrap(), "1");
    assert!(is_alive(child.id().cast_signed()));
    assert!(sweep(run) >= 1);
    child.wait().unwrap();
}

#[test]
#[ignore = "a part of a_sweep_spares_itself_and_what_is_above_it"]
fn part_sweeper() {
    let run: HostId = std::env::var(PART).unwrap().parse().unwrap();
    let mut victim = Command::new("sleep").arg("1000").spawn().unwrap();
    let swept = sweep(run);
    victim.wait().unwrap();
    std::fs::write("new", swept.to_string()).unwrap();
    std::fs::rename("new", "swept").unwrap();
}
