//! What the tool calls of an ACP agent are for people: names, titles, classes, texts, diffs, exit codes, plans.

use std::path::{Path, PathBuf};

use serde_json::Value;
use shared::entry::{Diff, Plan, Step, StepState, ToolClass};
use shared::json::cut;
use shared::limits;
use shared::status::Exit;

use crate::text::one_line;

/// A title is one line of at most so many characters: what a narrow screen shows in a few lines.
const TITLE_CHARACTERS: usize = 160;
/// The texts of one diff, in bytes each, like the text of a result.
const DIFF_BYTES: usize = limits::RESULT_BYTES;
/// The steps of one plan; more are no plan that a person reads.
const STEPS: usize = 200;
/// The text of one step, in bytes.
const STEP_BYTES: usize = 1024;
/// The files of one call that are remembered.
const PATHS: usize = 64;

/// What is known of a tool call so far; later messages of the agent add to it.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Call {
    pub(super) id: String,
    name: Option<String>,
    title: String,
    kind: Option<String>,
    pub(super) input: Value,
    output: Value,
    content: Vec<Value>,
    /// The last diff that came: some agents tell it with the permission alone.
    change: Option<Value>,
    paths: Vec<String>,
    pub(super) status: String,
}

impl Call {
    /// A call of which only the agent's id is known.
    pub(super) fn new(id: &str) -> Self {
        Self { id: id.to_owned(), ..Self::default() }
    }

    /// Takes in a `tool_call`, a `tool_call_update`, or the call of a permission.
    pub(super) fn update(&mut self, update: &Value) {
        let text = |field: &str| update.get(field).and_then(Value::as_str).filter(|text| !text.is_empty());
        if let Some(name) = update.pointer("/_meta/goose/toolCall/toolName").and_then(Value::as_str) {
            self.name = Some(word(name));
        }
        if let Some(title) = text("title") {
            // A first title of one word is the tool's name.
            if self.name.is_none() && self.title.is_empty() && title.chars().all(is_name) {
                self.name = Some(word(title));
            }
            self.title = cut(title, limits::RESULT_BYTES).to_owned();
        }
        if let Some(kind) = text("kind").filter(|kind| *kind != "other" || self.kind.is_none()) {
            self.kind = Some(word(kind));
        }
        if let Some(status) = text("status") {
            self.status = word(status);
        }
        if let Some(input) = update.get("rawInput").filter(|input| is_telling(input)) {
            // A permission may name less than the call did before.
            match (&mut self.input, input) {
                (Value::Object(known), Value::Object(new)) => known.extend(new.clone()),
                (known, new) => *known = new.clone(),
            }
        }
        if let Some(output) = update.get("rawOutput").filter(|output| !output.is_null()) {
            self.output = output.clone();
        }
        if let Some(content) = update.get("content").and_then(Value::as_array).filter(|list| !list.is_empty())
        {
            self.content.clone_from(content);
            self.change =
                content.iter().find(|content| is_diff(content)).cloned().or_else(|| self.change.take());
        }
        for location in update.get("locations").and_then(Value::as_array).into_iter().flatten() {
            if let Some(path) = location.get("path").and_then(Value::as_str)
                && self.paths.len() < PATHS
                && !self.paths.iter().any(|known| known == path)
            {
                self.paths.push(path.to_owned());
            }
        }
    }

    /// Whether enough is known to show it: what it does, or that it is done.
    pub(super) fn is_ready(&self) -> bool {
        is_telling(&self.input) || !matches!(self.status.as_str(), "" | "pending")
    }

    /// The harness's name of the tool.
    pub(super) fn name(&self) -> String {
        self.name.clone().or_else(|| self.kind.clone()).unwrap_or_else(|| "tool".to_owned())
    }

    /// What sort of tool it is.
    pub(super) fn class(&self) -> ToolClass {
        match self.kind.as_deref().unwrap_or_default() {
            "read" => ToolClass::Read,
            "edit" | "delete" | "move" => ToolClass::Edit,
            "search" => ToolClass::Search,
            "execute" => ToolClass::Execute,
            "think" | "switch_mode" => ToolClass::Think,
            "fetch" => ToolClass::Fetch,
            _ => match self.name.as_deref().unwrap_or_default() {
                "shell" | "bash" => ToolClass::Execute,
                "write" | "edit" | "text_editor" => ToolClass::Edit,
                "read" | "tree" | "analyze" => ToolClass::Read,
                _ => ToolClass::Other,
            },
        }
    }

    /// The command line, where it runs one.
    pub(super) fn command(&self) -> Option<String> {
        if self.class() != ToolClass::Execute {
            return None;
        }
        match self.input.get("command") {
            Some(Value::String(command)) => Some(command.clone()),
            Some(Value::Array(words)) => {
                let words: Option<Vec<&str>> = words.iter().map(Value::as_str).collect();
                words.map(|words| words.join(" "))
            }
            // The title of gemini is the command itself, and there is no input.
            _ if !is_telling(&self.input) && !self.title.is_empty() => Some(self.title.clone()),
            _ => None,
        }
    }

    /// The files that it touches, absolute.
    pub(super) fn paths(&self, working_directory: &Path) -> Vec<PathBuf> {
        if self.class() == ToolClass::Execute {
            return Vec::new();
        }
        let named = ["filePath", "filepath", "file_path", "path", "abs_path"];
        let inputs = named.iter().filter_map(|field| self.input.get(*field).and_then(Value::as_str));
        let diffs = self.content.iter().filter_map(|content| content.get("path").and_then(Value::as_str));
        let mut paths: Vec<PathBuf> = Vec::new();
        for path in self.paths.iter().map(String::as_str).chain(inputs).chain(diffs) {
            let path = real(&working_directory.join(path));
            if !paths.contains(&path) && paths.len() < PATHS {
                paths.push(path);
            }
        }
        paths
    }

    /// One line that says what the call does.
    pub(super) fn title(&self, working_directory: &str) -> String {
        let path = self
            .paths
            .first()
            .map(String::as_str)
            .or_else(|| self.diff_path())
            .or_else(|| {
                ["filePath", "file_path", "path"].iter().find_map(|field| self.input.get(*field)?.as_str())
            })
            .map(|path| shortened(path, working_directory));
        let title = match (self.class(), self.command(), path) {
            (_, Some(command), _) => format!("Run {command}"),
            (ToolClass::Edit, None, Some(path)) => match self.kind.as_deref() {
                Some("delete") => format!("Delete {path}"),
                Some("move") => format!("Move {path}"),
                _ => format!("Edit {path}"),
            },
            (ToolClass::Read, None, Some(path)) => format!("Read {path}"),
            _ if self.title.is_empty() => self.name(),
            _ => self.title.clone(),
        };
        one_line(&title, TITLE_CHARACTERS)
    }

    /// What a person has to see before a permission: the exact command or patch, nothing cut.
    pub(super) fn detail(&self) -> String {
        if let Some(command) = self.command() {
            // Where it runs is a part of what it does.
            let rest = self.input.as_object().map(|input| {
                let others = input.iter().filter(|(name, value)| {
                    !matches!(name.as_str(), "command" | "description") && !value.is_null()
                });
                others.map(|(name, value)| format!("\n{name}: {value}")).collect::<String>()
            });
            return format!("{command}{}", rest.unwrap_or_default());
        }
        let text = |field: &str| self.input.get(field).and_then(Value::as_str);
        if let Some(patch) = text("diff").or_else(|| text("patch")) {
            return patch.to_owned();
        }
        let diffs: Vec<String> = self.content.iter().filter_map(spelled).collect();
        if !diffs.is_empty() {
            return diffs.join("\n");
        }
        if is_telling(&self.input) {
            return serde_json::to_string_pretty(&self.input).unwrap_or_default();
        }
        let said = self.text();
        if said.is_empty() { self.title.clone() } else { format!("{}\n{said}", self.title) }
    }

    /// What the tool gave.
    pub(super) fn text(&self) -> String {
        let mut pieces = Vec::new();
        for content in &self.content {
            let inner = content.get("content").unwrap_or(content);
            if content.get("type").and_then(Value::as_str) == Some("content") {
                pieces.push(block(inner));
            }
        }
        if pieces.iter().all(String::is_empty) {
            let field = |name: &str| self.output.get(name).and_then(Value::as_str).unwrap_or_default();
            let output = match &self.output {
                Value::String(text) => text.clone(),
                _ if !field("output").is_empty() => field("output").to_owned(),
                _ if !field("error").is_empty() => field("error").to_owned(),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::Array(_) | Value::Object(_) => {
                    format!("{}{}", field("stdout"), field("stderr"))
                }
            };
            pieces = vec![output];
        }
        pieces.join("\n")
    }

    /// How a command ended, where the agent says it.
    pub(super) fn exit(&self) -> Option<Exit> {
        let pointers = ["/exit_code", "/exitCode", "/metadata/exit", "/metadata/exitCode"];
        let code = pointers.iter().find_map(|pointer| self.output.pointer(pointer)?.as_u64())?;
        u32::try_from(code).ok().map(Exit::Status)
    }

    /// What it changed in a file.
    pub(super) fn diff(&self) -> Option<Diff> {
        let bounded = |text: &str| (text.len() <= DIFF_BYTES).then(|| text.to_owned());
        let Some(content) = &self.change else {
            if let (ToolClass::Edit, Some(after)) =
                (self.class(), self.input.get("content").and_then(Value::as_str))
            {
                let path = ["filePath", "file_path", "path"]
                    .iter()
                    .find_map(|field| self.input.get(*field)?.as_str())?;
                let path = cut(path, limits::PATH_BYTES).to_owned();
                return Some(Diff { path, before: None, after: bounded(after), patch: None });
            }
            let patch = self.output.pointer("/metadata/diff").and_then(Value::as_str).and_then(bounded)?;
            let path = self
                .paths
                .first()
                .cloned()
                .or_else(|| Some(self.input.get("filePath")?.as_str()?.to_owned()))?;
            return Some(Diff { path, before: None, after: None, patch: Some(patch) });
        };
        let text = |field: &str| content.get(field).and_then(Value::as_str);
        Some(Diff {
            path: cut(text("path")?, limits::PATH_BYTES).to_owned(),
            before: text("oldText").and_then(bounded),
            after: text("newText").and_then(bounded),
            patch: None,
        })
    }

    fn diff_path(&self) -> Option<&str> {
        self.content.iter().find(|content| is_diff(content))?.get("path")?.as_str()
    }
}

/// The words for a block of content; what is no text is told with its size.
pub(super) fn block(content: &Value) -> String {
    let text = |field: &str| content.get(field).and_then(Value::as_str).unwrap_or_default();
    match text("type") {
        "text" => text("text").to_owned(),
        kind @ ("image" | "audio") => {
            let size = (text("data").len() / 4 * 3).div_ceil(1024);
            format!("[{kind}, {}, {size} KiB]", one_line(text("mimeType"), 40))
        }
        "resource_link" => format!("[{}]", one_line(text("uri"), 200)),
        "resource" => {
            let inner = content.pointer("/resource/text").and_then(Value::as_str);
            inner.unwrap_or("[a resource that is no text]").to_owned()
        }
        _ => String::new(),
    }
}

/// The plan, whole.
pub(super) fn plan(update: &Value) -> Plan {
    let entries = update.get("entries").and_then(Value::as_array).into_iter().flatten();
    let steps = entries.take(STEPS).filter_map(|entry| {
        let state = match entry.get("status").and_then(Value::as_str) {
            Some("completed") => StepState::Done,
            Some("in_progress") => StepState::Active,
            _ => StepState::Pending,
        };
        let text = entry.get("content").and_then(Value::as_str)?;
        Some(Step { text: cut(text, STEP_BYTES).to_owned(), state: state.into() })
    });
    Plan { steps: steps.collect() }
}

/// Whether an input says what a call does; the folder alone does not.
fn is_telling(input: &Value) -> bool {
    match input {
        Value::Object(fields) => fields.keys().any(|name| name != "cwd"),
        Value::Null => false,
        Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Array(_) => true,
    }
}

fn is_diff(content: &Value) -> bool {
    content.get("type").and_then(Value::as_str) == Some("diff")
}

/// A diff in words, whole.
fn spelled(content: &Value) -> Option<String> {
    if !is_diff(content) {
        return None;
    }
    let text = |field: &str| content.get(field).and_then(Value::as_str).unwrap_or_default();
    let lines =
        |sign: char, text: &str| text.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    Some(format!("{}\n{}{}", text("path"), lines('-', text("oldText")), lines('+', text("newText"))))
}

/// Where a path really lies, as far as it is there.
fn real(path: &Path) -> PathBuf {
    for existing in path.ancestors() {
        if let (Ok(found), Ok(rest)) = (existing.canonicalize(), path.strip_prefix(existing)) {
            return if rest.as_os_str().is_empty() { found } else { found.join(rest) };
        }
    }
    path.to_owned()
}

fn shortened<'a>(path: &'a str, working_directory: &str) -> &'a str {
    path.strip_prefix(working_directory)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path)
}

fn is_name(character: char) -> bool {
    character.is_alphanumeric() || matches!(character, '_' | '-')
}

fn word(text: &str) -> String {
    cut(text, limits::WORD_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn call(updates: &[Value]) -> Call {
        let mut call = Call::default();
        updates.iter().for_each(|update| call.update(update));
        call
    }

    #[test]
    fn a_call_grows_until_it_says_what_it_does() {
        let first =
            json!({"title": "bash", "kind": "execute", "status": "pending", "rawInput": {"cwd": "/w"}});
        assert!(!call(std::slice::from_ref(&first)).is_ready());
        let next = json!({"title": "touch a", "status": "in_progress", "rawInput": {"command": "touch a", "cwd": "/w"}});
        let grown = call(&[first, next]);
        assert!(grown.is_ready());
        assert_eq!((grown.name().as_str(), grown.title("/w").as_str()), ("bash", "Run touch a"));
        assert_eq!(grown.detail(), "touch a\ncwd: \"/w\"");
    }

    #[test]
    fn a_call_of_goose_is_known_by_its_tool() {
        let call = call(&[json!({"title": "write · /w/a", "rawInput": {"path": "/w/a", "content": "x"},
            "_meta": {"goose": {"toolCall": {"toolName": "write"}}}})]);
        assert_eq!((call.class(), call.title("/w").as_str()), (ToolClass::Edit, "Edit a"));
        assert!(call.detail().contains("\"content\": \"x\""));
    }

    #[test]
    fn results_have_text_exit_and_diff() {
        let done = call(&[
            json!({"kind": "execute", "rawOutput": {"stdout": "made", "stderr": "", "exit_code": 3}}),
        ]);
        assert_eq!((done.text().as_str(), done.exit()), ("made", Some(Exit::Status(3))));
        let edit = call(&[
            json!({"kind": "edit", "content": [{"type": "diff", "path": "/w/a", "oldText": "x", "newText": "y"}]}),
        ]);
        let written = call(&[json!({"kind": "edit", "rawInput": {"path": "/w/a", "content": "z"}})]);
        assert_eq!(written.diff().unwrap().after.as_deref(), Some("z"));
        assert_eq!(edit.diff().unwrap().after.as_deref(), Some("y"));
        assert_eq!(edit.detail(), "/w/a\n-x\n+y\n");
        let image = json!({"type": "image", "mimeType": "image/png", "data": "A".repeat(4096)});
        assert_eq!(block(&image), "[image, image/png, 3 KiB]");
    }
}
