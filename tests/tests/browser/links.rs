//! Links that are lost and come back: the page says how it stands, and no turn is lost or sent twice.

use std::time::Duration;

use tests::page::{Network, Page, marked};
use tests::proxy::{FaultProxy, Weather};

use crate::{
    allow, connected, item, live, machine, open, origin, pair, send, sequences, stands, start, turns,
};

#[tokio::test]
async fn bad_weather_between_browser_and_machine_loses_and_doubles_nothing() {
    let home = machine().await;
    let session = start(&home, "far");
    let port = home.endpoint().place.port();
    let proxy = FaultProxy::to(port).await;
    let page = Page::open_through(proxy.port(), port).await;
    pair(&home, &page).await;
    open(&page, &home, session).await;

    proxy.set(Weather::Cut);
    stands(&page, "waiting").await;
    send(&page, "say while cut").await;
    page.wait_for_attribute(&marked("pending"), "data-state", "waiting").await;
    assert_eq!(turns(&home, session), Vec::<String>::new());
    proxy.set(Weather::Fair);
    page.wait_for_text(&item("assistant"), "while cut").await;
    connected(&page).await;
    page.wait_until_gone(&marked("pending")).await;

    // Nobody tells of a network that carries nothing: a page that wakes up asks for a sign of life, and has none.
    send(&page, "hold stalled").await;
    page.wait_for_text(&live("assistant"), "Holding stalled.").await;
    proxy.set(Weather::Stalled);
    allow(&home, "stalled");
    page.network(Network::Offline).await;
    page.network(Network::Online).await;
    stands(&page, "waiting").await;
    proxy.set(Weather::Slow(Duration::from_millis(30)));
    page.wait_for_text(&item("assistant"), "Let go of stalled.").await;
    connected(&page).await;
    send(&page, "say slowly").await;
    page.wait_for_text(&item("assistant"), "slowly").await;
    assert_eq!(turns(&home, session), ["say while cut", "hold stalled", "say slowly"]);
    sequences(&page).await;
}

#[tokio::test]
async fn without_a_listener_the_page_still_opens_and_what_waits_is_sent_once() {
    let mut home = machine().await;
    let session = start(&home, "patient");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    page.wait_for_script("the worker", "navigator.serviceWorker.ready.then(() => true)").await;
    let missing = page.eval("fetch('/nothing-0123456789abcdef.js').then((it) => it.status)").await;
    assert_eq!(missing, 404);
    page.reload().await;
    connected(&page).await;
    home.kill_listener();
    stands(&page, "waiting").await;
    send(&page, "say after all").await;
    page.wait_for_attribute(&marked("pending"), "data-state", "waiting").await;
    page.reload().await;
    stands(&page, "waiting").await;
    page.wait_for_text(&marked("pending"), "say after all").await;
    home.listen().await;
    page.wait_for_text(&item("assistant"), "after all").await;
    page.wait_until_gone(&marked("pending")).await;
    assert_eq!(turns(&home, session), ["say after all"]);
    assert!(page.url().await.starts_with(&origin(&home)));
    sequences(&page).await;
}
