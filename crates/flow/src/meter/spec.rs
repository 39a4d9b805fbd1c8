//! What a meter is asked to do, and what it answers.

use super::{PacketRate, SharedId};
use crate::Nanos;

/// Tokens of an octet: millionths of its bits.
const TOKENS_PER_OCTET: u64 = 8_000_000;

/// The deepest bucket: 1.15 TB. The top bit stays clear, as the first word of a line in a session block needs it.
pub(super) const DEEPEST: u64 = u64::MAX >> 1;

/// The tokens that a packet costs.
#[inline(always)]
pub(crate) const fn cost_of(octets: u32) -> u64 {
    octets as u64 * TOKENS_PER_OCTET
}

/// The depth of a bucket for so many octets.
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

    const fn only_if(self, earns: bool) -> Self {
        if earns { self } else { Self::ZERO }
    }

    /// Octets in `millis` milliseconds, rounded down; saturates.
    const fn octets_in(self, millis: u64) -> u64 {
        self.0.saturating_mul(millis) / 8
    }
}

/// A meter as it is configured. Bursts are octets; a packet that is longer than its burst never passes. Bursts
/// beyond 1.15 TB are taken for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MeterSpec {
    /// One bucket: what fits is green, all else red.
    Single {
        /// The rate.
        rate: Rate,
        /// The burst.
        burst: u64,
    },
    /// A single rate three colour marker (RFC 2697).
    SrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
        /// Excess burst size.
        ebs: u64,
        /// Whether the colour that a packet comes with counts; else every packet is taken for green.
        aware: bool,
    },
    /// A two rate three colour marker (RFC 2698).
    TrTcm {
        /// Committed information rate.
        cir: Rate,
        /// Committed burst size.
        cbs: u64,
        /// Peak information rate.
        pir: Rate,
        /// Peak burst size.
        pbs: u64,
        /// Whether the colour that a packet comes with counts; else every packet is taken for green.
        aware: bool,
    },
    /// So many packets in a unit of time, of whatever length: what fits is green, all else red.
    Packets {
        /// How many.
        rate: PacketRate,
        /// Whether another unit begins when one is over.
        renews: bool,
    },
    /// That of a number which several sessions have ([`SharedMeters`](super::SharedMeters)): what fits is green, all
    /// else red. Where there is no such meter, all is green.
    Shared(SharedId),
}

impl MeterSpec {
    /// How much of its rate a QER's bucket holds. PFCP signals no burst.
    pub const BURST_MILLIS: u64 = 50;
    /// The least that it holds, in octets, so that slow bearers pass what fits a jumbo frame.
    pub const LEAST_BURST: u64 = 10_000;

    /// The meter of a maximum bit rate. A rate of 0 lets nothing pass; one above [`Rate::REACHABLE`] needs no meter.
    pub const fn mbr(mbr: Rate) -> Option<Self> {
        if mbr.0 > Rate::REACHABLE.0 {
            return None;
        }
        Some(Self::Single {
            rate: mbr,
            burst: Self::burst_of(mbr, Self::BURST_MILLIS),
        })
    }

    /// The meter of a guaranteed below a maximum bit rate: what is within the former is green, within the latter
    /// yellow. Only a single bucket when there is no such difference, and none without a limit.
    pub const fn gbr_mbr(gbr: Rate, mbr: Rate) -> Option<Self> {
        Self::gbr_mbr_over(gbr, mbr, Self::BURST_MILLIS)
    }

    /// The same with bursts of what the rates bring in so many milliseconds: a source that keeps to its rates over
    /// every such time loses nothing.
    pub const fn gbr_mbr_over(gbr: Rate, mbr: Rate, millis: u64) -> Option<Self> {
        if mbr.0 > Rate::REACHABLE.0 {
            return None;
        }
        let burst = Self::burst_of(mbr, millis);
        if gbr.0 == 0 || gbr.0 >= mbr.0 {
            return Some(Self::Single { rate: mbr, burst });
        }
        Some(Self::TrTcm {
            cir: gbr,
            cbs: Self::burst_of(gbr, millis),
            pir: mbr,
            pbs: burst,
            aware: false,
        })
    }

    const fn burst_of(rate: Rate, millis: u64) -> u64 {
        let burst = rate.octets_in(millis);
        match rate {
            Rate::ZERO => 0,
            _ if burst < Self::LEAST_BURST => Self::LEAST_BURST,
            _ => burst,
        }
    }

    /// Half of it, for each of two places that police the same packets for a while: bursts are halved, and only one
    /// of the two `earns`. Together they never admit more than the whole does.
    #[must_use]
    pub const fn half(self, earns: bool) -> Self {
        match self {
            Self::Single { rate, burst } => Self::Single {
                rate: rate.only_if(earns),
                burst: burst / 2,
            },
            Self::SrTcm { cir, cbs, ebs, aware } => Self::SrTcm {
                cir: cir.only_if(earns),
                cbs: cbs / 2,
                ebs: ebs / 2,
                aware,
            },
            Self::TrTcm {
                cir,
                cbs,
                pir,
                pbs,
                aware,
            } => Self::TrTcm {
                cir: cir.only_if(earns),
                cbs: cbs / 2,
                pir: pir.only_if(earns),
                pbs: pbs / 2,
                aware,
            },
            // What is left in a unit is divided where the two are, to the packet.
            Self::Packets { rate, .. } => Self::Packets { rate, renews: earns },
            // Whoever divides its rate knows of both.
            Self::Shared(id) => Self::Shared(id),
        }
    }

    /// Whether it fits the 32 octets of a single bucket.
    pub const fn is_single(&self) -> bool {
        matches!(self, Self::Single { .. })
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

/// A packet that wants to pass meters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Offer {
    /// Octets of the inner IP packet.
    pub octets: u32,
    /// The colour that it comes with, for colour-aware meters.
    pub colour: Colour,
    /// When.
    pub now: Nanos,
}

impl Offer {
    /// A packet that nobody has coloured yet.
    #[inline(always)]
    pub const fn new(octets: u32, now: Nanos) -> Self {
        Self {
            octets,
            colour: Colour::Green,
            now,
        }
    }
}
