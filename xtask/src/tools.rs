//! Makes sure that the tools which the builds and the tests need are on this machine.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::agents::AGENTS;
use crate::cache::{self, Cache};
use crate::command::{self, Failure};
use crate::report::Steps;
use crate::versions::{TRUNK, WASM_BINDGEN, WASM_TARGET};
use crate::{programs, report, wasm_opt};

/// What `trunk build` needs.
pub(crate) struct WebTools {
    /// The program.
    pub(crate) trunk: PathBuf,
    /// Folders for the front of `PATH`: wasm-bindgen and, where it is not on `PATH` already, wasm-opt.
    pub(crate) path: Vec<PathBuf>,
    /// Runs tests that were compiled to wasm.
    pub(crate) test_runner: PathBuf,
}

/// What the end-to-end tests need.
pub(crate) struct TestTools {
    pub(crate) web: WebTools,
    pub(crate) chromium: PathBuf,
    /// The real agents, each with the variable that tells the tests where it is.
    pub(crate) agents: Vec<(&'static str, PathBuf)>,
}

/// How many steps [`for_web`] takes.
pub(crate) const WEB_STEPS: usize = 4;

/// How many steps [`for_tests`] takes.
pub(crate) const TEST_STEPS: usize = WEB_STEPS + 1 + AGENTS.len();

/// Installs what the build of the browser client needs.
pub(crate) fn for_web(steps: &mut Steps) -> Result<WebTools, Failure> {
    web(&Cache::open()?, steps)
}

/// Installs what the builds and the tests need.
pub(crate) fn for_tests(steps: &mut Steps) -> Result<TestTools, Failure> {
    let cache = Cache::open()?;
    // The quick ones that can fail come first.
    let chromium = steps.step("Chromium", chromium)?;
    let mut agents = Vec::new();
    for agent in &AGENTS {
        let program = steps.step(format!("{} {}", agent.name, agent.version), || agent.program(&cache))?;
        agents.push((agent.variable, program));
    }
    let web = web(&cache, steps)?;
    Ok(TestTools { web, chromium, agents })
}

fn web(cache: &Cache, steps: &mut Steps) -> Result<WebTools, Failure> {
    steps.step(format!("Rust's target {WASM_TARGET}"), wasm_target)?;
    let optimizer = steps.step("wasm-opt", || wasm_opt::folder(cache))?;
    let bindgen = steps.step(format!("wasm-bindgen {WASM_BINDGEN}"), || {
        cargo_installed(cache, "wasm-bindgen-cli", WASM_BINDGEN, &[], "about 2 minutes")
    })?;
    let trunk = steps.step(format!("Trunk {TRUNK}"), || {
        // Without its default features Trunk has no TLS and no check for updates; it downloads nothing here.
        cargo_installed(cache, "trunk", TRUNK, &["--no-default-features"], "about 4 minutes")
    })?;
    // Kept until both are there: what they have in common is compiled once, and a killed installation goes on.
    cache::remove_folder(&cache.folder(COMMON_TARGET))?;
    let test_runner = bindgen.join("bin/wasm-bindgen-test-runner");
    let mut path = vec![bindgen.join("bin")];
    path.extend(optimizer);
    Ok(WebTools { trunk: trunk.join("bin/trunk"), path, test_runner })
}

fn wasm_target() -> Result<(), Failure> {
    let library =
        command::output(Command::new("rustc").args(["--print", "target-libdir", "--target", WASM_TARGET]));
    if library.is_some_and(|folder| Path::new(&folder).is_dir()) {
        return Ok(());
    }
    command::run(
        Command::new("rustup").args(["target", "add", WASM_TARGET]),
        "Install the standard library of this target for the toolchain in rust-toolchain.toml and run this again.",
    )
}

const COMMON_TARGET: &str = "tools/target";

fn cargo_installed(
    cache: &Cache,
    name: &str,
    version: &str,
    flags: &[&str],
    time: &str,
) -> Result<PathBuf, Failure> {
    cache.installed(&format!("tools/{name}-{version}"), |folder| {
        report::note(format!("compiling it once for all clones: {time} on two cores"));
        let mut cargo = command::cargo();
        cargo
            .args(["install", name, "--version", version, "--locked", "--force", "--root"])
            .arg(folder)
            .args(flags)
            .env("CARGO_TARGET_DIR", cache.folder(COMMON_TARGET))
            // Trunk's own profile optimises across all crates and takes twice the time; what it does here is small.
            .env("CARGO_PROFILE_RELEASE_LTO", "off")
            .env("CARGO_PROFILE_RELEASE_CODEGEN_UNITS", "16")
            .env("CARGO_PROFILE_RELEASE_OPT_LEVEL", "1")
            // Outside of the clone, whose settings are not for other projects.
            .current_dir(folder);
        command::run(&mut cargo, &format!("Check that cargo reaches its registry, or see what {name} needs to compile, and run this again."))
    })
}

fn chromium() -> Result<PathBuf, Failure> {
    const NAMES: [&str; 3] = ["chromium", "chromium-browser", "google-chrome"];
    if let Some(named) = std::env::var_os("AUDE_CHROMIUM") {
        return Ok(PathBuf::from(named));
    }
    if let Some(found) = programs::find(&NAMES) {
        return Ok(found);
    }
    if programs::can_install_debian_packages() {
        programs::install_debian_packages(&["chromium", "chromium-driver", "fonts-dejavu-core"])?;
    }
    programs::find(&NAMES).ok_or_else(|| {
        Failure::new(
            "The tests need Chromium: install it, or name the program in AUDE_CHROMIUM, and run this again.",
        )
    })
}
