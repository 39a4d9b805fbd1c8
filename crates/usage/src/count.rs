//! Arithmetic of counts.

use flow::UrrCount;

/// Whether nothing was counted.
pub(crate) fn is_null(count: UrrCount) -> bool {
    count.ul_packets == 0 && count.dl_packets == 0 && count.events == 0
}

/// Two counts together.
pub fn sum(a: UrrCount, b: UrrCount) -> UrrCount {
    combine(a, b, u64::wrapping_add)
}

/// What of `a` is beyond `b`: nothing, where packets that counted in `b` were lost later, and taken back.
pub(crate) fn beyond(a: UrrCount, b: UrrCount) -> UrrCount {
    combine(a, b, u64::saturating_sub)
}

pub(crate) fn combine(a: UrrCount, b: UrrCount, op: fn(u64, u64) -> u64) -> UrrCount {
    UrrCount {
        ul_packets: op(a.ul_packets, b.ul_packets),
        ul_octets: op(a.ul_octets, b.ul_octets),
        dl_packets: op(a.dl_packets, b.dl_packets),
        dl_octets: op(a.dl_octets, b.dl_octets),
        events: op(a.events, b.events),
    }
}
