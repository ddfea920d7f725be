//! What Codex's items are for people: titles, classes, diffs, results, plans.

use serde_json::{Value, json};
use shared::entry::{Diff, Plan, ResultStatus, Step, StepState, Tool, ToolClass, ToolResult};
use shared::ids::PartId;
use shared::json::{cut, embed};
use shared::limits;
use shared::status::Exit;

use super::wire::text;
use crate::text::{one_line, strip_controls};

/// A title is one line of at most so many characters: what a narrow screen shows in a few lines.
const TITLE_CHARACTERS: usize = 160;
/// The steps of one plan; more are no plan that a person reads.
const STEPS: usize = 200;
/// The text of one step, in bytes.
const STEP_BYTES: usize = 1024;

/// The call that an item is, where it is one.
pub(super) fn tool(call: PartId, item: &Value, working_directory: &str) -> Option<Tool> {
    let (name, title, class, input) = match text(item, "type") {
        "commandExecution" => {
            let command = text(item, "command");
            let shown = unwrapped(command);
            let title = format!("Run {}", shown.as_deref().unwrap_or(command));
            let input = json!({ "command": command, "cwd": item["cwd"] });
            ("shell".to_owned(), title, ToolClass::Execute, input)
        }
        "fileChange" => {
            let paths: Vec<&str> =
                changes(item).map(|change| shortened(text(change, "path"), working_directory)).collect();
            let title = format!("Edit {}", paths.join(", "));
            ("apply_patch".to_owned(), title, ToolClass::Edit, json!({ "changes": item["changes"] }))
        }
        "mcpToolCall" => {
            let (server, tool) = (text(item, "server"), text(item, "tool"));
            let title = format!("{tool} ({server})");
            (format!("{server}/{tool}"), title, ToolClass::Other, item["arguments"].clone())
        }
        "dynamicToolCall" => {
            let tool = text(item, "tool").to_owned();
            (tool.clone(), tool, ToolClass::Other, item["arguments"].clone())
        }
        "webSearch" => {
            let title = format!("Search the web for {}", text(item, "query"));
            ("web_search".to_owned(), title, ToolClass::Fetch, json!({ "query": item["query"] }))
        }
        "imageView" => {
            let title = format!("Look at {}", shortened(text(item, "path"), working_directory));
            ("view_image".to_owned(), title, ToolClass::Read, json!({ "path": item["path"] }))
        }
        "collabAgentToolCall" => {
            let tool = text(item, "tool").to_owned();
            (tool.clone(), format!("Subagent: {tool}"), ToolClass::Think, json!({ "prompt": item["prompt"] }))
        }
        _ => return None,
    };
    Some(Tool {
        call,
        name: cut(&name, limits::WORD_BYTES).to_owned(),
        title: one_line(title.trim_end(), TITLE_CHARACTERS),
        class: class.into(),
        input: embed(input),
    })
}

/// The result of an item that is a call and has ended.
pub(super) fn result(call: PartId, item: &Value) -> ToolResult {
    let status = match text(item, "status") {
        "declined" => ResultStatus::Denied,
        "failed" => ResultStatus::Error,
        "inProgress" => ResultStatus::Interrupted,
        _ => ResultStatus::Ok,
    };
    let all = match text(item, "type") {
        "commandExecution" => text(item, "aggregatedOutput").to_owned(),
        "fileChange" => changes(item).map(|change| text(change, "path")).collect::<Vec<_>>().join("\n"),
        "mcpToolCall" => content(&item["result"]["content"])
            .or_else(|| item["error"]["message"].as_str().map(str::to_owned))
            .unwrap_or_default(),
        "dynamicToolCall" => content(&item["contentItems"]).unwrap_or_default(),
        _ => String::new(),
    };
    let all = strip_controls(&all);
    let kept = cut(&all, limits::RESULT_BYTES);
    let left = all.len() - kept.len();
    let exit = item.get("exitCode").and_then(Value::as_i64).and_then(|code| u32::try_from(code).ok());
    ToolResult {
        call,
        status: status.into(),
        text: kept.to_owned(),
        diff: diff(item),
        exit: exit.map(Exit::Status),
        truncated: (left > 0).then_some(left as u64),
    }
}

/// The texts of the content of a tool of another server.
fn content(blocks: &Value) -> Option<String> {
    let texts: Vec<&str> = blocks.as_array()?.iter().filter_map(|block| block["text"].as_str()).collect();
    Some(texts.join("\n"))
}

/// The changes of an item.
pub(super) fn changes(item: &Value) -> impl Iterator<Item = &Value> {
    item.get("changes").and_then(Value::as_array).into_iter().flatten()
}

/// One change as a patch that a person reads.
pub(super) fn patch(change: &Value) -> String {
    let (path, diff) = (text(change, "path"), text(change, "diff"));
    let lines = |sign: char| diff.lines().map(|line| format!("{sign}{line}\n")).collect::<String>();
    match text(&change["kind"], "type") {
        "add" => format!("--- /dev/null\n+++ {path}\n{}", lines('+')),
        "delete" => format!("--- {path}\n+++ /dev/null\n{}", lines('-')),
        _ => {
            let to = change["kind"]["move_path"].as_str().unwrap_or(path);
            let end = if diff.ends_with('\n') { "" } else { "\n" };
            format!("--- {path}\n+++ {to}\n{diff}{end}")
        }
    }
}

fn diff(item: &Value) -> Option<Diff> {
    if text(item, "type") != "fileChange" || text(item, "status") == "declined" {
        return None;
    }
    let first = changes(item).next()?;
    let path = text(first, "path").to_owned();
    let empty = Diff { path, before: None, after: None, patch: None };
    let only = changes(item).count() == 1;
    let whole = text(first, "diff");
    let found = match text(&first["kind"], "type") {
        "add" if only => Diff { after: Some(whole.to_owned()), ..empty },
        "delete" if only => Diff { before: Some(whole.to_owned()), ..empty },
        _ => Diff { patch: Some(changes(item).map(patch).collect()), ..empty },
    };
    let texts = [&found.before, &found.after, &found.patch];
    let is_small =
        texts.iter().all(|text| text.as_ref().is_none_or(|text| text.len() <= limits::RESULT_BYTES));
    is_small.then_some(found)
}

/// The plan of a turn.
pub(super) fn plan(params: &Value) -> Option<Plan> {
    let steps = params.get("plan")?.as_array()?.iter().take(STEPS).map(|step| {
        let state = match text(step, "status") {
            "completed" => StepState::Done,
            "inProgress" => StepState::Active,
            _ => StepState::Pending,
        };
        Step { text: cut(text(step, "step"), STEP_BYTES).to_owned(), state: state.into() }
    });
    Some(Plan { steps: steps.collect() })
}

fn shortened<'a>(path: &'a str, working_directory: &str) -> &'a str {
    path.strip_prefix(working_directory)
        .and_then(|rest| rest.strip_prefix('/'))
        .filter(|rest| !rest.is_empty())
        .unwrap_or(path)
}

/// The script of `SHELL -lc 'SCRIPT'`, as Codex runs every command; none for anything that is not exactly that.
pub(super) fn unwrapped(command: &str) -> Option<String> {
    let (shell, rest) = command.split_once(' ')?;
    if !["bash", "sh", "zsh"].contains(&shell.rsplit('/').next()?) {
        return None;
    }
    let word = rest.strip_prefix("-lc ").or_else(|| rest.strip_prefix("-c "))?;
    let mut script = String::new();
    let mut characters = word.chars();
    while let Some(character) = characters.next() {
        match character {
            '\'' => loop {
                match characters.next()? {
                    '\'' => break,
                    inside => script.push(inside),
                }
            },
            '"' => loop {
                match characters.next()? {
                    '"' => break,
                    '\\' => match characters.next()? {
                        escaped @ ('"' | '\\' | '$' | '`') => script.push(escaped),
                        other => script.extend(['\\', other]),
                    },
                    '$' | '`' => return None,
                    inside => script.push(inside),
                }
            },
            '\\' => script.push(characters.next()?),
            plain if plain.is_ascii_alphanumeric() || "-_./:=@%+,".contains(plain) => script.push(plain),
            _ => return None,
        }
    }
    Some(script)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_unwrapped_only_where_that_is_exact() {
        let is = |command: &str, script: &str| assert_eq!(unwrapped(command).as_deref(), Some(script));
        is("/bin/bash -lc 'touch a && echo b'", "touch a && echo b");
        is("bash -lc ls", "ls");
        is(r#"/bin/sh -lc "echo 'it'""#, "echo 'it'");
        is(r#"bash -lc 'it'\''s'"#, "it's");
        for odd in ["ls -l", "bash -lc 'a' b", "bash -lc $(x)", "bash -lc 'open", "bash -lc \"$x\"", "bash x"]
        {
            assert_eq!(unwrapped(odd), None, "{odd}");
        }
    }

    #[test]
    fn changes_are_shown_as_diffs() {
        let item = |changes: Value| json!({"type": "fileChange", "status": "completed", "changes": changes});
        let add = json!({"path": "/w/a", "kind": {"type": "add"}, "diff": "x\ny\n"});
        assert_eq!(patch(&add), "--- /dev/null\n+++ /w/a\n+x\n+y\n");
        let update = json!({"path": "/w/b", "kind": {"type": "update", "move_path": null}, "diff": "@@ -1 +1 @@\n-x\n+y\n"});
        assert_eq!(diff(&item(json!([add]))).unwrap().after.as_deref(), Some("x\ny\n"));
        assert_eq!(
            diff(&item(json!([update]))).unwrap().patch.unwrap(),
            "--- /w/b\n+++ /w/b\n@@ -1 +1 @@\n-x\n+y\n"
        );
        let both = diff(&item(json!([add, update]))).unwrap().patch.unwrap();
        assert!(both.contains("+++ /w/a\n") && both.contains("+++ /w/b\n"));
        let title = tool(PartId::random(), &item(json!([add, update])), "/w").unwrap().title;
        assert_eq!(title, "Edit a, b");
    }

    #[test]
    fn output_is_bounded_and_says_what_was_cut() {
        let item = json!({"type": "commandExecution", "status": "failed", "exitCode": 3,
            "aggregatedOutput": "\u{1b}[31mx".repeat(limits::RESULT_BYTES + 5)});
        let found = result(PartId::random(), &item);
        assert_eq!((found.text.len(), found.truncated), (limits::RESULT_BYTES, Some(5)));
        assert!(found.status.is(&ResultStatus::Error));
        assert_eq!(found.exit, Some(Exit::Status(3)));
    }
}
