//! What a tool call may do: a call becomes [`Permitted`] work here, or a [`Wish`] that a person has to grant; tools take nothing else
//! (docs/permissions.md).

use std::path::PathBuf;

use shared::decision::{Ask, Confirm, Matter, Verdict};
use shared::entry::ToolClass;
use shared::ids::{InputId, PartId};

use super::tools::{Action, EditFile, ReadFile, RunCommand, SetPlan, WriteFile};
use super::workspace::Workspace;
use super::{Question, Subject};
use crate::config::Permissions;

pub mod command;

use command::Harmless;

/// Work that was permitted; only [`permit`] and [`Wish::grant`] make one.
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
    /// Run a program that only looks.
    Run(Harmless),
    /// Run a command line that a person has seen.
    Shell(RunCommand),
    /// Show a plan.
    Plan(SetPlan),
}

/// How a call goes on.
#[derive(Debug, Clone, PartialEq)]
pub enum Judgement {
    /// It may run.
    Permitted(Permitted),
    /// A person has to grant it.
    Wished(Box<Wish>),
    /// A person has to answer it.
    Asked(Ask),
}

/// Work that a person has to grant.
#[derive(Debug, Clone, PartialEq)]
pub struct Wish {
    work: Work,
    title: String,
    subject: Subject,
    detail: String,
    grant: String,
    session: &'static str,
}

/// Why a call was denied; the sentence is for the model and for people.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Denied {
    /// The inside of a repository is not for tools.
    #[error("{0} belongs to git itself: what stands there can make git run programs")]
    Repository(String),
}

impl Wish {
    /// What a person is asked.
    #[must_use]
    pub fn question(&self, call: PartId) -> Question {
        let options = [Verdict::Allow, Verdict::AllowSession, Verdict::Deny].map(Into::into).to_vec();
        let confirm = Confirm {
            tool: call,
            title: self.title.clone(),
            detail: self.detail.clone(),
            options,
            session: Some(self.session.to_owned()),
        };
        Question {
            input: InputId::random(),
            matter: Matter::Confirm(confirm),
            subject: Some(self.subject.clone()),
            grant: Some(self.grant.clone()),
        }
    }

    /// What all wishes have in common that one grant can cover.
    #[must_use]
    pub fn pattern(&self) -> &str {
        &self.grant
    }

    /// The work, now that a person has granted it.
    #[must_use]
    pub fn grant(self) -> Permitted {
        Permitted(self.work)
    }
}

/// Judges a call.
///
/// # Errors
/// [`Denied`] says why it may not be done, whoever would grant it.
pub fn permit(action: Action, permissions: Permissions, workspace: &Workspace) -> Result<Judgement, Denied> {
    let permitted = |work: Work| Ok(Judgement::Permitted(Permitted(work)));
    let (title, class) = (action.title(), action.class());
    match action {
        Action::Read(read) => permitted(Work::Read(read)),
        Action::Plan(plan) => permitted(Work::Plan(plan)),
        Action::Ask(ask) => Ok(Judgement::Asked(ask)),
        Action::Bash(bash) => match Harmless::parse(&bash.command, bash.seconds(), workspace) {
            Ok(harmless) => permitted(Work::Run(harmless)),
            Err(_) => Ok(Judgement::Wished(Box::new(Wish {
                title,
                subject: Subject {
                    tool: "bash",
                    class,
                    command: Some(bash.command.clone()),
                    paths: Vec::new(),
                },
                detail: bash.command.clone(),
                grant: format!("bash {}", bash.command),
                session: "exactly this command",
                work: Work::Shell(bash),
            }))),
        },
        Action::Write(write) => {
            let Some(path) = asked_about(permissions, workspace, &write.path)? else {
                return permitted(Work::Write(write));
            };
            let detail = format!("{}\n{}", write.path, marked('+', &write.content));
            Ok(edit_wish(title, "write", class, path, detail, Work::Write(write)))
        }
        Action::Edit(edit) => {
            let Some(path) = asked_about(permissions, workspace, &edit.path)? else {
                return permitted(Work::Edit(edit));
            };
            let places = if edit.all { " (everywhere in it)" } else { "" };
            let detail =
                format!("{}{places}\n{}{}", edit.path, marked('-', &edit.old), marked('+', &edit.new));
            Ok(edit_wish(title, "edit", class, path, detail, Work::Edit(edit)))
        }
    }
}

fn edit_wish(
    title: String,
    tool: &'static str,
    class: ToolClass,
    path: PathBuf,
    detail: String,
    work: Work,
) -> Judgement {
    let subject = Subject { tool, class, command: None, paths: vec![path] };
    let session = "every edit inside the working directory";
    Judgement::Wished(Box::new(Wish { work, title, subject, detail, grant: "edits".to_owned(), session }))
}

/// Each line with a mark before it, as in a patch.
fn marked(mark: char, text: &str) -> String {
    text.lines().map(|line| format!("{mark}{line}\n")).collect()
}

/// The file of an edit that a person has to grant; `None` where nobody needs to be asked.
fn asked_about(
    permissions: Permissions,
    workspace: &Workspace,
    path: &str,
) -> Result<Option<PathBuf>, Denied> {
    match workspace.writable(path) {
        Ok(inside) if inside.is_repository_internal() => Err(Denied::Repository(path.to_owned())),
        Ok(inside) => match permissions {
            Permissions::Edits => Ok(None),
            Permissions::Ask | Permissions::Deny => Ok(Some(inside.path().to_owned())),
        },
        // A path that leads out is an error of the call, which the tool itself reports.
        Err(_) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    #[derive(Debug, PartialEq)]
    enum Way {
        Runs,
        Asks,
        Denied,
    }
    use Way::{Asks, Denied as No, Runs};

    fn judge(permissions: Permissions, tool: &str, input: &Value) -> Result<Judgement, Denied> {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        permit(Action::read(tool, input).unwrap(), permissions, &workspace)
    }

    #[test]
    fn each_permission_lets_exactly_its_tools_work_and_a_person_is_asked_for_the_rest() {
        let write = json!({"path": "f", "content": ""});
        let edit = json!({"path": "f", "old": "a", "new": "b"});
        for (tool, input, ask, edits) in [
            ("read", json!({"path": "f"}), Runs, Runs),
            ("todo", json!({"steps": []}), Runs, Runs),
            ("bash", json!({"command": "ls"}), Runs, Runs),
            ("bash", json!({"command": "touch f"}), Asks, Asks),
            ("write", write, Asks, Runs),
            ("edit", edit, Asks, Runs),
            ("write", json!({"path": ".git/hooks/pre-commit", "content": ""}), No, No),
            ("edit", json!({"path": "a/.GIT/config", "old": "a", "new": "b"}), No, No),
            // The tool itself says that it leads out.
            ("write", json!({"path": "../f", "content": ""}), Runs, Runs),
        ] {
            let way = |permissions| match judge(permissions, tool, &input) {
                Ok(Judgement::Permitted(_)) => Runs,
                Ok(Judgement::Wished(_) | Judgement::Asked(_)) => Asks,
                Err(_) => No,
            };
            assert_eq!(way(Permissions::Ask), ask, "{tool} {input}");
            assert_eq!(way(Permissions::Deny), ask, "{tool} {input}");
            assert_eq!(way(Permissions::Edits), edits, "{tool} {input}");
        }
    }

    fn wish(tool: &str, input: &Value) -> Wish {
        match judge(Permissions::Ask, tool, input) {
            Ok(Judgement::Wished(wish)) => *wish,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn what_is_asked_shows_all_that_will_happen() {
        let edit = wish("edit", &json!({"path": "a b", "old": "x\ny", "new": "z", "all": true}));
        assert_eq!(edit.detail, "a b (everywhere in it)\n-x\n-y\n+z\n");
        let write = wish("write", &json!({"path": "f", "content": "1\n\n2"}));
        assert_eq!(write.detail, "f\n+1\n+\n+2\n");
        let bash = wish("bash", &json!({"command": "rm -rf x; ls"}));
        assert_eq!(bash.detail, "rm -rf x; ls");
        assert_ne!(bash.grant, wish("bash", &json!({"command": "rm -rf y; ls"})).grant);
        assert_eq!(edit.grant, write.grant);
    }
}
