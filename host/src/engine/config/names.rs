//! Names of tools with `*` for any characters, and what may be done with the tools that they name.

use std::collections::BTreeMap;

/// What becomes of the calls of a tool.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Policy {
    /// They run.
    Allow,
    /// A person is asked.
    Confirm,
    /// They do not run, and the model is not told of the tool.
    Deny,
}

/// A policy for each tool or pattern of `[tools]`; what none names is judged by what it does (docs/permissions.md).
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Policies(BTreeMap<String, Policy>);

impl Policies {
    /// These policies.
    #[must_use]
    pub fn new(policies: BTreeMap<String, Policy>) -> Self {
        Self(policies)
    }

    /// The policy of a tool: that of its own name, else of the pattern with the most characters, else the stricter one of two.
    #[must_use]
    pub fn of(&self, tool: &str) -> Option<Policy> {
        if let Some(own) = self.0.get(tool) {
            return Some(*own);
        }
        let fitting = self.0.iter().filter(|(pattern, _)| fits(pattern, tool));
        fitting
            .max_by_key(|(pattern, policy)| (pattern.chars().filter(|c| *c != '*').count(), **policy))
            .map(|(_, policy)| *policy)
    }
}

/// Names and patterns.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Names(pub Vec<String>);

impl Names {
    /// Whether a tool is among them.
    #[must_use]
    pub fn hold(&self, tool: &str) -> bool {
        self.0.iter().any(|pattern| fits(pattern, tool))
    }
}

/// Whether a pattern is of the whole text; `*` stands for any characters.
fn fits(pattern: &str, text: &str) -> bool {
    let mut pieces = pattern.split('*');
    let first = pieces.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let Some(last) = pieces.next_back() else { return rest.is_empty() };
    for piece in pieces {
        let Some((_, after)) = rest.split_once(piece) else { return false };
        rest = after;
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_is_of_the_whole_name() {
        for (pattern, text, expected) in [
            ("bash", "bash", true),
            ("bash", "bash2", false),
            ("*", "", true),
            ("github__*", "github__issue", true),
            ("github__*", "a_github__issue", false),
            ("*__delete_*", "x__delete_all", true),
            ("a*a", "a", false),
            ("a*b*c", "abcbc", true),
        ] {
            assert_eq!(fits(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn the_own_name_then_the_longest_pattern_then_the_stricter_one_decides() {
        let policies = [
            ("*", Policy::Confirm),
            ("x__*", Policy::Allow),
            ("x__delete*", Policy::Deny),
            ("*__same", Policy::Allow),
            ("same__*", Policy::Deny),
            ("x__delete_none", Policy::Allow),
        ];
        let policies =
            Policies::new(policies.into_iter().map(|(name, policy)| (name.to_owned(), policy)).collect());
        assert_eq!(policies.of("bash"), Some(Policy::Confirm));
        assert_eq!(policies.of("x__list"), Some(Policy::Allow));
        assert_eq!(policies.of("x__delete_all"), Some(Policy::Deny));
        assert_eq!(policies.of("x__delete_none"), Some(Policy::Allow));
        assert_eq!(policies.of("same__same"), Some(Policy::Deny));
        assert_eq!(Policies::default().of("bash"), None);
    }
}
