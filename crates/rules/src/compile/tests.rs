//! Compiling.
