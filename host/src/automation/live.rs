//! What a stream carries beside the journal: live text that nobody keeps, and that a later event replaces ("Streaming").

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Serialize;
use shared::frame::DeltaKind;
use shared::ids::PartId;

use crate::engine::EngineEvent;

/// Bytes of a line of output; a longer one comes in pieces.
const LINE_BYTES: usize = 8 * 1024;
/// Calls of which output is followed at once.
const CALLS: usize = 64;

/// A live event. It has no number and may be dropped.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "type", content = "data")]
pub enum Transient {
    /// More of an answer.
    #[serde(rename = "delta.content")]
    Content {
        /// The message that it will become.
        message_id: String,
        /// The text.
        text: String,
    },
    /// More of a thought; only for whoever asks for thinking.
    #[serde(rename = "delta.thinking")]
    Thinking {
        /// The message that it belongs to.
        message_id: String,
        /// The text.
        text: String,
    },
    /// A line that a tool printed.
    #[serde(rename = "tool.output")]
    Output {
        /// The tool.
        name: String,
        /// The line.
        line: String,
    },
    /// What is being done, for people.
    #[serde(rename = "spinner")]
    Spinner {
        /// The text; empty where nothing is done any more.
        text: String,
    },
}

/// Makes live events of the engine's.
#[derive(Debug, Default)]
pub struct Live {
    calls: BTreeMap<PartId, Output>,
}

/// The output of one call.
#[derive(Debug)]
struct Output {
    tool: String,
    /// What came after the last line break.
    begun: String,
}

impl Live {
    /// The live events of an event of the engine, in order.
    pub fn of(&mut self, event: &EngineEvent) -> Vec<Transient> {
        match event {
            EngineEvent::Delta { message, kind, text } => self.delta(message, *kind, text),
            EngineEvent::ToolStarted(tool) => {
                if self.calls.len() < CALLS {
                    let output = Output { tool: tool.name.clone(), begun: String::new() };
                    self.calls.insert(tool.call.clone(), output);
                }
                vec![Transient::Spinner { text: tool.title.clone() }]
            }
            EngineEvent::ToolFinished(finished) => {
                let rest = self.calls.remove(&finished.result.call);
                let rest = rest.filter(|output| !output.begun.is_empty());
                let line = rest.map(|output| Transient::Output { name: output.tool, line: output.begun });
                line.into_iter().chain([Transient::Spinner { text: String::new() }]).collect()
            }
            EngineEvent::Began { .. }
            | EngineEvent::Thinking(_)
            | EngineEvent::Assistant(_)
            | EngineEvent::Abandoned(_)
            | EngineEvent::Answered(_)
            | EngineEvent::Asked(_)
            | EngineEvent::Plan(_)
            | EngineEvent::Usage(_)
            | EngineEvent::Notice(_)
            | EngineEvent::Saved(_) => Vec::new(),
        }
    }

    fn delta(&mut self, message: &PartId, kind: DeltaKind, text: &str) -> Vec<Transient> {
        let (message_id, text) = (message.to_string(), text.to_owned());
        match kind {
            DeltaKind::Assistant => vec![Transient::Content { message_id, text }],
            DeltaKind::Thinking => vec![Transient::Thinking { message_id, text }],
            DeltaKind::Tool => match self.calls.get_mut(message) {
                Some(output) => output.lines(&text),
                None => Vec::new(),
            },
        }
    }
}

impl Output {
    fn lines(&mut self, text: &str) -> Vec<Transient> {
        self.begun.push_str(text);
        let mut lines = Vec::new();
        loop {
            let (line, taken) = match self.begun.find('\n') {
                Some(end) => (self.begun.get(..end), end + 1),
                None if self.begun.len() > LINE_BYTES => {
                    let piece = crate::text::cut(&self.begun, LINE_BYTES);
                    (Some(piece), piece.len())
                }
                None => return lines,
            };
            let line = line.unwrap_or_default().trim_end_matches('\r').to_owned();
            self.begun.drain(..taken);
            lines.push(Transient::Output { name: self.tool.clone(), line });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn delta(call: &PartId, text: &str) -> EngineEvent {
        EngineEvent::Delta { message: call.clone(), kind: DeltaKind::Tool, text: text.to_owned() }
    }

    fn lines(events: Vec<Transient>) -> Vec<String> {
        let line = |event| match event {
            Transient::Output { name, line } => {
                assert_eq!(name, "bash");
                Some(line)
            }
            Transient::Content { .. } | Transient::Thinking { .. } | Transient::Spinner { .. } => None,
        };
        events.into_iter().filter_map(line).collect()
    }

    #[test]
    fn output_comes_in_whole_lines_with_the_name_of_its_tool() {
        let (mut live, call) = (Live::default(), PartId::random());
        let started = shared::entry::Tool {
            call: call.clone(),
            name: "bash".into(),
            title: "ls".into(),
            class: shared::entry::ToolClass::Execute.into(),
            input: serde_json::Value::Null,
        };
        assert_eq!(live.of(&EngineEvent::ToolStarted(started)), [Transient::Spinner { text: "ls".into() }]);
        assert!(live.of(&delta(&call, "on")).is_empty());
        assert_eq!(lines(live.of(&delta(&call, "e\r\ntwo\n\nthr"))), ["one", "two", ""]);
        let long = "x".repeat(LINE_BYTES + 10);
        assert_eq!(lines(live.of(&delta(&call, &long))).len(), 1);
        assert!(live.of(&delta(&PartId::random(), "a\n")).is_empty(), "of a call that nobody knows");
        let result = shared::entry::ToolResult {
            call,
            status: shared::entry::ResultStatus::Ok.into(),
            text: String::new(),
            diff: None,
            exit: None,
            truncated: None,
        };
        let finished = crate::engine::Finished { name: "bash".into(), told: String::new(), result };
        let rest = lines(live.of(&EngineEvent::ToolFinished(finished)));
        assert_eq!(rest.concat().len(), 13, "what had no line break comes at the end");
        assert!(live.calls.is_empty());
    }
}
