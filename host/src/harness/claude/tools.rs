//! What Claude Code's tools are for people: titles, classes, diffs, exit codes, plans.

use serde_json::Value;
use shared::entry::{Diff, Plan, Step, StepState, ToolClass};
use shared::json::cut;
use shared::status::Exit;

use crate::text::one_line;

/// A title is one line of at most so many characters: what a narrow screen shows in a few lines.
const TITLE_CHARACTERS: usize = 160;
/// The texts of one diff, in bytes each, like the text of a result.
const DIFF_BYTES: usize = shared::limits::RESULT_BYTES;
/// The steps of one plan; more are no plan that a person reads.
const STEPS: usize = 200;
/// The text of one step, in bytes.
const STEP_BYTES: usize = 1024;

/// The tools that change one file, whose path is known before.
pub(super) const EDITS: [&str; 4] = ["Edit", "MultiEdit", "Write", "NotebookEdit"];

/// What sort of tool it is.
pub(super) fn class(name: &str) -> ToolClass {
    match name {
        "Read" | "NotebookRead" | "ListMcpResourcesTool" | "ReadMcpResourceTool" => ToolClass::Read,
        "Edit" | "MultiEdit" | "Write" | "NotebookEdit" => ToolClass::Edit,
        "Bash" | "BashOutput" | "KillShell" | "KillBash" | "Monitor" => ToolClass::Execute,
        "Glob" | "Grep" | "LS" | "ToolSearch" => ToolClass::Search,
        "WebFetch" | "WebSearch" => ToolClass::Fetch,
        "TodoWrite" | "EnterPlanMode" | "ExitPlanMode" | "Task" | "Agent" => ToolClass::Think,
        _ => ToolClass::Other,
    }
}

/// One line that says what the call does.
pub(super) fn title(name: &str, input: &Value, working_directory: &str) -> String {
    let text = |field: &str| input.get(field).and_then(Value::as_str).unwrap_or_default();
    let path = |field: &str| shortened(text(field), working_directory);
    let title = match name {
        "Bash" => format!("Run {}", text("command")),
        "BashOutput" => "Read the output of a background command".to_owned(),
        "KillShell" | "KillBash" => "Stop a background command".to_owned(),
        "Read" => format!("Read {}", path("file_path")),
        "Edit" | "MultiEdit" => format!("Edit {}", path("file_path")),
        "Write" => format!("Write {}", path("file_path")),
        "NotebookEdit" => format!("Edit {}", path("notebook_path")),
        "NotebookRead" => format!("Read {}", path("notebook_path")),
        "LS" => format!("List {}", path("path")),
        "Glob" => format!("Find files {}", text("pattern")),
        "Grep" if text("path").is_empty() => format!("Search for {}", text("pattern")),
        "Grep" => format!("Search for {} in {}", text("pattern"), path("path")),
        "WebFetch" => format!("Fetch {}", text("url")),
        "WebSearch" => format!("Search the web for {}", text("query")),
        "Task" | "Agent" => format!("Subagent: {}", text("description")),
        "AskUserQuestion" => {
            let question = input.pointer("/questions/0/question").and_then(Value::as_str);
            format!("Ask: {}", question.unwrap_or("a question"))
        }
        "EnterPlanMode" => "Plan before acting".to_owned(),
        "ExitPlanMode" => "Present the plan".to_owned(),
        "Skill" => format!("Use the skill {}", text("skill")),
        _ => match name.strip_prefix("mcp__").and_then(|rest| rest.split_once("__")) {
            Some((server, tool)) => format!("{tool} ({server})"),
            None if text("description").is_empty() => name.to_owned(),
            None => format!("{name}: {}", text("description")),
        },
    };
    one_line(title.trim_end(), TITLE_CHARACTERS)
}

/// The title of a permission, with the exact command or path and nothing cut that a person must see.
pub(super) fn exact(name: &str, input: &Value) -> String {
    let field = match name {
        "Bash" => "command",
        "Edit" | "MultiEdit" | "Write" | "Read" => "file_path",
        "NotebookEdit" => "notebook_path",
        "WebFetch" => "url",
        _ => "",
    };
    input.get(field).and_then(Value::as_str).map_or_else(|| input.to_string(), str::to_owned)
}

/// The path that an editing tool would change.
pub(super) fn edited_path<'a>(name: &str, input: &'a Value) -> Option<&'a str> {
    let field = if name == "NotebookEdit" { "notebook_path" } else { "file_path" };
    input.get(field).and_then(Value::as_str).filter(|_| EDITS.contains(&name))
}

fn shortened<'a>(path: &'a str, working_directory: &str) -> &'a str {
    path.strip_prefix(working_directory)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path)
}

/// What a call changed in a file, from what the program says that it did, else from what it was asked to do.
pub(super) fn diff(name: &str, input: &Value, done: &Value) -> Option<Diff> {
    let path = done.get("filePath").and_then(Value::as_str).or_else(|| edited_path(name, input))?;
    if !EDITS.contains(&name) {
        return None;
    }
    let bounded = |text: &str| (text.len() <= DIFF_BYTES).then(|| text.to_owned());
    let text = |value: &Value, field: &str| value.get(field).and_then(Value::as_str).and_then(bounded);
    let empty = Diff { path: path.to_owned(), before: None, after: None, patch: None };
    if let Some(patch) = patch(path, done) {
        return Some(Diff { patch: Some(patch), ..empty });
    }
    let (before, after) = match name {
        "Write" => (None, text(input, "content")),
        "Edit" => (text(input, "old_string"), text(input, "new_string")),
        "NotebookEdit" => (None, text(input, "new_source")),
        _ => (None, None),
    };
    Some(Diff { before, after, ..empty })
}

/// A unified patch from the hunks that the program reports; none where there are none or they are too large.
fn patch(path: &str, done: &Value) -> Option<String> {
    let hunks = done.get("structuredPatch")?.as_array().filter(|hunks| !hunks.is_empty())?;
    let mut patch = format!("--- {path}\n+++ {path}\n");
    for hunk in hunks {
        let number = |field: &str| hunk.get(field).and_then(Value::as_u64).unwrap_or_default();
        patch.push_str(&format!(
            "@@ -{},{} +{},{} @@\n",
            number("oldStart"),
            number("oldLines"),
            number("newStart"),
            number("newLines")
        ));
        for line in hunk.get("lines")?.as_array()?.iter().filter_map(Value::as_str) {
            patch.push_str(line);
            patch.push('\n');
        }
        if patch.len() > DIFF_BYTES {
            return None;
        }
    }
    Some(patch)
}

/// How a command ended, where that can be known: the program reports failures in the text alone.
pub(super) fn exit(name: &str, done: &Value, text: &str, is_error: bool) -> Option<Exit> {
    if name != "Bash" {
        return None;
    }
    if is_error {
        let code = text.strip_prefix("Exit code ")?;
        let digits = code.find(|character: char| !character.is_ascii_digit()).unwrap_or(code.len());
        return code[..digits].parse().ok().map(Exit::Status);
    }
    let is_set = |field: &str| done.get(field).is_some_and(|value| !value.is_null() && *value != false);
    // A known meaning stands where a status other than 0 is no failure; a background command has not ended.
    let is_open = is_set("interrupted") || is_set("returnCodeInterpretation") || is_set("backgroundTaskId");
    (done.is_object() && !is_open).then_some(Exit::Status(0))
}

/// The plan that a `TodoWrite` call sets.
pub(super) fn plan(input: &Value) -> Option<Plan> {
    let todos = input.get("todos")?.as_array()?;
    let steps = todos.iter().take(STEPS).filter_map(|todo| {
        let state = match todo.get("status").and_then(Value::as_str) {
            Some("completed") => StepState::Done,
            Some("in_progress") => StepState::Active,
            _ => StepState::Pending,
        };
        let text = todo.get("content").and_then(Value::as_str)?;
        Some(Step { text: cut(text, STEP_BYTES).to_owned(), state: state.into() })
    });
    Some(Plan { steps: steps.collect() })
}

/// The words for an image, with its size: the image itself stays with the agent.
pub(super) fn image(source: &Value) -> String {
    let kind = source.get("media_type").and_then(Value::as_str).unwrap_or("unknown kind");
    let kind = one_line(kind, 40);
    match source.get("data").and_then(Value::as_str) {
        Some(data) => format!("image, {kind}, {} KiB", (data.len() / 4 * 3).div_ceil(1024)),
        None => format!("image, {kind}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn titles_are_one_line_that_a_person_understands() {
        let title = |name: &str, input: Value| title(name, &input, "/w");
        assert_eq!(title("Bash", json!({"command": "ls -l"})), "Run ls -l");
        assert_eq!(title("Bash", json!({"command": "a\nb"})), "Run a b");
        assert_eq!(title("Read", json!({"file_path": "/w/src/a.rs"})), "Read src/a.rs");
        assert_eq!(title("Read", json!({"file_path": "/wide/a.rs"})), "Read /wide/a.rs");
        assert_eq!(title("Grep", json!({"pattern": "x", "path": "/w/src"})), "Search for x in src");
        assert_eq!(title("mcp__files__stat", json!({})), "stat (files)");
        assert_eq!(title("Task", json!({"description": "look"})), "Subagent: look");
        assert_eq!(title("Hologram", json!(null)), "Hologram");
        let long = title("Bash", json!({"command": "é".repeat(400)}));
        assert!(long.chars().count() == TITLE_CHARACTERS + 1 && long.ends_with('…'));
        assert_eq!(title("Bash", json!({"command": "a\u{1b}[31mb"})), "Run ab");
    }

    #[test]
    fn an_edit_has_the_patch_that_the_program_reports() {
        let done = json!({"filePath": "/w/a", "structuredPatch": [
            {"oldStart": 1, "oldLines": 1, "newStart": 1, "newLines": 1, "lines": ["-x", "+y"]}]});
        let input = json!({"file_path": "/w/a", "old_string": "x", "new_string": "y"});
        let found = diff("Edit", &input, &done).unwrap();
        assert_eq!(found.patch.as_deref(), Some("--- /w/a\n+++ /w/a\n@@ -1,1 +1,1 @@\n-x\n+y\n"));
        let asked = diff("Edit", &input, &Value::Null).unwrap();
        assert_eq!((asked.before.as_deref(), asked.after.as_deref()), (Some("x"), Some("y")));
        let created = json!({"filePath": "/w/b", "structuredPatch": [], "originalFile": null});
        let written = diff("Write", &json!({"file_path": "/w/b", "content": "z"}), &created).unwrap();
        assert_eq!((written.before, written.after.as_deref()), (None, Some("z")));
        assert!(diff("Read", &json!({"file_path": "/w/b"}), &Value::Null).is_none());
    }

    #[test]
    fn an_exit_is_told_only_where_it_is_known() {
        let done = json!({"stdout": "hi", "interrupted": false});
        assert_eq!(exit("Bash", &done, "hi", false), Some(Exit::Status(0)));
        assert_eq!(exit("Bash", &json!("Error"), "Exit code 2\nls: no", true), Some(Exit::Status(2)));
        assert_eq!(exit("Bash", &json!({"returnCodeInterpretation": "No matches"}), "", false), None);
        assert_eq!(exit("Bash", &Value::Null, "", false), None);
        assert_eq!(exit("Bash", &json!("no"), "denied", true), None);
        assert_eq!(exit("Read", &done, "hi", false), None);
    }

    #[test]
    fn a_todo_list_is_a_plan() {
        let plan = plan(&json!({"todos": [
            {"content": "a", "status": "completed"}, {"content": "b", "status": "in_progress"},
            {"content": "c", "status": "pending"}, {"status": "pending"}]}))
        .unwrap();
        let states: Vec<_> = plan.steps.iter().map(|step| (step.text.as_str(), step.state.word())).collect();
        assert_eq!(states, [("a", "done".into()), ("b", "active".into()), ("c", "pending".into())]);
        assert_eq!(
            image(&json!({"media_type": "image/png", "data": "A".repeat(4096)})),
            "image, image/png, 3 KiB"
        );
    }
}
