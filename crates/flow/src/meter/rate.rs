//! Rates, tokens and colours: what meters of all kinds are made of.

/// Tokens of an octet: millionths of its bits.
const TOKENS_PER_OCTET: u64 = 8_000_000;

/// The deepest bucket: 1.15 TB. The top bit stays clear, as the first word of a line in a session block needs it.
pub(super) const DEEPEST: u64 = u64::MAX >> 1;

/// The tokens that a packet costs.
#[inline(always)]
pub(crate) const fn cost_of(octets: u32) -> u64 {
    octets as u64 * TOKENS_PER_OCTET
}

/// The depth of a bucket for this many octets.
pub(super) const fn depth_of(octets: u64) -> u64 {
    let tokens = octets.saturating_mul(TOKENS_PER_OCTET);
    if tokens < DEEPEST { tokens } else { DEEPEST }
}

/// A rate in kilobits of 1000 bits per second, which is as exact as PFCP is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);
    /// Everything passes.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The highest rate that is a limit, 1.1 Pbit/s: all that the five octets of an MBR hold (TS 29.244 §8.2.8).
    pub const MAX: Self = Self((1 << 40) - 1);

    /// The highest rate that anything can reach which one worker serves, 1 Tbit/s: a meter of more never says red.
    pub const REACHABLE: Self = Self(1_000_000_000);

    /// So many kbit/s; above [`MAX`](Self::MAX): [`UNLIMITED`](Self::UNLIMITED).
    pub const fn from_kbit(kbit: u64) -> Self {
        if kbit > Self::MAX.0 {
            Self::UNLIMITED
        } else {
            Self(kbit)
        }
    }

    /// So many bit/s, fractions of a kbit/s rounded up as TS 29.244 §8.2.8 has it.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self::from_kbit(bits.div_ceil(1000))
    }

    /// The rate in kbit/s, which is also what it earns in a nanosecond.
    pub const fn kbit(self) -> u64 {
        self.0
    }

    pub(super) const fn only_if(self, earns: bool) -> Self {
        if earns { self } else { Self::ZERO }
    }

    /// Octets in `millis` milliseconds, rounded down; saturates.
    pub(super) const fn octets_in(self, millis: u64) -> u64 {
        self.0.saturating_mul(millis) / 8
    }
}

/// The colour of a packet, from best to worst.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Colour {
    /// Within what is committed.
    #[default]
    Green = 0,
    /// Beyond that; it passes and is the first to go where there is no room.
    Yellow = 1,
    /// Beyond everything: dropped, and no meter is charged for it.
    Red = 2,
}
