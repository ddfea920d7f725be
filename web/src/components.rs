//! What is drawn: each component takes data and gives callbacks.

pub(crate) mod composer;
pub(crate) mod connection;
pub(crate) mod dialog;
pub(crate) mod icon;
pub(crate) mod item;
pub(crate) mod markdown;
pub(crate) mod pending;
pub(crate) mod questions;
pub(crate) mod scroller;
pub(crate) mod settings;
pub(crate) mod state_chip;
pub(crate) mod tool;
