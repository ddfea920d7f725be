//! Makes sure that the folder exists which the program embeds, so that it builds before the browser client does.

use std::path::Path;

fn main() {
    let dist = Path::new(env!("CARGO_MANIFEST_DIR")).join("../web/dist");
    // A folder that cannot be made shows as an error of the embedding itself, with its path.
    let _ = std::fs::create_dir_all(&dist);
    println!("cargo:rerun-if-changed=../web/dist");
    println!("cargo:rerun-if-changed=build.rs");
}
