//! Active queue management: what becomes of a packet that has waited, when its turn has come; with WRED, of one that
//! comes.

pub(crate) mod codel;
pub(crate) mod dual;
pub(crate) mod wred;

use core::time::Duration;

/// Nanoseconds of a unit of time here, as a power of two: that of stamps of packets.
pub(crate) const UNIT_SHIFT: u32 = crate::packets::STAMP_SHIFT;

/// Times of active queue management.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AqmTimes {
    /// CoDel: a standing delay below it is accepted (RFC 8289 §4.4).
    pub codel_target: Duration,
    /// CoDel: for how long the delay has to be above that first; about the longest usual round trip.
    pub codel_interval: Duration,
    /// Dual queue: the delay that the classic queue is held at (RFC 9332 Appendix A.1).
    pub dual_target: Duration,
    /// Dual queue: the longest usual round trip.
    pub dual_longest_rtt: Duration,
    /// Dual queue: from what delay on packets of the low latency queue are marked.
    pub low_latency_from: Duration,
    /// Dual queue: how much longer that delay has to be until all are; zero is a step.
    pub low_latency_range: Duration,
    /// WRED: an empty queue counts as one that a packet has left in each such time.
    pub wred_packet: Duration,
}

impl AqmTimes {
    /// Those of the RFCs; of WRED, what a packet of 1,250 octets takes at 10 Mbit/s.
    pub const STANDARD: Self = Self {
        codel_target: Duration::from_millis(5),
        codel_interval: Duration::from_millis(100),
        dual_target: Duration::from_millis(15),
        dual_longest_rtt: Duration::from_millis(100),
        low_latency_from: Duration::from_micros(800),
        low_latency_range: Duration::from_micros(400),
        wred_packet: Duration::from_millis(1),
    };
}

impl Default for AqmTimes {
    fn default() -> Self {
        Self::STANDARD
    }
}

/// A duration in units, at most half of the time until they start anew.
pub(crate) fn units(duration: Duration) -> u32 {
    u32::try_from(duration.as_nanos() >> UNIT_SHIFT)
        .map_or(i32::MAX as u32, |units| units.min(i32::MAX as u32))
}

/// What becomes of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    /// It passes, and says that congestion was experienced.
    Mark,
    Drop,
}

/// Whether `time` is not before `other`, where units start anew.
pub(crate) const fn reached(time: u32, other: u32) -> bool {
    time.wrapping_sub(other) as i32 >= 0
}
