//! How a browser comes to its machine, and what it is told when it does not.

use serde_json::{Value, json};
use shared::channel::StaticKey;
use tests::device::Window;
use tests::home::TestHome;
use tests::page::{Page, marked};

use crate::{connected, machine, open, origin, pair, pairing_url, paste, secret, send, stands, start, turns};

/// What this machine lists.
fn devices(home: &TestHome) -> Vec<Value> {
    let text = home.ok(["devices", "--json"]);
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

#[tokio::test]
async fn the_address_pairs_once_and_leaves_no_trace() {
    let home = machine().await;
    start(&home, "first");
    let page = Page::open().await;
    let mut window = Window::open(&home).await;
    page.goto(&pairing_url(&home, &window)).await;
    page.wait_for(&marked("pair-button")).await;
    assert_eq!(page.url().await, format!("{}/", origin(&home)), "the secret is gone before it is used");
    assert!(page.history().await.iter().all(|address| !address.contains("pair=")));
    assert!(!page.text("body").await.contains(window.code.expose()), "the code is not shown");

    paste(&page, &marked("pair-name"), "Kitchen \u{202e}laptop").await;
    page.press("Enter").await;
    let paired = window.paired().await.unwrap();
    assert_eq!(paired.name, "Kitchen laptop", "the name is cleaned");
    page.wait_for_text(&marked("session-name"), "first").await;
    connected(&page).await;
    let listed = devices(&home);
    assert_eq!(listed.len(), 1);
    assert_eq!(listed[0]["name"], "Kitchen laptop");

    // The key is kept, sealed by one that no script can take out; the code is nowhere.
    let storage = page.storage().await;
    let keys = storage["databases"]["aude"]["keys"].as_array().unwrap();
    assert_eq!(keys.len(), 1);
    assert_eq!(keys[0]["value"]["wrapping"]["CryptoKey"]["extractable"], json!(false));
    assert!(!storage.to_string().contains(window.code.expose()), "{storage}");
    assert!(page.history().await.iter().all(|address| !address.contains("pair=")));
    page.wait_for_script("the worker", "navigator.serviceWorker.ready.then(() => true)").await;
    assert_eq!(page.installability_errors().await, Vec::<String>::new());

    page.reload().await;
    page.wait_for_text(&marked("session-name"), "first").await;
    let page = page.restart_browser().await;
    page.goto(&origin(&home)).await;
    page.wait_for_text(&marked("session-name"), "first").await;
    assert_eq!(devices(&home), listed);

    // The same link once more: it was spent, and the device is listed anyway.
    page.goto(&format!("{}/#pair={}", origin(&home), secret(&home, &window))).await;
    page.click(&marked("pair-button")).await;
    page.wait_for_text(&marked("toast"), "This device is paired.").await;
    page.wait_for_text(&marked("session-name"), "first").await;
    assert_eq!(devices(&home), listed);
}

#[tokio::test]
async fn what_is_pasted_pairs_or_is_refused_in_words_and_a_revoked_device_is_told() {
    let home = machine().await;
    let page = Page::open().await;
    page.goto(&origin(&home)).await;
    let fill = marked("pair-input");
    let refused = async |text: &str, sentence: &str| {
        paste(&page, &fill, text).await;
        page.press("Enter").await;
        page.wait_for_text(&marked("pair-error"), sentence).await;
    };
    page.wait_for(&fill).await;
    refused("kitchen", "not a pairing link").await;
    refused("https://example.com/#pair=short.code", "not a pairing link").await;
    let mut window = Window::open(&home).await;
    let wrong = format!("{}.aaaaaaaaaaaaaaaa", home.machine_key().fingerprint());
    refused(&wrong, "code rejected").await;
    // The right code of another machine's link: this one proves another key, and never sees the code.
    let stranger = StaticKey::generate().unwrap().fingerprint();
    refused(&format!("{stranger}.{}", window.code.expose()), "not the machine that made the link").await;
    assert_eq!(devices(&home), Vec::<Value>::new());

    // As a person types it from another screen.
    let typed = secret(&home, &window).to_uppercase();
    paste(&page, &fill, &format!("  {typed} ")).await;
    page.press("Enter").await;
    window.paired().await.unwrap();
    connected(&page).await;

    let session = start(&home, "steered");
    open(&page, &home, session).await;
    let fingerprint = devices(&home)[0]["fingerprint"].as_str().unwrap().to_owned();
    let _ = home.ok(["revoke", &fingerprint]);
    page.wait_for_text(&marked("pair-error"), "does not list this device").await;
    assert_eq!(page.count(&marked("composer")).await, 0);
    page.reload().await;
    page.wait_for_text(&marked("pair-error"), "does not list this device").await;

    // A window that is over, then the whole address of a new one.
    let over = Window::open(&home).await;
    let late = pairing_url(&home, &over);
    let mut window = Window::open(&home).await;
    refused(&late, "code rejected").await;
    paste(&page, &fill, &pairing_url(&home, &window)).await;
    page.click(&marked("pair-button")).await;
    window.paired().await.unwrap();
    page.wait_for(&marked("composer")).await;
    connected(&page).await;
    send(&page, "say here again").await;
    page.wait_for_text(&crate::item("assistant"), "here again").await;
    assert_eq!(turns(&home, session), ["say here again"]);
}

#[tokio::test]
async fn two_tabs_at_the_first_start_are_one_device() {
    let home = machine().await;
    let first = Page::open().await;
    let second = first.another().await;
    let address = origin(&home);
    tokio::join!(first.goto(&address), second.goto(&address));
    tokio::join!(async { first.wait_for(&marked("pair-input")).await }, async {
        second.wait_for(&marked("pair-input")).await;
    });
    for tab in [&first, &second] {
        pair(&home, tab).await;
    }
    assert_eq!(devices(&home).len(), 1);
    assert_eq!(first.storage().await["databases"]["aude"]["keys"].as_array().map(Vec::len), Some(1));
    first.reload().await;
    connected(&first).await;
}

#[tokio::test]
async fn a_browser_that_keeps_nothing_works_for_the_visit_and_says_so() {
    let home = machine().await;
    let session = start(&home, "visited");
    let page = Page::open().await;
    let refuse = "for (const name of ['indexedDB', 'localStorage']) Object.defineProperty(window, name, {
        get() { throw new DOMException('no storage here', 'SecurityError'); } });";
    page.command("Page.addScriptToEvaluateOnNewDocument", json!({ "source": refuse })).await;
    pair(&home, &page).await;
    page.wait_for_text("body", "keeps nothing for this page").await;
    page.click(&marked("session-row")).await;
    send(&page, "say for this visit").await;
    page.wait_for_text(&crate::item("assistant"), "for this visit").await;
    assert_eq!(turns(&home, session), ["say for this visit"]);
    page.reload().await;
    page.wait_for(&marked("pair-input")).await;
}

#[tokio::test]
async fn a_machine_with_another_key_gets_nothing_until_a_person_pairs_again() {
    let mut home = machine().await;
    let session = start(&home, "mine");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    let _ = home.ok(["stop", "mine"]);
    home.kill_listener();
    send(&page, "say a secret").await;
    page.wait_for_attribute(&marked("pending"), "data-state", "waiting").await;
    std::fs::write(home.root().join("rc/machine.key"), StaticKey::generate().unwrap().to_hex().as_bytes())
        .unwrap();
    home.listen().await;
    stands(&page, "other-machine").await;
    page.reload().await;
    stands(&page, "other-machine").await;
    assert_eq!(turns(&home, session), Vec::<String>::new());
    page.click(&marked("pair-again")).await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    // What waited is the person's still, and the machine is the one that the person named.
    page.wait_for_text(&crate::item("assistant"), "a secret").await;
    assert_eq!(turns(&home, session), ["say a secret"]);
}
