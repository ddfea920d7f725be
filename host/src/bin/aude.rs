//! The `aude` program.

use std::process::ExitCode;

fn main() -> ExitCode {
    let mut arguments = std::env::args_os().skip(1);
    match arguments.next() {
        // The guard comes before anything else: it is what starts every agent, and must not depend on configuration or a terminal.
        Some(first) if first == "guard" => host::process::guard::guard_main(arguments),
        Some(first) if first == "host" => host::session::host::host_main(arguments),
        Some(_) | None => ExitCode::SUCCESS,
    }
}
