//! The rules of the configuration for approvals: the first one that fits decides, before anybody is asked.

use std::path::{Path, PathBuf};

use shared::kind::Open;

use crate::config::{Rule, Verdict};
use crate::harness::Subject;

/// The rules, and the directory from which their paths are meant.
#[derive(Debug, Clone, Default)]
pub(super) struct Policy {
    /// In order.
    pub(super) rules: Vec<Rule>,
    /// Absolute, links followed.
    pub(super) directory: PathBuf,
}

impl Policy {
    /// What the first rule that fits decides, and its number, from 1; none where no rule fits.
    pub(super) fn judge(&self, subject: &Subject) -> Option<(Verdict, usize)> {
        let fitting = self.rules.iter().position(|rule| self.fits(rule, subject))?;
        Some((self.rules[fitting].decision, fitting + 1))
    }

    fn fits(&self, rule: &Rule, subject: &Subject) -> bool {
        let tool = rule.tool.as_deref().is_none_or(|pattern| {
            matches(pattern, &subject.tool, Stars::Any) || pattern == Open::Known(subject.class).word()
        });
        let command = rule.command.as_deref().is_none_or(|pattern| {
            let Some(command) = &subject.command else { return false };
            let is_fit = |part: &str| matches(pattern, part.trim(), Stars::Any);
            match rule.decision {
                // Whatever else a shell would read into it was not meant by whoever wrote the rule.
                Verdict::Allow => is_plain(command) && is_fit(command),
                Verdict::Ask | Verdict::Deny => is_fit(command) || command.split(is_joint).any(is_fit),
            }
        });
        let path = rule.path.as_deref().is_none_or(|pattern| {
            let is_fit = |path: &PathBuf| self.names(pattern, path);
            match rule.decision {
                Verdict::Allow => !subject.paths.is_empty() && subject.paths.iter().all(is_fit),
                Verdict::Ask | Verdict::Deny => subject.paths.iter().any(is_fit),
            }
        });
        tool && command && path
    }

    fn names(&self, pattern: &str, path: &Path) -> bool {
        let shown = if Path::new(pattern).is_absolute() {
            path
        } else {
            match path.strip_prefix(&self.directory) {
                Ok(below) => below,
                Err(_) => return false,
            }
        };
        shown.to_str().is_some_and(|text| matches(pattern, text, Stars::Paths))
    }
}

/// Where a shell begins another command, or a part of one.
fn is_joint(character: char) -> bool {
    matches!(character, '|' | ';' | '&' | '\n' | '\r' | '`' | '(' | ')' | '{' | '}')
}

/// Whether a command line is one command whose words a shell takes as they stand.
fn is_plain(command: &str) -> bool {
    let is_special =
        |character: char| is_joint(character) || matches!(character, '<' | '>' | '$' | '\\' | '\0');
    !command.contains(is_special)
}

/// What `*` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stars {
    /// Any characters.
    Any,
    /// Any characters but `/`; `**` for any.
    Paths,
}

/// Whether the whole text is as the pattern says; in time of the product of both lengths.
fn matches(pattern: &str, text: &str, stars: Stars) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // `reached[i]`: the pattern up to where we are can match the first i characters.
    let mut reached = vec![false; text.len() + 1];
    reached[0] = true;
    let mut at = 0;
    while at < pattern.len() {
        if pattern[at] == '*' {
            let is_double = pattern.get(at + 1) == Some(&'*');
            let takes_slash = stars == Stars::Any || is_double;
            for index in 0..text.len() {
                if reached[index] && (takes_slash || text[index] != '/') {
                    reached[index + 1] = true;
                }
            }
            at += if is_double { 2 } else { 1 };
        } else {
            for index in (0..text.len()).rev() {
                reached[index + 1] = reached[index] && text[index] == pattern[at];
            }
            reached[0] = false;
            at += 1;
        }
    }
    reached[text.len()]
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::entry::ToolClass;

    fn rule(decision: Verdict, tool: Option<&str>, command: Option<&str>, path: Option<&str>) -> Rule {
        let text = |text: Option<&str>| text.map(str::to_owned);
        Rule { decision, tool: text(tool), command: text(command), path: text(path) }
    }

    fn policy(rules: Vec<Rule>) -> Policy {
        Policy { rules, directory: "/work/project".into() }
    }

    fn command(line: &str) -> Subject {
        Subject {
            tool: "Bash".into(),
            class: ToolClass::Execute,
            command: Some(line.into()),
            paths: Vec::new(),
        }
    }

    fn edit(paths: &[&str]) -> Subject {
        let paths = paths.iter().map(PathBuf::from).collect();
        Subject { tool: "Edit".into(), class: ToolClass::Edit, command: None, paths }
    }

    fn decides(policy: &Policy, subject: &Subject) -> Option<Verdict> {
        policy.judge(subject).map(|(verdict, _)| verdict)
    }

    #[test]
    fn an_allowed_command_is_one_plain_command() {
        let policy = policy(vec![rule(Verdict::Allow, None, Some("cargo *"), None)]);
        assert_eq!(decides(&policy, &command("cargo test")), Some(Verdict::Allow));
        for hidden in [
            "cargo test; rm -rf /",
            "cargo $(rm x)",
            "cargo a && b",
            "cargo a\nb",
            "cargo `b`",
            "cargo > x",
            "xcargo test",
        ] {
            assert_eq!(decides(&policy, &command(hidden)), None, "{hidden}");
        }
    }

    #[test]
    fn a_denied_command_is_found_in_a_longer_one_and_the_first_rule_wins() {
        let policy = policy(vec![
            rule(Verdict::Deny, None, Some("rm *"), None),
            rule(Verdict::Allow, Some("execute"), None, None),
        ]);
        for line in ["rm -rf build", "ls; rm x", "echo $(rm x)", "true && rm x"] {
            assert_eq!(policy.judge(&command(line)), Some((Verdict::Deny, 1)), "{line}");
        }
        assert_eq!(policy.judge(&command("ls")), Some((Verdict::Allow, 2)));
        assert_eq!(decides(&policy, &edit(&["/work/project/a"])), None);
    }

    #[test]
    fn an_allowed_path_holds_for_all_files_and_a_denied_one_for_any() {
        let allow = policy(vec![rule(Verdict::Allow, Some("Ed*"), None, Some("src/**"))]);
        assert_eq!(decides(&allow, &edit(&["/work/project/src/a/b.rs"])), Some(Verdict::Allow));
        assert_eq!(decides(&allow, &edit(&["/work/project/src/a", "/work/project/b"])), None);
        assert_eq!(decides(&allow, &edit(&["/work/other/src/a"])), None);
        assert_eq!(decides(&allow, &edit(&[])), None, "files that are not known");
        let deny = policy(vec![rule(Verdict::Deny, None, None, Some("/etc/*"))]);
        assert_eq!(decides(&deny, &edit(&["/work/project/a", "/etc/passwd"])), Some(Verdict::Deny));
        assert_eq!(decides(&deny, &edit(&["/etc/ssh/key"])), None);
    }

    #[test]
    fn patterns_take_stars_and_nothing_else() {
        for (pattern, text, fits) in [
            ("*", "", true),
            ("a*c", "abc", true),
            ("a*c", "abcd", false),
            ("a.c", "abc", false),
            ("**/x", "a/b/x", true),
            ("*x", "a/x", false),
        ] {
            assert_eq!(matches(pattern, text, Stars::Paths), fits, "{pattern} {text}");
        }
        assert!(matches("*x", "a/x", Stars::Any));
    }
}
