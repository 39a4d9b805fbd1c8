//! Tests of the one-thread world in one program: it is compiled and linked once.

mod policers;
mod reconfigure;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
mod world;
