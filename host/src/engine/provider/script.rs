//! The provider `script`: answers from a file of steps instead of from a model (docs/script-provider.md).

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use tokio::sync::mpsc;

use super::{Fault, MODEL_EVENTS, ModelError, ModelEvent, ModelRequest, Provider};

mod pattern;
mod steps;

use steps::{Part, Step};
pub use steps::{Script, ScriptError};

use crate::engine::conversation::Message;

/// The word of the type, and the name of its only model.
pub const NAME: &str = "script";
/// The steps that show what aude is, where nobody wrote any.
const TOUR: &str = include_str!("../tour.toml");
/// How often a file that is waited for is looked for.
const LOOK: Duration = Duration::from_millis(10);
/// Bytes of a text that are put into a step in place of a `{{name}}`.
const SUBSTITUTE_BYTES: usize = 16 * 1024;

/// Answers from a script; which steps were used is known as long as it lives.
#[derive(Debug)]
pub struct ScriptProvider {
    script: Script,
    used: Mutex<HashMap<usize, u64>>,
}

impl ScriptProvider {
    /// A provider that begins with the first step.
    #[must_use]
    pub fn new(script: Script) -> Self {
        Self { script, used: Mutex::default() }
    }

    /// The step for a call, with what its pattern found, and uses it up.
    fn choose(&self, last: &Last<'_>) -> Option<(&Step, Vec<String>)> {
        let mut used = self.used.lock().unwrap_or_else(PoisonError::into_inner);
        let steps = self.script.steps.iter().enumerate().filter(|(index, step)| {
            step.times.is_none_or(|times| used.get(index).copied().unwrap_or_default() < times)
        });
        // Steps that say what they are for come before those that are taken in turn.
        let mut chosen = None;
        for (index, step) in steps {
            match &step.condition {
                None => chosen = chosen.or(Some((index, step, Vec::new()))),
                Some(condition) => {
                    if let Some(found) = condition.matches(last) {
                        chosen = Some((index, step, found));
                        break;
                    }
                }
            }
        }
        let (index, step, found) = chosen?;
        let count: &mut u64 = used.entry(index).or_default();
        *count = count.saturating_add(1);
        Some((step, found))
    }
}

impl Provider for ScriptProvider {
    fn name(&self) -> &'static str {
        NAME
    }

    fn models(&self) -> Vec<String> {
        vec![NAME.to_owned()]
    }

    fn call(&self, request: ModelRequest) -> mpsc::Receiver<ModelEvent> {
        let (sender, receiver) = mpsc::channel(MODEL_EVENTS);
        let last = Last::of(&request.messages);
        let chosen = self.choose(&last);
        let parts = match chosen {
            Some((step, found)) => {
                let values = Values::new(&request, &last, found);
                step.parts.iter().map(|part| values.fill(part)).collect()
            }
            None => vec![Part::Error(ModelError {
                provider: NAME,
                fault: Fault::Internal,
                status: None,
                message: "the script has no step left for this message".to_owned(),
                retry_after: None,
            })],
        };
        tokio::spawn(async move {
            tokio::select! {
                () = sender.closed() => {}
                () = play(parts, &request.working_directory, &sender) => {}
            }
        });
        receiver
    }
}

/// The message that a call answers.
#[derive(Debug, Clone, Copy)]
struct Last<'a> {
    text: &'a str,
    /// The tool and the status, where it is a result.
    result: Option<(&'a str, &'a shared::kind::Open<shared::entry::ResultStatus>)>,
}

impl<'a> Last<'a> {
    fn of(messages: &'a [Message]) -> Self {
        match messages.last() {
            Some(Message::User { text, .. }) => Self { text, result: None },
            Some(Message::Assistant { text, calls, .. }) => match calls.last() {
                Some(call) => Self { text: &call.result, result: Some((&call.name, &call.status)) },
                None => Self { text, result: None },
            },
            None => Self { text: "", result: None },
        }
    }
}

/// What stands for `{{name}}` in a step.
struct Values(Vec<(String, String)>);

impl Values {
    fn new(request: &ModelRequest, last: &Last<'_>, found: Vec<String>) -> Self {
        let user = request.messages.iter().rev().find_map(|message| match message {
            Message::User { text, .. } => Some(text.as_str()),
            Message::Assistant { .. } => None,
        });
        let mut values = vec![
            ("message".to_owned(), user.unwrap_or_default().to_owned()),
            ("last".to_owned(), last.text.to_owned()),
            ("directory".to_owned(), request.working_directory.to_string_lossy().into_owned()),
        ];
        values.extend(found.into_iter().enumerate().map(|(index, text)| ((index + 1).to_string(), text)));
        Self(
            values
                .into_iter()
                .map(|(name, value)| (name, crate::text::cut(&value, SUBSTITUTE_BYTES).to_owned()))
                .collect(),
        )
    }

    fn fill(&self, part: &Part) -> Part {
        match part {
            Part::Thinking(said) => Part::Thinking(said.map(|text| self.text(text))),
            Part::Text(said) => Part::Text(said.map(|text| self.text(text))),
            Part::Call { name, input } => Part::Call { name: name.clone(), input: self.json(input) },
            Part::WaitForFile(path) => Part::WaitForFile(PathBuf::from(self.text(&path.to_string_lossy()))),
            Part::Delay(_) | Part::Usage(_) | Part::Error(_) | Part::Close => part.clone(),
        }
    }

    /// One pass from left to right: what was put in is not looked at again, and an unknown name stays as it is.
    fn text(&self, template: &str) -> String {
        let mut filled = String::with_capacity(template.len());
        let mut rest = template;
        while let Some((before, after)) = rest.split_once("{{") {
            filled.push_str(before);
            let known = after.split_once("}}").and_then(|(name, behind)| {
                let name = name.trim();
                self.0.iter().find(|(known, _)| known == name).map(|(_, value)| (value, behind))
            });
            match known {
                Some((value, behind)) => {
                    filled.push_str(value);
                    rest = behind;
                }
                None => {
                    // One brace only: in three of them, the last two may be what is meant.
                    filled.push('{');
                    rest = rest.get(before.len() + 1..).unwrap_or_default();
                }
            }
        }
        filled.push_str(rest);
        filled
    }

    fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => items.iter().map(|item| self.json(item)).collect(),
            Value::Object(fields) => {
                fields.iter().map(|(name, value)| (name.clone(), self.json(value))).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => value.clone(),
        }
    }
}

/// Gives the parts one after the other. Ends early when nobody listens any more.
async fn play(parts: Vec<Part>, directory: &Path, sender: &mpsc::Sender<ModelEvent>) {
    for part in parts {
        let event = match part {
            Part::Delay(time) => {
                tokio::time::sleep(time).await;
                continue;
            }
            Part::WaitForFile(path) => {
                let path = directory.join(path);
                while !tokio::fs::try_exists(&path).await.unwrap_or(false) {
                    tokio::time::sleep(LOOK).await;
                }
                continue;
            }
            Part::Thinking(said) => {
                said.speak(sender, ModelEvent::Thinking).await;
                continue;
            }
            Part::Text(said) => {
                said.speak(sender, ModelEvent::Text).await;
                continue;
            }
            Part::Close => return,
            Part::Call { name, input } => ModelEvent::Call { name, input },
            Part::Usage(usage) => ModelEvent::Usage(usage),
            Part::Error(error) => {
                let _ = sender.send(ModelEvent::Failed(error)).await;
                return;
            }
        };
        if sender.send(event).await.is_err() {
            return;
        }
    }
    let _ = sender.send(ModelEvent::Done).await;
}

#[cfg(test)]
mod tests;
