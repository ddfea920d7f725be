//! Every sentence that a person reads, in the language of the browser. English is what [`Words`] says by itself; another language is a
//! module here whose type says the same in its own words, and a line in [`choose`].

mod english;

use std::sync::OnceLock;

use leptos::prelude::window;

pub(crate) use english::Words;

/// English, as [`Words`] says it.
struct English;

impl Words for English {}

/// The words of the browser's language.
pub(crate) fn t() -> &'static dyn Words {
    static CHOSEN: OnceLock<&'static (dyn Words + Sync)> = OnceLock::new();
    *CHOSEN.get_or_init(|| choose(&window().navigator().language().unwrap_or_default()))
}

fn choose(_language: &str) -> &'static (dyn Words + Sync) {
    &English
}
