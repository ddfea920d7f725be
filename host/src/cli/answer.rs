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
use super::inputs::{Inputs, question};
use super::output;
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
    /// Choose this option of a question; may be given several times where several can be chosen
    #[arg(long, value_name = "LABEL")]
    choose: Vec<String>,
    /// Answer a question in words
    #[arg(long, value_name = "TEXT")]
    say: Option<String>,
}

impl Choice {
    fn decision(self) -> Option<Decision> {
        if self.allow {
            return Some(Decision::Allow);
        }
        if self.allow_session {
            return Some(Decision::AllowSession);
        }
        if let Some(why) = self.deny {
            return Some(Decision::Deny { text: Some(why).filter(|why| !why.trim().is_empty()) });
        }
        if let Some(text) = self.say {
            return Some(Decision::Said(text));
        }
        (!self.choose.is_empty()).then_some(Decision::Chosen(self.choose))
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
        let Some(decision) = self.choice.decision() else {
            for input in &named {
                show(input, self.json);
            }
            if named.is_empty() && !self.json {
                output::note("nothing waits for an answer");
            }
            return Ok(());
        };
        let input = match named.as_slice() {
            [input] => *input,
            [] => return Err(nothing_open()),
            [..] => {
                return Err(CliError::failed("several questions are open")
                    .hint("name one by its id: `aude answer NAME` shows them"));
            }
        };
        let answer = decision.answer(input);
        // Judged here as the host will judge it, so that a slip is explained in words of this command.
        let matter = Matter::of(input).map_err(|error| CliError::failed(error.to_string()))?;
        matter.decide(&input.digest, &answer).map_err(|unfit| CliError {
            sentence: unfit.to_string(),
            hint: Some(format!("`aude answer {}` shows what is asked", self.session)),
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
        output::line(format!("{}\n  id: {}", question(input), input.input));
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
