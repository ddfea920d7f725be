//! What a command says when it cannot do what it was asked: one sentence, what to do next, an exit code.

use std::path::Path;

use shared::failure::{Failed, Failure, FailureCode, Fault, Refusal, Refused};
use shared::kind::{Kinds, Open};
use shared::link;
use shared::request::Response;

use super::quoted::quoted;
use crate::client::{Closed, DialError};

/// A command that did not do what it was asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CliError {
    /// What happened, in one sentence without a full stop.
    pub sentence: String,
    /// What to do next.
    pub hint: Option<String>,
    /// The exit code.
    pub code: Code,
}

/// The exit codes; 2 is clap's own for wrong use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Code {
    /// It could not be done.
    Failed = 1,
    /// No listener runs.
    NoListener = 3,
    /// There is no such session or device.
    NotFound = 4,
    /// The machine refused.
    Refused = 5,
}

impl CliError {
    pub(super) fn failed(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), hint: None, code: Code::Failed }
    }

    pub(super) fn not_found(sentence: impl Into<String>) -> Self {
        Self { sentence: sentence.into(), hint: None, code: Code::NotFound }
    }

    pub(super) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Puts the session that it is about in place of NAME in the hint, so that the command there can be copied.
    pub(super) fn about(mut self, name: &str) -> Self {
        self.hint = self.hint.map(|hint| hint.replace("NAME", &quoted(name)));
        self
    }

    pub(super) fn io(verb: &str, path: &Path, error: &std::io::Error) -> Self {
        Self::failed(format!("cannot {verb} {}: {error}", path.display()))
    }

    /// The error that a response is which is not what was asked for.
    pub(super) fn from_response(response: &Open<Response>) -> Self {
        match response {
            Open::Known(Response::Refused(refused)) => Self::refused(refused),
            Open::Known(Response::Failed(failed)) => Self::fault(failed),
            Open::Known(_) | Open::Unknown(_) => {
                Self::failed("the listener answered something else than was asked").hint(SAME_VERSION)
            }
        }
    }

    fn refused(refused: &Refused) -> Self {
        let Some(word) = refused.word.known() else {
            return Self {
                sentence: format!("refused: {}", refused.word.word()),
                hint: None,
                code: Code::Refused,
            };
        };
        let (sentence, hint) = refusal(*word);
        let sentence = refused.detail.clone().unwrap_or_else(|| sentence.to_owned());
        let code = if matches!(word, Refusal::NotFound | Refusal::UnknownDevice) {
            Code::NotFound
        } else {
            Code::Refused
        };
        Self { sentence, hint: hint.map(str::to_owned), code }
    }

    fn fault(failed: &Failed) -> Self {
        let sentence = match failed.word.known() {
            Some(Fault::Storage) => "the disk did not take it",
            Some(Fault::Spawn) => "the session could not be started",
            Some(Fault::HostGone) => "the session's process went away before it answered",
            Some(Fault::Tunnel) => "the tunnel could not be started",
            None => "the machine could not do it",
        };
        let sentence = match &failed.detail {
            Some(detail) => format!("{sentence}: {detail}"),
            None => sentence.to_owned(),
        };
        let hint = match failed.word.known() {
            Some(Fault::Storage) => Some("see whether the disk is full, then try again"),
            Some(Fault::Spawn) => Some("`aude doctor` says what is missing"),
            Some(Fault::HostGone) => Some("try again; nothing runs twice"),
            Some(Fault::Tunnel) | None => None,
        };
        Self { sentence, hint: hint.map(str::to_owned), code: Code::Failed }
    }
}

const SAME_VERSION: &str =
    "make sure that the listener and this program are of one version: `aude down`, then `aude up`";

fn refusal(word: Refusal) -> (&'static str, Option<&'static str>) {
    match word {
        Refusal::IdConflict => ("that id was used for another text", None),
        Refusal::NotPending => ("that question is not open any more", None),
        Refusal::Empty => {
            ("there is no text to send", Some("give the text as an argument or on standard input"))
        }
        Refusal::NotFound => ("this machine has no such session", Some("`aude sessions` lists them")),
        Refusal::Retired => (
            "that name belonged to a session that was removed, and is not used again",
            Some("choose another name"),
        ),
        Refusal::Running => ("the session still runs", Some("`aude stop NAME` ends it")),
        Refusal::NameTaken => (
            "a session of that name runs already",
            Some("send to it with `aude send NAME`, or choose another name"),
        ),
        Refusal::BadName => ("that name has no letter that can be shown", Some("choose another name")),
        Refusal::BadDirectory => {
            ("that folder cannot be used", Some("give a folder that exists with --directory"))
        }
        Refusal::UnknownHarness => ("there is no such harness", Some("`aude doctor` lists the harnesses")),
        Refusal::UnknownModel => ("the harness does not know that model", None),
        Refusal::NotOffered => ("that is not among the choices of this session", None),
        Refusal::Replaced => ("a newer pairing link replaced this one", None),
        Refusal::Expired => ("the pairing link was not used in time", Some("`aude pair` makes a new one")),
        Refusal::TooManyTries => (
            "too many wrong codes were tried, so the pairing link was closed",
            Some("`aude pair` makes a new one"),
        ),
        Refusal::UnknownDevice => ("no such device is paired", Some("`aude devices` lists them")),
        Refusal::Conflict => ("the branch cannot be merged as things are", None),
        Refusal::TooLarge => {
            ("that is too large: a turn holds at most 256 KiB", Some("put it into a file and name the file"))
        }
    }
}

impl From<DialError> for CliError {
    fn from(error: DialError) -> Self {
        match &error {
            DialError::NobodyThere { .. } => Self {
                sentence: "no listener runs on this machine".to_owned(),
                hint: Some("start one with `aude up`".to_owned()),
                code: Code::NoListener,
            },
            DialError::Refused(failure) => failure.clone().into(),
            DialError::Files(_)
            | DialError::Elsewhere { .. }
            | DialError::Transport { .. }
            | DialError::Channel(_)
            | DialError::Hello(_)
            | DialError::Silent { .. } => Self::failed(error.to_string()),
        }
    }
}

impl From<Failure> for CliError {
    fn from(failure: Failure) -> Self {
        let code = match failure.code {
            Open::Known(FailureCode::NotFound | FailureCode::Retired) => Code::NotFound,
            Open::Known(_) | Open::Unknown(_) => Code::Refused,
        };
        Self { sentence: failure.detail, hint: None, code }
    }
}

impl From<Closed> for CliError {
    fn from(closed: Closed) -> Self {
        match closed {
            Closed::Link(link::Closed::Failure(failure)) => failure.into(),
            Closed::Link(closed) => Self::failed(closed.to_string()),
            Closed::ByListener | Closed::ByUs => Self::failed("the listener closed the link"),
            Closed::Broken(detail) => Self::failed(format!("the link broke: {detail}")),
        }
    }
}

impl From<crate::home::HomeError> for CliError {
    fn from(error: crate::home::HomeError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<crate::files::FilesError> for CliError {
    fn from(error: crate::files::FilesError) -> Self {
        Self::failed(error.to_string())
    }
}

impl From<crate::config::ConfigError> for CliError {
    fn from(error: crate::config::ConfigError) -> Self {
        Self::failed(error.to_string())
    }
}

/// The word of a kind for people: `queue_full` becomes `queue full`.
pub(super) fn spoken<T: Kinds>(kind: &Open<T>) -> String {
    kind.word().replace('_', " ")
}
