//! Another model or effort in mid-session: asked of the program, and told only as the program confirms it; pure.

use serde_json::{Value, json};
use shared::entry::Level;
use shared::json::cut;
use shared::limits;
use shared::request::Configure;
use shared::settings::Settings;

use super::handshake::ModelNames;
use super::mapping::{Output, notice};
use super::wire::{self, Response};
use crate::harness::AgentEvent;

/// What was asked of the program and is not confirmed yet.
#[derive(Debug, Default)]
pub(super) struct Configuring {
    requests: u64,
    /// The id of the last request of all: what the program runs with.
    last: Option<String>,
    wanted: Configure,
}

impl Configuring {
    /// Asks for what is wanted, and then for what there is.
    pub(super) fn begin(
        &mut self,
        wanted: Configure,
        settings: &Settings,
        names: &ModelNames,
    ) -> Vec<Output> {
        let mut outputs = Vec::new();
        let mut refused = |what: &str, word: &str| {
            let word = cut(word, limits::WORD_BYTES);
            outputs.push(notice(Level::Warning, &format!("Claude Code does not offer the {what} {word}.")));
        };
        let model = wanted.model.filter(|model| {
            let is_offered = names.offers(model);
            if !is_offered {
                refused("model", model);
            }
            is_offered
        });
        // Which efforts there are depends on the model, which is the program's to judge when both change.
        let effort = wanted.effort.filter(|effort| {
            let is_offered = model.is_some() || settings.choices.efforts.contains(effort);
            if !is_offered {
                refused("effort", effort);
            }
            is_offered
        });
        if wanted.agent.is_some() {
            outputs.push(notice(
                Level::Warning,
                "Claude Code takes its agent when a session starts; it cannot be changed in mid-session.",
            ));
        }
        if model.is_none() && effort.is_none() {
            outputs.push(Output::Event(AgentEvent::Settings(settings.clone())));
            return outputs;
        }
        if let Some(model) = &model {
            outputs.push(self.request(json!({ "subtype": "set_model", "model": model })));
        }
        if let Some(effort) = &effort {
            let flags = json!({ "effortLevel": effort });
            outputs.push(self.request(json!({ "subtype": "apply_flag_settings", "settings": flags })));
        }
        outputs.push(self.request(json!({ "subtype": "get_settings" })));
        self.last = Some(self.id());
        self.wanted = Configure { model, effort, agent: None };
        outputs
    }

    fn id(&self) -> String {
        format!("aude-configure-{}", self.requests)
    }

    fn request(&mut self, request: Value) -> Output {
        self.requests += 1;
        Output::Write(wire::request(&self.id(), request))
    }

    /// Takes the answers to its own requests; whether it was one.
    pub(super) fn response(
        &mut self,
        response: &Response,
        settings: &mut Settings,
        names: &ModelNames,
        outputs: &mut Vec<Output>,
    ) -> bool {
        if !response.request_id.starts_with("aude-configure-") {
            return false;
        }
        let is_success = response.subtype == "success";
        if !is_success {
            let why = cut(response.error.as_str().unwrap_or("without a reason"), limits::WORD_BYTES);
            outputs.push(notice(Level::Warning, &format!("Claude Code refused the change: {why}")));
        }
        if self.last.as_ref() != Some(&response.request_id) {
            return true;
        }
        self.last = None;
        let wanted = std::mem::take(&mut self.wanted);
        let applied = |field: &str| {
            let value = response.response.get("applied")?.get(field)?.as_str()?;
            Some(cut(value, limits::WORD_BYTES).to_owned())
        };
        if is_success {
            let model = applied("model").or_else(|| settings.model.clone());
            names.apply(settings, model);
            settings.effort = applied("effort");
            let effort = wanted.effort.filter(|effort| settings.effort.as_ref() != Some(effort));
            if let Some(effort) = effort {
                let text = format!("Claude Code did not take the effort {effort}.");
                outputs.push(notice(Level::Warning, &text));
            }
        }
        outputs.push(Output::Event(AgentEvent::Settings(settings.clone())));
        true
    }
}
