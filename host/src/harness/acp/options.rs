//! What an agent says can be chosen in a session, and what is chosen: modes, models, efforts, in both forms that ACP has for them.

use serde_json::{Value, json};
use shared::json::cut;
use shared::limits;
use shared::settings::Settings;

/// One thing that can be chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// The permission mode; for some agents also who answers.
    Mode,
    /// The model.
    Model,
    /// How hard the model thinks.
    Effort,
}

/// What can be chosen of one kind.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Choice {
    /// The id of the configuration option; none where only the older form is there.
    option: Option<String>,
    /// The ids with their names for people.
    values: Vec<(String, String)>,
    current: Option<String>,
}

/// All that can be chosen, and what is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Options {
    mode: Choice,
    model: Choice,
    effort: Choice,
}

impl Options {
    /// Reads what came with a session, with a change or with the answer to one; what is not there stays as it was.
    pub(super) fn read(&mut self, value: &Value) {
        if let Some(modes) = value.get("modes") {
            older(&mut self.mode, modes, "availableModes", "id", "currentModeId");
        }
        if let Some(models) = value.get("models") {
            older(&mut self.model, models, "availableModels", "modelId", "currentModelId");
        }
        for option in value.get("configOptions").and_then(Value::as_array).into_iter().flatten() {
            let id = text(option, "id");
            let category = text(option, "category").or(id).unwrap_or_default();
            let choice = match category {
                "mode" => &mut self.mode,
                "model" => &mut self.model,
                "thought_level" | "effort" => &mut self.effort,
                _ => continue,
            };
            let mut values = Vec::new();
            collect(option.get("options").unwrap_or(&Value::Null), &mut values);
            *choice = Choice {
                option: id.map(str::to_owned),
                values,
                current: text(option, "currentValue").map(word),
            };
        }
    }

    /// What is chosen of a kind.
    pub(super) fn current(&self, kind: Kind) -> Option<&str> {
        self.choice(kind).current.as_deref()
    }

    /// Sets what is chosen, where the agent said so in another way.
    pub(super) fn set(&mut self, kind: Kind, value: &str) {
        let choice = match kind {
            Kind::Mode => &mut self.mode,
            Kind::Model => &mut self.model,
            Kind::Effort => &mut self.effort,
        };
        choice.current = Some(word(value));
    }

    /// Whether a value is offered.
    pub(super) fn offers(&self, kind: Kind, value: &str) -> bool {
        self.choice(kind).values.iter().any(|(id, _)| id == value)
    }

    /// The values that are offered.
    pub(super) fn values(&self, kind: Kind) -> Vec<String> {
        self.choice(kind).values.iter().map(|(id, _)| id.clone()).collect()
    }

    /// The method and parameters that choose a value.
    pub(super) fn request(&self, kind: Kind, session: &str, value: &str) -> (&'static str, Value) {
        match (&self.choice(kind).option, kind) {
            (Some(option), _) => (
                "session/set_config_option",
                json!({ "sessionId": session, "configId": option, "value": value }),
            ),
            (None, Kind::Model) => ("session/set_model", json!({ "sessionId": session, "modelId": value })),
            (None, Kind::Mode | Kind::Effort) => {
                ("session/set_mode", json!({ "sessionId": session, "modeId": value }))
            }
        }
    }

    /// Writes all into the settings; `modes` are those that a person may choose.
    pub(super) fn apply(&self, settings: &mut Settings, modes: &[String]) {
        let model = self.model.current.clone();
        let named = self.model.values.iter().find(|(id, name)| Some(id) == model.as_ref() && name != id);
        settings.alias = named.map(|(_, name)| name.clone());
        settings.model = model;
        settings.effort.clone_from(&self.effort.current);
        settings.agent.clone_from(&self.mode.current);
        settings.choices.models = self.values(Kind::Model);
        settings.choices.efforts = self.values(Kind::Effort);
        settings.choices.agents =
            self.values(Kind::Mode).into_iter().filter(|mode| modes.contains(mode)).collect();
    }

    fn choice(&self, kind: Kind) -> &Choice {
        match kind {
            Kind::Mode => &self.mode,
            Kind::Model => &self.model,
            Kind::Effort => &self.effort,
        }
    }
}

/// The older form. Where both are there the newer one is read after it and wins.
fn older(choice: &mut Choice, value: &Value, list: &str, id: &str, current: &str) {
    let listed = value.get(list).and_then(Value::as_array).into_iter().flatten();
    let values = listed.filter_map(|value| named(value, id)).take(limits::CHOICES).collect();
    *choice = Choice { option: None, values, current: text(value, current).map(word) };
}

/// The values of an option, also those in groups.
fn collect(options: &Value, values: &mut Vec<(String, String)>) {
    for option in options.as_array().into_iter().flatten() {
        if values.len() >= limits::CHOICES {
            return;
        }
        match named(option, "value") {
            Some(value) => values.push(value),
            None => {
                for inner in option.get("options").and_then(Value::as_array).into_iter().flatten() {
                    if values.len() < limits::CHOICES {
                        values.extend(named(inner, "value"));
                    }
                }
            }
        }
    }
}

fn named(value: &Value, id: &str) -> Option<(String, String)> {
    // A value that is cut would mean another one.
    let id = text(value, id).filter(|id| !id.is_empty() && id.len() <= limits::WORD_BYTES)?;
    Some((id.to_owned(), text(value, "name").map_or_else(|| id.to_owned(), word)))
}

fn text<'a>(value: &'a Value, field: &str) -> Option<&'a str> {
    value.get(field).and_then(Value::as_str)
}

fn word(text: &str) -> String {
    cut(text, limits::WORD_BYTES).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_older_and_the_newer_form_are_read() {
        let mut options = Options::default();
        options.read(&json!({
            "modes": {"currentModeId": "default", "availableModes": [{"id": "default", "name": "Default"}, {"id": "yolo"}]},
            "models": {"currentModelId": "a", "availableModels": [{"modelId": "a", "name": "Model A"}, {"modelId": 7}]}}));
        assert_eq!(options.request(Kind::Mode, "s", "default").0, "session/set_mode");
        assert_eq!(options.request(Kind::Model, "s", "a").0, "session/set_model");
        let mut settings = Settings::default();
        options.apply(&mut settings, &["default".to_owned(), "plan".to_owned()]);
        assert_eq!(settings.alias.as_deref(), Some("Model A"));
        assert_eq!(settings.choices.agents, ["default"]);
        options.read(&json!({"configOptions": [
            {"id": "m", "category": "model", "currentValue": "b", "options": [
                {"group": "x", "options": [{"value": "b"}]}, {"value": "c", "name": "C"}]},
            {"id": "thinking", "category": "thought_level", "currentValue": "low", "options": [{"value": "low"}]},
            {"id": "provider", "currentValue": "x"}, 7]}));
        assert_eq!(options.values(Kind::Model), ["b", "c"]);
        assert_eq!(options.current(Kind::Effort), Some("low"));
        let (method, params) = options.request(Kind::Model, "s", "c");
        assert_eq!((method, &params["configId"]), ("session/set_config_option", &json!("m")));
        assert_eq!(options.current(Kind::Mode), Some("default"));
    }
}
