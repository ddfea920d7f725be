//! The tool `bash`: runs a permitted command as its own process tree, with its output live, bounded in time and size.

use std::ffi::OsString;
use std::time::Duration;

use shared::entry::ResultStatus;
use shared::frame::DeltaKind;
use shared::limits;
use shared::status::Exit;
use tokio::io::{AsyncRead, AsyncReadExt as _};
use tokio::sync::mpsc;

use super::bounded::Bounded;
use super::{Confined, EngineEvent, Outcome, RunCommand, Running, Tools};
use crate::engine::policy::command::Harmless;
use crate::process::{self, Owned};
use crate::text::{Decoder, Stripper};

/// Bytes that are read at once; a `delta` never carries more.
const PIECE_BYTES: usize = 8 * 1024;
/// Pieces of output that may wait to be passed on; a program that floods is held up.
const PIECES: usize = 4;

/// How long the output of a tree that is gone may take to arrive: it is in a pipe already.
const LAST_WORDS: Duration = Duration::from_millis(500);

/// Why a command ended.
enum Ending {
    /// By itself.
    Itself(std::io::Result<process::Exit>),
    /// Its time was up.
    TimeLimit,
    /// The turn was stopped.
    Stopped,
}

/// A program with its arguments and its time.
pub(super) struct Command {
    program: OsString,
    arguments: Vec<OsString>,
    limit: Duration,
}

impl Command {
    /// Exactly these words, without a shell.
    pub(super) fn of(harmless: &Harmless) -> Self {
        Self {
            program: OsString::from(harmless.program()),
            arguments: harmless.arguments().iter().map(OsString::from).collect(),
            limit: harmless.limit(),
        }
    }

    /// A line for a shell, which a person has seen whole.
    pub(super) fn shell(command: &RunCommand) -> Self {
        Self {
            program: OsString::from("bash"),
            arguments: ["--noprofile", "--norc", "-c", &command.command].map(OsString::from).to_vec(),
            limit: command.seconds(),
        }
    }
}

/// Runs a command to its end.
pub(super) async fn run(tools: &Tools, command: &Command, mut running: Running) -> Outcome {
    if running.stop.is_stopped() {
        return Outcome::interrupted();
    }
    let spec = tools.spec(command.program.clone(), command.arguments.clone(), Confined::Where);
    let mut owned = match Owned::spawn(spec) {
        Ok(owned) => owned,
        Err(error) => return Outcome::plain(ResultStatus::Error, &error.to_string()),
    };
    // Nobody types: a program that reads meets the end of its input.
    drop(owned.stdin.take());
    let (sender, pieces) = mpsc::channel(PIECES);
    let readers = [
        owned.stdout.take().map(|stream| tokio::spawn(pass_on(stream, sender.clone()))),
        owned.stderr.take().map(|stream| tokio::spawn(pass_on(stream, sender))),
    ];
    let mut output = Output { pieces, text: Bounded::new(limits::RESULT_BYTES), is_over: false };
    let mut stop = running.stop.clone();
    let ending = {
        let limit = tokio::time::sleep(command.limit);
        tokio::pin!(limit);
        let work = async {
            // The streams end with the tree, so all output is there once it is gone; a program that closes them early is waited for.
            let ended = output.collect_until(owned.wait(), &mut running).await;
            output.collect(&mut running).await;
            ended
        };
        tokio::select! {
            biased;
            () = stop.wait() => Ending::Stopped,
            ended = work => Ending::Itself(ended),
            () = &mut limit => Ending::TimeLimit,
        }
    };
    let outcome = match ending {
        Ending::Itself(Ok(exit)) => {
            let exit = wire_exit(exit);
            let status = if exit == Exit::Status(0) { ResultStatus::Ok } else { ResultStatus::Error };
            output.finish(status, Some(exit), None)
        }
        Ending::Itself(Err(error)) => {
            output.finish(ResultStatus::Error, None, Some(&format!("(the command was lost: {error})")))
        }
        Ending::TimeLimit => {
            let exit = end(&mut owned, &mut output, &mut running).await;
            let mark = format!("(ended after {} seconds: time limit)", command.limit.as_secs());
            output.finish(ResultStatus::Error, exit, Some(&mark))
        }
        Ending::Stopped => {
            let exit = end(&mut owned, &mut output, &mut running).await;
            output.finish(ResultStatus::Interrupted, exit, Some("(interrupted)"))
        }
    };
    for reader in readers.into_iter().flatten() {
        reader.abort();
    }
    outcome
}

/// Ends a tree and takes what it still says.
async fn end(owned: &mut Owned, output: &mut Output, running: &mut Running) -> Option<Exit> {
    let ended = output.collect_until(owned.kill(), running).await;
    // Without its tree a stream ends at once; whoever holds one nevertheless does not hold us.
    let _ = tokio::time::timeout(LAST_WORDS, output.collect(running)).await;
    ended.ok().map(wire_exit)
}

/// What a command said so far.
struct Output {
    pieces: mpsc::Receiver<String>,
    text: Bounded,
    is_over: bool,
}

impl Output {
    /// Takes output until `end`; gives what `end` gave. May be dropped at any time without a loss.
    async fn collect_until<T>(&mut self, end: impl Future<Output = T>, running: &mut Running) -> T {
        tokio::pin!(end);
        loop {
            tokio::select! {
                biased;
                piece = self.pieces.recv(), if !self.is_over => self.take(piece, running).await,
                ended = &mut end => return ended,
            }
        }
    }

    /// Takes all that is left.
    async fn collect(&mut self, running: &mut Running) {
        while !self.is_over {
            let piece = self.pieces.recv().await;
            self.take(piece, running).await;
        }
    }

    async fn take(&mut self, piece: Option<String>, running: &mut Running) {
        let Some(piece) = piece else {
            self.is_over = true;
            return;
        };
        // Live output ends where the beginning of the result does: what comes later may not be in it.
        let live = self.text.push(&piece);
        if !live.is_empty() {
            let delta = EngineEvent::Delta {
                message: running.call.clone(),
                kind: DeltaKind::Tool,
                text: live.to_owned(),
            };
            let _ = running.events.send(delta).await;
        }
    }

    fn finish(mut self, status: ResultStatus, exit: Option<Exit>, mark: Option<&str>) -> Outcome {
        if let Some(mark) = mark {
            self.text.push(&format!("\n{mark}"));
        }
        let (text, left_out) = self.text.finish();
        Outcome { status, text, diff: None, exit, truncated: (left_out > 0).then_some(left_out) }
    }
}

/// Passes a stream on as clean text.
async fn pass_on(mut stream: impl AsyncRead + Unpin, pieces: mpsc::Sender<String>) {
    let mut decoder = Decoder::default();
    let mut stripper = Stripper::default();
    let mut buffer = vec![0; PIECE_BYTES];
    loop {
        let piece = match stream.read(&mut buffer).await {
            Ok(0) | Err(_) => break,
            Ok(length) => decoder.push(buffer.get(..length).unwrap_or_default()),
        };
        let clean = stripper.push(&piece);
        if !clean.is_empty() && pieces.send(clean).await.is_err() {
            return;
        }
    }
    let last = stripper.push(decoder.finish());
    if !last.is_empty() {
        let _ = pieces.send(last).await;
    }
}

fn wire_exit(exit: process::Exit) -> Exit {
    match exit {
        process::Exit::Status(status) => Exit::Status(u32::try_from(status).unwrap_or(u32::MAX)),
        process::Exit::Signal(signal) => Exit::Signal(u32::try_from(signal).unwrap_or(u32::MAX)),
    }
}
