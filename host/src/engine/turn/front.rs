//! Who listens to a turn and may stop it.

use shared::entry::{Level, Notice, Usage};
use shared::frame::DeltaKind;
use shared::ids::PartId;
use shared::limits;
use tokio::sync::mpsc;

use crate::engine::{EngineEvent, Stop};
use crate::text;

/// The front of a turn.
pub(super) struct Front {
    pub(super) events: mpsc::Sender<EngineEvent>,
    pub(super) stop: Stop,
}

impl Front {
    /// Tells; a front that is gone stops the turn by its stopper, not by this.
    pub(super) async fn tell(&self, event: EngineEvent) {
        let _ = self.events.send(event).await;
    }

    pub(super) async fn usage(&self, usage: Option<Usage>) {
        if let Some(usage) = usage {
            self.tell(EngineEvent::Usage(usage)).await;
        }
    }

    pub(super) async fn notice(&self, level: Level, text: String) {
        self.tell(EngineEvent::Notice(Notice { level: level.into(), text })).await;
    }

    pub(super) async fn delta(&self, message: &PartId, kind: DeltaKind, mut text: &str) {
        while !text.is_empty() {
            let piece = text::cut(text, limits::DELTA_BYTES);
            text = text.get(piece.len()..).unwrap_or_default();
            self.tell(EngineEvent::Delta { message: message.clone(), kind, text: piece.to_owned() }).await;
        }
    }
}
