//! `SharedMeters`: meters that many sessions pass, as those of slices and data networks.

use core::fmt;

use super::Rate;
use super::single::Single;
use crate::Direction;

/// A shared meter; each worker has its own with the same number, which polices the worker's share of the rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct SharedId(pub u16);

impl SharedId {
    /// No meter.
    pub const NONE: Self = Self(0);
}

/// A worker's shared meters: one bucket for each direction, 64 octets. Nothing is allocated after `new`.
///
/// A meter may have another *above* it (a data network within a slice), which its packets pass too.
pub struct SharedMeters {
    /// The first is never used: it is [`SharedId::NONE`].
    meters: Box<[[Single; 2]]>,
    above: Box<[SharedId]>,
}

impl SharedMeters {
    /// Meters 1 to `count`, without limits.
    pub fn new(count: u16) -> Self {
        let places = usize::from(count) + 1;
        Self {
            meters: vec![[Single::UNLIMITED; 2]; places].into(),
            above: vec![SharedId::NONE; places].into(),
        }
    }

    /// Sets the rate and the burst in octets of one direction; its tokens stay, as far as they fit. Tells whether
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

    /// Puts a meter below another one with a lower number (which rules out circles), or below none. Tells whether
    /// there are such meters.
    pub fn set_above(&mut self, id: SharedId, above: SharedId) -> bool {
        match self.above.get_mut(usize::from(id.0)) {
            Some(place) if above < id => {
                *place = above;
                true
            }
            _ => false,
        }
    }

    /// Charges a meter and all above it: the result is negative if one has too little. Then
    /// [`put_back`](Self::put_back) must follow.
    #[inline(always)]
    pub(crate) fn charge(&mut self, id: SharedId, direction: Direction, now: u64, cost: u64) -> i64 {
        let mut next = id;
        let mut any = 0;
        while let Some(meter) = self.meter(next, direction) {
            any |= meter.charge(now, cost);
            next = self.above(next);
        }
        any
    }

    /// Puts back what `charge` took at the same time. Tells which meter has too little, the lowest of several.
    #[cold]
    pub(crate) fn put_back(&mut self, id: SharedId, direction: Direction, cost: u64) -> Option<SharedId> {
        let mut next = id;
        let mut short = None;
        while let Some(meter) = self.meter(next, direction) {
            if meter.put_back(cost) {
                short = short.or(Some(next));
            }
            next = self.above(next);
        }
        short
    }

    #[inline(always)]
    fn meter(&mut self, id: SharedId, direction: Direction) -> Option<&mut Single> {
        if id == SharedId::NONE {
            return None;
        }
        let meters = self.meters.get_mut(usize::from(id.0))?;
        Some(&mut meters[direction as usize])
    }

    #[inline(always)]
    fn above(&self, id: SharedId) -> SharedId {
        self.above
            .get(usize::from(id.0))
            .copied()
            .unwrap_or(SharedId::NONE)
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

    #[test]
    fn a_full_meter_above_costs_the_one_below_nothing() {
        let mut meters = SharedMeters::new(3);
        let [slice, network] = [SharedId(1), SharedId(3)];
        assert!(meters.set(slice, UP, Rate::ZERO, 100) && meters.set(network, UP, Rate::ZERO, 150));
        assert!(meters.set_above(network, slice));
        let cost = super::super::cost_of(100);
        meters.meters[1][0].tokens = cost;
        meters.meters[3][0].tokens = cost + 1;
        assert_eq!(meters.charge(network, UP, 5, cost), 1);
        assert!(meters.charge(network, UP, 5, 1) < 0);
        assert_eq!(meters.put_back(network, UP, 1), Some(slice));
        assert_eq!((meters.meters[1][0].tokens, meters.meters[3][0].tokens), (0, 1));
        assert!(meters.charge(network, Direction::Downlink, 5, cost) > 0);
    }

    #[test]
    fn there_are_no_circles_and_no_meter_zero() {
        let mut meters = SharedMeters::new(2);
        assert!(!meters.set_above(SharedId(1), SharedId(2)));
        assert!(!meters.set_above(SharedId(1), SharedId(1)));
        assert!(!meters.set(SharedId::NONE, UP, Rate::ZERO, 0));
        assert!(!meters.set(SharedId(3), UP, Rate::ZERO, 0));
        assert_eq!(meters.charge(SharedId(9), UP, 0, 1), 0);
    }
}
