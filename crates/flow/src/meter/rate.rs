//! Rates, tokens and colours, common to all kinds of meters.

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

/// A rate in kbit/s of 1000 bits, the unit of PFCP.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// Nothing passes.
    pub const ZERO: Self = Self(0);
    /// Everything passes.
    pub const UNLIMITED: Self = Self(u64::MAX);
    /// The highest rate that is a limit, 1.1 Pbit/s: all that the five octets of an MBR hold (TS 29.244 §8.2.8).
    pub const MAX: Self = Self((1 << 40) - 1);

    /// Above what one worker can forward, 1 Tbit/s: a meter of this rate never gives red.
    pub const REACHABLE: Self = Self(1_000_000_000);

    /// The rate of `kbit` kbit/s. Above [`MAX`](Self::MAX) it is [`UNLIMITED`](Self::UNLIMITED).
    pub const fn from_kbit(kbit: u64) -> Self {
        if kbit > Self::MAX.0 {
            Self::UNLIMITED
        } else {
            Self(kbit)
        }
    }

    /// The rate of `bits` bit/s, rounded up to kbit/s (TS 29.244 §8.2.8).
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
    /// Within the committed rate.
    #[default]
    Green = 0,
    /// Above the committed rate: it passes, and is dropped first in congestion.
    Yellow = 1,
    /// Above the peak rate: dropped. No meter is charged for it.
    Red = 2,
}
