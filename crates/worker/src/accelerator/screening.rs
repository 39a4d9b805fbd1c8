//! Which packets that have found their entry are the host's all the same: seen before anything is counted, or from the
//! reason for which stage `apply_rules` does not let them go.

use flow::{
    Blocks, FlowFlags, Forward, ForwardFlags, ForwardKind, LimitAction, LiveBlock, PackedForward, Verdict,
};
use packet::DropReason;

use crate::apply_rules::context::live;
use offload::exception::Reason;

/// What an exception has taken in stage `apply_rules`, and gives back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Taken {
    /// It has matched.
    Match,
    /// It has matched, and passed its meters.
    MatchAndTokens,
}

/// Why a packet with this verdict is the host's, as far as its session block says.
#[inline(always)]
pub(super) fn screen(blocks: &mut Blocks, verdict: &Verdict) -> Option<Reason> {
    let Ok(block) = live(blocks, verdict) else {
        return Some(Reason::Stale);
    };
    let forward = block.forward(verdict.forward);
    let is_usual = matches!(forward.usual_kind(), ForwardKind::Tunnel | ForwardKind::Plain)
        && !block.is_halted(verdict.qers, verdict.urrs)
        && !is_decided_elsewhere(verdict);
    if is_usual {
        return None;
    }
    look_closely(&block, &forward, verdict)
}

/// Whether more than the session block decides: access lists have counts of their own, and mappings are the worker's.
#[inline(always)]
const fn is_decided_elsewhere(verdict: &Verdict) -> bool {
    verdict.flags.contains(FlowFlags::DENIED) || verdict.flags.contains(FlowFlags::NAT)
}

/// In the order of stage `apply_rules`, so that what fails several checks is dropped here if the first of them says so.
#[cold]
fn look_closely(block: &LiveBlock<'_>, forward: &PackedForward, verdict: &Verdict) -> Option<Reason> {
    if is_decided_elsewhere(verdict) {
        return Some(Reason::Action);
    }
    // Such a packet counts whatever becomes of it, and which counters are of events says the session's image.
    if block.has_before_qos(verdict.urrs) {
        return Some(Reason::OtherHeaders);
    }
    if block.is_closed(verdict.qers) {
        return None;
    }
    if block.is_stopped(verdict.urrs) {
        return traps(block, verdict).then_some(Reason::Limit);
    }
    let flags = forward.flags();
    let is_copied = flags.contains(ForwardFlags::MIRROR)
        && block.whole_forward(verdict.forward).mirror == Some(Forward::COPIES);
    let is_hosts = match forward.kind() {
        ForwardKind::Tunnel | ForwardKind::Plain => is_copied,
        ForwardKind::Drop => is_copied || flags.contains(ForwardFlags::NOTIFY),
        ForwardKind::Buffer | ForwardKind::Punt | ForwardKind::Unchanged | ForwardKind::Redirect => true,
    };
    is_hosts.then_some(Reason::Action)
}

/// Whether packets that a stopped counter of this verdict stops are the host's.
fn traps(block: &LiveBlock<'_>, verdict: &Verdict) -> bool {
    block.stop_action(verdict.urrs) == LimitAction::Trap
}

/// Whether the forward of this verdict lets packets leave.
fn leaves(blocks: &mut Blocks, verdict: &Verdict) -> bool {
    live(blocks, verdict).is_ok_and(|block| {
        let kind = block.forward(verdict.forward).kind();
        matches!(kind, ForwardKind::Tunnel | ForwardKind::Plain)
    })
}

/// Why a packet is the host's that stage `apply_rules` would drop for `reason`, and what it has taken there.
#[cold]
pub(super) fn review(blocks: &mut Blocks, verdict: &Verdict, reason: DropReason) -> Option<(Reason, Taken)> {
    match reason {
        DropReason::TtlExpired => Some((Reason::Ttl, Taken::Match)),
        DropReason::UnknownGtpuExtension => Some((Reason::OtherHeaders, Taken::Match)),
        DropReason::NoNeighbour => Some((Reason::Adjacency, Taken::MatchAndTokens)),
        // A forward that drops says so itself.
        DropReason::NoRoute if leaves(blocks, verdict) => Some((Reason::Adjacency, Taken::MatchAndTokens)),
        DropReason::TooBig => Some((Reason::TooLong, Taken::MatchAndTokens)),
        DropReason::QuotaExhausted => {
            let block = live(blocks, verdict).ok()?;
            traps(&block, verdict).then_some((Reason::Limit, Taken::Match))
        }
        _ => None,
    }
}
