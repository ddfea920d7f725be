//! Commands that only look: a strict tokenizer without any shell, and a list of programs with the arguments they may have.

use std::time::Duration;

use crate::engine::workspace::{Outside, Workspace};

/// The longest command that is looked at, in bytes.
const COMMAND_BYTES: usize = 4096;

/// A command that only looks: exactly these words are run, no shell sees them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Harmless {
    program: &'static str,
    arguments: Vec<String>,
    limit: Duration,
}

/// Why a command is not harmless.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotHarmless {
    /// There is none, or it is too long.
    #[error("the command is empty or too long")]
    Size,
    /// It uses the shell.
    #[error("the command uses {0:?}, which means something to a shell")]
    Shell(char),
    /// A quote is open.
    #[error("a quote in the command is not closed")]
    OpenQuote,
    /// The program is not on the list.
    #[error("{0:?} is not among {list}", list = PROGRAM_NAMES)]
    Program(String),
    /// The program may not have the argument.
    #[error("{program} may not have the argument {argument:?} here")]
    Argument {
        /// The program.
        program: &'static str,
        /// The argument.
        argument: String,
    },
    /// A path leads out.
    #[error(transparent)]
    Path(#[from] Outside),
}

/// The names of the list, for the sentence of a denial.
const PROGRAM_NAMES: &str =
    "arch, cat, date, echo, false, head, ls, nproc, pwd, sleep, stat, tail, true, uname, uptime, wc, whoami";

/// What arguments a program may have. Long options are never among them: some read lists of files, some follow a file for ever.
enum Arguments {
    /// None at all.
    None,
    /// Words that are printed and nothing else.
    Words,
    /// These single-letter options, then paths inside the workspace.
    Paths {
        /// Letters that may stand in one word.
        flags: &'static str,
        /// Letters that take a number, in the same word or the next one.
        numbers: &'static str,
    },
    /// These single-letter options alone.
    Flags(&'static str),
    /// A format like `+%F`, or the options.
    Date,
    /// One number of seconds.
    Seconds,
}

/// The list. `git` is not on it: a repository's own configuration can name programs that any git command runs.
const PROGRAMS: [(&str, Arguments); 17] = [
    ("arch", Arguments::None),
    ("cat", Arguments::Paths { flags: "AbeEnstTuv", numbers: "" }),
    ("date", Arguments::Date),
    ("echo", Arguments::Words),
    ("false", Arguments::None),
    ("head", Arguments::Paths { flags: "qv", numbers: "nc" }),
    ("ls", Arguments::Paths { flags: "1AaBCFGghiklmNnopQRrSstUuvXxZd", numbers: "" }),
    ("nproc", Arguments::None),
    ("pwd", Arguments::Flags("LP")),
    ("sleep", Arguments::Seconds),
    ("stat", Arguments::Paths { flags: "t", numbers: "" }),
    ("tail", Arguments::Paths { flags: "qv", numbers: "nc" }),
    ("true", Arguments::None),
    ("uname", Arguments::Flags("asnrvmpio")),
    ("uptime", Arguments::Flags("ps")),
    ("wc", Arguments::Paths { flags: "clLmw", numbers: "" }),
    ("whoami", Arguments::None),
];

impl Harmless {
    /// The command, if it only looks.
    ///
    /// # Errors
    /// [`NotHarmless`] for everything that is not certain to.
    pub fn parse(command: &str, limit: Duration, workspace: &Workspace) -> Result<Self, NotHarmless> {
        let words = words(command)?;
        let (first, rest) = words.split_first().ok_or(NotHarmless::Size)?;
        let (program, allowed) = PROGRAMS
            .iter()
            .find(|(program, _)| program == first)
            .ok_or_else(|| NotHarmless::Program(crate::text::one_line(first, 40)))?;
        allowed.check(program, rest, workspace)?;
        Ok(Self { program, arguments: rest.to_vec(), limit })
    }

    /// The program.
    #[must_use]
    pub fn program(&self) -> &'static str {
        self.program
    }

    /// Its arguments.
    #[must_use]
    pub fn arguments(&self) -> &[String] {
        &self.arguments
    }

    /// How long it may run.
    #[must_use]
    pub fn limit(&self) -> Duration {
        self.limit
    }
}

impl Arguments {
    fn check(
        &self,
        program: &'static str,
        words: &[String],
        workspace: &Workspace,
    ) -> Result<(), NotHarmless> {
        let refused =
            |word: &String| NotHarmless::Argument { program, argument: crate::text::one_line(word, 40) };
        match self {
            Self::Words => Ok(()),
            Self::None => words.first().map_or(Ok(()), |word| Err(refused(word))),
            Self::Flags(flags) => match words.iter().find(|word| !is_flags(word, flags)) {
                Some(word) => Err(refused(word)),
                None => Ok(()),
            },
            Self::Date => match words.iter().find(|word| *word != "-u" && !word.starts_with('+')) {
                Some(word) => Err(refused(word)),
                None => Ok(()),
            },
            Self::Seconds => match words {
                [word] if is_number(word) => Ok(()),
                [] => Err(NotHarmless::Size),
                [word, ..] => Err(refused(word)),
            },
            Self::Paths { flags, numbers } => {
                let mut words = words.iter();
                let mut is_option_possible = true;
                while let Some(word) = words.next() {
                    if is_option_possible && word == "--" {
                        is_option_possible = false;
                    } else if is_option_possible && word.len() > 1 && word.starts_with('-') {
                        if is_flags(word, flags) {
                            continue;
                        }
                        match with_number(word, numbers) {
                            Some("") if words.next().is_some_and(|number| is_number(number)) => {}
                            Some(number) if is_number(number) => {}
                            Some(_) | None => return Err(refused(word)),
                        }
                    } else if word == "-" {
                        return Err(refused(word));
                    } else {
                        // What is missing is for the program to say, as long as it would be inside.
                        workspace.writable(word)?;
                    }
                }
                Ok(())
            }
        }
    }
}

fn is_flags(word: &str, flags: &str) -> bool {
    word.strip_prefix('-')
        .is_some_and(|letters| !letters.is_empty() && letters.chars().all(|letter| flags.contains(letter)))
}

/// What follows the letter of an option that takes a number; for `-5` the number itself.
fn with_number<'a>(word: &'a str, numbers: &str) -> Option<&'a str> {
    let letters = word.strip_prefix('-')?;
    let mut after = letters.chars();
    match after.next() {
        Some(letter) if numbers.contains(letter) => Some(after.as_str()),
        Some(digit) if digit.is_ascii_digit() && !numbers.is_empty() => Some(letters),
        Some(_) | None => None,
    }
}

fn is_number(word: &str) -> bool {
    (1..=9).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_digit())
}

/// The words of a command without anything that a shell would do. Single quotes keep all as it is; double quotes keep all but what a shell expands in them.
fn words(command: &str) -> Result<Vec<String>, NotHarmless> {
    if command.len() > COMMAND_BYTES {
        return Err(NotHarmless::Size);
    }
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut characters = command.chars();
    while let Some(c) = characters.next() {
        match c {
            ' ' | '\t' => words.extend(word.take()),
            '\'' | '"' => {
                let quoted = word.get_or_insert_default();
                loop {
                    match characters.next() {
                        None => return Err(NotHarmless::OpenQuote),
                        Some(close) if close == c => break,
                        Some(inner) if is_control(inner) => return Err(NotHarmless::Shell(inner)),
                        Some(inner @ ('$' | '`' | '\\' | '!')) if c == '"' => {
                            return Err(NotHarmless::Shell(inner));
                        }
                        Some(inner) => quoted.push(inner),
                    }
                }
            }
            // A tilde and a hash mean something at the start of a word only; nobody needs them elsewhere.
            '|' | '&' | ';' | '<' | '>' | '(' | ')' | '{' | '}' | '[' | ']' | '$' | '`' | '\\' | '*'
            | '?' | '!' | '~' | '#' | '^' => {
                return Err(NotHarmless::Shell(c));
            }
            _ if is_control(c) => return Err(NotHarmless::Shell(c)),
            _ => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    if words.is_empty() { Err(NotHarmless::Size) } else { Ok(words) }
}

/// Line ends, other controls, and white space that only looks like a space.
fn is_control(c: char) -> bool {
    c.is_control() || (c.is_whitespace() && c != ' ')
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn workspace() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("a file"), "x").unwrap();
        std::os::unix::fs::symlink("/etc", directory.path().join("out")).unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        (directory, workspace)
    }

    fn parse(command: &str, workspace: &Workspace) -> Result<Harmless, NotHarmless> {
        Harmless::parse(command, Duration::from_secs(1), workspace)
    }

    #[test]
    fn what_only_looks_is_run_word_by_word() {
        let (_directory, workspace) = workspace();
        for (command, program, arguments) in [
            ("ls", "ls", &[][..]),
            ("  ls -la\t. ", "ls", &["-la", "."]),
            ("cat 'a file' \"a file\"", "cat", &["a file", "a file"]),
            ("cat a' 'file", "cat", &["a file"]),
            ("echo 'it; $(rm) `x`' \"a | b\"", "echo", &["it; $(rm) `x`", "a | b"]),
            ("echo ''", "echo", &[""]),
            ("head -n 3 -q 'a file'", "head", &["-n", "3", "-q", "a file"]),
            ("tail -n3 -- -absent", "tail", &["-n3", "--", "-absent"]),
            ("head -5 absent", "head", &["-5", "absent"]),
            ("date +%F", "date", &["+%F"]),
            ("uname -sr", "uname", &["-sr"]),
            ("sleep 5", "sleep", &["5"]),
            ("pwd", "pwd", &[]),
        ] {
            let harmless = parse(command, &workspace).unwrap();
            assert_eq!(harmless.program(), program);
            assert_eq!(harmless.arguments(), arguments, "{command}");
        }
    }

    #[test]
    fn what_is_not_certain_is_refused() {
        let (_directory, workspace) = workspace();
        for command in [
            "",
            "  ",
            "rm x",
            "./ls",
            "/bin/ls",
            "LS",
            "ls; rm x",
            "ls && rm x",
            "ls | sh",
            "ls > x",
            "ls < x",
            "ls &",
            "ls\nrm x",
            "ls\rrm",
            "ls `rm`",
            "ls $(rm)",
            "echo \"$HOME\"",
            "echo \"`rm`\"",
            "echo \\;",
            "ls *",
            "ls ?",
            "ls [a]",
            "ls {a,b}",
            "ls ~",
            "A=1 ls",
            "ls 'a",
            "ls \"a",
            "cat /etc/passwd",
            "cat ../x",
            "cat out/passwd",
            "ls out",
            "ls /",
            "ls -l /",
            "ls -- ..",
            "wc --files0-from=x",
            "tail -f x",
            "tail --follow x",
            "tail -n x",
            "head -n",
            "ls --color",
            "ls -I x",
            "date -s 1",
            "date -f x",
            "date x",
            "uname x",
            "sleep",
            "sleep infinity",
            "sleep 1 2",
            "whoami x",
            "bash",
            "sh -c ls",
            "git status",
            "env ls",
            "cat -",
            "ls\u{a0}x",
            "ls\u{2028}x",
            "echo a^b",
            "true x",
        ] {
            assert!(parse(command, &workspace).is_err(), "{command:?}");
        }
    }

    proptest! {
        #[test]
        fn no_shell_would_read_it_otherwise(command in "[a-z ;|&$`'\"<>*\\\\\n\t.-]{0,40}") {
            // What we take for words, a shell that is given the words quoted must take for the same; so must it without the quotes of ours.
            if let Ok(words) = words(&command) {
                prop_assert!(words.iter().all(|word| !word.contains('\n')));
                let outside_of_quotes = command.split('\'').step_by(2).collect::<String>();
                prop_assert!(command.contains('"') || !outside_of_quotes.contains(['|', '&', ';', '<', '>', '$', '`', '*', '\\', '\n']));
            }
        }

        #[test]
        fn quoted_words_come_out_as_they_went_in(list in prop::collection::vec("[^'\\p{C}\u{a0}\u{2028}\u{2029}\\s]{0,8}", 1..5)) {
            let command = list.iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(" ");
            prop_assert_eq!(words(&command), Ok(list));
        }
    }
}
