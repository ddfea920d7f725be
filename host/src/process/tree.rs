//! Which processes belong together, as `/proc` tells it, and how to end them so that none slips away by forking.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// How often a tree is looked at again while it is being frozen: each look finds what was forked during the one before.
const LOOKS: usize = 20;
/// The pause between two rounds of ending what is left.
const PAUSE: Duration = Duration::from_millis(10);
/// How long to go on ending what does not end, such as a process that waits for a dead disk.
pub(super) const PERSISTENCE: Duration = Duration::from_secs(5);

/// One process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    /// Its pid.
    pub(super) pid: i32,
    /// The pid of its parent.
    pub(super) parent: i32,
    /// The pid of the leader of its session.
    pub(super) session: i32,
    /// Whether it has ended and only waits for its parent to ask how.
    pub(super) is_zombie: bool,
}

/// Ends all that `choose` picks out of the live processes, again and again until it picks none. Gives the number of processes ended.
pub(super) fn end_all(choose: impl Fn(&[Process]) -> BTreeSet<i32>) -> usize {
    let until = Instant::now() + PERSISTENCE;
    let mut ended = BTreeSet::new();
    loop {
        let chosen = end_once(&choose);
        if chosen.is_empty() || Instant::now() >= until {
            return ended.len();
        }
        ended.extend(chosen);
        std::thread::sleep(PAUSE);
    }
}

/// Freezes what `choose` picks, and what that forked meanwhile, then ends all of it. A frozen process can neither fork nor be left by its children.
pub(super) fn end_once(choose: impl Fn(&[Process]) -> BTreeSet<i32>) -> BTreeSet<i32> {
    let mut frozen = BTreeSet::new();
    for _ in 0..LOOKS {
        let fresh: Vec<i32> = choose(&live()).difference(&frozen).copied().collect();
        if fresh.is_empty() {
            break;
        }
        for pid in fresh {
            signal(pid, Signal::SIGSTOP);
            frozen.insert(pid);
        }
    }
    for pid in &frozen {
        signal(*pid, Signal::SIGKILL);
    }
    frozen
}

/// All descendants of the processes in `roots`, and the roots where they live.
pub(super) fn with_descendants(processes: &[Process], roots: &BTreeSet<i32>) -> BTreeSet<i32> {
    let mut found: BTreeSet<i32> =
        processes.iter().map(|process| process.pid).filter(|pid| roots.contains(pid)).collect();
    loop {
        let before = found.len();
        let children = processes.iter().filter(|process| found.contains(&process.parent));
        let more: Vec<i32> = children.map(|process| process.pid).collect();
        found.extend(more);
        if found.len() == before {
            return found;
        }
    }
}

/// The process itself and all above it.
pub(super) fn with_ancestors(processes: &[Process], pid: i32) -> BTreeSet<i32> {
    let mut line = BTreeSet::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|pid| line.insert(*pid)) {
        next = processes.iter().find(|process| process.pid == pid).map(|process| process.parent);
    }
    line
}

/// What carries `mark`, an entry `NAME=VALUE` of the environment, with the sessions that are its own.
pub(super) fn marked(processes: &[Process], mark: &str) -> BTreeSet<i32> {
    let is_carrier = |process: &&Process| carries(process.pid, mark.as_bytes());
    let carriers: Vec<Process> = processes.iter().filter(is_carrier).copied().collect();
    let pids: BTreeSet<i32> = carriers.iter().map(|process| process.pid).collect();
    // Who overwrites its own environment still sits in the session that a guard or another carrier has founded. A session whose founder lives
    // and carries no mark is somebody else's, such as a person's who has started a carrier by hand.
    // Session 0 is that of the kernel, or of founders outside a container.
    let is_own = |session: &i32| {
        pids.contains(session) || *session > 1 && !processes.iter().any(|process| process.pid == *session)
    };
    let sessions: BTreeSet<i32> =
        carriers.iter().map(|process| process.session).chain(pids.iter().copied()).filter(is_own).collect();
    let members = processes.iter().filter(|process| sessions.contains(&process.session));
    members.map(|process| process.pid).chain(pids.iter().copied()).collect()
}

/// The live processes; empty where there is no `/proc`.
pub(super) fn live() -> Vec<Process> {
    all().into_iter().filter(|process| !process.is_zombie).collect()
}

/// All processes, also those that only wait to be asked how they ended; empty where there is no `/proc`.
pub(super) fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse::<i32>().ok());
    pids.filter_map(|pid| parse(&std::fs::read(format!("/proc/{pid}/stat")).ok()?)).collect()
}

/// Sends a signal to a process that was seen a moment ago. It may be gone; a stranger with its pid would need the system to have gone through all pids since.
pub(super) fn signal(pid: i32, signal: Signal) {
    // 0, 1 and negative numbers mean more than one process, or the machine's own.
    if pid > 1 {
        let _ = kill(Pid::from_raw(pid), signal);
    }
}

/// Reads `PID (NAME) STATE PARENT GROUP SESSION …`. The name may hold anything, also parentheses and bytes that are no text.
fn parse(stat: &[u8]) -> Option<Process> {
    let name_begin = stat.iter().position(|byte| *byte == b'(')?;
    let name_end = stat.iter().rposition(|byte| *byte == b')')?;
    let pid = std::str::from_utf8(stat.get(..name_begin)?).ok()?.trim().parse().ok()?;
    let rest = std::str::from_utf8(stat.get(name_end + 1..)?).ok()?;
    let mut fields = rest.split_ascii_whitespace();
    let state = fields.next()?;
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    Some(Process { pid, parent, session, is_zombie: matches!(state, "Z" | "X") })
}

/// Whether a process of our own user was started with `mark` in its environment.
fn carries(pid: i32, mark: &[u8]) -> bool {
    use std::os::unix::fs::MetadataExt as _;

    let directory = format!("/proc/{pid}");
    let is_ours =
        std::fs::metadata(&directory).is_ok_and(|metadata| metadata.uid() == nix::unistd::geteuid().as_raw());
    // The kernel bounds an environment to a quarter of the stack limit.
    is_ours
        && std::fs::read(format!("{directory}/environ"))
            .is_ok_and(|environment| environment.split(|byte| *byte == 0).any(|entry| entry == mark))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn process(pid: i32, parent: i32) -> Process {
        Process { pid, parent, session: 1, is_zombie: false }
    }

    #[test]
    fn a_name_cannot_fake_the_fields_behind_it() {
        let parsed = parse(b"42 (a) S 1 1 1 \xff(b) R 7 8 9 0 -1").unwrap();
        assert_eq!(parsed, Process { pid: 42, parent: 7, session: 9, is_zombie: false });
        assert!(parse(b"42 (x) Z 7 8 9").unwrap().is_zombie);
        for bad in [b"".as_slice(), b"42", b"42 (x", b"42 (x) S", b"x (x) S 1 2 3", b")(", b"1 (x) S 1 2"] {
            assert_eq!(parse(bad), None);
        }
    }

    #[test]
    fn descendants_are_found_in_any_order_and_through_any_depth() {
        let processes =
            [process(9, 8), process(8, 5), process(5, 2), process(3, 2), process(2, 1), process(7, 6)];
        assert_eq!(with_descendants(&processes, &[5].into()), [5, 8, 9].into());
        assert_eq!(with_descendants(&processes, &[4].into()), BTreeSet::new());
        assert_eq!(
            with_descendants(&processes, &[6].into()),
            [].into(),
            "the root is gone, and nobody's child is ours"
        );
        assert_eq!(with_ancestors(&processes, 9), [9, 8, 5, 2, 1].into());
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_process_is_among_the_living() {
        let me = std::process::id().cast_signed();
        let parent = std::os::unix::process::parent_id().cast_signed();
        assert!(live().iter().any(|process| process.pid == me && process.parent == parent));
    }
}
