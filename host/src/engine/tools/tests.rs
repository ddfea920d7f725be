//! Tests of the tools.

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use proptest::prelude::*;
use serde_json::json;

use super::file;
use super::*;

fn workspace() -> (tempfile::TempDir, Workspace) {
    let directory = tempfile::tempdir().unwrap();
    let inside = directory.path().join("work 🦀");
    std::fs::create_dir(&inside).unwrap();
    let workspace = Workspace::open(&inside).unwrap();
    (directory, workspace)
}

fn reading(path: &str) -> ReadFile {
    ReadFile { path: path.into(), first_line: 1, lines: None }
}

fn editing(old: &str, new: &str) -> EditFile {
    EditFile { path: "f".into(), old: old.into(), new: new.into(), all: false }
}

fn put(workspace: &Workspace, path: &str, content: impl AsRef<[u8]>) {
    std::fs::write(workspace.root().join(path), content).unwrap();
}

fn content(workspace: &Workspace, path: &str) -> String {
    std::fs::read_to_string(workspace.root().join(path)).unwrap()
}

#[test]
fn a_call_has_a_title_a_class_and_exactly_its_fields() {
    for (tool, input, title, class) in [
        ("bash", json!({"command": "ls\n -la"}), "Run `ls -la`", ToolClass::Execute),
        (
            "write",
            json!({"path": "notes.txt", "content": "a\nb\n"}),
            "Write notes.txt (2 lines)",
            ToolClass::Edit,
        ),
        ("write", json!({"path": "n", "content": "a"}), "Write n (1 line)", ToolClass::Edit),
        ("edit", json!({"path": "n", "old": "a", "new": "b"}), "Edit n", ToolClass::Edit),
        ("read", json!({"path": "n\u{1b}[31m"}), "Read n", ToolClass::Read),
        ("todo", json!({"steps": [{"text": "a", "state": "done"}]}), "Plan 1 steps", ToolClass::Think),
    ] {
        let action = Action::read(tool, &input).unwrap();
        assert_eq!((action.title().as_str(), action.class()), (title, class));
    }
    for (tool, input) in [
        ("bash", json!({})),
        ("bash", json!({"command": "ls", "cwd": "/"})),
        ("read", json!({"path": 1})),
        ("fly", json!({})),
        ("edit", json!(null)),
    ] {
        assert!(Action::read(tool, &input).is_err(), "{tool} {input}");
    }
}

#[test]
fn a_time_limit_is_held_to_its_bounds() {
    for (asked, given) in [(None, 120), (Some(0), 1), (Some(30), 30), (Some(9999), 600)] {
        assert_eq!(RunCommand { command: String::new(), seconds: asked }.seconds().as_secs(), given);
    }
}

#[test]
fn a_file_is_read_in_whole_and_in_part() {
    let (_directory, workspace) = workspace();
    put(&workspace, "f", "one\ntwo\nthree");
    for (first_line, lines, expected) in [
        (1, None, "one\ntwo\nthree"),
        (2, Some(1), "two\n"),
        (3, Some(9), "three"),
        (9, None, ""),
        (1, Some(0), ""),
    ] {
        let result = file::read(&workspace, &ReadFile { path: "f".into(), first_line, lines });
        assert_eq!((result.status, result.text.as_str()), (ResultStatus::Ok, expected));
        assert_eq!(result.truncated, None);
    }
}

#[test]
fn what_is_read_is_bounded_and_clean() {
    let (_directory, workspace) = workspace();
    put(&workspace, "large", "x".repeat(limits::RESULT_BYTES + 10) + "\nrest");
    let result = file::read(&workspace, &reading("large"));
    assert_eq!((result.text.len(), result.truncated), (limits::RESULT_BYTES, Some(15)));
    put(&workspace, "large", "é\n".repeat(limits::RESULT_BYTES));
    let result = file::read(&workspace, &reading("large"));
    let whole = u64::try_from(limits::RESULT_BYTES * 3).unwrap();
    assert_eq!(u64::try_from(result.text.len()).unwrap() + result.truncated.unwrap(), whole);
    put(&workspace, "odd", b"a\xff\x1b[31mb\r\n");
    assert_eq!(file::read(&workspace, &reading("odd")).text, "a\u{fffd}b\n");
}

#[test]
fn what_is_no_file_inside_is_not_read() {
    let (directory, workspace) = workspace();
    std::fs::write(directory.path().join("secret"), "x").unwrap();
    symlink("../secret", workspace.root().join("link")).unwrap();
    nix::unistd::mkfifo(&workspace.root().join("fifo"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    for path in ["link", "../secret", "/etc/passwd", "absent", ".", "fifo"] {
        let result = file::read(&workspace, &reading(path));
        assert_eq!(result.status, ResultStatus::Error, "{path}");
    }
}

#[test]
fn a_new_file_is_written_with_its_folders_and_shown() {
    let (_directory, workspace) = workspace();
    let result = file::write(&workspace, &WriteFile { path: "a/b/f".into(), content: "one\ntwo\n".into() });
    assert_eq!(result.status, ResultStatus::Ok, "{}", result.text);
    assert_eq!(content(&workspace, "a/b/f"), "one\ntwo\n");
    let diff = result.diff.unwrap();
    assert_eq!((diff.path.as_str(), diff.before, diff.after.as_deref()), ("a/b/f", None, Some("one\ntwo\n")));
}

#[test]
fn a_written_file_keeps_its_permissions_and_leaves_nothing_beside_it() {
    let (_directory, workspace) = workspace();
    put(&workspace, "f", "old");
    std::fs::set_permissions(workspace.root().join("f"), std::fs::Permissions::from_mode(0o751)).unwrap();
    let result = file::write(&workspace, &WriteFile { path: "f".into(), content: "new".into() });
    let diff = result.diff.unwrap();
    assert_eq!((diff.before.as_deref(), diff.after.as_deref()), (Some("old"), Some("new")));
    let mode = std::fs::metadata(workspace.root().join("f")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o751);
    assert_eq!(std::fs::read_dir(workspace.root()).unwrap().count(), 1);
}

#[test]
fn what_leads_out_is_not_written() {
    let (directory, workspace) = workspace();
    std::fs::create_dir(directory.path().join("outside")).unwrap();
    std::fs::write(directory.path().join("secret"), "x").unwrap();
    symlink("../outside", workspace.root().join("out")).unwrap();
    symlink("../secret", workspace.root().join("link")).unwrap();
    std::fs::create_dir(workspace.root().join("folder")).unwrap();
    for path in ["../new", "out/new", "link", "/tmp/aude-test-new", "folder", "", "a/../../new"] {
        let result = file::write(&workspace, &WriteFile { path: path.into(), content: "y".into() });
        assert_eq!(result.status, ResultStatus::Error, "{path}");
    }
    assert_eq!(std::fs::read_to_string(directory.path().join("secret")).unwrap(), "x");
    assert_eq!(std::fs::read_dir(directory.path().join("outside")).unwrap().count(), 0);
    assert!(!Path::new("/tmp/aude-test-new").exists());
}

#[test]
fn an_edit_is_exact_and_unique() {
    let (_directory, workspace) = workspace();
    put(&workspace, "f", "one two one");
    for (old, part) in
        [("three", "does not occur"), ("one", "occurs 2 times"), ("", "is empty"), ("new", "the same")]
    {
        let result = file::edit(&workspace, &editing(old, "new"));
        assert_eq!(result.status, ResultStatus::Error);
        assert!(result.text.contains(part), "{}", result.text);
        assert_eq!(content(&workspace, "f"), "one two one");
    }
    let result = file::edit(&workspace, &editing("two", "2"));
    assert_eq!((result.status, content(&workspace, "f").as_str()), (ResultStatus::Ok, "one 2 one"));
    assert_eq!(result.diff.unwrap().before.as_deref(), Some("one two one"));
    let all = EditFile { all: true, ..editing("one", "1") };
    assert_eq!(file::edit(&workspace, &all).text, "Changed 2 places in f.");
    assert_eq!(content(&workspace, "f"), "1 2 1");
}

#[test]
fn an_edit_keeps_the_line_ends_of_the_file() {
    let (_directory, workspace) = workspace();
    put(&workspace, "f", "one\r\ntwo\r\nthree\r\n");
    assert_eq!(file::edit(&workspace, &editing("one\ntwo", "1\n2")).status, ResultStatus::Ok);
    assert_eq!(content(&workspace, "f"), "1\r\n2\r\nthree\r\n");
}

#[test]
fn a_large_file_is_changed_with_a_patch() {
    let (_directory, workspace) = workspace();
    let lines: String = (1..20_000).map(|number| format!("line {number}\n")).collect();
    put(&workspace, "f", &lines);
    let diff = file::edit(&workspace, &editing("line 500\nline 501\n", "changed\n")).diff.unwrap();
    assert_eq!((diff.before, diff.after), (None, None));
    let patch = diff.patch.unwrap();
    assert!(patch.contains("@@ -497,8 +497,7 @@"), "{patch}");
    assert!(patch.contains("-line 500\n-line 501\n") && patch.contains("+changed\n"), "{patch}");
}

#[test]
fn what_is_no_text_is_not_edited() {
    let (_directory, workspace) = workspace();
    put(&workspace, "f", b"a\xffb");
    assert_eq!(file::edit(&workspace, &editing("a", "b")).status, ResultStatus::Error);
    put(&workspace, "f", vec![b'a'; 9 * 1024 * 1024]);
    assert!(file::edit(&workspace, &editing("a", "b")).text.contains("larger than"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]
    #[test]
    fn an_edit_changes_that_place_and_no_other(before in "[ab\n]{0,30}", old in "[ab\n]{1,4}", new in "[abc]{0,4}") {
        let (_directory, workspace) = workspace();
        put(&workspace, "f", &before);
        let result = file::edit(&workspace, &editing(&old, &new));
        let after = content(&workspace, "f");
        let is_unique = before.matches(&old).count() == 1;
        prop_assert_eq!(result.status == ResultStatus::Ok, is_unique && old != new);
        if result.status == ResultStatus::Ok {
            prop_assert_eq!(after, before.replacen(&old, &new, 1));
        } else {
            prop_assert_eq!(after, before);
        }
    }
}
