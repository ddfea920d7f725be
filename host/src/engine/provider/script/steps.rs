//! The file of steps: read, checked once, and turned into parts that can be played.

use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;
use serde_json::Value;
use shared::entry::{ResultStatus, Usage};
use tokio::sync::mpsc;

use super::pattern::Pattern;
use super::{Last, NAME, TOUR};
use crate::engine::provider::{Fault, ModelError, ModelEvent};

/// The largest script, in bytes.
const SCRIPT_BYTES: u64 = 8 * 1024 * 1024;
/// Characters of one chunk where the step does not say: about a word or two, as models do.
const CHUNK_CHARACTERS: usize = 16;

/// A file of steps.
#[derive(Debug, Clone)]
pub struct Script {
    pub(super) steps: Vec<Step>,
}

/// A script that cannot be used.
#[derive(Debug, thiserror::Error)]
#[error("the script {} cannot be used: {detail}", path.display())]
pub struct ScriptError {
    path: PathBuf,
    detail: String,
}

/// One step.
#[derive(Debug, Clone)]
pub(super) struct Step {
    pub(super) condition: Option<Condition>,
    /// How often it can be used; without end where there is none.
    pub(super) times: Option<u64>,
    pub(super) parts: Vec<Part>,
}

/// What a step is for.
#[derive(Debug, Clone)]
pub(super) struct Condition {
    patterns: Vec<Pattern>,
    /// The tool and status of a result; a message of a person where there is none.
    result: Option<ResultCondition>,
}

#[derive(Debug, Clone)]
struct ResultCondition {
    tool: Option<String>,
    status: Option<ResultStatus>,
}

/// One thing that a step gives.
#[derive(Debug, Clone)]
pub(super) enum Part {
    Delay(Duration),
    WaitForFile(PathBuf),
    Thinking(Said),
    Text(Said),
    Call {
        name: String,
        input: Value,
    },
    Usage(Usage),
    Error(ModelError),
    /// The connection breaks.
    Close,
}

/// A text that is given in chunks.
#[derive(Debug, Clone)]
pub(super) struct Said {
    text: String,
    characters: usize,
    delay: Duration,
}

impl Said {
    pub(super) fn map(&self, change: impl Fn(&str) -> String) -> Self {
        Self { text: change(&self.text), ..*self }
    }

    /// Gives the text chunk by chunk.
    pub(super) async fn speak(self, sender: &mpsc::Sender<ModelEvent>, event: impl Fn(String) -> ModelEvent) {
        let mut rest = self.text.as_str();
        while !rest.is_empty() {
            let end = rest.char_indices().nth(self.characters).map_or(rest.len(), |(end, _)| end);
            let (chunk, after) = rest.split_at(end);
            if sender.send(event(chunk.to_owned())).await.is_err() {
                return;
            }
            rest = after;
            if !rest.is_empty() && !self.delay.is_zero() {
                tokio::time::sleep(self.delay).await;
            }
        }
    }
}

impl Condition {
    /// What the stars of the first pattern that matches stand for.
    pub(super) fn matches(&self, last: &Last<'_>) -> Option<Vec<String>> {
        match (&self.result, last.result) {
            (None, None) => {}
            (Some(wanted), Some((tool, status))) => {
                let is_tool = wanted.tool.as_deref().is_none_or(|wanted| wanted == tool);
                let is_status = wanted.status.is_none_or(|wanted| status.is(&wanted));
                if !is_tool || !is_status {
                    return None;
                }
            }
            (None, Some(_)) | (Some(_), None) => return None,
        }
        if self.patterns.is_empty() {
            return Some(Vec::new());
        }
        self.patterns.iter().find_map(|pattern| pattern.find(last.text))
    }
}

impl Script {
    /// The built-in tour.
    ///
    /// # Errors
    /// [`ScriptError`] never, as a test shows.
    pub fn tour() -> Result<Self, ScriptError> {
        Self::parse(TOUR, Path::new("(built-in tour)"))
    }

    /// Reads a script.
    ///
    /// # Errors
    /// [`ScriptError`] where the file cannot be read or is wrong.
    pub fn read(path: &Path) -> Result<Self, ScriptError> {
        use std::io::Read as _;
        let wrong = |detail: String| ScriptError { path: path.to_owned(), detail };
        let mut text = String::new();
        std::fs::File::open(path)
            .and_then(|file| file.take(SCRIPT_BYTES + 1).read_to_string(&mut text))
            .map_err(|error| wrong(error.to_string()))?;
        if u64::try_from(text.len()).is_ok_and(|length| length > SCRIPT_BYTES) {
            return Err(wrong(format!("it is larger than {SCRIPT_BYTES} bytes")));
        }
        Self::parse(&text, path)
    }

    /// A script from its text; `path` is for the sentence of an error.
    ///
    /// # Errors
    /// [`ScriptError`] where it is wrong.
    pub fn parse(text: &str, path: &Path) -> Result<Self, ScriptError> {
        let wrong = |detail: String| ScriptError { path: path.to_owned(), detail };
        let file: FileForm = toml::from_str(text).map_err(|error| wrong(error.to_string()))?;
        let mut steps = Vec::new();
        for (index, form) in file.step.into_iter().enumerate() {
            let defaults = Chunks { chunk: file.chunk, chunk_delay: file.chunk_delay };
            steps.push(form.step(defaults).map_err(|detail| wrong(format!("step {}: {detail}", index + 1)))?);
        }
        Ok(Self { steps })
    }
}

/// The file as it is written.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileForm {
    chunk: Option<usize>,
    chunk_delay: Option<u64>,
    #[serde(default)]
    step: Vec<StepForm>,
}

#[derive(Debug, Clone, Copy)]
struct Chunks {
    chunk: Option<usize>,
    chunk_delay: Option<u64>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StepForm {
    #[serde(rename = "match")]
    pattern: Option<OneOrMore>,
    from: Option<From>,
    tool: Option<String>,
    status: Option<ResultStatus>,
    times: Option<Times>,
    chunk: Option<usize>,
    chunk_delay: Option<u64>,
    wait_for_file: Option<PathBuf>,
    delay: Option<u64>,
    thinking: Option<String>,
    text: Option<String>,
    #[serde(default)]
    calls: Vec<CallForm>,
    usage: Option<UsageForm>,
    error: Option<ErrorForm>,
    parts: Option<Vec<PartForm>>,
}

#[derive(Debug, Deserialize)]
#[serde(untagged)]
enum OneOrMore {
    One(String),
    More(Vec<String>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "snake_case")]
enum From {
    User,
    Tool,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(untagged)]
enum Times {
    Count(u64),
    Word(Always),
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Always {
    Always,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct CallForm {
    tool: String,
    #[serde(default = "no_input")]
    input: Value,
}

fn no_input() -> Value {
    Value::Object(serde_json::Map::new())
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(deny_unknown_fields, default)]
#[derive(Default)]
struct UsageForm {
    input_tokens: u64,
    output_tokens: u64,
    cached_tokens: u64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct ErrorForm {
    status: Option<u16>,
    message: String,
    /// Milliseconds.
    retry_after: Option<u64>,
}

/// One part, as `parts` has it.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "snake_case")]
enum PartForm {
    WaitForFile(PathBuf),
    Delay(u64),
    Thinking(String),
    Text(String),
    Call(CallForm),
    Usage(UsageForm),
    Error(ErrorForm),
    Close(bool),
}

impl StepForm {
    fn step(self, defaults: Chunks) -> Result<Step, String> {
        let chunks = Chunks {
            chunk: self.chunk.or(defaults.chunk),
            chunk_delay: self.chunk_delay.or(defaults.chunk_delay),
        };
        let is_short = self.wait_for_file.is_some()
            || self.delay.is_some()
            || self.thinking.is_some()
            || self.text.is_some()
            || !self.calls.is_empty()
            || self.usage.is_some()
            || self.error.is_some();
        let condition = condition(self.pattern, self.from, self.tool, self.status)?;
        let forms = match self.parts {
            Some(_) if is_short => {
                return Err(
                    "`parts` stands alone: put the other content into it, in the order that you want"
                        .to_owned(),
                );
            }
            Some(parts) => parts,
            None => [
                self.wait_for_file.map(PartForm::WaitForFile),
                self.delay.map(PartForm::Delay),
                self.thinking.map(PartForm::Thinking),
                self.text.map(PartForm::Text),
            ]
            .into_iter()
            .flatten()
            .chain(self.calls.into_iter().map(PartForm::Call))
            .chain(self.usage.map(PartForm::Usage))
            .chain(self.error.map(PartForm::Error))
            .collect(),
        };
        let times = match (self.times, &condition) {
            (Some(Times::Count(0)), _) => return Err("`times` is at least 1, or \"always\"".to_owned()),
            (Some(Times::Count(count)), _) => Some(count),
            (Some(Times::Word(Always::Always)), _) | (None, Some(_)) => None,
            (None, None) => Some(1),
        };
        let parts =
            forms.into_iter().filter_map(|form| form.part(chunks).transpose()).collect::<Result<_, _>>()?;
        Ok(Step { condition, times, parts })
    }
}

fn condition(
    pattern: Option<OneOrMore>,
    from: Option<From>,
    tool: Option<String>,
    status: Option<ResultStatus>,
) -> Result<Option<Condition>, String> {
    let patterns = match pattern {
        None => Vec::new(),
        Some(OneOrMore::One(pattern)) => vec![Pattern::new(&pattern)],
        Some(OneOrMore::More(patterns)) if patterns.is_empty() => {
            return Err("`match` is an empty list and would match nothing".to_owned());
        }
        Some(OneOrMore::More(patterns)) => patterns.iter().map(|pattern| Pattern::new(pattern)).collect(),
    };
    let is_about_a_result = tool.is_some() || status.is_some();
    let result = match from {
        Some(From::User) if is_about_a_result => {
            return Err("`tool` and `status` are about results, not about from = \"user\"".to_owned());
        }
        Some(From::User) => None,
        Some(From::Tool) => Some(ResultCondition { tool, status }),
        None => is_about_a_result.then_some(ResultCondition { tool, status }),
    };
    let has_one = from.is_some() || result.is_some() || !patterns.is_empty();
    Ok(has_one.then_some(Condition { patterns, result }))
}

impl PartForm {
    fn part(self, chunks: Chunks) -> Result<Option<Part>, String> {
        let said = |text: String| -> Result<Said, String> {
            let characters = chunks.chunk.unwrap_or(CHUNK_CHARACTERS);
            if characters == 0 {
                return Err("`chunk` is at least 1".to_owned());
            }
            let delay = Duration::from_millis(chunks.chunk_delay.unwrap_or_default());
            Ok(Said { text, characters, delay })
        };
        Ok(Some(match self {
            Self::WaitForFile(path) => Part::WaitForFile(path),
            Self::Delay(milliseconds) => Part::Delay(Duration::from_millis(milliseconds)),
            Self::Thinking(text) => Part::Thinking(said(text)?),
            Self::Text(text) => Part::Text(said(text)?),
            Self::Call(call) => Part::Call { name: call.tool, input: call.input },
            Self::Usage(usage) => Part::Usage(Usage {
                input_tokens: usage.input_tokens,
                output_tokens: usage.output_tokens,
                cached_tokens: usage.cached_tokens,
                cost: None,
                context_tokens: None,
            }),
            Self::Error(error) => Part::Error(ModelError {
                provider: NAME,
                fault: error.status.map_or(Fault::Network, Fault::of_status),
                status: error.status,
                message: error.message,
                retry_after: error.retry_after.map(Duration::from_millis),
            }),
            Self::Close(true) => Part::Close,
            Self::Close(false) => return Ok(None),
        }))
    }
}
