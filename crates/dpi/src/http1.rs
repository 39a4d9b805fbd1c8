//! Requests of HTTP/1.1 and HTTP/1.0 (RFC 9112): host and path of each request of a connection.
//!
//! [`read_head`] reads the head of one request, which says how long its body is: the next one begins behind that.
//!
//! A head that servers read in different ways is [`Ambiguous`](crate::Fault::Ambiguous): two Host fields, a folded
//! line, whitespace before a colon, a target and a Host field that differ.

mod fields;
mod head;

pub use fields::Body;
pub use head::{Head, LONGEST_HEAD, may_start_request, read_head};
