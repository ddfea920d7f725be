//! The tools `glob` and `grep`: files of the workspace by their paths and by their lines. Links are not followed, `.git` is passed over.

use std::fs::File;
use std::io::{BufRead as _, BufReader, Read as _};
use std::path::{Path, PathBuf};

use globset::{GlobBuilder, GlobMatcher};
use regex::{Regex, RegexBuilder};
use shared::entry::ResultStatus;

use super::{Glob, Grep, Outcome};
use crate::engine::Stop;
use crate::engine::workspace::Workspace;
use crate::text;

/// Paths or lines that are given; more of them say less.
const FOUND: usize = 500;
/// Files that are looked at; a larger workspace is searched with a command.
const FILES: usize = 200_000;
/// The largest file that is read, in bytes: larger ones are data.
const FILE_BYTES: u64 = 4 * 1024 * 1024;
/// Characters of a line that are shown.
const LINE_CHARACTERS: usize = 300;
/// Bytes at the beginning of a file that show whether it is text.
const HEAD_BYTES: usize = 4096;
/// Memory of a compiled pattern, in bytes.
const PATTERN_BYTES: usize = 1024 * 1024;

/// `glob`.
pub(super) fn glob(workspace: &Workspace, wanted: &Glob, stop: &Stop) -> Outcome {
    outcome(try_glob(workspace, wanted, stop), stop)
}

fn try_glob(workspace: &Workspace, wanted: &Glob, stop: &Stop) -> Result<String, String> {
    let pattern = matcher(&wanted.pattern)?;
    let root = workspace.existing(&wanted.path).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let mut is_cut = false;
    let is_whole = walk(workspace, root.path(), stop, &mut |path| {
        let inside = path.strip_prefix(root.path()).unwrap_or(path);
        if pattern.is_match(inside) {
            is_cut = found.len() >= FOUND;
            if !is_cut {
                found.push(shown(workspace, path));
            }
        }
        !is_cut
    });
    found.sort();
    Ok(report(&found, "file", is_cut, is_whole))
}

/// `grep`.
pub(super) fn grep(workspace: &Workspace, wanted: &Grep, stop: &Stop) -> Outcome {
    outcome(try_grep(workspace, wanted, stop), stop)
}

fn try_grep(workspace: &Workspace, wanted: &Grep, stop: &Stop) -> Result<String, String> {
    let pattern = RegexBuilder::new(&wanted.pattern)
        .case_insensitive(wanted.ignore_case)
        .size_limit(PATTERN_BYTES)
        .build()
        .map_err(|error| error.to_string())?;
    let only = wanted.glob.as_deref().map(matcher).transpose()?;
    let root = workspace.existing(&wanted.path).map_err(|error| error.to_string())?;
    let mut found = Vec::new();
    let mut is_cut = false;
    let is_whole = walk(workspace, root.path(), stop, &mut |path| {
        let inside = path.strip_prefix(root.path()).unwrap_or(path);
        if only.as_ref().is_none_or(|only| only.is_match(inside)) {
            is_cut = !lines(&pattern, path, &shown(workspace, path), &mut found);
        }
        !is_cut
    });
    Ok(report(&found, "line", is_cut, is_whole))
}

fn outcome(result: Result<String, String>, stop: &Stop) -> Outcome {
    if stop.is_stopped() {
        return Outcome::interrupted();
    }
    match result {
        Ok(said) => Outcome::plain(ResultStatus::Ok, &said),
        Err(said) => Outcome::plain(ResultStatus::Error, &said),
    }
}

fn matcher(pattern: &str) -> Result<GlobMatcher, String> {
    let glob =
        GlobBuilder::new(pattern).literal_separator(true).build().map_err(|error| error.to_string())?;
    Ok(glob.compile_matcher())
}

fn shown(workspace: &Workspace, path: &Path) -> String {
    path.strip_prefix(workspace.root()).unwrap_or(path).to_string_lossy().into_owned()
}

fn report(found: &[String], what: &str, is_cut: bool, is_whole: bool) -> String {
    let mut said = match found.len() {
        0 => format!("No {what} was found."),
        _ => found.join("\n"),
    };
    if is_cut {
        said.push_str(&format!("\n(only the first {FOUND} are shown; look for something more exact)"));
    } else if !is_whole {
        said.push_str(&format!("\n(only {FILES} files were looked at; look in a smaller folder)"));
    }
    said
}

/// Each regular file at or below `root`, in the order of names, until `visit` says no. Whether all were seen.
fn walk(workspace: &Workspace, root: &Path, stop: &Stop, visit: &mut impl FnMut(&Path) -> bool) -> bool {
    let mut waiting: Vec<PathBuf> = vec![root.to_owned()];
    let mut seen = 0_usize;
    while let Some(path) = waiting.pop() {
        if stop.is_stopped() {
            return false;
        }
        let Ok(kind) = path.symlink_metadata() else { continue };
        if kind.is_file() {
            seen += 1;
            if seen > FILES {
                return false;
            }
            if !visit(&path) {
                return true;
            }
        } else if kind.is_dir() && path.file_name().is_none_or(|name| name != ".git") {
            // What is closed to the tools is closed to searches, too.
            let Ok(inside) = workspace.existing(&path.to_string_lossy()) else { continue };
            let Ok(entries) = std::fs::read_dir(inside.path()) else { continue };
            let mut below: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).take(FILES).collect();
            below.sort_by(|a, b| b.cmp(a));
            waiting.extend(below);
        }
    }
    true
}

/// Adds the lines of a file that fit; `false` where there were too many.
fn lines(pattern: &Regex, path: &Path, shown: &str, found: &mut Vec<String>) -> bool {
    let Ok(file) = File::open(path) else { return true };
    if file.metadata().map_or(true, |data| data.len() > FILE_BYTES || !data.is_file()) {
        return true;
    }
    let mut reader = BufReader::with_capacity(HEAD_BYTES, file.take(FILE_BYTES));
    if reader.fill_buf().is_ok_and(|head| head.contains(&0)) {
        return true;
    }
    let mut line = Vec::new();
    for number in 1.. {
        line.clear();
        match reader.read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => break,
            Ok(_) => {}
        }
        let said = String::from_utf8_lossy(&line);
        let said = said.trim_end_matches(['\n', '\r']);
        if pattern.is_match(said) {
            if found.len() >= FOUND {
                return false;
            }
            found.push(format!("{shown}:{number}: {}", text::one_line(said, LINE_CHARACTERS)));
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::stop_pair;

    fn world() -> (tempfile::TempDir, Workspace) {
        let directory = tempfile::tempdir().unwrap();
        for (path, content) in [
            ("a.rs", "fn main() {}\nlet x = 1;\n"),
            ("b/c.rs", "let y = 2;\n"),
            ("b/d.txt", "LET z\n"),
            (".git/config", "let secret\n"),
            ("closed/key", "let key\n"),
            ("data.bin", "let\0x\n"),
        ] {
            let path = directory.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, content).unwrap();
        }
        std::os::unix::fs::symlink("/etc", directory.path().join("out")).unwrap();
        let workspace = Workspace::open(directory.path()).unwrap().without(&directory.path().join("closed"));
        (directory, workspace)
    }

    fn grepped(workspace: &Workspace, pattern: &str, glob: Option<&str>, ignore_case: bool) -> String {
        let (_stopper, stop) = stop_pair();
        let wanted =
            Grep { pattern: pattern.into(), path: ".".into(), glob: glob.map(Into::into), ignore_case };
        grep(workspace, &wanted, &stop).text
    }

    #[test]
    fn files_are_found_by_path_and_by_line_inside_alone() {
        let (_directory, workspace) = world();
        let (_stopper, stop) = stop_pair();
        let globbed = |pattern: &str, path: &str| {
            glob(&workspace, &Glob { pattern: pattern.into(), path: path.into() }, &stop).text
        };
        assert_eq!(globbed("**/*.rs", "."), "a.rs\nb/c.rs");
        assert_eq!(globbed("*.rs", "."), "a.rs");
        assert_eq!(globbed("*.rs", "b"), "b/c.rs");
        assert_eq!(globbed("**/key", "."), "No file was found.");
        assert!(globbed("*", "..").contains("outside"));
        assert!(globbed("[", ".").contains("error"));
        assert_eq!(grepped(&workspace, "let", None, false), "a.rs:2: let x = 1;\nb/c.rs:1: let y = 2;");
        assert_eq!(grepped(&workspace, "let", Some("b/*"), true), "b/c.rs:1: let y = 2;\nb/d.txt:1: LET z");
        assert!(grepped(&workspace, "(", None, false).contains("regex"));
    }

    #[test]
    fn a_flood_is_cut_and_a_stop_is_heard() {
        let directory = tempfile::tempdir().unwrap();
        std::fs::write(directory.path().join("f"), "x\n".repeat(FOUND + 1)).unwrap();
        let workspace = Workspace::open(directory.path()).unwrap();
        let said = grepped(&workspace, "x", None, false);
        assert_eq!(said.lines().count(), FOUND + 1);
        assert!(said.ends_with("more exact)"));
        let (stopper, stop) = stop_pair();
        stopper.stop();
        let outcome = glob(&workspace, &Glob { pattern: "*".into(), path: ".".into() }, &stop);
        assert_eq!(outcome.status, ResultStatus::Interrupted);
    }
}
