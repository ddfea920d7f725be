//! The browser's own interfaces, other than sockets and storage of the session: address, visibility, clock, clipboard, drafts.

use leptos::prelude::window;
use shared::ids::SessionId;
use shared::link::Now;
use shared::time::Timestamp;
use wasm_bindgen::prelude::Closure;
use wasm_bindgen::{JsCast, JsValue};
use web_sys::{Event, EventTarget};
use zeroize::Zeroizing;

/// What begins the fragment of a pairing URL.
const PAIR: &str = "#pair=";
/// Where drafts are kept, followed by the session's id.
const DRAFT: &str = "aude.draft.";

/// The moment on both clocks.
pub(crate) fn now() -> Now {
    Now { date: Timestamp::from_milliseconds(whole(js_sys::Date::now())), steady: steady() }
}

/// Milliseconds of a clock that never goes back.
pub(crate) fn steady() -> u64 {
    window().performance().map_or_else(|| whole(js_sys::Date::now()), |clock| whole(clock.now()))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "a browser's clock is a positive number of milliseconds far below 2^53"
)]
fn whole(milliseconds: f64) -> u64 {
    milliseconds.max(0.0) as u64
}

/// A random number from 0 up to 1, for jitter only.
pub(crate) fn chance() -> f64 {
    js_sys::Math::random()
}

/// Takes the secret of a pairing URL out of the address bar and the history, and returns it.
pub(crate) fn take_pairing() -> Option<Zeroizing<String>> {
    let window = window();
    let location = window.location();
    let hash = Zeroizing::new(location.hash().ok()?);
    let secret = Zeroizing::new(hash.strip_prefix(PAIR)?.to_owned());
    let path = location.pathname().unwrap_or_else(|_| "/".to_owned());
    if let Ok(history) = window.history() {
        let _ = history.replace_state_with_url(&JsValue::NULL, "", Some(&path));
    }
    Some(secret)
}

/// The origin that served this page.
pub(crate) fn origin() -> String {
    window().location().origin().unwrap_or_default()
}

/// The part of the address that names what is shown, without `#`.
pub(crate) fn fragment() -> String {
    window().location().hash().unwrap_or_default().trim_start_matches('#').to_owned()
}

/// Goes to another fragment, as a link would.
pub(crate) fn go_to(fragment: &str) {
    let _ = window().location().set_hash(fragment);
}

/// Goes to another fragment in place of the present one.
pub(crate) fn replace_with(fragment: &str) {
    let _ = window().location().replace(&format!("#{fragment}"));
}

/// Whether the browser gives this page its cryptography.
pub(crate) fn is_secure() -> bool {
    window().is_secure_context() && window().crypto().is_ok_and(|crypto| !crypto.subtle().is_undefined())
}

/// Whether the browser believes that it has a network.
pub(crate) fn is_online() -> bool {
    window().navigator().on_line()
}

/// Whether the page can be seen.
pub(crate) fn is_visible() -> bool {
    window().document().is_none_or(|document| !document.hidden())
}

/// Sets the title of the page.
pub(crate) fn set_title(title: &str) {
    if let Some(document) = window().document() {
        document.set_title(title);
    }
}

/// Calls back for as long as the page lives.
pub(crate) fn listen(target: &EventTarget, event: &str, callback: impl FnMut(Event) + 'static) {
    let closure = Closure::<dyn FnMut(Event)>::new(callback);
    let _ = target.add_event_listener_with_callback(event, closure.as_ref().unchecked_ref());
    closure.forget();
}

/// Calls back when the page comes to life again or has a network again.
pub(crate) fn on_wake(callback: impl Fn() + Clone + 'static) {
    let window = window();
    for event in ["pageshow", "online"] {
        let callback = callback.clone();
        listen(&window, event, move |_| callback());
    }
    if let Some(document) = window.document() {
        listen(&document, "visibilitychange", move |_| {
            if is_visible() {
                callback();
            }
        });
    }
}

/// Calls back before the next picture, or soon when the page is hidden and gets none.
pub(crate) fn soon(callback: impl FnOnce() + 'static) {
    if is_visible() {
        leptos::prelude::request_animation_frame(callback);
    } else {
        leptos::prelude::set_timeout(callback, std::time::Duration::from_millis(200));
    }
}

/// What a person would call this browser: `Chromium on Linux`.
pub(crate) fn device_name() -> String {
    let agent = window().navigator().user_agent().unwrap_or_default();
    format!("{} on {}", browser_name(&agent), system_name(&agent))
}

fn browser_name(agent: &str) -> &'static str {
    let names = [
        ("Firefox/", "Firefox"),
        ("FxiOS/", "Firefox"),
        ("Edg", "Edge"),
        ("OPR/", "Opera"),
        ("SamsungBrowser/", "Samsung Internet"),
        ("CriOS/", "Chrome"),
        ("HeadlessChrome/", "Chromium"),
        ("Chrome/", if is_chromium() { "Chromium" } else { "Chrome" }),
        ("Safari/", "Safari"),
    ];
    names.iter().find(|(mark, _)| agent.contains(mark)).map_or("Browser", |(_, name)| name)
}

fn system_name(agent: &str) -> &'static str {
    let names = [
        ("Android", "Android"),
        ("iPhone", "iPhone"),
        ("iPad", "iPad"),
        ("Windows", "Windows"),
        ("Mac OS X", "Mac"),
        ("CrOS", "ChromeOS"),
        ("Linux", "Linux"),
    ];
    names.iter().find(|(mark, _)| agent.contains(mark)).map_or("this device", |(_, name)| name)
}

/// Whether this is Chromium and not one of the browsers made from it, by the brands that it names.
fn is_chromium() -> bool {
    let read = |value: &JsValue, name: &str| js_sys::Reflect::get(value, &name.into()).unwrap_or_default();
    let brands = read(&read(&window().navigator(), "userAgentData"), "brands");
    let Ok(brands) = brands.dyn_into::<js_sys::Array>() else { return false };
    let names: Vec<String> = brands.iter().filter_map(|brand| read(&brand, "brand").as_string()).collect();
    names.iter().any(|name| name == "Chromium") && !names.iter().any(|name| name == "Google Chrome")
}

/// Whether the main pointer is a finger, so that a field that takes the focus would bring up a keyboard.
pub(crate) fn has_coarse_pointer() -> bool {
    let query = window().match_media("(pointer: coarse)");
    query.ok().flatten().is_some_and(|query| query.matches())
}

/// The text that was typed for a session and not sent.
pub(crate) fn draft(session: SessionId) -> String {
    let storage = window().local_storage().ok().flatten();
    storage
        .and_then(|storage| storage.get_item(&format!("{DRAFT}{session}")).ok().flatten())
        .unwrap_or_default()
}

/// Keeps the text that was typed for a session; a browser that keeps nothing forgets it with the page.
pub(crate) fn keep_draft(session: SessionId, text: &str) {
    let Some(storage) = window().local_storage().ok().flatten() else { return };
    let name = format!("{DRAFT}{session}");
    let _ = if text.is_empty() { storage.remove_item(&name) } else { storage.set_item(&name, text) };
}

/// Puts a text on the clipboard; false when the browser does not let us.
pub(crate) async fn copy(text: &str) -> bool {
    if !window().is_secure_context() {
        return false;
    }
    let promise = window().navigator().clipboard().write_text(text);
    wasm_bindgen_futures::JsFuture::from(promise).await.is_ok()
}

/// Asks the browser not to throw our storage away when space is short.
pub(crate) async fn ask_for_lasting_storage() {
    if let Ok(promise) = window().navigator().storage().persist() {
        let _ = wasm_bindgen_futures::JsFuture::from(promise).await;
    }
}

/// Gives an element the focus.
pub(crate) fn focus(element: &web_sys::Element) {
    if let Some(element) = element.dyn_ref::<web_sys::HtmlElement>() {
        let _ = element.focus();
    }
}

/// Whether a question is open that takes the keys for itself.
pub(crate) fn has_dialog() -> bool {
    let open =
        window().document().and_then(|document| document.query_selector("dialog[open]").ok().flatten());
    open.is_some()
}

/// Shows a last sentence in place of a page that cannot go on.
pub(crate) fn show_end(sentence: &str) {
    let Some(document) = window().document() else { return };
    let (Some(body), Ok(end)) = (document.body(), document.create_element("p")) else { return };
    end.set_class_name("end");
    let _ = end.set_attribute("role", "alert");
    end.set_text_content(Some(sentence));
    let _ = body.append_child(&end);
}
