//! Which runs a journal holds: by the controller's id and by ours, with the event that tells of each last, and what they asked.

use std::collections::HashMap;

use super::run::{Run, RunId};

/// The runs of a session, over all its servers.
#[derive(Debug, Default)]
pub struct Book {
    by_request: HashMap<String, Noted>,
    requests: HashMap<RunId, String>,
    inputs: HashMap<String, RunId>,
}

/// What is known of a run without reading the journal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Noted {
    /// The run.
    pub id: RunId,
    /// What was asked for.
    pub digest: String,
    /// The last event with its record.
    pub seq: u64,
}

impl Book {
    /// Notes that the event `seq` holds the record of a run.
    pub fn note(&mut self, run: &Run, seq: u64) {
        self.requests.insert(run.id.clone(), run.request_id.clone());
        let noted = Noted { id: run.id.clone(), digest: run.request_digest.clone(), seq };
        self.by_request.insert(run.request_id.clone(), noted);
    }

    /// Notes that a run asked this.
    pub fn note_input(&mut self, input_id: String, run: RunId) {
        self.inputs.insert(input_id, run);
    }

    /// Whether the run ever asked this.
    #[must_use]
    pub fn asked(&self, run: &RunId, input_id: &str) -> bool {
        self.inputs.get(input_id) == Some(run)
    }

    /// The run of a request.
    #[must_use]
    pub fn of_request(&self, request_id: &str) -> Option<&Noted> {
        self.by_request.get(request_id)
    }

    /// The run with this id.
    #[must_use]
    pub fn of_id(&self, id: &RunId) -> Option<&Noted> {
        self.by_request.get(self.requests.get(id)?)
    }
}
