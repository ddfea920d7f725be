//! The page as a whole: bar, list, and the page that the address names.

use leptos::prelude::*;

use crate::browser;
use crate::components::connection::ConnectionBadge;
use crate::components::icon::{Icon, Shape};
use crate::i18n::t;
use crate::pages::pair::PairPage;
use crate::pages::session::SessionPage;
use crate::pages::sessions::SessionList;
use crate::pages::start::StartPage;
use crate::state::{App, Connection, Route, Stage};

/// Makes the state and shows the page.
pub(crate) fn page(pairing: Option<String>) -> impl IntoView {
    let app = App::new(pairing);
    provide_context(app);
    app.start();
    // What a pairing finds out changes the words on its page, and must not lay the page anew.
    let stage = Memo::new(move |_| match app.stage.get() {
        Stage::PairingNow | Stage::Pairing(_) => Stage::Pairing(None),
        stage @ (Stage::Opening | Stage::Unusable(_) | Stage::KeyLost | Stage::Ready) => stage,
    });
    // The page's own progress notice goes once there is something to see.
    view! {
        {move || match stage.get() {
            Stage::Opening => view! { <p class="lonely" role="status">{t().opening()}</p> }.into_any(),
            Stage::Unusable(sentence) => {
                view! {
                    <main class="card-page">
                        <section class="card">
                            <h1>{t().unusable_title()}</h1>
                            <p role="alert">{sentence}</p>
                        </section>
                    </main>
                }
                    .into_any()
            }
            Stage::KeyLost => {
                view! {
                    <main class="card-page">
                        <section class="card">
                            <h1>{t().key_lost_title()}</h1>
                            <p role="alert">{t().key_lost()}</p>
                            <button class="primary" on:click=move |_| app.renew_key()>
                                {t().key_lost_button()}
                            </button>
                        </section>
                    </main>
                }
                    .into_any()
            }
            Stage::Pairing(_) | Stage::PairingNow => view! { <PairPage/> }.into_any(),
            Stage::Ready => view! { <Shell/> }.into_any(),
        }}
        <div class="visually-hidden" role="status" aria-live="polite">
            {move || app.announcement.get()}
        </div>
        <Show when=move || app.toast.with(Option::is_some)>
            <div class="toast" data-test="toast">
                <span>{move || app.toast.get()}</span>
                <button class="quiet" on:click=move |_| app.toast.set(None)>
                    {t().dismiss()}
                </button>
            </div>
        </Show>
    }
}

#[component]
fn Shell() -> impl IntoView {
    let app = expect_context::<App>();
    let route = Memo::new(move |_| app.route.get());
    let kind = move || match route.get() {
        Route::Home => "home",
        Route::New => "new",
        Route::Session(_) => "session",
    };
    Effect::new(move |_| {
        if !matches!(route.get(), Route::Session(_)) {
            let title = match app.waiting_but(None) {
                0 => "aude".to_owned(),
                count => t().waiting_title(count, "aude"),
            };
            browser::set_title(&title);
        }
    });
    // A page that does not take the focus itself gets it whole, so that the keyboard and the screen reader go on there.
    Effect::new(move |before: Option<Route>| {
        let now = route.get();
        if before.is_some_and(|before| before != now)
            && (browser::has_coarse_pointer() || now == Route::Home)
            && let Some(main) = document().get_element_by_id("main")
        {
            browser::focus(&main);
        }
        now
    });
    view! {
        <div class="shell" data-route=kind>
            <button
                class="skip"
                on:click=move |_| {
                    if let Some(main) = document().get_element_by_id("main") {
                        browser::focus(&main);
                    }
                }
            >
                {t().skip_to_content()}
            </button>
            <header class="bar">
                <a class="back icon-button" href=Route::Home.link() aria-label=t().back()>
                    <Icon shape=Shape::Back/>
                </a>
                <a class="brand" href=Route::Home.link()>
                    "aude"
                </a>
                <span class="bar-title">
                    {move || match route.get() {
                        Route::Home => t().sessions().to_owned(),
                        Route::New => t().start_title().to_owned(),
                        Route::Session(id) => {
                            app.records
                                .with(|records| records.get(&id).map(|record| record.name.clone()))
                                .unwrap_or_default()
                        }
                    }}
                </span>
                <ConnectionBadge
                    connection=Signal::derive(move || app.connection())
                    clock=app.clock
                    is_online=app.is_online
                    on_now=move || app.connect_now()
                />
            </header>
            <Show when=move || !app.is_lasting.get()>
                <p class="strip" role="status">
                    {t().not_lasting()}
                </p>
            </Show>
            <Show when=move || app.machine_connection.get() == Connection::OtherMachine>
                <div class="strip" role="alert">
                    <span>{t().other_machine_help()}</span>
                    <button class="small" data-test="pair-again" on:click=move |_| app.pair_again()>
                        {t().pair_again()}
                    </button>
                </div>
            </Show>
            <div class="panes">
                <nav class="side" aria-label=t().sessions()>
                    <SessionList/>
                </nav>
                <main id="main" class="content" tabindex="-1">
                    {move || match route.get() {
                        Route::Home => view! { <p class="placeholder">{t().pick_session()}</p> }.into_any(),
                        Route::New => view! { <StartPage/> }.into_any(),
                        Route::Session(id) => view! { <SessionPage id=id/> }.into_any(),
                    }}
                </main>
            </div>
        </div>
    }
}
