//! Writes the bytes of a session to a file elsewhere, and never over another one.

use std::fs::{File, OpenOptions};
use std::io::{BufReader, BufWriter, ErrorKind, Read, Write as _};
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use nix::fcntl::OFlag;

use super::files::{Opened, internal};
use super::operations::exists;
use super::revision::Hashing;
use super::summary::{Exported, Summary};
use super::{Revision, Store, StoredId};
use crate::automation::error::{AutomationError, Code};
use crate::files;

impl Store {
    /// Writes the stored bytes of a session to `output`; the same bytes there already are fine.
    ///
    /// # Errors
    /// `not_found` for the session or the folder, `invalid_session`, `exists` for anything else at the path, `bad_request` for a path inside of
    /// the store, `internal`.
    pub fn export(&self, id: &StoredId, output: &Path) -> Result<Exported, AutomationError> {
        let mut opened = self.open_existing(id)?;
        let session = Summary::of(&opened.scan()?);
        let path = std::path::absolute(output).map_err(|error| {
            AutomationError::new(Code::BadRequest, format!("{}: {error}", output.display()))
        })?;
        self.refuse_inside(&path)?;
        let written = match stands(&path, &session.revision)? {
            Target::Same => false,
            Target::Missing => write_new(&mut opened, &path, &session.revision)?,
        };
        let sha256 = session.revision.clone();
        Ok(Exported { session, path: path.to_string_lossy().into_owned(), sha256, written })
    }

    fn refuse_inside(&self, path: &Path) -> Result<(), AutomationError> {
        let (Some(folder), Some(name)) = (path.parent(), path.file_name()) else {
            return Err(exists(&format!("{} is a folder", path.display())));
        };
        // `absolute` keeps a last `..` and drops a last slash; the one is a folder, the other names one.
        if name.as_bytes() == b".." || path.as_os_str().as_bytes().ends_with(b"/") {
            return Err(exists(&format!("{} is a folder", path.display())));
        }
        let folder = folder.canonicalize().map_err(|error| missing_folder(folder, &error))?;
        let store = self.directory().canonicalize().unwrap_or_else(|_| self.directory().to_path_buf());
        if folder.starts_with(&store) || folder.join(name) == store {
            let message = format!("{} is inside of the store: export to another folder", path.display());
            return Err(AutomationError::new(Code::BadRequest, message));
        }
        Ok(())
    }
}

enum Target {
    Missing,
    Same,
}

/// What stands at the path: nothing, the same bytes, or something that must not be replaced.
fn stands(path: &Path, revision: &Revision) -> Result<Target, AutomationError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Target::Missing),
        Err(error) => return Err(internal(&format!("cannot look at {}: {error}", path.display()))),
        Ok(_) => {}
    }
    let different = || exists(&format!("{} is there already and is something else", path.display()));
    let opened = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let file = opened.map_err(|_| different())?;
    if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
        return Err(different());
    }
    let mut hashing = Hashing::new(BufReader::new(file));
    let read = std::io::copy(&mut hashing, &mut std::io::sink());
    read.map_err(|error| internal(&format!("cannot read {}: {error}", path.display())))?;
    if hashing.revision() == *revision { Ok(Target::Same) } else { Err(different()) }
}

/// Whether this call wrote it; another one may have done the same meanwhile.
fn write_new(opened: &mut Opened, path: &Path, revision: &Revision) -> Result<bool, AutomationError> {
    let failed = |error: std::io::Error| internal(&format!("cannot write {}: {error}", path.display()));
    let temporary = temporary_beside(path);
    let copied = copy(opened.bytes()?, &temporary).map_err(failed);
    // A link fails where a file stands, as a rename does not: nothing is ever replaced.
    let linked = copied.and_then(|()| match std::fs::hard_link(&temporary, path) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        // Some file systems have no links.
        Err(_) => std::fs::rename(&temporary, path).map(|()| true).map_err(failed),
    });
    // Best effort: after a rename it is gone, and a failure that was before is the one to tell.
    let _ = std::fs::remove_file(&temporary);
    if linked? {
        files::sync_parent(path).map_err(|error| internal(&error.to_string()))?;
        return Ok(true);
    }
    match stands(path, revision)? {
        Target::Same => Ok(false),
        Target::Missing => Err(internal(&format!("{} came and went meanwhile: try again", path.display()))),
    }
}

fn copy(source: &mut impl Read, target: &Path) -> std::io::Result<()> {
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(target)?;
    let mut writer = BufWriter::new(file);
    std::io::copy(source, &mut writer)?;
    writer.flush()?;
    let file: &File = writer.get_ref();
    file.sync_all()
}

fn temporary_beside(path: &Path) -> PathBuf {
    path.with_file_name(format!(".aura.{}.new", uuid::Uuid::new_v4().simple()))
}

fn missing_folder(folder: &Path, error: &std::io::Error) -> AutomationError {
    if error.kind() == ErrorKind::NotFound || error.kind() == ErrorKind::NotADirectory {
        return AutomationError::new(Code::NotFound, format!("there is no folder {}", folder.display()));
    }
    internal(&format!("cannot look at {}: {error}", folder.display()))
}
