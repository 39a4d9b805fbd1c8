//! The mappings of a worker's sessions: which port of the session's blocks stands for which of its own endpoints.
//!
//! One worker owns a table. Mappings are endpoint-independent (RFC 4787 REQ-1, RFC 5382 REQ-1): all that an inside
//! address and port sends by one protocol leaves by one public address and port. Only the inside makes a mapping and
//! keeps it; what comes from outside is let through if there is a live one, and if the session's
//! [`Filtering`](crate::pools::Filtering) lets it (RFC 4787 §5).
//!
//! Nothing is allocated after start. By a public port a mapping is found in one line; by an endpoint in three, of an
//! index, of the session's first block and of the mapping. All can be asked for before. A mapping of another block than
//! the first one is searched for in the session's blocks, in their order, which takes longer. A mapping whose lifetime
//! is over is dead at once; its port is free again when [`Mappings::age`] has come by, which looks at the whole table
//! every [`ROUND`].
//!
//! The first port that is tried for an endpoint is a keyed hash of it: others do not know it (RFC 6056 §3.3). Of the
//! first free ones from there on, one is taken whose place in memory has room, so that a search seldom reads another
//! line. A table that was lost gives most endpoints the ports that they had, if it is made anew with the same key.
//! Blocks are used in the order in which they were granted, the first one until all its ports are taken, so that the
//! others become idle and can be returned.
//!
//! A port forward's mapping is there as long as its session holds the block, and anyone may send to it.
//!
//! Not here: addresses and ports in packets are rewritten elsewhere, and who holds which block is control's
//! ([`blocks`](crate::blocks)).

mod answer;
mod config;
mod endpoint;
mod forwards;
mod held;
mod index;
mod lifetime;
mod moves;
mod owner;
mod passed;
mod pool;
mod record;
mod records;
mod remotes;
mod sessions;
mod table;
#[cfg(test)]
mod tests;

pub use answer::{Inbound, MappingStats, Outbound, Refusal, Unsolicited};
pub use config::MappingsConfig;
pub use endpoint::{Inside, Protocol};
pub use lifetime::{MappingState, Segment, TICK};
pub use moves::MovedMapping;
pub use owner::SessionPolicy;
pub use record::{Expected, PublicEnd, PublicHash};
pub use remotes::MOST_OF_SESSION as MOST_REMOTES_OF_SESSION;
pub use sessions::{GrantError, MOST_BLOCKS_OF_SESSION, SessionUse};
pub use table::{Mappings, ROUND};
