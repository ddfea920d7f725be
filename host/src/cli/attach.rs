//! `aude attach`: a session live in the terminal, with its history; lines that are typed are sent.

use std::collections::BTreeMap;
use std::io::{BufRead, IsTerminal};

use clap::Args;
use shared::entry::{Event, Input, Known};
use shared::frame::{Frame, Interrupt, OpenerBody, Submission};
use shared::ids::{FrameId, SubmissionId};
use shared::kind::Open;
use shared::record::Record;
use shared::request::{Answer, Response};
use shared::status::Phase;
use tokio::sync::mpsc;
use tokio::time::{Duration, Instant};

use super::connect::{Here, Tries, ask_again};
use super::error::CliError;
use super::follow::{Follow, Seen};
use super::inputs::{Inputs, choices, is_key, is_open, question, typed};
use super::render::Renderer;
use super::{output, send};
use crate::clock;

/// Arguments of `aude attach`.
#[derive(Debug, Args)]
pub(super) struct Attach {
    /// The session
    pub(super) session: String,
    /// Print the history and end
    #[arg(long)]
    pub(super) no_follow: bool,
    /// Begin after this sequence
    #[arg(long, default_value_t = 0)]
    pub(super) since: u64,
    /// Print each entry as one line of JSON
    #[arg(long)]
    pub(super) json: bool,
}

impl Attach {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let (_, record) = here.find(&self.session).await?;
        attach(&here, record.id, &self).await
    }
}

/// Attaches to a session until the person leaves.
pub(super) async fn attach(
    here: &Here,
    session: shared::ids::SessionId,
    options: &Attach,
) -> Result<(), CliError> {
    let follow = Follow::open(here, session, options.since, None).await?;
    let is_busy =
        follow.record.host.as_ref().is_some_and(|host| matches!(host.phase, Open::Known(Phase::Busy { .. })));
    let mut view = View {
        renderer: Renderer::new(send::colour()),
        json: options.json,
        is_busy,
        pending: BTreeMap::new(),
        tries: Tries::default(),
        inputs: Inputs::default(),
        prompted: None,
        answers: BTreeMap::new(),
        slipped: None,
    };
    view.follow(follow, options.no_follow).await
}

struct View {
    renderer: Renderer,
    json: bool,
    is_busy: bool,
    /// What was typed and is not taken yet; sent again with its id after a broken link.
    pending: BTreeMap<SubmissionId, String>,
    /// How often in a row a turn was sent again because the session's process went away.
    tries: Tries,
    /// What waits for a decision.
    inputs: Inputs,
    /// The input whose choices stand on the screen.
    prompted: Option<Input>,
    /// The answers that were sent and not answered, with the input that each decides.
    answers: BTreeMap<FrameId, Answer>,
    /// A question that was decided without us, and when: what is typed soon after may be meant for it.
    slipped: Option<(Input, Instant)>,
}

/// Nobody reads a new question and answers it within this time.
const READING: Duration = Duration::from_millis(700);
/// A line that would have been an answer is not taken for a turn within this time after its question went away.
const LATE: Duration = Duration::from_secs(10);

enum Typed {
    Line(String),
    End,
}

impl View {
    async fn follow(&mut self, mut follow: Follow<'_>, no_follow: bool) -> Result<(), CliError> {
        if no_follow {
            while follow.backlog > 0 {
                if let Seen::Entry(entry) = follow.next().await? {
                    self.entry(&entry);
                }
            }
            self.say_ended(&follow.record);
            return Ok(());
        }
        let is_terminal = std::io::stdin().is_terminal();
        if is_terminal && !self.json {
            output::note(
                "(type a turn and press Enter; Ctrl-C interrupts a turn, Ctrl-D leaves, the session goes on)",
            );
        }
        let mut typed = typed_lines();
        let mut is_leaving = false;
        let mut is_history_shown = false;
        loop {
            if follow.backlog == 0 && !is_history_shown {
                is_history_shown = true;
                self.say_ended(&follow.record);
            }
            tokio::select! {
                seen = follow.next() => {
                    self.see(seen?, &follow).await;
                    if follow.backlog == 0 {
                        self.prompt();
                    }
                }
                line = typed.recv(), if !typed.is_closed() || !typed.is_empty() => match line {
                    Some(Typed::Line(line)) if !line.trim().is_empty() => self.typed(line, &follow).await,
                    Some(Typed::Line(_)) => {}
                    Some(Typed::End) | None if is_terminal => return Ok(()),
                    Some(Typed::End) | None => {}
                },
                _ = tokio::signal::ctrl_c() => {
                    if !self.is_busy || is_leaving {
                        return Ok(());
                    }
                    is_leaving = true;
                    output::note("(interrupting; Ctrl-C again leaves, and the session goes on)");
                    follow.send(Frame::new(clock::now(), OpenerBody::Interrupt(Interrupt::default()))).await;
                }
            }
            is_leaving &= self.is_busy;
        }
    }

    /// A line is an answer while something waits for one, and a turn otherwise.
    async fn typed(&mut self, line: String, follow: &Follow<'_>) {
        let slipped = self.slipped.take();
        let since = |at: Instant| Instant::now().duration_since(at);
        let Some(input) = self.inputs.first().filter(|input| self.prompted.as_ref() == Some(*input)) else {
            if slipped.is_some_and(|(before, at)| since(at) < LATE && is_key(&before, &line)) {
                output::note(
                    "(that was decided already, so nothing was sent; type it again to send it as a turn)",
                );
                return;
            }
            return self.submit(line, follow).await;
        };
        if slipped.is_some_and(|(_, at)| since(at) < READING) {
            output::note("(the question changed while you typed, so nothing was answered: look again)");
            return;
        }
        let Some(decision) = typed(input, &line) else {
            output::note(format!("(that is no answer here; {})", choices(input)));
            return;
        };
        let answer = decision.answer(input);
        let frame = Frame::new(clock::now(), OpenerBody::Answer(answer.clone()));
        self.answers.insert(frame.id.clone(), answer);
        follow.send(frame).await;
    }

    /// Says what can be typed, once for each input that comes to the front.
    fn prompt(&mut self) {
        let first = self.inputs.first();
        if first == self.prompted.as_ref() {
            return;
        }
        if let Some(before) = &self.prompted
            && !self.answers.values().any(|answer| answer.input == before.input)
        {
            self.slipped = Some((before.clone(), Instant::now()));
        }
        self.answers.retain(|_, answer| is_open(&self.inputs, answer.input));
        if let Some(input) = first
            && !self.json
        {
            let more = match self.inputs.behind() {
                0 => String::new(),
                1 => "; one more waits".to_owned(),
                count => format!("; {count} more wait"),
            };
            // It may have scrolled away behind others that were asked with it.
            if self.prompted.is_some() {
                output::line(question(input));
            }
            output::note(format!("({}{more})", choices(input)));
        }
        self.prompted = first.cloned();
    }

    /// Says that nobody works in the session: its history does not tell (wire §5.2).
    fn say_ended(&mut self, record: &Record) {
        if let (None, Some(ended), false) = (&record.host, &record.ended, self.json) {
            output::text(&self.renderer.ended(ended));
        }
    }

    async fn submit(&mut self, text: String, follow: &Follow<'_>) {
        let id = SubmissionId::random();
        self.renderer.owns(id.clone());
        self.pending.insert(id.clone(), text.clone());
        follow.send(submission(id, text)).await;
    }

    async fn see(&mut self, seen: Seen, follow: &Follow<'_>) {
        match seen {
            Seen::Entry(entry) | Seen::Retold(entry) => self.entry(&entry),
            Seen::Delta(delta) if !self.json => output::text(&self.renderer.delta(&delta)),
            Seen::Delta(_) => {}
            Seen::Answer(id, response) => {
                if let Some(text) = self.pending.get(&id)
                    && ask_again(&mut self.tries, &response).await
                {
                    return follow.send(submission(id, text.clone())).await;
                }
                self.tries = Tries::default();
                let was_pending = self.pending.remove(&id).is_some() || self.answers.contains_key(&id);
                if was_pending && !matches!(response, Open::Known(Response::Taken(_))) {
                    output::error(&CliError::from_response(&response));
                }
            }
            Seen::Failed(id, detail) => {
                if let Some(id) = id {
                    self.pending.remove(&id);
                    self.answers.remove(&id);
                }
                output::note(format!("({detail})"));
            }
            Seen::Lost => output::note("(connection lost; trying again)"),
            Seen::Back { is_anew } => {
                output::note(if is_anew {
                    "(connected; the log is a new one, so it is shown from its beginning)"
                } else {
                    "(connected)"
                });
                if is_anew {
                    self.inputs.forget();
                }
                for (id, answer) in &self.answers {
                    let body = OpenerBody::Answer(answer.clone());
                    let frame = Frame { id: id.clone(), timestamp: clock::now(), reply_to: None, body };
                    follow.send(frame).await;
                }
                for (id, text) in &self.pending {
                    follow.send(submission(id.clone(), text.clone())).await;
                }
            }
        }
    }

    fn entry(&mut self, entry: &shared::entry::Entry) {
        self.inputs.apply(entry);
        if let Event::Known(known) = &entry.event {
            if let Known::Status { status } = known.as_ref() {
                self.is_busy = matches!(status.phase, Open::Known(Phase::Busy { .. }));
            }
            self.is_busy &= !matches!(known.as_ref(), Known::Ended { .. });
        }
        if self.json {
            output::json(entry);
        } else {
            output::text(&self.renderer.entry(entry));
        }
    }
}

fn submission(id: SubmissionId, text: String) -> Frame<OpenerBody> {
    let body = OpenerBody::Submission(Submission { text, budget: None, origin: None });
    Frame { id, timestamp: clock::now(), reply_to: None, body }
}

/// Lines of standard input; a thread reads them, since a terminal cannot be waited for otherwise.
fn typed_lines() -> mpsc::Receiver<Typed> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines() {
            let Ok(line) = line else { break };
            if sender.blocking_send(Typed::Line(line)).is_err() {
                return;
            }
        }
        let _ = sender.blocking_send(Typed::End);
    });
    receiver
}
