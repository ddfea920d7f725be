//! Slash commands: what a person or controller asks of the engine itself and not of the model.

use std::fmt::Write as _;

use tokio::sync::mpsc;

use super::conversation::Message;
use super::setup::Setup;
use super::{Engine, EngineEvent, Stop};
use crate::config::Permissions;
use crate::text;

/// Characters of a word in a sentence.
const WORD_CHARACTERS: usize = 40;

/// A command that is known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Command {
    /// What there is.
    Help,
    /// The model, or another one.
    Model(Option<String>),
    /// The agent, or another one.
    Agent(Option<String>),
    /// What tools may do unasked, or something else.
    Mode(Option<String>),
    /// Makes the conversation smaller.
    Compact,
    /// What was said and called so far.
    Stats,
    /// The tools.
    Tools,
    /// The MCP servers.
    Mcp,
}

/// A text that is no command; the sentence says why.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NoCommand {
    /// It does not begin with `/`.
    #[error("a command begins with /")]
    NoSlash,
    /// There is none of that name.
    #[error("there is no command {0}; /help says which there are")]
    Unknown(String),
    /// It would change which session this is.
    #[error("{0} would change to another session; start another process for it")]
    OtherSession(String),
    /// It takes nothing.
    #[error("{0} takes no argument")]
    Argument(&'static str),
}

/// Commands that would change which session this is, and their aliases: an engine has one session for its life.
const OTHER_SESSION: [&str; 10] =
    ["/resume", "/load", "/fork", "/name", "/rename", "/clear", "/new", "/exit", "/quit", "/q"];

const HELP: &str = "/help             what there is
/model [NAME]     the model, or another one
/agent [NAME]     the agent, or another one of the settings
/mode [ask|edits] what tools may do unasked: nothing that changes anything, or also edits
/compact          sums up the conversation, so that it takes less room
/stats            what was said and called so far
/tools            the tools and what becomes of their calls
/mcp              the MCP servers";

impl Command {
    /// Reads a command; its first word is matched as it is written.
    ///
    /// # Errors
    /// [`NoCommand`] says why the text is none.
    pub fn parse(line: &str) -> Result<Self, NoCommand> {
        let line = line.trim();
        let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
        let rest = rest.trim();
        let argument = (!rest.is_empty()).then(|| rest.to_owned());
        let plain = |name: &'static str, command: Self| match argument {
            None => Ok(command),
            Some(_) => Err(NoCommand::Argument(name)),
        };
        match word {
            "/help" => plain("/help", Self::Help),
            "/model" => Ok(Self::Model(argument)),
            "/agent" => Ok(Self::Agent(argument)),
            "/mode" => Ok(Self::Mode(argument)),
            "/compact" => plain("/compact", Self::Compact),
            "/stats" => plain("/stats", Self::Stats),
            "/tools" => plain("/tools", Self::Tools),
            "/mcp" => plain("/mcp", Self::Mcp),
            word if OTHER_SESSION.contains(&word) => Err(NoCommand::OtherSession(word.to_owned())),
            word if word.starts_with('/') => Err(NoCommand::Unknown(text::one_line(word, WORD_CHARACTERS))),
            _ => Err(NoCommand::NoSlash),
        }
    }
}

impl Engine {
    /// Carries a command out and gives its output. `setup` is what the engine was made from, for the names of agents.
    ///
    /// # Errors
    /// A sentence that says why it was not carried out.
    pub async fn command(
        &mut self,
        command: Command,
        setup: &Setup,
        events: &mpsc::Sender<EngineEvent>,
        stop: Stop,
    ) -> Result<String, String> {
        match command {
            Command::Help => Ok(HELP.to_owned()),
            Command::Model(None) => Ok(self.model_line()),
            Command::Model(Some(name)) => self.choose_model(name),
            Command::Agent(None) => Ok(match &self.agent {
                Some(agent) => format!("agent {agent}"),
                None => "no agent is chosen".to_owned(),
            }),
            Command::Agent(Some(name)) => self.choose_agent(name, setup),
            Command::Mode(None) => Ok(format!("mode {}", mode_word(self.permissions))),
            Command::Mode(Some(word)) => {
                self.permissions = match word.as_str() {
                    "ask" => Permissions::Ask,
                    "edits" => Permissions::Edits,
                    _ => return Err("a mode is ask or edits".to_owned()),
                };
                Ok(format!("mode {}", mode_word(self.permissions)))
            }
            Command::Compact => match self.compact(events, stop).await {
                Ok(done) => Ok(format!("{} messages became {}", done.before, done.after)),
                Err(Some(failure)) => Err(failure.to_string()),
                Err(None) => Err("it was stopped".to_owned()),
            },
            Command::Stats => Ok(self.stats()),
            Command::Tools => Ok(self.tool_lines()),
            Command::Mcp => Ok(self.server_lines()),
        }
    }

    /// The mode in a word, as `status.mode` has it.
    #[must_use]
    pub fn mode(&self) -> &'static str {
        mode_word(self.permissions)
    }

    fn model_line(&self) -> String {
        let others = self.provider.models();
        let mut line = format!("model {} of {}", self.model, self.provider.name());
        if !others.is_empty() {
            let _ = write!(line, "; there are {}", others.join(", "));
        }
        line
    }

    fn choose_model(&mut self, name: String) -> Result<String, String> {
        let known = self.provider.models();
        if !known.is_empty() && !known.contains(&name) && self.model != name {
            let name = text::one_line(&name, WORD_CHARACTERS);
            return Err(format!("there is no model {name}; there are {}", known.join(", ")));
        }
        self.model = name;
        Ok(self.model_line())
    }

    fn choose_agent(&mut self, name: String, setup: &Setup) -> Result<String, String> {
        // The provider stays: only another process takes another one.
        let rules = setup.rules_of(&name).map_err(|error| error.to_string())?;
        self.rules.offered = rules.offered;
        self.rules.instructions = rules.instructions;
        self.agent = Some(name);
        Ok(format!("agent {}", self.agent.as_deref().unwrap_or_default()))
    }

    fn stats(&self) -> String {
        let messages = self.conversation.messages();
        let (mut users, mut answers, mut calls, mut errors) = (0_u64, 0_u64, 0_u64, 0_u64);
        for message in messages.iter() {
            match message {
                Message::User { .. } => users += 1,
                Message::Assistant { calls: made, .. } => {
                    answers += 1;
                    let made = made.iter();
                    let failed =
                        made.clone().filter(|call| !call.status.is(&shared::entry::ResultStatus::Ok));
                    calls += u64::try_from(made.len()).unwrap_or_default();
                    errors += u64::try_from(failed.count()).unwrap_or_default();
                }
            }
        }
        format!("{users} messages, {answers} answers, {calls} tool calls of which {errors} failed")
    }

    fn tool_lines(&self) -> String {
        let specs = self.rules.offered(self.tools.specs());
        let lines = specs.iter().map(|spec| {
            let policy = match self.rules.policies.of(&spec.name) {
                Some(super::config::Policy::Allow) => "allow",
                Some(super::config::Policy::Confirm) => "confirm",
                Some(super::config::Policy::Deny) => "deny",
                None => "by what it does",
            };
            format!("{:<24} {policy}", spec.name)
        });
        lines.collect::<Vec<_>>().join("\n")
    }

    fn server_lines(&self) -> String {
        "no MCP server is configured".to_owned()
    }
}

fn mode_word(permissions: Permissions) -> &'static str {
    match permissions {
        Permissions::Ask => "ask",
        Permissions::Deny => "deny",
        Permissions::Edits => "edits",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_read_by_its_first_word_as_it_is_written() {
        assert_eq!(Command::parse(" /help \n"), Ok(Command::Help));
        assert_eq!(Command::parse("/model  a b "), Ok(Command::Model(Some("a b".into()))));
        assert_eq!(Command::parse("/mode"), Ok(Command::Mode(None)));
        assert_eq!(Command::parse("/compact now"), Err(NoCommand::Argument("/compact")));
        assert_eq!(Command::parse("/Help"), Err(NoCommand::Unknown("/Help".into())));
        assert_eq!(Command::parse("help"), Err(NoCommand::NoSlash));
        assert_eq!(Command::parse(""), Err(NoCommand::NoSlash));
        for word in OTHER_SESSION {
            let refused = Command::parse(&format!("{word} x"));
            assert_eq!(refused, Err(NoCommand::OtherSession(word.to_owned())));
        }
    }
}
