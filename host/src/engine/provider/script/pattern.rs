//! Patterns on a message: the whole of it, with `*` for anything; what each `*` stood for can be used in the answer.

/// A pattern. Letters of ASCII match in both cases, white space around a message does not count.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Pattern {
    /// What stands between the stars; more than one where there is a star.
    pieces: Vec<String>,
}

impl Pattern {
    pub(super) fn new(text: &str) -> Self {
        Self { pieces: text.to_ascii_lowercase().split('*').map(str::to_owned).collect() }
    }

    /// What the stars stand for, trimmed, if the text matches; a star takes as little as it can, the last one the rest.
    pub(super) fn find(&self, text: &str) -> Option<Vec<String>> {
        let text = text.trim();
        // ASCII letters alone change, so that places in both texts are the same.
        let lower = text.to_ascii_lowercase();
        let [first, middle @ .., last] = self.pieces.as_slice() else {
            return self.pieces.first().is_some_and(|piece| *piece == lower).then(Vec::new);
        };
        if !lower.starts_with(first.as_str()) {
            return None;
        }
        let mut found = Vec::new();
        let mut at = first.len();
        for piece in middle {
            let start = at + lower.get(at..)?.find(piece.as_str())?;
            found.push(text.get(at..start)?.trim().to_owned());
            at = start + piece.len();
        }
        let end = lower.len().checked_sub(last.len()).filter(|end| *end >= at)?;
        if !lower.ends_with(last.as_str()) {
            return None;
        }
        found.push(text.get(at..end)?.trim().to_owned());
        Some(found)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn find(pattern: &str, text: &str) -> Option<Vec<String>> {
        Pattern::new(pattern).find(text)
    }

    #[test]
    fn a_pattern_without_a_star_is_the_whole_message() {
        assert_eq!(find("List files", " LIST FILES\n"), Some(vec![]));
        assert_eq!(find("hi", "this"), None);
        assert_eq!(find("", ""), Some(vec![]));
    }

    #[test]
    fn a_pattern_with_stars_is_the_whole_and_gives_what_they_stand_for() {
        assert_eq!(find("run *", "Run ls -la"), Some(vec!["ls -la".into()]));
        assert_eq!(find("run *", "please run ls"), None);
        assert_eq!(find("*run *", "please run ls"), Some(vec!["please".into(), "ls".into()]));
        assert_eq!(find("write * to *", "write a to b to c"), Some(vec!["a".into(), "b to c".into()]));
        assert_eq!(find("*.", "über 🦀."), Some(vec!["über 🦀".into()]));
        assert_eq!(find("ab*ba", "aba"), None);
        assert_eq!(find("*", ""), Some(vec!["".into()]));
    }

    proptest! {
        #[test]
        fn stars_stand_for_what_is_between(parts in prop::collection::vec("[b-yé ]{0,6}", 2..5)) {
            let text = format!("A{}A", parts.join("A"));
            let pattern = format!("a{}a", vec!["*"; parts.len()].join("a"));
            let trimmed: Vec<String> = parts.iter().map(|part| part.trim().to_owned()).collect();
            prop_assert_eq!(find(&pattern, &text), Some(trimmed));
        }
    }
}
