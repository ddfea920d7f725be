//! The browser client of aude.
fn main() { leptos::mount::mount_to_body(|| leptos::prelude::view!{ <p>"x"</p> }); }
