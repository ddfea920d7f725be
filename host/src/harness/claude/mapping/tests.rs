//! The mapping against messages as version 2.1.332 wrote them, cut down to what matters, and against hostile ones.

use proptest::prelude::*;
use serde_json::{Value, json};
use shared::entry::{Known, ToolClass};
use uuid::Uuid;

use super::*;

const TURN: Uuid = Uuid::from_u128(0x23c2_4084_d299_4c4a_8696_3c4f_1db5_cd3f);

fn mapping(permissions: Permissions) -> Mapping {
    let files = Files {
        is_inside: Box::new(|path| path.starts_with("/w/")),
        text: Box::new(|_| Ok(None)),
        real: Box::new(|path| std::path::PathBuf::from(path)),
    };
    Mapping::new(Settings::default(), ModelNames::default(), permissions, "/w".to_owned(), files)
}

fn in_turn() -> Mapping {
    let mut mapping = mapping(Permissions::Deny);
    assert!(matches!(&mapping.begin(TURN, "hello")[..], [Output::Write(_)]));
    feed(&mut mapping, &[replay(TURN)]);
    mapping
}

fn feed(mapping: &mut Mapping, messages: &[Value]) -> Vec<Output> {
    messages.iter().flat_map(|message| mapping.line(message.to_string().as_bytes())).collect()
}

fn replay(id: Uuid) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": "hello"}, "parent_tool_use_id": null,
        "uuid": id, "isReplay": true})
}

fn stream(event: Value) -> Value {
    json!({"type": "stream_event", "event": event, "parent_tool_use_id": null, "ttft_ms": 30})
}

fn assistant(id: &str, block: Value) -> Value {
    json!({"type": "assistant", "message": {"id": id, "type": "message", "role": "assistant",
        "model": "claude-opus-5-5", "content": [block], "stop_reason": null, "usage": {"input_tokens": 1002}},
        "parent_tool_use_id": null, "request_id": "req_1"})
}

fn bash(id: &str, command: &str) -> Value {
    let input = json!({"command": command, "description": "run it"});
    assistant("msg_1", json!({"type": "tool_use", "id": id, "name": "Bash", "input": input}))
}

fn tool_result(id: &str, content: Value, is_error: bool, done: Value, meta: Value) -> Value {
    json!({"type": "user", "message": {"role": "user", "content": [
        {"tool_use_id": id, "type": "tool_result", "content": content, "is_error": is_error}]},
        "parent_tool_use_id": null, "tool_use_result": done, "tool_result_meta": meta})
}

fn completed(ids: &[Uuid]) -> Value {
    json!({"type": "result", "subtype": "success", "is_error": false, "terminal_reason": "completed",
        "stop_reason": "end_turn", "result": "hi", "total_cost_usd": 0.018,
        "usage": {"input_tokens": 2006, "cache_creation_input_tokens": 40, "cache_read_input_tokens": 1000,
            "output_tokens": 29},
        "modelUsage": {"claude-opus-5-5": {"contextWindow": 1_000_000, "costUSD": 0.018}},
        "model_usage_since_last_result": {"claude-opus-5-5": {"costUSD": 0.009}},
        "user_message_uuids": ids, "queued_turn_count": 0})
}

fn aborted(ids: &[Uuid]) -> Value {
    json!({"type": "result", "subtype": "error_during_execution", "is_error": true,
        "terminal_reason": "aborted_streaming", "stop_reason": null,
        "errors": ["[ede_diagnostic] result_type=user last_content_type=n/a stop_reason=null"],
        "user_message_uuids": ids})
}

fn permission(tool: &str, input: Value, reason: &str) -> Value {
    json!({"type": "control_request", "request_id": "d6b5c263", "request": {"subtype": "can_use_tool",
        "tool_name": tool, "display_name": tool, "input": input, "decision_reason_type": reason,
        "permission_suggestions": [], "tool_use_id": "toolu_1"}})
}

fn entries(outputs: &[Output]) -> Vec<Known> {
    let said = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::Said(said)) => Some(said.clone()),
        _ => None,
    });
    said.map(Known::from).collect()
}

fn writes(outputs: &[Output]) -> Vec<&Value> {
    let written = outputs.iter().filter_map(|output| match output {
        Output::Write(value) => Some(value),
        _ => None,
    });
    written.collect()
}

fn ends(outputs: &[Output]) -> Vec<&TurnEnd> {
    let ends = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::TurnEnded(end)) => Some(end),
        _ => None,
    });
    ends.collect()
}

fn only_result(outputs: &[Output]) -> ToolResult {
    let mut results = entries(outputs).into_iter().filter_map(|entry| match entry {
        Known::Result(result) => Some(result),
        _ => None,
    });
    let result = results.next().expect("a result");
    assert!(results.next().is_none());
    result
}

#[test]
fn a_turn_with_a_tool_call_becomes_its_entries_in_order() {
    let mut mapping = in_turn();
    let outputs = feed(
        &mut mapping,
        &[
            json!({"type": "system", "subtype": "init", "session_id": "0feba59e", "model": "claude-opus-5-5",
                "permissionMode": "default", "user_message_uuids": [TURN]}),
            json!({"type": "system", "subtype": "status", "status": "requesting"}),
            stream(json!({"type": "message_start", "message": {"id": "msg_1", "usage":
                {"input_tokens": 1002, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 500}}})),
            stream(
                json!({"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": ""}}),
            ),
            stream(
                json!({"type": "content_block_delta", "index": 0, "delta": {"type": "text_delta", "text": "I will "}}),
            ),
            assistant("msg_1", json!({"type": "text", "text": "I will run it. "})),
            stream(json!({"type": "content_block_stop", "index": 0})),
            stream(json!({"type": "content_block_start", "index": 1, "content_block": {"type": "tool_use"}})),
            stream(json!({"type": "content_block_delta", "index": 1,
                "delta": {"type": "input_json_delta", "partial_json": "{\"com"}})),
            bash("toolu_1", "echo hi"),
            stream(
                json!({"type": "message_delta", "delta": {"stop_reason": "tool_use"}, "usage": {"output_tokens": 14}}),
            ),
            tool_result(
                "toolu_1",
                json!("hi"),
                false,
                json!({"stdout": "hi", "stderr": "", "interrupted": false}),
                json!([{"id": "toolu_1", "permission_decision": {"decision": "accept", "source": "config"}}]),
            ),
            completed(&[TURN]),
        ],
    );
    let kinds: Vec<&str> = entries(&outputs).iter().map(Known::kind).collect();
    assert_eq!(kinds, ["assistant", "tool", "result", "usage"]);
    let [Known::Assistant(text), Known::Tool(tool), Known::Result(result), Known::Usage(usage)] =
        &entries(&outputs)[..]
    else {
        panic!("other entries");
    };
    assert_eq!((text.text.as_str(), text.model.as_deref()), ("I will run it. ", Some("claude-opus-5-5")));
    let delta = outputs.iter().find_map(|output| match output {
        Output::Event(AgentEvent::Delta { message, kind, text }) => Some((message, *kind, text.as_str())),
        _ => None,
    });
    assert_eq!(delta, Some((&text.message, DeltaKind::Assistant, "I will ")));
    assert_eq!((tool.title.as_str(), tool.call.as_str()), ("Run echo hi", "toolu_1"));
    assert!(tool.class.is(&ToolClass::Execute));
    assert_eq!((&result.call, result.text.as_str()), (&tool.call, "hi"));
    assert!(result.status.is(&ResultStatus::Ok));
    assert_eq!(result.exit, Some(shared::status::Exit::Status(0)));
    assert_eq!((usage.input_tokens, usage.output_tokens, usage.cached_tokens), (2046, 29, 1000));
    assert_eq!((usage.cost, usage.context_tokens), (Some(0.009), Some(1536)));
    assert_eq!(ends(&outputs), [&TurnEnd::Completed]);
    let settings = outputs.iter().rev().find_map(|output| match output {
        Output::Event(AgentEvent::Settings(settings)) => Some(settings),
        _ => None,
    });
    let settings = settings.unwrap();
    assert_eq!(settings.conversation.as_deref(), Some("0feba59e"));
    assert_eq!(settings.context_tokens, Some(1_000_000));
}

#[test]
fn blocks_of_one_message_have_ids_of_their_own_equal_to_those_of_their_live_text() {
    let mut mapping = in_turn();
    let mut outputs =
        feed(&mut mapping, &[stream(json!({"type": "message_start", "message": {"id": "msg_1"}}))]);
    for (index, block) in [
        (0, json!({"type": "thinking", "thinking": "hm", "signature": "x"})),
        (2, json!({"type": "text", "text": "a"})),
        (3, json!({"type": "text", "text": "b"})),
    ] {
        let delta = json!({"type": "text_delta", "text": "live"});
        outputs.extend(feed(
            &mut mapping,
            &[
                stream(json!({"type": "content_block_start", "index": index, "content_block": block})),
                stream(json!({"type": "content_block_delta", "index": index, "delta": delta})),
                assistant("msg_1", block),
                stream(json!({"type": "content_block_stop", "index": index})),
            ],
        ));
    }
    let live: Vec<String> = outputs
        .iter()
        .filter_map(|output| match output {
            Output::Event(AgentEvent::Delta { message, .. }) => Some(message.to_string()),
            _ => None,
        })
        .collect();
    let said: Vec<String> = entries(&outputs)
        .iter()
        .map(|entry| match entry {
            Known::Assistant(entry) => entry.message.to_string(),
            Known::Thinking(entry) => entry.message.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(live, said);
    assert_eq!(said, ["msg_1.0", "msg_1.2", "msg_1.3"]);
    // Without a stream they are counted.
    let unstreamed = feed(
        &mut mapping,
        &[
            assistant("msg_2", json!({"type": "text", "text": "a"})),
            assistant("msg_2", json!({"type": "text", "text": "b"})),
        ],
    );
    let ids: Vec<_> = entries(&unstreamed)
        .into_iter()
        .map(|entry| match entry {
            Known::Assistant(entry) => entry.message.to_string(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(ids, ["msg_2.0", "msg_2.1"]);
}

fn asked(outputs: &[Output]) -> Vec<InputId> {
    let asked = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::Asked(asked)) => Some(asked.input),
        _ => None,
    });
    asked.collect()
}

#[test]
fn a_permission_is_asked_of_a_person_and_answered_once() {
    let mut mapping = in_turn();
    let request = permission("Bash", json!({"command": "touch made.txt"}), "other");
    let outputs = feed(&mut mapping, &[request.clone(), request]);
    let [input] = asked(&outputs)[..] else { panic!("it is asked once: {outputs:?}") };
    assert!(writes(&outputs).is_empty() && entries(&outputs).is_empty());
    let answered = mapping.answer(input, Decision::Deny { text: Some("not now".to_owned()) });
    assert_eq!(
        writes(&answered)[0]["response"]["response"],
        json!({"behavior": "deny", "message": "not now"})
    );
    assert!(writes(&mapping.answer(input, Decision::Allow)).is_empty());
}

#[test]
fn an_interrupt_first_resolves_what_is_open() {
    let mut mapping = in_turn();
    let request = permission("Bash", json!({"command": "touch made.txt"}), "other");
    let [input] = asked(&feed(&mut mapping, std::slice::from_ref(&request)))[..] else { panic!("asked") };
    let outputs = mapping.interrupt();
    let [denied, interrupt] = writes(&outputs)[..] else { panic!("{outputs:?}") };
    assert_eq!(denied["response"]["response"]["behavior"], "deny");
    assert_eq!(interrupt["request"]["subtype"], "interrupt");
    assert!(writes(&mapping.answer(input, Decision::Allow)).is_empty(), "an answer after the cancel is none");
    let outputs = feed(&mut mapping, &[request]);
    assert!(asked(&outputs).is_empty(), "nobody is asked in a turn that ends");
    assert_eq!(writes(&outputs)[0]["response"]["response"]["behavior"], "deny");
}

#[test]
fn nobody_is_asked_outside_of_a_turn_or_for_another_conversation() {
    let request = permission("Bash", json!({"command": "touch made.txt"}), "other");
    let mut idle = mapping(Permissions::Ask);
    let mut busy = in_turn();
    feed(&mut busy, &[json!({"type": "system", "subtype": "init", "session_id": "ours"})]);
    let mut foreign = request.clone();
    foreign["session_id"] = json!("another");
    for (mapping, request) in [(&mut idle, request), (&mut busy, foreign)] {
        let outputs = feed(mapping, &[request]);
        assert!(asked(&outputs).is_empty());
        assert_eq!(writes(&outputs)[0]["response"]["response"]["behavior"], "deny");
        let [Known::Notice(notice)] = &entries(&outputs)[..] else { panic!("one notice") };
        assert!(notice.text.contains("touch made.txt"));
    }
}

#[test]
fn a_permission_that_is_open_at_the_end_is_open_no_more() {
    for end in [completed(&[TURN]), aborted(&[TURN])] {
        let mut mapping = in_turn();
        let request = permission("Bash", json!({"command": "touch made.txt"}), "other");
        let [input] = asked(&feed(&mut mapping, &[request]))[..] else { panic!("asked") };
        assert_eq!(ends(&feed(&mut mapping, &[end])).len(), 1);
        assert!(writes(&mapping.answer(input, Decision::Allow)).is_empty());
    }
}

fn confirmed(id: &str, response: Value) -> Value {
    json!({"type": "control_response",
        "response": {"subtype": "success", "request_id": id, "response": response}})
}

#[test]
fn a_change_of_model_is_told_as_the_program_confirms_it() {
    let models: Vec<wire::Model> = serde_json::from_value(json!([
        {"value": "sonnet", "resolvedModel": "claude-sonnet-4-5", "displayName": "Sonnet",
            "supportedEffortLevels": ["low", "high"]}]))
    .unwrap();
    let mut mapping = in_turn();
    mapping.names = ModelNames::of(models);
    let wanted = Configure { model: Some("sonnet".into()), effort: Some("high".into()), agent: None };
    let mut outputs = mapping.configure(wanted);
    // One after the other: the program takes requests side by side.
    for subtype in ["set_model", "apply_flag_settings", "get_settings"] {
        let [write] = writes(&outputs)[..] else { panic!("one request: {outputs:?}") };
        assert_eq!(write["request"]["subtype"], subtype);
        let applied = json!({"applied": {"model": "claude-sonnet-4-5", "effort": "high"}});
        let answer = confirmed(write["request_id"].as_str().unwrap(), applied);
        outputs = feed(&mut mapping, &[answer]);
    }
    let [Output::Event(AgentEvent::Settings(settings))] = &outputs[..] else { panic!("{outputs:?}") };
    assert_eq!((settings.alias.as_deref(), settings.effort.as_deref()), (Some("Sonnet"), Some("high")));
    assert_eq!(settings.choices.efforts, ["low", "high"]);

    // What is not offered is refused with a notice, and what is really used is told.
    let outputs = mapping.configure(Configure { model: Some("gpt".into()), ..Configure::default() });
    assert!(matches!(
        &outputs[..],
        [Output::Event(AgentEvent::Said(Said::Notice(_))), Output::Event(AgentEvent::Settings(_))]
    ));
}

#[test]
fn where_edits_are_allowed_only_ordinary_ones_inside_are() {
    let behaviour = |tool: &str, input: Value, reason: &str| {
        let mut mapping = mapping(Permissions::Edits);
        mapping.begin(TURN, "hello");
        let outputs = feed(&mut mapping, &[permission(tool, input.clone(), reason)]);
        if !asked(&outputs).is_empty() {
            return "ask".to_owned();
        }
        let answer = &writes(&outputs)[0]["response"]["response"];
        let behaviour = answer["behavior"].as_str().unwrap().to_owned();
        if behaviour == "allow" {
            assert_eq!(answer["updatedInput"], input);
            assert!(entries(&outputs).is_empty());
        }
        behaviour
    };
    assert_eq!(behaviour("Write", json!({"file_path": "/w/a", "content": "x"}), "other"), "allow");
    assert_eq!(behaviour("NotebookEdit", json!({"notebook_path": "/w/a.ipynb"}), "other"), "allow");
    assert_eq!(behaviour("Write", json!({"file_path": "/elsewhere"}), "workingDir"), "ask");
    assert_eq!(behaviour("Write", json!({"file_path": "/w/.git/hooks/x"}), "safetyCheck"), "ask");
    assert_eq!(behaviour("Bash", json!({"command": "ls", "file_path": "/w/a"}), "other"), "ask");
    assert_eq!(behaviour("Write", json!({}), "other"), "ask");
}

#[test]
fn a_request_that_is_not_known_is_answered_with_an_error() {
    let mut mapping = mapping(Permissions::Edits);
    for request in [json!({"subtype": "hook_callback"}), json!(null), json!([7])] {
        let message = json!({"type": "control_request", "request_id": "q", "request": request});
        let outputs = feed(&mut mapping, &[message]);
        assert_eq!(writes(&outputs)[0]["response"]["subtype"], "error");
        assert_eq!(writes(&outputs)[0]["response"]["request_id"], "q");
    }
    let cancel = json!({"type": "control_cancel_request", "request_id": "q"});
    assert!(feed(&mut mapping, &[cancel]).is_empty());
}

#[test]
fn a_denied_call_is_told_from_one_that_failed_and_one_that_was_interrupted() {
    let mut mapping = in_turn();
    let rejected = json!([{"id": "toolu_1", "non_execution_kind": "permission-rule",
        "permission_decision": {"decision": "reject", "source": "user_reject"}}]);
    feed(&mut mapping, &[bash("toolu_1", "touch a")]);
    let outputs =
        feed(&mut mapping, &[tool_result("toolu_1", json!("no"), true, json!("Error: no"), rejected)]);
    assert!(only_result(&outputs).status.is(&ResultStatus::Denied));

    feed(&mut mapping, &[bash("toolu_2", "ls nope")]);
    let text = json!([{"type": "text", "text": "Exit code 2\nls: no"}]);
    let outputs = feed(&mut mapping, &[tool_result("toolu_2", text, true, json!("Error"), json!(null))]);
    let result = only_result(&outputs);
    assert!(result.status.is(&ResultStatus::Error));
    assert_eq!(result.exit, Some(shared::status::Exit::Status(2)));

    feed(&mut mapping, &[bash("toolu_3", "tail -f x")]);
    mapping.interrupt();
    let rejected = json!([{"id": "toolu_3", "non_execution_kind": "user-rejected"}]);
    let outputs = feed(&mut mapping, &[tool_result("toolu_3", json!("STOP"), true, json!("x"), rejected)]);
    assert!(only_result(&outputs).status.is(&ResultStatus::Interrupted));
}

#[test]
fn a_large_result_is_cut_between_characters_and_counted() {
    let mut mapping = in_turn();
    feed(&mut mapping, &[bash("toolu_1", "yes")]);
    let text = format!("x{}", "é".repeat(limits::RESULT_BYTES));
    let outputs = feed(&mut mapping, &[tool_result("toolu_1", json!(text), false, json!(null), json!(null))]);
    let result = only_result(&outputs);
    assert_eq!(result.text.len() as u64 + result.truncated.unwrap(), text.len() as u64);
    assert_eq!(result.text.len(), limits::RESULT_BYTES - 1);
}

#[test]
fn an_image_becomes_a_notice_with_its_size() {
    let mut mapping = in_turn();
    let image =
        json!([{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}]);
    let outputs = feed(&mut mapping, &[tool_result("toolu_1", image, false, json!(null), json!(null))]);
    let [Known::Notice(notice), Known::Result(result)] = &entries(&outputs)[..] else {
        panic!("two entries")
    };
    assert!(notice.text.contains("image/png, 1 KiB"));
    assert_eq!(result.text, "[image, image/png, 1 KiB]");
}

#[test]
fn a_todo_list_is_a_plan_and_nothing_else() {
    let mut mapping = in_turn();
    let input = json!({"todos": [{"content": "a", "status": "pending", "activeForm": "doing a"}]});
    let block = json!({"type": "tool_use", "id": "toolu_1", "name": "TodoWrite", "input": input});
    let outputs = feed(
        &mut mapping,
        &[
            assistant("msg_1", block),
            tool_result("toolu_1", json!("Todos have been modified"), false, json!(null), json!(null)),
        ],
    );
    assert!(matches!(&entries(&outputs)[..], [Known::Plan(plan)] if plan.steps.len() == 1));
}

#[test]
fn a_subagent_does_not_speak_for_the_assistant() {
    let mut mapping = in_turn();
    let subagent = |mut message: Value| {
        message["parent_tool_use_id"] = json!("toolu_0");
        message
    };
    let outputs = feed(
        &mut mapping,
        &[
            subagent(stream(json!({"type": "message_start", "message": {"id": "msg_9"}}))),
            subagent(stream(json!({"type": "content_block_delta", "index": 0,
            "delta": {"type": "text_delta", "text": "inner"}}))),
            subagent(assistant("msg_9", json!({"type": "text", "text": "inner words"}))),
            subagent(assistant("msg_9", json!({"type": "thinking", "thinking": "inner thought"}))),
            subagent(bash("toolu_9", "ls")),
        ],
    );
    let [Known::Tool(tool)] = &entries(&outputs)[..] else { panic!("one tool call") };
    assert_eq!(tool.title, "Subagent · Run ls");
    assert_eq!(outputs.len(), 1);
}

#[test]
fn an_interrupt_waits_until_the_program_has_taken_up_the_turn() {
    let mut mapping = mapping(Permissions::Deny);
    assert!(mapping.interrupt().is_empty(), "without a turn nothing happens");
    mapping.begin(TURN, "SLOW");
    assert!(mapping.interrupt().is_empty());
    let queued = json!({"type": "command_lifecycle", "command_uuid": TURN, "state": "queued"});
    assert!(writes(&feed(&mut mapping, &[queued])).is_empty());
    let started = json!({"type": "command_lifecycle", "command_uuid": TURN, "state": "started"});
    let outputs = feed(&mut mapping, &[started]);
    assert_eq!(writes(&outputs)[0]["request"]["subtype"], "interrupt");
    assert!(mapping.interrupt().is_empty(), "once is enough");
    assert_eq!(ends(&feed(&mut mapping, &[aborted(&[TURN])])), [&TurnEnd::Interrupted]);
}

#[test]
fn an_interrupt_that_hit_nothing_is_sent_again() {
    let mut mapping = in_turn();
    let id = writes(&mapping.interrupt())[0]["request_id"].clone();
    let answer = json!({"type": "control_response", "response": {"subtype": "success", "request_id": id,
        "response": {"still_queued": [TURN]}}});
    assert!(feed(&mut mapping, &[answer]).is_empty());
    let status = json!({"type": "system", "subtype": "status", "user_message_uuids": [TURN]});
    let again = feed(&mut mapping, &[status]);
    assert_eq!(writes(&again)[0]["request"]["subtype"], "interrupt");
    assert_ne!(writes(&again)[0]["request_id"], id);
}

#[test]
fn a_turn_that_ended_before_the_interrupt_came_is_completed() {
    let mut mapping = in_turn();
    mapping.interrupt();
    assert_eq!(ends(&feed(&mut mapping, &[completed(&[TURN])])), [&TurnEnd::Completed]);
    let mut mapping = in_turn();
    mapping.interrupt();
    let mut lie = completed(&[TURN]);
    lie["terminal_reason"] = json!("aborted_tools");
    assert_eq!(ends(&feed(&mut mapping, &[lie])), [&TurnEnd::Interrupted]);
}

#[test]
fn a_stale_result_does_not_end_the_turn_that_runs_now() {
    let mut mapping = mapping(Permissions::Deny);
    mapping.begin(TURN, "new");
    let other = Uuid::from_u128(7);
    assert!(ends(&feed(&mut mapping, &[aborted(&[other])])).is_empty());
    // A version that names no turn: the turn has not begun, so this cannot be its end.
    assert!(ends(&feed(&mut mapping, &[aborted(&[])])).is_empty());
    feed(&mut mapping, &[replay(TURN)]);
    assert!(ends(&feed(&mut mapping, &[completed(&[other])])).is_empty());
    assert_eq!(ends(&feed(&mut mapping, &[completed(&[])])), [&TurnEnd::Completed]);
    assert!(ends(&feed(&mut mapping, &[completed(&[])])).is_empty(), "a turn ends once");
}

#[test]
fn a_failure_is_explained_once_and_open_calls_are_closed() {
    let mut mapping = in_turn();
    let mut message = assistant("msg_e", json!({"type": "text", "text": "API Error: 500"}));
    message["error"] = json!("server_error");
    let mut result = completed(&[TURN]);
    result["is_error"] = json!(true);
    result["terminal_reason"] = json!("api_error");
    let outputs = feed(&mut mapping, &[bash("toolu_1", "ls"), message, result.clone()]);
    let kinds: Vec<&str> = entries(&outputs).iter().map(Known::kind).collect();
    assert_eq!(kinds, ["tool", "notice", "usage", "result"]);
    assert!(only_result(&outputs).status.is(&ResultStatus::Interrupted));
    assert_eq!(ends(&outputs), [&TurnEnd::Failed]);

    let mut mapping = in_turn();
    result["result"] = json!("the model is overloaded");
    let outputs = feed(&mut mapping, &[result]);
    assert!(
        matches!(&entries(&outputs)[..], [_, Known::Notice(notice)] if notice.text.contains("overloaded"))
    );
}

#[test]
fn a_program_that_ends_in_mid_turn_is_a_failure_that_is_told() {
    let mut mapping = in_turn();
    let outputs = mapping.gone("signal 9");
    assert!(matches!(&entries(&outputs)[..], [Known::Notice(notice)] if notice.text.contains("signal 9")));
    assert_eq!(ends(&outputs), [&TurnEnd::Failed]);
    assert!(mapping.gone("signal 9").is_empty(), "without a turn there is nothing to tell");
}

#[test]
fn a_mode_that_would_ask_for_less_is_set_back() {
    let init = |mode: &str| json!({"type": "system", "subtype": "init", "permissionMode": mode});
    for (mode, is_set_back) in [
        ("default", false),
        ("plan", false),
        ("acceptEdits", true),
        ("bypassPermissions", true),
        ("auto", true),
    ] {
        let mut mapping = mapping(Permissions::Deny);
        let outputs = feed(&mut mapping, &[init(mode)]);
        assert_eq!(!writes(&outputs).is_empty(), is_set_back, "{mode}");
    }
    let mut mapping = mapping(Permissions::Edits);
    assert!(writes(&feed(&mut mapping, &[init("acceptEdits")])).is_empty());
}

#[test]
fn what_nobody_understands_is_traced_and_a_lone_surrogate_loses_nothing() {
    let mut mapping = in_turn();
    for line in [&b"Segmentation fault"[..], b"{\"type\":7}", b"[]", b"{\"type\":\"hologram\"}", b"\xff\xfe"]
    {
        assert!(matches!(mapping.line(line)[..], [Output::Trace(_)]), "{line:?}");
    }
    assert!(mapping.line(b"  ").is_empty());
    let text = assistant("msg_1", json!({"type": "text", "text": "LONE"}));
    let line = text.to_string().replace("LONE", "a\\ud800\\u0000b");
    assert!(
        matches!(&entries(&mapping.line(line.as_bytes()))[..], [Known::Assistant(entry)] if entry.text == "a\u{FFFD}\u{0}b")
    );
}

proptest! {
    #[test]
    fn no_order_of_messages_ends_a_turn_twice(order in proptest::collection::vec(0..9_usize, 0..40)) {
        let mut mapping = mapping(Permissions::Deny);
        let other = Uuid::from_u128(7);
        let messages = [
            replay(TURN), replay(other), completed(&[TURN]), aborted(&[TURN]), completed(&[other]), aborted(&[]),
            bash("toolu_1", "ls"), permission("Bash", json!({"command": "ls"}), ""),
            tool_result("toolu_1", json!("x"), false, json!(null), json!(null)),
        ];
        let mut outputs = mapping.begin(TURN, "x");
        for index in order {
            outputs.extend(feed(&mut mapping, &messages[index..=index]));
        }
        prop_assert!(ends(&outputs).len() <= 1);
    }
}
