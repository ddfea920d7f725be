//! The driver of Chromium, tried on a small page: what the stories about the real client rely on.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "a test that cannot go on should stop where it stands"
)]

use std::fs;
use std::path::Path;
use std::time::Duration;

use axum::Router;
use axum::extract::WebSocketUpgrade;
use axum::http::header::{CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tests::page::{ColorScheme, Network, Page, Screen, marked};
use tests::wait;

#[tokio::test]
async fn a_person_types_clicks_reloads_and_the_browser_keeps_what_it_was_given() {
    let address = serve().await;
    let page = Page::open().await;
    page.goto(&address).await;
    page.wait_for(&marked("composer")).await;

    page.click(&marked("composer")).await;
    page.type_text("Zwei Zeilen,").await;
    page.press("Shift+Enter").await;
    page.type_text("grüßend 🙂").await;
    assert_eq!(page.value(&marked("composer")).await, "Zwei Zeilen,\ngrüßend 🙂");
    page.press("Enter").await;
    page.wait_for_text(&marked("sent"), "grüßend 🙂").await;
    page.type_text("with the button").await;
    page.click(&marked("send")).await;
    page.wait_for_text(&marked("sent"), "with the button").await;
    assert_eq!(page.texts("li").await, ["Zwei Zeilen, grüßend 🙂", "with the button"]);
    assert_eq!(page.count("li").await, 2);

    page.eval(
        "crypto.subtle.generateKey({ name: 'AES-GCM', length: 256 }, false, ['encrypt']).then((key) => new Promise((done) => {
            const opening = indexedDB.open('keys', 1);
            opening.onupgradeneeded = () => opening.result.createObjectStore('device');
            opening.onsuccess = () => {
                const change = opening.result.transaction('device', 'readwrite');
                change.objectStore('device').put({ key, bytes: new Uint8Array([0, 255]) }, 'own');
                change.oncomplete = () => { opening.result.close(); done(); };
            };
        }))",
    )
    .await;
    page.reload().await;
    assert_eq!(page.count("li").await, 0);
    assert_storage(&page).await;

    let page = page.restart_browser().await;
    page.goto(&address).await;
    assert_storage(&page).await;
    let other = page.another().await;
    other.goto(&format!("{address}#fragment")).await;
    other.goto(&format!("{address}#other")).await;
    assert_eq!(other.url().await, format!("{address}#other"));
    assert_eq!(other.history().await.len(), 3);
    assert_storage(&other).await;
}

async fn assert_storage(page: &Page) {
    let storage = page.storage().await;
    assert_eq!(storage["local"], json!({ "last": "with the button" }));
    let key = json!({ "CryptoKey": { "type": "secret", "extractable": false, "algorithm": "AES-GCM" } });
    let own = json!({ "key": "own", "value": { "key": key, "bytes": { "bytes": "00ff" } } });
    assert_eq!(storage["databases"], json!({ "keys": { "device": [own] } }));
}

#[tokio::test]
async fn an_input_method_composes_and_its_enter_is_told_from_one_that_sends() {
    let page = Page::open().await;
    page.goto(&serve().await).await;
    page.click(&marked("composer")).await;
    page.eval(
        "window.keys = []; document.addEventListener('keydown', (event) => keys.push([event.key, event.keyCode, event.isComposing]), true)",
    )
    .await;

    page.compose("にほn").await;
    assert_eq!(page.value(&marked("composer")).await, "にほn");
    page.confirm_composition("日本").await;
    page.compose("ご").await;
    page.confirm_composition_like_safari("語").await;
    assert_eq!(page.value(&marked("composer")).await, "日本語");
    assert_eq!(page.count("li").await, 0);
    page.press("Enter").await;
    page.wait_for_text(&marked("sent"), "日本語").await;
    let keys = page.eval("keys").await;
    assert_eq!(keys, json!([["Enter", 229, true], ["Enter", 229, false], ["Enter", 13, false]]));
}

#[tokio::test]
async fn a_lost_network_refuses_sockets_and_a_regained_one_lets_them_come_back() {
    let address = serve().await;
    let page = Page::open().await;
    page.goto(&address).await;
    page.wait_for_attribute(&marked("link"), "data-state", "open").await;
    page.eval("addEventListener('offline', () => { window.wentOffline = true; })").await;
    page.network(Network::Offline).await;
    page.wait_for_script("the page to be told", "window.wentOffline && !navigator.onLine").await;
    // As on a phone, nobody tells an open socket; a new one is refused.
    page.eval("socket.close()").await;
    page.wait_for_text(&marked("link"), "refused").await;
    let other = page.another().await;
    other.network(Network::Offline).await;
    assert_eq!(other.try_goto(&address).await, Err("net::ERR_INTERNET_DISCONNECTED".to_owned()));
    page.network(Network::Slow(Duration::from_millis(20), 100_000)).await;
    page.wait_for_text(&marked("link"), "open").await;
    page.network(Network::Online).await;
    page.reload().await;
    page.wait_for_text(&marked("link"), "open").await;
}

#[tokio::test]
async fn screens_colours_accessibility_and_installability_are_seen() {
    let page = Page::open().await;
    page.screen(Screen::Phone(360, 640)).await;
    page.goto(&serve().await).await;
    assert_eq!(
        page.eval("[innerWidth, innerHeight, navigator.maxTouchPoints > 0]").await,
        json!([360, 640, true])
    );
    page.tap(&marked("send")).await;
    page.wait_for("li").await;

    let colour = "getComputedStyle(document.body).color";
    for (scheme, expected) in
        [(ColorScheme::Dark, "rgb(255, 255, 255)"), (ColorScheme::Light, "rgb(0, 0, 0)")]
    {
        page.prefer(scheme).await;
        assert_eq!(page.eval(colour).await, expected);
    }
    let outline = page.accessibility().await;
    for line in ["heading \"A small page\"", "textbox \"Message\"", "button \"Send\"", "list \"Sent\""] {
        assert!(outline.lines().any(|found| found.trim() == line), "no {line} in\n{outline}");
    }
    page.eval("navigator.serviceWorker.ready.then(() => null)").await;
    page.wait_for_script("the worker to take over", "navigator.serviceWorker.ready.then(() => true)").await;
    assert_eq!(page.installability_errors().await, Vec::<String>::new());

    let folder = tempfile::tempdir().unwrap();
    let picture = folder.path().join("pictures/phone.png");
    page.screenshot(&picture).await;
    assert!(fs::read(&picture).unwrap().starts_with(b"\x89PNG"));
    page.screen(Screen::Desktop(1200, 800)).await;
    assert_eq!(page.eval("innerWidth").await, 1200);
    page.wait_until_gone(&marked("cover")).await;
}

#[tokio::test]
async fn what_a_page_complains_about_is_a_fault_until_it_is_tolerated() {
    let page = Page::open().await;
    page.goto(&serve().await).await;
    assert_eq!(page.faults(), Vec::<String>::new());
    page.eval("console.warn('only a warning')").await;
    page.eval("console.error('an error', { detail: 1 })").await;
    page.eval("setTimeout(() => { throw new Error('nobody catches me') })").await;
    page.eval("document.head.append(Object.assign(document.createElement('script'), { textContent: '1' }))")
        .await;
    let expected = ["console error: an error", "nobody catches me", "Content-Security-Policy: script-src"];
    for text in expected {
        wait::until(text, || {
            let is_there = page.faults().iter().any(|fault| fault.contains(text));
            async move { is_there.then_some(()) }
        })
        .await;
    }
    assert!(page.said().iter().any(|line| line == "console warning: only a warning"), "{:?}", page.said());
    for text in expected.into_iter().chain(["security error"]) {
        page.tolerate(text);
    }
    assert_eq!(page.faults(), Vec::<String>::new());
}

#[tokio::test]
async fn a_page_that_complains_fails_its_test_and_no_process_of_a_browser_is_left() {
    let (sender, profile) = tokio::sync::oneshot::channel();
    let test = tokio::spawn(async move {
        let page = Page::open().await;
        sender.send(page.profile()).unwrap();
        page.eval("console.error('it fails at its end')").await;
    });
    assert!(test.await.unwrap_err().is_panic());
    let profile = profile.await.unwrap();
    assert_eq!(processes_of(&profile), Vec::<String>::new());
    assert!(!profile.exists());

    let page = Page::open().await;
    let profile = page.profile();
    assert!(!processes_of(&profile).is_empty());
    let test = tokio::spawn(async move {
        let _page = page;
        panic!("a test that fails, as it should");
    });
    assert!(test.await.unwrap_err().is_panic());
    assert_eq!(processes_of(&profile), Vec::<String>::new());
}

/// The command lines of the processes that name this profile.
fn processes_of(profile: &Path) -> Vec<String> {
    let marker = profile.display().to_string();
    let processes = fs::read_dir("/proc").unwrap().flatten();
    let commands = processes.filter_map(|process| fs::read(process.path().join("cmdline")).ok());
    let commands = commands.map(|command| String::from_utf8_lossy(&command).replace('\0', " "));
    commands.filter(|command| command.contains(&marker)).collect()
}

/// Serves the small page under the policy of the real one.
async fn serve() -> String {
    let socket = get(|upgrade: WebSocketUpgrade| async {
        upgrade
            .on_upgrade(|mut socket| async move { while socket.recv().await.is_some_and(|it| it.is_ok()) {} })
    });
    let router = Router::new()
        .route("/", file("text/html", include_bytes!("page/page.html")))
        .route("/page.js", file("text/javascript", include_bytes!("page/page.js")))
        .route("/page.css", file("text/css", include_bytes!("page/page.css")))
        .route("/worker.js", file("text/javascript", include_bytes!("page/worker.js")))
        .route(
            "/manifest.webmanifest",
            file("application/manifest+json", include_bytes!("page/manifest.webmanifest")),
        )
        .route("/icon.png", file("image/png", include_bytes!("../../pwa/icons/192.png")))
        .route("/socket", socket);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = format!("http://{}/", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, router).await });
    address
}

fn file(kind: &'static str, content: &'static [u8]) -> axum::routing::MethodRouter {
    get(move || async move { answer(kind, content) })
}

fn answer(kind: &'static str, content: &'static [u8]) -> Response {
    let policy = "default-src 'self'; script-src 'self'; object-src 'none'; base-uri 'none'";
    ([(CONTENT_TYPE, kind), (CONTENT_SECURITY_POLICY, policy)], content).into_response()
}
