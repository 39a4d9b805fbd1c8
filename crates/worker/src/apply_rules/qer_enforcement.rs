//! QER enforcement (TS 29.244 §5.4): gates and bit rates.
//!
//! A verdict has a bit for each QER of its PDR. Gates are checked first, of all QERs at once; then each QER with an MBR
//! or GBR meters the packet, and so do the policers and correlated QERs that sessions share. Packets above a rate are
//! dropped, none is delayed: rates that queues keep have no meter (`rules::compile`). Rates of packets that no QER
//! applies to are in `local/generated_packet_rate_limit.rs`.

use flow::meter::{Colour, Offer, SharedMeters};
use flow::{LiveBlock, Nanos, Verdict};
use packet::DropReason;

/// Whether the gates of all QERs of a verdict are open in its direction (§5.4.3).
#[inline(always)]
pub(super) fn check_gates(block: &LiveBlock<'_>, verdict: &Verdict) -> Result<(), DropReason> {
    match block.is_closed(verdict.qers) {
        true => Err(DropReason::GateClosed),
        false => Ok(()),
    }
}

/// Enforces the rates of all QERs of a verdict (§5.4.4) on a packet of `octets`, and gives the packet's colour. A
/// packet above one of the rates takes tokens of no meter.
#[inline(always)]
pub(super) fn enforce_rates(
    block: &mut LiveBlock<'_>,
    verdict: &Verdict,
    octets: usize,
    now: Nanos,
    shared: &mut SharedMeters,
) -> Result<Colour, DropReason> {
    let passed = block.meter(verdict.qers, &Offer::new(octets as u32, now), shared);
    passed.map_err(|_| DropReason::MeterRed)
}

/// Gives back the tokens that [`enforce_rates`] took for a packet of `octets` that is not sent.
pub(super) fn give_back_tokens(
    block: &mut LiveBlock<'_>,
    verdict: &Verdict,
    octets: usize,
    shared: &mut SharedMeters,
) {
    if block.is_metered() {
        block.unmeter(verdict.qers, octets as u32, shared);
    }
}
