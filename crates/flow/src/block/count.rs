//! What a URR has counted.

use crate::Direction;

/// What a URR has counted; octets are inner IP lengths. All numbers wrap, after centuries.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UrrCount {
    /// Uplink packets.
    pub ul_packets: u64,
    /// Uplink octets.
    pub ul_octets: u64,
    /// Downlink packets.
    pub dl_packets: u64,
    /// Downlink octets.
    pub dl_octets: u64,
    /// Events among the packets of both directions, of a URR that counts them: of another counter than the rest.
    pub events: u64,
}

impl UrrCount {
    /// The octets of one direction.
    pub(crate) const fn octets(&self, direction: Direction) -> u64 {
        match direction {
            Direction::Uplink => self.ul_octets,
            Direction::Downlink => self.dl_octets,
        }
    }
}
