//! The questions and approvals of a session that are open, as text for a terminal and as what is typed back: pure.

use shared::decision::{Ask, Confirm, Decision, Matter, Verdict, visible};
use shared::entry::{Entry, Event, Input, Known};
use shared::ids::InputId;
use shared::kind::Open;

/// The open inputs, oldest first.
#[derive(Debug, Default)]
pub(super) struct Inputs {
    open: Vec<Input>,
}

impl Inputs {
    /// Takes an entry of the log, in order.
    pub(super) fn apply(&mut self, entry: &Entry) {
        let Event::Known(known) = &entry.event else { return };
        match known.as_ref() {
            Known::Input(input) => self.open.push(input.clone()),
            Known::Resolved(resolved) => self.open.retain(|input| input.input != resolved.input),
            // Nothing stays open without the run that asked.
            Known::Began { .. } | Known::Ended { .. } => self.open.clear(),
            Known::User(_)
            | Known::Assistant(_)
            | Known::Thinking(_)
            | Known::Tool(_)
            | Known::Result(_)
            | Known::Plan(_)
            | Known::Usage(_)
            | Known::Notice(_)
            | Known::Settings { .. }
            | Known::Status { .. }
            | Known::Gate { .. }
            | Known::Settled { .. }
            | Known::Merged { .. } => {}
        }
    }

    /// The one that is asked first.
    pub(super) fn first(&self) -> Option<&Input> {
        self.open.first()
    }

    /// All of them, oldest first.
    pub(super) fn all(&self) -> &[Input] {
        &self.open
    }

    /// Those whose id is, or begins with, that word.
    pub(super) fn named(&self, word: &str) -> Vec<&Input> {
        self.open.iter().filter(|input| input.input.to_string().starts_with(word)).collect()
    }

    /// How many wait behind the first.
    pub(super) fn behind(&self) -> usize {
        self.open.len().saturating_sub(1)
    }

    /// Forgets all: the log comes again from its beginning.
    pub(super) fn forget(&mut self) {
        self.open.clear();
    }
}

/// What is asked, whole, without colours; nothing in it can hide or steer the terminal.
pub(super) fn question(input: &Input) -> String {
    match Matter::of(input) {
        Ok(Matter::Confirm(confirm)) => {
            let mut text = format!("? {}", line(&confirm.title));
            for line in visible(&confirm.detail).lines() {
                text.push_str("\n  │ ");
                text.push_str(line);
            }
            text
        }
        Ok(Matter::Ask(ask)) => {
            let mut text = format!("? {}", indented(&ask.question));
            for (index, option) in ask.options.iter().enumerate() {
                text.push_str(&format!("\n  {}  {}", index + 1, line(&option.label)));
                if !option.description.is_empty() {
                    text.push_str(&format!(" — {}", line(&option.description)));
                }
            }
            text
        }
        Err(unreadable) => format!("? {unreadable}"),
    }
}

/// What can be typed, in a line.
pub(super) fn choices(input: &Input) -> String {
    match Matter::of(input) {
        Ok(Matter::Confirm(confirm)) => {
            let session =
                confirm.session.as_deref().map(|what| format!(": {}", line(what))).unwrap_or_default();
            let word = |verdict: &Verdict| match verdict {
                Verdict::Allow => "y allows it once".to_owned(),
                Verdict::AllowSession => format!("a allows it until the session's process ends{session}"),
                Verdict::Deny => "n denies it, n REASON says why".to_owned(),
            };
            confirm.options.iter().filter_map(Open::known).map(word).collect::<Vec<_>>().join(" · ")
        }
        Ok(Matter::Ask(ask)) if ask.options.is_empty() => "type the answer".to_owned(),
        Ok(Matter::Ask(ask)) if ask.multiple => {
            "type numbers, as in 1,3, or an answer of your own in words".to_owned()
        }
        Ok(Matter::Ask(_)) => "type a number, or an answer of your own in words".to_owned(),
        Err(_) => "Ctrl-C interrupts the turn".to_owned(),
    }
}

/// The flags of `aude answer` that decide it, in a line.
pub(super) fn flags(input: &Input) -> String {
    match Matter::of(input) {
        Ok(Matter::Confirm(confirm)) => {
            let flag = |verdict: &Verdict| match verdict {
                Verdict::Allow => "--allow",
                Verdict::AllowSession => "--allow-session",
                Verdict::Deny => "--deny or --deny WHY",
            };
            confirm.options.iter().filter_map(Open::known).map(flag).collect::<Vec<_>>().join(", ")
        }
        Ok(Matter::Ask(ask)) if ask.options.is_empty() => "--say TEXT".to_owned(),
        Ok(Matter::Ask(ask)) if ask.multiple => {
            "--choose NUMBER (may be given several times) or --say TEXT".to_owned()
        }
        Ok(Matter::Ask(_)) => "--choose NUMBER or --say TEXT".to_owned(),
        Err(_) => "nothing: only `aude interrupt` ends it".to_owned(),
    }
}

/// The label that a word of `--choose` means: a label itself, else the number that stands before one.
pub(super) fn label(input: &Input, word: String) -> String {
    let Ok(Matter::Ask(ask)) = Matter::of(input) else { return word };
    if ask.options.iter().any(|option| option.label == word) {
        return word;
    }
    numbered(&ask, &word).unwrap_or(word)
}

fn numbered(ask: &Ask, word: &str) -> Option<String> {
    let index = word.parse::<usize>().ok()?.checked_sub(1)?;
    ask.options.get(index).map(|option| option.label.clone())
}

/// A typed line of numbers alone, where numbers choose: what they do not name is a slip, not an answer in words.
fn is_number(text: &str) -> bool {
    let mut words = text.split([',', ' ']).filter(|word| !word.is_empty()).peekable();
    words.peek().is_some() && words.all(|word| word.chars().all(|character| character.is_ascii_digit()))
}

/// What a typed line decides; `None` where it is no answer to that.
pub(super) fn typed(input: &Input, text: &str) -> Option<Decision> {
    let text = text.trim();
    match Matter::of(input).ok()? {
        Matter::Confirm(confirm) => verdict(&confirm, text),
        Matter::Ask(ask) => {
            if text.is_empty() {
                return None;
            }
            let words = text.split([',', ' ']).filter(|word| !word.is_empty());
            let by_number: Option<Vec<String>> = words.map(|word| numbered(&ask, word)).collect();
            match by_number {
                Some(labels) if labels.len() == 1 || ask.multiple => Some(Decision::Chosen(labels)),
                // Two numbers where one is wanted are a slip, not an answer in words.
                Some(_) => None,
                None if ask.options.iter().any(|option| option.label == text) => {
                    Some(Decision::Chosen(vec![text.to_owned()]))
                }
                None if is_number(text) && !ask.options.is_empty() => None,
                None => Some(Decision::Said(text.to_owned())),
            }
        }
    }
}

/// Whether a line is one of the short answers to that, which nobody would send as a turn.
pub(super) fn is_key(input: &Input, text: &str) -> bool {
    match typed(input, text) {
        Some(
            Decision::Allow | Decision::AllowSession | Decision::Deny { text: None } | Decision::Chosen(_),
        ) => true,
        // A number that chooses nothing is a slip here, and no turn either.
        None => matches!(Matter::of(input), Ok(Matter::Ask(_))) && is_number(text),
        Some(Decision::Deny { text: Some(_) } | Decision::Said(_)) => false,
    }
}

fn verdict(confirm: &Confirm, text: &str) -> Option<Decision> {
    let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
    let rest = rest.trim();
    let (verdict, decision) = match (word, rest) {
        ("y" | "yes", "") => (Verdict::Allow, Decision::Allow),
        ("a" | "always", "") => (Verdict::AllowSession, Decision::AllowSession),
        ("n" | "no", "") => (Verdict::Deny, Decision::Deny { text: None }),
        ("n" | "no", why) => (Verdict::Deny, Decision::Deny { text: Some(why.to_owned()) }),
        _ => return None,
    };
    confirm.options.iter().any(|option| option.is(&verdict)).then_some(decision)
}

fn line(text: &str) -> String {
    crate::text::one_line(&visible(text), 400)
}

fn indented(text: &str) -> String {
    visible(text).trim_end().replace('\n', "\n  ")
}

/// Whether that input is among those.
pub(super) fn is_open(inputs: &Inputs, id: InputId) -> bool {
    inputs.all().iter().any(|input| input.input == id)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;
    use shared::decision::AskOption;

    fn confirm(options: &[Verdict]) -> Input {
        let matter = Matter::Confirm(Confirm {
            tool: "call".parse().unwrap(),
            title: "Run a command".to_owned(),
            detail: "rm \u{1b}[2K\u{202e}x\nrm y".to_owned(),
            options: options.iter().map(|&verdict| verdict.into()).collect(),
            session: Some("every `rm`".to_owned()),
        });
        matter.into_input(InputId::random(), "s".parse().unwrap())
    }

    fn ask(multiple: bool) -> Input {
        let option = |label: &str| AskOption { label: label.to_owned(), description: "it".to_owned() };
        let options = vec![option("red"), option("two")];
        Matter::Ask(Ask { question: "Which?".to_owned(), options, multiple })
            .into_input(InputId::random(), "s".parse().unwrap())
    }

    #[test]
    fn an_approval_is_shown_whole_and_nothing_in_it_can_hide() {
        let text = question(&confirm(&[Verdict::Allow]));
        assert_eq!(text, "? Run a command\n  │ rm \\u{1b}[2K\\u{202e}x\n  │ rm y");
    }

    #[test]
    fn only_offered_verdicts_can_be_typed() {
        let all = confirm(&[Verdict::Allow, Verdict::AllowSession, Verdict::Deny]);
        let deny = |text: Option<&str>| Some(Decision::Deny { text: text.map(str::to_owned) });
        for (text, expected) in [
            ("y", Some(Decision::Allow)),
            (" yes ", Some(Decision::Allow)),
            ("a", Some(Decision::AllowSession)),
            ("n", deny(None)),
            ("n use git rm", deny(Some("use git rm"))),
            ("y but carefully", None),
            ("Y", None),
            ("yess", None),
            ("", None),
            ("please go on", None),
        ] {
            assert_eq!(typed(&all, text), expected, "{text}");
        }
        assert_eq!(typed(&confirm(&[Verdict::Allow, Verdict::Deny]), "a"), None);
        assert!(choices(&all).contains("every `rm`"));
        assert!(!choices(&confirm(&[Verdict::Allow])).contains("denies"));
    }

    #[test]
    fn a_question_takes_numbers_labels_and_words() {
        let chosen = |labels: &[&str]| Some(Decision::Chosen(labels.iter().map(|&l| l.to_owned()).collect()));
        assert_eq!(typed(&ask(false), "2"), chosen(&["two"]));
        assert_eq!(typed(&ask(false), "red"), chosen(&["red"]));
        assert_eq!(typed(&ask(true), "1, 2"), chosen(&["red", "two"]));
        assert_eq!(typed(&ask(false), "1, 2"), None);
        for slip in ["3", "0", "1, 3", "99999999999999999999999"] {
            assert_eq!(typed(&ask(true), slip), None, "{slip}");
            assert!(is_key(&ask(true), slip), "{slip}");
        }
        assert_eq!(typed(&ask(true), "3 of them"), Some(Decision::Said("3 of them".to_owned())));
        let free = Matter::Ask(Ask { question: "How many?".to_owned(), options: vec![], multiple: false });
        let free = free.into_input(InputId::random(), "s".parse().unwrap());
        assert_eq!(typed(&free, "3"), Some(Decision::Said("3".to_owned())));
        assert_eq!(typed(&ask(false), "neither"), Some(Decision::Said("neither".to_owned())));
        assert_eq!(typed(&ask(false), " "), None);
    }

    #[test]
    fn the_flags_that_fit_are_named_and_a_number_means_the_option_beside_it() {
        assert_eq!(flags(&confirm(&[Verdict::Allow, Verdict::Deny])), "--allow, --deny or --deny WHY");
        assert!(
            flags(&ask(true)).contains("--choose NUMBER (may be") && flags(&ask(false)).contains("--say")
        );
        assert_eq!(label(&ask(false), "2".to_owned()), "two");
        assert_eq!(label(&ask(false), "red".to_owned()), "red");
        assert_eq!(label(&ask(false), "3".to_owned()), "3");
    }

    #[test]
    fn what_is_resolved_or_left_behind_is_not_open() {
        let entry = |sequence: u64, event: serde_json::Value| {
            let mut event = event;
            event["sequence"] = json!(sequence);
            event["timestamp"] = json!("2026-01-01T12:00:00.000Z");
            serde_json::from_value::<Entry>(event).unwrap()
        };
        let asked = |sequence: u64, input: &Input| {
            let mut value = serde_json::to_value(input).unwrap();
            value["kind"] = json!("input");
            entry(sequence, value)
        };
        let (first, second) = (ask(false), ask(true));
        let mut inputs = Inputs::default();
        inputs.apply(&asked(1, &first));
        inputs.apply(&asked(2, &second));
        assert_eq!((inputs.first(), inputs.behind()), (Some(&first), 1));
        assert_eq!(inputs.named(&second.input.to_string()[..8]), [&second]);
        inputs.apply(&entry(3, json!({"kind": "resolved", "input": first.input, "choice": "cancelled"})));
        assert_eq!(inputs.all(), [second]);
        inputs.apply(&entry(4, json!({"kind": "ended", "ended": "stopped"})));
        assert_eq!(inputs.first(), None);
    }
}
