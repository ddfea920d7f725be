//! From settings and flags to an engine: which provider, which model, which agent, and all that the engine keeps to.

use std::path::PathBuf;
use std::sync::Arc;

use shared::ids::HostId;

use super::config::{AgentConfig, Choice, EngineConfig, ProviderConfig, ProviderType};
use super::conversation::Conversation;
use super::keeper::Keeper;
use super::provider::Provider;
use super::provider::openai::OpenAi;
use super::provider::script::{Script, ScriptProvider};
use super::rules::Rules;
use super::tools::Tools;
use super::workspace::Workspace;
use super::{Desk, Engine, Grants, Questions};
use crate::config::Permissions;

/// What the model is told beforehand where no agent says something else.
const INSTRUCTIONS: &str = include_str!("instructions.txt");
/// The name of the provider that is always there: the built-in tour, where no section has the name.
const TOUR: &str = "script";

/// What was chosen, ready to become engines. Made by [`engine_from`].
#[derive(Clone)]
pub struct Setup {
    /// The name of the provider in the settings.
    pub provider_name: String,
    /// The provider.
    pub provider: Arc<dyn Provider>,
    /// The model.
    pub model: String,
    /// The agent, where one was chosen.
    pub agent: Option<String>,
    /// What the engine keeps to.
    pub rules: Rules,
    /// The settings that it comes from.
    pub config: Arc<EngineConfig>,
}

/// Where an engine works, and for whom.
#[derive(Debug, Clone)]
pub struct Place {
    /// The working directory.
    pub working_directory: PathBuf,
    /// The run for which children are started and by which they are found again.
    pub run: HostId,
    /// The program that has the `guard` command: we ourselves.
    pub guard_program: PathBuf,
    /// Directories that no tool may touch although they may lie in the working directory: settings, sessions, keys.
    pub closed: Vec<PathBuf>,
}

/// Why settings and flags give no engine; the sentence is for a person and holds no secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SetupError(String);

/// The provider, model, agent and rules that settings and flags come to. What a flag names goes before what the agent names, and that before `[use]`.
/// It reads keys from the environment and scripts from their files, and contacts nobody.
///
/// `aura serve`, `aura run` and `aura` call it while they start, before they hold a session; an error of it is `config_invalid`. With the session
/// in hand, [`Setup::engine`] makes the engine:
///
/// ```ignore
/// let config = EngineConfig::read(&root.directories()?)?;
/// let setup = engine_from(Arc::new(config), &Choice { provider, model, agent })?;
/// let mut engine = setup.engine(place, conversation, keeper)?;
/// engine.questions = Questions::Block;
/// ```
///
/// # Errors
/// [`SetupError`] says what to change.
pub fn engine_from(config: Arc<EngineConfig>, flags: &Choice) -> Result<Setup, SetupError> {
    let agent_name = flags.agent.clone().or_else(|| config.chosen.agent.clone());
    let agent = match &agent_name {
        None => None,
        Some(name) => {
            Some(config.agents.get(name).ok_or_else(|| unknown("agent", name, config.agents.keys()))?)
        }
    };
    let (provider_name, section) = chosen_provider(&config, flags, agent)?;
    let provider = provider(&provider_name, section)?;
    let model = flags
        .model
        .clone()
        .or_else(|| agent.and_then(|agent| agent.model.clone()))
        .or_else(|| config.chosen.model.clone())
        .or_else(|| section.and_then(|section| section.model.clone()))
        .or_else(|| provider.models().into_iter().next());
    let Some(model) = model.filter(|model| !model.is_empty()) else {
        return Err(SetupError(format!(
            "no model is chosen: set `model` in [provider.{provider_name}], or use --model"
        )));
    };
    let rules = Rules {
        policies: config.policies.clone(),
        guardrails: config.guardrails.clone(),
        hooks: config.hooks.clone(),
        token_budget: config.limits.token_budget,
        compact_at: config.limits.compact_at,
        context_tokens: section.and_then(|section| section.context_tokens),
        offered: agent.and_then(|agent| agent.tools.clone()),
        instructions: instructions(agent),
    };
    Ok(Setup { provider_name, provider, model, agent: agent_name, rules, config })
}

impl Setup {
    /// What an engine keeps to with another agent of the settings.
    ///
    /// # Errors
    /// [`SetupError`] where there is none of the name.
    pub fn rules_of(&self, agent: &str) -> Result<Rules, SetupError> {
        let agents = &self.config.agents;
        let section = agents.get(agent).ok_or_else(|| unknown("agent", agent, agents.keys()))?;
        Ok(Rules {
            offered: section.tools.clone(),
            instructions: instructions(Some(section)),
            ..self.rules.clone()
        })
    }

    /// An engine that goes on with a conversation.
    ///
    /// # Errors
    /// [`SetupError`] where the working directory cannot be used.
    pub fn engine(
        &self,
        place: Place,
        conversation: Conversation,
        keeper: Arc<dyn Keeper>,
    ) -> Result<Engine, SetupError> {
        if self.config.sandbox.is_some() {
            return Err(SetupError("[sandbox] is not built yet: nothing would be confined".to_owned()));
        }
        if !self.config.servers.is_empty() {
            return Err(SetupError("[mcp] is not built yet: the servers would not be there".to_owned()));
        }
        let workspace = Workspace::open(&place.working_directory)
            .map_err(|error| SetupError(format!("{}: {error}", place.working_directory.display())))?;
        let closed = place.closed.iter().chain(&self.config.directories);
        let workspace = closed.fold(workspace, |workspace, closed| workspace.without(closed));
        let tools = Tools::new(workspace, place.run, place.guard_program)
            .hiding(secret_variables(&self.config))
            .confined(self.config.sandbox.clone());
        Ok(Engine {
            provider: Arc::clone(&self.provider),
            model: self.model.clone(),
            agent: self.agent.clone(),
            tools,
            permissions: Permissions::Ask,
            rules: self.rules.clone(),
            max_steps: self.config.limits.max_steps,
            conversation,
            keeper,
            desk: Desk::default(),
            questions: Questions::default(),
            grants: Grants::default(),
        })
    }
}

/// Variables of the environment that hold keys.
fn secret_variables(config: &EngineConfig) -> Vec<String> {
    let sections = config.providers.values();
    sections
        .flat_map(|section| section.api_key_env.iter().chain(section.headers_env.values()))
        .cloned()
        .collect()
}

fn chosen_provider<'a>(
    config: &'a EngineConfig,
    flags: &Choice,
    agent: Option<&AgentConfig>,
) -> Result<(String, Option<&'a ProviderConfig>), SetupError> {
    let named = flags
        .provider
        .clone()
        .or_else(|| agent.and_then(|agent| agent.provider.clone()))
        .or_else(|| config.chosen.provider.clone());
    if let Some(name) = named {
        return match config.providers.get(&name) {
            Some(section) => Ok((name, Some(section))),
            None if name == TOUR => Ok((name, None)),
            None => Err(unknown("provider", &name, config.providers.keys())),
        };
    }
    let mut sections = config.providers.iter();
    match (sections.next(), sections.next()) {
        (Some((name, section)), None) => Ok((name.clone(), Some(section))),
        (Some(_), Some(_)) => Err(SetupError(format!(
            "several providers are configured: choose one with --provider or [use] ({})",
            list(config.providers.keys())
        ))),
        (None, _) => Err(SetupError(
            "no provider is configured: add a [provider.NAME] section to config.toml, or use --provider script to try the built-in tour"
                .to_owned(),
        )),
    }
}

fn provider(name: &str, section: Option<&ProviderConfig>) -> Result<Arc<dyn Provider>, SetupError> {
    let Some(section) = section else { return scripted(None) };
    match section.kind {
        ProviderType::Script => scripted(section.script.as_deref()),
        ProviderType::OpenAi | ProviderType::LlamaCpp | ProviderType::LlamaSwap => {
            let provider = OpenAi::new(section, &|variable| std::env::var(variable).ok());
            let named = |error| SetupError(format!("[provider.{name}]: {error}"));
            Ok(Arc::new(provider.map_err(named)?))
        }
        ProviderType::Anthropic => Err(SetupError(format!(
            "[provider.{name}]: the type anthropic is not built yet; use one with chat completions"
        ))),
    }
}

fn scripted(path: Option<&std::path::Path>) -> Result<Arc<dyn Provider>, SetupError> {
    let script =
        path.map_or_else(Script::tour, Script::read).map_err(|error| SetupError(error.to_string()))?;
    Ok(Arc::new(ScriptProvider::new(script)))
}

fn instructions(agent: Option<&AgentConfig>) -> Arc<str> {
    match agent.and_then(|agent| agent.prompt.as_deref()) {
        Some(prompt) => Arc::from(prompt),
        None => Arc::from(INSTRUCTIONS.trim()),
    }
}

fn unknown<'a>(what: &str, name: &str, known: impl Iterator<Item = &'a String>) -> SetupError {
    let known = list(known);
    let known = if known.is_empty() { "none is configured".to_owned() } else { format!("there are {known}") };
    SetupError(format!("there is no {what} {:?}: {known}", crate::text::one_line(name, 40)))
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    names.map(String::as_str).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Arc<EngineConfig> {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("config.toml"), text).unwrap();
        std::fs::write(folder.path().join("steps.toml"), "[[step]]\ntext = \"x\"").unwrap();
        let folder = folder.keep();
        Arc::new(EngineConfig::read(&[folder]).unwrap())
    }

    fn flags(provider: Option<&str>, model: Option<&str>, agent: Option<&str>) -> Choice {
        let owned = |text: Option<&str>| text.map(str::to_owned);
        Choice { provider: owned(provider), model: owned(model), agent: owned(agent) }
    }

    const TWO: &str = "[provider.a]\ntype = \"script\"\nscript = \"steps.toml\"\nmodel = \"m\"\n[provider.b]\ntype = \"script\"\n\
[agent.plan]\nprompt = \"Only plan.\"\nprovider = \"a\"\nmodel = \"n\"\ntools = [\"read\", \"g*\"]";

    fn failed(config: Arc<EngineConfig>, choice: &Choice) -> String {
        engine_from(config, choice).err().unwrap().to_string()
    }

    #[test]
    fn flags_go_before_the_agent_and_the_agent_before_the_settings() {
        let two = config(TWO);
        let setup = engine_from(Arc::clone(&two), &flags(Some("a"), None, None)).unwrap();
        assert_eq!((setup.provider_name.as_str(), setup.model.as_str()), ("a", "m"));
        let setup = engine_from(Arc::clone(&two), &flags(None, None, Some("plan"))).unwrap();
        assert_eq!((setup.provider_name.as_str(), setup.model.as_str()), ("a", "n"));
        assert_eq!(setup.rules.instructions.as_ref(), "Only plan.");
        assert!(setup.rules.offer("glob") && !setup.rules.offer("bash"));
        let setup = engine_from(two, &flags(Some("b"), Some("o"), Some("plan"))).unwrap();
        assert_eq!((setup.provider_name.as_str(), setup.model.as_str()), ("b", "o"));
    }

    #[test]
    fn what_cannot_be_chosen_is_said_with_what_can() {
        let two = config(TWO);
        assert!(failed(Arc::clone(&two), &flags(None, None, None)).contains("(a, b)"));
        assert!(failed(Arc::clone(&two), &flags(Some("c"), None, None)).contains("a, b"));
        assert!(failed(two, &flags(None, None, Some("c"))).contains("there are plan"));
        assert!(failed(config(""), &flags(None, None, None)).contains("no provider"));
        let tour = engine_from(config(""), &flags(Some("script"), None, None)).unwrap();
        assert_eq!((tour.model.as_str(), tour.provider.name()), (TOUR, TOUR));
    }
}
