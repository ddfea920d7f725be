//! The transcript for the operator (`--output`): plain text with the thinking, in a file that begins anew with each process.

use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::path::Path;

use crate::engine::EngineEvent;
use crate::files;
use crate::text::strip_controls;

/// Writes a transcript. A file that takes no more ends the recording, and not the work.
#[derive(Debug)]
pub struct Recorder(Option<BufWriter<File>>);

impl Recorder {
    /// Begins a file anew.
    ///
    /// # Errors
    /// What the system says.
    pub fn begin(path: &Path) -> std::io::Result<Self> {
        let mut options = std::fs::OpenOptions::new();
        options.write(true).create(true).truncate(true);
        let file = files::open_private(path, &options).map_err(std::io::Error::other)?;
        Ok(Self(Some(BufWriter::new(file))))
    }

    /// What was asked for.
    pub fn request(&mut self, text: &str) {
        self.paragraph(&format!("> {}", text.replace('\n', "\n> ")));
    }

    /// What the engine does.
    pub fn take(&mut self, event: &EngineEvent) {
        match event {
            EngineEvent::Thinking(thinking) => self.paragraph(&format!("(thinking)\n{}", thinking.text)),
            EngineEvent::Answered(answered) if !answered.text.is_empty() => self.paragraph(&answered.text),
            EngineEvent::Abandoned(abandoned) => self.paragraph(&format!("{} …", abandoned.text)),
            EngineEvent::ToolStarted(tool) => self.paragraph(&format!("[{}] {}", tool.name, tool.title)),
            EngineEvent::ToolFinished(finished) => self.paragraph(&finished.told),
            EngineEvent::Notice(notice) => self.paragraph(&format!("! {}", notice.text)),
            EngineEvent::Delta { .. }
            | EngineEvent::Began { .. }
            | EngineEvent::Assistant(_)
            | EngineEvent::Answered(_)
            | EngineEvent::Asked(_)
            | EngineEvent::Plan(_)
            | EngineEvent::Usage(_)
            | EngineEvent::Saved(_) => {}
        }
    }

    fn paragraph(&mut self, text: &str) {
        let Some(file) = &mut self.0 else { return };
        let text = strip_controls(text);
        let written = writeln!(file, "{}\n", text.trim_end()).and_then(|()| file.flush());
        if written.is_err() {
            self.0 = None;
        }
    }
}
