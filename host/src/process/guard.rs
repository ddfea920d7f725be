//! The guard: a small process between host and agent that ends the agent's whole tree when the agent, the host or the guard is asked to end.
//!
//! It is the parent of orphans among its descendants, so none of them can leave the tree, whatever it forks. It passes on how the program ended:
//! an exit code as its own, a signal by ending itself with the same one.

use std::ffi::OsString;
use std::io::Write as _;
use std::os::unix::process::CommandExt as _;
use std::process::{Command, ExitCode};
use std::time::Duration;

use nix::errno::Errno;
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep, sleep_until};

use super::{Exit, GRACE, tree};

/// How often the guard looks whether its parent lives, where the system does not tell it.
const LOOK_FOR_PARENT: Duration = Duration::from_secs(1);
/// The pause between two rounds of ending what is left.
const PAUSE: Duration = Duration::from_millis(5);
/// A program that was not found, as a shell says it.
const NOT_FOUND: u8 = 127;
/// A program that could not be run, as a shell says it.
const NOT_RUN: u8 = 126;
/// A wrong command line.
const WRONG_USE: u8 = 2;

/// `aude guard [--parent PID] -- PROGRAM ARGUMENTS…`: runs the program with our standard streams and ends as it ended.
#[must_use]
pub fn guard_main(arguments: impl Iterator<Item = OsString>) -> ExitCode {
    let Some(order) = Order::parse(arguments) else {
        return fail(WRONG_USE, "usage: aude guard [--parent PID] -- PROGRAM ARGUMENTS…");
    };
    let ended = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime.block_on(guard(order)),
        Err(error) => Err(fail(NOT_RUN, &format!("cannot watch over a program: {error}"))),
    };
    match ended {
        Ok(Exit::Status(status)) => ExitCode::from(u8::try_from(status & 0xff).unwrap_or(u8::MAX)),
        Ok(Exit::Signal(number)) => end_by(number),
        Err(code) => code,
    }
}

/// What to run, and for whom.
#[derive(Debug, PartialEq, Eq)]
struct Order {
    parent: u32,
    program: OsString,
    arguments: Vec<OsString>,
}

impl Order {
    fn parse(mut arguments: impl Iterator<Item = OsString>) -> Option<Self> {
        let mut parent = std::os::unix::process::parent_id();
        let mut next = arguments.next()?;
        if next == "--parent" {
            parent = arguments.next()?.to_str()?.parse().ok()?;
            next = arguments.next()?;
        }
        if next != "--" {
            return None;
        }
        Some(Self { parent, program: arguments.next()?, arguments: arguments.collect() })
    }

    fn parent_is_gone(&self) -> bool {
        std::os::unix::process::parent_id() != self.parent
    }
}

async fn guard(order: Order) -> Result<Exit, ExitCode> {
    let cannot =
        |error: std::io::Error| fail(NOT_RUN, &format!("cannot watch over {:?}: {error}", order.program));
    // Handlers, not a mask: a mask would be inherited by the program, handlers are not.
    let mut child_changed = signal(SignalKind::child()).map_err(cannot)?;
    let mut parent_died = signal(SignalKind::user_defined1()).map_err(cannot)?;
    let mut asked = [
        signal(SignalKind::terminate()).map_err(cannot)?,
        signal(SignalKind::interrupt()).map_err(cannot)?,
        signal(SignalKind::hangup()).map_err(cannot)?,
        signal(SignalKind::quit()).map_err(cannot)?,
    ];
    adopt_orphans_and_hear_of_parent().map_err(|error| cannot(error.into()))?;
    if order.parent_is_gone() {
        return Ok(Exit::Signal(Signal::SIGTERM as i32));
    }
    // Away from the terminal and from the signals of its keys; fails only where the guard leads a group already.
    let _ = nix::unistd::setsid();

    let leader = start(&order)?;
    let _ = silence();

    let mut look_for_parent = interval(LOOK_FOR_PARENT);
    look_for_parent.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut last_moment: Option<Instant> = None;
    let [terminate, interrupt, hangup, quit] = &mut asked;
    let exit = loop {
        if let Some(exit) = reap(leader).leader {
            break Some(exit);
        }
        let is_to_end = tokio::select! {
            _ = child_changed.recv() => false,
            // A thread of the parent may have ended, not the parent.
            _ = parent_died.recv() => order.parent_is_gone(),
            _ = look_for_parent.tick() => order.parent_is_gone(),
            _ = terminate.recv() => true,
            _ = interrupt.recv() => true,
            _ = hangup.recv() => true,
            _ = quit.recv() => true,
            () = sleep_until(last_moment.unwrap_or_else(Instant::now)), if last_moment.is_some() => break None,
        };
        if is_to_end && last_moment.is_none() {
            last_moment = Some(Instant::now() + GRACE);
            let _ = kill(leader, Signal::SIGTERM);
        }
    };
    let ended_late = end_tree(leader).await;
    Ok(exit.or(ended_late).unwrap_or(Exit::Signal(Signal::SIGKILL as i32)))
}

/// Starts the program in a process group of its own, so that what it sends to its group does not reach the guard.
fn start(order: &Order) -> Result<Pid, ExitCode> {
    let started = Command::new(&order.program).args(&order.arguments).process_group(0).spawn();
    match started {
        Ok(child) => Ok(Pid::from_raw(child.id().cast_signed())),
        Err(error) => {
            let code = if error.kind() == std::io::ErrorKind::NotFound { NOT_FOUND } else { NOT_RUN };
            Err(fail(code, &format!("cannot run {:?}: {error}", order.program)))
        }
    }
}

/// Lets go of the standard streams, so that the host sees their end when the program closes them.
fn silence() -> std::io::Result<()> {
    let nothing = std::fs::OpenOptions::new().read(true).write(true).open("/dev/null")?;
    nix::unistd::dup2_stdin(&nothing)?;
    nix::unistd::dup2_stdout(&nothing)?;
    nix::unistd::dup2_stderr(&nothing)?;
    Ok(())
}

/// Ends every descendant; gives how the program ended where that is seen only now.
async fn end_tree(leader: Pid) -> Option<Exit> {
    let until = Instant::now() + tree::PERSISTENCE;
    let me = Pid::this().as_raw();
    let mut exit = None;
    loop {
        let reaped = reap(leader);
        exit = exit.or(reaped.leader);
        if reaped.is_childless || Instant::now() >= until {
            return exit;
        }
        if cfg!(target_os = "linux") {
            tree::end_once(|processes| {
                let mut chosen = tree::with_descendants(processes, &[me].into());
                chosen.remove(&me);
                chosen
            });
        } else {
            // Without /proc the program's group is all that is known.
            let _ = nix::sys::signal::killpg(leader, Signal::SIGKILL);
        }
        sleep(PAUSE).await;
    }
}

/// What asking for ended children found.
struct Reaped {
    /// How the program ended, where it has.
    leader: Option<Exit>,
    /// Whether no child is left; then no descendant is, because orphans become children.
    is_childless: bool,
}

fn reap(leader: Pid) -> Reaped {
    let mut exit = None;
    loop {
        match waitpid(None, Some(WaitPidFlag::WNOHANG)) {
            Ok(WaitStatus::Exited(pid, status)) if pid == leader => exit = Some(Exit::Status(status)),
            Ok(WaitStatus::Signaled(pid, signal, _)) if pid == leader => {
                exit = Some(Exit::Signal(signal as i32))
            }
            Ok(WaitStatus::StillAlive) => return Reaped { leader: exit, is_childless: false },
            Ok(_) | Err(Errno::EINTR) => {}
            // A real-time signal, for which nix has no name, has ended some child; whether it was the program is seen by its absence.
            Err(Errno::EINVAL) => {
                if exit.is_none() && kill(leader, None) == Err(Errno::ESRCH) {
                    exit = Some(Exit::Signal(Signal::SIGKILL as i32));
                }
            }
            Err(_) => return Reaped { leader: exit, is_childless: true },
        }
    }
}

#[cfg(target_os = "linux")]
fn adopt_orphans_and_hear_of_parent() -> nix::Result<()> {
    nix::sys::prctl::set_child_subreaper(true)?;
    // Not SIGTERM: this signal also comes when only the thread of the parent ends that has started us.
    nix::sys::prctl::set_pdeathsig(Signal::SIGUSR1)
}

#[cfg(not(target_os = "linux"))]
fn adopt_orphans_and_hear_of_parent() -> nix::Result<()> {
    Ok(())
}

/// Ends this process by the signal that ended the program. A shell does it, because starting one resets every handler of ours without unsafe code.
fn end_by(number: i32) -> ExitCode {
    let script = format!("ulimit -c 0; kill -{number} $$; exit {}", 128 + number);
    let error = Command::new("/bin/sh").args(["-c", &script]).exec();
    fail(u8::try_from(128 + number).unwrap_or(u8::MAX), &format!("cannot pass on signal {number}: {error}"))
}

fn fail(code: u8, sentence: &str) -> ExitCode {
    let _ = writeln!(std::io::stderr(), "aude guard: {sentence}");
    ExitCode::from(code)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &[&str]) -> Option<Order> {
        Order::parse(words.iter().map(OsString::from))
    }

    #[test]
    fn the_command_line_names_parent_and_program() {
        let order = parse(&["--parent", "12", "--", "cat", "--parent", "--"]).unwrap();
        assert_eq!(
            order,
            Order { parent: 12, program: "cat".into(), arguments: vec!["--parent".into(), "--".into()] }
        );
        assert_eq!(parse(&["--", "cat"]).unwrap().parent, std::os::unix::process::parent_id());
        for wrong in [
            &[] as &[&str],
            &["--"],
            &["cat"],
            &["--parent"],
            &["--parent", "x", "--", "cat"],
            &["--parent", "1", "cat"],
        ] {
            assert_eq!(parse(wrong), None, "{wrong:?}");
        }
    }
}
