//! What a question or an approval asks, and what may be answered (wire §5.3): shared by host, command line and browser, so that all judge alike.

use std::borrow::Cow;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::entry::Input;
use crate::ids::{InputId, PartId, SubmissionId};
use crate::json::{digest, present};
use crate::kind::{Open, kinds};
use crate::limits;
use crate::request::{Answer, AnswerChoice};

/// A question of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Ask {
    /// The question.
    pub question: String,
    /// What can be chosen; where there is nothing, only a text answers. At most 256.
    pub options: Vec<AskOption>,
    /// Several options may be chosen.
    pub multiple: bool,
}

/// One option of a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct AskOption {
    /// What an answer names; no two of one question are equal.
    pub label: String,
    /// What it means; may be empty.
    #[serde(default)]
    pub description: String,
}

/// An approval that an agent needs.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Confirm {
    /// The tool call that waits.
    pub tool: PartId,
    /// One line for people.
    pub title: String,
    /// The exact command or patch in full, at most 1 MiB: what cannot be shown whole is denied.
    pub detail: String,
    /// What can be chosen.
    pub options: Vec<Open<Verdict>>,
    /// What `allow_session` would allow, in a sentence for people; only where it is offered.
    #[serde(default, deserialize_with = "present", skip_serializing_if = "Option::is_none")]
    pub session: Option<String>,
}

/// What can be decided about a tool call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Verdict {
    /// It may run, this once.
    Allow,
    /// It and its like may run until the host ends.
    AllowSession,
    /// It may not.
    Deny,
}

kinds!(Verdict: "allow" "allow_session" "deny");

impl Verdict {
    /// The word of it, as an answer names it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::AllowSession => "allow_session",
            Self::Deny => "deny",
        }
    }
}

/// The word with which an input that nobody decided is resolved.
pub const CANCELLED: &str = "cancelled";

/// What an input is about.
#[derive(Debug, Clone, PartialEq)]
pub enum Matter {
    /// A question.
    Ask(Ask),
    /// An approval.
    Confirm(Confirm),
}

/// A valid answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The call may run, this once.
    Allow,
    /// The call and its like may run until the host ends.
    AllowSession,
    /// The call may not run.
    Deny {
        /// Why, for the model.
        text: Option<String>,
    },
    /// These options of a question, in its own order.
    Chosen(Vec<String>),
    /// A question was answered in words.
    Said(String),
}

/// Why an answer does not fit what is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Unfit {
    /// The digest names something else than what is asked.
    #[error("the answer is to something else than what is asked now")]
    Digest,
    /// The choice is none of those that are offered.
    #[error("that cannot be chosen here")]
    NotOffered,
    /// There is nothing in it.
    #[error("the answer is empty")]
    Empty,
    /// The text is longer than 16 KiB.
    #[error("the text of an answer has at most 16 KiB")]
    TooLarge,
}

/// An `input` entry that does not say what it asks, or whose digest is not of what it asks: it is shown as broken and cannot be answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("this input cannot be read; it can only be cancelled by an interrupt")]
pub struct Unreadable;

impl Matter {
    fn value(&self) -> Value {
        let value = match self {
            Self::Ask(ask) => serde_json::to_value(ask),
            Self::Confirm(confirm) => serde_json::to_value(confirm),
        };
        // Texts, lists and flags only: they always have a JSON form.
        value.unwrap_or_default()
    }

    /// The entry that asks this.
    #[must_use]
    pub fn into_input(self, input: InputId, submission: SubmissionId) -> Input {
        let value = self.value();
        let digest = digest(&value);
        let (ask, confirm) = match self {
            Self::Ask(_) => (Some(value), None),
            Self::Confirm(_) => (None, Some(value)),
        };
        Input { input, submission, ask, confirm, digest }
    }

    /// What an entry asks; only where its digest is of exactly that.
    ///
    /// # Errors
    /// [`Unreadable`] for an entry of another version, or a forged one.
    pub fn of(input: &Input) -> Result<Self, Unreadable> {
        let (value, matter) = match (&input.ask, &input.confirm) {
            (Some(ask), None) => (ask, serde_json::from_value(ask.clone()).map(Self::Ask)),
            (None, Some(confirm)) => (confirm, serde_json::from_value(confirm.clone()).map(Self::Confirm)),
            (None, None) | (Some(_), Some(_)) => return Err(Unreadable),
        };
        if digest(value) != input.digest {
            return Err(Unreadable);
        }
        matter.map_err(|_| Unreadable)
    }

    /// What an answer decides here; `digest` is that of the `input` entry.
    ///
    /// # Errors
    /// [`Unfit`] says why it decides nothing.
    pub fn decide(&self, digest: &str, answer: &Answer) -> Result<Decision, Unfit> {
        if answer.digest != digest {
            return Err(Unfit::Digest);
        }
        if answer.text.as_ref().is_some_and(|text| text.len() > limits::ANSWER_BYTES) {
            return Err(Unfit::TooLarge);
        }
        let text = answer.text.as_deref().map(str::trim).filter(|text| !text.is_empty());
        match (self, &answer.choice) {
            (Self::Confirm(confirm), Some(AnswerChoice::Word(word))) => confirm.decide(word, text),
            (Self::Confirm(_), Some(AnswerChoice::Labels(_)) | None) => Err(Unfit::NotOffered),
            (Self::Ask(ask), Some(AnswerChoice::Labels(labels))) if answer.text.is_none() => {
                ask.choose(labels)
            }
            (Self::Ask(_), None) => text.map(|text| Decision::Said(text.to_owned())).ok_or(Unfit::Empty),
            (Self::Ask(_), Some(AnswerChoice::Labels(_) | AnswerChoice::Word(_))) => Err(Unfit::NotOffered),
        }
    }
}

impl Confirm {
    fn decide(&self, word: &str, text: Option<&str>) -> Result<Decision, Unfit> {
        let verdict = self.options.iter().filter_map(Open::known).find(|verdict| verdict.word() == word);
        match (verdict, text) {
            (Some(Verdict::Allow), None) => Ok(Decision::Allow),
            (Some(Verdict::AllowSession), None) => Ok(Decision::AllowSession),
            (Some(Verdict::Deny), text) => Ok(Decision::Deny { text: text.map(str::to_owned) }),
            // A text would be lost, and who wrote "yes, but…" did not mean a plain yes.
            (Some(Verdict::Allow | Verdict::AllowSession), Some(_)) | (None, _) => Err(Unfit::NotOffered),
        }
    }
}

impl Ask {
    fn choose(&self, labels: &[String]) -> Result<Decision, Unfit> {
        if labels.is_empty() {
            return Err(Unfit::Empty);
        }
        if labels.len() > 1 && !self.multiple {
            return Err(Unfit::NotOffered);
        }
        let chosen: Vec<String> = self
            .options
            .iter()
            .map(|option| &option.label)
            .filter(|label| labels.contains(label))
            .cloned()
            .collect();
        let are_offered = labels.iter().all(|label| chosen.contains(label));
        if are_offered && chosen.len() == labels.len() {
            Ok(Decision::Chosen(chosen))
        } else {
            Err(Unfit::NotOffered)
        }
    }
}

impl Decision {
    /// `choice` and `text` of the `resolved` entry that records it, and of the answer that makes it.
    #[must_use]
    pub fn words(&self) -> (Option<AnswerChoice>, Option<String>) {
        let word = |verdict: Verdict| Some(AnswerChoice::Word(verdict.word().to_owned()));
        match self {
            Self::Allow => (word(Verdict::Allow), None),
            Self::AllowSession => (word(Verdict::AllowSession), None),
            Self::Deny { text } => (word(Verdict::Deny), text.clone()),
            Self::Chosen(labels) => (Some(AnswerChoice::Labels(labels.clone())), None),
            Self::Said(text) => (None, Some(text.clone())),
        }
    }

    /// The answer that makes this decision about an input as it was seen.
    #[must_use]
    pub fn answer(&self, input: &Input) -> Answer {
        let (choice, text) = self.words();
        Answer { input: input.input, digest: input.digest.clone(), choice, text, origin: None }
    }
}

/// Text of an approval with everything made visible that could hide or reorder it: controls but `\n` and `\t`, bidirectional controls,
/// characters without width and line separators become `\u{…}`. What a person allows is what the person has seen.
#[must_use]
pub fn visible(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_hiding) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    for character in text.chars() {
        if is_hiding(character) {
            shown.extend(character.escape_unicode());
        } else {
            shown.push(character);
        }
    }
    Cow::Owned(shown)
}

fn is_hiding(character: char) -> bool {
    let is_control = character.is_control() && !matches!(character, '\n' | '\t');
    is_control
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}'..='\u{1160}' | '\u{17b4}'..='\u{17b5}' | '\u{180b}'..='\u{180f}'
            | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{2800}' | '\u{3164}'
            | '\u{fe00}'..='\u{fe0f}' | '\u{feff}' | '\u{ffa0}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn confirm() -> Matter {
        Matter::Confirm(Confirm {
            tool: "call-1".parse().unwrap(),
            title: "Run a command".to_owned(),
            detail: "rm -rf build".to_owned(),
            options: vec![Verdict::Allow.into(), Verdict::Deny.into()],
            session: None,
        })
    }

    fn ask(multiple: bool) -> Matter {
        let option = |label: &str| AskOption { label: label.to_owned(), description: String::new() };
        Matter::Ask(Ask { question: "Which?".to_owned(), options: vec![option("a"), option("b")], multiple })
    }

    fn input(matter: &Matter) -> Input {
        matter.clone().into_input(InputId::random(), "s-1".parse().unwrap())
    }

    fn decide(matter: &Matter, choice: Option<AnswerChoice>, text: Option<&str>) -> Result<Decision, Unfit> {
        let input = input(matter);
        let text = text.map(str::to_owned);
        let answer = Answer { input: input.input, digest: input.digest.clone(), choice, text, origin: None };
        matter.decide(&input.digest, &answer)
    }

    fn word(word: &str) -> Option<AnswerChoice> {
        Some(AnswerChoice::Word(word.to_owned()))
    }

    fn labels(labels: &[&str]) -> Option<AnswerChoice> {
        Some(AnswerChoice::Labels(labels.iter().map(|&label| label.to_owned()).collect()))
    }

    #[test]
    fn only_what_is_offered_can_be_decided() {
        let deny = |text: Option<&str>| Ok(Decision::Deny { text: text.map(str::to_owned) });
        for (choice, text, expected) in [
            (word("allow"), None, Ok(Decision::Allow)),
            (word("deny"), Some(" not that one "), deny(Some("not that one"))),
            (word("deny"), Some("  "), deny(None)),
            (word("allow_session"), None, Err(Unfit::NotOffered)),
            (word("allow"), Some("but only once"), Err(Unfit::NotOffered)),
            (word("yes"), None, Err(Unfit::NotOffered)),
            (labels(&["allow"]), None, Err(Unfit::NotOffered)),
            (None, Some("allow"), Err(Unfit::NotOffered)),
        ] {
            assert_eq!(decide(&confirm(), choice.clone(), text), expected, "{choice:?} {text:?}");
        }
        let long = "x".repeat(limits::ANSWER_BYTES + 1);
        assert_eq!(decide(&confirm(), word("deny"), Some(&long)), Err(Unfit::TooLarge));
    }

    #[test]
    fn a_question_takes_its_own_labels_or_a_text() {
        let chosen = |labels: &[&str]| Ok(Decision::Chosen(labels.iter().map(|&l| l.to_owned()).collect()));
        assert_eq!(decide(&ask(false), labels(&["b"]), None), chosen(&["b"]));
        assert_eq!(decide(&ask(true), labels(&["b", "a"]), None), chosen(&["a", "b"]));
        assert_eq!(decide(&ask(false), labels(&["a", "b"]), None), Err(Unfit::NotOffered));
        assert_eq!(decide(&ask(true), labels(&["a", "a"]), None), Err(Unfit::NotOffered));
        assert_eq!(decide(&ask(true), labels(&["c"]), None), Err(Unfit::NotOffered));
        assert_eq!(decide(&ask(true), labels(&[]), None), Err(Unfit::Empty));
        assert_eq!(decide(&ask(true), labels(&["a"]), Some("and c")), Err(Unfit::NotOffered));
        assert_eq!(decide(&ask(true), None, Some("neither")), Ok(Decision::Said("neither".to_owned())));
        assert_eq!(decide(&ask(true), None, Some(" ")), Err(Unfit::Empty));
        assert_eq!(decide(&ask(true), word("a"), None), Err(Unfit::NotOffered));
    }

    #[test]
    fn nothing_that_is_allowed_can_hide() {
        assert_eq!(visible("ls -l\n\tgrün 日本 🎉"), "ls -l\n\tgrün 日本 🎉");
        assert_eq!(
            visible("a\rb\u{1b}[8mc\u{202e}d\u{200b}e\0"),
            r"a\u{d}b\u{1b}[8mc\u{202e}d\u{200b}e\u{0}"
        );
        assert_eq!(visible("\u{e0041}"), r"\u{e0041}");
    }

    #[test]
    fn an_answer_to_something_else_decides_nothing() {
        let (seen, asked) = (input(&ask(true)), input(&confirm()));
        let answer = Decision::Allow.answer(&seen);
        assert_eq!(confirm().decide(&asked.digest, &answer), Err(Unfit::Digest));
    }

    #[test]
    fn an_entry_says_what_it_asks_only_with_its_own_digest() {
        for matter in [ask(true), confirm()] {
            let mut entry = input(&matter);
            assert_eq!(Matter::of(&entry), Ok(matter));
            entry.digest.replace_range(..1, "g");
            assert_eq!(Matter::of(&entry), Err(Unreadable));
        }
    }

    #[test]
    fn a_field_of_another_version_is_part_of_what_is_decided() {
        let mut entry = input(&confirm());
        let value = entry.confirm.as_mut().unwrap();
        value["later"] = serde_json::json!(1);
        assert_eq!(Matter::of(&entry), Err(Unreadable));
        entry.digest = digest(entry.confirm.as_ref().unwrap());
        assert_eq!(Matter::of(&entry), Ok(confirm()));
    }
}
