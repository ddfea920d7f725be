//! Pairing: what was in the address bar or is pasted, and the name of the device.

use leptos::prelude::*;

use crate::browser;
use crate::components::icon::Logo;
use crate::i18n::t;
use crate::state::{App, PairingProblem, Stage};

fn sentence(problem: &PairingProblem) -> String {
    match problem {
        PairingProblem::Unreadable => t().pair_unreadable().to_owned(),
        PairingProblem::Rejected => t().pair_rejected().to_owned(),
        PairingProblem::OtherMachine => t().pair_other_machine().to_owned(),
        PairingProblem::NotListed => t().pair_not_listed().to_owned(),
        PairingProblem::Unreachable => t().pair_unreachable().to_owned(),
        PairingProblem::Refused(detail) => t().pair_refused(detail),
    }
}

/// The page that pairs this browser with its machine.
#[component]
pub(crate) fn PairPage() -> impl IntoView {
    let app = expect_context::<App>();
    let name = RwSignal::new(app.device_name());
    let is_filled = app.is_from_address;
    let is_busy = move || app.stage.get() == Stage::PairingNow;
    let problem = move || match app.stage.get() {
        Stage::Pairing(problem) => problem,
        Stage::Opening | Stage::Unusable(_) | Stage::KeyLost | Stage::PairingNow | Stage::Ready => None,
    };
    let is_kept = app.is_paired()
        && !matches!(app.stage.get_untracked(), Stage::Pairing(Some(PairingProblem::NotListed)));
    let field = NodeRef::<leptos::html::Input>::new();
    let button = NodeRef::<leptos::html::Button>::new();
    Effect::new(move |_| {
        if is_filled.get() {
            if let Some(button) = button.get() {
                let _ = button.focus();
            }
        } else if let Some(field) = field.get()
            && !browser::has_coarse_pointer()
        {
            let _ = field.focus();
        }
    });
    let submit = move |event: leptos::ev::SubmitEvent| {
        event.prevent_default();
        if !is_busy() {
            let (text, name) = (app.pairing_text.get_untracked(), name.get_untracked());
            app.pair(&text, &name);
        }
    };
    view! {
        <main class="card-page">
            <section class="card">
                <Logo/>
                <h1>{t().pair_title()}</h1>
                <p class="lead">{t().pair_lead()}</p>
                <Show when=move || !is_filled.get() fallback=|| view! { <p class="hint">{t().pair_filled()}</p> }>
                    <ol class="steps">
                        <li>{t().pair_step_run()} " " <code>"aude pair"</code></li>
                        <li>{t().pair_step_open()}</li>
                    </ol>
                </Show>
                <form on:submit=submit>
                    <label for="pair-text">{t().pair_field()}</label>
                    <input
                        id="pair-text"
                        data-test="pair-input"
                        node_ref=field
                        type=move || if is_filled.get() { "password" } else { "text" }
                        autocomplete="off"
                        autocapitalize="none"
                        spellcheck="false"
                        required
                        placeholder=t().pair_placeholder()
                        aria-describedby="pair-error"
                        aria-invalid=move || problem().is_some().to_string()
                        prop:value=move || app.pairing_text.get()
                        on:input=move |event| app.pairing_text.set(event_target_value(&event))
                    />
                    <label for="pair-name">{t().pair_name()}</label>
                    <input
                        id="pair-name"
                        data-test="pair-name"
                        type="text"
                        maxlength="48"
                        autocomplete="off"
                        aria-describedby="pair-name-hint"
                        prop:value=move || name.get()
                        on:input=move |event| name.set(event_target_value(&event))
                    />
                    <p class="hint" id="pair-name-hint">
                        {t().pair_name_hint()}
                    </p>
                    <div id="pair-error" role="alert">
                        {move || {
                            problem()
                                .map(|problem| {
                                    view! {
                                        <p class="error" data-test="pair-error">
                                            {sentence(&problem)}
                                        </p>
                                    }
                                })
                        }}
                    </div>
                    <button class="primary" data-test="pair-button" type="submit" node_ref=button disabled=is_busy>
                        {move || if is_busy() { t().pairing_now() } else { t().pair_button() }}
                    </button>
                    <Show when=move || is_kept>
                        <button type="button" class="quiet" on:click=move |_| app.give_up_pairing()>
                            {t().keep_pairing()}
                        </button>
                    </Show>
                </form>
                <Show when=move || !app.is_lasting.get()>
                    <p class="hint" role="status">
                        {t().not_lasting()}
                    </p>
                </Show>
            </section>
        </main>
    }
}
