//! What a look at an agent found, in a sentence, and the one thing to do about it: pure.

use shared::gate::Finding;

use crate::harness::Version;

/// What a person needs to know of an agent that this program knows by name.
struct Known {
    word: &'static str,
    /// What people call it.
    title: &'static str,
    /// How it is installed, and brought up to date.
    install: &'static str,
    /// How a person logs in.
    login: &'static str,
    /// The table of config.toml in which another program can be named for it.
    table: &'static str,
}

const KNOWN: [Known; 6] = [
    Known {
        word: "claude",
        title: "Claude Code",
        install: "`npm install -g @anthropic-ai/claude-code@latest`",
        login: "run `claude` once and log in with /login",
        table: "[claude] program",
    },
    Known {
        word: "codex",
        title: "Codex",
        install: "`npm install -g @openai/codex@latest`",
        login: "run `codex login`",
        table: "[codex] program",
    },
    Known {
        word: "opencode",
        title: "OpenCode",
        install: "`npm install -g opencode-ai@latest`",
        login: "run `opencode auth login`",
        table: "[harness.opencode] command",
    },
    Known {
        word: "gemini",
        title: "Gemini CLI",
        install: "`npm install -g @google/gemini-cli@latest`",
        login: "run `gemini` once and log in",
        table: "[harness.gemini] command",
    },
    Known {
        word: "qwen",
        title: "Qwen Code",
        install: "`npm install -g @qwen-code/qwen-code@latest`",
        login: "run `qwen` once and log in",
        table: "[harness.qwen] command",
    },
    Known {
        word: "goose",
        title: "goose",
        install: "its installer, as its own documentation says",
        login: "run `goose configure`",
        table: "[harness.goose] command",
    },
];

/// A finding in a sentence, and what to do. `version` is what the program says, `oldest` what the harness needs.
pub(super) fn explain(
    harness: &str,
    finding: &Finding,
    version: Option<Version>,
    oldest: Option<Version>,
) -> (String, Option<String>) {
    let known = KNOWN.iter().find(|known| known.word == harness);
    let title = known.map_or(harness, |known| known.title);
    let update = || match known {
        Some(known) => format!("bring {title} up to date: {}", known.install),
        None => format!("bring {title} up to date"),
    };
    let by_hand = || Some(format!("run `{harness}` by hand to see why"));
    let installed = match version {
        Some(version) => format!("version {version}"),
        None => "installed".to_owned(),
    };
    match finding {
        Finding::Ok => (format!("{installed}, ready"), None),
        Finding::NotLoggedIn => {
            let login = known
                .map_or_else(|| format!("run `{harness}` once and log in"), |known| known.login.to_owned());
            (format!("{installed}, but not logged in"), Some(login))
        }
        Finding::OtherProvider => (
            format!("{installed}, but logged in with another provider than its own"),
            Some(
                "set other_provider = \"allow\" under [gate] in config.toml if that is what you want".into(),
            ),
        ),
        Finding::TimedOut => {
            (format!("{installed}, but did not say in time whether it is logged in"), by_hand())
        }
        Finding::NotFound => {
            let remedy = match known {
                Some(known) => format!(
                    "install {title} by {}, or set {} in config.toml; the built-in aura works without it",
                    known.install, known.table
                ),
                None => format!(
                    "set `command` under [harness.{harness}] in config.toml to a program that is there"
                ),
            };
            ("is not installed".into(), Some(remedy))
        }
        Finding::Silent { .. } => ("ended without an answer".into(), by_hand()),
        Finding::Unreadable => {
            (format!("{installed}, but gave an answer that aude cannot read"), Some(update()))
        }
        Finding::Spawn { detail } => (format!("cannot be started: {detail}"), by_hand()),
        Finding::Unreported => match (version, oldest) {
            (Some(version), Some(oldest)) if version < oldest => {
                (format!("version {version} is too old: aude needs {oldest} or later"), Some(update()))
            }
            (Some(_) | None, _) => {
                (format!("{installed}, but cannot say whether it is logged in"), Some(update()))
            }
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::status::Exit;

    #[test]
    fn a_program_that_is_too_old_gets_the_one_thing_to_do() {
        for (harness, install) in
            [("claude", "@anthropic-ai/claude-code@latest"), ("codex", "@openai/codex@latest")]
        {
            let (sentence, remedy) =
                explain(harness, &Finding::Unreported, Some(Version(0, 1, 2)), Some(Version(2, 1, 197)));
            assert_eq!(sentence, "version 0.1.2 is too old: aude needs 2.1.197 or later");
            assert!(remedy.unwrap().contains(install));
        }
    }

    #[test]
    fn every_finding_but_ok_has_something_to_do_for_every_harness() {
        let findings = [
            Finding::NotLoggedIn,
            Finding::OtherProvider,
            Finding::TimedOut,
            Finding::NotFound,
            Finding::Silent { exit: Exit::Status(1) },
            Finding::Unreadable,
            Finding::Spawn { detail: "why".to_owned() },
            Finding::Unreported,
        ];
        for harness in KNOWN.iter().map(|known| known.word).chain(["mine"]) {
            for finding in &findings {
                assert!(explain(harness, finding, None, None).1.is_some(), "{harness} {finding:?}");
            }
            assert_eq!(explain(harness, &Finding::Ok, None, None), ("installed, ready".to_owned(), None));
        }
        assert_eq!(
            explain("codex", &Finding::NotLoggedIn, Some(Version(0, 171, 0)), None).1.unwrap(),
            "run `codex login`"
        );
    }
}
