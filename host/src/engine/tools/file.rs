//! The tools `read`, `write` and `edit`: inside the workspace, within bounds, files replaced as a whole.

use std::fs::{File, OpenOptions, Permissions};
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::os::unix::fs::{MetadataExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::Path;

use shared::entry::{Diff, ResultStatus};
use shared::limits;

use super::{DIFF_BYTES, EditFile, Outcome, ReadFile, WriteFile};
use crate::engine::workspace::{Inside, Outside, Workspace};
use crate::text::Decoder;

/// The largest file that is changed, in bytes: it is held in memory twice.
const EDIT_BYTES: u64 = 8 * 1024 * 1024;
/// Lines of context around a change in a patch, as everywhere.
const CONTEXT: usize = 3;

/// Why a tool did not do what it was asked; the sentence is for the model.
#[derive(Debug, thiserror::Error)]
enum FileError {
    #[error(transparent)]
    Outside(#[from] Outside),
    #[error("{0} is not a regular file")]
    NotAFile(String),
    #[error("{0} is larger than {EDIT_BYTES} bytes and cannot be changed")]
    TooLarge(String),
    #[error("{0} is not UTF-8 text and cannot be changed")]
    NotText(String),
    #[error("the text to be replaced is empty")]
    Empty,
    #[error("the old and the new text are the same")]
    Same,
    #[error(
        "the text to be replaced does not occur in {0}; read the file and give it exactly, with all its white space"
    )]
    Absent(String),
    #[error(
        "the text to be replaced occurs {count} times in {path}; give more of what is around it, or set `all`"
    )]
    Ambiguous { path: String, count: usize },
    #[error("{path} cannot be used: {source}")]
    System { path: String, source: std::io::Error },
}

fn outcome(result: Result<Outcome, FileError>) -> Outcome {
    result.unwrap_or_else(|error| Outcome::plain(ResultStatus::Error, &error.to_string()))
}

fn system(path: &str) -> impl Fn(std::io::Error) -> FileError {
    move |source| FileError::System { path: path.to_owned(), source }
}

/// `read`.
pub(super) fn read(workspace: &Workspace, wanted: &ReadFile) -> Outcome {
    outcome(try_read(workspace, wanted))
}

fn try_read(workspace: &Workspace, wanted: &ReadFile) -> Result<Outcome, FileError> {
    let inside = workspace.existing(&wanted.path)?;
    let failed = system(&wanted.path);
    let file = open(&inside, &wanted.path)?;
    let mut reader = BufReader::new(file);
    for _ in 1..wanted.first_line {
        if reader.skip_until(b'\n').map_err(&failed)? == 0 {
            break;
        }
    }
    let mut bytes = Vec::new();
    let mut left_out = 0_u64;
    let mut decoder = Decoder::default();
    let mut text = String::new();
    let mut lines = wanted.lines.unwrap_or(u64::MAX);
    while lines > 0 {
        let before = bytes.len();
        let room = u64::try_from(limits::RESULT_BYTES.saturating_sub(bytes.len())).unwrap_or_default();
        reader.by_ref().take(room).read_until(b'\n', &mut bytes).map_err(&failed)?;
        let is_whole = bytes.len() > before && bytes.last() == Some(&b'\n');
        lines -= 1;
        if is_whole {
            continue;
        }
        // The file or the room is at its end; the rest is counted, not held.
        if bytes.len() >= limits::RESULT_BYTES {
            let mut rest = 0_u64;
            for _ in 0..=lines {
                let skipped = reader.skip_until(b'\n').map_err(&failed)?;
                if skipped == 0 {
                    break;
                }
                rest = rest.saturating_add(u64::try_from(skipped).unwrap_or(u64::MAX));
            }
            text = decoder.push(&bytes);
            left_out = rest.saturating_add(u64::try_from(decoder.held()).unwrap_or_default());
            decoder = Decoder::default();
            bytes.clear();
        }
        break;
    }
    text.push_str(&decoder.push(&bytes));
    text.push_str(decoder.finish());
    let mut result = Outcome::plain(ResultStatus::Ok, &text);
    let total = left_out.saturating_add(result.truncated.unwrap_or_default());
    result.truncated = (total > 0).then_some(total);
    Ok(result)
}

/// `write`.
pub(super) fn write(workspace: &Workspace, wanted: &WriteFile) -> Outcome {
    outcome(try_write(workspace, wanted))
}

fn try_write(workspace: &Workspace, wanted: &WriteFile) -> Result<Outcome, FileError> {
    let inside = workspace.writable(&wanted.path)?;
    let failed = system(&wanted.path);
    let before = match open(&inside, &wanted.path) {
        Ok(file) => Some(text_of(file, &wanted.path).ok()),
        Err(FileError::System { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => None,
        Err(refused) => return Err(refused),
    };
    if let Some(parent) = inside.path().parent() {
        std::fs::create_dir_all(parent).map_err(&failed)?;
    }
    // The folders that were made do not lead out; what was put there meanwhile may.
    let inside = workspace.writable(&wanted.path)?;
    replace(inside.path(), wanted.content.as_bytes()).map_err(&failed)?;
    let lines = super::line_count(&wanted.content);
    let said = match &before {
        None => format!("Wrote the new file {} ({lines}).", inside.shown()),
        Some(_) => format!("Wrote {} ({lines}).", inside.shown()),
    };
    let mut result = Outcome::plain(ResultStatus::Ok, &said);
    let is_small = |text: &str| text.len() <= DIFF_BYTES;
    let is_shown = match &before {
        None => is_small(&wanted.content),
        Some(Some(old)) => is_small(&wanted.content) && is_small(old),
        Some(None) => false,
    };
    result.diff = Some(Diff {
        path: inside.shown().to_owned(),
        before: before.flatten().filter(|_| is_shown),
        after: is_shown.then(|| wanted.content.clone()),
        patch: None,
    });
    Ok(result)
}

/// `edit`.
pub(super) fn edit(workspace: &Workspace, wanted: &EditFile) -> Outcome {
    outcome(try_edit(workspace, wanted))
}

fn try_edit(workspace: &Workspace, wanted: &EditFile) -> Result<Outcome, FileError> {
    if wanted.old.is_empty() {
        return Err(FileError::Empty);
    }
    if wanted.old == wanted.new {
        return Err(FileError::Same);
    }
    let inside = workspace.existing(&wanted.path)?;
    let before = text_of(open(&inside, &wanted.path)?, &wanted.path)?;
    let Replaced { after, places } = replaced(&before, wanted)?;
    replace(inside.path(), after.as_bytes()).map_err(system(&wanted.path))?;
    let times = if places.len() == 1 { "1 place".to_owned() } else { format!("{} places", places.len()) };
    let mut result = Outcome::plain(ResultStatus::Ok, &format!("Changed {times} in {}.", inside.shown()));
    let path = inside.shown().to_owned();
    result.diff = Some(if before.len() <= DIFF_BYTES && after.len() <= DIFF_BYTES {
        Diff { path, before: Some(before), after: Some(after), patch: None }
    } else {
        let patch = places.first().map(|place| patch(&path, &before, &after, *place));
        Diff {
            path,
            before: None,
            after: None,
            patch: patch.filter(|patch| places.len() == 1 && patch.len() <= DIFF_BYTES),
        }
    });
    Ok(result)
}

/// A text after an edit.
struct Replaced {
    after: String,
    places: Vec<Place>,
}

/// One replaced part: where it began, and how long it was and is.
#[derive(Debug, Clone, Copy)]
struct Place {
    start: usize,
    old: usize,
    new: usize,
}

fn replaced(before: &str, wanted: &EditFile) -> Result<Replaced, FileError> {
    // Models write `\n`, and what they read had its `\r` stripped; a file with `\r\n` stays one.
    let has_crlf = before.contains("\r\n") && !wanted.old.contains('\r');
    let ends = |text: &str| if has_crlf { text.replace('\n', "\r\n") } else { text.to_owned() };
    let (old, new) = (ends(&wanted.old), ends(&wanted.new));
    let starts: Vec<usize> = before.match_indices(&old).map(|(start, _)| start).collect();
    match starts.len() {
        0 => return Err(FileError::Absent(wanted.path.clone())),
        1 => {}
        count if !wanted.all => return Err(FileError::Ambiguous { path: wanted.path.clone(), count }),
        _ => {}
    }
    let places = starts.into_iter().map(|start| Place { start, old: old.len(), new: new.len() }).collect();
    Ok(Replaced { after: before.replace(&old, &new), places })
}

/// The unified patch of one changed place, for a file of which not both sides can be shown.
fn patch(path: &str, before: &str, after: &str, place: Place) -> String {
    let part_of = |text: &'_ str, length: usize| -> (usize, bool) {
        let part = text.get(place.start..place.start + length).unwrap_or_default();
        (part.matches('\n').count(), part.ends_with('\n'))
    };
    let first = before.get(..place.start).unwrap_or_default().matches('\n').count();
    let (old_ends, is_old_whole) = part_of(before, place.old);
    let (new_ends, is_new_whole) = part_of(after, place.new);
    // Where both sides end with a line, the next line did not change.
    let whole = usize::from(is_old_whole && is_new_whole);
    let (end_old, end_new) = (first + old_ends + 1 - whole, first + new_ends + 1 - whole);
    let old: Vec<&str> = before.split_terminator('\n').collect();
    let new: Vec<&str> = after.split_terminator('\n').collect();
    let from = first.saturating_sub(CONTEXT);
    let part = |all: &[&str], start: usize, end: usize, sign: char| -> String {
        let end = end.min(all.len());
        all.get(start.min(end)..end)
            .unwrap_or_default()
            .iter()
            .map(|line| format!("{sign}{line}\n"))
            .collect()
    };
    let (end_old, end_new) = (end_old.min(old.len()), end_new.min(new.len()));
    let trailing_end = (end_old + CONTEXT).min(old.len());
    let trailing = trailing_end - end_old;
    format!(
        "--- {path}\n+++ {path}\n@@ -{},{} +{},{} @@\n{}{}{}{}",
        from + 1,
        end_old.saturating_sub(from) + trailing,
        from + 1,
        end_new.saturating_sub(from) + trailing,
        part(&old, from, first, ' '),
        part(&old, first, end_old, '-'),
        part(&new, first, end_new, '+'),
        part(&old, end_old, trailing_end, ' '),
    )
}

/// Opens a regular file without waiting for a fifo; the path was resolved, so a symlink at its end was put there meanwhile.
fn open(inside: &Inside, path: &str) -> Result<File, FileError> {
    let flags = nix::fcntl::OFlag::O_NONBLOCK | nix::fcntl::OFlag::O_NOFOLLOW;
    let file =
        OpenOptions::new().read(true).custom_flags(flags.bits()).open(inside.path()).map_err(system(path))?;
    let metadata = file.metadata().map_err(system(path))?;
    if metadata.is_file() { Ok(file) } else { Err(FileError::NotAFile(path.to_owned())) }
}

fn text_of(file: File, path: &str) -> Result<String, FileError> {
    let mut bytes = Vec::new();
    // One byte more than allowed tells a file that grows while it is read.
    file.take(EDIT_BYTES + 1).read_to_end(&mut bytes).map_err(system(path))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > EDIT_BYTES) {
        return Err(FileError::TooLarge(path.to_owned()));
    }
    String::from_utf8(bytes).map_err(|_| FileError::NotText(path.to_owned()))
}

/// Puts a whole new file in the place of another one, which keeps its permissions; a crash leaves one of both.
fn replace(path: &Path, content: &[u8]) -> std::io::Result<()> {
    let mode = std::fs::symlink_metadata(path).ok().map(|metadata| metadata.mode() & 0o7777);
    let temporary = path.with_file_name(format!(".{}.new", uuid::Uuid::new_v4().simple()));
    let written = OpenOptions::new().write(true).create_new(true).open(&temporary).and_then(|mut file| {
        file.write_all(content)?;
        if let Some(mode) = mode {
            file.set_permissions(Permissions::from_mode(mode))?;
        }
        file.sync_all()?;
        std::fs::rename(&temporary, path)
    });
    if written.is_err() {
        // Best effort: the failure that the caller hears about is the first one.
        let _ = std::fs::remove_file(&temporary);
    }
    written
}
