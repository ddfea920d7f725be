//! Holds what an agent says to the limits of the wire: cut on character boundaries, and what was left out is said.

use std::collections::BTreeSet;

use shared::decision::{Confirm, Matter, Verdict};
use shared::entry::{Assistant, Diff, Known, Level, Notice, Plan, Thinking, Tool, ToolResult, Usage};
use shared::json::{self, cut};
use shared::limits;
use shared::settings::{Choices, Settings};

use crate::harness::Said;

/// One line for people, in bytes.
const TITLE_BYTES: usize = 1024;
/// A notice, in bytes: a screenful.
const NOTICE_BYTES: usize = 16 * 1024;
/// The text of a plan's step, in bytes.
const STEP_BYTES: usize = 4 * 1024;
/// The diff of a result, in bytes; a larger one is left out, because half of a patch misleads.
const DIFF_BYTES: usize = 2 * limits::RESULT_BYTES;
/// A conversation's id, in bytes; what is longer is none.
const CONVERSATION_BYTES: usize = 1024;

/// The entries for what an agent said.
pub(super) fn fit(said: Said) -> Vec<Known> {
    match said {
        Said::Assistant(assistant) => {
            let (text, notice) = message(assistant.text, "answer");
            let model = assistant.model.map(word);
            one(Known::Assistant(Assistant { text, model, ..assistant }), notice)
        }
        Said::Thinking(thinking) => {
            let (text, notice) = message(thinking.text, "thought");
            one(Known::Thinking(Thinking { text, ..thinking }), notice)
        }
        Said::Tool(tool) => vec![Known::Tool(Tool {
            name: cut(&tool.name, limits::WORD_BYTES).to_owned(),
            title: line(&tool.title),
            input: json::embed(tool.input),
            ..tool
        })],
        Said::Result(result) => vec![Known::Result(fit_result(result))],
        Said::Plan(plan) => {
            let steps = plan.steps.into_iter().take(limits::CHOICES).map(|mut step| {
                step.text = shorten(step.text, STEP_BYTES);
                step
            });
            vec![Known::Plan(Plan { steps: steps.collect() })]
        }
        Said::Usage(usage) => vec![Known::Usage(Usage {
            input_tokens: usage.input_tokens.min(limits::INTEGER_MAX),
            output_tokens: usage.output_tokens.min(limits::INTEGER_MAX),
            cached_tokens: usage.cached_tokens.min(limits::INTEGER_MAX),
            cost: usage.cost.filter(|cost| cost.is_finite()),
            context_tokens: usage.context_tokens.map(|tokens| tokens.min(limits::INTEGER_MAX)),
        })],
        Said::Notice(notice) => {
            vec![Known::Notice(Notice { text: shorten(notice.text, NOTICE_BYTES), ..notice })]
        }
    }
}

/// The settings, with each text and list held to its limit.
pub(super) fn settings(settings: Settings) -> Settings {
    let choices = |list: Vec<String>| list.into_iter().take(limits::CHOICES).map(word).collect();
    Settings {
        conversation: settings.conversation.filter(|id| id.len() <= CONVERSATION_BYTES),
        model: settings.model.map(word),
        alias: settings.alias.map(word),
        effort: settings.effort.map(word),
        agent: settings.agent.map(word),
        context_tokens: settings.context_tokens.map(|tokens| tokens.min(limits::INTEGER_MAX)),
        branch: settings.branch.map(word),
        choices: Choices {
            models: choices(settings.choices.models),
            efforts: choices(settings.choices.efforts),
            agents: choices(settings.choices.agents),
        },
    }
}

/// What is asked, with its one line held to its limit, and `allow_session` offered exactly where there is something to grant.
///
/// # Errors
/// Why it cannot be asked: what cannot be shown whole is not decided.
pub(super) fn matter(matter: Matter, grant: Option<&str>) -> Result<Matter, &'static str> {
    match matter {
        Matter::Ask(ask) => {
            let options = ask.options.iter().map(|option| option.label.len() + option.description.len());
            let labels: BTreeSet<&str> = ask.options.iter().map(|option| option.label.as_str()).collect();
            if ask.question.len() + options.sum::<usize>() > limits::CONFIRM_BYTES
                || ask.options.len() > limits::CHOICES
            {
                Err("the question is too large to be shown")
            } else if labels.len() < ask.options.len() {
                Err("two options of the question have one name")
            } else {
                Ok(Matter::Ask(ask))
            }
        }
        Matter::Confirm(mut confirm) => {
            if confirm.detail.len() > limits::CONFIRM_BYTES {
                return Err("what is to be approved is too large to be shown whole");
            }
            if grant.is_none() {
                confirm.options.retain(|option| !option.is(&Verdict::AllowSession));
                confirm.session = None;
            }
            let session = confirm.session.map(|text| shorten(text, TITLE_BYTES));
            Ok(Matter::Confirm(Confirm { title: line(&confirm.title), session, ..confirm }))
        }
    }
}

/// A sentence of an error as the text of a notice.
pub(super) fn sentence(text: &str) -> String {
    cut(text, NOTICE_BYTES).to_owned()
}

fn one(entry: Known, notice: Option<Known>) -> Vec<Known> {
    std::iter::once(entry).chain(notice).collect()
}

fn message(text: String, what: &str) -> (String, Option<Known>) {
    let kept = cut(&text, limits::MESSAGE_BYTES).len();
    if kept == text.len() {
        return (text, None);
    }
    let left_out = text.len() - kept;
    let notice = format!("The {what} was too long for the log: its last {left_out} bytes were left out.");
    (shorten(text, kept), Some(Known::notice(Level::Warning, notice)))
}

fn fit_result(result: ToolResult) -> ToolResult {
    let kept = cut(&result.text, limits::RESULT_BYTES).len();
    let mut left_out = (result.text.len() - kept) as u64;
    let diff = match result.diff {
        Some(diff) if diff_bytes(&diff) > DIFF_BYTES => {
            left_out += diff_bytes(&diff) as u64;
            None
        }
        diff => diff,
    };
    let truncated = result.truncated.unwrap_or_default().saturating_add(left_out).min(limits::INTEGER_MAX);
    ToolResult {
        text: shorten(result.text, kept),
        diff,
        truncated: (result.truncated.is_some() || left_out > 0).then_some(truncated),
        ..result
    }
}

fn diff_bytes(diff: &Diff) -> usize {
    let length = |text: &Option<String>| text.as_ref().map_or(0, String::len);
    diff.path.len() + length(&diff.before) + length(&diff.after) + length(&diff.patch)
}

fn word(text: String) -> String {
    shorten(text, limits::WORD_BYTES)
}

fn line(text: &str) -> String {
    let text: String = cut(text, TITLE_BYTES).chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    text.trim().to_owned()
}

fn shorten(mut text: String, bytes: usize) -> String {
    text.truncate(cut(&text, bytes).len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use shared::entry::ResultStatus;
    use shared::ids::PartId;

    #[test]
    fn a_long_answer_is_cut_between_characters_and_says_so() {
        let text = format!("a{}", "é".repeat(limits::MESSAGE_BYTES));
        let entries = fit(Said::Assistant(Assistant { message: PartId::random(), text, model: None }));
        let [Known::Assistant(assistant), Known::Notice(notice)] = entries.as_slice() else {
            panic!("{entries:?}")
        };
        assert_eq!(assistant.text.len(), limits::MESSAGE_BYTES - 1);
        assert!(notice.text.contains(&(limits::MESSAGE_BYTES + 2).to_string()), "{}", notice.text);
    }

    #[test]
    fn what_a_result_loses_is_counted() {
        let diff = Diff { path: "p".into(), before: None, after: None, patch: Some("x".repeat(DIFF_BYTES)) };
        let result = ToolResult {
            call: PartId::random(),
            status: ResultStatus::Ok.into(),
            text: "x".repeat(limits::RESULT_BYTES + 3),
            diff: Some(diff),
            exit: None,
            truncated: Some(5),
        };
        let fitted = fit_result(result);
        assert_eq!(fitted.text.len(), limits::RESULT_BYTES);
        assert_eq!(fitted.diff, None);
        assert_eq!(fitted.truncated, Some(5 + 3 + DIFF_BYTES as u64 + 1));
    }

    #[test]
    fn the_largest_result_fits_a_line() {
        let worst = "\u{1}".repeat(limits::RESULT_BYTES);
        let diff = Diff {
            path: String::new(),
            before: Some(worst.clone()),
            after: Some(worst.clone()),
            patch: None,
        };
        let result = ToolResult {
            call: PartId::random(),
            status: ResultStatus::Ok.into(),
            text: worst,
            diff: Some(diff),
            exit: None,
            truncated: None,
        };
        let line = serde_json::to_vec(&Known::Result(fit_result(result))).unwrap();
        assert!(line.len() < limits::LINE_BYTES / 10 * 9, "{}", line.len());
    }

    #[test]
    fn a_cost_that_json_cannot_write_is_left_out() {
        let usage = Usage {
            input_tokens: u64::MAX,
            output_tokens: 0,
            cached_tokens: 0,
            cost: Some(f64::NAN),
            context_tokens: None,
        };
        let entries = fit(Said::Usage(usage));
        let [Known::Usage(usage)] = entries.as_slice() else { panic!("{entries:?}") };
        assert_eq!((usage.input_tokens, usage.cost), (limits::INTEGER_MAX, None));
    }
}
