//! `check`, `test`, `bench` and `schema`: one set of flags for all, so that nothing compiles twice.

use std::path::Path;
use std::process::Command;

use crate::command::{self, Failure};
use crate::report::Steps;
use crate::tools::{self, TestTools};
use crate::versions::WASM_TARGET;
use crate::{dependencies, programs, web, workspace};

/// The native crates, with the feature that the schema test needs.
const NATIVE: [&str; 5] = ["--workspace", "--exclude", "web", "--features", "shared/schema"];

const MEND: &str = "Mend what it reports above and run this again.";

/// The fast subset that a developer runs before each commit.
pub(crate) fn check() -> Result<(), Failure> {
    workspace::create_web_dist()?;
    let mut steps = Steps::new(4);
    static_checks(&mut steps)?;
    steps.step("unit tests", || command::run(cargo("test").args(NATIVE).args(["--lib", "--bins"]), MEND))
}

/// Everything that the gate needs; `filters` go to the test runner.
pub(crate) fn test(filters: &[String]) -> Result<(), Failure> {
    workspace::create_web_dist()?;
    let mut steps = Steps::new(tools::TEST_STEPS + 10);
    steps.step("dependencies", dependencies::check)?;
    let tools = tools::for_tests(&mut steps)?;
    static_checks(&mut steps)?;
    steps.step("documentation", || {
        command::run(cargo("doc").arg("--no-deps").args(NATIVE).env("RUSTDOCFLAGS", "-D warnings"), MEND)
    })?;
    steps.step("browser client", || web::build_with(&tools.web))?;
    steps.step("programs and tests", || {
        // Tests are selected too: with them cargo settles on the features that the runner below asks for.
        command::run(cargo("build").args(NATIVE).args(["--lib", "--bins", "--tests"]), MEND)
    })?;
    steps
        .step("tests in the documentation", || command::run(cargo("test").args(NATIVE).arg("--doc"), MEND))?;
    steps.step("vectors of the protocol in wasm", || {
        // The natively compiled ones are among the tests below; here the browser's copy reads the same files.
        let mut cargo = cargo("test");
        cargo
            .args(["--package", "shared", "--target", WASM_TARGET, "--test", "vectors"])
            .env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", &tools.web.test_runner);
        command::run(&mut cargo, MEND)
    })?;
    // Last, without a line after it: the end of the output belongs to the test runner.
    steps.announce("tests");
    command::run(&mut runner(&tools, filters)?, MEND)
}

/// The benchmarks. They print figures and assert nothing.
pub(crate) fn bench(arguments: &[String]) -> Result<(), Failure> {
    const MEASURED: [&str; 5] = ["--workspace", "--exclude", "web", "--exclude", "xtask"];
    workspace::create_web_dist()?;
    // Some of them measure the program; with the benchmarks selected too, both are built with the same features.
    let mut build = cargo("build");
    command::run(build.args(["--release", "--bins", "--benches"]).args(MEASURED), MEND)?;
    let mut bench = cargo("bench");
    bench.args(MEASURED).args(arguments).env("AUDE_BIN", workspace::target()?.join("release/aude"));
    bench.env("AURA_BIN", workspace::target()?.join("release/aura"));
    command::run(&mut bench, MEND)
}

/// Writes the JSON Schema of the wire again; the test that holds it current does the work.
pub(crate) fn schema() -> Result<(), Failure> {
    // With the flags of all other commands; the name alone selects the test.
    command::run(cargo("test").args(NATIVE).args(["--test", "schema"]).env("UPDATE_SCHEMA", "1"), MEND)
}

fn static_checks(steps: &mut Steps) -> Result<(), Failure> {
    steps.step("format", || {
        command::run(cargo("fmt").args(["--all", "--", "--check"]), "Run `cargo fmt --all`.")
    })?;
    steps.step("lints, native", || {
        command::run(cargo("clippy").args(NATIVE).args(["--all-targets", "--", "-D", "warnings"]), MEND)
    })?;
    steps.step("lints, browser client", || {
        command::run(
            cargo("clippy").args(["--package", "web", "--target", WASM_TARGET, "--", "-D", "warnings"]),
            MEND,
        )
    })
}

/// cargo-nextest where it is installed, for its time limits and its isolation; else cargo's own runner.
fn runner(tools: &TestTools, filters: &[String]) -> Result<Command, Failure> {
    let mut runner = if programs::find(&["cargo-nextest"]).is_some() {
        let mut cargo = cargo("nextest");
        cargo.arg("run").args(NATIVE).args(filters);
        cargo
    } else {
        let mut cargo = cargo("test");
        cargo.args(NATIVE).args(["--no-fail-fast", "--lib", "--bins", "--tests"]);
        if !filters.is_empty() {
            cargo.arg("--").args(filters);
        }
        cargo
    };
    runner
        .env("AUDE_BIN", workspace::target()?.join("debug/aude"))
        .env("AURA_BIN", workspace::target()?.join("debug/aura"))
        .env("AUDE_WEB_DIST", workspace::web_dist())
        .env("AUDE_CHROMIUM", &tools.chromium)
        .envs(tools.agents.iter().map(|(variable, program)| (variable, program)));
    Ok(runner)
}

fn cargo(subcommand: &str) -> Command {
    let root: &Path = workspace::root();
    let mut cargo = command::cargo();
    cargo.arg(subcommand).current_dir(root);
    cargo
}
