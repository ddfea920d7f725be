//! What Claude Code asks a person: its requests become inputs, and what is decided becomes its answers; pure.

use std::path::PathBuf;

use serde_json::{Map, Value, json};
use shared::decision::{Ask, AskOption, Confirm, Decision, Matter, Verdict};
use shared::entry::Level;
use shared::ids::{InputId, PartId};
use shared::json::cut;
use shared::limits;

use super::mapping::{Output, notice};
use super::proposal::{self, Files};
use super::{tools, wire};
use crate::harness::{AgentEvent, Asked, Subject};

/// Questions of one request; the program itself asks at most four.
const QUESTIONS: usize = 16;
/// How much of what was denied unasked a notice shows, in bytes.
const SHOWN_BYTES: usize = 512;
/// What the model reads where a person said no more than no.
const DENIED: &str = "The person denied this.";

/// The requests of the program that wait for a person.
#[derive(Debug, Default)]
pub(super) struct Waiting {
    requests: Vec<Request>,
}

/// A request that waits.
#[derive(Debug)]
struct Request {
    id: Value,
    input: Value,
    kind: Kind,
}

#[derive(Debug)]
enum Kind {
    /// May a tool be used?
    Approval(InputId),
    /// Questions, of which all are to be answered.
    Questions(Vec<Question>),
}

#[derive(Debug)]
struct Question {
    input: InputId,
    question: String,
    answer: Option<String>,
}

impl Request {
    /// The inputs that nobody has decided.
    fn undecided(&self) -> Vec<InputId> {
        match &self.kind {
            Kind::Approval(input) => vec![*input],
            Kind::Questions(questions) => questions
                .iter()
                .filter(|question| question.answer.is_none())
                .map(|question| question.input)
                .collect(),
        }
    }
}

impl Waiting {
    /// Asks a person, or denies what nobody can be asked.
    pub(super) fn ask(&mut self, id: &Value, request: &Value, files: &Files, directory: &str) -> Vec<Output> {
        if self.requests.iter().any(|known| known.id == *id) {
            return vec![Output::Trace("a request that waits already")];
        }
        let input = request.get("input").cloned().unwrap_or_default();
        if self.requests.len() >= limits::INPUTS {
            return refuse(id, request, "too many approvals are open at once");
        }
        let asked = if name_of(request) == "AskUserQuestion" {
            questions(&input)
        } else {
            approval(id, request, &input, files, directory).map(|asked| vec![asked])
        };
        let asked = match asked {
            Ok(asked) => asked,
            Err(why) => return refuse(id, request, why),
        };
        let kind = match &asked[..] {
            [Asked { input, matter: Matter::Confirm(_), .. }] => Kind::Approval(*input),
            _ => Kind::Questions(asked.iter().filter_map(Question::of).collect()),
        };
        self.requests.push(Request { id: id.clone(), input, kind });
        asked.into_iter().map(|asked| Output::Event(AgentEvent::Asked(Box::new(asked)))).collect()
    }

    /// Hands on what was decided. What does not wait any more is nobody's business.
    pub(super) fn answer(&mut self, input: InputId, decision: Decision) -> Vec<Output> {
        let Some(at) = self.requests.iter().position(|known| known.undecided().contains(&input)) else {
            return vec![Output::Trace("an answer to something that does not wait")];
        };
        let request = &mut self.requests[at];
        let text = match decision {
            Decision::Deny { text } => {
                let message = text.unwrap_or_else(|| DENIED.to_owned());
                let request = self.requests.remove(at);
                let others = request.undecided().into_iter().filter(|other| *other != input);
                let mut outputs = vec![Output::Write(wire::deny(&request.id, &message))];
                outputs.extend(others.map(|other| Output::Event(AgentEvent::Withdrawn(other))));
                return outputs;
            }
            Decision::Allow | Decision::AllowSession => None,
            Decision::Chosen(labels) => Some(labels.join(", ")),
            Decision::Said(text) => Some(text),
        };
        let updated = match (&mut request.kind, text) {
            (Kind::Approval(_), None) => request.input.clone(),
            (Kind::Questions(questions), Some(text)) => {
                for question in questions.iter_mut().filter(|question| question.input == input) {
                    question.answer = Some(text.clone());
                }
                let answers: Option<Map<String, Value>> = questions
                    .iter()
                    .map(|question| Some((question.question.clone(), json!(question.answer.clone()?))))
                    .collect();
                let Some(answers) = answers else { return Vec::new() };
                let mut updated = request.input.clone();
                updated["answers"] = Value::Object(answers);
                updated
            }
            // The session asks for what fits; whatever does not is no permission.
            (Kind::Approval(_), Some(_)) | (Kind::Questions(_), None) => {
                return self.answer(input, Decision::Deny { text: None });
            }
        };
        let request = self.requests.remove(at);
        vec![Output::Write(wire::allow(&request.id, &updated))]
    }

    /// The program no longer wants an answer.
    pub(super) fn cancel(&mut self, id: &Value) -> Vec<Output> {
        let Some(at) = self.requests.iter().position(|known| known.id == *id) else { return Vec::new() };
        let request = self.requests.remove(at);
        let withdrawn = request.undecided().into_iter();
        withdrawn.map(|input| Output::Event(AgentEvent::Withdrawn(input))).collect()
    }

    /// Denies all that waits: the session has cancelled it.
    pub(super) fn deny_all(&mut self, message: &str) -> Vec<Output> {
        let requests = self.requests.drain(..);
        requests.map(|request| Output::Write(wire::deny(&request.id, message))).collect()
    }

    /// Forgets what waits: the program does not wait for it any more.
    pub(super) fn clear(&mut self) {
        self.requests.clear();
    }
}

impl Question {
    fn of(asked: &Asked) -> Option<Self> {
        match &asked.matter {
            Matter::Ask(ask) => {
                Some(Self { input: asked.input, question: ask.question.clone(), answer: None })
            }
            Matter::Confirm(_) => None,
        }
    }
}

fn name_of(request: &Value) -> &str {
    request.get("tool_name").and_then(Value::as_str).unwrap_or("a tool without a name")
}

/// Denies what nobody can be asked, with the reason for the model and for people.
pub(super) fn refuse(id: &Value, request: &Value, why: &str) -> Vec<Output> {
    let name = name_of(request);
    let exact = tools::exact(name, request.get("input").unwrap_or(&Value::Null));
    let shown = cut(&exact, SHOWN_BYTES);
    let dots = if shown.len() < exact.len() { "…" } else { "" };
    let name = cut(name, limits::WORD_BYTES);
    vec![
        Output::Write(wire::deny(id, &format!("Denied: {why}."))),
        notice(Level::Warning, &format!("Denied {name}, because {why}: {shown}{dots}")),
    ]
}

fn questions(input: &Value) -> Result<Vec<Asked>, &'static str> {
    let list = input.get("questions").and_then(Value::as_array).filter(|list| !list.is_empty());
    let list = list.ok_or("there is no question in it")?;
    if list.len() > QUESTIONS {
        return Err("it asks too many questions at once");
    }
    let mut asked: Vec<Asked> = Vec::new();
    for question in list {
        let text = |value: &Value, field: &str| {
            value.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let options = question.get("options").and_then(Value::as_array).into_iter().flatten();
        let ask = Ask {
            question: text(question, "question"),
            options: options
                .map(|option| AskOption {
                    label: text(option, "label"),
                    description: text(option, "description"),
                })
                .collect(),
            multiple: question.get("multiSelect").and_then(Value::as_bool) == Some(true),
        };
        let is_known = |known: &Asked| matches!(&known.matter, Matter::Ask(a) if a.question == ask.question);
        // The program tells answers apart by the words of their questions.
        if ask.question.trim().is_empty() || asked.iter().any(is_known) {
            return Err("its questions cannot be told apart");
        }
        asked.push(Asked { input: InputId::random(), matter: Matter::Ask(ask), subject: None, grant: None });
    }
    Ok(asked)
}

fn approval(
    id: &Value,
    request: &Value,
    input: &Value,
    files: &Files,
    directory: &str,
) -> Result<Asked, &'static str> {
    let name = name_of(request);
    let detail = proposal::detail(name, input, files);
    if detail.len() > limits::CONFIRM_BYTES {
        return Err("what is to be approved is too large to be shown whole");
    }
    let text = |field: &str| request.get(field).and_then(Value::as_str);
    let mut title = tools::title(name, input, directory);
    // The program takes files for sensitive through which commands could run.
    let is_sensitive = text("decision_reason_type") == Some("safetyCheck");
    if is_sensitive {
        title.push_str(" (sensitive: commands could run through it)");
    }
    let grant = if is_sensitive { None } else { grant(name, request, input, files) };
    let (grant, session) = grant.unzip();
    let mut options = vec![Verdict::Allow.into()];
    options.extend(grant.is_some().then(|| Verdict::AllowSession.into()));
    options.push(Verdict::Deny.into());
    let call = text("tool_use_id").or_else(|| id.as_str()).unwrap_or("call");
    let paths = tools::edited_path(name, input)
        .or_else(|| input.get("file_path").or_else(|| input.get("path")).and_then(Value::as_str))
        .into_iter()
        .chain(text("blocked_path"))
        .map(|path| (files.real)(path));
    Ok(Asked {
        input: InputId::random(),
        matter: Matter::Confirm(Confirm {
            tool: PartId::from_harness(call),
            title,
            detail,
            options,
            session,
        }),
        subject: Some(Subject {
            tool: cut(name, limits::WORD_BYTES).to_owned(),
            class: tools::class(name),
            command: (name == "Bash").then(|| input.get("command")?.as_str().map(str::to_owned)).flatten(),
            paths: distinct(paths),
        }),
        grant,
    })
}

fn distinct(paths: impl Iterator<Item = PathBuf>) -> Vec<PathBuf> {
    let mut distinct = Vec::new();
    for path in paths {
        if !distinct.contains(&path) {
            distinct.push(path);
        }
    }
    distinct
}

/// What an allowance for the session means, for the session and in a sentence for people; none where it would mean too much.
fn grant(name: &str, request: &Value, input: &Value, files: &Files) -> Option<(String, String)> {
    if let Some(path) = tools::edited_path(name, input) {
        let is_inside = (files.is_inside)(path);
        return is_inside.then(|| {
            ("edits".to_owned(), "ordinary edits of files inside the working directory".to_owned())
        });
    }
    if name == "Bash" {
        let command = input.get("command")?.as_str()?;
        if input.get("dangerouslyDisableSandbox").and_then(Value::as_bool) == Some(true) {
            return None;
        }
        let shown = crate::text::one_line(command, 120);
        return Some((format!("Bash {command}"), format!("exactly this command again: {shown}")));
    }
    // What the program itself would remember for the session; its own suggestions to change files of settings are not taken.
    let suggestions = request.get("permission_suggestions")?.as_array()?;
    let field = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).map(str::to_owned);
    let rules: Vec<&Value> = suggestions
        .iter()
        .filter(|one| field(one, "type").as_deref() == Some("addRules"))
        .filter(|one| field(one, "behavior").as_deref() == Some("allow"))
        .filter_map(|one| one.get("rules")?.as_array())
        .flatten()
        .collect();
    let of_this_tool = |rule: &&Value| field(rule, "toolName").as_deref() == Some(name);
    if rules.is_empty() || !rules.iter().all(of_this_tool) {
        return None;
    }
    let words = rules.iter().map(|rule| match field(rule, "ruleContent") {
        Some(content) => format!("{name}({content})"),
        None => format!("every call of {name}"),
    });
    let words = words.collect::<Vec<_>>().join(", ");
    Some((words.clone(), format!("what this rule of Claude Code allows: {words}")))
}

#[cfg(test)]
mod tests;
