//! What a model is told of each tool: its name, what it is for, and what it takes.

use serde::Deserialize;
use serde_json::{Value, json};
use shared::decision::{Ask, AskOption};

/// Options of a question; more can nobody survey.
const OPTIONS: usize = 16;

/// A tool as a model sees it.
#[derive(Debug, Clone, PartialEq)]
pub struct ToolSpec {
    /// Its name.
    pub name: String,
    /// What it is for.
    pub description: String,
    /// What it takes, as a JSON Schema.
    pub parameters: Value,
}

/// A question as a model asks it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AskForm {
    question: String,
    #[serde(default)]
    options: Vec<AskOption>,
    #[serde(default)]
    multiple: bool,
}

impl AskForm {
    pub(super) fn ask(self) -> Result<Ask, String> {
        if self.options.len() > OPTIONS {
            return Err(format!("a question has at most {OPTIONS} options"));
        }
        for (index, option) in self.options.iter().enumerate() {
            if self.options.iter().take(index).any(|other| other.label == option.label) {
                return Err(format!("two options are both {:?}", crate::text::one_line(&option.label, 40)));
            }
        }
        Ok(Ask { question: self.question, options: self.options, multiple: self.multiple })
    }
}

/// The engine's own tools.
pub(super) fn own() -> Vec<ToolSpec> {
    let text = |what: &str| json!({ "type": "string", "description": what });
    let number = |what: &str| json!({ "type": "integer", "minimum": 1, "description": what });
    let flag = |what: &str| json!({ "type": "boolean", "description": what });
    let path = "A path, from the working directory or absolute; it must be inside the working directory.";
    vec![
        spec(
            "read",
            "Reads a text file. Read a file before you change it.",
            json!({ "path": text(path), "first_line": number("The first line, from 1."), "lines": number("How many lines; all where it is left out.") }),
            &["path"],
        ),
        spec(
            "write",
            "Writes a whole file; folders are made. For a small change of a file that is there, use edit.",
            json!({ "path": text(path), "content": text("All of the file.") }),
            &["path", "content"],
        ),
        spec(
            "edit",
            "Replaces a text in a file by another. The old text must be there exactly once, white space included, unless all is set.",
            json!({ "path": text(path), "old": text("The text that is there."), "new": text("The text that takes its place."), "all": flag("Replace it everywhere.") }),
            &["path", "old", "new"],
        ),
        spec(
            "glob",
            "Finds files by their paths.",
            json!({ "pattern": text("A pattern: * for any characters but /, ** for any folders."), "path": text("The folder below which is looked; the working directory where it is left out.") }),
            &["pattern"],
        ),
        spec(
            "grep",
            "Finds lines of files by a regular expression.",
            json!({ "pattern": text("The regular expression, on one line."), "path": text("The file or folder; the working directory where it is left out."), "glob": text("Only files whose path fits this pattern."), "ignore_case": flag("Capital and small letters are the same.") }),
            &["pattern"],
        ),
        spec(
            "bash",
            "Runs a command in the working directory, without input and without a terminal. All that it started ends with it.",
            json!({ "command": text("The command line for bash."), "seconds": number("The time limit; 120 where it is left out, at most 600.") }),
            &["command"],
        ),
        spec(
            "todo",
            "Shows the plan of the work, whole, each time that it changes.",
            json!({ "steps": { "type": "array", "items": { "type": "object", "additionalProperties": false, "required": ["text", "state"],
                "properties": { "text": text("The step in a line."), "state": { "type": "string", "enum": ["pending", "active", "done"] } } } } }),
            &["steps"],
        ),
        spec(
            "ask",
            "Asks the person who gave the work, when it cannot go on without an answer.",
            json!({ "question": text("The question."), "multiple": flag("Several options may be chosen."),
                "options": { "type": "array", "maxItems": OPTIONS, "description": "What can be chosen; none for a free answer.", "items": { "type": "object",
                    "additionalProperties": false, "required": ["label"], "properties": { "label": text("A short name."), "description": text("What it means.") } } } }),
            &["question"],
        ),
    ]
}

fn spec(name: &str, description: &str, properties: Value, required: &[&str]) -> ToolSpec {
    ToolSpec {
        name: name.to_owned(),
        description: description.to_owned(),
        parameters: json!({ "type": "object", "properties": properties, "required": required, "additionalProperties": false }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::tools::{Action, BadCall};

    #[test]
    fn every_tool_that_is_told_of_is_there_and_takes_what_is_said() {
        for spec in own() {
            let mut input = serde_json::Map::new();
            for (name, schema) in spec.parameters["properties"].as_object().unwrap() {
                let value = match schema["type"].as_str().unwrap() {
                    "string" => json!("x"),
                    "integer" => json!(1),
                    "boolean" => json!(true),
                    "array" if name == "steps" => json!([{ "text": "x", "state": "active" }]),
                    _ => json!([{ "label": "x" }]),
                };
                input.insert(name.clone(), value);
            }
            let input = Value::Object(input);
            assert!(Action::read(&spec.name, &input).is_ok(), "{} {input}", spec.name);
            let mut only = input.clone();
            let required: Vec<&str> =
                spec.parameters["required"].as_array().unwrap().iter().filter_map(Value::as_str).collect();
            only.as_object_mut().unwrap().retain(|name, _| required.contains(&name.as_str()));
            assert!(Action::read(&spec.name, &only).is_ok(), "{} {only}", spec.name);
            let unknown = json!({ "nothing": 1 });
            assert!(
                matches!(Action::read(&spec.name, &unknown), Err(BadCall::Input { .. })),
                "{}",
                spec.name
            );
        }
    }

    #[test]
    fn a_question_has_no_two_equal_options() {
        let twice = json!({ "question": "q", "options": [{ "label": "a" }, { "label": "a" }] });
        let error = Action::read("ask", &twice).unwrap_err().to_string();
        assert!(error.contains("\"a\""), "{error}");
    }
}
