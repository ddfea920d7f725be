//! Holds the dependencies to two rules: Cargo.lock is current, and every licence is one that the project's own allows.

use std::process::Command;

use crate::command::{self, Failure};
use crate::versions::WASM_TARGET;
use crate::workspace;

/// Permissive licences that MIT OR Apache-2.0 programs may contain.
const ALLOWED: [&str; 11] = [
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Zlib",
];

/// Checks the native programs and the browser client, with what their tests and build scripts use.
pub(crate) fn check() -> Result<(), Failure> {
    let native = tree(&["--workspace", "--exclude", "web"])?;
    let web = tree(&["--package", "web", "--target", WASM_TARGET])?;
    let refused: Vec<String> = native
        .lines()
        .chain(web.lines())
        .filter_map(|line| line.split_once('|'))
        .filter(|(_, licence)| !is_allowed(licence.trim_end_matches(" (*)")))
        .map(|(package, licence)| format!("{package} ({licence:?})"))
        .collect();
    if refused.is_empty() {
        Ok(())
    } else {
        Err(Failure::new(format!(
            "These dependencies have a licence that is not on the list in xtask/src/dependencies.rs: {}. Use others, or add the licence there with a reason.",
            refused.join(", ")
        )))
    }
}

fn tree(selection: &[&str]) -> Result<String, Failure> {
    let mut cargo: Command = command::cargo();
    cargo
        .args(["tree", "--locked", "--prefix", "none", "--format", "{p}|{l}"])
        .args(selection)
        .current_dir(workspace::root());
    command::output(&mut cargo).ok_or_else(|| {
        Failure::new("Cargo.lock is not current, or a dependency cannot be had. Run `cargo check`, and commit Cargo.lock.")
    })
}

/// Whether an SPDX expression can be met by allowed licences alone. `AND` binds closer than `OR`; `/` is an old `OR`.
fn is_allowed(expression: &str) -> bool {
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut rest = words.as_slice();
    let allowed = either(&mut rest);
    allowed && rest.is_empty()
}

fn either(rest: &mut &[&str]) -> bool {
    let mut allowed = both(rest);
    while let Some((&"OR", after)) = rest.split_first() {
        *rest = after;
        // No short cut: the right side must be read in any case.
        allowed |= both(rest);
    }
    allowed
}

fn both(rest: &mut &[&str]) -> bool {
    let mut allowed = one(rest);
    while let Some((&"AND", after)) = rest.split_first() {
        *rest = after;
        allowed &= one(rest);
    }
    allowed
}

fn one(rest: &mut &[&str]) -> bool {
    match **rest {
        ["(", ref after @ ..] => {
            *rest = after;
            let allowed = either(rest);
            match rest.split_first() {
                Some((&")", after)) => {
                    *rest = after;
                    allowed
                }
                _ => false,
            }
        }
        [licence, "WITH", exception, ref after @ ..] => {
            *rest = after;
            ALLOWED.contains(&format!("{licence} WITH {exception}").as_str())
        }
        [licence, ref after @ ..] => {
            *rest = after;
            ALLOWED.contains(&licence)
        }
        [] => false,
    }
}

#[cfg(test)]
mod tests {
    use super::is_allowed;

    #[test]
    fn expressions_are_met_by_allowed_licences_alone() {
        for allowed in [
            "MIT",
            "MIT OR Apache-2.0",
            "MIT/Apache-2.0",
            "Unlicense OR MIT",
            "(MIT OR Apache-2.0) AND Unicode-3.0",
            "Apache-2.0 WITH LLVM-exception OR GPL-3.0",
            "GPL-3.0 AND MIT OR ISC",
        ] {
            assert!(is_allowed(allowed), "{allowed}");
        }
        for refused in [
            "",
            "GPL-3.0-or-later",
            "MIT AND GPL-3.0",
            "MIT AND (GPL-3.0 OR LGPL-2.1)",
            "(MIT",
            "MIT)",
            "MIT MIT",
            "MIT WITH Surprise",
        ] {
            assert!(!is_allowed(refused), "{refused}");
        }
    }
}
