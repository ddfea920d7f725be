//! A machine whose agent does what the message says, so that a story decides when each turn goes on and sees what it did.

use std::fs;
use std::path::Path;

use shared::entry::{Entry, Event, Known};
use shared::ids::{SessionId, SubmissionId};
use shared::request::Start;
use shared::status::Fate;

use crate::home::TestHome;
use crate::wait;

/// What the agent does: `echo X` says X; `hold X` speaks, waits until the story allows `X`, and speaks again; `count X` adds the line X
/// to the file `counted` and answers when `count X` is allowed; `run X` runs X; `fail` fails.
pub const SCRIPT: &str = r#"
chunk = 4

[[step]]
match = "echo *"
text = "{{1}}"

[[step]]
match = "hold *"
parts = [{ text = "holding {{1}}" }, { wait_for_file = "{{1}}" }, { text = " let go" }]

[[step]]
match = "count *"
calls = [{ tool = "edit", input = { path = "counted", old = "END", new = "{{1}}\nEND" } }]

[[step]]
tool = "edit"
parts = [{ wait_for_file = "{{message}}" }, { text = "counted" }]

[[step]]
match = "run *"
calls = [{ tool = "bash", input = { command = "{{1}}" } }]

[[step]]
match = "read *"
calls = [{ tool = "read", input = { path = "{{1}}" } }]

[[step]]
match = "fail"
error = { message = "the model is away" }

[[step]]
from = "tool"
text = "It said: {{last}}"
"#;

/// A home with the script of the stories; no listener runs.
#[must_use]
pub fn machine() -> TestHome {
    machine_with("")
}

/// The same with more lines at the beginning of `config.toml`.
#[must_use]
pub fn machine_with(config: &str) -> TestHome {
    let home = TestHome::new();
    let script = home.path().join("script.toml");
    fs::write(&script, SCRIPT).expect("the script");
    fs::write(home.work().join("counted"), "END\n").expect("the file of counts");
    let script = script.display();
    home.write_config(&format!("permissions = \"edits\"\n{config}\n[aura]\nscript = \"{script}\""));
    home
}

/// Lets a turn go on that waits for `what`.
pub fn allow(home: &TestHome, what: &str) {
    fs::write(home.work().join(what), "").expect("a file that a turn waits for");
}

/// The lines that `count` turns have added.
#[must_use]
pub fn counted(home: &TestHome) -> Vec<String> {
    let text = fs::read_to_string(home.work().join("counted")).expect("the file of counts");
    text.lines().filter(|line| *line != "END").map(str::to_owned).collect()
}

/// A session of that name in the working folder, without a first turn.
#[must_use]
pub fn start(home: &TestHome, name: &str) -> Start {
    start_in(&home.work(), name)
}

/// A session of that name in that folder.
#[must_use]
pub fn start_in(folder: &Path, name: &str) -> Start {
    Start {
        name: name.to_owned(),
        harness: "aura".to_owned(),
        working_directory: folder.to_str().expect("a path in UTF-8").to_owned(),
        ..Start::default()
    }
}

/// The fates of a submission in a log; more than one would be a bug.
#[must_use]
pub fn fates(log: &[Entry], submission: &SubmissionId) -> Vec<Fate> {
    let known = log.iter().filter_map(|entry| match &entry.event {
        Event::Known(known) => Some(known.as_ref()),
        Event::Unknown(_) => None,
    });
    known
        .filter_map(|known| match known {
            Known::Settled { settled } if settled.submission == *submission => settled.fate.known().cloned(),
            _ => None,
        })
        .collect()
}

/// Waits until an entry of a session's log fits, whoever is there to see it.
pub async fn logged<T>(
    home: &TestHome,
    session: SessionId,
    what: &str,
    fits: impl Fn(&Known) -> Option<T>,
) -> T {
    wait::until(what, || async {
        home.log(session).iter().find_map(|entry| match &entry.event {
            Event::Known(known) => fits(known),
            Event::Unknown(_) => None,
        })
    })
    .await
}

/// Waits for the fate of a submission in the log. A link that is opened later than it is logged does not hear of it: a backlog has no `settled`.
pub async fn fate(home: &TestHome, session: SessionId, submission: &SubmissionId) -> Fate {
    logged(home, session, &format!("the end of {submission}"), |known| match known {
        Known::Settled { settled } if settled.submission == *submission => settled.fate.known().cloned(),
        _ => None,
    })
    .await
}
