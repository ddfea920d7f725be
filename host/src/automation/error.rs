//! The one error of the automation contract: a code that a controller can act on, a sentence for a person, and bounded details.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What went wrong, for a controller.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema, thiserror::Error)]
#[error("{message}")]
#[serde(deny_unknown_fields)]
#[schemars(rename = "Error")]
pub struct AutomationError {
    /// What kind of error it is.
    pub code: Code,
    /// What happened and what to do, for a person; never a secret.
    pub message: String,
    /// Whether the same request can succeed later without any change.
    pub retryable: bool,
    /// What is known beside the code; an object, also when it is empty.
    pub details: Details,
}

/// What is known beside the code. No other key is ever there.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Details {
    /// The HTTP status of the model's provider.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub status: Option<u16>,
    /// The type of the provider, as `llamaswap`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub provider: Option<String>,
    /// When to try again, in milliseconds, as the provider says.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub retry_after_ms: Option<u64>,
    /// Why a run was cancelled: `request` or `shutdown`.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub reason: Option<String>,
    /// The last event that can be read.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub last_seq: Option<u64>,
}

/// Every code of the contract.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Code {
    // Requests and the store.
    /// The request is no request of the contract.
    BadRequest,
    /// The token is missing or wrong.
    Unauthorized,
    /// There is no such session, run, input or path.
    NotFound,
    /// Something else stands there already.
    Exists,
    /// The session is not the one that was expected.
    RevisionMismatch,
    /// Another process holds the session.
    SessionLocked,
    /// The session can never change again.
    SessionFrozen,
    /// The text is no id of a session.
    InvalidId,
    /// The file is no session.
    InvalidSession,
    /// Another run has not settled.
    Busy,
    /// The request id was used with another body.
    RequestConflict,
    /// The cursor is negative or beyond the last event or message.
    CursorOutOfRange,
    /// The input was answered already.
    NotPending,
    /// The server takes no more runs.
    ShuttingDown,
    // Starting a server.
    /// The session could not be resumed.
    ResumeFailed,
    /// A required MCP server is not to be had.
    McpUnavailable,
    /// The configuration cannot be used.
    ConfigInvalid,
    /// The launcher died before it released the server.
    LauncherLost,
    /// Anything else that keeps a server from starting.
    StartupFailed,
    // How runs end.
    /// The run was cancelled.
    Cancelled,
    /// The input left nothing to say, or has no room in the context.
    InputRejected,
    /// A guardrail refused the input.
    GuardrailBlocked,
    /// A question or an approval came up, and nobody is to be waited for.
    InputRequired,
    /// A rule of the operator ended the run.
    PolicyStop,
    /// The provider was not reached, or the connection broke.
    ProviderNetwork,
    /// The provider has a fault of its own.
    ProviderServer,
    /// The provider takes no more requests for now.
    ProviderRateLimit,
    /// The provider does not accept the key.
    ProviderAuth,
    /// The account has no credit left.
    ProviderCredit,
    /// The provider does not have the model.
    ProviderModelUnavailable,
    /// The provider refused the content.
    ContentFilter,
    /// The conversation does not fit the model's context any more.
    ContextExhausted,
    /// The conversation could not be made smaller.
    CompactionFailed,
    /// The run took as many model calls as it may.
    MaxSteps,
    /// The run took as many tokens as it may.
    TokenBudget,
    /// The command failed.
    CommandFailed,
    /// The session could not be saved.
    PersistFailed,
    /// The server died before the run had settled.
    ServerLost,
    /// A fault of ours or of the system.
    Internal,
}

impl Code {
    /// Whether the same request can succeed later without any change.
    #[must_use]
    pub fn is_retryable(self) -> bool {
        matches!(self, Self::ProviderNetwork | Self::ProviderServer | Self::ProviderRateLimit)
    }
}

impl AutomationError {
    /// An error without details.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), retryable: code.is_retryable(), details: Details::default() }
    }

    /// The same error with details.
    #[must_use]
    pub fn with(mut self, details: Details) -> Self {
        self.details = details;
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_has_its_four_fields_and_only_three_codes_can_be_tried_again() {
        let error = AutomationError::new(Code::ProviderRateLimit, "slow down").with(Details {
            status: Some(429),
            retry_after_ms: Some(1500),
            ..Details::default()
        });
        let json = serde_json::to_value(&error).unwrap();
        assert_eq!(
            json,
            serde_json::json!({"code": "provider_rate_limit", "message": "slow down", "retryable": true,
                               "details": {"status": 429, "retry_after_ms": 1500}})
        );
        assert_eq!(serde_json::from_value::<AutomationError>(json).unwrap(), error);
        let plain = serde_json::to_value(AutomationError::new(Code::NotFound, "no")).unwrap();
        assert_eq!(
            plain,
            serde_json::json!({"code": "not_found", "message": "no", "retryable": false, "details": {}})
        );
    }
}
