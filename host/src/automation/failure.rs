//! How a turn of the engine ended, as the contract tells it: outcome, code, details ("Runs", outcomes and codes).

use super::error::{AutomationError, Code, Details};
use super::run::{Ending, Outcome};
use crate::engine::provider::{Fault, ModelError};
use crate::engine::{Failure, Question, Rejection, TurnOutcome};
use shared::decision::Matter;

/// Why a run was cancelled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CancelReason {
    /// A controller asked for it.
    Request,
    /// The server ends.
    Shutdown,
}

/// The outcome of a turn, and its error; none where it completed. `cancelled` is why it was stopped, where it was.
#[must_use]
pub fn of_turn(ended: &TurnOutcome, cancelled: CancelReason) -> (Outcome, Option<AutomationError>) {
    match ended {
        TurnOutcome::Completed => (Outcome::Completed, None),
        TurnOutcome::Interrupted => (Outcome::Cancelled, Some(of_cancel(cancelled))),
        TurnOutcome::Rejected(rejection) => (Outcome::Rejected, Some(of_rejection(rejection))),
        TurnOutcome::Blocked(question) => (Outcome::Blocked, Some(of_question(question))),
        TurnOutcome::PolicyStop(why) => {
            (Outcome::Blocked, Some(AutomationError::new(Code::PolicyStop, why.clone())))
        }
        TurnOutcome::Failed(failure) => (Outcome::Failed, Some(of_failure(failure))),
    }
}

/// `cancelled`.
#[must_use]
pub fn of_cancel(reason: CancelReason) -> AutomationError {
    let (word, message) = match reason {
        CancelReason::Request => ("request", "the run was cancelled"),
        CancelReason::Shutdown => ("shutdown", "the run was cancelled because the server ends"),
    };
    let details = Details { reason: Some(word.to_owned()), ..Details::default() };
    AutomationError::new(Code::Cancelled, message).with(details)
}

/// How a run ends whose command came to this; `cancelled` is why it was stopped, where it was.
#[must_use]
pub fn of_command(result: Result<String, String>, cancelled: Option<CancelReason>) -> Ending {
    match (result, cancelled) {
        (Ok(content), _) => Ending::Completed { content },
        (Err(_), Some(reason)) => Ending::Short { outcome: Outcome::Cancelled, error: of_cancel(reason) },
        (Err(message), None) => {
            let error = AutomationError::new(Code::CommandFailed, message);
            Ending::Short { outcome: Outcome::Failed, error }
        }
    }
}

/// `input_rejected` or `guardrail_blocked`.
#[must_use]
pub fn of_rejection(rejection: &Rejection) -> AutomationError {
    let code = match rejection {
        Rejection::Empty | Rejection::NoRoom(_) => Code::InputRejected,
        Rejection::Guardrail(_) => Code::GuardrailBlocked,
    };
    AutomationError::new(code, rejection.to_string())
}

/// `input_required`.
#[must_use]
pub fn of_question(question: &Question) -> AutomationError {
    let asked = match &question.matter {
        Matter::Ask(ask) => format!("the model asks: {}", crate::text::one_line(&ask.question, 400)),
        Matter::Confirm(confirm) => format!("an approval is needed: {}", confirm.title),
    };
    AutomationError::new(
        Code::InputRequired,
        format!("{asked}; send the run with on_input \"wait\" to decide it"),
    )
}

/// The code of a failed run.
#[must_use]
pub fn of_failure(failure: &Failure) -> AutomationError {
    let code = match failure {
        Failure::Provider(error) => return of_model(error),
        Failure::MaxSteps(_) => Code::MaxSteps,
        Failure::TokenBudget { .. } => Code::TokenBudget,
        Failure::Compaction(_) => Code::CompactionFailed,
        Failure::Save(_) => Code::PersistFailed,
    };
    AutomationError::new(code, failure.to_string())
}

/// A provider's fault; its status, type and hint are in `details`, its message is the message.
#[must_use]
pub fn of_model(error: &ModelError) -> AutomationError {
    let code = match error.fault {
        Fault::Network => Code::ProviderNetwork,
        Fault::Server => Code::ProviderServer,
        Fault::RateLimit => Code::ProviderRateLimit,
        Fault::Auth => Code::ProviderAuth,
        Fault::Credit => Code::ProviderCredit,
        Fault::ModelUnavailable => Code::ProviderModelUnavailable,
        Fault::ContentFilter => Code::ContentFilter,
        Fault::ContextExhausted => Code::ContextExhausted,
        Fault::Internal => Code::Internal,
    };
    let details = Details {
        status: error.status,
        provider: Some(error.provider.to_owned()),
        retry_after_ms: error.retry_after.map(|after| u64::try_from(after.as_millis()).unwrap_or(u64::MAX)),
        ..Details::default()
    };
    AutomationError::new(code, error.message.clone()).with(details)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn error(fault: Fault) -> ModelError {
        ModelError {
            provider: "llamaswap",
            fault,
            status: Some(503),
            message: "the engine is not running".to_owned(),
            retry_after: Some(Duration::from_millis(1500)),
        }
    }

    fn question() -> Question {
        let ask = shared::decision::Ask { question: "Which?".into(), options: Vec::new(), multiple: false };
        let input = shared::ids::InputId::random();
        Question { input, matter: Matter::Ask(ask), subject: None, grant: None }
    }

    #[test]
    fn a_providers_fault_keeps_its_words_status_and_hint() {
        let told = of_model(&error(Fault::Server));
        let expected = serde_json::json!({
            "code": "provider_server", "message": "the engine is not running", "retryable": true,
            "details": {"status": 503, "provider": "llamaswap", "retry_after_ms": 1500}
        });
        assert_eq!(serde_json::to_value(told).unwrap(), expected);
    }

    #[test]
    fn each_ending_has_its_outcome_and_code() {
        let budget = Failure::TokenBudget { used: 2, budget: 1 };
        for (ended, outcome, code) in [
            (TurnOutcome::Completed, Outcome::Completed, None),
            (TurnOutcome::Interrupted, Outcome::Cancelled, Some(Code::Cancelled)),
            (TurnOutcome::Rejected(Rejection::Empty), Outcome::Rejected, Some(Code::InputRejected)),
            (TurnOutcome::Rejected(Rejection::NoRoom(1)), Outcome::Rejected, Some(Code::InputRejected)),
            (
                TurnOutcome::Rejected(Rejection::Guardrail("no".into())),
                Outcome::Rejected,
                Some(Code::GuardrailBlocked),
            ),
            (TurnOutcome::Blocked(Box::new(question())), Outcome::Blocked, Some(Code::InputRequired)),
            (TurnOutcome::PolicyStop("x".into()), Outcome::Blocked, Some(Code::PolicyStop)),
            (TurnOutcome::Failed(Failure::MaxSteps(3)), Outcome::Failed, Some(Code::MaxSteps)),
            (TurnOutcome::Failed(budget), Outcome::Failed, Some(Code::TokenBudget)),
            (
                TurnOutcome::Failed(Failure::Compaction("x".into())),
                Outcome::Failed,
                Some(Code::CompactionFailed),
            ),
            (
                TurnOutcome::Failed(error(Fault::ContextExhausted).into()),
                Outcome::Failed,
                Some(Code::ContextExhausted),
            ),
            (
                TurnOutcome::Failed(error(Fault::ContentFilter).into()),
                Outcome::Failed,
                Some(Code::ContentFilter),
            ),
        ] {
            let told = of_turn(&ended, CancelReason::Shutdown);
            assert_eq!((told.0, told.1.map(|error| error.code)), (outcome, code), "{ended:?}");
        }
        let reason = of_cancel(CancelReason::Shutdown).details.reason;
        assert_eq!(reason.as_deref(), Some("shutdown"));
    }
}
