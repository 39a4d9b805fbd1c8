//! Packets with a martian source (RFC 1812 §5.3.7) are discarded.
//!
//! The reason is [`DropReason::MartianSource`]: stage `parse` sets it for packets from a data network, `local` for
//! packets to own addresses. Stage `tx` counts it in [`Stats::drops`](crate::Stats::drops), as it counts all reasons.

use packet::{Addrs, DropReason};

/// Checks the source of a packet from a data network, which is to be routed: neither martian nor link-local.
#[inline(always)]
pub(super) fn check_source(addrs: &Addrs) -> Result<(), DropReason> {
    match addrs.has_unforwardable_source() {
        true => Err(DropReason::MartianSource),
        false => Ok(()),
    }
}
