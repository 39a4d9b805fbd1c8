//! A mapping as it is in memory, and the hashes that it is found by.

use std::hash::{BuildHasher, Hasher};

use flow::SessionIndex;
use foldhash::quality::FixedState;
use zerocopy::FromZeros;

use super::endpoint::{Inside, Protocol};
use super::lifetime::{Life, MappingState};
use super::pool::Item;
use crate::pools::{BlockId, MOST_BLOCKS};

/// A mapping. Public ports of sessions in several address spaces may be the same; the block distinguishes them.
#[derive(Clone, Copy, FromZeros)]
#[repr(C)]
pub(super) struct Mapping {
    /// Whose it is. Of a free one: the link.
    pub session: u32,
    pub inside: [u8; 4],
    pub public: [u8; 4],
    pub inside_port: u16,
    pub port: u16,
    /// The tick from which on it is dead.
    pub until: u32,
    /// From the lowest bit on: 24 bits of block, 2 of protocol, 3 of state; whether only addresses that it has sent to
    /// may send; whether it is in use; whether it is of a port forward.
    pub rest: u32,
}

const _: () = assert!(size_of::<Mapping>() == 24 && MOST_BLOCKS <= Mapping::BLOCK + 1);

impl Mapping {
    const BLOCK: u32 = (1 << 24) - 1;
    pub const PROTOCOL_SHIFT: u32 = 24;
    pub const STATE_SHIFT: u32 = 26;
    const STATE: u32 = 7 << Self::STATE_SHIFT;
    pub const FILTERS: u32 = 1 << 29;
    pub const IN_USE: u32 = 1 << 30;
    pub const FORWARD: u32 = 1 << 31;
    /// The end of what has none.
    pub const NEVER: u32 = u32::MAX;

    pub fn block(&self) -> BlockId {
        BlockId(self.rest & Self::BLOCK)
    }

    #[inline]
    pub fn protocol(&self) -> Protocol {
        Protocol::ALL[(self.rest >> Self::PROTOCOL_SHIFT & 3).min(2) as usize]
    }

    pub fn inside(&self) -> Inside {
        Inside {
            address: self.inside,
            port: self.inside_port,
            protocol: self.protocol(),
        }
    }

    #[inline]
    pub fn is_of(&self, session: SessionIndex, inside: &Inside) -> bool {
        let own = (self.session, self.inside, self.inside_port);
        own == (session.0, inside.address, inside.port) && self.protocol() == inside.protocol
    }

    #[inline]
    pub fn has(&self, block: BlockId, port: u16, protocol: Protocol) -> bool {
        let place = block.0 | (protocol as u32) << Self::PROTOCOL_SHIFT;
        self.port == port && self.rest & (Self::BLOCK | 3 << Self::PROTOCOL_SHIFT) == place
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

    #[inline]
    pub fn set_life(&mut self, life: Life) {
        // Most packets change nothing, and so leave the line clean.
        if self.life() != life && !self.is_forward() {
            self.until = life.until;
            self.rest = self.rest & !Self::STATE | (life.state as u32) << Self::STATE_SHIFT;
        }
    }
}

impl Item for Mapping {
    fn free(link: u32) -> Self {
        Self {
            session: link,
            ..Self::new_zeroed()
        }
    }

    fn link(&self) -> u32 {
        self.session
    }

    fn is_in_use(&self) -> bool {
        self.rest & Self::IN_USE != 0
    }
}

/// The hash by which the mapping of an endpoint is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct InsideHash(pub(super) u64);

/// The hash by which the mapping of a public port is found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PublicHash(pub(super) u64);

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
    pub fn inside(&self, session: SessionIndex, inside: &Inside) -> InsideHash {
        let mut hasher = self.index.build_hasher();
        hasher.write_u64(u64::from(session.0) << 32 | u64::from(u32::from_be_bytes(inside.address)));
        hasher.write_u64(u64::from(inside.port) << 8 | inside.protocol as u64);
        InsideHash(hasher.finish())
    }

    #[inline]
    pub fn public(&self, block: BlockId, port: u16, protocol: Protocol) -> PublicHash {
        let mut hasher = self.index.build_hasher();
        hasher.write_u64(u64::from(block.0) << 32 | u64::from(port) << 8 | protocol as u64);
        PublicHash(hasher.finish())
    }

    pub fn port(&self, inside: &Inside) -> usize {
        let mut hasher = self.port.build_hasher();
        let port = u64::from(inside.port) << 8 | inside.protocol as u64;
        hasher.write_u64(u64::from(u32::from_be_bytes(inside.address)) << 32 | port);
        hasher.write_u64(self.port_secret);
        hasher.finish() as usize
    }
}
