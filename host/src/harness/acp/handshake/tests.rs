use super::*;
use crate::config::{Config, Permissions};
use crate::harness::Place;
use crate::harness::acp::presets;

fn program(config: &str, name: &str) -> Program {
    let config: Config = toml::from_str(config).unwrap();
    presets::all(&config).into_iter().find(|program| program.name == name).unwrap()
}

fn opening(conversation: Option<&str>, model: Option<&str>) -> Opening {
    let directory = std::path::PathBuf::from("/");
    let place = Place {
        working_directory: directory.clone(),
        session_directory: directory.clone(),
        run: shared::ids::HostId::random(),
        guard_program: directory,
        config: Config::default(),
    };
    Opening {
        place,
        conversation: conversation.map(str::to_owned),
        model: model.map(str::to_owned),
        effort: None,
        agent: None,
        permissions: Permissions::Ask,
    }
}

fn answer(id: u64, result: Value) -> Message {
    Message::Response { id, result: Ok(result) }
}

fn initialized() -> Value {
    json!({"protocolVersion": 1, "agentCapabilities": {"loadSession": true}})
}

/// A session as goose 1.34 opens it.
fn session() -> Value {
    json!({"sessionId": "s", "modes": {"currentModeId": "auto",
        "availableModes": [{"id": "auto"}, {"id": "approve"}, {"id": "chat"}]},
        "models": {"currentModelId": "m", "availableModels": [{"modelId": "m"}, {"modelId": "n"}]}})
}

fn method(step: &Step) -> &str {
    match step {
        Step::Write(value) => value["method"].as_str().unwrap(),
        other => panic!("nothing to write: {other:?}"),
    }
}

fn detail(step: Step) -> String {
    match step {
        Step::Fail(error) => error.to_string(),
        other => panic!("no failure: {other:?}"),
    }
}

#[test]
fn the_mode_is_set_before_anything_else_and_verified() {
    let (mut handshake, first) = Handshake::new(&program("", "goose"), &opening(None, Some("n")));
    assert_eq!(first["method"], "initialize");
    assert_eq!(method(&handshake.message(answer(1, initialized()))), "session/new");
    let Step::Write(request) = handshake.message(answer(2, session())) else { panic!("no mode") };
    assert_eq!(
        (&request["method"], &request["params"]["modeId"]),
        (&json!("session/set_mode"), &json!("approve"))
    );
    assert_eq!(method(&handshake.message(answer(3, json!({})))), "session/set_model");
    let Step::Ready(ready) = handshake.message(answer(4, json!({}))) else { panic!("not ready") };
    assert_eq!(ready.options.current(Kind::Mode), Some("approve"));
    assert_eq!(ready.options.current(Kind::Model), Some("n"));
    assert_eq!((ready.session.as_str(), ready.is_resumed, ready.has_lost), ("s", false, false));
}

#[test]
fn an_agent_that_answers_with_another_mode_is_refused() {
    let (mut handshake, _) = Handshake::new(&program("", "goose"), &opening(None, None));
    handshake.message(answer(1, initialized()));
    let mut session = session();
    session["configOptions"] = json!([{"id": "mode", "category": "mode", "currentValue": "auto",
        "options": [{"value": "auto"}, {"value": "approve"}]}]);
    assert_eq!(method(&handshake.message(answer(2, session.clone()))), "session/set_config_option");
    assert!(detail(handshake.message(answer(3, session))).contains("did not take approve"));
}

#[test]
fn an_agent_of_which_nobody_knows_whether_it_asks_is_refused() {
    let refused = |config: &str, session: Value| {
        let (mut handshake, _) = Handshake::new(&program(config, "mine"), &opening(None, None));
        handshake.message(answer(1, initialized()));
        handshake.message(answer(2, session))
    };
    let unknown = detail(refused("[harness.mine]\ncommand = [\"x\"]", session()));
    assert!(
        unknown.contains("[harness.mine]") && unknown.contains("it offers auto, approve, chat"),
        "{unknown}"
    );
    let wrong = detail(refused("[harness.mine]\ncommand = [\"x\"]\nmode = \"ask\"", session()));
    assert!(wrong.contains("does not offer the permission mode ask"), "{wrong}");
    let bare = json!({"sessionId": "s"});
    assert!(matches!(refused("[harness.mine]\ncommand = [\"x\"]\nasks = true", bare), Step::Ready(_)));
}

#[test]
fn a_conversation_goes_on_or_a_new_one_says_that_it_was_lost() {
    let loaded = |result| {
        let (mut handshake, _) = Handshake::new(&program("", "goose"), &opening(Some("old"), None));
        let step = handshake.message(answer(1, initialized()));
        assert_eq!(method(&step), "session/load");
        // The conversation is told again; none of it is to be logged.
        let update = json!({"sessionId": "old", "update": {"sessionUpdate": "agent_message_chunk"}});
        let again = Message::Notification { method: "session/update".to_owned(), params: update };
        assert_eq!(handshake.message(again), Step::Wait);
        let step = handshake.message(Message::Response { id: 2, result });
        (handshake, step)
    };
    let (mut handshake, step) = loaded(Ok(session()));
    assert_eq!(method(&step), "session/set_mode");
    let Step::Ready(ready) = handshake.message(answer(3, Value::Null)) else { panic!("not ready") };
    assert_eq!((ready.session.as_str(), ready.is_resumed), ("old", true));
    let (mut handshake, step) = loaded(Err(Failure { code: -32602, message: "no such session".to_owned() }));
    assert_eq!(method(&step), "session/new");
    handshake.message(answer(3, session()));
    let Step::Ready(ready) = handshake.message(answer(4, Value::Null)) else { panic!("not ready") };
    assert!(ready.has_lost && !ready.is_resumed && ready.session == "s");
}

#[test]
fn what_is_missing_is_said_in_words() {
    let (mut handshake, _) = Handshake::new(&program("", "gemini"), &opening(None, None));
    let request =
        Message::Request { id: json!("q"), method: "fs/read_text_file".to_owned(), params: Value::Null };
    assert!(matches!(handshake.message(request), Step::Write(reply) if reply["error"]["code"] == -32601));
    handshake.message(answer(1, initialized()));
    let login = Failure { code: wire::NOT_LOGGED_IN, message: "Authentication required".to_owned() };
    let text = detail(handshake.message(Message::Response { id: 2, result: Err(login) }));
    assert!(text.contains("run `gemini` once and log in"), "{text}");
    let (mut handshake, _) = Handshake::new(&program("", "goose"), &opening(None, Some("nope")));
    handshake.message(answer(1, initialized()));
    handshake.message(answer(2, session()));
    let step = handshake.message(answer(3, Value::Null));
    assert!(matches!(step, Step::Fail(OpenError::UnknownModel { model }) if model == "nope"));
    let (mut handshake, _) = Handshake::new(&program("", "goose"), &opening(None, None));
    assert!(matches!(handshake.message(answer(1, json!({"protocolVersion": 2}))), Step::Fail(_)));
}
