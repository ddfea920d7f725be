//! One session in the browser: what it shows, what is typed, and what other devices do.

use serde_json::json;
use shared::entry::Known;
use shared::ids::SubmissionId;
use tests::device::Device;
use tests::page::{Page, Screen, marked};

use crate::{allow, item, live, logged, machine, open, origin, pair, paste, send, sequences, start, turns};

#[tokio::test]
async fn a_turn_is_typed_followed_interrupted_and_survives_a_reload() {
    let home = machine().await;
    let session = start(&home, "steered");
    let _ = home.ok(["send", "steered", "say from a terminal", "--wait"]);
    let page = Page::open().await;
    pair(&home, &page).await;
    page.wait_for_text(&marked("session-name"), "steered").await;
    page.click(&marked("session-row")).await;
    page.wait_for_text(&item("assistant"), "from a terminal").await;
    page.wait_for_text(&item("user"), "say from a terminal").await;

    // Shift+Enter breaks the line; an Enter that confirms a composition sends nothing.
    page.click(&marked("composer")).await;
    page.type_text("say one").await;
    page.press("Shift+Enter").await;
    page.type_text("two ").await;
    page.compose("にほn").await;
    page.confirm_composition("日本").await;
    page.compose("ご").await;
    page.confirm_composition_like_safari("語").await;
    assert_eq!(page.value(&marked("composer")).await, "say one\ntwo 日本語");
    assert_eq!(turns(&home, session), ["say from a terminal"]);
    page.press("Enter").await;
    page.wait_for_text(&item("assistant"), "two 日本語").await;
    assert_eq!(turns(&home, session), ["say from a terminal", "say one\ntwo 日本語"]);

    // A reload in the middle of a turn: the draft is there, nothing is there twice, and the turn goes on.
    send(&page, "hold first").await;
    page.wait_for_text(&live("assistant"), "Holding first.").await;
    page.type_text("a draft").await;
    page.reload().await;
    page.wait_for(&marked("interrupt")).await;
    assert_eq!(page.value(&marked("composer")).await, "a draft");
    allow(&home, "first");
    page.wait_for_text(&item("assistant"), "Let go of first.").await;
    page.wait_until_gone(&marked("interrupt")).await;
    assert_eq!(page.count(&live("assistant")).await, 0, "the entry has replaced the live text");
    assert_eq!(sequences(&page).await.len(), page.count("[data-test=item]").await);

    // What another device sends and interrupts is seen here, but what became of it is that device's.
    let device = Device::paired(&home, "phone").await;
    let mut attached = device.session(session, 0).await;
    let id = SubmissionId::random();
    attached.submit(&id, "hold second").await;
    page.wait_for_text(&item("user"), "hold second").await;
    page.wait_for_text(&item("user"), "phone").await;
    page.wait_for(&marked("interrupt")).await;
    page.click(&marked("interrupt")).await;
    attached.fate(&id).await;
    page.wait_until_gone(&marked("interrupt")).await;
    assert_eq!(page.count(&item("settled")).await, 0);

    // Its own turn, ended with Escape, says so.
    paste(&page, &marked("composer"), "hold third").await;
    page.press("Enter").await;
    page.wait_for_text(&live("assistant"), "Holding third.").await;
    page.press("Escape").await;
    page.wait_for_text(&item("settled"), "Interrupted").await;
    sequences(&page).await;
}

#[tokio::test]
async fn what_an_agent_writes_is_text_and_asks_the_network_for_nothing() {
    let home = machine().await;
    let session = start(&home, "hostile");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    send(&page, "say ready").await;
    page.wait_for_text(&item("assistant"), "ready").await;
    let before = page.requests();
    let corpus = r#"<script>window.hacked = 1</script>

<img src=x onerror="window.hacked = 1"> ![p](http://127.0.0.1:9/p.png) ![j](javascript:hacked=1)

[a](javascript:window.hacked=1) [b](JaVaScRiPt:hacked=1) [c](&#106;avascript:hacked=1) [d](data:text/html,<script>1</script>) <javascript:hacked=1>

<iframe srcdoc="<script>parent.hacked=1</script>"></iframe> <svg onload=hacked=1> <a href="vbscript:x" onclick="hacked=1">e</a>

<style>body { display: none }</style> <meta http-equiv=refresh content="0;url=http://127.0.0.1:9/"> <base href="http://127.0.0.1:9/"> <form action=//x><button>f</button></form>

```"><script>window.hacked = 1</script>
</code><script>window.hacked = 1</script>
```

[good](https://example.com/?a="onclick="x) the end"#;
    for kind in ["say", "think"] {
        paste(&page, &marked("composer"), &format!("{kind} {corpus}")).await;
        page.press("Enter").await;
    }
    page.wait_for_text(&item("assistant"), "the end").await;
    page.wait_for_text(&item("assistant"), "Thought.").await;
    let folds = "document.querySelectorAll('[data-test=transcript] details').forEach((fold) => { fold.open = true; })";
    page.eval(folds).await;
    let found = page
        .eval(
            "(() => {
                const inside = (selector) => document.querySelectorAll(`[data-test=transcript] ${selector}`).length;
                const all = Array.from(document.querySelectorAll('[data-test=transcript] *'));
                const links = Array.from(document.querySelectorAll('[data-test=transcript] a[href]'));
                return [
                    typeof window.hacked,
                    inside(':is(script, img, iframe, object, embed, style, meta, base, link, [srcdoc], [action])'),
                    all.filter((one) => Array.from(one.attributes).some((it) => it.name.startsWith('on'))).length,
                    links.filter((link) => !['http:', 'https:', 'mailto:'].includes(link.protocol)).length,
                    links.filter((link) => !link.relList.contains('noopener')).length,
                ];
            })()",
        )
        .await;
    assert_eq!(found, json!(["undefined", 0, 0, 0, 0]));
    assert_eq!(page.requests(), before, "nothing was asked of the network");
    logged(&home, session, "both turns", |known| match known {
        Known::Assistant(answer) => (answer.text == "Thought.").then_some(()),
        _ => None,
    })
    .await;
}

#[tokio::test]
async fn a_session_is_started_stopped_and_removed_on_a_small_screen() {
    let home = machine().await;
    let page = Page::open().await;
    page.screen(Screen::Phone(360, 640)).await;
    pair(&home, &page).await;
    let fits = async |what: &str| {
        let width: u32 = page.eval_as("document.documentElement.scrollWidth").await;
        assert!(width <= 360, "{what} is {width} wide");
        let outline = page.accessibility().await;
        let nameless = outline.lines().map(str::trim).find(|line| {
            ["button", "link", "textbox", "combobox"].iter().any(|role| *line == format!("{role} \"\""))
        });
        assert_eq!(nameless, None, "in {what}:\n{outline}");
    };
    fits("the list").await;
    page.tap(&marked("new-session")).await;
    page.wait_for(&marked("start-name")).await;
    fits("the form").await;
    paste(&page, &marked("start-name"), "from the phone").await;
    paste(&page, &marked("start-harness"), "no such agent").await;
    paste(&page, &marked("start-directory"), home.work().to_str().unwrap()).await;
    paste(&page, &marked("start-text"), "say hello").await;
    page.tap(&marked("start-button")).await;
    page.wait_for_text(&marked("start-error"), "no agent of that name").await;
    paste(&page, &marked("start-harness"), "aura").await;
    page.tap(&marked("start-button")).await;
    page.wait_for_text(&item("assistant"), "hello").await;
    let long = "x".repeat(300);
    paste(&page, &marked("composer"), &format!("say {long}")).await;
    page.tap(&marked("send")).await;
    page.wait_for_text(&item("assistant"), &long).await;
    fits("the session").await;
    let watch = "(() => { window.states = []; const badge = document.querySelector('[data-test=connection]');
        new MutationObserver(() => window.states.push(badge.dataset.state)).observe(badge, { attributes: true }); })()";
    page.eval(watch).await;
    // A page that is painted late hears that its link closed before it shows why.
    let late = "(() => { const paint = window.requestAnimationFrame.bind(window);
        window.requestAnimationFrame = (callback) => setTimeout(() => paint(callback), 300); })()";
    page.eval(late).await;
    page.tap(&marked("stop")).await;
    page.tap(&marked("confirm-yes")).await;
    page.wait_for(&marked("remove")).await;
    // At once: what the page says meanwhile does not move the button from under the finger.
    page.tap(&marked("remove")).await;
    page.wait_for(&marked("confirm-yes")).await;
    assert_eq!(page.eval("window.states").await, json!([]), "the end of a session is no loss of the machine");
    page.tap(&marked("confirm-yes")).await;
    page.wait_for_script("the way back to the list", "location.hash === '#/'").await;
    assert!(home.records().is_empty());
    assert!(page.url().await.starts_with(&origin(&home)));
}
