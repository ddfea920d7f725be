//! `aude answer`: shows what a session waits for, and decides it.

use clap::Args;
use shared::decision::{Decision, Matter};
use shared::entry::Input;
use shared::frame::{Frame, OpenerBody};
use shared::kind::Open;
use shared::record::Record;
use shared::request::Response;

use super::connect::{Here, ask};
use super::error::{CliError, Code};
use super::follow::{Follow, Seen};
use super::inputs::{Inputs, flags, label, question};
use super::output;
use super::quoted::quoted;
use crate::clock;

/// Arguments of `aude answer`.
#[derive(Debug, Args)]
pub(super) struct Answer {
    /// The session
    session: String,
    /// Which question or approval, where several are open: its id, or the beginning of it
    input: Option<String>,
    #[command(flatten)]
    choice: Choice,
    /// Print JSON: what is open, or the response
    #[arg(long)]
    json: bool,
}

#[derive(Debug, Args)]
#[group(multiple = false)]
struct Choice {
    /// Allow it once
    #[arg(long)]
    allow: bool,
    /// Allow it and its like until the session's process ends
    #[arg(long)]
    allow_session: bool,
    /// Deny it; a text says why
    #[arg(long, value_name = "WHY", num_args = 0..=1, default_missing_value = "")]
    deny: Option<String>,
    /// Choose this option of a question, by its number or its label; may be given several times where several can be chosen
    #[arg(long, value_name = "NUMBER")]
    choose: Vec<String>,
    /// Answer a question in words
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
}

impl Choice {
    fn is_made(&self) -> bool {
        self.allow
            || self.allow_session
            || self.deny.is_some()
            || self.say.is_some()
            || !self.choose.is_empty()
    }

    /// What it decides about that input.
    fn decision(self, input: &Input) -> Decision {
        if self.allow {
            return Decision::Allow;
        }
        if self.allow_session {
            return Decision::AllowSession;
        }
        if let Some(why) = self.deny {
            return Decision::Deny { text: Some(why).filter(|why| !why.trim().is_empty()) };
        }
        if let Some(text) = self.say {
            return Decision::Said(text);
        }
        Decision::Chosen(self.choose.into_iter().map(|word| label(input, word)).collect())
    }
}

impl Answer {
    pub(super) async fn run(self) -> Result<(), CliError> {
        let here = Here::open()?;
        let (_, record) = here.find(&self.session).await?;
        let inputs = open_inputs(&here, &record).await?;
        let named = match &self.input {
            Some(word) => inputs.named(word),
            None => inputs.all().iter().collect(),
        };
        if !self.choice.is_made() {
            for input in &named {
                show(input, self.json);
            }
            let name = quoted(&record.name);
            match named.as_slice() {
                [_, ..] if self.json => {}
                [input] => output::note(format!("(decide it by `aude answer {name}` with {})", flags(input))),
                [_, ..] => output::note(format!(
                    "(decide one by `aude answer {name} ID` with the flags below it; the beginning of the id is enough)"
                )),
                [] => {}
            }
            if named.is_empty() && !self.json {
                output::note("nothing waits for an answer");
            }
            return Ok(());
        }
        let input = match named.as_slice() {
            [input] => *input,
            [] => return Err(nothing_open().about(&record.name)),
            [..] => {
                return Err(CliError::failed("several questions are open")
                    .hint("name one by its id: `aude answer NAME` shows them")
                    .about(&record.name));
            }
        };
        let answer = self.choice.decision(input).answer(input);
        // Judged here as the host will judge it, so that a slip is explained in words of this command.
        let matter = Matter::of(input).map_err(|error| CliError::failed(error.to_string()))?;
        matter.decide(&input.digest, &answer).map_err(|unfit| CliError {
            sentence: unfit.to_string(),
            hint: Some(format!(
                "`aude answer {}` shows what is asked; it takes {}",
                quoted(&record.name),
                flags(input)
            )),
            code: Code::Refused,
        })?;
        let (mut link, _) = here.session(record.id, record.sequence, Some(record.log)).await?;
        let response = ask(&mut link, Frame::new(clock::now(), OpenerBody::Answer(answer)), |_| {}).await?;
        match &response {
            Open::Known(taken @ Response::Taken(_)) if self.json => output::json(taken),
            Open::Known(Response::Taken(_)) => output::note("answered"),
            Open::Known(_) | Open::Unknown(_) => return Err(CliError::from_response(&response)),
        }
        Ok(())
    }
}

fn nothing_open() -> CliError {
    CliError {
        sentence: "that question is not open any more".to_owned(),
        hint: Some("`aude answer NAME` shows what is".to_owned()),
        code: Code::Refused,
    }
}

fn show(input: &Input, json: bool) {
    if json {
        output::json(input);
    } else {
        output::line(format!("{}\n  id: {}\n  flags: {}", question(input), input.input, flags(input)));
    }
}

/// What is open now, read from the history.
async fn open_inputs(here: &Here, record: &Record) -> Result<Inputs, CliError> {
    let mut inputs = Inputs::default();
    if record.inputs == 0 {
        return Ok(inputs);
    }
    let mut follow = Follow::open(here, record.id, 0, None).await?;
    while follow.backlog > 0 {
        match follow.next().await? {
            Seen::Entry(entry) | Seen::Retold(entry) => inputs.apply(&entry),
            Seen::Back { is_anew: true } => inputs.forget(),
            Seen::Back { .. } | Seen::Delta(_) | Seen::Answer(..) | Seen::Failed(..) | Seen::Lost => {}
        }
    }
    // The backlog has no `ended`, only the record has: nothing is open in a session without a process.
    if follow.record.inputs == 0 {
        inputs.forget();
    }
    Ok(inputs)
}
