//! A mapping as it is in memory, and the hashes that it is found by.

use std::hash::{BuildHasher, Hasher};

use flow::SessionIndex;
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

/// Who may send to a mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Senders {
    /// Anyone.
    Anyone = 0,
    /// Anyone, as long as its session holds the block: it is of a port forward.
    Forward = 1,
    /// Addresses that it has sent to.
    SentTo = 2,
    /// Anyone; addresses that it has sent to are distinguished from others.
    Distinguished = 3,
}

impl Senders {
    /// Where [`Mapping::rest`] has them.
    pub const SHIFT: u32 = 30;
    /// The bit there of those for which addresses are kept.
    const KEEPS: u32 = 2 << Self::SHIFT;

    /// Those of a [`Mapping::rest`].
    #[inline]
    pub const fn of(rest: u32) -> Self {
        match rest >> Self::SHIFT {
            0 => Self::Anyone,
            1 => Self::Forward,
            2 => Self::SentTo,
            _ => Self::Distinguished,
        }
    }
}

/// A mapping. Whose it is and its public address are known by its block.
#[derive(Clone, Copy)]
pub(super) struct Mapping {
    /// From the lowest bit on: 24 bits of block, 2 of protocol, 3 of state; whether it is in use; 2 of [`Senders`].
    pub rest: u32,
    pub inside_port: u16,
    pub port: u16,
    /// The address inside.
    pub inside: u32,
    /// The tick from which on it is dead.
    pub until: u32,
}

const _: () = assert!(MOST_BLOCKS <= Mapping::BLOCK + 1);

impl Mapping {
    const BLOCK: u32 = (1 << 24) - 1;
    const PROTOCOL_SHIFT: u32 = 24;
    const STATE_SHIFT: u32 = 26;
    const STATE: u32 = 7 << Self::STATE_SHIFT;
    const IN_USE: u32 = 1 << 29;
    /// The bits of [`rest`](Self::rest) that a mapping is found by.
    pub const END: u32 = Self::BLOCK | 3 << Self::PROTOCOL_SHIFT | Self::IN_USE;
    /// The end of what has none.
    pub const NEVER: u32 = u32::MAX;

    /// One with this public end.
    pub fn new(end: PublicEnd, inside: &Inside, life: Life, senders: Senders) -> Self {
        let mapping = Self {
            rest: end.rest() | (senders as u32) << Senders::SHIFT,
            inside_port: inside.port,
            port: end.port,
            inside: u32::from_be_bytes(inside.address),
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
            address: self.inside.to_be_bytes(),
            port: self.inside_port,
            protocol: self.protocol(),
        }
    }

    #[inline]
    pub fn is_of(&self, inside: &Inside) -> bool {
        let address = u32::from_be_bytes(inside.address);
        (self.inside, self.inside_port) == (address, inside.port) && self.protocol() == inside.protocol
    }

    #[inline]
    pub fn is_live(&self, now: u32) -> bool {
        now < self.until
    }

    /// Whether it is known which addresses it has sent to.
    #[inline]
    pub fn keeps_remotes(&self) -> bool {
        self.rest & Senders::KEEPS != 0
    }

    /// Whether only addresses that it has sent to may send.
    pub fn filters(&self) -> bool {
        Senders::of(self.rest) == Senders::SentTo
    }

    /// Whether it lives as long as its session.
    #[inline]
    pub fn is_forward(&self) -> bool {
        Senders::of(self.rest) == Senders::Forward
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

/// The hash by which the mapping of an endpoint of a session is found. It is another for each of the sessions that have
/// one address in several address spaces: their mappings would all be in one place.
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
    pub fn inside(&self, session: SessionIndex, inside: &Inside) -> InsideHash {
        let mut hasher = self.index.build_hasher();
        hasher.write_u64(inside_word(inside));
        hasher.write_u64(session.0.into());
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
