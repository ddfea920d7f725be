//! The journal of a served session: one event a line, written by one server, synced before anybody reads it, read from the file.
//!
//! A crash can only leave a torn last line, which the next server cuts. Anything else that is wrong is an error, and nothing is changed.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use shared::time::Timestamp;
use tokio::sync::{mpsc, watch};

use super::book::Book;
use super::event::{Happening, OfRun};
use super::run::{Run, RunId};
use crate::files::{self, FilesError};
use crate::log::{Found, LINE_LIMIT, Scanner};

/// Events between two places that are remembered: what a read passes over at most.
const STRIDE: u64 = 64;
/// Events that may wait for the disk; beyond, whoever tells them waits.
const WAITING: usize = 1024;
/// Bytes of events that one read gives at most, one event more: what a reader's request may cost.
const READ_BYTES: usize = 4 * 1024 * 1024;
/// Bytes to which the strings of an event are cut that would not fit a line.
const CUT_BYTES: usize = 4096;

/// Why a journal cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// It holds something that no crash leaves.
    #[error("{} is damaged in line {line}: {detail}; nothing was changed: move the file away to begin a new journal", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        detail: String,
    },
    /// It cannot be opened, read or repaired.
    #[error(transparent)]
    Files(#[from] FilesError),
    /// It could not be written; nothing more can be told.
    #[error("the journal cannot be written: {0}")]
    Broken(Arc<str>),
}

/// A journal that was opened.
#[derive(Debug)]
pub struct Opened {
    /// To tell.
    pub journal: Journal,
    /// The runs that it holds.
    pub book: Book,
    /// Those of them that have not settled, oldest first.
    pub unsettled: Vec<Run>,
    /// Bytes of a torn last line that were cut.
    pub cut: u64,
}

/// The side that tells. The last one to tell ends with it.
#[derive(Debug)]
pub struct Journal {
    session_id: String,
    next: u64,
    end: u64,
    time: Timestamp,
    lines: mpsc::Sender<Queued>,
    /// Noted and not handed to the disk yet.
    noted: Vec<Queued>,
    reader: Reader,
}

/// The side that reads; any number of them.
#[derive(Debug, Clone)]
pub struct Reader {
    file: Arc<File>,
    path: Arc<Path>,
    /// Where the lines 1, 1 + [`STRIDE`], … begin.
    places: Arc<Mutex<Vec<u64>>>,
    durable: watch::Receiver<Durable>,
}

/// How far the file is on the disk.
#[derive(Debug, Clone, Default)]
struct Durable {
    seq: u64,
    end: u64,
    broken: Option<Arc<str>>,
}

/// A line on its way to the disk.
#[derive(Debug)]
struct Queued {
    seq: u64,
    end: u64,
    line: Vec<u8>,
}

/// What was told.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Told {
    /// The number of the event.
    pub seq: u64,
    /// Its time.
    pub time: Timestamp,
}

/// An event as it was read.
#[derive(Debug, Clone, Serialize)]
#[serde(transparent)]
pub struct Recorded(Box<RawValue>);

/// What every line holds.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Head<'a> {
    seq: u64,
    time: Timestamp,
    #[serde(rename = "type", borrow)]
    name: std::borrow::Cow<'a, str>,
    #[serde(borrow)]
    session_id: std::borrow::Cow<'a, str>,
    run_id: Option<RunId>,
    #[serde(borrow)]
    data: &'a RawValue,
}

/// A line to write.
#[derive(Serialize)]
struct Line<'a> {
    seq: u64,
    time: Timestamp,
    #[serde(rename = "type")]
    name: &'a Value,
    session_id: &'a str,
    run_id: Option<&'a RunId>,
    data: &'a Value,
}

impl Journal {
    /// Opens the journal at `path` or creates it. The caller holds the lease of the session. Blocks.
    ///
    /// # Errors
    /// [`JournalError::Damaged`] where it holds anything but whole, contiguous events of this session, or [`JournalError::Files`].
    pub fn open(path: &Path, session_id: &str) -> Result<Opened, JournalError> {
        if let Some(folder) = path.parent() {
            files::private_directory(folder)?;
            files::sync_parent(folder)?;
        }
        let file = files::open_private(path, OpenOptions::new().read(true).append(true).create(true))?;
        let length = file.metadata().map_err(files::system("look at", path))?.len();
        let mut found = Recovery {
            session_id,
            seq: 0,
            time: Timestamp::from_milliseconds(0),
            book: Book::default(),
            open: Vec::new(),
        };
        let (mut places, mut end) = (Vec::new(), 0);
        let mut scanner = Scanner::new(file.try_clone().map_err(files::system("open", path))?, 0, length);
        while let Some(line) = scanner.next().map_err(files::system("read", path))? {
            if found.seq.is_multiple_of(STRIDE) {
                places.push(end);
            }
            let read = match line {
                Found::Line(bytes) => found.take(bytes),
                Found::TooLong(_) => Err("it is too long".to_owned()),
            };
            read.map_err(|detail| JournalError::Damaged {
                path: path.to_owned(),
                line: found.seq + 1,
                detail,
            })?;
            end += line.taken();
        }
        let cut = length - end;
        if cut > 0 {
            file.set_len(end).map_err(files::system("repair", path))?;
        }
        // What a killed server wrote may be in memory only; from here on all of it is served.
        file.sync_all().map_err(files::system("sync", path))?;
        files::sync_parent(path)?;

        let (durable, watched) = watch::channel(Durable { seq: found.seq, end, broken: None });
        let (lines, queue) = mpsc::channel(WAITING);
        let reader = Reader {
            file: Arc::new(file.try_clone().map_err(files::system("open", path))?),
            path: path.into(),
            places: Arc::new(Mutex::new(places)),
            durable: watched,
        };
        std::thread::Builder::new()
            .name("journal".to_owned())
            .spawn(move || write(file, queue, &durable))
            .map_err(files::system("write", path))?;
        let journal = Self {
            session_id: session_id.to_owned(),
            next: found.seq + 1,
            end,
            time: found.time,
            lines,
            noted: Vec::new(),
            reader,
        };
        Ok(Opened { journal, book: found.book, unsettled: found.open, cut })
    }

    /// The number of the next event.
    #[must_use]
    pub fn next_seq(&self) -> u64 {
        self.next
    }

    /// The time of the next event; never before the one of the last.
    #[must_use]
    pub fn now(&mut self) -> Timestamp {
        self.time = self.time.max(crate::clock::now());
        self.time
    }

    /// Notes an event. It is numbered on return; [`Journal::flush`] hands it to the disk.
    pub fn note(&mut self, run_id: Option<&RunId>, happening: &Happening) -> Told {
        let told = Told { seq: self.next, time: self.now() };
        let line = self.line(told, run_id, happening);
        if (told.seq - 1).is_multiple_of(STRIDE) {
            self.reader.places.lock().unwrap_or_else(PoisonError::into_inner).push(self.end);
        }
        self.next += 1;
        self.end += line.len() as u64;
        self.noted.push(Queued { seq: told.seq, end: self.end, line });
        told
    }

    /// Hands all that is noted to the disk; durable later: [`Reader::durable`]. Waits where the disk is behind.
    ///
    /// # Errors
    /// [`JournalError::Broken`] once the file could not be written.
    pub async fn flush(&mut self) -> Result<(), JournalError> {
        for queued in self.noted.drain(..) {
            self.lines.send(queued).await.map_err(|_| self.reader.broken())?;
        }
        Ok(())
    }

    /// Notes an event and hands it to the disk.
    ///
    /// # Errors
    /// [`JournalError::Broken`] once the file could not be written.
    pub async fn tell(
        &mut self,
        run_id: Option<&RunId>,
        happening: &Happening,
    ) -> Result<Told, JournalError> {
        let told = self.note(run_id, happening);
        self.flush().await?;
        Ok(told)
    }

    /// A side that reads.
    #[must_use]
    pub fn reader(&self) -> Reader {
        self.reader.clone()
    }

    fn line(&self, told: Told, run_id: Option<&RunId>, happening: &Happening) -> Vec<u8> {
        let mut event = serde_json::to_value(happening).unwrap_or_default();
        let mut written = self.written(told, run_id, &event);
        // What the model wrote can be as large as it likes. The session has it whole; here it is cut: the contract's own fields stand at depth 4
        // at most (data, tool_calls, a call, its args).
        for depth in [4, 3] {
            if written.len() > LINE_LIMIT {
                cut(&mut event, depth);
                written = self.written(told, run_id, &event);
            }
        }
        written
    }

    fn written(&self, told: Told, run_id: Option<&RunId>, event: &Value) -> Vec<u8> {
        let line = Line {
            seq: told.seq,
            time: told.time,
            name: &event["type"],
            session_id: &self.session_id,
            run_id,
            data: &event["data"],
        };
        let mut written = serde_json::to_vec(&line).unwrap_or_default();
        written.push(b'\n');
        written
    }
}

impl Reader {
    /// The number of the last event that is on the disk.
    #[must_use]
    pub fn last_seq(&self) -> u64 {
        self.durable.borrow().seq
    }

    /// Returns once the event `seq` is on the disk.
    ///
    /// # Errors
    /// [`JournalError::Broken`] where it never will be.
    pub async fn durable(&self, seq: u64) -> Result<(), JournalError> {
        let mut durable = self.durable.clone();
        let reached = durable
            .wait_for(|durable| durable.seq >= seq || durable.broken.is_some())
            .await
            .is_ok_and(|durable| durable.seq >= seq);
        if reached { Ok(()) } else { Err(self.broken()) }
    }

    /// Returns once there is an event after this one on the disk, or the file could not be written.
    pub async fn later_than(&self, seq: u64) {
        let mut durable = self.durable.clone();
        // An error means that nobody writes any more.
        let _ = durable.wait_for(|durable| durable.seq > seq || durable.broken.is_some()).await;
    }

    /// Returns once the file could not be written, with the reason; never where all is well.
    pub async fn breaks(&self) -> JournalError {
        let mut durable = self.durable.clone();
        if durable.wait_for(|durable| durable.broken.is_some()).await.is_err() {
            std::future::pending::<()>().await;
        }
        self.broken()
    }

    /// Up to `limit` events after the event `after`, fewer where they are large. Blocks on the disk.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn read(&self, after: u64, limit: usize) -> std::io::Result<Vec<Recorded>> {
        let durable = self.durable.borrow().clone();
        if after >= durable.seq {
            return Ok(Vec::new());
        }
        let block = after / STRIDE;
        let place = {
            let places = self.places.lock().unwrap_or_else(PoisonError::into_inner);
            usize::try_from(block).ok().and_then(|block| places.get(block).copied())
        };
        let Some(place) = place else { return Ok(Vec::new()) };
        let mut scanner = Scanner::new(self.file.try_clone()?, place, durable.end);
        for _ in 0..after % STRIDE {
            scanner.skip()?;
        }
        let (mut events, mut bytes) = (Vec::new(), 0);
        while events.len() < limit && bytes < READ_BYTES {
            let Some(Found::Line(line)) = scanner.next()? else { break };
            bytes += line.len();
            let event = serde_json::from_slice(line)
                .map_err(|error| std::io::Error::other(format!("{}: {error}", self.path.display())))?;
            events.push(Recorded(event));
        }
        Ok(events)
    }

    /// The record of a run in the event `seq`.
    ///
    /// # Errors
    /// What the system says of the file.
    pub fn run(&self, seq: u64) -> std::io::Result<Option<Run>> {
        let event = self.read(seq.saturating_sub(1), 1)?.pop();
        Ok(event.and_then(|event| event.of_run()))
    }

    fn broken(&self) -> JournalError {
        let reason = self.durable.borrow().broken.clone();
        JournalError::Broken(reason.unwrap_or_else(|| "the server ends".into()))
    }
}

impl Recorded {
    /// The JSON of the event, as it stands in the file.
    #[must_use]
    pub fn text(&self) -> &str {
        self.0.get()
    }

    /// Its number and type.
    #[must_use]
    pub fn label(&self) -> Option<(u64, String)> {
        let head: Head<'_> = serde_json::from_str(self.text()).ok()?;
        Some((head.seq, head.name.into_owned()))
    }

    fn of_run(&self) -> Option<Run> {
        let head: Head<'_> = serde_json::from_str(self.text()).ok()?;
        serde_json::from_str::<OfRun>(head.data.get()).ok().map(|of| *of.run)
    }
}

/// What the lines tell, while they are read.
struct Recovery<'a> {
    session_id: &'a str,
    seq: u64,
    time: Timestamp,
    book: Book,
    open: Vec<Run>,
}

impl Recovery<'_> {
    fn take(&mut self, line: &[u8]) -> Result<(), String> {
        let head: Head<'_> = serde_json::from_slice(line).map_err(|error| error.to_string())?;
        if head.seq != self.seq + 1 {
            return Err(format!("the event {} follows the event {}", head.seq, self.seq));
        }
        if head.session_id != self.session_id {
            return Err("the event is one of another session".to_owned());
        }
        let tells_of_run = matches!(
            head.name.as_ref(),
            "run.accepted"
                | "run.cancel_requested"
                | "run.finished"
                | "run.persisted"
                | "run.persist_failed"
                | "run.lost"
        );
        if tells_of_run {
            let of: OfRun = serde_json::from_str(head.data.get()).map_err(|error| error.to_string())?;
            if head.run_id.as_ref() != Some(&of.run.id) {
                return Err("the event tells of another run than its run_id".to_owned());
            }
            self.open.retain(|run| run.id != of.run.id);
            self.book.note(&of.run, head.seq);
            if !of.run.terminal {
                self.open.push(*of.run);
            }
        }
        self.take_progress(&head);
        self.seq = head.seq;
        self.time = self.time.max(head.time);
        Ok(())
    }
}

/// What is read of an event that tells how far a run is.
#[derive(Deserialize)]
struct Progress {
    #[serde(default)]
    name: String,
    #[serde(default)]
    status: String,
    #[serde(default)]
    input_id: String,
}

impl Recovery<'_> {
    /// The record of a run stands in few events; what happened since the last of them is counted again.
    fn take_progress(&mut self, head: &Head<'_>) {
        let Some(run_id) = &head.run_id else { return };
        let Some(run) = self.open.iter_mut().find(|run| run.id == *run_id) else { return };
        // An event of another version may look otherwise: then it counts for nothing.
        let progress = || serde_json::from_str::<Progress>(head.data.get()).ok();
        match head.name.as_ref() {
            "run.started" => run.start(head.time),
            "message.assistant" => run.stats.iterations += 1,
            "tool.started" => {
                if let Some(call) = progress() {
                    run.stats.began(&call.name);
                }
            }
            "tool.finished" => {
                run.stats.tool_errors += u64::from(progress().is_some_and(|call| call.status == "error"));
            }
            "input.required" => {
                if let Some(input) = progress() {
                    self.book.note_input(input.input_id, run_id.clone());
                }
            }
            _ => {}
        }
    }
}

/// The thread that writes: all that waits, each event with one write, then one sync for all of them.
fn write(mut file: File, mut queue: mpsc::Receiver<Queued>, durable: &watch::Sender<Durable>) {
    while let Some(first) = queue.blocking_recv() {
        let mut next = Some(first);
        let mut reached = (0, 0);
        let mut written = Ok(());
        while let Some(queued) = next {
            written = file.write_all(&queued.line);
            if written.is_err() {
                break;
            }
            reached = (queued.seq, queued.end);
            next = queue.try_recv().ok();
        }
        let synced = file.sync_data();
        if let Err(error) = written.and(synced) {
            // Whatever stands behind the last sync was never served; the next server reads what of it is whole.
            durable.send_modify(|durable| durable.broken = Some(error.to_string().into()));
            return;
        }
        durable.send_modify(|durable| (durable.seq, durable.end) = reached);
    }
}

/// Cuts every long string, and leaves nothing of what stands deeper than so many levels.
fn cut(value: &mut Value, depth: usize) {
    match value {
        Value::String(text) => {
            let kept = crate::text::cut(text, CUT_BYTES).len();
            text.truncate(kept);
        }
        Value::Array(_) | Value::Object(_) if depth == 0 => *value = Value::Null,
        Value::Array(items) => items.iter_mut().for_each(|item| cut(item, depth - 1)),
        Value::Object(fields) => fields.values_mut().for_each(|field| cut(field, depth - 1)),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests;
