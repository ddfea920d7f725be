use super::*;
use shared::decision::{Matter, Verdict};

/// Plays a recording: its prompts, decisions and interrupts are ours, its answers come under the ids that we use.
fn play(recording: &str) -> Vec<Output> {
    let lines: Vec<Value> = recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let result = |line: &&Value| line["msg"]["result"]["sessionId"].is_string();
    let opened = &lines.iter().find(result).unwrap()["msg"]["result"];
    let mut ready = Ready { session: opened["sessionId"].as_str().unwrap().to_owned(), ..Ready::default() };
    ready.options.read(opened);
    let modes = ["build", "approve", "default"].map(str::to_owned).to_vec();
    let mut mapping = Mapping::new("agent".to_owned(), modes, "/home/user".into(), ready);
    let mut outputs = Vec::new();
    let (mut theirs, mut inputs) = (Value::Null, Vec::new());
    for line in lines {
        let message = &line["msg"];
        let more = if line["dir"] == "in" {
            match (message["method"].as_str(), message["result"]["outcome"]["optionId"].as_str()) {
                (Some("session/prompt"), _) => {
                    theirs = message["id"].clone();
                    mapping.begin(message["params"]["prompt"][0]["text"].as_str().unwrap())
                }
                (Some("session/cancel"), _) => mapping.interrupt(),
                (None, Some(option)) => {
                    let decision = if option.contains("once") && !option.contains("reject") {
                        Decision::Allow
                    } else {
                        Decision::Deny { text: None }
                    };
                    mapping.answer(inputs.pop().unwrap(), &decision)
                }
                _ => Vec::new(),
            }
        } else {
            let mut message = message.clone();
            if message.get("method").is_none() {
                let is_prompt = !theirs.is_null() && message["id"] == theirs;
                message["id"] = if is_prompt { json!(mapping.requests) } else { json!(1_000_000) };
            }
            mapping.line(message.to_string().as_bytes())
        };
        inputs.extend(asked(&more).into_iter().map(|asked| asked.input));
        outputs.extend(more);
    }
    outputs
}

fn asked(outputs: &[Output]) -> Vec<crate::harness::Asked> {
    let asked = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::Asked(asked)) => Some(asked.as_ref().clone()),
        _ => None,
    });
    asked.collect()
}

fn entries(outputs: &[Output]) -> Vec<String> {
    let lines = outputs.iter().filter_map(|output| match output {
        Output::Event(AgentEvent::Said(said)) => Some(match said {
            Said::Assistant(entry) => format!("assistant {}", entry.text.trim_end()),
            Said::Thinking(entry) => format!("thinking {}", entry.text),
            Said::Tool(entry) => {
                format!("tool {} | {} | {:?}", entry.name, entry.title, entry.class.known().unwrap())
            }
            Said::Result(entry) => {
                let exit = entry.exit.map_or_else(String::new, |exit| format!(" {exit:?}"));
                format!("result {:?}{exit}", entry.status.known().unwrap())
            }
            Said::Plan(entry) => format!("plan {}", entry.steps.len()),
            Said::Usage(entry) => format!("usage {}+{}", entry.input_tokens, entry.output_tokens),
            Said::Notice(entry) => format!("notice {}", entry.text),
        }),
        Output::Event(AgentEvent::TurnEnded(end)) => Some(format!("{end:?}")),
        Output::Event(AgentEvent::Asked(asked)) => match &asked.matter {
            Matter::Confirm(confirm) => {
                Some(format!("asked {} | {}", confirm.title, confirm.detail.lines().next().unwrap()))
            }
            Matter::Ask(_) => None,
        },
        _ => None,
    });
    lines.collect()
}

fn starts(entries: &[String], expected: &[&str]) {
    let shown: Vec<&str> = entries
        .iter()
        .map(String::as_str)
        .filter(|entry| !entry.starts_with("assistant") && !entry.starts_with("usage"))
        .collect();
    assert_eq!(shown, expected, "{entries:#?}");
}

#[test]
fn opencode_as_it_was_recorded() {
    starts(
        &entries(&play(include_str!("../samples/opencode-1.18.33.jsonl"))),
        &[
            "Completed",
            "tool bash | Run touch allow.txt && echo made | Execute",
            "asked Run touch allow.txt && echo made | touch allow.txt && echo made",
            "result Ok Status(0)",
            "Completed",
            "tool write | Edit denied.txt | Edit",
            "asked Edit denied.txt | Index: /home/user/denied.txt",
            "result Denied",
            "Completed",
            "tool bash | Run touch denied2.txt | Execute",
            "asked Run touch denied2.txt | touch denied2.txt",
            "result Denied",
            "Completed",
            "Interrupted",
            "tool bash | Run touch held.txt | Execute",
            "asked Run touch held.txt | touch held.txt",
            "result Interrupted",
            "Interrupted",
            "Completed",
        ],
    );
}

#[test]
fn goose_as_it_was_recorded() {
    starts(
        &entries(&play(include_str!("../samples/goose-1.34.0.jsonl"))),
        &[
            "Completed",
            "tool shell | Run touch allow.txt && echo made | Execute",
            "asked Run touch allow.txt && echo made | touch allow.txt && echo made",
            "result Ok Status(0)",
            "Completed",
            "tool write | Edit denied.txt | Edit",
            "asked Edit denied.txt | {",
            "result Denied",
            "Completed",
            "tool shell | Run touch denied2.txt | Execute",
            "asked Run touch denied2.txt | touch denied2.txt",
            "result Denied",
            "Completed",
            "Interrupted",
            "tool shell | Run touch held.txt | Execute",
            "asked Run touch held.txt | touch held.txt",
            "result Interrupted",
            "Interrupted",
            "tool shell | Run touch held.txt | Execute",
            "asked Run touch held.txt | touch held.txt",
            "result Ok Status(0)",
            "Completed",
        ],
    );
}

#[test]
fn gemini_as_it_was_recorded() {
    starts(
        &entries(&play(include_str!("../samples/gemini-0.61.0.jsonl"))),
        &[
            "Completed",
            "tool execute | Run touch allow.txt && echo made | Execute",
            "asked Run touch allow.txt && echo made | touch allow.txt && echo made",
            "result Ok",
            "Completed",
            "tool edit | Edit denied.txt | Edit",
            "asked Edit denied.txt | /home/user/denied.txt",
            "result Denied",
            "Completed",
            "tool execute | Run touch denied2.txt | Execute",
            "asked Run touch denied2.txt | touch denied2.txt",
            "result Denied",
            "Completed",
            "Interrupted",
            "tool execute | Run touch held.txt | Execute",
            "asked Run touch held.txt | touch held.txt",
            "result Interrupted",
            "Interrupted",
            "Completed",
        ],
    );
}

fn mapping() -> Mapping {
    let mut ready = Ready { session: "s".to_owned(), ..Ready::default() };
    ready
        .options
        .read(&json!({"modes": {"currentModeId": "ask", "availableModes": [{"id": "ask"}, {"id": "yolo"}]},
        "models": {"currentModelId": "m", "availableModels": [{"modelId": "m"}, {"modelId": "n"}]}}));
    Mapping::new("agent".to_owned(), vec!["ask".to_owned()], "/w".into(), ready)
}

fn line(mapping: &mut Mapping, value: Value) -> Vec<Output> {
    mapping.line(value.to_string().as_bytes())
}

fn update(mapping: &mut Mapping, update: Value) -> Vec<Output> {
    line(mapping, json!({"method": "session/update", "params": {"sessionId": "s", "update": update}}))
}

fn permission(mapping: &mut Mapping, id: &Value, session: &str) -> Vec<Output> {
    let call =
        json!({"toolCallId": "c", "kind": "execute", "title": "make", "rawInput": {"command": "make"}});
    let options = json!([{"optionId": "y", "kind": "allow_once"}, {"optionId": "n", "kind": "reject_once"}]);
    line(
        mapping,
        json!({"id": id, "method": "session/request_permission",
        "params": {"sessionId": session, "toolCall": call, "options": options}}),
    )
}

fn writes(outputs: &[Output]) -> Vec<&Value> {
    let writes = outputs.iter().filter_map(|output| match output {
        Output::Write(value) => Some(value),
        _ => None,
    });
    writes.collect()
}

fn chunk(text: &str) -> Value {
    json!({"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": text}})
}

#[test]
fn an_interrupt_first_answers_what_is_open() {
    let mut mapping = mapping();
    mapping.begin("go");
    let open = permission(&mut mapping, &json!(0), "s");
    assert_eq!(asked(&open).len(), 1);
    let outputs = mapping.interrupt();
    let writes = writes(&outputs);
    assert_eq!(writes[0]["result"]["outcome"]["outcome"], "cancelled");
    assert_eq!(writes[1]["method"], "session/cancel");
    assert!(mapping.is_waiting());
    // One that comes after that is answered at once, and goose says `end_turn`.
    let late = permission(&mut mapping, &json!(1), "s");
    assert!(asked(&late).is_empty());
    let prompt = mapping.requests;
    let end = line(&mut mapping, json!({"id": prompt, "result": {"stopReason": "end_turn"}}));
    assert_eq!(entries(&end).last().unwrap(), "Interrupted");
    assert!(entries(&end).contains(&"result Interrupted".to_owned()));
    // The same answer again is one to nothing, also when the next turn runs.
    mapping.begin("next");
    assert_eq!(
        line(&mut mapping, json!({"id": prompt, "result": {"stopReason": "cancelled"}})),
        [Output::Trace("an answer to nothing")]
    );
}

#[test]
fn a_permission_is_asked_once_and_only_in_its_session_and_turn() {
    let mut mapping = mapping();
    let outside = permission(&mut mapping, &json!("a"), "s");
    assert_eq!(writes(&outside)[0]["result"]["outcome"]["outcome"], "cancelled");
    mapping.begin("go");
    let unknown = permission(&mut mapping, &json!("a"), "other");
    assert_eq!(writes(&unknown)[0]["error"]["code"], -32602);
    let first = asked(&permission(&mut mapping, &json!("a"), "s"));
    assert_eq!(
        permission(&mut mapping, &json!("a"), "s"),
        [Output::Trace("a permission that waits already")]
    );
    let Matter::Confirm(confirm) = &first[0].matter else { panic!("no approval") };
    assert_eq!(
        confirm.options.iter().filter_map(|option| option.known().copied()).collect::<Vec<_>>(),
        [Verdict::Allow, Verdict::AllowSession, Verdict::Deny]
    );
    let denied = mapping.answer(first[0].input, &Decision::Deny { text: Some("no".to_owned()) });
    assert_eq!(writes(&denied)[0]["result"]["outcome"]["optionId"], "n");
    assert_eq!(mapping.answer(first[0].input, &Decision::Allow), []);
    // An agent that was started anew counts from its beginning.
    let second = asked(&permission(&mut mapping, &json!("a"), "s"));
    assert_ne!(first[0].input, second[0].input);
    let prompt = mapping.requests;
    let end = line(&mut mapping, json!({"id": prompt, "result": {"stopReason": "end_turn"}}));
    assert!(end.contains(&Output::Event(AgentEvent::Withdrawn(second[0].input))));
    assert!(entries(&end).contains(&"result Denied".to_owned()));
}

#[test]
fn an_agent_that_dies_in_a_turn_leaves_nothing_open() {
    let mut mapping = mapping();
    mapping.begin("go");
    update(&mut mapping, chunk("half a"));
    permission(&mut mapping, &json!(0), "s");
    let outputs = mapping.gone("signal 9");
    let entries = entries(&outputs);
    assert!(outputs.iter().any(|output| matches!(output, Output::Event(AgentEvent::Withdrawn(_)))));
    assert_eq!(entries.last().unwrap(), "Failed");
    assert!(entries.contains(&"result Interrupted".to_owned()));
}

#[test]
fn a_flood_of_words_is_bounded_and_said_once() {
    let mut mapping = mapping();
    mapping.begin("go");
    let mut logged = 0;
    let mut notices = 0;
    for _ in 0..24 {
        for output in update(&mut mapping, chunk(&"x".repeat(1024 * 1024))) {
            match output {
                Output::Event(AgentEvent::Said(Said::Assistant(entry))) => logged += entry.text.len(),
                Output::Event(AgentEvent::Said(Said::Notice(_))) => notices += 1,
                _ => {}
            }
        }
    }
    assert!(logged <= TURN_BYTES && notices == 1, "{logged} {notices}");
    let mut calls = 0;
    for number in 0..(2 * TURN_CALLS) {
        let call =
            json!({"sessionUpdate": "tool_call", "toolCallId": number.to_string(), "rawInput": {"a": 1}});
        calls += entries(&update(&mut mapping, call)).len();
    }
    assert!(calls <= 2 * TURN_CALLS);
    assert!(mapping.turn.unwrap().calls.len() <= CALLS + 1);
}

#[test]
fn words_are_gathered_and_told_live() {
    let mut mapping = mapping();
    assert_eq!(update(&mut mapping, chunk("from before")), [Output::Trace("words outside of a turn")]);
    mapping.begin("go");
    let mut outputs = update(
        &mut mapping,
        json!({"sessionUpdate": "agent_thought_chunk", "content": {"type": "text", "text": "hm"}}),
    );
    outputs.extend(update(&mut mapping, chunk("a ")));
    outputs.extend(update(&mut mapping, chunk("b")));
    outputs.extend(update(
        &mut mapping,
        json!({"sessionUpdate": "plan", "entries": [{"content": "x", "status": "pending"}, 3]}),
    ));
    outputs.extend(update(&mut mapping, json!({"sessionUpdate": "hologram"})));
    assert_eq!(entries(&outputs), ["thinking hm", "assistant a b", "plan 1"]);
    let deltas = outputs.iter().filter(|output| matches!(output, Output::Event(AgentEvent::Delta { .. })));
    assert_eq!(deltas.count(), 3);
}

#[test]
fn another_model_is_used_or_the_refusal_is_told() {
    let mut mapping = mapping();
    let wish = |model: &str| Configure { model: Some(model.to_owned()), effort: None, agent: None };
    assert_eq!(writes(&mapping.configure(wish("n")))[0]["method"], "session/set_model");
    let id = mapping.requests;
    let done = line(&mut mapping, json!({"id": id, "result": {}}));
    assert!(
        matches!(&done[..], [Output::Event(AgentEvent::Settings(settings))] if settings.model.as_deref() == Some("n"))
    );
    mapping.configure(wish("m"));
    let id = mapping.requests;
    let refused = line(&mut mapping, json!({"id": id, "error": {"code": 1, "message": "no"}}));
    assert_eq!(entries(&refused), ["notice agent refused to use m: no"]);
    assert!(
        matches!(refused.last(), Some(Output::Event(AgentEvent::Settings(settings))) if settings.model.as_deref() == Some("n"))
    );
    let unknown = mapping.configure(Configure { model: None, effort: None, agent: Some("yolo".to_owned()) });
    assert_eq!(entries(&unknown), ["notice agent does not offer yolo."]);
    mapping.configure(wish("m"));
    assert!(mapping.is_waiting() && mapping.expire().is_some() && !mapping.is_waiting());
}

#[test]
fn a_mode_that_acts_unasked_is_set_back() {
    let mut mapping = mapping();
    let outputs =
        update(&mut mapping, json!({"sessionUpdate": "current_mode_update", "currentModeId": "yolo"}));
    assert_eq!(writes(&outputs)[0]["params"]["modeId"], "ask");
    assert!(entries(&outputs)[0].contains("aude set it back"));
}
