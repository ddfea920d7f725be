//! Keys as a keyboard gives them: names such as `Enter` or `Shift+Tab`, and characters.

use serde_json::{Value, json};

const ALT: u32 = 1;
const CONTROL: u32 = 2;
const META: u32 = 4;
const SHIFT: u32 = 8;

/// One key with what is held down beside it.
pub(super) struct Key {
    name: String,
    code: String,
    windows: u32,
    text: Option<String>,
    modifiers: u32,
}

impl Key {
    /// Reads `Enter`, `Shift+Enter`, `Control+k` and the like.
    pub(super) fn named(text: &str) -> Self {
        let mut names: Vec<&str> = text.split('+').collect();
        let name = names.pop().unwrap_or_default();
        let modifiers = names.into_iter().fold(0, |held, name| {
            held | match name {
                "Alt" => ALT,
                "Control" => CONTROL,
                "Meta" => META,
                "Shift" => SHIFT,
                other => panic!("{other} is no key that is held down"),
            }
        });
        let windows = match name {
            "Backspace" => 8,
            "Tab" => 9,
            "Enter" => 13,
            "Escape" => 27,
            "PageUp" => 33,
            "PageDown" => 34,
            "End" => 35,
            "Home" => 36,
            "ArrowLeft" => 37,
            "ArrowUp" => 38,
            "ArrowRight" => 39,
            "ArrowDown" => 40,
            "Delete" => 46,
            _ => 0,
        };
        let mut key = if windows == 0 {
            let mut characters = name.chars();
            match (characters.next(), characters.next()) {
                (Some(character), None) => Self::character(character),
                _ => panic!("{name} is no key"),
            }
        } else {
            let text = (name == "Enter").then(|| "\r".to_owned());
            Self { name: name.to_owned(), code: name.to_owned(), windows, text, modifiers }
        };
        key.modifiers = modifiers;
        if modifiers & (CONTROL | META | ALT) != 0 {
            key.text = None;
        }
        key
    }

    /// The key that gives a character.
    pub(super) fn character(character: char) -> Self {
        let upper = character.to_ascii_uppercase();
        let (code, windows) = match upper {
            'A'..='Z' => (format!("Key{upper}"), u32::from(upper)),
            '0'..='9' => (format!("Digit{upper}"), u32::from(upper)),
            ' ' => ("Space".to_owned(), 32),
            _ => (String::new(), 0),
        };
        let modifiers = if character.is_ascii_uppercase() { SHIFT } else { 0 };
        Self { name: character.to_string(), code, windows, text: Some(character.to_string()), modifiers }
    }

    /// The key as browsers report it while an input method handles it: key code 229.
    pub(super) fn handled_by_input_method(mut self) -> Self {
        self.windows = 229;
        self.text = None;
        self
    }

    /// The parameters of `Input.dispatchKeyEvent` for pressing it.
    pub(super) fn down(&self) -> Value {
        let mut event = self.event(if self.text.is_some() { "keyDown" } else { "rawKeyDown" });
        if let Some(text) = &self.text {
            event["text"] = json!(text);
            event["unmodifiedText"] = json!(text);
        }
        event
    }

    /// The parameters of `Input.dispatchKeyEvent` for letting it go.
    pub(super) fn up(&self) -> Value {
        self.event("keyUp")
    }

    fn event(&self, kind: &str) -> Value {
        json!({
            "type": kind,
            "key": self.name,
            "code": self.code,
            "windowsVirtualKeyCode": self.windows,
            "nativeVirtualKeyCode": self.windows,
            "modifiers": self.modifiers,
        })
    }
}
