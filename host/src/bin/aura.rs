//! The `aura` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    // The guard comes before anything else: it is what starts every tool, and must not depend on configuration or a terminal.
    if arguments.next().is_some_and(|first| first == "guard") {
        return host::process::guard::guard_main(arguments);
    }
    host::aura::main()
}
