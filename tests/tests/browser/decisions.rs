//! Questions and approvals in the browser: shown whole, decided once by any device, explained when an answer comes too late.

use serde_json::json;
use shared::decision::{Decision, Matter};
use shared::entry::{Input, Known};
use shared::frame::OpenerBody;
use shared::ids::SessionId;
use shared::request::{AnswerChoice, Response};
use tests::device::Device;
use tests::home::TestHome;
use tests::page::{Page, Screen, marked};

use crate::{item, known, logged, machine, open, pair, paste, send, start};

/// The open question whose text holds that.
async fn asked(home: &TestHome, session: SessionId, text: &str) -> Input {
    logged(home, session, "the question", |known| match known {
        Known::Input(input) => {
            let value = input.confirm.as_ref().or(input.ask.as_ref())?;
            value.to_string().contains(text).then(|| input.clone())
        }
        _ => None,
    })
    .await
}

/// What was decided about an input: choice and text.
async fn decided(
    home: &TestHome,
    session: SessionId,
    input: &Input,
) -> (Option<AnswerChoice>, Option<String>) {
    logged(home, session, "the decision", |known| match known {
        Known::Resolved(resolved) if resolved.input == input.input => {
            Some((resolved.choice.clone(), resolved.text.clone()))
        }
        _ => None,
    })
    .await
}

fn word(word: &str) -> Option<AnswerChoice> {
    Some(AnswerChoice::Word(word.to_owned()))
}

/// Takes a picture where `AUDE_SHOTS` names a folder for it.
async fn picture(page: &Page, name: &str) {
    if let Some(folder) = std::env::var_os("AUDE_SHOTS") {
        page.screenshot(&std::path::Path::new(&folder).join(format!("{name}.png"))).await;
    }
}

#[tokio::test]
async fn an_approval_is_shown_whole_and_decided_by_buttons_and_by_keys() {
    let home = machine().await;
    let session = start(&home, "asks");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;

    send(&page, "run touch made\u{202e} && echo \u{200b}two").await;
    let first = asked(&home, session, "touch made").await;
    page.wait_for(&marked("allow")).await;
    // The whole command, and what would hide in it is seen.
    assert_eq!(page.text(&marked("detail")).await, "touch made\\u{202e} && echo \\u{200b}two");
    page.wait_for_attribute(&marked("session-state"), "data-state", "waiting").await;
    page.wait_for_text("[data-test=session-row]", "needs an answer").await;
    page.wait_for_script("the title to say it", "document.title.startsWith('Needs an answer: asks')").await;
    page.wait_for_text(&item("question"), "touch made").await;
    picture(&page, "approval").await;

    // With a reason only a denial can be sent.
    paste(&page, &marked("deny-text"), "not like this").await;
    let is_off = "document.querySelector('[data-test=allow]').disabled";
    page.wait_for_script("Allow to be off", is_off).await;
    page.click(&marked("deny")).await;
    assert_eq!(decided(&home, session, &first).await, (word("deny"), Some("not like this".to_owned())));
    page.wait_for_text(&marked("decision"), "denied: not like this").await;
    page.wait_until_gone(&marked("questions")).await;
    page.wait_for_script("the title to forget it", "document.title.startsWith('asks')").await;

    // By keys, and for the session: the same is not asked again.
    send(&page, "run touch made").await;
    let second = asked(&home, session, "\"touch made\"").await;
    page.wait_for_text(&marked("covers"), "exactly this command").await;
    page.wait_for_script("Allow to be on", &format!("!{is_off}")).await;
    page.press("Alt+a").await;
    assert_eq!(decided(&home, session, &second).await, (word("allow_session"), None));
    page.wait_for_text(&marked("decision"), "allowed for this session").await;
    tests::wait::until("the command to run", || async { home.work().join("made").exists().then_some(()) })
        .await;
    page.wait_until_gone(&marked("interrupt")).await;
}

#[tokio::test]
async fn the_first_device_decides_and_a_later_answer_is_explained() {
    let home = machine().await;
    let session = start(&home, "shared");
    let page = Page::open().await;
    page.screen(Screen::Phone(360, 640)).await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    let device = Device::paired(&home, "laptop").await;
    let mut attached = device.session(session, 0).await;

    paste(&page, &marked("composer"), "run touch one").await;
    page.tap(&marked("send")).await;
    let input = asked(&home, session, "touch one").await;
    page.wait_for(&marked("deny")).await;
    let width: u32 = page.eval_as("document.documentElement.scrollWidth").await;
    assert!(width <= 360, "it is {width} wide");
    picture(&page, "approval-phone").await;
    let decision = Decision::Deny { text: None };
    let answer = attached.ask(OpenerBody::Answer(decision.answer(&input))).await;
    assert!(matches!(answer, Response::Taken(_)), "{answer:?}");
    page.wait_until_gone(&marked("questions")).await;
    page.wait_for_text(&marked("decision"), "laptop: denied").await;
    page.wait_for_text(&marked("toast"), "laptop answered it").await;
    // The other way round: the page is first.
    paste(&page, &marked("composer"), "run touch two").await;
    page.tap(&marked("send")).await;
    let input = asked(&home, session, "touch two").await;
    page.tap(&marked("allow")).await;
    assert_eq!(decided(&home, session, &input).await, (word("allow"), None));
    let late = attached.ask(OpenerBody::Answer(decision.answer(&input))).await;
    assert!(matches!(late, Response::Refused(_)), "{late:?}");
    assert!(matches!(Matter::of(&input), Ok(Matter::Confirm(_))));
}

#[tokio::test]
async fn a_question_takes_a_choice_or_words_and_ends_with_its_turn() {
    let home = machine().await;
    let session = start(&home, "curious");
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    send(&page, "which").await;
    let first = asked(&home, session, "Which colour").await;
    page.wait_for_text(&marked("open-question"), "Which colour").await;
    page.wait_for_text(&marked("open-question"), "as the sea").await;
    picture(&page, "question").await;
    page.click("[data-test=option]").await;
    page.click(&marked("answer")).await;
    assert_eq!(
        decided(&home, session, &first).await,
        (Some(AnswerChoice::Labels(vec!["Blue".to_owned()])), None)
    );
    page.wait_for_text(&marked("decision"), "Blue").await;
    page.wait_until_gone(&marked("interrupt")).await;

    // It is there after a reload, and words answer it too.
    send(&page, "which").await;
    page.wait_for(&marked("answer-text")).await;
    page.reload().await;
    page.wait_for(&marked("answer-text")).await;
    paste(&page, &marked("answer-text"), "neither of them").await;
    // For a moment after a question came no press counts.
    page.wait_for_script("an answer to count", "!document.querySelector('[data-test=answer]').disabled")
        .await;
    page.press("Enter").await;
    page.wait_for_text(&marked("decision"), "neither of them").await;
    page.wait_until_gone(&marked("interrupt")).await;

    // An interrupt cancels it.
    send(&page, "which").await;
    page.wait_for(&marked("answer-text")).await;
    page.click(&marked("interrupt")).await;
    page.wait_until_gone(&marked("questions")).await;
    page.wait_for_text(&marked("decision"), "Cancelled").await;
    let cancelled = home.log(session).iter().filter_map(known).any(|known| match known {
        Known::Resolved(resolved) => json!(resolved.choice) == "cancelled",
        _ => false,
    });
    assert!(cancelled);
}
