//! What a page said: console, errors and violations of its Content-Security-Policy, to be shown when a test fails.

use std::collections::HashSet;

use serde_json::Value;

/// Lines that are kept; a page that says more is in a loop, and the first lines tell why.
const LINES: usize = 1000;

/// What a page said and which documents it loaded.
#[derive(Default)]
pub(super) struct Seen {
    /// Everything, in order.
    pub(super) lines: Vec<String>,
    /// What makes a test fail.
    pub(super) faults: Vec<String>,
    /// Addresses that were asked for.
    pub(super) requests: Vec<String>,
    /// Documents of the main frame that have loaded.
    pub(super) loaded: HashSet<String>,
    /// How many documents of the main frame have loaded.
    pub(super) loads: usize,
}

impl Seen {
    /// Takes an event of the page whose main frame is `frame`.
    pub(super) fn take(&mut self, frame: &str, method: &str, event: &Value) {
        match method {
            "Page.lifecycleEvent" if event["name"] == "load" && event["frameId"] == frame => {
                self.loads += 1;
                self.loaded.insert(word(&event["loaderId"]).to_owned());
            }
            "Runtime.consoleAPICalled" => {
                let level = word(&event["type"]);
                let arguments = event["args"].as_array().into_iter().flatten();
                let texts: Vec<String> = arguments.map(argument).collect();
                let line = format!("console {level}: {}", texts.join(" "));
                if matches!(level, "error" | "assert") { self.fault(line) } else { self.line(line) }
            }
            "Runtime.exceptionThrown" => {
                let details = &event["exceptionDetails"];
                let text =
                    details["exception"]["description"].as_str().unwrap_or_else(|| word(&details["text"]));
                self.fault(format!("uncaught: {text}"));
            }
            "Log.entryAdded" => {
                let entry = &event["entry"];
                let (source, level) = (word(&entry["source"]), word(&entry["level"]));
                let line = format!("{source} {level}: {} {}", word(&entry["text"]), word(&entry["url"]));
                // A network that is gone is what many tests are about; what the browser forbids never is.
                if source == "security" && level == "error" { self.fault(line) } else { self.line(line) }
            }
            "Audits.issueAdded" if event["issue"]["code"] == "ContentSecurityPolicyIssue" => {
                let details = &event["issue"]["details"]["contentSecurityPolicyIssueDetails"];
                let directive = word(&details["violatedDirective"]);
                let blocked = details["blockedURL"].as_str().unwrap_or("inline");
                self.fault(format!("Content-Security-Policy: {directive} forbids {blocked}"));
            }
            "Network.requestWillBeSent" if self.requests.len() < LINES => {
                self.requests.push(word(&event["request"]["url"]).to_owned());
            }
            "Inspector.targetCrashed" => self.fault("the page crashed".to_owned()),
            "Page.javascriptDialogOpening" => self.fault(format!("a dialog: {}", word(&event["message"]))),
            _ => {}
        }
    }

    fn line(&mut self, line: String) {
        if self.lines.len() < LINES {
            self.lines.push(line);
        }
    }

    fn fault(&mut self, fault: String) {
        self.line(fault.clone());
        if self.faults.len() < LINES {
            self.faults.push(fault);
        }
    }
}

fn word(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn argument(argument: &Value) -> String {
    match (&argument["value"], argument["description"].as_str()) {
        (Value::String(text), _) => text.clone(),
        (Value::Null, Some(description)) => description.to_owned(),
        (value, _) => value.to_string(),
    }
}
