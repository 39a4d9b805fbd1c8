//! The log's events for a collector: IPFIX messages (RFC 7011) with the port block events of a NAT (RFC 8158).
//!
//! Over UDP (RFC 7011 §10.3) each message is a datagram. The template is in the first one, and again in the first one
//! after each [`template_refresh`](Settings::template_refresh): a datagram may be lost, and a collector may start anew.
//! Over TCP (RFC 7011 §10.4) messages follow each other. The template is in the first one of each connection alone.
//!
//! [`Exporter`] makes the messages, and [`Collector`] has the socket.

mod collector;
mod exporter;

pub use collector::Collector;
pub use exporter::{Exporter, Settings, Transport};
