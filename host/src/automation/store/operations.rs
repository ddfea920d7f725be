//! The offline operations on stored sessions, each safe to repeat (the contract's "`aura session`").

use std::cmp::Reverse;
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::files::internal;
use super::lease::Seen;
use super::reading::{self, ReadError};
use super::summary::{Forked, Frozen, Imported, Listing, Summary};
use super::{Described, Document, Head, Parent, Revision, Store, StoredId, StoredMessage};
use crate::automation::error::{AutomationError, Code};
use crate::clock;

/// What is to be imported.
#[derive(Debug, Clone)]
pub struct Import {
    /// The file.
    pub source: PathBuf,
    /// The id under which it is stored; else its own, else a new one.
    pub id: Option<StoredId>,
    /// Whether it can never change again.
    pub freeze: bool,
}

/// What is to be forked.
#[derive(Debug, Clone)]
pub struct Fork {
    /// The session that is copied.
    pub parent: StoredId,
    /// The id of the copy.
    pub child: StoredId,
    /// Its title; else the parent's.
    pub title: Option<String>,
    /// The revision that the parent must have.
    pub expected: Option<Revision>,
}

impl Store {
    /// All sessions, that which changed last first, and a warning for each file that is none.
    ///
    /// # Errors
    /// `internal` where the store cannot be read; one that is not there is empty.
    pub fn list(&self) -> Result<Listing, AutomationError> {
        let mut listing = Listing { sessions: Vec::new(), warnings: Vec::new() };
        let failed = |error| internal(&format!("cannot read {}: {error}", self.directory().display()));
        let entries = match std::fs::read_dir(self.directory()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(listing),
            Err(error) => return Err(failed(error)),
        };
        for entry in entries {
            let name = entry.map_err(failed)?.file_name();
            let shown = name.to_string_lossy();
            // Temporary files begin with a dot; anything else that is not ours ends otherwise.
            let Some(stem) = shown.strip_suffix(".json").filter(|_| !shown.starts_with('.')) else {
                continue;
            };
            let summary = stem.parse().and_then(|id: StoredId| self.open(&id)).and_then(|opened| {
                // One that was deleted meanwhile is not there.
                opened.map(|mut opened| opened.scan().map(|read| Summary::of(&read))).transpose()
            });
            match summary {
                Ok(Some(summary)) => listing.sessions.push(summary),
                Ok(None) => {}
                Err(error) => {
                    listing.warnings.push(format!(
                        "{}: {}",
                        crate::text::one_line(&shown, 200),
                        error.message
                    ));
                }
            }
        }
        listing.sessions.sort_by(|a, b| (Reverse(a.updated_at), &a.id).cmp(&(Reverse(b.updated_at), &b.id)));
        listing.warnings.sort();
        Ok(listing)
    }

    /// One session.
    ///
    /// # Errors
    /// `not_found`, `invalid_session`, `internal`.
    pub fn show(&self, id: &StoredId) -> Result<Summary, AutomationError> {
        Ok(Summary::of(&self.open_existing(id)?.scan()?))
    }

    /// A session whole, as it is stored now.
    ///
    /// # Errors
    /// `not_found`, `invalid_session`, `internal`.
    pub fn read(&self, id: &StoredId) -> Result<(Document, Summary), AutomationError> {
        let (document, revision) = self.open_existing(id)?.document()?;
        let summary = Summary::new(&document.head, document.counted(), revision);
        Ok((document, summary))
    }

    /// Stores what `export` wrote.
    ///
    /// # Errors
    /// `not_found` and `invalid_session` for the file; `exists` where another conversation has the id; `session_locked`, `internal`.
    pub fn import(&self, import: &Import) -> Result<Imported, AutomationError> {
        let (described, messages, found, source_sha256) = read_source(&import.source)?;
        let id = import.id.clone().or(found).unwrap_or_else(StoredId::random);
        let document = new_document(id.clone(), described, messages);
        let answer = |session, created, frozen_now| Imported {
            session,
            created,
            frozen_now,
            source_sha256: source_sha256.clone(),
        };
        let look = || match self.open(&id).and_then(|opened| opened.map(|mut it| it.document()).transpose()) {
            Ok(None) => Ok(Seen::Missing),
            Ok(Some((stored, revision))) if stored.is_same_conversation(&document) => {
                let summary = Summary::new(&stored.head, stored.counted(), revision);
                Ok(Seen::There(answer(summary, false, false)))
            }
            Ok(Some(_)) => Err(exists(&format!("the session {id} is another conversation"))),
            Err(error) => Err(taken_by_damage(error)),
        };
        let imported = self.create_or(&id, look, |_lease| {
            let mut created = document.clone();
            created.head.frozen = import.freeze;
            Ok(answer(self.write(&created)?, true, import.freeze))
        })?;
        if !import.freeze || imported.session.frozen {
            return Ok(imported);
        }
        let _lease = self.lease(&id)?;
        // It may have changed before the lease was ours.
        let (stored, _) = self.open_existing(&id)?.document()?;
        if !stored.is_same_conversation(&document) {
            return Err(exists(&format!("the session {id} is another conversation")));
        }
        let frozen = self.freeze_held(&id, stored.head.frozen, None)?;
        Ok(answer(frozen.session, false, frozen.changed))
    }

    /// Copies a session under a new id.
    ///
    /// # Errors
    /// `not_found` and `invalid_session` for the parent; `revision_mismatch`; `exists` where the child is anything but the same fork;
    /// `session_locked`, `internal`.
    pub fn fork(&self, fork: &Fork) -> Result<Forked, AutomationError> {
        if fork.child == fork.parent {
            return Err(exists(&format!("the session {} cannot be a fork of itself", fork.child)));
        }
        let (parent, revision) = self.open_existing(&fork.parent)?.document()?;
        refuse_other_revision(&fork.parent, &revision, fork.expected.as_ref())?;
        let lineage = Parent { id: fork.parent.clone(), revision: revision.clone() };
        let summary = Summary::new(&parent.head, parent.counted(), revision);
        let answer = |session, created| Forked { session, parent: summary.clone(), created };
        let look =
            || match self.open(&fork.child).and_then(|opened| opened.map(|mut it| it.scan()).transpose()) {
                Ok(None) => Ok(Seen::Missing),
                Ok(Some(child)) if child.head.parent.as_ref() == Some(&lineage) => {
                    Ok(Seen::There(answer(Summary::of(&child), false)))
                }
                Ok(Some(_)) => Err(exists(&format!(
                    "the session {} is not a fork of what {} is now",
                    fork.child, fork.parent
                ))),
                Err(error) => Err(taken_by_damage(error)),
            };
        self.create_or(&fork.child, look, |_lease| {
            let mut described =
                Described { statistics: serde_json::Map::new(), ..parent.head.described.clone() };
            if let Some(title) = &fork.title {
                described.title.clone_from(title);
            }
            let mut child = new_document(fork.child.clone(), described, parent.messages.clone());
            child.head.parent = Some(lineage.clone());
            Ok(answer(self.write(&child)?, true))
        })
    }

    /// Makes a session one that never changes again.
    ///
    /// # Errors
    /// `not_found`, `invalid_session`, `session_locked`, `internal`; `revision_mismatch` where it is not frozen yet.
    pub fn freeze(&self, id: &StoredId, expected: Option<&Revision>) -> Result<Frozen, AutomationError> {
        let found = self.open_existing(id)?.scan()?;
        if found.head.frozen {
            return Ok(Frozen { session: Summary::of(&found), changed: false });
        }
        let _lease = self.lease(id)?;
        self.freeze_held(id, false, expected)
    }

    fn freeze_held(
        &self,
        id: &StoredId,
        is_frozen: bool,
        expected: Option<&Revision>,
    ) -> Result<Frozen, AutomationError> {
        let (mut document, revision) = self.open_existing(id)?.document()?;
        if is_frozen || document.head.frozen {
            let session = Summary::new(&document.head, document.counted(), revision);
            return Ok(Frozen { session, changed: false });
        }
        refuse_other_revision(id, &revision, expected)?;
        // What was said stays as it is, and with it the time of its last change.
        document.head.frozen = true;
        Ok(Frozen { session: self.write(&document)?, changed: true })
    }

    /// Writes a session. What is written is first read again: nothing is ever stored that could not be resumed.
    pub(super) fn write(&self, document: &Document) -> Result<Summary, AutomationError> {
        let bytes = encoded(document)?;
        self.replace(&document.head.id, &bytes)?;
        Ok(Summary::new(&document.head, document.counted(), Revision::of(&bytes)))
    }
}

/// The bytes of a session, proved to be the same session.
pub(super) fn encoded(document: &Document) -> Result<Vec<u8>, AutomationError> {
    let unsound = |why: &str| internal(&format!("the session {} cannot be stored: {why}", document.head.id));
    let bytes = document.encode().map_err(|error| unsound(&error))?;
    let mut messages = document.messages.iter();
    let mut is_same = true;
    let read = reading::stored(bytes.as_slice(), |message| is_same &= messages.next() == Some(&message));
    let read = read.map_err(|error| unsound(&error.to_string()))?;
    if is_same && messages.next().is_none() && read.head == document.head {
        return Ok(bytes);
    }
    Err(unsound("it would not be read as it is"))
}

/// A session that was never stored.
pub(super) fn new_document(id: StoredId, described: Described, messages: Vec<StoredMessage>) -> Document {
    let now = clock::now();
    let head = Head { id, created_at: now, updated_at: now, frozen: false, parent: None, described };
    Document { head, messages }
}

type Source = (Described, Vec<StoredMessage>, Option<StoredId>, Revision);

fn read_source(path: &Path) -> Result<Source, AutomationError> {
    let invalid = |why: &str| {
        AutomationError::new(Code::InvalidSession, format!("{} is no session: {why}", path.display()))
    };
    let failed = |error: &std::io::Error| internal(&format!("cannot read {}: {error}", path.display()));
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file: File = opened.map_err(|error| {
        if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) {
            return AutomationError::new(Code::NotFound, format!("there is no file {}", path.display()));
        }
        failed(&error)
    })?;
    if !file.metadata().map_err(|error| failed(&error))?.is_file() {
        return Err(invalid("it is not a regular file"));
    }
    let mut messages = Vec::new();
    let read = reading::foreign(file, |message| messages.push(message)).map_err(|error| match error {
        ReadError::Invalid(why) => invalid(&why),
        ReadError::System(error) => failed(&error),
    })?;
    Ok((read.described, messages, read.id, read.revision))
}

fn refuse_other_revision(
    id: &StoredId,
    found: &Revision,
    expected: Option<&Revision>,
) -> Result<(), AutomationError> {
    match expected {
        Some(expected) if expected != found => {
            let message = format!("the session {id} has the revision {found}, not {expected}");
            Err(AutomationError::new(Code::RevisionMismatch, message))
        }
        Some(_) | None => Ok(()),
    }
}

/// A file under the wanted id that is no session is not what is wanted, either.
fn taken_by_damage(error: AutomationError) -> AutomationError {
    if error.code == Code::InvalidSession { exists(&error.message) } else { error }
}

pub(super) fn exists(message: &str) -> AutomationError {
    AutomationError::new(Code::Exists, message)
}
