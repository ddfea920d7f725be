//! The native side of aude.
