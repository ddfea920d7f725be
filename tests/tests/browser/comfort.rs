//! The page for people who use no mouse or have a phone, and what it says when things go another way than usual.

use serde_json::Value;
use shared::ids::SubmissionId;
use tests::device::{Device, Window};
use tests::page::{Network, Page, Screen, marked};

use crate::{allow, connected, item, live, machine, open, pair, pairing_url, send, stands, start};

/// Presses Tab until the focus is on an element that fits the selector.
async fn tab_to(page: &Page, selector: &str) {
    let is_there = format!("!!document.activeElement?.matches({})", Value::from(selector));
    for _ in 0..60 {
        if page.eval(&is_there).await == true {
            return;
        }
        page.press("Tab").await;
    }
    panic!("Tab does not reach {selector}");
}

#[tokio::test]
async fn the_whole_job_is_done_with_the_keyboard_alone() {
    let home = machine().await;
    let page = Page::open().await;
    let mut window = Window::open(&home).await;
    page.goto(&pairing_url(&home, &window)).await;
    page.wait_for(&marked("pair-button")).await;
    tab_to(&page, &marked("pair-button")).await;
    page.press("Enter").await;
    window.paired().await.unwrap();
    connected(&page).await;
    page.wait_for(&marked("new-session")).await;
    tab_to(&page, &marked("new-session")).await;
    page.press("Enter").await;
    page.wait_for(&marked("start-name")).await;
    for (field, text) in [
        ("start-name", "by keys"),
        ("start-harness", "aura"),
        ("start-directory", home.work().to_str().unwrap()),
        ("start-text", "say hello"),
    ] {
        tab_to(&page, &marked(field)).await;
        page.eval("document.activeElement.select()").await;
        page.type_text(text).await;
    }
    tab_to(&page, &marked("start-button")).await;
    page.press("Enter").await;
    page.wait_for_text(&item("assistant"), "hello").await;
    tab_to(&page, &marked("composer")).await;
    page.type_text("hold it").await;
    page.press("Enter").await;
    page.wait_for_text(&live("assistant"), "Holding it.").await;
    page.press("Escape").await;
    page.wait_for_text(&item("settled"), "Interrupted").await;
    page.type_text("run touch x").await;
    page.press("Enter").await;
    page.wait_for(&marked("deny")).await;
    // For a moment after a question came no press counts, and no Tab stops there.
    page.wait_for_script("a decision to count", "!document.querySelector('[data-test=deny]').disabled").await;
    tab_to(&page, &marked("deny")).await;
    page.press("Enter").await;
    page.wait_for_text(&marked("decision"), "denied").await;
    page.wait_until_gone(&marked("interrupt")).await;
    tab_to(&page, &marked("stop")).await;
    page.press("Enter").await;
    page.wait_for(&marked("confirm-no")).await;
    tab_to(&page, &marked("confirm-yes")).await;
    page.press("Enter").await;
    page.wait_for(&marked("remove")).await;
}

#[tokio::test]
async fn the_pairing_page_fits_a_phone_and_names_what_is_on_it() {
    let home = machine().await;
    let page = Page::open().await;
    page.screen(Screen::Phone(320, 568)).await;
    page.goto(&crate::origin(&home)).await;
    page.wait_for(&marked("pair-input")).await;
    let width: u32 = page.eval_as("document.documentElement.scrollWidth").await;
    assert!(width <= 320, "it is {width} wide");
    let outline = page.accessibility().await;
    for named in [
        "heading \"Pair this device\"",
        "textbox \"Pairing link or code\"",
        "textbox \"Name of this device\"",
        "button \"Pair\"",
    ] {
        assert!(outline.contains(named), "{named} in\n{outline}");
    }
}

#[tokio::test]
async fn a_full_queue_marks_only_the_message_that_did_not_fit() {
    let home = machine().await;
    let session = start(&home, "busy");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    send(&page, "hold door").await;
    page.wait_for_text(&live("assistant"), "Holding door.").await;
    let device = Device::paired(&home, "phone").await;
    let mut attached = device.session(session, 0).await;
    for index in 0..9 {
        attached.submit(&SubmissionId::random(), &format!("say {index}")).await;
    }
    page.wait_for_text(&item("user"), "say 8").await;
    assert_eq!(page.count(&item("settled")).await, 0, "what became of another device's message is its own");
    send(&page, "say too much").await;
    page.wait_for_text(&item("settled"), "eight others were waiting").await;
    assert_eq!(page.count(&item("settled")).await, 1);
    allow(&home, "door");
    page.wait_until_gone(&marked("interrupt")).await;
}

#[tokio::test]
async fn a_browser_without_a_network_says_that_it_is_offline() {
    let mut home = machine().await;
    let page = Page::open().await;
    pair(&home, &page).await;
    page.network(Network::Offline).await;
    home.kill_listener();
    stands(&page, "offline").await;
    page.wait_for_text(&marked("connection"), "Offline").await;
    home.listen().await;
    page.network(Network::Online).await;
    connected(&page).await;
}
