//! The browser client in real Chromium, against the real listener and real sessions of the built-in agent.
#![allow(
    clippy::expect_used,
    clippy::unwrap_used,
    clippy::wildcard_enum_match_arm,
    reason = "a test that cannot go on should stop where it stands"
)]

mod choices;
mod comfort;
mod decisions;
mod links;
mod pairing;
mod session;
mod steering;

use std::fs;

use serde_json::Value;
use shared::entry::{Entry, Event, Known};
use shared::ids::SessionId;
use tests::device::Window;
use tests::home::TestHome;
use tests::page::{Page, marked};
use tests::wait;

/// What the agent does: `say X` says X; `hold X` speaks, waits until the file X is there, and speaks again; `think X` thinks X; `run X`
/// runs X; `which` asks which colour.
const SCRIPT: &str = r#"
chunk = 8

[[step]]
match = "say *"
text = "{{1}}"

[[step]]
match = "hold *"
parts = [{ text = "Holding {{1}}." }, { wait_for_file = "{{1}}" }, { text = " Let go of {{1}}." }]

[[step]]
match = "think *"
thinking = "{{1}}"
text = "Thought."

[[step]]
match = "run *"
calls = [{ tool = "bash", input = { command = "{{1}}" } }]

[[step]]
match = "which"
calls = [{ tool = "ask", input = { question = "Which colour?", multiple = false, options = [
  { label = "Blue", description = "as the sea" }, { label = "Green", description = "as the grass" },
] } }]

[[step]]
from = "tool"
text = "It said: {{last}}"
"#;

/// A machine whose listener runs, on a port that it keeps.
async fn machine() -> TestHome {
    let mut home = TestHome::new();
    let script = home.path().join("script.toml");
    fs::write(&script, SCRIPT).unwrap();
    home.write_config(&format!("[aura]\nscript = \"{}\"", script.display()));
    home.listen().await;
    home.keep_port();
    home
}

/// Where the machine serves its page.
fn origin(home: &TestHome) -> String {
    format!("http://127.0.0.1:{}", home.endpoint().place.port())
}

/// The pairing URL of a window.
fn pairing_url(home: &TestHome, window: &Window) -> String {
    format!("{}/#pair={}", origin(home), secret(home, window))
}

/// What the fragment of a pairing URL holds.
fn secret(home: &TestHome, window: &Window) -> String {
    format!("{}.{}", home.machine_key().fingerprint(), window.code.expose())
}

/// Pairs a page by its address.
async fn pair(home: &TestHome, page: &Page) {
    let mut window = Window::open(home).await;
    page.goto(&pairing_url(home, &window)).await;
    page.click(&marked("pair-button")).await;
    window.paired().await.expect("the window tells of the page");
    connected(page).await;
}

/// Waits until the page says that it is connected.
async fn connected(page: &Page) {
    stands(page, "connected").await;
}

/// Waits until the page says that of its connection.
async fn stands(page: &Page, state: &str) {
    page.wait_for_attribute(&marked("connection"), "data-state", state).await;
}

/// Starts a session without a first turn, as a person does in a terminal.
fn start(home: &TestHome, name: &str) -> SessionId {
    let started = home.run(["start", name, "--harness", "aura"]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    serde_json::from_value(home.record(name)["id"].clone()).unwrap()
}

/// Goes to a session and waits until it is there.
async fn open(page: &Page, home: &TestHome, session: SessionId) {
    page.goto(&format!("{}/#/s/{session}", origin(home))).await;
    page.wait_for(&marked("composer")).await;
    connected(page).await;
}

/// Lets a turn go on that waits for `what`.
fn allow(home: &TestHome, what: &str) {
    fs::write(home.work().join(what), "").unwrap();
}

/// Types a turn and sends it with Enter.
async fn send(page: &Page, text: &str) {
    page.click(&marked("composer")).await;
    page.type_text(text).await;
    page.press("Enter").await;
}

/// Puts a text in place of what stands in a field, as pasting does.
async fn paste(page: &Page, selector: &str, text: &str) {
    page.click(selector).await;
    page.press("Control+a").await;
    // The headless browser has no menu whose short cut Control+a is.
    page.eval(&format!("document.querySelector({}).select()", Value::from(selector))).await;
    page.command("Input.insertText", serde_json::json!({ "text": text })).await;
    assert_eq!(page.value(selector).await, text);
}

/// The selector of the items of a kind.
fn item(kind: &str) -> String {
    format!("[data-test=item][data-kind={kind}]:not([data-live])")
}

/// The selector of the items of a kind that are being written.
fn live(kind: &str) -> String {
    format!("[data-test=item][data-kind={kind}][data-live]")
}

/// The texts of the turns in a log, in order.
fn turns(home: &TestHome, session: SessionId) -> Vec<String> {
    let log = home.log(session);
    let texts = log.iter().filter_map(|entry| match known(entry)? {
        Known::User(user) => Some(user.text.clone()),
        _ => None,
    });
    texts.collect()
}

fn known(entry: &Entry) -> Option<&Known> {
    match &entry.event {
        Event::Known(known) => Some(known),
        Event::Unknown(_) => None,
    }
}

/// Waits until something in a log fits, whoever sees it.
async fn logged<T>(home: &TestHome, session: SessionId, what: &str, fits: impl Fn(&Known) -> Option<T>) -> T {
    wait::until(what, || async { home.log(session).iter().filter_map(known).find_map(&fits) }).await
}

/// The sequences of the items on the page, in their order; each may be there once.
async fn sequences(page: &Page) -> Vec<u64> {
    let all: Vec<u64> = page
        .eval_as(
            "Array.from(document.querySelectorAll('[data-test=item][data-sequence]'), (item) => Number(item.dataset.sequence))",
        )
        .await;
    assert!(all.is_sorted_by(|a, b| a < b), "an item is there twice or out of order: {all:?}");
    all
}
