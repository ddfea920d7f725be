//! The `aude` program.
fn main() {}
