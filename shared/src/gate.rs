//! What the probe of a harness found before it may run; holds no credential and no string that the harness printed (wire §6).

use serde::{Deserialize, Serialize};

use crate::kind::{Open, kinds};
use crate::status::Exit;

/// The finding about one harness.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Gate {
    /// The harness that was probed.
    pub harness: String,
    /// What the probe found.
    pub finding: Open<Finding>,
}

/// What a probe can find. Only `ok` starts the harness, `other_provider` where the configuration allows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Finding {
    /// Installed and logged in.
    Ok,
    /// Installed, without a login.
    NotLoggedIn,
    /// Logged in with another provider than the harness's own.
    OtherProvider,
    /// The probe did not answer in time.
    TimedOut,
    /// The program is not there.
    NotFound,
    /// The probe ended without an answer.
    Silent {
        /// How it ended.
        exit: Exit,
    },
    /// The probe's answer could not be read.
    Unreadable,
    /// The probe could not be started.
    Spawn {
        /// The operating system's reason, in our words.
        detail: String,
    },
    /// The harness has no probe.
    Unreported,
}

kinds!(Finding: "ok" "not_logged_in" "other_provider" "timed_out" "not_found" "silent" "unreadable" "spawn" "unreported");
