//! The browser client of aude.
fn main() {}
