//! Meters: exact integer token buckets that police to a rate.
//!
//! Tokens are millionths of a bit. A rate of n kbit/s (of 1000 bits, TS 29.244 §8.2.8) earns exactly n of them in a
//! nanosecond, so nothing is ever rounded, nothing is divided and no remainder has to be kept: in every interval of
//! t a meter admits at most burst + rate x t, and a flow that always has a packet waiting gets all of it. Times and
//! products saturate; a clock that goes back earns nothing until it has caught up.
//!
//! Packet rates count packets in units of time instead, and need no tokens ([`PacketRate`]).
//!
//! A worker owns its meters: those of a session in its block ([`Blocks`](crate::Blocks)), those that sessions share
//! in [`SharedMeters`]. Nothing here reads a clock, knows QERs, or marks packets.

mod packets;
mod rate;
mod shared;
mod single;
mod spec;
mod tricolour;

pub use packets::{PacketRate, PacketState, PacketsPer, TimeUnit, Window};
pub use rate::{Colour, Rate};
pub use shared::{Chain, Demand, SharedId, SharedMeters};
pub use spec::{MeterSpec, Offer};
pub use tricolour::{Meter, MeterState, Tokens};

pub(crate) use rate::cost_of;
pub(crate) use single::Single;
