//! What exactly a call of Claude Code would do, in full, for the person who decides: the command, or the patch.

use std::path::PathBuf;

use serde_json::Value;

use super::tools;

/// Lines of context around a change in a patch, as everywhere.
const CONTEXT: usize = 3;

/// What is known of files; all of it is only looked at.
pub(super) struct Files {
    /// Whether a path is an ordinary one inside the working directory, links followed.
    pub(super) is_inside: Box<dyn Fn(&str) -> bool + Send>,
    /// The text at a path, or none where there is nothing yet.
    pub(super) text: Box<dyn Fn(&str) -> Seen + Send>,
    /// Where a path really lies.
    pub(super) real: Box<dyn Fn(&str) -> PathBuf + Send>,
}

/// The text of a file, or none where there is no file yet.
pub(super) type Seen = Result<Option<String>, Unshown>;

/// There is something at the path, but no text of a size that a person may be shown.
pub(super) struct Unshown;

/// What is to be approved, whole, with nothing in it that a terminal or a reader could be fooled by.
pub(super) fn detail(name: &str, input: &Value, files: &Files) -> String {
    let text = |field: &str| input.get(field).and_then(Value::as_str);
    let patched = tools::edited_path(name, input).and_then(|path| edit(name, path, input, files));
    let detail = match (patched, name) {
        (Some(patch), _) => Some(patch),
        (None, "Bash") => {
            let flags = ["run_in_background", "dangerouslyDisableSandbox"]
                .into_iter()
                .filter(|flag| input.get(*flag).and_then(Value::as_bool) == Some(true));
            let flags: String = flags.map(|flag| format!("\n\n({flag})")).collect();
            text("command").map(|command| format!("{command}{flags}"))
        }
        (None, "ExitPlanMode") => text("plan").map(str::to_owned),
        (None, _) => None,
    };
    let detail = detail
        .unwrap_or_else(|| format!("{name} {}", serde_json::to_string_pretty(input).unwrap_or_default()));
    visible(&detail)
}

fn edit(name: &str, path: &str, input: &Value, files: &Files) -> Option<String> {
    let before = (files.text)(path);
    match name {
        "Write" => {
            let content = input.get("content")?.as_str()?;
            match before {
                Ok(before) => Some(unified(path, before.as_deref().unwrap_or_default(), content)),
                Err(Unshown) => Some(format!(
                    "This replaces a file whose present content cannot be shown.\n{}",
                    unified(path, "", content)
                )),
            }
        }
        "Edit" => changes(path, before.unwrap_or_default(), std::slice::from_ref(input)),
        "MultiEdit" => changes(path, before.unwrap_or_default(), input.get("edits")?.as_array()?),
        // A notebook's cells are no lines of a file: what is to be done is shown as it was asked for.
        _ => None,
    }
}

/// The patch of replacements; where they do not fit the file, what was asked for in the same form.
fn changes(path: &str, before: Option<String>, edits: &[Value]) -> Option<String> {
    let pair = |edit: &Value| {
        let text = |field: &str| edit.get(field).and_then(Value::as_str).map(str::to_owned);
        let is_all = edit.get("replace_all").and_then(Value::as_bool) == Some(true);
        Some((text("old_string")?, text("new_string")?, is_all))
    };
    let edits: Vec<(String, String, bool)> = edits.iter().map(pair).collect::<Option<_>>()?;
    if let Some(before) = before {
        let mut after = Some(before.clone());
        for (old, new, is_all) in &edits {
            after = after.filter(|text| !old.is_empty() && text.contains(old.as_str())).map(|text| {
                if *is_all { text.replace(old.as_str(), new) } else { text.replacen(old.as_str(), new, 1) }
            });
        }
        if let Some(after) = after {
            return Some(unified(path, &before, &after));
        }
    }
    let mut patch = format!("--- {path}\n+++ {path}\n");
    for (old, new, is_all) in &edits {
        patch.push_str(if *is_all { "@@ every place @@\n" } else { "@@ @@\n" });
        old.lines().for_each(|line| patch.push_str(&format!("-{line}\n")));
        new.lines().for_each(|line| patch.push_str(&format!("+{line}\n")));
    }
    Some(patch)
}

/// A unified patch of one hunk from the first changed line to the last.
fn unified(path: &str, before: &str, after: &str) -> String {
    let (old, new): (Vec<&str>, Vec<&str>) =
        (before.split_inclusive('\n').collect(), after.split_inclusive('\n').collect());
    let same = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let shorter = old.len().min(new.len()) - same;
    let same_end =
        old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(old, new)| old == new).count();
    let from = same.saturating_sub(CONTEXT);
    let end_of = |lines: &[&str]| (lines.len() - same_end + CONTEXT).min(lines.len());
    let start = |lines: &[&str]| if lines.is_empty() { 0 } else { from + 1 };
    let mut patch = format!(
        "--- {}\n+++ {path}\n@@ -{},{} +{},{} @@\n",
        if before.is_empty() { "/dev/null" } else { path },
        start(&old),
        end_of(&old) - from,
        start(&new),
        end_of(&new) - from,
    );
    let parts = [
        (' ', &old[from..same]),
        ('-', &old[same..old.len() - same_end]),
        ('+', &new[same..new.len() - same_end]),
        (' ', &old[old.len() - same_end..end_of(&old)]),
    ];
    for (sign, lines) in parts {
        for line in lines {
            patch.push(sign);
            patch.push_str(line);
            if !line.ends_with('\n') {
                patch.push_str("\n\\ No newline at end of file\n");
            }
        }
    }
    patch
}

/// The text with everything that could hide a part of it written as an escape.
fn visible(text: &str) -> String {
    let mut shown = String::with_capacity(text.len());
    for c in text.chars() {
        let is_hidden = (c.is_control() && c != '\n' && c != '\t')
            || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{2069}' | '\u{feff}');
        if is_hidden { shown.extend(c.escape_unicode()) } else { shown.push(c) }
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn files(text: Option<&'static str>) -> Files {
        Files {
            is_inside: Box::new(|_| true),
            text: Box::new(move |_| Ok(text.map(str::to_owned))),
            real: Box::new(|path| PathBuf::from(path)),
        }
    }

    #[test]
    fn what_is_to_be_done_is_shown_whole_and_nothing_hides() {
        let command = json!({"command": "rm -rf \u{1b}[8mbuild\u{202e}\u{0}", "description": "harmless"});
        assert_eq!(detail("Bash", &command, &files(None)), "rm -rf \\u{1b}[8mbuild\\u{202e}\\u{0}");
        let loose = json!({"command": "ls", "dangerouslyDisableSandbox": true});
        assert_eq!(detail("Bash", &loose, &files(None)), "ls\n\n(dangerouslyDisableSandbox)");
        let other = detail("mcp__a__b", &json!({"x": 1}), &files(None));
        assert_eq!(other, "mcp__a__b {\n  \"x\": 1\n}");
    }

    #[test]
    fn an_edit_is_a_patch_of_the_file_as_it_is() {
        let file = "1\n2\n3\n4\n5\n6\n7\n8\n9";
        let edit = json!({"file_path": "f", "old_string": "5\n", "new_string": "five\nand more\n"});
        assert_eq!(
            detail("Edit", &edit, &files(Some(file))),
            "--- f\n+++ f\n@@ -2,7 +2,8 @@\n 2\n 3\n 4\n-5\n+five\n+and more\n 6\n 7\n 8\n"
        );
        let both = json!({"file_path": "f", "edits": [
            {"old_string": "8", "new_string": "eight"}, {"old_string": "9", "new_string": "nine"}]});
        assert_eq!(
            detail("MultiEdit", &both, &files(Some(file))),
            "--- f\n+++ f\n@@ -5,5 +5,5 @@\n 5\n 6\n 7\n-8\n-9\n\\ No newline at end of file\n+eight\n+nine\n\\ No newline at end of file\n"
        );
        // What the file does not have is shown as it was asked for.
        assert_eq!(
            detail("Edit", &edit, &files(Some("else"))),
            "--- f\n+++ f\n@@ @@\n-5\n+five\n+and more\n"
        );
    }

    #[test]
    fn a_write_shows_what_it_replaces() {
        let write = json!({"file_path": "f", "content": "a\nb\n"});
        let new = "--- /dev/null\n+++ f\n@@ -0,0 +1,2 @@\n+a\n+b\n";
        assert_eq!(detail("Write", &write, &files(None)), new);
        assert_eq!(detail("Write", &write, &files(Some("a\n"))), "--- f\n+++ f\n@@ -1,1 +1,2 @@\n a\n+b\n");
    }
}
