//! What an engine keeps to beside the permissions of its tools: policies, guardrails, hooks, budgets, and what its model is told beforehand.

use std::sync::Arc;

use super::config::{Guardrail, Hook, Limits, Names, Policies, Policy};
use super::tools::ToolSpec;

/// The rules of one engine. Nothing is set where nobody set it.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// What becomes of the calls of each tool.
    pub policies: Policies,
    /// Texts that may not be said.
    pub guardrails: Vec<Guardrail>,
    /// Programs that may stop a turn.
    pub hooks: Vec<Hook>,
    /// Tokens of one turn, read and written.
    pub token_budget: Option<u64>,
    /// The share of the context, in percent, at which the conversation is made smaller.
    pub compact_at: u64,
    /// Tokens of the model's context, where the provider does not say.
    pub context_tokens: Option<u64>,
    /// The tools that the model has; all where none is named.
    pub offered: Option<Names>,
    /// What the model is told beforehand.
    pub instructions: Arc<str>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            policies: Policies::default(),
            guardrails: Vec::new(),
            hooks: Vec::new(),
            token_budget: None,
            compact_at: Limits::default().compact_at,
            context_tokens: None,
            offered: None,
            instructions: Arc::from(""),
        }
    }
}

impl Rules {
    /// Whether the model has a tool.
    #[must_use]
    pub fn offer(&self, tool: &str) -> bool {
        self.offered.as_ref().is_none_or(|names| names.hold(tool))
            && self.policies.of(tool) != Some(Policy::Deny)
    }

    /// Those of these tools that the model has.
    #[must_use]
    pub fn offered(&self, all: Vec<ToolSpec>) -> Vec<ToolSpec> {
        all.into_iter().filter(|tool| self.offer(&tool.name)).collect()
    }

    /// The guardrail that a message of a person runs into, and what is said of it.
    #[must_use]
    pub fn refused_input(&self, text: &str) -> Option<String> {
        self.guardrails
            .iter()
            .find(|rail| rail.input.as_ref().is_some_and(|pattern| pattern.0.is_match(text)))
            .map(|rail| said(rail, "the message"))
    }

    /// The same for an answer of the model.
    #[must_use]
    pub fn refused_output(&self, text: &str) -> Option<String> {
        self.guardrails
            .iter()
            .find(|rail| rail.output.as_ref().is_some_and(|pattern| pattern.0.is_match(text)))
            .map(|rail| said(rail, "the answer"))
    }
}

fn said(rail: &Guardrail, what: &str) -> String {
    match &rail.message {
        Some(message) => message.clone(),
        None => format!("the guardrail {:?} does not let {what} pass", rail.name),
    }
}
