//! Raw bindings to the distribution's DPDK, for the crate `dpdk` alone.
//!
//! Two sources make up what is here: the distribution's bindgen, restricted to the functions that Sluice calls (the
//! list is in `build.rs`, and has nothing experimental in it), and `shim/`, which gives DPDK's inline functions a
//! symbol. A shim call costs about a nanosecond, so there is one per burst; the fields of a packet buffer are read
//! through the `MBUF_*` offsets instead.
//!
//! No state lives here. Nothing is checked: every precondition is DPDK's, and `dpdk` keeps them.

#[allow(
    clippy::all,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unnecessary_transmutes,
    unsafe_op_in_unsafe_fn,
    unused_qualifications
)]
mod bindings {
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

pub use bindings::*;
