//! Watermarks and limits of counters: what they are, and the line that holds one URR's.
//!
//! Octet counters start so far up that their top bit is set as soon as something may be due: until then a packet
//! pays one instruction for all of it. The line holds how far up (the *bias* of each direction) and the exact bounds.
//! A bound for both directions together is looked at when either has used half of what is left: after a few dozen
//! looks at most it is reached, and no packet that reaches it is missed.

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::{Direction, UrrCount};

/// A number of octets for both directions together and for each; what is left out has no bound (TS 29.244 §8.2.13,
/// §8.2.50). From 2^56 - 1 octets on (72 PB) there is no bound either.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Volumes {
    /// Both directions together.
    pub total: Option<u64>,
    /// Uplink.
    pub uplink: Option<u64>,
    /// Downlink.
    pub downlink: Option<u64>,
}

impl Volumes {
    /// No bound.
    pub const NONE: Self = Self {
        total: None,
        uplink: None,
        downlink: None,
    };

    /// A bound for both directions together.
    pub const fn of_total(octets: u64) -> Self {
        Self {
            total: Some(octets),
            ..Self::NONE
        }
    }

    /// Whether there is none.
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }
}

/// What a counter does by itself when it reaches a number of octets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct CounterLimit {
    /// The most that it counts, if it acts. Octets of one direction stop that direction, those of both stop both.
    pub octets: Volumes,
    /// What happens to packets that would make it more, and to all that follow.
    pub action: LimitAction,
}

/// The actions of a limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LimitAction {
    /// Nothing: they are counted, and the limit is reported once.
    Event,
    /// They are dropped, uncounted, and the first is reported ([`Reached::trapped`]).
    Trap,
    /// They are dropped, uncounted.
    Drop,
}

/// Watermarks and limit of a URR, compared with what it has counted since it was installed ([`UrrCount`]).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Where it reports, once for each.
    pub watermarks: Volumes,
    /// Where it acts.
    pub limit: Option<CounterLimit>,
}

impl Bounds {
    /// Neither watermark nor limit.
    pub const NONE: Self = Self {
        watermarks: Volumes::NONE,
        limit: None,
    };

    /// The same of a counter that begins anew and counts in units of `to`, where they are of one that has `counted` so
    /// much in units of `from`, and never more than there would be.
    #[must_use]
    pub fn lowered(&self, counted: UrrCount, from: u64, to: u64) -> Self {
        let spent = |volume: Volumes| {
            let [ul, dl] = [counted.ul_octets, counted.dl_octets];
            let less = |bound: Option<u64>, octets: u64| {
                let units = (u128::from(octets) * u128::from(from)).div_ceil(u128::from(to.max(1)));
                bound.map(|bound| bound.saturating_sub(u64::try_from(units).unwrap_or(u64::MAX)))
            };
            Volumes {
                total: less(volume.total, ul.saturating_add(dl)),
                uplink: less(volume.uplink, ul),
                downlink: less(volume.downlink, dl),
            }
        };
        Self {
            watermarks: spent(self.watermarks),
            limit: self.limit.map(|limit| CounterLimit {
                octets: spent(limit.octets),
                ..limit
            }),
        }
    }
}

/// What a counter has reached, of what was set for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reached {
    /// A watermark.
    pub watermark: bool,
    /// The limits: bit 0 both directions together, bit 1 uplink, bit 2 downlink; bit 3 that of events.
    pub limits: u8,
    /// A packet arrived that a limit with [`LimitAction::Trap`] has stopped.
    pub trapped: bool,
}

impl Reached {
    /// Nothing.
    pub const NOTHING: Self = Self {
        watermark: false,
        limits: 0,
        trapped: false,
    };

    /// Whether it has reached nothing.
    pub const fn is_nothing(self) -> bool {
        !self.watermark && self.limits == 0 && !self.trapped
    }

    /// The same, of a counter of events.
    #[must_use]
    pub const fn of_events(self) -> Self {
        Self {
            limits: (self.limits & 1) << 3,
            ..self
        }
    }

    /// What both have reached together.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self {
            watermark: self.watermark || other.watermark,
            limits: self.limits | other.limits,
            trapped: self.trapped || other.trapped,
        }
    }
}

/// The same, each bound by itself: bit 0 is that of both directions together, bit 1 uplink, bit 2 downlink.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Raised {
    /// Watermarks.
    pub watermarks: u8,
    /// Limits, by the [`Direction`] of the packet that reached them.
    pub limits: [u8; 2],
}

/// What became of a packet in the counters.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counted {
    /// It is not counted in any of them, because this is to be done with it: `Trap` or `Drop`.
    pub action: Option<LimitAction>,
    /// The URRs that reached a watermark: bit n is slot n.
    pub watermarks: u64,
    /// The URRs that reached a limit. If it acts, they are stopped now.
    pub limits: u64,
    /// A counter of them has counted as much as [`Blocks::look_every`](super::Blocks::look_every) says, or may be near
    /// a bound.
    pub is_due: bool,
}

impl Counted {
    /// Counted, and nothing else.
    pub const PASSED: Self = Self {
        action: None,
        watermarks: 0,
        limits: 0,
        is_due: false,
    };
}

/// The low bits of a word are octets; all ones: no bound.
const OCTETS: u64 = (1 << 60) - 1;
/// A limit's action, from 0 in the order of `LimitAction`.
const ACTION_SHIFT: u32 = 60;
/// The bound has been reached, and reported.
const RAISED: u64 = 1 << 63;
/// In the first limit: a packet that it stops has arrived, and that was reported.
const TRAPPED: u64 = 1 << 62;
/// In the second limit: the first one was reached by a downlink packet.
const BY_DOWNLINK: u64 = 1 << 62;
/// In the first two watermarks: three bits each of [`LookEvery`].
const EVERY_SHIFT: u32 = 60;
const EVERY_BITS: u32 = 3;
/// A counter that says "look".
const LOOK: u64 = 1 << 63;

/// The line of one URR.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub(super) struct BoundsLine {
    /// What the octet counters of both directions are ahead. The top bit is always clear.
    bias: [u64; 2],
    /// Total, uplink, downlink.
    watermarks: [u64; 3],
    limits: [u64; 3],
}

/// After how many octets of one direction a counter says "look", also where no bound is near: 2 to the power of this
/// number, which is below 60; 0: only for bounds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct LookEvery(u8);

impl LookEvery {
    /// For bounds alone.
    pub(super) const NEVER: Self = Self(0);

    /// So that both directions together have counted no more than `octets`, if those are at least 4.
    pub(super) fn of(octets: u64) -> Self {
        let exponent = (octets / 2).max(2).ilog2();
        Self(exponent.min(ACTION_SHIFT - 1) as u8)
    }

    /// Whether it is never.
    pub(super) const fn is_never(self) -> bool {
        self.0 == 0
    }

    const fn octets(self) -> Option<u64> {
        if self.is_never() { None } else { Some(1 << self.0) }
    }
}

/// Which directions stop.
pub(super) type Stops = [bool; 2];

impl BoundsLine {
    pub(super) fn of(bounds: &Bounds, every: LookEvery) -> Self {
        let limit = bounds.limit.unwrap_or(CounterLimit {
            octets: Volumes::NONE,
            action: LimitAction::Event,
        });
        let action = (limit.action as u64) << ACTION_SHIFT;
        let mut watermarks = words(bounds.watermarks);
        watermarks[0] |= u64::from(every.0 & ((1 << EVERY_BITS) - 1)) << EVERY_SHIFT;
        watermarks[1] |= u64::from(every.0 >> EVERY_BITS) << EVERY_SHIFT;
        Self {
            bias: [0; 2],
            watermarks,
            limits: words(limit.octets).map(|word| word | action),
        }
    }

    /// Continues with what `old` has reported already, if the bounds are the same. Returns whether they are.
    pub(super) fn go_on(&mut self, old: &Self) -> bool {
        let watermarks = old.watermarks.map(|word| word & !RAISED);
        let limits = old.limits.map(|word| word & !(RAISED | TRAPPED | BY_DOWNLINK));
        let is_same = watermarks == self.watermarks && limits == self.limits;
        if is_same {
            (self.watermarks, self.limits) = (old.watermarks, old.limits);
        }
        is_same
    }

    /// After how many octets it says "look".
    pub(super) const fn every(&self) -> LookEvery {
        let [low, high, _] = self.watermarks;
        let mask = (1 << EVERY_BITS) - 1;
        LookEvery((low >> EVERY_SHIFT & mask | (high >> EVERY_SHIFT & mask) << EVERY_BITS) as u8)
    }

    /// What the limit does to packets.
    pub(super) const fn action(&self) -> LimitAction {
        match self.limits[0] >> ACTION_SHIFT & 3 {
            0 => LimitAction::Event,
            1 => LimitAction::Trap,
            _ => LimitAction::Drop,
        }
    }

    /// What a URR has counted, from what its counters say.
    #[inline]
    pub(super) const fn counted(&self, raw: UrrCount) -> UrrCount {
        UrrCount {
            ul_octets: raw.ul_octets.wrapping_sub(self.bias[0]),
            dl_octets: raw.dl_octets.wrapping_sub(self.bias[1]),
            ..raw
        }
    }

    /// Sets the bias for what has been counted, and returns what the counters are to hold.
    pub(super) fn arm(&mut self, counted: UrrCount) -> UrrCount {
        let octets = [counted.ul_octets, counted.dl_octets];
        let total = octets[0].saturating_add(octets[1]);
        for direction in Direction::BOTH {
            let at = direction as usize;
            let bounds = [self.watermarks, self.limits];
            let both = bounds
                .iter()
                .filter_map(|words| Some(live(words[0])?.saturating_sub(total).div_ceil(2)));
            let own = bounds
                .iter()
                .filter_map(|words| Some(live(words[1 + at])?.saturating_sub(octets[at])));
            let distance = both.chain(own).chain(self.every().octets()).min().unwrap_or(LOOK);
            let most = LOOK.saturating_sub(octets[at]).max(1);
            self.bias[at] = LOOK - distance.clamp(1, most) - octets[at].min(most);
        }
        UrrCount {
            ul_octets: octets[0] + self.bias[0],
            dl_octets: octets[1] + self.bias[1],
            ..counted
        }
    }

    /// Whether a limit that acts is exceeded by what would be counted with a packet of this direction, and what stops
    /// then.
    pub(super) fn exceed(&mut self, counted: UrrCount, direction: Direction) -> Option<Stops> {
        if self.action() == LimitAction::Event {
            return None;
        }
        let kinds = [0, 1 + direction as usize];
        self.raise_limits(direction, |kind, octets| {
            kinds.contains(&kind) && sum(counted, kind) > octets
        })
    }

    /// Whether a limit is reached by what has been counted, the last of it in this direction, and what stops then:
    /// nothing if it does not act.
    pub(super) fn reach(&mut self, counted: UrrCount, direction: Direction) -> Option<Stops> {
        let stops = self.raise_limits(direction, |kind, octets| sum(counted, kind) >= octets)?;
        Some(stops.map(|stops| stops && self.action() != LimitAction::Event))
    }

    fn raise_limits(&mut self, direction: Direction, is_due: impl Fn(usize, u64) -> bool) -> Option<Stops> {
        let mut stops = [false; 2];
        let mut is_total = false;
        for (kind, word) in self.limits.iter_mut().enumerate() {
            if live(*word).is_some_and(|octets| is_due(kind, octets)) {
                *word |= RAISED;
                is_total |= kind == 0;
                stops = [stops[0] || kind != 2, stops[1] || kind != 1];
            }
        }
        if is_total && direction == Direction::Downlink {
            self.limits[1] |= BY_DOWNLINK;
        }
        stops.contains(&true).then_some(stops)
    }

    /// A packet has arrived that the limit stops. Returns whether that is to be reported, and has not been.
    pub(super) fn trap(&mut self) -> bool {
        let is_news = self.action() == LimitAction::Trap && self.limits[0] & TRAPPED == 0;
        self.limits[0] |= if is_news { TRAPPED } else { 0 };
        is_news
    }

    /// What has been reached so far.
    pub(super) fn reached(&self) -> Reached {
        let is_raised = |word: &u64| word & RAISED != 0;
        let limits = self.limits.iter().enumerate();
        Reached {
            watermark: self.watermarks.iter().any(is_raised),
            limits: limits.fold(0, |mask, (kind, word)| mask | u8::from(is_raised(word)) << kind),
            trapped: self.limits[0] & TRAPPED != 0,
        }
    }

    /// The same, each bound by itself.
    pub(super) fn raised(&self) -> Raised {
        let mask = |words: &[u64; 3]| {
            let words = words.iter().enumerate();
            words.fold(0, |mask, (kind, word)| {
                mask | u8::from(word & RAISED != 0) << kind
            })
        };
        let limits = mask(&self.limits);
        let is_by_downlink = self.limits[1] & BY_DOWNLINK != 0;
        let of_total = [
            limits & 1 & u8::from(!is_by_downlink),
            limits & 1 & u8::from(is_by_downlink),
        ];
        Raised {
            watermarks: mask(&self.watermarks),
            limits: [of_total[0] | limits & 2, of_total[1] | limits & 4],
        }
    }

    /// Leaves half of what a limit that acts still allows, rounded down.
    pub(super) fn halve(&mut self, counted: UrrCount) {
        if self.action() == LimitAction::Event {
            return;
        }
        for (kind, word) in self.limits.iter_mut().enumerate() {
            if let Some(octets) = live(*word) {
                let used = sum(counted, kind);
                let left = octets.saturating_sub(used) / 2;
                *word = *word & !OCTETS | (used.min(octets) + left);
            }
        }
    }

    /// Whether a watermark is reached that was not before.
    pub(super) fn raise_watermarks(&mut self, counted: UrrCount) -> bool {
        let mut is_raised = false;
        for (kind, word) in self.watermarks.iter_mut().enumerate() {
            if live(*word).is_some_and(|octets| sum(counted, kind) >= octets) {
                *word |= RAISED;
                is_raised = true;
            }
        }
        is_raised
    }
}

/// Whether a counter says "look".
pub(super) const fn says_look(octets: u64) -> bool {
    octets & LOOK != 0
}

fn words(volumes: Volumes) -> [u64; 3] {
    [volumes.total, volumes.uplink, volumes.downlink]
        .map(|octets| octets.map_or(OCTETS, |octets| octets.min(OCTETS)))
}

/// The octets of a bound that is there and was not reached yet.
const fn live(word: u64) -> Option<u64> {
    if word & RAISED != 0 || word & OCTETS == OCTETS {
        None
    } else {
        Some(word & OCTETS)
    }
}

/// What is compared with a bound: total, uplink, downlink.
const fn sum(counted: UrrCount, kind: usize) -> u64 {
    match kind {
        0 => counted.ul_octets.saturating_add(counted.dl_octets),
        1 => counted.ul_octets,
        _ => counted.dl_octets,
    }
}
