//! Tests of the one-thread world, and of the program beside it, in one program: it is compiled and linked once.

#[path = "../support/draw.rs"]
mod draw;
mod fuzz;
mod guide;
mod lag;
mod operator;
mod policers;
mod records;
#[path = "../support/mod.rs"]
mod support;
mod transfer;
mod world;
