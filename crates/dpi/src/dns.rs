//! DNS over UDP (RFC 1035 §4): queries and what a sinkhole says to them; the addresses that responses give of the name
//! that was asked for.

mod query;
mod question;
mod response;
mod wire;

pub use query::{MOST_ADDED, Query, Sinkhole, answer};
pub use question::Question;
pub use response::{Answer, MOST_RECORDS, Response};
