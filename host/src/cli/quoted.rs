//! Names in commands that are printed to be copied: quoted so that a shell, and then this program, reads them as one name.

use shared::name::SessionName;

/// A session's name as an argument that can be pasted into a shell.
pub(super) fn quoted(name: &str) -> String {
    // Only a NUL cannot be quoted, and no name has one: it would be no argument of any program.
    let word = shlex::try_quote(name).map_or_else(|_| "NAME".to_owned(), Into::into);
    // A name that begins with a dash would be read as an option.
    if name.starts_with('-') { format!("-- {word}") } else { word }
}

/// Reads the name of a session on the command line; one without any letter that can be shown is wrong use.
pub(super) fn session_name(text: &str) -> Result<String, String> {
    match SessionName::clean(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_comes_back_from_the_shell_as_it_is() {
        for name in ["plain", "two words", "it's", "\"$HOME\" `id`", "🦀 a;b", "*", "a\\b", "#1", "~"] {
            assert_eq!(shlex::split(&quoted(name)), Some(vec![name.to_owned()]), "{name}");
        }
        assert_eq!(quoted("plain"), "plain");
        assert_eq!(quoted("-x y"), "-- '-x y'");
    }

    #[test]
    fn a_name_needs_something_that_can_be_shown() {
        assert_eq!(session_name(" a "), Ok(" a ".to_owned()));
        for empty in ["", "  ", "\u{202e}\u{7}"] {
            assert!(session_name(empty).is_err(), "{empty:?}");
        }
    }
}
