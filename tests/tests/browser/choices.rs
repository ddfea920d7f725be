//! What a session runs with, chosen in the browser: what the agent takes is shown, what it refuses is put back and explained.

use std::fs;

use tests::agent::script_in;
use tests::home::TestHome;
use tests::page::{Page, marked};

use crate::{item, open, pair, send};

/// An agent that speaks ACP and has two models, of which it refuses `loud`.
const AGENT: &str = r#"
answer() { printf '{"jsonrpc":"2.0","id":%s,%s}\n' "$id" "$1"; }
while read -r line; do
  id=$(printf '%s' "$line" | sed 's/.*"id":\([0-9]*\).*/\1/')
  case "$line" in
    *'"initialize"'*) answer '"result":{"protocolVersion":1,"agentCapabilities":{"loadSession":true}}';;
    *'"session/new"'*) answer '"result":{"sessionId":"s","modes":{"currentModeId":"ask","availableModes":[{"id":"ask"}]},"models":{"currentModelId":"calm","availableModels":[{"modelId":"calm","name":"Calm"},{"modelId":"quick","name":"Quick"},{"modelId":"loud","name":"Loud"}]}}';;
    *'"session/set_model"'*loud*) answer '"error":{"code":1,"message":"not at night"}';;
    *'"session/set_model"'*) answer '"result":{}';;
    *'"session/prompt"'*)
      printf '%s\n' '{"jsonrpc":"2.0","method":"session/update","params":{"sessionId":"s","update":{"sessionUpdate":"agent_message_chunk","content":{"type":"text","text":"Here."}}}}'
      answer '"result":{"stopReason":"end_turn"}';;
  esac
done
"#;

#[tokio::test]
async fn a_choice_that_is_refused_is_put_back_and_explained() {
    let mut home = TestHome::new();
    let agent = script_in(home.path(), "agent", AGENT);
    home.write_config(&format!(
        "[harness.mine]\ncommand = [{:?}]\nmode = \"ask\"",
        agent.display().to_string()
    ));
    home.listen().await;
    home.keep_port();
    let started = home.run(["start", "chosen", "--harness", "mine"]);
    assert!(started.status.success(), "{}", String::from_utf8_lossy(&started.stderr));
    let session = serde_json::from_value(home.record("chosen")["id"].clone()).unwrap();
    let page = Page::open().await;
    pair(&home, &page).await;
    open(&page, &home, session).await;
    send(&page, "hello").await;
    page.wait_for_text(&item("assistant"), "Here.").await;
    let model = marked("choose-model");
    page.wait_for(&model).await;
    let shows = async |name: &str| {
        let script = format!("document.querySelector('[data-test=choose-model]').value === {name:?}");
        page.wait_for_script(&format!("the model {name}"), &script).await;
    };
    let pick = async |name: &str| {
        let script = format!(
            "(() => {{ const select = document.querySelector('[data-test=choose-model]'); select.focus(); \
             select.value = {name:?}; select.dispatchEvent(new Event('change', {{ bubbles: true }})); }})()"
        );
        page.eval(&script).await;
    };
    shows("calm").await;

    // Taken by the agent: shown, and the field keeps the focus for the next key.
    pick("quick").await;
    page.wait_for_attribute(&model, "aria-busy", "false").await;
    shows("quick").await;
    assert_eq!(home.record("chosen")["settings"]["model"], "quick");
    assert_eq!(page.eval("document.activeElement.dataset.test").await, "choose-model");

    // Refused by the agent after the machine took it.
    pick("loud").await;
    page.wait_for_text(&marked("toast"), "Not changed").await;
    page.wait_for_text(&marked("toast"), "not at night").await;
    shows("quick").await;

    // Refused by the machine: nobody offers it.
    page.eval("document.querySelector('[data-test=choose-model]').append(new Option('other', 'other'))")
        .await;
    pick("other").await;
    page.wait_for_text(&marked("toast"), "does not offer").await;
    shows("quick").await;
    assert_eq!(home.record("chosen")["settings"]["model"], "quick");
    fs::remove_file(agent).unwrap();
}
