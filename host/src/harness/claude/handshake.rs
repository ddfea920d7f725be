//! From the first line to a program that is ready: its models, and a permission mode that it has confirmed.

use serde_json::{Value, json};
use shared::json::cut;
use shared::limits;
use shared::settings::{Choices, Settings};

use super::wire::{self, Initialized, Message, Model};
use crate::config::Permissions;
use crate::harness::{OpenError, Opening};

const INITIALIZE: &str = "aude-initialize";
const MODE: &str = "aude-mode";
const SETTINGS: &str = "aude-settings";

/// The permission mode of the program that stands for what a person configured.
pub(super) fn mode(permissions: Permissions) -> &'static str {
    match permissions {
        Permissions::Ask | Permissions::Deny => "default",
        Permissions::Edits => "acceptEdits",
    }
}

/// What has been asked of the program and not yet been answered.
#[derive(Debug)]
pub(super) struct Handshake {
    wanted: Wanted,
    initialized: Initialized,
    phase: Phase,
}

/// What the person asked for.
#[derive(Debug)]
struct Wanted {
    mode: &'static str,
    model: Option<String>,
    effort: Option<String>,
    agent: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Initializing,
    SettingMode,
    ReadingSettings,
}

/// What to do next.
#[derive(Debug)]
pub(super) enum Step {
    /// Read on.
    Wait,
    /// Write this and read on.
    Write(Value),
    /// It is ready; the settings have everything but the conversation.
    Ready(Box<Settings>),
    /// The conversation that was to be resumed is not there.
    NoConversation,
    /// It cannot be used.
    Fail(OpenError),
}

impl Handshake {
    /// The beginning, with the first line to write.
    pub(super) fn new(opening: &Opening) -> (Self, Value) {
        let wanted = Wanted {
            mode: mode(opening.permissions),
            model: opening.model.clone(),
            effort: opening.effort.clone(),
            agent: opening.agent.clone(),
        };
        let handshake = Self { wanted, initialized: Initialized::default(), phase: Phase::Initializing };
        (handshake, wire::request(INITIALIZE, json!({ "subtype": "initialize" })))
    }

    /// Goes on with a message of the program.
    pub(super) fn message(&mut self, message: Message) -> Step {
        let response = match message {
            Message::ControlResponse(response) => response.response,
            Message::ControlRequest(request) => return Step::Write(wire::unsupported(&request.request_id)),
            Message::Result(result) if result.says_no_conversation() => return Step::NoConversation,
            Message::Result(_)
            | Message::System(_)
            | Message::StreamEvent(_)
            | Message::Assistant(_)
            | Message::User(_)
            | Message::ControlCancelRequest { .. }
            | Message::CommandLifecycle(_)
            | Message::Other => return Step::Wait,
        };
        let is_success = response.subtype == "success";
        match (self.phase, response.request_id.as_str()) {
            (Phase::Initializing, INITIALIZE) if is_success => {
                match serde_json::from_value(response.response) {
                    Ok(initialized) => self.initialized(initialized),
                    Err(_) => fail("its answer to initialize made no sense"),
                }
            }
            (Phase::Initializing, INITIALIZE) => fail("it refused to initialize"),
            (Phase::SettingMode, MODE) => {
                if is_success
                    && response.response.get("mode").and_then(Value::as_str) == Some(self.wanted.mode)
                {
                    self.read_settings()
                } else {
                    fail("it did not confirm its permission mode")
                }
            }
            // A program without this request still works; its model shows with the first turn.
            (Phase::ReadingSettings, SETTINGS) => Step::Ready(Box::new(self.settings(&response.response))),
            _ => Step::Wait,
        }
    }

    fn initialized(&mut self, initialized: Initialized) -> Step {
        self.initialized = initialized;
        if let Some(model) = &self.wanted.model
            && !self.initialized.models.iter().any(|known| known.is_known() && known.answers_to(model))
        {
            return Step::Fail(OpenError::UnknownModel { model: model.clone() });
        }
        if let Some(effort) = &self.wanted.effort
            && !self.efforts(self.wanted.model.as_deref()).contains(effort)
        {
            return fail(&format!("it does not offer the effort {}", cut(effort, limits::WORD_BYTES)));
        }
        if let Some(agent) = &self.wanted.agent
            && !self.initialized.agents.iter().any(|known| known.name == *agent)
        {
            return fail(&format!("it does not know the agent {}", cut(agent, limits::WORD_BYTES)));
        }
        if self.initialized.current_permission_mode.as_deref() == Some(self.wanted.mode) {
            self.read_settings()
        } else {
            self.phase = Phase::SettingMode;
            Step::Write(wire::request(
                MODE,
                json!({ "subtype": "set_permission_mode", "mode": self.wanted.mode }),
            ))
        }
    }

    fn read_settings(&mut self) -> Step {
        self.phase = Phase::ReadingSettings;
        Step::Write(wire::request(SETTINGS, json!({ "subtype": "get_settings" })))
    }

    /// The efforts of a model; of the default one where none is named.
    fn efforts(&self, model: Option<&str>) -> Vec<String> {
        let models = &self.initialized.models;
        let known = match model {
            Some(model) => models.iter().find(|known| known.answers_to(model)),
            None => models.first(),
        };
        bounded(known.into_iter().flat_map(|model| model.supported_effort_levels.iter().map(String::as_str)))
    }

    fn settings(&self, response: &Value) -> Settings {
        let applied = |field: &str| {
            let value = response.get("applied")?.get(field)?.as_str()?;
            Some(cut(value, limits::WORD_BYTES).to_owned())
        };
        let model = applied("model").or_else(|| {
            let wanted = self.wanted.model.as_deref().unwrap_or("default");
            let known = self.initialized.models.iter().find(|known| known.value == wanted)?;
            known.resolved_model.clone()
        });
        let known = self.initialized.models.iter().filter(|model| model.is_known());
        let mut settings = Settings {
            effort: applied("effort").or_else(|| self.wanted.effort.clone()),
            agent: self.wanted.agent.clone(),
            choices: Choices {
                models: bounded(known.map(|model| model.value.as_str())),
                efforts: self.efforts(model.as_deref()),
                agents: bounded(self.initialized.agents.iter().map(|agent| agent.name.as_str())),
            },
            ..Settings::default()
        };
        self.names().apply(&mut settings, model);
        settings
    }

    /// What is known of the models.
    pub(super) fn names(&self) -> ModelNames {
        ModelNames::of(self.initialized.models.iter().take(limits::CHOICES).cloned().collect())
    }
}

/// What is known of the models: their names for people and the efforts that they offer.
#[derive(Debug, Clone, Default)]
pub(super) struct ModelNames(Vec<Model>);

impl ModelNames {
    /// What the program said of its models.
    pub(super) fn of(models: Vec<Model>) -> Self {
        Self(models)
    }

    /// Sets the model with its name and its efforts.
    pub(super) fn apply(&self, settings: &mut Settings, model: Option<String>) {
        let known: Vec<&Model> = self
            .0
            .iter()
            .filter(|known| model.as_deref().is_some_and(|model| known.answers_to(model)))
            .collect();
        // "Default (recommended)" is the name of a choice, not of a model.
        let named = known.iter().find(|known| known.value != "default");
        settings.alias = named
            .and_then(|known| known.display_name.as_deref())
            .map(|name| cut(name, limits::WORD_BYTES).to_owned());
        if let Some(known) = known.first() {
            settings.choices.efforts = bounded(known.supported_effort_levels.iter().map(String::as_str));
        }
        settings.model = model;
    }

    /// Whether a model can be chosen by that word.
    pub(super) fn offers(&self, model: &str) -> bool {
        self.0.iter().any(|known| known.is_known() && known.answers_to(model))
    }
}

fn bounded<'a>(words: impl Iterator<Item = &'a str>) -> Vec<String> {
    let fitting = words.filter(|word| !word.is_empty() && word.len() <= limits::WORD_BYTES);
    fitting.take(limits::CHOICES).map(str::to_owned).collect()
}

fn fail(detail: &str) -> Step {
    Step::Fail(OpenError::Start { detail: detail.to_owned() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(value: Value) -> Message {
        serde_json::from_value(value).unwrap()
    }

    fn answer(id: &str, response: Value) -> Message {
        message(json!({"type": "control_response",
            "response": {"subtype": "success", "request_id": id, "response": response}}))
    }

    /// The answer of 2.1.332 to `initialize`, without what we do not read.
    fn initialized(mode: &str) -> Message {
        answer(
            INITIALIZE,
            json!({
            "commands": [{"name": "verify", "description": "…"}],
            "agents": [{"name": "Explore", "description": "…"}, {"name": "Plan"}],
            "models": [
                {"value": "default", "resolvedModel": "claude-opus-5-5", "displayName": "Default (recommended)",
                    "supportsEffort": true, "supportedEffortLevels": ["low", "medium", "high"]},
                {"value": "opus", "resolvedModel": "claude-opus-5-5", "displayName": "Opus",
                    "supportedEffortLevels": ["low", "medium", "high"]},
                {"value": "claude-sonnet-4-5", "resolvedModel": "claude-sonnet-4-5", "displayName": "Sonnet 4.5"},
                {"value": "gpt", "resolvedModel": "gpt", "displayName": "gpt", "description": "Custom model"}],
            "account": {"apiProvider": "firstParty"},
            "current_permission_mode": mode}),
        )
    }

    fn started(model: Option<&str>, effort: Option<&str>, permissions: Permissions) -> Handshake {
        let wanted = Wanted {
            mode: mode(permissions),
            model: model.map(str::to_owned),
            effort: effort.map(str::to_owned),
            agent: None,
        };
        Handshake { wanted, initialized: Initialized::default(), phase: Phase::Initializing }
    }

    #[test]
    fn models_and_the_ones_that_run_come_into_the_settings() {
        let mut handshake = started(None, None, Permissions::Deny);
        assert!(matches!(handshake.message(message(json!({"type": "hologram"}))), Step::Wait));
        let Step::Write(request) = handshake.message(initialized("default")) else { panic!("no request") };
        assert_eq!(request["request"]["subtype"], "get_settings");
        let applied = json!({"applied": {"model": "claude-opus-5-5", "effort": "medium"}});
        let Step::Ready(settings) = handshake.message(answer(SETTINGS, applied)) else { panic!("not ready") };
        assert_eq!(settings.model.as_deref(), Some("claude-opus-5-5"));
        assert_eq!(settings.alias.as_deref(), Some("Opus"));
        assert_eq!(settings.effort.as_deref(), Some("medium"));
        assert_eq!(settings.choices.models, ["default", "opus", "claude-sonnet-4-5"]);
        assert_eq!(settings.choices.efforts, ["low", "medium", "high"]);
        assert_eq!(settings.choices.agents, ["Explore", "Plan"]);
    }

    #[test]
    fn a_mode_that_is_not_confirmed_is_refused() {
        let mut handshake = started(None, None, Permissions::Edits);
        let Step::Write(request) = handshake.message(initialized("bypassPermissions")) else {
            panic!("no request")
        };
        assert_eq!(request["request"], json!({"subtype": "set_permission_mode", "mode": "acceptEdits"}));
        let step = handshake.message(answer(MODE, json!({"mode": "bypassPermissions"})));
        assert!(matches!(step, Step::Fail(OpenError::Start { .. })));
        let mut handshake = started(None, None, Permissions::Edits);
        handshake.message(initialized("auto"));
        assert!(matches!(handshake.message(answer(MODE, json!({"mode": "acceptEdits"}))), Step::Write(_)));
    }

    #[test]
    fn what_is_not_offered_is_refused() {
        let fails = |model, effort| {
            matches!(started(model, effort, Permissions::Deny).message(initialized("default")), Step::Fail(_))
        };
        assert!(fails(Some("gpt"), None));
        assert!(!fails(Some("opus"), Some("high")));
        assert!(!fails(Some("claude-opus-5-5"), None));
        assert!(fails(Some("opus"), Some("extreme")));
        assert!(fails(Some("claude-sonnet-4-5"), Some("high")));
        assert!(fails(None, Some("extreme")));
    }

    #[test]
    fn a_conversation_that_is_gone_and_a_request_in_between_are_told_apart() {
        let mut handshake = started(None, None, Permissions::Deny);
        let request = json!({"type": "control_request", "request_id": "q", "request": {"subtype": "x"}});
        let Step::Write(reply) = handshake.message(message(request)) else { panic!("no answer") };
        assert_eq!(reply["response"]["request_id"], "q");
        assert_eq!(reply["response"]["subtype"], "error");
        let result = json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
            "errors": ["No conversation found with session ID: 886237c6-44aa-4981-9411-7f782236539b"]});
        assert!(matches!(handshake.message(message(result)), Step::NoConversation));
    }
}
