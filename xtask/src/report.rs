//! What a person sees of a command: numbered steps with their times, warnings, and one sentence for a failure.
#![expect(
    clippy::print_stdout,
    clippy::print_stderr,
    reason = "this module is the one that talks to the person"
)]

use std::fmt::Display;
use std::time::Instant;

/// Numbers the steps of one command and tells how long each took.
///
/// Steps go to standard error, where cargo writes its own progress, so that the two keep their order.
pub(crate) struct Steps {
    total: usize,
    begun: usize,
    start: Instant,
}

impl Steps {
    pub(crate) fn new(total: usize) -> Self {
        Self { total, begun: 0, start: Instant::now() }
    }

    /// Runs one step between a line that names it and a line with its time.
    pub(crate) fn step<T, E>(
        &mut self,
        name: impl Display,
        work: impl FnOnce() -> Result<T, E>,
    ) -> Result<T, E> {
        self.announce(name);
        let start = Instant::now();
        let outcome = work();
        let word = if outcome.is_ok() { "done" } else { "failed" };
        eprintln!("[{}/{}] {word} in {}", self.begun, self.total, elapsed(start));
        outcome
    }

    /// Names a step whose end somebody else tells.
    pub(crate) fn announce(&mut self, name: impl Display) {
        self.begun += 1;
        eprintln!("[{}/{}] {name} ({} so far)", self.begun, self.total, elapsed(self.start));
    }
}

/// Tells one thing that a person may want to know while it happens.
pub(crate) fn note(text: impl Display) {
    eprintln!("      {text}");
}

/// Tells something that is not as it should be and does not stop the command.
pub(crate) fn warning(text: impl Display) {
    eprintln!("warning: {text}");
}

/// Tells why the command ends without success.
pub(crate) fn failure(text: impl Display) {
    eprintln!("error: {text}");
}

/// Prints what was asked for.
pub(crate) fn text(text: &str) {
    print!("{text}");
}

fn elapsed(start: Instant) -> String {
    let seconds = start.elapsed().as_secs_f64();
    if seconds < 60.0 {
        format!("{seconds:.1} s")
    } else {
        let whole = start.elapsed().as_secs();
        format!("{} min {:02} s", whole / 60, whole % 60)
    }
}
