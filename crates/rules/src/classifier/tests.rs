//! Matching and keys.
