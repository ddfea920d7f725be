//! What Codex asks before it acts, as an approval that a person sees whole.

use std::path::PathBuf;

use serde_json::Value;
use shared::decision::{Confirm, Matter, Verdict};
use shared::entry::ToolClass;
use shared::ids::{InputId, PartId};

use super::items;
use super::wire::text;
use crate::harness::{Asked, Subject};
use crate::text::one_line;

/// A title is one line of at most so many characters.
const TITLE_CHARACTERS: usize = 160;

/// What is asked before a command runs.
pub(super) fn command(tool: PartId, params: &Value, item: Option<&Value>) -> Option<Asked> {
    let field = |name: &str| {
        let value = text(params, name);
        if value.is_empty() { item.map_or("", |item| text(item, name)) } else { value }
    };
    let (command, directory, reason) = (field("command"), field("cwd"), text(params, "reason"));
    // Without a command it is for something else, such as the network: nobody could see what was allowed.
    if command.is_empty() || params["networkApprovalContext"].is_object() {
        return None;
    }
    let script = items::unwrapped(command);
    let shown = script.as_deref().unwrap_or(command);
    let mut detail = shown.to_owned();
    if !reason.is_empty() {
        detail = format!("{detail}\n\nCodex's reason: {reason}");
    }
    if !directory.is_empty() {
        detail = format!("{detail}\n\nin {directory}");
    }
    let extra = &params["additionalPermissions"];
    if !extra.is_null() {
        detail = format!("{detail}\n\nwith the permissions {extra}");
    }
    let subject = Subject {
        tool: "shell".to_owned(),
        class: ToolClass::Execute,
        command: Some(shown.to_owned()),
        paths: Vec::new(),
    };
    let grant = format!("codex command {command}\0{directory}\0{extra}");
    let title = format!("Run {shown}");
    Some(asked(tool, &title, detail, subject, grant, "this same command in this folder"))
}

/// What is asked before files change; the change is that of the item.
pub(super) fn change(tool: PartId, params: &Value, item: &Value) -> Option<Asked> {
    let mut paths: Vec<PathBuf> = Vec::new();
    for change in items::changes(item) {
        let moved = change["kind"]["move_path"].as_str();
        for path in std::iter::once(text(change, "path")).chain(moved) {
            let path = PathBuf::from(path);
            paths.push(path.canonicalize().unwrap_or(path));
        }
    }
    // Without a change nobody could see what was allowed; with a root it is for more than this change.
    if paths.is_empty() || !params["grantRoot"].is_null() {
        return None;
    }
    paths.sort();
    paths.dedup();
    let detail: String = items::changes(item).map(items::patch).collect();
    let names: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    let grant = format!("codex change {}", names.join("\0"));
    let title = format!("Edit {}", names.join(", "));
    let subject = Subject { tool: "apply_patch".to_owned(), class: ToolClass::Edit, command: None, paths };
    Some(asked(tool, &title, detail, subject, grant, "further changes of exactly these files"))
}

fn asked(tool: PartId, title: &str, detail: String, subject: Subject, grant: String, session: &str) -> Asked {
    let confirm = Confirm {
        tool,
        title: one_line(title, TITLE_CHARACTERS),
        detail,
        options: [Verdict::Allow, Verdict::AllowSession, Verdict::Deny].map(Into::into).to_vec(),
        session: Some(session.to_owned()),
    };
    Asked {
        input: InputId::random(),
        matter: Matter::Confirm(confirm),
        subject: Some(subject),
        grant: Some(grant),
    }
}
