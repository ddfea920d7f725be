//! The state of a session's work: a word, and a mark whose shape differs with it.

use leptos::prelude::*;
use shared::record::{Record, WorkState};

use crate::i18n::t;

/// The state of a session.
#[component]
pub(crate) fn StateChip(record: Record) -> impl IntoView {
    let mark = match record.work.state.known() {
        Some(WorkState::Working) => "◐",
        Some(WorkState::Waiting) => "?",
        Some(WorkState::Held) => "…",
        Some(WorkState::Answered) => "✓",
        Some(WorkState::Interrupted) => "‖",
        Some(WorkState::Failed) => "✕",
        Some(WorkState::Stopped) => "■",
        Some(WorkState::Merged) => "⑂",
        Some(WorkState::New) | None => "○",
    };
    let is_live = record.host.is_some();
    view! {
        <span class="chip" data-state=record.work.state.word()>
            <span class="mark" aria-hidden="true">
                {mark}
            </span>
            {t().work(&record.work.state)}
        </span>
        {is_live.then(|| view! { <span class="live">{t().live()}</span> })}
    }
}
