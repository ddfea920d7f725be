//! `aude send`: one turn, taken once however often it has to be sent.

use std::io::{IsTerminal, Read};

use clap::Args;
use shared::entry::{Entry, Event, Known};
use shared::frame::{Frame, OpenerBody, Submission};
use shared::ids::SubmissionId;
use shared::kind::Open;
use shared::limits;
use shared::request::Response;
use shared::status::Fate;

use super::connect::{Here, Tries, ask_again};
use super::error::{CliError, Code};
use super::follow::{Follow, Seen};
use super::inputs::flags;
use super::output;
use super::quoted::quoted;
use super::render::{Colour, Renderer, fate_sentence};
use crate::clock;

/// Arguments of `aude send`.
#[derive(Debug, Args)]
pub(super) struct Send {
    /// The session
    session: String,
    /// What to send; standard input is read where there is none
    text: Vec<String>,
    /// How long the turn may take: 90, 90s, 10m or 2h
    #[arg(long, value_parser = budget)]
    budget: Option<u64>,
    /// Wait until the turn has ended, and print what the agent does
    #[arg(long)]
    wait: bool,
    /// The id of the submission; the same id and text never runs twice
    #[arg(long)]
    id: Option<SubmissionId>,
    /// Print JSON: the response, and with --wait each entry
    #[arg(long)]
    json: bool,
}

impl Send {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let text = text_or_input(&self.text)?.unwrap_or_default();
        let (_, record) = here.find(&self.session).await?;
        let id = self.id.unwrap_or_else(SubmissionId::random);
        let mut follow = Follow::open(&here, record.id, record.sequence, Some(record.log)).await?;
        let submission = Submission { text, budget: self.budget, origin: None };
        let mut wait = Wait {
            id,
            session: record.name.clone(),
            renderer: Renderer::new(colour()),
            json: self.json,
            fate: None,
        };
        wait.renderer.owns(wait.id.clone());
        let (response, early) = wait.submit(&mut follow, &submission).await?;
        if self.json {
            output::json(&response);
        }
        if !self.wait {
            if !self.json {
                output::note(format!("taken; watch with `aude attach {}`", quoted(&record.name)));
            }
            return Ok(());
        }
        if record.inputs > 0 && !self.json {
            let name = quoted(&record.name);
            output::note(format!(
                "(the turn before waits for an answer; `aude answer {name}` in another terminal shows what is asked)"
            ));
        }
        for entry in early {
            wait.see(&entry);
        }
        wait.until_settled(&mut follow, &submission).await
    }
}

/// Colours for a terminal.
pub(super) fn colour() -> Colour {
    if output::is_coloured() { Colour::On } else { Colour::Off }
}

/// A submission on its way.
struct Wait {
    id: SubmissionId,
    /// The name of the session.
    session: String,
    renderer: Renderer,
    json: bool,
    fate: Option<Open<Fate>>,
}

impl Wait {
    fn frame(&self, submission: &Submission) -> Frame<OpenerBody> {
        let body = OpenerBody::Submission(submission.clone());
        Frame { id: self.id.clone(), timestamp: clock::now(), reply_to: None, body }
    }

    /// Sends until it is answered; after a broken link again with the same id. Gives also the entries that came before the answer.
    async fn submit(
        &mut self,
        follow: &mut Follow<'_>,
        submission: &Submission,
    ) -> Result<(Response, Vec<Box<Entry>>), CliError> {
        follow.send(self.frame(submission)).await;
        let mut early = Vec::new();
        let mut tries = Tries::default();
        let response = loop {
            match follow.next().await? {
                Seen::Answer(id, response) if id == self.id => {
                    if !ask_again(&mut tries, &response).await {
                        break response;
                    }
                    follow.send(self.frame(submission)).await;
                }
                Seen::Failed(Some(id), detail) if id == self.id => return Err(CliError::failed(detail)),
                Seen::Back { .. } => follow.send(self.frame(submission)).await,
                Seen::Entry(entry) | Seen::Retold(entry) => early.push(entry),
                Seen::Answer(..) | Seen::Failed(..) | Seen::Delta(_) | Seen::Lost => {}
            }
        };
        match response {
            Open::Known(taken @ Response::Taken(_)) => Ok((taken, early)),
            Open::Known(_) | Open::Unknown(_) => Err(CliError::from_response(&response)),
        }
    }

    async fn until_settled(
        &mut self,
        follow: &mut Follow<'_>,
        submission: &Submission,
    ) -> Result<(), CliError> {
        loop {
            if let Some(fate) = &self.fate {
                return match fate_sentence(fate) {
                    None => Ok(()),
                    Some(sentence) => Err(CliError {
                        sentence: format!("the turn was not answered: {sentence}"),
                        hint: None,
                        code: Code::Failed,
                    }),
                };
            }
            match follow.next().await? {
                Seen::Entry(entry) | Seen::Retold(entry) => self.see(&entry),
                Seen::Delta(delta) if !self.json => output::text(&self.renderer.delta(&delta)),
                Seen::Lost => output::note("(connection lost; trying again)"),
                // What was settled meanwhile is no part of a backlog; to a known id it is told again.
                Seen::Back { .. } => follow.send(self.frame(submission)).await,
                Seen::Delta(_) | Seen::Answer(..) | Seen::Failed(..) => {}
            }
        }
    }

    fn see(&mut self, entry: &Entry) {
        if self.json {
            output::json(entry);
        } else {
            output::text(&self.renderer.entry(entry));
        }
        let Event::Known(known) = &entry.event else { return };
        if let Known::Settled { settled } = known.as_ref()
            && settled.submission == self.id
        {
            self.fate = Some(settled.fate.clone());
        }
        // Nothing that is typed here reaches the session, so it is said where an answer can be given.
        if let Known::Input(input) = known.as_ref()
            && !self.json
        {
            let name = quoted(&self.session);
            let (flags, id) = (flags(input), input.input);
            output::note(format!(
                "(answer in another terminal: `aude answer {name}` with {flags}; id: {id})"
            ));
        }
    }
}

/// The words of the command line as one text, or all of standard input where it is no terminal.
pub(super) fn text_or_input(words: &[String]) -> Result<Option<String>, CliError> {
    if !words.is_empty() && words != ["-"] {
        return Ok(Some(words.join(" ")));
    }
    if words.is_empty() && std::io::stdin().is_terminal() {
        return Ok(None);
    }
    let mut text = String::new();
    // One byte more than is allowed is enough to see that it is too much.
    let limit = limits::TEXT_BYTES as u64 + 1;
    std::io::stdin()
        .take(limit)
        .read_to_string(&mut text)
        .map_err(|error| CliError::failed(format!("cannot read standard input: {error}")))?;
    let text = text.trim_end_matches('\n').to_owned();
    Ok(Some(text).filter(|text| !text.is_empty()))
}

/// Reads `90`, `90s`, `10m` or `2h` as seconds.
pub(super) fn budget(text: &str) -> Result<u64, String> {
    let (number, factor) = match text.char_indices().last() {
        Some((at, 's')) => (&text[..at], 1),
        Some((at, 'm')) => (&text[..at], 60),
        Some((at, 'h')) => (&text[..at], 3600),
        _ => (text, 1),
    };
    let seconds = number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor));
    seconds
        .filter(|seconds| (1..=limits::BUDGET_SECONDS_MAX).contains(seconds))
        .ok_or_else(|| "give a time like 90s, 10m or 2h, at most a week".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_read_as_people_write_them() {
        assert_eq!(budget("90"), Ok(90));
        assert_eq!(budget("90s"), Ok(90));
        assert_eq!(budget("10m"), Ok(600));
        assert_eq!(budget("168h"), Ok(604_800));
        for bad in ["", "0", "169h", "m", "-1", "1d", "1.5h", "99999999999999999999h"] {
            assert!(budget(bad).is_err(), "{bad}");
        }
    }
}
