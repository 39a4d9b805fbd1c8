//! What all sessions of a worker have forwarded of each session group since its start: a slice and a data network, by
//! the number that control gives them.

use crate::Direction;

/// The number of a session group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionGroupId(u16);

impl SessionGroupId {
    /// The group of all that have none of their own.
    pub const OTHERS: Self = Self(0);
    /// Numbers are below this.
    pub const NUMBERS: usize = 512;

    /// `None` if there is no such number.
    pub const fn new(number: u16) -> Option<Self> {
        if (number as usize) < Self::NUMBERS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The number.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Of a number of which only the lower bits count.
    #[inline(always)]
    pub(super) const fn of_bits(bits: u32) -> Self {
        Self((bits as usize % Self::NUMBERS) as u16)
    }
}

/// What was forwarded of one group.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionGroupTotal {
    /// User packets by [`Direction`].
    pub packets: [u64; 2],
    /// Their octets, from the inner IP header on.
    pub octets: [u64; 2],
}

/// The totals of one worker.
#[derive(Debug)]
pub struct SessionGroupTotals {
    totals: Box<[SessionGroupTotal; SessionGroupId::NUMBERS]>,
}

impl SessionGroupTotals {
    /// All zero.
    pub(super) fn new() -> Self {
        Self {
            totals: Box::new([SessionGroupTotal::default(); SessionGroupId::NUMBERS]),
        }
    }

    /// By the group's number.
    pub fn all(&self) -> &[SessionGroupTotal] {
        &self.totals[..]
    }

    /// Counts a packet of this number of octets.
    #[inline(always)]
    pub fn count(&mut self, group: SessionGroupId, direction: Direction, octets: u64) {
        self.add(group, direction, 1, octets);
    }

    /// Adds packets that were counted elsewhere.
    #[inline(always)]
    pub fn add(&mut self, group: SessionGroupId, direction: Direction, packets: u64, octets: u64) {
        let total = &mut self.totals[group.index() % SessionGroupId::NUMBERS];
        let way = direction as usize;
        total.packets[way] = total.packets[way].wrapping_add(packets);
        total.octets[way] = total.octets[way].wrapping_add(octets);
    }

    /// Takes a packet back that was counted.
    pub fn take_back(&mut self, group: SessionGroupId, direction: Direction, octets: u64) {
        let total = &mut self.totals[group.index() % SessionGroupId::NUMBERS];
        let way = direction as usize;
        total.packets[way] = total.packets[way].wrapping_sub(1);
        total.octets[way] = total.octets[way].wrapping_sub(octets);
    }
}
