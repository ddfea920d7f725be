//! What a tool call may do: a call becomes [`Permitted`] work here, or is denied with a reason; tools take nothing else (docs/permissions.md).

use super::tools::{Action, EditFile, ReadFile, SetPlan, WriteFile};
use super::workspace::Workspace;
use crate::config::Permissions;

pub mod command;

use command::Harmless;

/// Work that was permitted; only [`permit`] makes one.
#[derive(Debug, Clone, PartialEq)]
pub struct Permitted(pub(super) Work);

/// What is to be done.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Work {
    /// Read a file.
    Read(ReadFile),
    /// Write a file.
    Write(WriteFile),
    /// Change a file.
    Edit(EditFile),
    /// Run a program.
    Run(Harmless),
    /// Show a plan.
    Plan(SetPlan),
}

/// Why a call was denied; the sentence is for the model and for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// Nothing may be changed.
    #[error(
        "this session may not change files; put permissions = \"edits\" into config.toml to let agents edit inside the working directory"
    )]
    Edits,
    /// The inside of a repository is not for tools.
    #[error("{0} belongs to git itself: what stands there can make git run programs")]
    Repository(String),
    /// The command is not on the list of harmless ones.
    #[error("this session may run nothing but harmless commands that only look: {0}")]
    Command(#[from] command::NotHarmless),
}

/// Decides about a call.
///
/// # Errors
/// [`Denied`] says why it may not be done.
pub fn permit(action: Action, permissions: Permissions, workspace: &Workspace) -> Result<Permitted, Denied> {
    match action {
        Action::Read(read) => Ok(Permitted(Work::Read(read))),
        Action::Plan(plan) => Ok(Permitted(Work::Plan(plan))),
        Action::Bash(bash) => {
            Ok(Permitted(Work::Run(Harmless::parse(&bash.command, bash.seconds(), workspace)?)))
        }
        Action::Write(write) => {
            may_edit(permissions, workspace, &write.path)?;
            Ok(Permitted(Work::Write(write)))
        }
        Action::Edit(edit) => {
            may_edit(permissions, workspace, &edit.path)?;
            Ok(Permitted(Work::Edit(edit)))
        }
    }
}

fn may_edit(permissions: Permissions, workspace: &Workspace, path: &str) -> Result<(), Denied> {
    match permissions {
        Permissions::Ask | Permissions::Deny => Err(Denied::Edits),
        Permissions::Edits => match workspace.writable(path) {
            Ok(inside) if inside.is_repository_internal() => Err(Denied::Repository(path.to_owned())),
            // A path that leads out is an error of the call, which the tool itself reports.
            Ok(_) | Err(_) => Ok(()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn decide(permissions: Permissions, tool: &str, input: &Value) -> Result<Permitted, Denied> {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        permit(Action::read(tool, input).unwrap(), permissions, &workspace)
    }

    #[test]
    fn each_permission_lets_exactly_its_tools_work() {
        let write = json!({"path": "f", "content": ""});
        let edit = json!({"path": "f", "old": "a", "new": "b"});
        for (tool, input, deny, edits) in [
            ("read", json!({"path": "f"}), true, true),
            ("todo", json!({"steps": []}), true, true),
            ("bash", json!({"command": "ls"}), true, true),
            ("bash", json!({"command": "touch f"}), false, false),
            ("write", write, false, true),
            ("edit", edit, false, true),
            ("write", json!({"path": ".git/hooks/pre-commit", "content": ""}), false, false),
            ("edit", json!({"path": "a/.GIT/config", "old": "a", "new": "b"}), false, false),
        ] {
            assert_eq!(decide(Permissions::Deny, tool, &input).is_ok(), deny, "{tool} {input}");
            assert_eq!(decide(Permissions::Edits, tool, &input).is_ok(), edits, "{tool} {input}");
        }
    }

    #[test]
    fn a_denial_says_what_can_be_done() {
        let denied = decide(Permissions::Deny, "write", &json!({"path": "f", "content": ""})).unwrap_err();
        assert!(denied.to_string().contains("permissions = \"edits\""));
        let denied = decide(Permissions::Deny, "bash", &json!({"command": "rm -rf /"})).unwrap_err();
        assert!(denied.to_string().contains("\"rm\"") && denied.to_string().contains("ls"), "{denied}");
    }
}
