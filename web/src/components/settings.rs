//! What a session runs with, as far as its harness lets a person choose: model, effort, mode.

use leptos::prelude::*;
use shared::request::Configure;
use shared::settings::Settings;

use crate::i18n::t;

/// The choices that the harness offers; nothing where there are none.
#[component]
pub(crate) fn SettingsChoice(
    /// The settings.
    settings: Signal<Option<Settings>>,
    /// Whether a choice can be sent.
    can_choose: Signal<bool>,
    /// Ask for one.
    on_choose: impl Fn(Configure) + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let read = move |read: fn(&Settings) -> (&Vec<String>, &Option<String>)| {
        Memo::new(move |_| {
            settings.with(|settings| {
                let (choices, chosen) = read(settings.as_ref()?);
                (choices.len() > 1).then(|| (choices.clone(), chosen.clone()))
            })
        })
    };
    let models = read(|settings| (&settings.choices.models, &settings.model));
    let efforts = read(|settings| (&settings.choices.efforts, &settings.effort));
    let agents = read(|settings| (&settings.choices.agents, &settings.agent));
    view! {
        <Show when=move || models.with(Option::is_some) || efforts.with(Option::is_some) || agents.with(Option::is_some)>
            <div class="choices" data-test="choices">
                <Choice
                    word="model"
                    label=t().model()
                    all=models
                    can_choose=can_choose
                    on_choose=move |model| on_choose(Configure { model: Some(model), ..Configure::default() })
                />
                <Choice
                    word="effort"
                    label=t().effort()
                    all=efforts
                    can_choose=can_choose
                    on_choose=move |effort| on_choose(Configure { effort: Some(effort), ..Configure::default() })
                />
                <Choice
                    word="agent"
                    label=t().agent_mode()
                    all=agents
                    can_choose=can_choose
                    on_choose=move |agent| on_choose(Configure { agent: Some(agent), ..Configure::default() })
                />
            </div>
        </Show>
    }
}

#[component]
fn Choice(
    word: &'static str,
    label: &'static str,
    all: Memo<Option<(Vec<String>, Option<String>)>>,
    can_choose: Signal<bool>,
    on_choose: impl Fn(String) + Copy + Send + Sync + 'static,
) -> impl IntoView {
    move || {
        all.get().map(|(choices, chosen)| {
            // A name that is not among the choices, as a harness may report it, stands by itself.
            let other = chosen.clone().filter(|chosen| !choices.contains(chosen));
            let none = chosen.is_none().then(|| view! { <option value="" selected=true>"–"</option> });
            let shown = chosen.clone().unwrap_or_default();
            let option = |name: String| {
                let is_chosen = chosen.as_ref() == Some(&name);
                view! { <option value=name.clone() selected=is_chosen>{name.clone()}</option> }
            };
            let options: Vec<_> = other.into_iter().chain(choices).map(option).collect();
            view! {
                <label class="choice">
                    <span>{label}</span>
                    <select
                        data-test=format!("choose-{word}")
                        disabled=move || !can_choose.get()
                        on:change=move |event| {
                            let name = event_target_value(&event);
                            if !name.is_empty() && name != shown {
                                on_choose(name);
                            }
                        }
                    >
                        {none}
                        {options}
                    </select>
                </label>
            }
        })
    }
}
