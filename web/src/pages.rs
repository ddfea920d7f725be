//! The pages: each joins components to the state.

pub(crate) mod pair;
pub(crate) mod session;
pub(crate) mod sessions;
pub(crate) mod start;
