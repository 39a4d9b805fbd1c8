//! `Meter`: a meter of any kind, 64 octets.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, transmute, transmute_mut, transmute_ref};

use super::packets::Packets;
use super::rate::{cost_of, depth_of};
use super::single::Single;
use super::{Colour, MeterSpec, Offer, PacketState, Rate, SharedId};
use crate::Nanos;

const SINGLE: u64 = 0;
const SRTCM: u64 = 1;
const TRTCM: u64 = 2;
/// The line is that of [`Packets`], with the kind in the same place.
const PACKETS: u64 = 3;
/// No meter: the line has the number of a shared one instead, in `further_rate`.
const SHARED: u64 = 8;
const KINDS: u64 = 11;
/// Beside the kind: precoloured packets keep their colour, or get a worse one.
const AWARE: u64 = 4;

/// A meter of any kind. Alone it is for tests, tools and backends elsewhere; the meters of sessions are in their
/// blocks, single ones in half the room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct Meter {
    /// The only bucket, or the committed one.
    committed: Single,
    /// Tokens of the excess or peak bucket.
    further: u64,
    /// What it earns in a nanosecond by itself: nothing in a single rate marker, which it gets the overflow of.
    further_rate: u64,
    further_depth: u64,
    kind: u64,
}

const _: () = assert!(size_of::<Meter>() == 64);

/// What a meter holds at a moment: all that moves when a meter moves to another home.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MeterState {
    /// Millionths of bits in the only or committed bucket, and in the excess or peak bucket (else 0).
    pub tokens: [u64; 2],
    /// Up to when they were earned.
    pub at: Nanos,
    /// What is left of a packet rate (else nothing).
    pub packets: PacketState,
}

/// What the buckets of a bit rate's meter hold, on a clock that may have begun later: all that goes along when a meter
/// moves to another process.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tokens {
    /// Millionths of bits in the only or committed bucket, and in the excess or peak bucket (else 0).
    pub left: [u64; 2],
    /// Up to when they were earned: nanoseconds on the process's clock, negative before that began.
    pub at: i64,
}

impl Meter {
    /// Where there is no meter: everything passes, green.
    pub(crate) const UNLIMITED: Self = Self::of_single(Single::UNLIMITED);

    /// A meter with full buckets.
    pub const fn new(spec: MeterSpec) -> Self {
        let (committed, further_rate, further_depth, kind, aware) = match spec {
            MeterSpec::Single { rate, burst } => return Self::of_single(Single::new(rate, burst)),
            MeterSpec::SrTcm { cir, cbs, ebs, aware } => {
                (Single::new(cir, cbs), 0, depth_of(ebs), SRTCM, aware)
            }
            MeterSpec::TrTcm {
                cir,
                cbs,
                pir,
                pbs,
                aware,
            } => {
                let peak = Single::new(pir, pbs);
                (Single::new(cir, cbs), peak.rate, peak.depth, TRTCM, aware)
            }
            MeterSpec::Packets { rate, renews } => return transmute!(Packets::new(rate, renews, PACKETS)),
            MeterSpec::Shared(id) => return Self::of_shared(id),
        };
        Self {
            committed,
            further: further_depth,
            further_rate,
            further_depth,
            kind: if aware { kind | AWARE } else { kind },
        }
    }

    pub(crate) const fn of_single(committed: Single) -> Self {
        Self {
            committed,
            further: 0,
            further_rate: 0,
            further_depth: 0,
            kind: SINGLE,
        }
    }

    const fn of_shared(id: SharedId) -> Self {
        Self {
            committed: Single::new(Rate::ZERO, 0),
            further: 0,
            further_rate: id.0 as u64,
            further_depth: 0,
            kind: SHARED,
        }
    }

    /// The number of the shared meter that packets pass instead.
    #[inline]
    pub fn shared(&self) -> Option<SharedId> {
        (self.kind & KINDS == SHARED).then_some(SharedId(self.further_rate as u16))
    }

    /// The bucket, if it is the only one.
    pub(crate) fn as_single(&self) -> Option<Single> {
        (self.kind == SINGLE).then_some(self.committed)
    }

    /// Whether it lets everything pass because there is no limit.
    pub(crate) fn is_unlimited(&self) -> bool {
        self.kind == SINGLE && self.committed.rate == Rate::UNLIMITED.kbit()
    }

    /// Colours a packet, and takes the tokens that it costs.
    #[inline]
    pub fn offer(&mut self, offer: &Offer) -> Colour {
        self.take(offer, cost_of(offer.octets))
    }

    #[inline]
    pub(crate) fn take(&mut self, offer: &Offer, cost: u64) -> Colour {
        if let Some(packets) = self.packets_mut() {
            return packets.take(offer.now.0);
        }
        if self.shared().is_some() {
            return Colour::Green;
        }
        self.refill(offer.now.0);
        let colour = if self.kind & AWARE == 0 {
            Colour::Green
        } else {
            offer.colour
        };
        let colour = self.colour(colour, cost);
        let [committed, further] = self.price(colour, cost);
        self.committed.tokens = self.committed.tokens.wrapping_sub(committed);
        self.further = self.further.wrapping_sub(further);
        colour
    }

    /// Puts back what `take` took for a packet of this colour and cost, at the same time.
    pub(crate) fn give_back(&mut self, colour: Colour, cost: u64) {
        if self.shared().is_some() {
            return;
        }
        if let Some(packets) = self.packets_mut() {
            return packets.give_back();
        }
        let [committed, further] = self.price(colour, cost);
        self.committed.put_back(committed);
        self.further = self.further.saturating_add(further).min(self.further_depth);
    }

    /// The windows of a packet rate, if that is what it is.
    pub(crate) fn packets(&self) -> Option<PacketState> {
        (self.kind & KINDS == PACKETS).then(|| {
            let packets: &Packets = transmute_ref!(self);
            packets.state()
        })
    }

    #[inline]
    fn packets_mut(&mut self) -> Option<&mut Packets> {
        (self.kind & KINDS == PACKETS).then(|| transmute_mut!(self))
    }

    /// Gives away half of what is left of a packet rate, and returns it.
    pub(crate) fn halve_packets(&mut self) -> Option<PacketState> {
        self.packets_mut().map(Packets::halve)
    }

    /// Takes what is left elsewhere of the same packet rate.
    pub(crate) fn join_packets(&mut self, state: PacketState) {
        if let Some(packets) = self.packets_mut() {
            packets.join(state);
        }
    }

    /// Lets this be what is left of a packet rate.
    pub(crate) fn set_packets(&mut self, state: PacketState) {
        if let Some(packets) = self.packets_mut() {
            packets.set_state(state);
        }
    }

    /// Lets time pass.
    pub(crate) fn refill(&mut self, now: u64) {
        if matches!(self.kind & KINDS, PACKETS | SHARED) {
            return;
        }
        let elapsed = self.committed.elapse(now);
        let earned = elapsed.saturating_mul(self.committed.rate);
        let overflow = earned.saturating_sub(self.committed.depth.wrapping_sub(self.committed.tokens));
        self.committed.earn(earned);
        let further = if self.kind & KINDS == SRTCM {
            overflow
        } else {
            elapsed.saturating_mul(self.further_rate)
        };
        self.further = self.further.saturating_add(further).min(self.further_depth);
    }

    fn colour(&self, colour: Colour, cost: u64) -> Colour {
        let [committed, further] = [self.committed.tokens >= cost, self.further >= cost];
        match (self.kind & KINDS, colour) {
            (_, Colour::Red) => Colour::Red,
            (SINGLE, _) if committed => colour,
            (SINGLE, _) => Colour::Red,
            (SRTCM, Colour::Green) if committed => Colour::Green,
            (SRTCM, _) if further => Colour::Yellow,
            (SRTCM, _) => Colour::Red,
            (_, _) if !further => Colour::Red,
            (_, Colour::Green) if committed => Colour::Green,
            (_, _) => Colour::Yellow,
        }
    }

    /// What a packet of this colour costs each bucket.
    fn price(&self, colour: Colour, cost: u64) -> [u64; 2] {
        match (self.kind & KINDS, colour) {
            (_, Colour::Red) => [0, 0],
            (SINGLE, _) | (SRTCM, Colour::Green) => [cost, 0],
            (SRTCM, _) | (_, Colour::Yellow) => [0, cost],
            (_, Colour::Green) => [cost, cost],
        }
    }

    /// Continues from `old`, which may have had other rates and bursts: what was left stays, as far as it fits. A meter
    /// of another kind starts full.
    pub fn go_on(&mut self, old: &Self) {
        if self.kind & KINDS == old.kind & KINDS && self.shared().is_none() {
            if let Some(packets) = self.packets_mut() {
                let old: &Packets = transmute_ref!(old);
                return packets.go_on(old);
            }
            self.committed.go_on(&old.committed);
            self.further = old.further.min(self.further_depth);
        }
    }

    /// Takes everything out that it holds at `now`.
    pub(crate) fn empty(&mut self, now: u64) {
        if self.kind & KINDS == PACKETS {
            return self.set_packets(PacketState::default());
        }
        if self.shared().is_some() {
            return;
        }
        self.committed.elapse(now);
        (self.committed.tokens, self.further) = (0, 0);
    }

    /// What it holds.
    pub fn state(&self) -> MeterState {
        if let Some(packets) = self.packets() {
            return MeterState {
                packets,
                ..MeterState::default()
            };
        }
        MeterState {
            packets: PacketState::default(),
            tokens: [self.committed.tokens, self.further],
            at: Nanos(self.committed.last),
        }
    }

    /// What its buckets hold; `None` where it has none: a packet rate, the place of a shared meter, no limit.
    pub fn tokens(&self) -> Option<Tokens> {
        let has_none = matches!(self.kind & KINDS, PACKETS | SHARED) || self.is_unlimited();
        (!has_none).then_some(Tokens {
            left: [self.committed.tokens, self.further],
            at: self.committed.last as i64,
        })
    }

    /// Holds at `now` what a meter elsewhere held, and what that would have earned since, as far as it fits. Tokens of
    /// the future earn nothing. Nothing changes where there is no bucket.
    pub(crate) fn set_tokens(&mut self, tokens: Tokens, now: Nanos) {
        if self.tokens().is_none() {
            return;
        }
        let since = i128::from(now.0) - i128::from(tokens.at);
        let [committed, further] = tokens.left;
        self.committed.tokens = committed.min(self.committed.depth);
        self.further = further.min(self.further_depth);
        self.committed.last = 0;
        self.refill(u64::try_from(since).unwrap_or(0));
        self.committed.last = now.0;
    }

    /// Holds what a meter elsewhere held, as far as it fits.
    pub fn set_state(&mut self, state: MeterState) {
        if self.kind & KINDS == PACKETS {
            return self.set_packets(state.packets);
        }
        if self.shared().is_some() {
            return;
        }
        let [committed, further] = state.tokens;
        self.committed.tokens = committed.min(self.committed.depth);
        self.committed.last = state.at.0;
        self.further = further.min(self.further_depth);
    }
}
