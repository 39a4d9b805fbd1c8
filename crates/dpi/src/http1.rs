//! Requests of HTTP/1.1 and HTTP/1.0 (RFC 9112): host and path of each request of a connection.
//!
//! [`read_head`] reads the head of one request. [`Requests`] follows a connection over the bodies between heads, as
//! far as their lengths are said in the requests: what it cannot follow makes it approximate, and no later request is
//! read. Both take octets in order.
//!
//! A head that servers read in different ways is [`Ambiguous`](crate::Fault::Ambiguous): two Host fields, a folded
//! line, whitespace before a colon, a target and a Host field that differ.

mod body;
mod fields;
mod head;

pub use body::{Requests, Step};
pub use fields::Body;
pub use head::{Head, LONGEST_HEAD, may_start_request, read_head};
