//! Tests of the turn loop.
