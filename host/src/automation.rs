//! The automation contract of `aura`, API version 1: what unattended controllers rely on, offline and over HTTP.

pub mod book;
pub mod error;
pub mod event;
pub mod failure;
pub mod journal;
pub mod run;
pub mod store;

#[cfg(windows)]
compile_error!("aura keeps its promises about files on Linux and macOS only");
