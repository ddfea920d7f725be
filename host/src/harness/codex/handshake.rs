//! From the first line to a thread that is ready: its models, and a policy under which it asks, which it has confirmed.

use serde_json::{Value, json};
use shared::json::cut;
use shared::limits;
use shared::settings::{Choices, Settings};

use super::wire::{Model, text};
use crate::harness::{OpenError, Opening};

/// Codex asks before every command that is not known to be harmless, and before every change of a file.
pub(super) const POLICY: &str = "untrusted";
/// What was allowed still runs in Codex's sandbox: it writes in the working directory and has no network.
const SANDBOX: &str = "workspace-write";

/// The parameters of `initialize`.
pub(super) fn initialize() -> Value {
    json!({ "clientInfo": { "name": "aude", "title": "aude", "version": env!("CARGO_PKG_VERSION") } })
}

/// The parameters of `thread/start`, or of `thread/resume` where there is a conversation.
pub(super) fn thread(opening: &Opening, conversation: Option<&str>) -> Value {
    let mut params = json!({
        "cwd": opening.place.working_directory,
        "approvalPolicy": POLICY,
        "approvalsReviewer": "user",
        "sandbox": SANDBOX,
    });
    if let Some(model) = &opening.model {
        params["model"] = json!(model);
    }
    if let Some(id) = conversation {
        params["threadId"] = json!(id);
        params["excludeTurns"] = json!(true);
    }
    params
}

/// The models that can be chosen.
pub(super) fn models(result: &Value) -> Vec<Model> {
    let all = result.get("data").and_then(Value::as_array).into_iter().flatten();
    let known = all.filter_map(|model| serde_json::from_value::<Model>(model.clone()).ok());
    let fits = |model: &Model| !model.model.is_empty() && model.model.len() <= limits::WORD_BYTES;
    known.filter(|model| !model.hidden && fits(model)).take(limits::CHOICES).collect()
}

/// Whether a model may be chosen; `is_custom` where the service is not OpenAI's own, whose models the program does not know.
pub(super) fn knows(models: &[Model], is_custom: bool, model: &str) -> bool {
    is_custom || models.is_empty() || models.iter().any(|known| known.model == model)
}

/// The efforts of a model.
pub(super) fn efforts(models: &[Model], model: Option<&str>) -> Vec<String> {
    let known = models.iter().find(|known| Some(known.model.as_str()) == model);
    let all = known.into_iter().flat_map(|known| &known.supported_reasoning_efforts);
    let words = all.map(|effort| effort.reasoning_effort.clone());
    words.filter(|word| !word.is_empty() && word.len() <= limits::WORD_BYTES).take(limits::CHOICES).collect()
}

/// Sets model, name and efforts.
pub(super) fn apply(settings: &mut Settings, models: &[Model], model: &str) {
    let model = cut(model, limits::WORD_BYTES);
    let known = models.iter().find(|known| known.model == model);
    let alias = known.map(|known| cut(&known.display_name, limits::WORD_BYTES).to_owned());
    settings.alias = alias.filter(|name| !name.is_empty());
    settings.choices.efforts = efforts(models, Some(model));
    settings.model = (!model.is_empty()).then(|| model.to_owned());
}

/// The id of the thread and the settings, once the program has confirmed under which policy it runs.
///
/// # Errors
/// [`OpenError::Start`] where it runs under another one, or says nothing of it.
pub(super) fn ready(
    opening: &Opening,
    models: &[Model],
    result: &Value,
) -> Result<(String, Settings), OpenError> {
    let fail = |detail: &str| Err(OpenError::Start { detail: detail.to_owned() });
    let sandbox = text(&result["sandbox"], "type");
    let reviewer = text(result, "approvalsReviewer");
    if text(result, "approvalPolicy") != POLICY || !["workspaceWrite", "readOnly"].contains(&sandbox) {
        return fail("it did not confirm that it asks before it acts");
    }
    if !reviewer.is_empty() && reviewer != "user" {
        return fail("it would let a model decide what a person should");
    }
    let thread = text(&result["thread"], "id");
    if thread.is_empty() || thread.len() > limits::WORD_BYTES {
        return fail("it opened no conversation");
    }
    let effort = opening.effort.clone().or_else(|| result["reasoningEffort"].as_str().map(str::to_owned));
    let mut settings = Settings {
        effort: effort.map(|effort| cut(&effort, limits::WORD_BYTES).to_owned()),
        choices: Choices {
            models: models.iter().map(|model| model.model.clone()).collect(),
            ..Choices::default()
        },
        ..Settings::default()
    };
    apply(&mut settings, models, text(result, "model"));
    if let Some(effort) = &opening.effort
        && !settings.choices.efforts.is_empty()
        && !settings.choices.efforts.contains(effort)
    {
        return fail(&format!("its model does not offer the effort {}", cut(effort, limits::WORD_BYTES)));
    }
    Ok((thread.to_owned(), settings))
}
