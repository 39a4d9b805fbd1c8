//! What a meter is asked to do, and what it answers.

use super::{Colour, PacketRate, Rate, SharedId};
use crate::Nanos;

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
    /// Packets in a unit of time, of whatever length: what fits is green, all else red.
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
        if mbr.kbit() > Rate::REACHABLE.kbit() {
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

    /// The same with bursts of what the rates earn in `millis` milliseconds: a source that keeps to its rates over
    /// every such time loses nothing.
    pub const fn gbr_mbr_over(gbr: Rate, mbr: Rate, millis: u64) -> Option<Self> {
        if mbr.kbit() > Rate::REACHABLE.kbit() {
            return None;
        }
        let burst = Self::burst_of(mbr, millis);
        if gbr.kbit() == 0 || gbr.kbit() >= mbr.kbit() {
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
            // The module that divides its rate knows of both.
            Self::Shared(id) => Self::Shared(id),
        }
    }

    /// Whether it fits the 32 octets of a single bucket.
    pub const fn is_single(&self) -> bool {
        matches!(self, Self::Single { .. })
    }
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
    /// A packet without a colour yet.
    #[inline(always)]
    pub const fn new(octets: u32, now: Nanos) -> Self {
        Self {
            octets,
            colour: Colour::Green,
            now,
        }
    }
}
