//! Text from agents and tools made fit for people: broken UTF-8 replaced, terminal controls taken out, cuts on character boundaries.

use std::borrow::Cow;

pub use shared::json::cut;

/// `text` without anything that could steer a terminal or reorder what is read: CSI, OSC, DCS, SOS, PM and APC sequences (also unterminated
/// ones), control characters of C0 and C1, and bidirectional overrides. `\n` and `\t` stay; nothing is put in.
#[must_use]
pub fn strip_controls(text: &str) -> Cow<'_, str> {
    if !text.chars().any(is_stripped) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(Stripper::default().push(text))
}

/// One line for people: controls out, white space folded to single spaces, at most `characters` characters with the cut shown.
#[must_use]
pub fn one_line(text: &str, characters: usize) -> String {
    let clean = strip_controls(text);
    let mut line = String::new();
    for (count, c) in clean
        .split_whitespace()
        .enumerate()
        .flat_map(|(index, word)| {
            let space = (index > 0).then_some(' ');
            space.into_iter().chain(word.chars())
        })
        .enumerate()
    {
        if count == characters {
            line.push('…');
            break;
        }
        line.push(c);
    }
    line
}

/// Strips controls from text that comes in pieces: a sequence may begin in one piece and end in another.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stripper {
    state: State,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum State {
    /// Plain text.
    #[default]
    Text,
    /// After ESC.
    Escape,
    /// After ESC and an intermediate byte, as in `ESC ( B`.
    Intermediate,
    /// In a CSI sequence.
    Csi,
    /// In the string of an OSC, DCS, SOS, PM or APC sequence.
    Body,
    /// After ESC in such a string.
    BodyEscape,
}

impl Stripper {
    /// The next piece, without its controls.
    #[must_use]
    pub fn push(&mut self, piece: &str) -> String {
        piece.chars().filter(|c| self.keeps(*c)).collect()
    }

    fn keeps(&mut self, c: char) -> bool {
        // What can begin a sequence does so in every state, and a line's end ends every sequence: no more than a line is ever lost.
        let (state, kept) = match (self.state, c) {
            (State::Body, '\u{1b}') => (State::BodyEscape, false),
            (_, '\n') => (State::Text, true),
            (_, '\u{1b}') => (State::Escape, false),
            (_, '\u{9b}') => (State::Csi, false),
            (_, '\u{90}' | '\u{98}' | '\u{9d}' | '\u{9e}' | '\u{9f}') => (State::Body, false),
            (_, '\u{9c}' | '\u{18}' | '\u{1a}') => (State::Text, false),
            (State::Body | State::BodyEscape, '\u{7}') => (State::Text, false),
            (State::BodyEscape, '\\') => (State::Text, false),
            (State::Escape | State::BodyEscape, '[') => (State::Csi, false),
            (State::Escape | State::BodyEscape, ']' | 'P' | 'X' | '^' | '_') => (State::Body, false),
            (State::Escape | State::BodyEscape | State::Intermediate, ' '..='/') => {
                (State::Intermediate, false)
            }
            (State::Escape | State::BodyEscape | State::Intermediate, '0'..='~') => (State::Text, false),
            (State::Csi, '\u{20}'..='\u{3f}') => (State::Csi, false),
            (State::Csi, '\u{40}'..='\u{7e}') => (State::Text, false),
            (State::Body, _) => (State::Body, false),
            // A control inside a sequence does not end it; anything else that has no place there does, and is text.
            (state, c) if is_stripped(c) => (state, false),
            (State::Text | State::Escape | State::Intermediate | State::Csi | State::BodyEscape, _) => {
                (State::Text, true)
            }
        };
        self.state = state;
        kept
    }
}

/// Turns bytes that come in pieces into text; what is no UTF-8 becomes `U+FFFD`, a character cut by the pieces does not.
#[derive(Debug, Clone, Default)]
pub struct Decoder {
    held: Vec<u8>,
}

impl Decoder {
    /// The next piece as text, up to a character that is not complete yet.
    #[must_use]
    pub fn push(&mut self, piece: &[u8]) -> String {
        self.held.extend_from_slice(piece);
        let mut text = String::new();
        let mut rest = self.held.as_slice();
        loop {
            match std::str::from_utf8(rest) {
                Ok(good) => {
                    text.push_str(good);
                    rest = &[];
                    break;
                }
                Err(broken) => {
                    let (good, after) = rest.split_at(broken.valid_up_to());
                    text.push_str(&String::from_utf8_lossy(good));
                    let Some(length) = broken.error_len() else {
                        rest = after;
                        break;
                    };
                    text.push(char::REPLACEMENT_CHARACTER);
                    rest = after.get(length..).unwrap_or_default();
                }
            }
        }
        self.held = rest.to_vec();
        text
    }

    /// Bytes that are held because their character is not complete yet: at most 3.
    #[must_use]
    pub fn held(&self) -> usize {
        self.held.len()
    }

    /// The end: what is held is no character any more.
    #[must_use]
    pub fn finish(&mut self) -> &'static str {
        if std::mem::take(&mut self.held).is_empty() { "" } else { "\u{fffd}" }
    }
}

fn is_stripped(c: char) -> bool {
    let is_control = c.is_control() && c != '\n' && c != '\t';
    is_control || matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn sequences_go_and_text_stays() {
        for (dirty, clean) in [
            ("plain\n\ttext", "plain\n\ttext"),
            ("\u{1b}[1;31mred\u{1b}[0m", "red"),
            ("\u{1b}]0;title\u{7}after", "after"),
            ("\u{1b}]8;;http://x\u{1b}\\link\u{1b}]8;;\u{1b}\\", "link"),
            ("\u{1b}Pq#0\u{1b}\\after", "after"),
            ("\u{1b}_hidden\u{1b}\\after", "after"),
            ("\u{9b}31mred", "red"),
            ("\u{9d}0;t\u{9c}after", "after"),
            ("\u{1b}(Bafter", "after"),
            ("\u{1b}cafter", "after"),
            ("\u{1b}]0;never ends\nnext line", "\nnext line"),
            ("half\u{1b}[12", "half"),
            ("half\u{1b}", "half"),
            ("a\u{202e}b\u{2066}c", "abc"),
            ("a\r\nb\u{8}\u{7f}\u{0}", "a\nb"),
            ("\u{1b}[\u{1b}[31mx", "x"),
            ("\u{1b}[3é", "é"),
            ("ünï 🦀", "ünï 🦀"),
        ] {
            assert_eq!(strip_controls(dirty), clean, "{dirty:?}");
        }
    }

    #[test]
    fn clean_text_is_not_copied() {
        assert!(matches!(strip_controls("clean\n"), Cow::Borrowed(_)));
    }

    #[test]
    fn one_line_is_one_line() {
        assert_eq!(one_line("a\n  b\u{1b}[2Jc", 80), "a bc");
        assert_eq!(one_line("abcdef", 3), "abc…");
        assert_eq!(one_line("abc", 3), "abc");
    }

    /// Text that is likely to hold sequences.
    fn dirty() -> impl Strategy<Value = String> {
        let part = prop_oneof![
            any::<char>().prop_map(String::from),
            prop::sample::select(vec![
                "\u{1b}", "\u{1b}[", "\u{1b}]", "\u{1b}P", "\u{9b}", "\u{9d}", "\u{7}", "\u{1b}\\", "m",
                "1;2", "\n", "text", "\u{202e}", "\r"
            ])
            .prop_map(String::from),
        ];
        prop::collection::vec(part, 0..40).prop_map(|parts| parts.concat())
    }

    proptest! {
        #[test]
        fn nothing_that_steers_is_left_and_nothing_is_invented(text in dirty()) {
            let clean = strip_controls(&text).into_owned();
            prop_assert!(!clean.chars().any(is_stripped));
            let mut source = text.chars();
            prop_assert!(clean.chars().all(|c| source.any(|s| s == c)));
            prop_assert_eq!(strip_controls(&clean), clean.as_str());
            prop_assert_eq!(clean.matches('\n').count(), text.matches('\n').count());
        }

        #[test]
        fn pieces_give_what_the_whole_gives(text in dirty(), at in any::<prop::sample::Index>()) {
            let at = text.floor_char_boundary(at.index(text.len() + 1));
            let mut stripper = Stripper::default();
            let (first, second) = text.split_at(at);
            let pieces = format!("{}{}", stripper.push(first), stripper.push(second));
            prop_assert_eq!(pieces, strip_controls(&text));
        }

        #[test]
        fn bytes_in_pieces_decode_as_the_whole_does(bytes in prop::collection::vec(any::<u8>(), 0..64), size in 1_usize..9) {
            let mut decoder = Decoder::default();
            let mut text: String = bytes.chunks(size).map(|piece| decoder.push(piece)).collect();
            text.push_str(decoder.finish());
            prop_assert_eq!(text, String::from_utf8_lossy(&bytes));
        }
    }
}
