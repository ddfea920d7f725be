//! The automation contract of `aura`, API version 1: what unattended controllers rely on, offline and over HTTP.

pub mod book;
pub mod core;
pub mod course;
pub mod error;
pub mod event;
pub mod failure;
pub mod http;
pub mod journal;
pub mod launcher;
pub mod live;
pub mod ready;
pub mod run;
pub mod shown;
pub mod store;
pub mod token;

#[cfg(windows)]
compile_error!("aura keeps its promises about files on Linux and macOS only");
