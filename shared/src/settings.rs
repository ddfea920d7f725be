//! What a session runs with: conversation, model, effort, agent (wire §5.2).

use serde::{Deserialize, Serialize};

/// The settings of a session; each `settings` entry replaces the one before. Every field is present, `null` means none.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Settings {
    /// The agent's own id of the conversation, with which it is resumed.
    pub conversation: Option<String>,
    /// The model that answers.
    pub model: Option<String>,
    /// A short name of the model for people.
    pub alias: Option<String>,
    /// How hard the model thinks.
    pub effort: Option<String>,
    /// The agent or mode of the harness.
    pub agent: Option<String>,
    /// The size of the model's context, in tokens.
    #[serde(deserialize_with = "crate::json::nullable_integer")]
    pub context_tokens: Option<u64>,
    /// The git branch of the working directory.
    pub branch: Option<String>,
    /// What can be chosen.
    pub choices: Choices,
}

/// The models, efforts and agents that the harness offers; at most 256 of each.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Choices {
    /// Models by name.
    pub models: Vec<String>,
    /// Efforts by name.
    pub efforts: Vec<String>,
    /// Agents or modes by name.
    pub agents: Vec<String>,
}
