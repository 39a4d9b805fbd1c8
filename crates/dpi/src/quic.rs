//! QUIC: what a client's Initial packets carry (RFC 9000 §17.2.2), of version 1 and version 2 (RFC 9369).
//!
//! Initial packets are encrypted with keys that follow from the Destination Connection ID of the client's first one
//! (RFC 9001 §5.2), so that all that see it can read them. [`packets`] walks over a datagram, [`KeySource::open`] opens
//! an Initial packet, [`crypto_frames`] gives the pieces of the stream that has the ClientHello.
//!
//! After a Retry a client's Initial packets have the Source Connection ID of the Retry as their Destination Connection
//! ID, and keys from it (RFC 9001 §5.2). So no packet of the server has to be read: [`KeySource`] tries the ID that the
//! keys were from so far, then that of the packet. What opens is authentic, and its ID is kept.
//!
//! Without the feature `quic` of the crate there is no cryptography, and no packet opens.

mod frames;
mod header;
mod keys;

pub use frames::{CryptoFrame, crypto_frames};
pub use header::{ConnectionId, Initial, LONGEST_ID, Version, is_long_header, packets};
pub use keys::KeySource;
