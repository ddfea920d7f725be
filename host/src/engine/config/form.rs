//! The file as it is written, and how it becomes typed. An unknown key is an error that names it.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use serde::Deserialize;

use super::merge::ConfigError;
use super::{
    AgentConfig, Choice, EngineConfig, Guardrail, Hook, Limits, Names, Pattern, Policies, Policy,
    ProviderConfig, ProviderType, SandboxConfig, ServerConfig,
};

/// How long a model service may be silent, in seconds: a large prompt takes a local model minutes.
const PROVIDER_SECONDS: u64 = 300;
/// How long an MCP server may take to start, and a call to answer, in seconds.
const SERVER_SECONDS: u64 = 60;
/// How long a hook may take, in seconds.
const HOOK_SECONDS: u64 = 30;
/// The longest time that can be set, in seconds: a day.
const SECONDS_MAX: u64 = 24 * 3600;
/// Further tries that can be set.
const RETRIES_MAX: u32 = 10;
/// Characters of a name; a tool's name holds that of its server.
const NAME_CHARACTERS: usize = 32;

/// The file.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Form {
    #[serde(rename = "use")]
    chosen: ChoiceForm,
    provider: BTreeMap<String, ProviderForm>,
    agent: BTreeMap<String, AgentForm>,
    tools: BTreeMap<String, Policy>,
    mcp: BTreeMap<String, ServerForm>,
    sandbox: SandboxForm,
    limits: LimitsForm,
    guardrail: BTreeMap<String, GuardrailForm>,
    hook: BTreeMap<String, HookForm>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ChoiceForm {
    provider: Option<String>,
    model: Option<String>,
    agent: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ProviderForm {
    #[serde(rename = "type")]
    kind: Option<ProviderType>,
    base_url: Option<String>,
    api_key_env: Option<String>,
    headers: BTreeMap<String, String>,
    headers_env: BTreeMap<String, String>,
    model: Option<String>,
    models: Vec<String>,
    context_tokens: Option<u64>,
    max_tokens: Option<u64>,
    timeout: Option<u64>,
    retries: Option<u32>,
    script: Option<PathBuf>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct AgentForm {
    prompt: Option<String>,
    provider: Option<String>,
    model: Option<String>,
    tools: Option<Vec<String>>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct ServerForm {
    command: Option<String>,
    args: Vec<String>,
    env: BTreeMap<String, String>,
    url: Option<String>,
    required: bool,
    sandbox: bool,
    timeout: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct SandboxForm {
    enabled: Option<bool>,
    read: Option<Vec<PathBuf>>,
    write: Vec<PathBuf>,
    network: Option<bool>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct LimitsForm {
    max_steps: Option<u32>,
    token_budget: Option<u64>,
    compact_at: Option<u64>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct GuardrailForm {
    input: Option<String>,
    output: Option<String>,
    message: Option<String>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct HookForm {
    on: Option<Moment>,
    command: Option<String>,
    args: Vec<String>,
    timeout: Option<u64>,
}

/// When a hook is asked; there is one moment so far.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Moment {
    Stop,
}

fn wrong<T>(detail: impl Into<String>) -> Result<T, ConfigError> {
    Err(ConfigError(detail.into()))
}

impl Form {
    /// The configuration that it says. What a name refers to is looked for when it is used: it may stand in another file.
    pub(super) fn typed(self) -> Result<EngineConfig, ConfigError> {
        let limits = Limits::default();
        Ok(EngineConfig {
            chosen: Choice {
                provider: self.chosen.provider,
                model: self.chosen.model,
                agent: self.chosen.agent,
            },
            providers: each("provider", self.provider, ProviderForm::typed)?,
            agents: each("agent", self.agent, |agent, _| Ok(agent.typed()))?,
            policies: Policies::new(self.tools),
            servers: each("mcp", self.mcp, ServerForm::typed)?,
            sandbox: self.sandbox.typed()?,
            limits: Limits {
                max_steps: within("limits.max_steps", self.limits.max_steps, 1, 100_000)?
                    .unwrap_or(limits.max_steps),
                token_budget: within("limits.token_budget", self.limits.token_budget, 1, u64::MAX)?,
                compact_at: within("limits.compact_at", self.limits.compact_at, 10, 100)?
                    .unwrap_or(limits.compact_at),
            },
            guardrails: each("guardrail", self.guardrail, GuardrailForm::typed)?.into_values().collect(),
            hooks: each("hook", self.hook, HookForm::typed)?.into_values().collect(),
            directories: Vec::new(),
        })
    }
}

/// Each entry of a section; `typed` also gets the name of the entry as it stands in the file.
fn each<F, T>(
    section: &str,
    forms: BTreeMap<String, F>,
    typed: impl Fn(F, &str) -> Result<T, ConfigError>,
) -> Result<BTreeMap<String, T>, ConfigError> {
    let mut all = BTreeMap::new();
    for (name, form) in forms {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        if name.is_empty() || name.chars().count() > NAME_CHARACTERS || !name.chars().all(is_plain) {
            return wrong(format!(
                "[{section}.{name}]: a name has 1 to {NAME_CHARACTERS} letters, digits, '-', '_' and '.'"
            ));
        }
        let typed = typed(form, &format!("{section}.{name}"))?;
        all.insert(name, typed);
    }
    Ok(all)
}

fn within<T: PartialOrd + std::fmt::Display + Copy>(
    key: &str,
    value: Option<T>,
    least: T,
    most: T,
) -> Result<Option<T>, ConfigError> {
    match value {
        Some(value) if value < least || value > most => {
            wrong(format!("{key} is {value}; it must be between {least} and {most}"))
        }
        value => Ok(value),
    }
}

fn seconds(key: &str, value: Option<u64>, usual: u64) -> Result<Duration, ConfigError> {
    let value = within(&format!("{key}.timeout"), value, 1, SECONDS_MAX)?;
    Ok(Duration::from_secs(value.unwrap_or(usual)))
}

/// The name of an environment variable, which a person might have mistaken for the place of the value itself. It is not shown.
fn variable(key: &str, name: &str) -> Result<(), ConfigError> {
    let is_plain = |c: char| c.is_ascii_uppercase() || c.is_ascii_digit() || c == '_';
    if name.is_empty() || name.len() > 100 || !name.chars().all(is_plain) {
        return wrong(format!(
            "{key} must be the name of an environment variable in capital letters, such as MODEL_API_KEY, not a key itself"
        ));
    }
    Ok(())
}

impl ProviderForm {
    fn typed(self, key: &str) -> Result<ProviderConfig, ConfigError> {
        let Some(kind) = self.kind else {
            return wrong(format!(
                "[{key}] needs a `type`: openai, anthropic, llamacpp, llamaswap or script"
            ));
        };
        let base_url = match (kind, self.base_url) {
            (ProviderType::Script, None) => String::new(),
            (ProviderType::Script, Some(_)) => {
                return wrong(format!("[{key}]: a script has no `base_url`"));
            }
            (ProviderType::OpenAi, None) => "https://api.openai.com/v1".to_owned(),
            (ProviderType::Anthropic, None) => "https://api.anthropic.com".to_owned(),
            (ProviderType::LlamaCpp | ProviderType::LlamaSwap, None) => {
                return wrong(format!("[{key}] needs a `base_url`, such as \"http://127.0.0.1:8080\""));
            }
            (_, Some(url)) => url.trim_end_matches('/').to_owned(),
        };
        let is_url = base_url.starts_with("http://") || base_url.starts_with("https://");
        if kind != ProviderType::Script && (!is_url || base_url.contains(['@', '?', '#', ' '])) {
            return wrong(format!(
                "{key}.base_url must begin with http:// or https:// and hold no user, query or fragment"
            ));
        }
        if kind != ProviderType::Script && self.script.is_some() {
            return wrong(format!("[{key}]: only the type script has a `script`"));
        }
        if let Some(name) = &self.api_key_env {
            variable(&format!("{key}.api_key_env"), name)?;
        }
        for (header, name) in &self.headers_env {
            variable(&format!("{key}.headers_env.{header}"), name)?;
        }
        for (header, value) in &self.headers {
            let is_secret = ["authorization", "x-api-key", "proxy-authorization", "cookie"];
            if is_secret.contains(&header.to_ascii_lowercase().as_str()) {
                return wrong(format!(
                    "{key}.headers.{header} would hold a secret in a file: name a variable of the environment in {key}.headers_env"
                ));
            }
            header_value(&format!("{key}.headers.{header}"), value)?;
        }
        for header in self.headers.keys().chain(self.headers_env.keys()) {
            header_name(key, header)?;
        }
        Ok(ProviderConfig {
            kind,
            base_url,
            api_key_env: self.api_key_env,
            headers: self.headers,
            headers_env: self.headers_env,
            model: self.model,
            models: self.models,
            context_tokens: within(
                &format!("{key}.context_tokens"),
                self.context_tokens,
                1024,
                1_000_000_000,
            )?,
            max_tokens: within(&format!("{key}.max_tokens"), self.max_tokens, 1, 1_000_000_000)?,
            timeout: seconds(key, self.timeout, PROVIDER_SECONDS)?,
            retries: within(&format!("{key}.retries"), self.retries, 0, RETRIES_MAX)?.unwrap_or(0),
            script: self.script,
        })
    }
}

fn header_name(key: &str, header: &str) -> Result<(), ConfigError> {
    hyper::header::HeaderName::from_bytes(header.as_bytes())
        .map(|_| ())
        .or_else(|_| wrong(format!("[{key}]: {header:?} is no name of a header")))
}

fn header_value(key: &str, value: &str) -> Result<(), ConfigError> {
    hyper::header::HeaderValue::from_str(value)
        .map(|_| ())
        .or_else(|_| wrong(format!("{key} holds what no header can")))
}

impl AgentForm {
    fn typed(self) -> AgentConfig {
        AgentConfig {
            prompt: self.prompt,
            provider: self.provider,
            model: self.model,
            tools: self.tools.map(Names),
        }
    }
}

impl ServerForm {
    fn typed(self, key: &str) -> Result<ServerConfig, ConfigError> {
        if self.url.is_some() {
            return wrong(format!(
                "{key}.url: servers behind a URL are not supported yet; name a program with `command`"
            ));
        }
        let Some(command) = self.command.filter(|command| !command.is_empty()) else {
            return wrong(format!("[{key}] needs a `command`"));
        };
        Ok(ServerConfig {
            command,
            arguments: self.args,
            env: self.env,
            is_required: self.required,
            is_sandboxed: self.sandbox,
            timeout: seconds(key, self.timeout, SERVER_SECONDS)?,
        })
    }
}

impl SandboxForm {
    fn typed(self) -> Result<Option<SandboxConfig>, ConfigError> {
        let says_something = self.read.is_some() || !self.write.is_empty() || self.network.is_some();
        if !self.enabled.unwrap_or(says_something) {
            return Ok(None);
        }
        if !cfg!(target_os = "linux") {
            return wrong("[sandbox] needs Linux");
        }
        Ok(Some(SandboxConfig {
            read: self.read,
            write: self.write,
            has_network: self.network.unwrap_or(true),
        }))
    }
}

impl GuardrailForm {
    fn typed(self, key: &str) -> Result<Guardrail, ConfigError> {
        let pattern = |side: &str, text: Option<String>| match text {
            None => Ok(None),
            Some(text) => match regex::Regex::new(&text) {
                Ok(pattern) => Ok(Some(Pattern(pattern))),
                Err(error) => wrong(format!("{key}.{side}: {error}")),
            },
        };
        let guardrail = Guardrail {
            name: key.split_once('.').map_or(key, |(_, name)| name).to_owned(),
            input: pattern("input", self.input)?,
            output: pattern("output", self.output)?,
            message: self.message,
        };
        if guardrail.input.is_none() && guardrail.output.is_none() {
            return wrong(format!("[{key}] needs a pattern: `input`, `output` or both"));
        }
        Ok(guardrail)
    }
}

impl HookForm {
    fn typed(self, key: &str) -> Result<Hook, ConfigError> {
        let Some(Moment::Stop) = self.on else {
            return wrong(format!("[{key}] needs `on = \"stop\"`"));
        };
        let Some(command) = self.command.filter(|command| !command.is_empty()) else {
            return wrong(format!("[{key}] needs a `command`"));
        };
        Ok(Hook {
            name: key.split_once('.').map_or(key, |(_, name)| name).to_owned(),
            command,
            arguments: self.args,
            timeout: seconds(key, self.timeout, HOOK_SECONDS)?,
        })
    }
}
