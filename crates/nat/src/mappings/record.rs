//! A mapping as it is in memory, and the hashes that it is found by.

use std::hash::{BuildHasher, Hasher};

use foldhash::quality::FixedState;

use super::endpoint::{Inside, Protocol};
use super::lifetime::{Life, MappingState};
use crate::pools::{BlockId, MOST_BLOCKS};

/// The public end of a mapping. Public ports of sessions in several address spaces may be the same; the block
/// distinguishes them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct PublicEnd {
    /// The block.
    pub block: BlockId,
    /// A port of the block, or an identifier of ICMP queries.
    pub port: u16,
    /// Its protocol.
    pub protocol: Protocol,
}

impl PublicEnd {
    /// What [`Mapping::rest`] has of it.
    #[inline]
    pub(super) const fn rest(self) -> u32 {
        self.block.0 | (self.protocol as u32) << Mapping::PROTOCOL_SHIFT | Mapping::IN_USE
    }
}

/// A mapping. Whose it is and its public address are known by its block.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    /// From the lowest bit on: 24 bits of block, 2 of protocol, 3 of state; whether only addresses that it has sent to
    /// may send; whether it is in use; whether it is of a port forward.
    pub rest: u32,
    pub inside_port: u16,
    pub port: u16,
    pub inside: [u8; 4],
    /// The tick from which on it is dead.
    pub until: u32,
}

const _: () = assert!(MOST_BLOCKS <= Mapping::BLOCK + 1);

impl Mapping {
    const BLOCK: u32 = (1 << 24) - 1;
    const PROTOCOL_SHIFT: u32 = 24;
    const STATE_SHIFT: u32 = 26;
    const STATE: u32 = 7 << Self::STATE_SHIFT;
    const FILTERS: u32 = 1 << 29;
    const IN_USE: u32 = 1 << 30;
    const FORWARD: u32 = 1 << 31;
    /// The bits of [`rest`](Self::rest) that a mapping is found by.
    pub const END: u32 = Self::BLOCK | 3 << Self::PROTOCOL_SHIFT | Self::IN_USE;
    /// The end of what has none.
    pub const NEVER: u32 = u32::MAX;

    /// One with this public end.
    pub fn new(end: PublicEnd, inside: &Inside, life: Life, (filters, is_forward): (bool, bool)) -> Self {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let mapping = Self {
            rest: end.rest() | flag(filters, Self::FILTERS) | flag(is_forward, Self::FORWARD),
            inside_port: inside.port,
            port: end.port,
            inside: inside.address,
            until: life.until,
        };
        Self {
            rest: mapping.with_state(life.state),
            ..mapping
        }
    }

    pub fn is_in_use(&self) -> bool {
        self.rest & Self::IN_USE != 0
    }

    pub fn block(&self) -> BlockId {
        BlockId(self.rest & Self::BLOCK)
    }

    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol::ALL[(self.rest >> Self::PROTOCOL_SHIFT & 3).min(2) as usize]
    }

    pub fn end(&self) -> PublicEnd {
        PublicEnd {
            block: self.block(),
            port: self.port,
            protocol: self.protocol(),
        }
    }

    pub fn inside(&self) -> Inside {
        Inside {
            address: self.inside,
            port: self.inside_port,
            protocol: self.protocol(),
        }
    }

    #[inline]
    pub fn is_of(&self, inside: &Inside) -> bool {
        (self.inside, self.inside_port) == (inside.address, inside.port) && self.protocol() == inside.protocol
    }

    #[inline]
    pub fn is_live(&self, now: u32) -> bool {
        now < self.until
    }

    #[inline]
    pub fn filters(&self) -> bool {
        self.rest & Self::FILTERS != 0
    }

    /// Whether it lives as long as its session.
    pub fn is_forward(&self) -> bool {
        self.rest & Self::FORWARD != 0
    }

    #[inline]
    pub fn life(&self) -> Life {
        Life {
            state: MappingState::of((self.rest & Self::STATE) >> Self::STATE_SHIFT),
            until: self.until,
        }
    }

    /// [`rest`](Self::rest) with another state.
    #[inline]
    pub fn with_state(&self, state: MappingState) -> u32 {
        self.rest & !Self::STATE | (state as u32) << Self::STATE_SHIFT
    }
}

/// The hash by which the mapping of an endpoint is found. It is the same for all sessions that have the address.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct InsideHash(pub u64);

/// The hash by which the mapping of a public port is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicHash(pub(super) u64);

/// Where the mapping of an endpoint is expected, and the hashes by which it is found there and anywhere.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Expected {
    pub(super) inside: InsideHash,
    pub(super) public: PublicHash,
    /// Where it is, or where it may be made.
    pub(super) end: PublicEnd,
    /// The public address.
    pub(super) address: u32,
    /// Whether a mapping was found that it may be.
    pub(super) is_found: bool,
}

/// The hashes of what mappings are found by, and of where the search for a port begins.
#[derive(Clone)]
pub(super) struct Keys {
    index: FixedState,
    port: FixedState,
    /// Hashed with what a port is chosen by, so that no factor of a product in the hash is known.
    port_secret: u64,
}

impl Keys {
    pub fn new(seed: u64) -> Self {
        Self {
            index: FixedState::with_seed(seed),
            port: FixedState::with_seed(seed.rotate_left(32) ^ 0x9e37_79b9_7f4a_7c15),
            port_secret: FixedState::with_seed(seed).hash_one(seed),
        }
    }

    #[inline]
    pub fn inside(&self, inside: &Inside) -> InsideHash {
        let mut hasher = self.index.build_hasher();
        hasher.write_u64(inside_word(inside));
        InsideHash(hasher.finish())
    }

    #[inline]
    pub fn public(&self, end: PublicEnd) -> PublicHash {
        let mut hasher = self.index.build_hasher();
        let port = u64::from(end.port) << 8 | end.protocol as u64;
        hasher.write_u64(u64::from(end.block.0) << 32 | port);
        PublicHash(hasher.finish())
    }

    pub fn port(&self, inside: &Inside) -> usize {
        let mut hasher = self.port.build_hasher();
        hasher.write_u64(inside_word(inside));
        hasher.write_u64(self.port_secret);
        hasher.finish() as usize
    }
}

/// All of an endpoint.
#[inline]
fn inside_word(inside: &Inside) -> u64 {
    let port = u64::from(inside.port) << 8 | inside.protocol as u64;
    u64::from(u32::from_be_bytes(inside.address)) << 32 | port
}
