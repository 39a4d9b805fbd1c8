//! `SharedMeters`: meters that many sessions pass, as those of slices and data networks, and of correlated QERs.

use core::fmt;

use super::single::Single;
use super::{Colour, Rate, cost_of};
use crate::Direction;

/// A shared meter; each worker has its own with the same number, which polices the worker's share of the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SharedId(pub u16);

impl SharedId {
    /// No meter.
    pub const NONE: Self = Self(0);
}

/// A meter, and the octets that packets wanted to pass of it, by direction.
pub type Demand = (SharedId, [u64; 2]);

/// The meters that packets of one number pass, before the first [`SharedId::NONE`].
pub type Chain = [SharedId; 4];

/// A worker's shared meters: one bucket for each direction, 64 octets. Nothing is allocated after `new`.
///
/// A number names one meter, its own, or for a *chain*: a data network and the slice that it is used in.
pub struct SharedMeters {
    /// The first is never used: it is [`SharedId::NONE`].
    meters: Box<[[Single; 2]]>,
    chains: Box<[Chain]>,
    /// What was asked of each meter, in tokens.
    asked: Box<[[u64; 2]]>,
}

impl SharedMeters {
    /// Meters 1 to `count`, without limits.
    pub fn new(count: u16) -> Self {
        let places = usize::from(count) + 1;
        let own = |id| [SharedId(id), SharedId::NONE, SharedId::NONE, SharedId::NONE];
        Self {
            meters: vec![[Single::UNLIMITED; 2]; places].into(),
            chains: (0..=count).map(own).collect(),
            asked: vec![[0; 2]; places].into(),
        }
    }

    /// Sets the rate and the burst in octets of one direction; its tokens stay, as far as they fit. Returns whether
    /// there is such a meter.
    pub fn set(&mut self, id: SharedId, direction: Direction, rate: Rate, burst: u64) -> bool {
        match self.meters.get_mut(usize::from(id.0)) {
            Some(meters) if id != SharedId::NONE => {
                let meter = &mut meters[direction as usize];
                let old = core::mem::replace(meter, Single::new(rate, burst));
                meter.go_on(&old);
                true
            }
            _ => false,
        }
    }

    /// Makes a meter what it was at the start: without limits, in both directions.
    pub fn forget(&mut self, id: SharedId) {
        if let Some(meters) = self.meters.get_mut(usize::from(id.0)) {
            *meters = [Single::UNLIMITED; 2];
        }
    }

    /// Lets packets of a number pass these meters instead of its own; if several have too little, the first is
    /// returned. Returns whether there are such meters.
    pub fn set_chain(&mut self, id: SharedId, chain: Chain) -> bool {
        let is_there = |id: SharedId| usize::from(id.0) < self.meters.len();
        let known = chain.into_iter().all(is_there);
        match self.chains.get_mut(usize::from(id.0)) {
            Some(place) if known && id != SharedId::NONE => {
                *place = chain;
                true
            }
            _ => false,
        }
    }

    /// Writes beside each meter, by direction, the octets that packets wanted to pass of it since this was asked last.
    /// What QERs of sessions refuse does not count.
    pub fn take_demand(&mut self, demand: &mut [Demand]) {
        for (id, octets) in demand {
            if let Some(asked) = self.asked.get_mut(usize::from(id.0)) {
                *octets = asked.map(|tokens| tokens / cost_of(1));
                *asked = [0; 2];
            }
        }
    }

    /// Charges all meters of a number: the result is negative if one has too little. Then
    /// [`put_back`](Self::put_back) must follow.
    #[inline(always)]
    pub(crate) fn charge(&mut self, id: SharedId, direction: Direction, now: u64, cost: u64) -> i64 {
        let mut any = 0;
        if id == SharedId::NONE {
            return any;
        }
        for next in self.chain(id) {
            let Some((meter, asked)) = self.meter(next, direction) else {
                break;
            };
            any |= meter.charge(now, cost);
            *asked = asked.wrapping_add(cost);
        }
        any
    }

    /// As `charge`, with the colour of what passed, or put back already.
    pub(crate) fn take(&mut self, id: SharedId, direction: Direction, now: u64, cost: u64) -> Colour {
        if self.charge(id, direction, now, cost) >= 0 {
            return Colour::Green;
        }
        self.put_back(id, direction, cost);
        Colour::Red
    }

    /// Puts back what `charge` took at the same time. Returns which meter has too little, the first of several.
    #[cold]
    pub(crate) fn put_back(&mut self, id: SharedId, direction: Direction, cost: u64) -> Option<SharedId> {
        let mut short = None;
        for next in self.chain(id) {
            let Some((meter, _)) = self.meter(next, direction) else {
                break;
            };
            if meter.put_back(cost) {
                short = short.or(Some(next));
            }
        }
        if short.is_none() {
            self.forget_asked(id, direction, cost);
        }
        short
    }

    /// A packet that other meters refused asked nothing of these.
    fn forget_asked(&mut self, id: SharedId, direction: Direction, cost: u64) {
        for next in self.chain(id) {
            if let Some((_, asked)) = self.meter(next, direction) {
                *asked = asked.wrapping_sub(cost);
            }
        }
    }

    #[inline(always)]
    fn chain(&self, id: SharedId) -> Chain {
        self.chains.get(usize::from(id.0)).copied().unwrap_or_default()
    }

    #[inline(always)]
    fn meter(&mut self, id: SharedId, direction: Direction) -> Option<(&mut Single, &mut u64)> {
        if id == SharedId::NONE {
            return None;
        }
        let meters = self.meters.get_mut(usize::from(id.0))?;
        let asked = self.asked.get_mut(usize::from(id.0))?;
        Some((&mut meters[direction as usize], &mut asked[direction as usize]))
    }
}

impl fmt::Debug for SharedMeters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedMeters")
            .field("count", &self.meters.len().saturating_sub(1))
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const UP: Direction = Direction::Uplink;

    fn chain<const N: usize>(ids: [u16; N]) -> Chain {
        let mut chain = Chain::default();
        chain
            .iter_mut()
            .zip(ids)
            .for_each(|(place, id)| *place = SharedId(id));
        chain
    }

    #[test]
    fn a_full_meter_of_a_chain_costs_the_others_nothing() {
        let mut meters = SharedMeters::new(4);
        let [slice, network, both] = [SharedId(1), SharedId(3), SharedId(4)];
        assert!(meters.set(slice, UP, Rate::ZERO, 100) && meters.set(network, UP, Rate::ZERO, 150));
        assert!(meters.set_chain(both, chain([3, 1])));
        let cost = cost_of(100);
        meters.meters[1][0].tokens = cost;
        meters.meters[3][0].tokens = cost + 1;
        assert!(meters.charge(both, UP, 5, cost) >= 0);
        assert!(meters.charge(both, UP, 5, 1) < 0);
        assert_eq!(meters.put_back(both, UP, 1), Some(slice));
        assert_eq!((meters.meters[1][0].tokens, meters.meters[3][0].tokens), (0, 1));
        assert!(meters.charge(both, Direction::Downlink, 5, cost) >= 0);
        assert!(meters.charge(network, UP, 5, 1) >= 0, "alone it has a token");
        assert!(meters.charge(both, UP, 5, 1) < 0);
        assert_eq!(
            meters.put_back(both, UP, 1),
            Some(network),
            "the first that has too little"
        );
    }

    #[test]
    fn demand_is_what_these_meters_were_asked_for_by_whom_no_other_refused() {
        let mut meters = SharedMeters::new(2);
        assert!(meters.set(SharedId(1), UP, Rate::ZERO, 100));
        let mut demand = [1, 2, 9].map(|id| (SharedId(id), [0; 2]));
        assert!(meters.charge(SharedId(1), UP, 0, cost_of(100)) >= 0);
        assert!(meters.charge(SharedId(1), UP, 0, cost_of(70)) < 0);
        assert_eq!(meters.put_back(SharedId(1), UP, cost_of(70)), Some(SharedId(1)));
        let down = Direction::Downlink;
        assert!(meters.charge(SharedId(2), down, 0, cost_of(9)) >= 0);
        assert!(meters.charge(SharedId(2), down, 0, cost_of(5)) >= 0);
        assert_eq!(
            meters.put_back(SharedId(2), down, cost_of(5)),
            None,
            "a QER refused it"
        );
        meters.take_demand(&mut demand);
        assert_eq!(demand.map(|(_, octets)| octets), [[170, 0], [0, 9], [0, 0]]);
        meters.take_demand(&mut demand);
        assert_eq!(demand.map(|(_, octets)| octets), [[0; 2]; 3]);
    }

    #[test]
    fn there_are_no_chains_of_unknown_meters_and_no_meter_zero() {
        let mut meters = SharedMeters::new(2);
        assert!(!meters.set_chain(SharedId(1), chain([3])));
        assert!(!meters.set_chain(SharedId(3), chain([1])));
        assert!(!meters.set_chain(SharedId::NONE, chain([1])));
        assert!(!meters.set(SharedId::NONE, UP, Rate::ZERO, 0));
        assert!(!meters.set(SharedId(3), UP, Rate::ZERO, 0));
        assert_eq!(meters.charge(SharedId(9), UP, 0, 1), 0);
    }
}
