use super::*;
use shared::decision::{Matter, Verdict};
use shared::entry::{ResultStatus, ToolResult};
use shared::status::Exit;

const TURNS: &str = include_str!("../samples/turns.jsonl");
const PATCH: &str = include_str!("../samples/patch.jsonl");

/// Plays a recording: what the program wrote is read, what was asked of it is asked again.
struct Played {
    mapping: Mapping,
    events: Vec<AgentEvent>,
    written: Vec<Value>,
}

impl Played {
    fn new(thread: &str) -> Self {
        let may_edit: MayEdit = Box::new(|_| false);
        let settings = Settings::default();
        let mapping = Mapping::new(thread.to_owned(), settings, Vec::new(), true, "/w".into(), may_edit);
        Self { mapping, events: Vec::new(), written: Vec::new() }
    }

    fn take(&mut self, outputs: Vec<Output>) {
        for output in outputs {
            match output {
                Output::Event(event) => self.events.push(event),
                Output::Write(value) => self.written.push(value),
                Output::Trace(_) => {}
            }
        }
    }

    fn recording(recording: &str) -> Self {
        let lines: Vec<Value> = recording.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        let thread = lines.iter().find_map(|line| line["msg"]["params"]["threadId"].as_str()).unwrap();
        let mut played = Self::new(thread);
        let mut ours = Value::Null;
        for line in &lines {
            let message = &line["msg"];
            let is_ours = line["dir"] == "in";
            let outputs = match (is_ours, message["method"].as_str()) {
                (true, Some("turn/start")) => {
                    ours = message["id"].clone();
                    played.mapping.begin(message["params"]["input"][0]["text"].as_str().unwrap())
                }
                (true, Some(_)) => played.mapping.interrupt(),
                (true, None) => {
                    let input = played.mapping.open.first().map(|(_, input)| *input).unwrap();
                    let decided = match message["result"]["decision"].as_str().unwrap() {
                        "accept" => Decision::Allow,
                        "decline" => Decision::Deny { text: None },
                        _ => {
                            let outputs = played.mapping.interrupt();
                            played.take(outputs);
                            continue;
                        }
                    };
                    played.mapping.answer(input, &decided)
                }
                (false, _) => {
                    let mut message = message.clone();
                    if message["method"].is_null() && message["id"] == ours {
                        message["id"] = json!(played.mapping.turn.as_ref().unwrap().request);
                    }
                    played.mapping.line(message.to_string().as_bytes())
                }
            };
            played.take(outputs);
        }
        played
    }

    fn results(&self) -> Vec<ToolResult> {
        let results = self.events.iter().filter_map(|event| match event {
            AgentEvent::Said(Said::Result(result)) => Some(result.clone()),
            _ => None,
        });
        results.collect()
    }

    fn ends(&self) -> Vec<TurnEnd> {
        let ends = self.events.iter().filter_map(|event| match event {
            AgentEvent::TurnEnded(end) => Some(end.clone()),
            _ => None,
        });
        ends.collect()
    }

    fn asked(&self) -> Vec<Asked> {
        let asked = self.events.iter().filter_map(|event| match event {
            AgentEvent::Asked(asked) => Some((**asked).clone()),
            _ => None,
        });
        asked.collect()
    }
}

#[test]
fn recorded_turns_become_a_transcript() {
    let played = Played::recording(TURNS);
    let ends = played.ends();
    assert_eq!(ends[..3], [TurnEnd::Completed, TurnEnd::Completed, TurnEnd::Completed]);
    assert!(ends.contains(&TurnEnd::Interrupted));
    let results = played.results();
    assert!(results[0].status.is(&ResultStatus::Ok));
    assert_eq!((results[0].text.as_str(), results[0].exit), ("made\n", Some(Exit::Status(0))));
    assert!(results[1].status.is(&ResultStatus::Denied));
    let asked = played.asked();
    assert_eq!(asked.len(), 3);
    let Matter::Confirm(confirm) = &asked[0].matter else { panic!("an approval") };
    assert!(confirm.detail.starts_with("touch accept.txt && echo made"), "{}", confirm.detail);
    assert!(confirm.options.iter().any(|option| option.is(&Verdict::AllowSession)));
    assert_eq!(asked[0].subject.as_ref().unwrap().command.as_deref(), Some("touch accept.txt && echo made"));
    assert_ne!(asked[0].grant, asked[1].grant);
    let answers = played.events.iter().filter_map(|event| match event {
        AgentEvent::Said(Said::Assistant(assistant)) => Some(assistant.text.as_str()),
        _ => None,
    });
    assert_eq!(answers.clone().next(), Some("Echo(4 msgs): hello"));
    assert!(answers.count() > 6);
    let usage = played.events.iter().find_map(|event| match event {
        AgentEvent::Said(Said::Usage(usage)) => Some(usage.clone()),
        _ => None,
    });
    let usage = usage.unwrap();
    assert_eq!((usage.input_tokens, usage.cached_tokens, usage.output_tokens), (1200, 300, 30));
    assert_eq!(played.mapping.settings.context_tokens, Some(258_400));
    assert_eq!(played.mapping.settings.model.as_deref(), Some("gpt-other"));
    assert!(played.mapping.settings.conversation.is_some());
    let warnings = played.events.iter().filter(|event| matches!(event, AgentEvent::Said(Said::Notice(_))));
    assert_eq!(warnings.count(), 2, "each warning is said once");
}

#[test]
fn a_recorded_patch_is_shown_whole_before_it_is_decided() {
    let played = Played::recording(PATCH);
    let asked = played.asked();
    let Matter::Confirm(confirm) = &asked[0].matter else { panic!("an approval") };
    assert_eq!(confirm.detail, "--- /dev/null\n+++ /w/decline.txt\n+hello\n");
    let results = played.results();
    assert!(results[0].status.is(&ResultStatus::Denied) && results[0].diff.is_none());
    assert_eq!(results[1].diff.as_ref().unwrap().after.as_deref(), Some("hello\n"));
    let decisions: Vec<&Value> =
        played.written.iter().filter_map(|value| value.pointer("/result/decision")).collect();
    assert_eq!(decisions[..2], [&json!("decline"), &json!("accept")]);
}

/// A turn that has begun, with a command that asks.
fn asking() -> Played {
    let mut played = Played::new("t");
    let outputs = played.mapping.begin("x");
    played.take(outputs);
    for line in [
        json!({"method": "turn/started", "params": {"threadId": "t", "turn": {"id": "u"}}}),
        json!({"method": "item/started", "params": {"threadId": "t", "turnId": "u",
            "item": {"type": "commandExecution", "id": "c", "command": "rm x", "cwd": "/w"}}}),
        request(0, "t"),
    ] {
        let outputs = played.mapping.line(line.to_string().as_bytes());
        played.take(outputs);
    }
    assert_eq!(played.asked().len(), 1);
    played.written.clear();
    played
}

fn request(id: u64, thread: &str) -> Value {
    json!({"method": "item/commandExecution/requestApproval", "id": id, "params":
        {"threadId": thread, "turnId": "u", "itemId": "c", "command": "rm x", "cwd": "/w"}})
}

#[test]
fn an_interrupt_first_cancels_what_is_open() {
    let mut played = asking();
    let outputs = played.mapping.interrupt();
    played.take(outputs);
    assert_eq!(played.written[0], json!({"id": 0, "result": {"decision": "cancel"}}));
    assert_eq!(played.written[1]["method"], "turn/interrupt");
    assert!(played.mapping.is_due(), "it now owes the end of the turn");
    let late = played.asked()[0].input;
    assert_eq!(played.mapping.answer(late, &Decision::Allow), []);
    let outputs = played.mapping.gone("signal 9");
    played.take(outputs);
    assert_eq!(played.ends(), [TurnEnd::Interrupted]);
    assert!(played.results()[0].status.is(&ResultStatus::Interrupted), "no call stays open");
}

#[test]
fn what_the_program_takes_back_is_withdrawn_and_what_is_not_ours_is_declined() {
    let mut played = asking();
    let again = request(0, "t").to_string();
    assert!(!played.mapping.line(again.as_bytes()).iter().any(|output| matches!(output, Output::Event(_))));
    let outputs = played.mapping.line(request(7, "elsewhere").to_string().as_bytes());
    assert!(outputs.contains(&decision(&json!(7), "decline")));
    let resolved = json!({"method": "serverRequest/resolved", "params": {"threadId": "t", "requestId": 0}});
    let input = played.asked()[0].input;
    let outputs = played.mapping.line(resolved.to_string().as_bytes());
    assert_eq!(outputs, [Output::Event(AgentEvent::Withdrawn(input))]);
    let unknown = json!({"method": "item/hologram", "id": "q", "params": {}}).to_string();
    let outputs = played.mapping.line(unknown.as_bytes());
    assert!(matches!(&outputs[0], Output::Write(value) if value["error"]["code"] == -32601));
    assert_eq!(played.mapping.line(b"Segmentation fault").len(), 1);
}

#[test]
fn a_denial_with_words_tells_them_to_the_model() {
    let mut played = asking();
    let input = played.asked()[0].input;
    let outputs = played.mapping.answer(input, &Decision::Deny { text: Some("use trash".into()) });
    played.take(outputs);
    assert_eq!(played.written[0]["result"]["decision"], "decline");
    assert_eq!(played.written[1]["method"], "turn/steer");
    assert!(played.written[1]["params"]["input"][0]["text"].as_str().unwrap().ends_with("use trash"));
}

#[test]
fn a_choice_is_said_with_the_next_turn() {
    let mut played = Played::new("t");
    let choice =
        Configure { model: Some("gpt-x".into()), effort: Some("high".into()), ..Configure::default() };
    let outputs = played.mapping.configure(&choice);
    played.take(outputs);
    assert_eq!(played.mapping.settings.model.as_deref(), Some("gpt-x"));
    for expected in [json!("gpt-x"), Value::Null] {
        let outputs = played.mapping.begin("x");
        let [Output::Write(request)] = &outputs[..] else { panic!("one request") };
        assert_eq!(request["params"]["model"], expected);
        assert_eq!(request["params"]["approvalPolicy"], POLICY);
    }
}
