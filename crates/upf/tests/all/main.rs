//! Tests of the one-thread world in one program: it is compiled and linked once.

mod accelerated;
mod policers;
mod reconfigure;
mod session_store;
#[path = "../support/store.rs"]
mod store;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
mod world;
