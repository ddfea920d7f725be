//! The rules of ARCHITECTURE.md that a machine can see: who may name whom, small files, no unfinished work, no path of a machine.
#![allow(clippy::expect_used, reason = "a test that cannot go on should stop where it stands")]

use std::fs;
use std::path::{Path, PathBuf};

use tests::programs::workspace;

/// The longest file, in lines: beyond it there is surely more than one idea in it.
const LONGEST: usize = 800;

/// The Rust files below a folder of the project, by their paths in it.
fn sources(folder: &str) -> Vec<(PathBuf, String)> {
    let mut files = Vec::new();
    collect(&workspace().join(folder), &mut files);
    assert!(!files.is_empty(), "{folder} has no Rust files");
    files
}

fn collect(folder: &Path, files: &mut Vec<(PathBuf, String)>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a source file");
            files.push((path.strip_prefix(workspace()).expect("a path below").to_owned(), text));
        }
    }
}

/// The files below `folder` that name one of `words` and are not below one of `allowed`.
fn offenders(folder: &str, words: &[&str], allowed: &[&str]) -> Vec<PathBuf> {
    let is_allowed = |path: &Path| {
        let path = path.to_string_lossy();
        allowed.iter().any(|prefix| path.starts_with(prefix))
    };
    let all = sources(folder).into_iter();
    let named = all.filter(|(path, text)| !is_allowed(path) && words.iter().any(|word| text.contains(word)));
    named.map(|(path, _)| path).collect()
}

#[test]
fn the_arrows_of_the_architecture_hold() {
    let nobody: Vec<PathBuf> = Vec::new();
    assert_eq!(
        offenders("host/src", &["axum::"], &["host/src/listener", "host/src/automation/http"]),
        nobody,
        "axum is the listener's and the automation door's alone"
    );
    assert_eq!(
        offenders("shared/src", &["snow::"], &["shared/src/channel"]),
        nobody,
        "snow is the channel's alone"
    );
    assert_eq!(offenders("host/src", &["snow::"], &[]), nobody, "snow is the channel's alone");
    assert_eq!(offenders("host/src", &["leptos"], &[]), nobody, "leptos is the page's alone");
    let outer = ["crate::listener", "crate::identity", "crate::session", "crate::cli::", "crate::client"];
    for inner in ["host/src/harness", "host/src/engine", "host/src/process", "host/src/log"] {
        assert_eq!(offenders(inner, &outer, &[]), nobody, "{inner} sees no frame, socket or device");
    }
    let agents = ["crate::harness", "crate::engine", "crate::session", "crate::cli::"];
    for folder in ["host/src/listener", "host/src/identity"] {
        assert_eq!(offenders(folder, &agents, &[]), nobody, "{folder} never sees an agent");
    }
    assert_eq!(offenders("host/src/session", &["crate::listener", "crate::cli::"], &[]), nobody);
}

#[test]
fn shared_reads_no_clock_and_does_no_input_or_output() {
    let words =
        ["std::fs", "std::net::Tcp", "std::net::Udp", "std::thread", "SystemTime", "Instant::now", "tokio"];
    assert_eq!(offenders("shared/src", &words, &[]), Vec::<PathBuf>::new());
}

#[test]
fn the_page_holds_no_test_that_nothing_would_run() {
    // It is compiled for the browser alone; what can be tried without one belongs to `shared`.
    assert_eq!(offenders("web/src", &[concat!("#[", "test]"), "cfg(test)"], &[]), Vec::<PathBuf>::new());
}

#[test]
fn files_are_small_finished_and_know_no_machine() {
    // Written in two parts, so that this file does not find itself.
    let unfinished = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("FIX", "ME")];
    let places = [concat!("/wo", "rk/main"), concat!("/wo", "rk/wt"), concat!("/ro", "ot/")];
    for folder in ["shared", "host/src", "host/tests", "web/src", "tests", "xtask/src"] {
        for (path, text) in sources(folder) {
            assert!(text.lines().count() <= LONGEST, "{} is longer than {LONGEST} lines", path.display());
            let is_test = path.ends_with("tests.rs");
            assert!(
                is_test || text.starts_with("//!"),
                "{} does not begin with what it is for",
                path.display()
            );
            for word in unfinished.iter().chain(&places) {
                assert!(!text.contains(word), "{} holds {word}", path.display());
            }
        }
    }
}
