//! Builders: the outer headers of a tunnel, signalling replies, and whole packets for tests and the simulator.
//!
//! What is on the packet's way ([`GtpuTemplate`]) writes into headroom and allocates nothing; replies write into the
//! caller's buffer; [`packet`] builds vectors.

pub mod packet;
mod relay;
mod reply;
mod template;

pub use relay::{RelayedContainer, RelayedOptionalPart, relay_optional_part};
pub use reply::{
    Envelope, Signalling, echo_request, echo_response, end_marker, error_indication,
    supported_extension_headers_notification,
};
pub use template::{
    GtpuEncap, GtpuTemplate, Marking, PerPacket, TEMPLATE4_LEN, TEMPLATE6_LEN, Template, Template4,
    Template6, fill_udp_checksum,
};
