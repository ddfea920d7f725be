//! The aude-wire protocol.
