//! What a tool call may do: a call becomes [`Permitted`] work here, or a [`Wish`] that a person has to grant; tools take nothing else
//! (docs/permissions.md).

use std::path::PathBuf;

use shared::decision::{Ask, Confirm, Matter, Verdict};
use shared::ids::{InputId, PartId};

use super::config::Policy;
use super::tools::{Action, EditFile, Glob, Grep, ReadFile, RunCommand, SetPlan, WriteFile};
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
    /// Find files by their names.
    Glob(Glob),
    /// Find files by what is in them.
    Grep(Grep),
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
    /// The tool's policy.
    #[error("the settings do not allow this tool")]
    Policy,
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

/// Judges a call: by the policy of its tool where there is one, else by what it does.
///
/// # Errors
/// [`Denied`] says why it may not be done, whoever would grant it.
pub fn permit(
    action: Action,
    permissions: Permissions,
    policy: Option<Policy>,
    workspace: &Workspace,
) -> Result<Judgement, Denied> {
    if policy == Some(Policy::Deny) {
        return Err(Denied::Policy);
    }
    let (wish, is_harmless) = match judge(action, permissions, workspace)? {
        Judged::Question(ask) => return Ok(Judgement::Asked(ask)),
        Judged::Work(wish, is_harmless) => (wish, is_harmless),
    };
    let runs = match policy {
        Some(Policy::Allow) => true,
        Some(Policy::Confirm | Policy::Deny) => false,
        None => is_harmless,
    };
    Ok(if runs { Judgement::Permitted(wish.grant()) } else { Judgement::Wished(wish) })
}

/// What a call is, before its tool's policy.
enum Judged {
    /// A question to a person.
    Question(Ask),
    /// Work, and whether it needs no person.
    Work(Box<Wish>, bool),
}

fn judge(action: Action, permissions: Permissions, workspace: &Workspace) -> Result<Judged, Denied> {
    let (title, class) = (action.title(), action.class());
    let subject = |tool: &str, command: Option<String>, path: Option<PathBuf>| Subject {
        tool: tool.to_owned(),
        class,
        command,
        paths: path.into_iter().collect(),
    };
    let looking = |tool: &str, work: Work| Wish {
        subject: subject(tool, None, None),
        detail: title.clone(),
        grant: tool.to_owned(),
        session: "every call of this tool",
        title: title.clone(),
        work,
    };
    let (wish, is_harmless) = match action {
        Action::Ask(ask) => return Ok(Judged::Question(ask)),
        Action::Read(read) => (looking("read", Work::Read(read)), true),
        Action::Glob(glob) => (looking("glob", Work::Glob(glob)), true),
        Action::Grep(grep) => (looking("grep", Work::Grep(grep)), true),
        Action::Plan(plan) => (looking("todo", Work::Plan(plan)), true),
        Action::Bash(bash) => {
            let harmless = Harmless::parse(&bash.command, bash.seconds(), workspace).ok();
            let wish = Wish {
                subject: subject("bash", Some(bash.command.clone()), None),
                detail: bash.command.clone(),
                grant: format!("bash {}", bash.command),
                session: "exactly this command",
                title,
                work: harmless.clone().map_or_else(|| Work::Shell(bash), Work::Run),
            };
            (wish, harmless.is_some())
        }
        Action::Write(write) => {
            let path = asked_about(permissions, workspace, &write.path)?;
            let detail = format!("{}\n{}", write.path, marked('+', &write.content));
            let is_harmless = path.is_none();
            (edits(title, subject("write", None, path), detail, Work::Write(write)), is_harmless)
        }
        Action::Edit(edit) => {
            let path = asked_about(permissions, workspace, &edit.path)?;
            let places = if edit.all { " (everywhere in it)" } else { "" };
            let detail =
                format!("{}{places}\n{}{}", edit.path, marked('-', &edit.old), marked('+', &edit.new));
            let is_harmless = path.is_none();
            (edits(title, subject("edit", None, path), detail, Work::Edit(edit)), is_harmless)
        }
    };
    Ok(Judged::Work(Box::new(wish), is_harmless))
}

fn edits(title: String, subject: Subject, detail: String, work: Work) -> Wish {
    let session = "every edit inside the working directory";
    Wish { work, title, subject, detail, grant: "edits".to_owned(), session }
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
        permit(Action::read(tool, input).unwrap(), permissions, None, &workspace)
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

    #[test]
    fn a_policy_decides_before_what_the_call_does() {
        let directory = tempfile::tempdir().unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        for (tool, input) in [
            ("bash", json!({"command": "touch f"})),
            ("bash", json!({"command": "ls"})),
            ("read", json!({"path": "f"})),
            ("edit", json!({"path": "f", "old": "a", "new": "b"})),
        ] {
            let judge = |policy| {
                permit(Action::read(tool, &input).unwrap(), Permissions::Ask, Some(policy), &workspace)
            };
            assert!(matches!(judge(Policy::Allow), Ok(Judgement::Permitted(_))), "{tool}");
            assert!(matches!(judge(Policy::Confirm), Ok(Judgement::Wished(_))), "{tool}");
            assert_eq!(judge(Policy::Deny), Err(Denied::Policy), "{tool}");
        }
        let inside = json!({"path": ".git/config", "content": ""});
        let action = Action::read("write", &inside).unwrap();
        let judged = permit(action, Permissions::Edits, Some(Policy::Allow), &workspace);
        assert!(matches!(judged, Err(Denied::Repository(_))));
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
