//! The configuration of the engine: `config.toml` in each directory of settings, later ones winning key by key (docs/engine.md).

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod form;
mod merge;
mod names;

pub use merge::ConfigError;
pub use names::{Names, Policies, Policy};

/// Model calls of one turn where nothing else is asked for: far more than honest work takes, few enough to end a loop.
pub const MAX_STEPS: u32 = 200;

/// What a person set, read once and typed.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct EngineConfig {
    /// The choice where no flag says otherwise (`[use]`).
    pub chosen: Choice,
    /// `[provider.NAME]`.
    pub providers: BTreeMap<String, ProviderConfig>,
    /// `[agent.NAME]`.
    pub agents: BTreeMap<String, AgentConfig>,
    /// `[tools]`.
    pub policies: Policies,
    /// `[mcp.NAME]`.
    pub servers: BTreeMap<String, ServerConfig>,
    /// `[sandbox]`; none where tools are not confined.
    pub sandbox: Option<SandboxConfig>,
    /// `[limits]`.
    pub limits: Limits,
    /// `[guardrail.NAME]`.
    pub guardrails: Vec<Guardrail>,
    /// `[hook.NAME]`.
    pub hooks: Vec<Hook>,
    /// The directories that were read: no tool may change them.
    pub directories: Vec<PathBuf>,
}

/// What is chosen by name.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Choice {
    /// A provider.
    pub provider: Option<String>,
    /// A model.
    pub model: Option<String>,
    /// An agent.
    pub agent: Option<String>,
}

/// The types of providers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ProviderType {
    /// Any interface like OpenAI's chat completions.
    OpenAi,
    /// Anthropic's Messages.
    Anthropic,
    /// The server of llama.cpp.
    LlamaCpp,
    /// llama-swap, which starts such servers.
    LlamaSwap,
    /// Steps from a file.
    Script,
}

impl ProviderType {
    /// The word of the type, as errors name it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::OpenAi => "openai",
            Self::Anthropic => "anthropic",
            Self::LlamaCpp => "llamacpp",
            Self::LlamaSwap => "llamaswap",
            Self::Script => "script",
        }
    }
}

/// One model service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProviderConfig {
    /// Its type.
    pub kind: ProviderType,
    /// Where it is, without a slash at the end; empty for `script`.
    pub base_url: String,
    /// The environment variable with its key.
    pub api_key_env: Option<String>,
    /// Further headers of each request.
    pub headers: BTreeMap<String, String>,
    /// Further headers whose values are in the environment: header → variable.
    pub headers_env: BTreeMap<String, String>,
    /// The model where none is chosen.
    pub model: Option<String>,
    /// The models to choose from, for people; empty where nobody wrote them down.
    pub models: Vec<String>,
    /// Tokens of the context, where the service does not say.
    pub context_tokens: Option<u64>,
    /// Tokens of one answer at most.
    pub max_tokens: Option<u64>,
    /// How long it may be silent.
    pub timeout: Duration,
    /// Further tries after a fault that can pass, while nothing of the answer has come.
    pub retries: u32,
    /// The steps of `script`; the tour where there is none.
    pub script: Option<PathBuf>,
}

/// One way of working.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct AgentConfig {
    /// What the model is told beforehand, in place of the usual.
    pub prompt: Option<String>,
    /// Its provider.
    pub provider: Option<String>,
    /// Its model.
    pub model: Option<String>,
    /// The tools it has; all where none is named.
    pub tools: Option<Names>,
}

/// A server of the Model Context Protocol, a program that we start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerConfig {
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Variables that are set for it.
    pub env: BTreeMap<String, String>,
    /// Whether nothing works without it.
    pub is_required: bool,
    /// Whether it is confined as the tools are.
    pub is_sandboxed: bool,
    /// How long it may take to start, and a call to answer.
    pub timeout: Duration,
}

/// How tools are confined.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxConfig {
    /// What may be read; all where nothing is named.
    pub read: Option<Vec<PathBuf>>,
    /// What may be written beside the workspace and the temporary directory.
    pub write: Vec<PathBuf>,
    /// Whether there is a network.
    pub has_network: bool,
}

/// Where a turn ends by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    /// Model calls of one turn.
    pub max_steps: u32,
    /// Tokens of one turn, read and written.
    pub token_budget: Option<u64>,
    /// The share of the context, in percent, at which the conversation is made smaller.
    pub compact_at: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self { max_steps: MAX_STEPS, token_budget: None, compact_at: 85 }
    }
}

/// A text that may not be said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Guardrail {
    /// Its name.
    pub name: String,
    /// What a person may not send.
    pub input: Option<Pattern>,
    /// What the model may not answer.
    pub output: Option<Pattern>,
    /// What is said then.
    pub message: Option<String>,
}

/// A regular expression that is known to be one.
#[derive(Debug, Clone)]
pub struct Pattern(pub regex::Regex);

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Pattern {}

/// A program that is asked when a turn is about to go on or to end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hook {
    /// Its name.
    pub name: String,
    /// The program.
    pub command: String,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long it may take.
    pub timeout: Duration,
}

impl EngineConfig {
    /// Reads `config.toml` in each directory; a file that is not there says nothing.
    ///
    /// # Errors
    /// [`ConfigError`] names the file and what is wrong in it.
    pub fn read(directories: &[PathBuf]) -> Result<Self, ConfigError> {
        let (form, files) = form::Form::merged(directories)?;
        let named = |error: ConfigError| {
            let files: Vec<String> = files.iter().map(|file| file.display().to_string()).collect();
            ConfigError(format!("{}: {error}", files.join(", ")))
        };
        let mut config = form.typed().map_err(named)?;
        config.directories = directories.to_vec();
        Ok(config)
    }
}

#[cfg(test)]
mod tests;
