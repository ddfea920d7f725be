//! Permissions that an agent asks for become inputs, and what is decided becomes one of the agent's own options.

use std::path::Path;

use serde_json::Value;
use shared::decision::{Confirm, Decision, Matter, Verdict};
use shared::entry::ToolClass;
use shared::ids::{InputId, PartId};
use shared::limits;

use super::tools::Call;
use super::wire;
use crate::harness::{Asked, Subject};

/// A permission that waits.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Open {
    /// The agent's id of the request.
    pub(super) id: Value,
    /// Our id of the input.
    pub(super) input: InputId,
    /// The agent's id of the call.
    pub(super) call: String,
    allow: Option<String>,
    allow_always: Option<String>,
    reject: Option<String>,
}

/// Why a permission is not asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Unaskable {
    /// It is too large to be shown whole.
    TooLarge,
    /// None of its options allows anything.
    NoChoice,
}

impl Open {
    /// Reads the options of a request.
    pub(super) fn new(id: Value, call: String, params: &Value) -> Self {
        let options = params.get("options").and_then(Value::as_array);
        let option = |kind: &str| {
            let mut options = options.into_iter().flatten();
            let found = options.find(|option| option.get("kind").and_then(Value::as_str) == Some(kind))?;
            found.get("optionId").and_then(Value::as_str).map(str::to_owned)
        };
        Self {
            id,
            input: InputId::random(),
            call,
            allow: option("allow_once"),
            allow_always: option("allow_always"),
            reject: option("reject_once").or_else(|| option("reject_always")),
        }
    }

    /// What a person is asked.
    pub(super) fn asked(&self, call: &Call, working_directory: &Path) -> Result<Asked, Unaskable> {
        let detail = call.detail();
        if detail.len() > limits::CONFIRM_BYTES {
            return Err(Unaskable::TooLarge);
        }
        let (name, class, command) = (call.name(), call.class(), call.command());
        let paths = call.paths(working_directory);
        let like = match (class, &command, paths.as_slice()) {
            (_, Some(_), _) => {
                Some((detail.clone(), "exactly this command, as often as it likes".to_owned()))
            }
            (ToolClass::Edit | ToolClass::Read, None, [path]) => {
                let path = path.display().to_string();
                let sentence = format!("the tool {name} on {path}, whatever it does to that file");
                Some((path, sentence))
            }
            _ => None,
        };
        let mut options = Vec::new();
        let mut grant = None;
        let mut session = None;
        // An agent keeps its own `always` for longer than a session, so it is told `once` each time and we remember.
        if self.allow.is_some() {
            options.push(Verdict::Allow.into());
            if let Some((key, sentence)) = like {
                options.push(Verdict::AllowSession.into());
                grant = Some(format!("{name}\n{key}"));
                session = Some(sentence);
            }
        } else if self.allow_always.is_some() {
            options.push(Verdict::AllowSession.into());
            grant = Some(format!("{name}\n{}", self.call));
            session =
                Some("what the agent itself means by always; it may remember that for longer".to_owned());
        } else {
            return Err(Unaskable::NoChoice);
        }
        options.push(Verdict::Deny.into());
        let confirm = Confirm {
            tool: PartId::from_harness(&self.call),
            title: call.title(&working_directory.display().to_string()),
            detail,
            options,
            session,
        };
        let subject = Subject { tool: name, class, command, paths };
        Ok(Asked { input: self.input, matter: Matter::Confirm(confirm), subject: Some(subject), grant })
    }

    /// The answer for the agent, and whether the call may run.
    pub(super) fn answer(&self, decision: &Decision) -> (Value, bool) {
        let option = match decision {
            Decision::Allow => self.allow.as_ref(),
            Decision::AllowSession => self.allow.as_ref().or(self.allow_always.as_ref()),
            Decision::Deny { .. } | Decision::Chosen(_) | Decision::Said(_) => None,
        };
        match option {
            Some(option) => (wire::selected(&self.id, option), true),
            None => (self.refusal(), false),
        }
    }

    /// The answer that the call may not run.
    pub(super) fn refusal(&self) -> Value {
        match &self.reject {
            Some(option) => wire::selected(&self.id, option),
            None => wire::cancelled(&self.id),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn asked(options: &Value, call: &Value) -> (Open, Result<Asked, Unaskable>) {
        let open = Open::new(json!(1), "c".to_owned(), &json!({ "options": options }));
        let mut known = Call::default();
        known.update(call);
        let asked = open.asked(&known, Path::new("/"));
        (open, asked)
    }

    #[test]
    fn always_is_remembered_by_us_and_never_by_the_agent() {
        let options = json!([{"optionId": "a", "kind": "allow_always"}, {"optionId": "o", "kind": "allow_once"},
            {"optionId": "r", "kind": "reject_once"}]);
        let call = json!({"title": "bash", "kind": "execute", "rawInput": {"command": "make"}});
        let (open, asked) = asked(&options, &call);
        let asked = asked.unwrap();
        assert_eq!(asked.grant.as_deref(), Some("bash\nmake"));
        assert_eq!(asked.subject.unwrap().command.as_deref(), Some("make"));
        let chosen = |decision| open.answer(&decision).0["result"]["outcome"]["optionId"].clone();
        assert_eq!(chosen(Decision::AllowSession), "o");
        assert_eq!(chosen(Decision::Allow), "o");
        assert_eq!(chosen(Decision::Deny { text: None }), "r");
    }

    #[test]
    fn what_cannot_be_shown_or_allowed_is_not_asked() {
        let call = json!({"kind": "execute", "rawInput": {"command": "x".repeat(limits::CONFIRM_BYTES + 1)}});
        let once = json!([{"optionId": "o", "kind": "allow_once"}]);
        assert_eq!(asked(&once, &call).1, Err(Unaskable::TooLarge));
        let small = json!({"kind": "execute", "rawInput": {"command": "x"}});
        let (open, unaskable) = asked(&json!([{"optionId": "r", "kind": "reject_once"}, 5]), &small);
        assert_eq!(unaskable, Err(Unaskable::NoChoice));
        assert_eq!(open.refusal()["result"]["outcome"]["optionId"], "r");
        let (open, unknown) = asked(&json!([{"optionId": "a", "kind": "allow_always"}]), &json!({}));
        assert!(unknown.is_ok());
        assert_eq!(open.answer(&Decision::Allow).0["result"]["outcome"]["outcome"], "cancelled");
    }
}
