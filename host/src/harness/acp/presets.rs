//! The agents that are known, as data: how each is started and which of its permission modes ask a person.

use crate::config::{AcpAgent, Config};

/// How an agent is started, and what is known of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Program {
    /// The word by which it is chosen.
    pub(super) name: String,
    /// The program and its arguments; never empty.
    pub(super) command: Vec<String>,
    /// The modes in which it asks before it acts; the first is set at the start. None are known where it is empty.
    pub(super) modes: Vec<String>,
    /// The configuration says that it asks before it acts, whatever it says of modes.
    pub(super) asks: bool,
    /// Variables that are set for it.
    pub(super) environment: Vec<(String, String)>,
    /// Whether it refuses a session at once when nobody is logged in, so that a probe can find that out.
    pub(super) tells_login: bool,
}

/// A preset.
struct Preset {
    name: &'static str,
    arguments: &'static [&'static str],
    /// Only modes in which the agent asks a person before it changes anything, or changes nothing.
    modes: &'static [&'static str],
    environment: &'static [(&'static str, &'static str)],
    tells_login: bool,
}

/// OpenCode allows everything unless its configuration says otherwise, and has no mode for that: its last word is this variable.
const OPENCODE_PERMISSION: &str = concat!(
    r#"{"*":"ask","bash":"ask","edit":"ask","webfetch":"ask","external_directory":"ask","doom_loop":"ask","#,
    r#""read":{"*":"allow","*.env":"ask","*.env.*":"ask","*.env.example":"allow"},"#,
    r#""list":"allow","glob":"allow","grep":"allow","lsp":"allow","todoread":"allow","todowrite":"allow"}"#
);

const PRESETS: [Preset; 4] = [
    Preset {
        name: "opencode",
        arguments: &["acp"],
        modes: &["build", "plan"],
        environment: &[
            ("OPENCODE_PERMISSION", OPENCODE_PERMISSION),
            // A program that replaces itself in mid-session is no program that was probed.
            ("OPENCODE_DISABLE_AUTOUPDATE", "1"),
        ],
        tells_login: false,
    },
    Preset {
        name: "gemini",
        arguments: &["--acp"],
        modes: &["default", "plan"],
        environment: &[],
        tells_login: true,
    },
    Preset {
        name: "qwen",
        arguments: &["--acp"],
        modes: &["default", "plan"],
        environment: &[],
        tells_login: true,
    },
    Preset {
        name: "goose",
        arguments: &["acp"],
        modes: &["approve", "chat"],
        // It starts in this mode too, so that nothing runs between its start and the mode that we set.
        environment: &[("GOOSE_MODE", "approve")],
        tells_login: false,
    },
];

/// Whether a preset has that name.
#[must_use]
pub fn is_preset(name: &str) -> bool {
    PRESETS.iter().any(|preset| preset.name == name)
}

/// The program as it is asked for its version; none for one that would not know the question.
pub(super) fn version(program: &Program) -> Option<Program> {
    let preset = PRESETS.iter().find(|preset| preset.name == program.name)?;
    let (agent, arguments) = program.command.split_first()?;
    (arguments == preset.arguments)
        .then(|| Program { command: vec![agent.clone(), "--version".to_owned()], ..program.clone() })
}

/// The presets with what the configuration changes, then the other agents of the configuration.
pub(super) fn all(config: &Config) -> Vec<Program> {
    let mut programs: Vec<Program> = PRESETS.iter().map(Preset::program).collect();
    for (name, agent) in &config.harness {
        let index = programs.iter().position(|program| program.name == *name);
        match index.and_then(|index| programs.get_mut(index)) {
            Some(program) => program.change(agent),
            None => programs.extend(custom(name, agent)),
        }
    }
    programs
}

impl Preset {
    fn program(&self) -> Program {
        let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
        let mut command = vec![self.name.to_owned()];
        command.extend(words(self.arguments));
        Program {
            name: self.name.to_owned(),
            command,
            modes: words(self.modes),
            asks: false,
            environment: self
                .environment
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect(),
            tells_login: self.tells_login,
        }
    }
}

impl Program {
    fn change(&mut self, agent: &AcpAgent) {
        if !agent.command.is_empty() {
            self.command.clone_from(&agent.command);
        }
        if let Some(mode) = &agent.mode {
            self.modes = vec![mode.clone()];
        }
        self.asks |= agent.asks;
        self.environment.extend(agent.env.clone());
    }
}

/// An agent that only the configuration knows; one without a command is none.
fn custom(name: &str, agent: &AcpAgent) -> Option<Program> {
    if agent.command.is_empty() {
        return None;
    }
    let mut program = Program {
        name: name.to_owned(),
        command: Vec::new(),
        modes: Vec::new(),
        asks: false,
        environment: Vec::new(),
        tells_login: false,
    };
    program.change(agent);
    Some(program)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_preset_can_be_changed_and_an_agent_added() {
        let config: Config = toml::from_str(
            "[harness.goose]\ncommand = [\"/opt/goose\", \"acp\"]\n[harness.mine]\ncommand = [\"mine\"]\nmode = \"ask\"\n[harness.none]\nmode = \"x\"",
        )
        .unwrap();
        let programs = all(&config);
        let names: Vec<&str> = programs.iter().map(|program| program.name.as_str()).collect();
        assert_eq!(names, ["opencode", "gemini", "qwen", "goose", "mine"]);
        assert_eq!(programs[3].command, ["/opt/goose", "acp"]);
        assert_eq!(programs[3].modes, ["approve", "chat"]);
        assert_eq!(programs[4].modes, ["ask"]);
        assert_eq!(version(&programs[3]).unwrap().command, ["/opt/goose", "--version"]);
        assert_eq!(version(&programs[4]), None);
        assert!(is_preset("qwen") && !is_preset("mine"));
    }

    #[test]
    fn no_preset_runs_in_a_mode_that_acts_unasked() {
        let unasked = ["auto", "yolo", "autoEdit", "auto-edit", "smart_approve", "acceptEdits"];
        for preset in &PRESETS {
            assert!(!preset.modes.is_empty() && preset.modes.iter().all(|mode| !unasked.contains(mode)));
        }
        assert!(serde_json::from_str::<serde_json::Value>(OPENCODE_PERMISSION).unwrap().is_object());
    }
}
