//! What is kept of each session.

use std::time::Duration;

use flow::{Nanos, TokenRate};
use zerocopy::FromZeros;

use super::answer::Refusal;
use super::endpoint::Protocol;
use super::record::Senders;
use crate::pools::{BlockId, Filtering, NatLimits, PortBlock};

/// Control is asked for a block of a session not more often than this.
const REQUESTS: Duration = Duration::from_secs(1);

/// What is permitted to a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionPolicy {
    /// Who may send to the mappings that it makes from now on.
    pub filtering: Filtering,
    /// Whether packets are distinguished whose senders the mappings that it makes from now on have not sent to. Where
    /// those are filtered, there are none.
    pub distinguishes_unsolicited: bool,
    /// What it may have.
    pub limits: NatLimits,
}

/// A session. One line.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(64))]
pub(super) struct Session {
    /// From when on control may be asked for a block, in nanoseconds.
    pub asks_at: u64,
    /// One more than the numbers of the blocks that it was granted first and last; 0: none.
    pub first: u32,
    pub last: u32,
    pub mappings: u32,
    most_mappings: u32,
    /// New mappings a second; 0: without limit.
    per_second: u32,
    /// Ports of its blocks, and how many of them are mapped, by protocol.
    pub ports: u32,
    pub used: [u32; Protocol::COUNT],
    /// Addresses that its mappings have sent to, but for the latest one of each.
    pub remotes: u32,
    pub blocks: u8,
    most_blocks: u8,
    pub is_known: u8,
    /// It makes no mappings, as it is moving away.
    pub is_moving: u8,
    /// What [`Senders`] its mappings have.
    senders: u8,
}

const _: () = assert!(size_of::<Session>() == 64);

impl Session {
    /// Whose packets the mappings let through that it makes.
    pub fn senders(&self) -> Senders {
        Senders::of(u32::from(self.senders) << Senders::SHIFT)
    }

    /// How fast it may make mappings, if it may make one at all.
    pub fn may_begin(&self, protocol: Protocol) -> Result<TokenRate, Refusal> {
        if self.is_moving != 0 {
            return Err(Refusal::Moving);
        }
        if self.blocks == 0 {
            return Err(Refusal::NoBlock);
        }
        if self.mappings >= self.most_mappings {
            return Err(Refusal::TooManyMappings);
        }
        if self.free(protocol) == 0 {
            return Err(Refusal::NoPort);
        }
        Ok(TokenRate::per_second_or_unlimited(self.per_second))
    }

    pub fn free(&self, protocol: Protocol) -> u32 {
        self.ports.saturating_sub(self.used[protocol as usize])
    }

    /// Whether fewer than an eighth of its ports are free.
    pub fn has_few(&self, protocol: Protocol) -> bool {
        self.free(protocol) < self.ports / 8
    }

    /// Whether control should be asked for another block now; it is taken for asked.
    pub fn takes_request(&mut self, now: Nanos) -> bool {
        let may_have = self.is_known != 0 && self.is_moving == 0 && self.blocks < self.most_blocks;
        let takes = may_have && now.0 >= self.asks_at;
        if takes {
            self.asks_at = (now + REQUESTS).0;
        }
        takes
    }

    /// Sets what it may have; it is known from now on.
    pub fn set(&mut self, policy: &SessionPolicy) {
        self.is_known = 1;
        let senders = match (policy.filtering, policy.distinguishes_unsolicited) {
            (Filtering::AddressDependent, _) => Senders::SentTo,
            (Filtering::EndpointIndependent, true) => Senders::Distinguished,
            (Filtering::EndpointIndependent, false) => Senders::Anyone,
        };
        self.senders = senders as u8;
        self.most_blocks = policy.limits.blocks;
        self.most_mappings = policy.limits.mappings;
        self.per_second = policy.limits.mappings_per_second;
    }
}

/// What most packets need of a session's first block.
#[derive(Clone, Copy, FromZeros)]
#[repr(C, align(16))]
pub(super) struct First {
    /// The public address.
    pub address: [u8; 4],
    pub block: u32,
    /// The first port, a multiple of the number of ports.
    first: u16,
    /// How many ports there are, as a power of two; 0: there is no block.
    bits: u8,
    _unused: u8,
}

impl First {
    pub fn of(id: BlockId, block: PortBlock) -> Self {
        Self {
            address: block.address.octets(),
            block: id.0,
            first: block.first,
            bits: block.bits,
            _unused: 0,
        }
    }

    /// A port of the block, by any number.
    #[inline]
    pub fn nth(&self, number: usize) -> u16 {
        self.first | number as u16 & ((1 << (self.bits % 16)) - 1)
    }

    /// Whether a port is one of the block.
    #[inline]
    pub fn has(&self, port: u16) -> bool {
        (port ^ self.first) >> (self.bits % 16) == 0 && self.bits > 0
    }
}
