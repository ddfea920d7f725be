//! `cargo xtask up`: builds what is missing and becomes `aude up`.

use std::os::unix::process::CommandExt;
use std::process::Command;

use crate::command::{self, Failure};
use crate::{environment, web, workspace};

/// Builds the browser client and the programs, then replaces this process with `aude up`.
///
/// Replacing the process hands over the terminal: Ctrl-C reaches `aude up` alone, and its exit code is ours.
pub(crate) fn up(arguments: &[String]) -> Result<(), Failure> {
    let mut steps = web::steps_and(1)?;
    web::build(&mut steps)?;
    steps.step("programs", || {
        command::run(
            command::cargo()
                .args(["build", "--release", "--locked", "--package", "host"])
                .current_dir(workspace::root()),
            "Mend what it reports above and run this again.",
        )
    })?;
    let program = workspace::target()?.join("release/aude");
    let mut up = Command::new(&program);
    // What `aude up` starts works in other projects, whose builds must not see anything of this one.
    let error = environment::without_this_build(&mut up).arg("up").args(arguments).exec();
    Err(Failure::file("start", &program, &error))
}
