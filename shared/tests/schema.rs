//! The committed schema is the one that the types give; `cargo xtask schema` writes it anew.
#![cfg(feature = "schema")]

use std::fs;
use std::path::Path;

#[test]
fn the_committed_schema_is_current() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../sdk/conformance/wire.schema.json");
    let mut current = serde_json::to_string_pretty(&shared::schema::wire_schema()).expect("a schema is JSON");
    current.push('\n');
    if std::env::var_os("UPDATE_SCHEMA").is_some() {
        fs::write(&path, &current).expect("the schema can be written");
    }
    let committed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        committed == current,
        "the types have changed; run `cargo xtask schema` and commit {}",
        path.display()
    );
}
