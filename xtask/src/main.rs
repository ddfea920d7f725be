//! The project's own commands: `cargo xtask COMMAND` builds, runs, checks and tests everything.

mod agents;
mod cache;
mod command;
mod dependencies;
mod environment;
mod programs;
mod report;
mod test;
mod tools;
mod up;
mod versions;
mod wasm_opt;
mod web;
mod workspace;

use std::process::ExitCode;

use command::Failure;
use report::Steps;

const HELP: &str = "\
cargo xtask COMMAND

  up [-- ARGUMENTS]      build what is missing, then start the listener and a first session (`aude up ARGUMENTS`)
  check                  the fast subset to run before each commit: format, lints, unit tests
  test [-- FILTERS]      everything the gate needs: tools, format, lints, documentation, wasm build, all tests
  bench [-- ARGUMENTS]   the benchmarks (`cargo bench`); they print figures and assert nothing
  web                    build the browser client into web/dist if its sources changed
  schema                 write sdk/conformance/wire.schema.json again from the types
  tools [web | test]     install what the builds (web) or the builds and the tests (test, the default) need
  help                   this text
";

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().unwrap_or_else(|| "help".to_owned());
    let rest: Vec<String> = arguments.collect();
    match run(&name, &rest) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            report::failure(&failure);
            ExitCode::FAILURE
        }
    }
}

fn run(name: &str, arguments: &[String]) -> Result<(), Failure> {
    // `cargo xtask up -- --port 1` and `cargo xtask up --port 1` mean the same.
    let rest = match arguments.split_first() {
        Some((first, rest)) if first == "--" => rest,
        _ => arguments,
    };
    match (name, rest) {
        ("up", _) => up::up(rest),
        ("test", _) => test::test(rest),
        ("bench", _) => test::bench(rest),
        ("check", []) => test::check(),
        ("schema", []) => test::schema(),
        ("web", []) => web::steps_and(0).and_then(|mut steps| web::build(&mut steps)),
        ("tools", []) => tools::for_tests(&mut Steps::new(tools::TEST_STEPS)).map(|_| ()),
        ("tools", [group]) if group == "test" => {
            tools::for_tests(&mut Steps::new(tools::TEST_STEPS)).map(|_| ())
        }
        ("tools", [group]) if group == "web" => tools::for_web(&mut Steps::new(tools::WEB_STEPS)).map(|_| ()),
        ("help" | "--help" | "-h", _) => {
            report::text(HELP);
            Ok(())
        }
        _ => Err(Failure::new(format!(
            "`cargo xtask {}` is not a command. Run `cargo xtask help` for the list.",
            std::iter::once(name).chain(rest.iter().map(String::as_str)).collect::<Vec<_>>().join(" ")
        ))),
    }
}
