//! Hooks: a program of the operator that is told of each answer of the model, as JSON, and may stop the turn (docs/engine.md).

use std::time::Duration;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use super::Stop;
use super::config::Hook;
use super::tools::{Confined, Tools};
use crate::process::{Exit, Owned};
use crate::text;

/// The answer of a hook, in bytes: it is one sentence.
const ANSWER_BYTES: u64 = 64 * 1024;
/// Characters of what a hook says to people.
const SAID_CHARACTERS: usize = 1000;

/// What a hook is told.
#[derive(Debug)]
pub(super) struct Look<'a> {
    /// The conversation.
    pub(super) session: &'a str,
    /// The model call of the turn, from 1.
    pub(super) iteration: u32,
    /// What the model said.
    pub(super) text: &'a str,
    /// What it calls; nothing has run yet. Where it calls nothing the turn is about to end.
    pub(super) calls: Vec<(&'a str, &'a Value)>,
}

/// What a hook says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Verdict {
    /// The turn goes on; people may be told something.
    Continue(Option<String>),
    /// The turn ends.
    Stop(String),
    /// The turn was stopped by somebody else meanwhile.
    Interrupted,
}

#[derive(Serialize)]
struct Told<'a> {
    hook: &'static str,
    session_id: &'a str,
    working_directory: &'a std::path::Path,
    iteration: u32,
    content: &'a str,
    tool_calls: Vec<ToldCall<'a>>,
}

#[derive(Serialize)]
struct ToldCall<'a> {
    name: &'a str,
    args: &'a Value,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Answer {
    decision: Decision,
    #[serde(default)]
    message: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Decision {
    Continue,
    Stop,
}

/// Asks a hook. One that fails stops the turn: nobody knows what it would have said.
pub(super) async fn ask(hook: &Hook, look: &Look<'_>, tools: &Tools, mut stop: Stop) -> Verdict {
    let failed = |why: &str| Verdict::Stop(format!("the hook {:?} {why}, so the turn ends", hook.name));
    let told = Told {
        hook: "stop",
        session_id: look.session,
        working_directory: tools.workspace().root(),
        iteration: look.iteration,
        content: look.text,
        tool_calls: look.calls.iter().map(|(name, args)| ToldCall { name, args }).collect(),
    };
    let Ok(mut told) = serde_json::to_vec(&told) else { return failed("could not be asked") };
    told.push(b'\n');
    let spec = tools.spec(
        hook.command.clone().into(),
        hook.arguments.iter().map(Into::into).collect(),
        Confined::No,
    );
    let mut owned = match Owned::spawn(spec) {
        Ok(owned) => owned,
        Err(error) => return failed(&format!("could not be started ({error})")),
    };
    let talked = tokio::select! {
        biased;
        () = stop.wait() => None,
        talked = tokio::time::timeout(hook.timeout, talk(&mut owned, &told)) => Some(talked),
    };
    let (answer, exit) = match talked {
        Some(Ok(Ok(talked))) => talked,
        Some(Ok(Err(error))) => {
            let _ = owned.kill().await;
            return failed(&format!("could not be asked ({error})"));
        }
        Some(Err(_)) => {
            let _ = owned.kill().await;
            return failed(&format!("gave no answer within {}", seconds(hook.timeout)));
        }
        None => {
            let _ = owned.kill().await;
            return Verdict::Interrupted;
        }
    };
    if exit != Exit::Status(0) {
        return failed("failed");
    }
    match serde_json::from_slice::<Answer>(&answer) {
        Ok(Answer { decision: Decision::Continue, message }) => {
            let said = text::one_line(&message, SAID_CHARACTERS);
            Verdict::Continue((!said.is_empty()).then_some(said))
        }
        Ok(Answer { decision: Decision::Stop, message }) => {
            let said = text::one_line(&message, SAID_CHARACTERS);
            Verdict::Stop(if said.is_empty() {
                format!("the hook {:?} ended the turn", hook.name)
            } else {
                said
            })
        }
        Err(error) => failed(&format!("gave an answer that cannot be read ({error})")),
    }
}

fn seconds(time: Duration) -> String {
    format!("{} seconds", time.as_secs())
}

/// Tells it, and takes its answer and its end. It may answer without reading.
async fn talk(owned: &mut Owned, told: &[u8]) -> std::io::Result<(Vec<u8>, Exit)> {
    let (stdin, stdout, stderr) = (owned.stdin.take(), owned.stdout.take(), owned.stderr.take());
    let say = async {
        if let Some(mut stdin) = stdin {
            let _ = stdin.write_all(told).await;
            let _ = stdin.shutdown().await;
        }
    };
    let hear = async {
        let mut answer = Vec::new();
        if let Some(stdout) = stdout {
            stdout.take(ANSWER_BYTES).read_to_end(&mut answer).await?;
        }
        Ok::<_, std::io::Error>(answer)
    };
    // What it complains of is nobody's, but must not fill its pipe.
    let drain = async {
        if let Some(mut stderr) = stderr {
            let _ = tokio::io::copy(&mut stderr, &mut tokio::io::sink()).await;
        }
    };
    let ((), answer, (), exit) = tokio::join!(say, hear, drain, owned.wait());
    Ok((answer?, exit?))
}
