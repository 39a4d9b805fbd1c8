//! The messages of the in-band protocol: the [`FlowOp` contract](flow::contract) as octets. `docs/inband.md`
//! specifies them.
//!
//! A message comes whole, once, in order and from the peer that has the key: the channel's affair. Here each has one
//! form in octets, and all else is refused: what [`decode`] takes, [`encode`] writes again octet by octet. The form
//! says what a field can be; whether a backend can hold what is asked of it, its reply says. Nothing here has state,
//! but [`Joiner`] the parts of one list.

mod capabilities;
mod counters;
mod field;
mod flows;
mod forwards;
mod message;
mod meters;
mod network;
mod notice;
mod objects;
mod parts;
mod queues;
mod request;
mod slots;
mod types;

pub use self::capabilities::HostCapabilities;
pub use self::field::{Bound, CodecError, MAX_MESSAGE};
pub use self::message::{FORM, Message, decode, encode, encode_to};
pub use self::parts::{JoinError, Joiner, Parts, parts, parts_within};

pub(crate) use self::field::{Field, Reader, Wire, Writer};
pub(crate) use self::network::PORT;

#[cfg(test)]
pub(crate) mod tests;
