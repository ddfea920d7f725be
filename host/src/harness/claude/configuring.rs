//! Another model or effort in mid-session: asked of the program, and told only as the program confirms it; pure.

use std::collections::VecDeque;

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
    /// The id of the request that runs.
    running: Option<String>,
    /// What is asked after it: the program takes requests side by side, so that each waits for the answer to the one before.
    /// The last of all is what the program runs with.
    next: VecDeque<Value>,
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
            self.next.push_back(json!({ "subtype": "set_model", "model": model }));
        }
        if let Some(effort) = &effort {
            let flags = json!({ "effortLevel": effort });
            self.next.push_back(json!({ "subtype": "apply_flag_settings", "settings": flags }));
        }
        self.next.push_back(json!({ "subtype": "get_settings" }));
        self.wanted = Configure { model, effort, agent: None };
        if self.running.is_none() {
            outputs.extend(self.go_on());
        }
        outputs
    }

    /// The next request, if there is one.
    fn go_on(&mut self) -> Option<Output> {
        let request = self.next.pop_front()?;
        self.requests += 1;
        let id = format!("aude-configure-{}", self.requests);
        self.running = Some(id.clone());
        Some(Output::Write(wire::request(&id, request)))
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
        if self.running.as_ref() != Some(&response.request_id) {
            return true;
        }
        self.running = None;
        if let Some(next) = self.go_on() {
            outputs.push(next);
            return true;
        }
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
