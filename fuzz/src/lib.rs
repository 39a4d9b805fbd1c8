//! What the fuzz targets do with an input: a function each, without the fuzzer's runtime, so that a test of the stable
//! toolchain calls them, too (`crates/trace/tests/fuzz.rs`).

pub mod capture_file;
pub mod domain_lists;
pub mod dpi;
pub mod icmp;
pub mod inband_channel;
pub mod inband_messages;
pub mod lacp;
pub mod n4_datagrams;
pub mod neighbours;
pub mod packet_frame;
pub mod packet_gtpu;
pub mod pfcp_message;
pub mod sdf_filter;
pub mod session_record;
pub mod store_segment;
pub mod worker_frames;
