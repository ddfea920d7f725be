//! The versions of every tool that the project installs, in one place.

/// Builds the browser client. 0.22 needs a newer Rust than the one in rust-toolchain.toml.
pub(crate) const TRUNK: &str = "0.21.14";

/// Must be equal to the `wasm-bindgen` of web/Cargo.toml, else the two do not fit together.
pub(crate) const WASM_BINDGEN: &str = "0.2.129";

/// The npm package that brings wasm-opt where Debian's `binaryen` cannot be installed.
pub(crate) const NPM_BINARYEN: &str = "132.0.0";

/// The coding agent that the end-to-end tests drive; the tests rely on this version's messages.
pub(crate) const CLAUDE_CODE: &str = "2.1.332";

/// OpenAI's coding agent, likewise.
pub(crate) const CODEX: &str = "0.171.0";

/// The target of the browser client.
pub(crate) const WASM_TARGET: &str = "wasm32-unknown-unknown";

#[cfg(test)]
mod tests {
    #[test]
    fn wasm_bindgen_is_the_one_that_the_browser_client_pins() {
        let manifest = include_str!("../../web/Cargo.toml");
        let pinned = format!("wasm-bindgen = \"={}\"", super::WASM_BINDGEN);
        assert!(manifest.lines().any(|line| line == pinned), "web/Cargo.toml must have the line {pinned}");
    }
}
