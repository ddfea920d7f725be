//! The rules of the configuration, applied to what an agent asks: pure, the first rule that fits decides (docs/permissions.md).

use std::path::{Path, PathBuf};

use shared::kind::Open;

use crate::config::{Rule, Verdict};
use crate::harness::Subject;

/// What means something to a shell: a command with one of these is more than one plain command.
const SHELL: &[char] = &['\n', '\r', ';', '&', '|', '$', '`', '<', '>', '(', ')', '{', '}'];

/// The rules of one session.
#[derive(Debug, Clone)]
pub(super) struct Policy {
    rules: Vec<Rule>,
    /// The working directory, links followed.
    directory: PathBuf,
}

impl Policy {
    pub(super) fn new(rules: Vec<Rule>, directory: PathBuf) -> Self {
        Self { rules, directory }
    }

    /// The number, from 1, and the verdict of the first rule that fits; `None` where none does.
    pub(super) fn judge(&self, subject: &Subject) -> Option<(usize, Verdict)> {
        let index = self.rules.iter().position(|rule| self.fits(rule, subject))?;
        self.rules.get(index).map(|rule| (index + 1, rule.decision))
    }

    fn fits(&self, rule: &Rule, subject: &Subject) -> bool {
        let tool = rule.tool.as_ref().is_none_or(|pattern| {
            matches(pattern, &subject.tool, Wild::Any)
                || matches(pattern, &Open::Known(subject.class).word(), Wild::Any)
        });
        let command = rule.command.as_ref().is_none_or(|pattern| {
            subject.command.as_ref().is_some_and(|command| fits_command(rule.decision, pattern, command))
        });
        let path = rule.path.as_ref().is_none_or(|pattern| {
            let fits = |path: &PathBuf| self.fits_path(pattern, path);
            match rule.decision {
                // One file outside of it is enough not to allow, one inside of it is enough to deny.
                Verdict::Allow => !subject.paths.is_empty() && subject.paths.iter().all(fits),
                Verdict::Ask | Verdict::Deny => subject.paths.iter().any(fits),
            }
        });
        tool && command && path
    }

    fn fits_path(&self, pattern: &str, path: &Path) -> bool {
        let text = |path: &Path| path.to_str().map(str::to_owned);
        if pattern.starts_with('/') {
            return text(path).is_some_and(|path| matches(pattern, &path, Wild::Segment));
        }
        let below = path.strip_prefix(&self.directory).ok().and_then(text);
        below.is_some_and(|below| matches(pattern, &below, Wild::Segment))
    }
}

fn fits_command(decision: Verdict, pattern: &str, command: &str) -> bool {
    let command = command.trim();
    match decision {
        Verdict::Allow => !command.contains(SHELL) && matches(pattern, command, Wild::Any),
        Verdict::Ask | Verdict::Deny => {
            matches(pattern, command, Wild::Any)
                || command.split(SHELL).any(|part| matches(pattern, part.trim(), Wild::Any))
        }
    }
}

/// What one `*` stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wild {
    /// Any characters.
    Any,
    /// Any but `/`; `**` stands for any.
    Segment,
}

/// Whether a pattern is the whole text; in time of their product, however many stars there are.
fn matches(pattern: &str, text: &str, wild: Wild) -> bool {
    let pattern: Vec<char> = pattern.chars().collect();
    let text: Vec<char> = text.chars().collect();
    // `fits[i]`: the pattern so far is the whole of the first `i` characters.
    let mut fits = vec![false; text.len() + 1];
    if let Some(first) = fits.first_mut() {
        *first = true;
    }
    let mut index = 0;
    while let Some(&character) = pattern.get(index) {
        index += 1;
        let mut next = vec![false; text.len() + 1];
        if character == '*' {
            let is_double = pattern.get(index) == Some(&'*');
            index += usize::from(is_double);
            let crosses = is_double || wild == Wild::Any;
            let mut is_open = false;
            for (at, (slot, fit)) in next.iter_mut().zip(&fits).enumerate() {
                let last = at.checked_sub(1).and_then(|before| text.get(before));
                is_open = *fit || (is_open && (crosses || last != Some(&'/')));
                *slot = is_open;
            }
        } else {
            for ((slot, fit), known) in next.iter_mut().skip(1).zip(&fits).zip(&text) {
                *slot = *fit && *known == character;
            }
        }
        fits = next;
    }
    fits.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::entry::ToolClass;

    fn judge(rules: &str, subject: &Subject) -> Option<(usize, Verdict)> {
        let config: crate::config::Config = toml::from_str(rules).unwrap();
        Policy::new(config.rules, PathBuf::from("/work")).judge(subject)
    }

    fn command(command: &str) -> Subject {
        let command = Some(command.to_owned());
        Subject { tool: "Bash".to_owned(), class: ToolClass::Execute, command, paths: Vec::new() }
    }

    fn edit(paths: &[&str]) -> Subject {
        let paths = paths.iter().map(PathBuf::from).collect();
        Subject { tool: "Edit".to_owned(), class: ToolClass::Edit, command: None, paths }
    }

    #[test]
    fn the_first_rule_that_fits_decides() {
        let rules = "[[rules]]\ndecision = \"deny\"\ncommand = \"cargo publish*\"\n\
                     [[rules]]\ndecision = \"allow\"\ntool = \"Bash\"\ncommand = \"cargo *\"\n\
                     [[rules]]\ndecision = \"ask\"\ntool = \"execute\"";
        assert_eq!(judge(rules, &command("cargo test --workspace")), Some((2, Verdict::Allow)));
        assert_eq!(judge(rules, &command("cargo publish --dry-run")), Some((1, Verdict::Deny)));
        assert_eq!(judge(rules, &command("make")), Some((3, Verdict::Ask)));
        assert_eq!(judge(rules, &edit(&["/work/a"])), None);
    }

    #[test]
    fn an_allowed_command_brings_no_other_with_it() {
        let rules = "[[rules]]\ndecision = \"allow\"\ncommand = \"ls*\"";
        assert_eq!(judge(rules, &command("ls -l \"a b\"")), Some((1, Verdict::Allow)));
        for evil in [
            "ls; rm x",
            "ls && rm x",
            "ls | sh",
            "ls $(rm x)",
            "ls `rm x`",
            "ls > x",
            "ls\nrm x",
            "ls ${IFS}",
            "ls &",
        ] {
            assert_eq!(judge(rules, &command(evil)), None, "{evil}");
        }
    }

    #[test]
    fn a_denied_command_is_found_in_a_longer_one() {
        let rules = "[[rules]]\ndecision = \"deny\"\ncommand = \"rm *\"";
        for evil in ["rm x", "ls; rm x", "ls && rm x", "x=$(rm y)", "true | rm z", "(rm x)"] {
            assert_eq!(judge(rules, &command(evil)), Some((1, Verdict::Deny)), "{evil}");
        }
        assert_eq!(judge(rules, &command("git rm x")), None);
    }

    #[test]
    fn a_path_is_allowed_whole_and_denied_in_part() {
        let allow = "[[rules]]\ndecision = \"allow\"\ntool = \"edit\"\npath = \"src/**\"";
        assert_eq!(judge(allow, &edit(&["/work/src/a/b.rs"])), Some((1, Verdict::Allow)));
        assert_eq!(judge(allow, &edit(&["/work/src/a", "/work/Cargo.toml"])), None);
        assert_eq!(judge(allow, &edit(&["/elsewhere/src/a"])), None);
        assert_eq!(judge(allow, &edit(&[])), None);
        let deny = "[[rules]]\ndecision = \"deny\"\npath = \"*.toml\"";
        assert_eq!(judge(deny, &edit(&["/work/src/a", "/work/Cargo.toml"])), Some((1, Verdict::Deny)));
        assert_eq!(judge(deny, &edit(&["/work/src/Cargo.toml"])), None);
        let absolute = "[[rules]]\ndecision = \"deny\"\npath = \"/etc/**\"";
        assert_eq!(judge(absolute, &edit(&["/etc/x/y"])), Some((1, Verdict::Deny)));
    }

    #[test]
    fn many_stars_take_no_long_time() {
        let pattern = "*a".repeat(60);
        assert!(
            !matches(&pattern, &"a".repeat(2000).replace("aaa", "aab"), Wild::Any) || pattern.len() == 120
        );
        assert!(
            matches("**", "", Wild::Segment) && matches("a*", "a", Wild::Any) && !matches("", "a", Wild::Any)
        );
        assert!(matches("*/b", "a/b", Wild::Segment) && !matches("*", "a/b", Wild::Segment));
    }
}
