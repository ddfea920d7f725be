//! What a session runs with, as far as its harness lets a person choose: model, effort, mode.

use leptos::html::Select;
use leptos::prelude::*;
use shared::request::Configure;
use shared::settings::Settings;

use crate::i18n::t;

/// The choices that the harness offers; nothing where there are none.
#[component]
pub(crate) fn SettingsChoice(
    /// The settings.
    settings: Signal<Option<Settings>>,
    /// What was chosen and is not in the settings yet.
    wish: Signal<Option<Configure>>,
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
    let wished = move |read: fn(&Configure) -> &Option<String>| {
        Memo::new(move |_| wish.with(|wish| wish.as_ref().and_then(|wish| read(wish).clone())))
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
                    wished=wished(|wish| &wish.model)
                    can_choose=can_choose
                    on_choose=move |model| on_choose(Configure { model: Some(model), ..Configure::default() })
                />
                <Choice
                    word="effort"
                    label=t().effort()
                    all=efforts
                    wished=wished(|wish| &wish.effort)
                    can_choose=can_choose
                    on_choose=move |effort| on_choose(Configure { effort: Some(effort), ..Configure::default() })
                />
                <Choice
                    word="agent"
                    label=t().agent_mode()
                    all=agents
                    wished=wished(|wish| &wish.agent)
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
    wished: Memo<Option<String>>,
    can_choose: Signal<bool>,
    on_choose: impl Fn(String) + Copy + Send + Sync + 'static,
) -> impl IntoView {
    let select = NodeRef::<Select>::new();
    let chosen = Memo::new(move |_| all.with(|all| all.as_ref().and_then(|(_, chosen)| chosen.clone())));
    let options = Memo::new(move |_| {
        let (choices, chosen) = all.get().unwrap_or_default();
        // A name that is not among the choices, as a harness may report it, stands by itself.
        let other = chosen.filter(|chosen| !choices.contains(chosen));
        other.into_iter().chain(choices).collect::<Vec<_>>()
    });
    let shown = move || wished.get().or_else(|| chosen.get()).unwrap_or_default();
    // A picked value that did not come true leaves the field as soon as that is known, also where the settings stay the same.
    Effect::new(move |_| {
        let shown = shown();
        options.track();
        if let Some(select) = select.get() {
            select.set_value(&shown);
        }
    });
    view! {
        <Show when=move || all.with(Option::is_some)>
            <label class="choice" class:wished=move || wished.with(Option::is_some)>
                <span>{label}</span>
                <select
                    node_ref=select
                    data-test=format!("choose-{word}")
                    aria-busy=move || wished.with(Option::is_some).to_string()
                    title=move || wished.with(Option::is_some).then(|| t().choosing())
                    disabled=move || !can_choose.get()
                    on:change=move |event| {
                        let name = event_target_value(&event);
                        if !name.is_empty() && name != untrack(shown) {
                            on_choose(name);
                        }
                    }
                >
                    <Show when=move || chosen.with(Option::is_none)>
                        <option value="">"–"</option>
                    </Show>
                    {move || {
                        options.get().into_iter().map(|name| view! { <option value=name.clone()>{name.clone()}</option> }).collect_view()
                    }}
                </select>
            </label>
        </Show>
    }
}
