//! Tests of the script provider.
