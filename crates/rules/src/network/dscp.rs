//! How packets that leave by a network instance are marked: DSCP by QoS flow and colour, and the priority of their
//! frames.
//!
//! It is configuration, for what a FAR says nothing about: Transport Level Marking comes from the CP function, which
//! maps the 5QI and priorities (TS 29.244 §5.4.13), and wins.

use packet::{Dscp, Qfi};

/// The DSCPs of one QoS flow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct DscpMark {
    /// Of packets within the guaranteed bit rates of all QERs that have one below their maximum bit rate.
    pub green: Dscp,
    /// Of the others: those that some meter calls yellow (RFC 2698 §3).
    pub yellow: Dscp,
    /// The Priority Code Point of their frames, 0 to 7, where the instance is on a VLAN (IEEE 802.1Q §9.6).
    pub pcp: u8,
}

/// The DSCPs of each QoS flow; packets of flows that are not in it, and of none, keep what they have: an outer header
/// 0, a plain packet its own.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DscpTable([Option<DscpMark>; Self::FLOWS]);

impl DscpTable {
    /// QoS flows that there can be.
    pub const FLOWS: usize = Qfi::MAX.get() as usize + 1;

    /// Marks nothing.
    pub const fn new() -> Self {
        Self([None; Self::FLOWS])
    }

    /// Marks packets of the QoS flow; gives how they were marked before.
    pub fn set(&mut self, qfi: Qfi, mark: DscpMark) -> Option<DscpMark> {
        self.0[usize::from(qfi.get()) % Self::FLOWS].replace(mark)
    }

    /// How packets of the QoS flow are marked.
    #[inline]
    pub fn get(&self, qfi: Qfi) -> Option<DscpMark> {
        self.0[usize::from(qfi.get()) % Self::FLOWS]
    }
}

impl Default for DscpTable {
    fn default() -> Self {
        Self::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_qos_flow_has_its_own_mark() {
        let mark = |green, yellow| DscpMark {
            green: Dscp::from_low_bits(green),
            yellow: Dscp::from_low_bits(yellow),
            pcp: 0,
        };
        let mut table = DscpTable::new();
        assert_eq!(table.set(Qfi::MAX, mark(46, 46)), None);
        assert_eq!(table.set(Qfi::from_low_bits(9), mark(10, 12)), None);
        assert_eq!(table.get(Qfi::from_low_bits(9)), Some(mark(10, 12)));
        assert_eq!(table.get(Qfi::MAX), Some(mark(46, 46)));
        assert_eq!(table.get(Qfi::from_low_bits(0)), None);
        assert_eq!(table.set(Qfi::MAX, mark(0, 0)), Some(mark(46, 46)));
    }
}
