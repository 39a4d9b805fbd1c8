//! Tests of the one-thread world, and of the program beside it, in one program: it is compiled and linked once.

mod guide;
mod lag;
mod operator;
mod records;
#[path = "../../../upf/tests/support/mod.rs"]
mod support;
