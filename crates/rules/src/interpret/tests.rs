//! Interpreting.
