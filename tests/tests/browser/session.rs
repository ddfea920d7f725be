//! A session steered from a browser: turns, interrupts, reloads, a machine that goes and comes back.

use shared::status::{Fate, RanReason};
use tests::page::{Page, marked};

use crate::{
    Known, allow, connected, item, live, logged, machine, open, pair, send, sequences, stands, start, turns,
};

#[tokio::test]
async fn turns_are_sent_watched_interrupted_and_survive_a_reload() {
    let home = machine().await;
    let session = start(&home, "steered");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;

    // Enter sends, Shift+Enter breaks the line, and an Enter that confirms a composition does neither.
    page.click(&marked("composer")).await;
    page.type_text("say one").await;
    page.press("Shift+Enter").await;
    page.type_text("two").await;
    page.compose("かな").await;
    page.confirm_composition("仮名").await;
    assert_eq!(turns(&home, session), Vec::<String>::new());
    page.press("Enter").await;
    page.wait_for_text(&item("assistant"), "two仮名").await;
    assert_eq!(turns(&home, session), ["say one\ntwo仮名"]);

    // Live text shows before its entry; a reload in mid-turn loses and doubles nothing.
    send(&page, "hold gate").await;
    page.wait_for_text(&live("assistant"), "Holding gate.").await;
    page.reload().await;
    connected(&page).await;
    allow(&home, "gate");
    page.wait_for_text("body", "Let go of gate.").await;
    sequences(&page).await;

    // An interrupt ends the turn, and the page says so.
    send(&page, "hold never").await;
    page.wait_for_text(&live("assistant"), "Holding never.").await;
    page.click(&marked("interrupt")).await;
    logged(&home, session, "the interrupted turn", |known| match known {
        Known::Settled { settled } => {
            let fate = settled.fate.known()?;
            (*fate == Fate::ran(RanReason::Interrupted)).then_some(())
        }
        _ => None,
    })
    .await;
    page.wait_for_text(&marked("transcript"), "nterrupted").await;

    // Another device's turn appears.
    let _ = home.ok(["send", "steered", "say from the terminal"]);
    page.wait_for_text("body", "from the terminal").await;
    sequences(&page).await;
}

#[tokio::test]
async fn a_turn_that_is_sent_while_the_machine_is_away_runs_once_when_it_is_back() {
    let mut home = machine().await;
    let session = start(&home, "patient");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    home.kill_listener();
    send(&page, "say kept").await;
    page.wait_for_attribute(&marked("pending"), "data-state", "waiting").await;
    // The page itself comes from the machine; what was kept of it shows until the machine is back.
    page.wait_for_script("the worker", "navigator.serviceWorker.ready.then(() => true)").await;
    home.listen().await;
    page.wait_for_text(&item("assistant"), "kept").await;
    page.wait_until_gone(&marked("pending")).await;
    stands(&page, "connected").await;
    assert_eq!(turns(&home, session), ["say kept"]);
    sequences(&page).await;
}
