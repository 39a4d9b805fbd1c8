//! The state of stage `apply_rules` while it works on a burst, and the steps that all actions share.

use flow::meter::SharedMeters;
use flow::{
    AdjacencyId, Blocks, Direction, FlowFlags, ForwardFlags, ForwardKind, LiveBlock, PackedForward,
    SessionGroupId, Verdict,
};
use packet::{DropReason, PacketBuf};
use rules::image::SessionImage;
use rules::network::Network;

use crate::PacketRates;
use crate::apply_rules::egress_context::EgressContext;
use crate::apply_rules::encap::{Added, Chain, Optional};
use crate::apply_rules::marking::EgressMark;
use crate::apply_rules::qer_enforcement::give_back_tokens;
use crate::burst::batch::BURST;
use crate::burst::descriptor::Descriptor;
use crate::egress::checksum_offload::ChecksumOffload;
use crate::io::PacketMetadata;
use crate::local::generated_packet_rate_limit::GeneratedPacketRateLimit;
use crate::sessions::Images;

/// State of the stage between bursts.
pub(crate) struct ApplyRulesState {
    pub chain: Chain,
    pub plans: Box<[Plan; BURST]>,
    /// The meters that sessions share.
    pub shared: SharedMeters,
    /// The rate of End Markers and Tunnel Status messages.
    pub relays: GeneratedPacketRateLimit,
    /// Which ports compute checksums.
    pub checksum_offload: ChecksumOffload,
}

impl ApplyRulesState {
    /// With this many shared meters, without limits but for the chains of `network`; Control sets them.
    pub fn new(
        (shared_meters, network): (u16, &Network),
        relays: PacketRates,
        checksum_offload: ChecksumOffload,
    ) -> Self {
        let mut shared = SharedMeters::new(shared_meters);
        for (id, chain) in network.policers().chains() {
            shared.set_chain(id, chain);
        }
        Self {
            chain: Chain::new(),
            plans: Box::new([Plan::NONE; BURST]),
            shared,
            relays: GeneratedPacketRateLimit::new(relays),
            checksum_offload,
        }
    }
}

/// State of the stage while it processes a burst.
pub(crate) struct ApplyRules<'a, B> {
    pub egress: EgressContext<'a, B>,
    pub blocks: &'a mut Blocks,
    pub images: Images<'a>,
    pub chain: &'a mut Chain,
    pub plans: &'a mut [Plan; BURST],
    pub shared: &'a mut SharedMeters,
    /// Of the packet that was planned last, if its forward marks.
    pub mark: EgressMark,
    /// The rate of relayed End Markers and Tunnel Status messages.
    pub relays: &'a mut GeneratedPacketRateLimit,
    /// Which ports compute checksums; `None` while packets are traced or copied as they leave.
    pub checksum_offload: Option<&'a ChecksumOffload>,
}

/// What is done to a packet's headers: decided for the whole burst before any is written, since two short loops keep
/// in registers what one long one would not.
#[derive(Clone, Copy)]
pub(crate) struct Plan {
    pub(super) forward: PackedForward,
    pub(super) adjacency: AdjacencyId,
    pub(super) encapsulation: Encapsulation,
    /// The priority of its frame, if it has one.
    pub(super) pcp: u8,
    /// With `Marked`: the optional part of the GTP-U header and a short PDU Session Container.
    pub(super) container: [u8; 8],
}

/// The encapsulation of a planned packet.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Encapsulation {
    /// None from here.
    None,
    /// As plain IP.
    Plain,
    /// Into a tunnel over IPv4.
    Tunnel,
    /// Into a tunnel over IPv4, with a short PDU Session Container.
    Marked,
}

impl Plan {
    /// Nothing to be done.
    pub const NONE: Self = Self {
        forward: PackedForward::NONE,
        adjacency: AdjacencyId(0),
        encapsulation: Encapsulation::None,
        pcp: 0,
        container: [0; 8],
    };
}

impl<B: PacketBuf + PacketMetadata> ApplyRules<'_, B> {
    /// Whether events are counted among the packets of a verdict, or packets by their weight.
    pub(super) fn counts_by_look(&mut self, verdict: &Verdict) -> bool {
        self.counts_in(verdict, |image| image.event_mask() | image.weighted_mask())
    }

    /// Whether events are counted among the packets of a verdict.
    pub(super) fn counts_events(&mut self, verdict: &Verdict) -> bool {
        self.counts_in(verdict, SessionImage::event_mask)
    }

    /// Whether packets of a verdict count in one of these counters, which have them looked at.
    pub(super) fn counts_in(&mut self, verdict: &Verdict, counters: impl Fn(&SessionImage) -> u64) -> bool {
        live(self.blocks, verdict).is_ok_and(|block| {
            let image = || self.images.at(block.session());
            block.has_before_qos(verdict.urrs)
                && image().is_some_and(|image| counters(image) & verdict.urrs != 0)
        })
    }

    /// A packet does not fit into a quota, which is used up now. That decides what becomes of the packet, as if it came
    /// behind: it gives back what it has taken.
    #[cold]
    #[inline(never)]
    pub(super) fn come_again(&mut self, index: usize, verdict: &Verdict, octets: usize) {
        self.egress.fragmenter.forget(index);
        self.unmatch(verdict, octets);
        self.unmeter(verdict, octets);
    }

    /// Takes a packet of `octets` back from those that have matched.
    #[cold]
    pub(crate) fn unmatch(&mut self, verdict: &Verdict, octets: usize) {
        let direction = verdict.direction() as usize;
        self.egress.stats.directions[direction]
            .matched
            .take_back(octets as u64);
    }

    /// Gives back the tokens that a packet of `octets` has taken.
    #[cold]
    pub(crate) fn unmeter(&mut self, verdict: &Verdict, octets: usize) {
        if let Ok(mut block) = live(self.blocks, verdict) {
            give_back_tokens(&mut block, verdict, octets, self.shared);
        }
    }

    /// Counts a packet that its URRs have counted in the total of its session's group.
    #[inline(always)]
    pub(super) fn count_group(&mut self, group: SessionGroupId, verdict: &Verdict, octets: usize) {
        let groups = self.blocks.groups_mut();
        groups.count(group, verdict.direction(), octets as u64);
    }

    /// Counts a packet that its URRs have counted in the counter of its content, if it has one.
    #[inline(always)]
    pub(super) fn count_content(&mut self, verdict: &Verdict, octets: usize) {
        if verdict.content != 0 {
            let (octets, now) = (octets as u64, self.egress.now);
            self.blocks
                .count_content(verdict.block, verdict.content, verdict.direction(), octets, now);
        }
    }
}

#[inline(always)]
pub(crate) fn live<'a>(blocks: &'a mut Blocks, verdict: &Verdict) -> Result<LiveBlock<'a>, DropReason> {
    let block = blocks.live_at(verdict.block, verdict.generation, verdict.direction());
    block.ok_or(DropReason::NoMatchingPdr)
}

/// What the next GTP-U header has behind its mandatory part.
#[inline(always)]
pub(super) fn optional<B: PacketBuf>(
    chain: &mut Chain,
    buf: &B,
    descriptor: &Descriptor,
    forward: &PackedForward,
    added: Added,
) -> Result<Optional, DropReason> {
    match &descriptor.tunnel {
        Some(tunnel) if forward.flags().contains(ForwardFlags::KEEP_EXTENSIONS) => {
            let verdict = &descriptor.verdict;
            let ends_at_cp = forward.flags().contains(ForwardFlags::TO_CP_FUNCTION)
                && verdict.direction() == Direction::Uplink;
            let keeps_psc = !verdict.flags.contains(FlowFlags::DELETES_PSC) && !ends_at_cp;
            chain.collect(buf, tunnel, added, keeps_psc)
        }
        _ => Ok(added.into()),
    }
}

#[inline(always)]
pub(super) fn check_action(forward: &PackedForward) -> Result<(), DropReason> {
    match forward.kind() {
        ForwardKind::Tunnel | ForwardKind::Plain | ForwardKind::Unchanged | ForwardKind::Redirect => Ok(()),
        _ => Err(why_not_forwarded(forward)),
    }
}

#[cold]
fn why_not_forwarded(forward: &PackedForward) -> DropReason {
    let flags = forward.flags();
    match forward.kind() {
        ForwardKind::Buffer => DropReason::FarBuffer,
        ForwardKind::Drop if flags.contains(ForwardFlags::NO_TUNNEL) => DropReason::FarNoTunnel,
        ForwardKind::Drop if flags.contains(ForwardFlags::NO_ROUTE) => DropReason::NoRoute,
        ForwardKind::Drop if !flags.contains(ForwardFlags::UNSUPPORTED) => DropReason::FarDrop,
        _ => DropReason::UnsupportedAction,
    }
}

/// Extension headers that are not known here and must be (TS 29.281 §5.2.1).
#[inline(always)]
pub(super) fn check_extensions(forward: &PackedForward, descriptor: &Descriptor) -> Result<(), DropReason> {
    let Some(tunnel) = &descriptor.tunnel else {
        return Ok(());
    };
    if !tunnel.unknown.any() {
        return Ok(());
    }
    let refused = match forward.kind() {
        ForwardKind::Tunnel => tunnel.unknown.refused_by_intermediate(),
        _ => tunnel.unknown.refused_by_endpoint(),
    };
    if refused {
        Err(DropReason::UnknownGtpuExtension)
    } else {
        Ok(())
    }
}
