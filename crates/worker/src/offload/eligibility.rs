//! Which sessions an accelerator can pass, and why the others stay.

use flow::contract::{Actions, ByteBasis, Capabilities, CounterKind, SharedNodeId};
use flow::meter::SharedId;
use flow::{
    BlockImage, Bounds, Direction, Forward, ForwardFlags, ForwardKind, InstanceId, Mark, OuterAddresses,
};
use rules::image::{EgressQueues, MeterShare, SessionImage};
use rules::network::Network;

use super::counter_places::CounterPlaces;
use super::objects::{counter_kinds, qers};
use super::queues::node_of;
use super::shared_meters::SharedMeterObjects;
use super::stays::Stays;
use crate::sessions::Slot;

/// What the network asks of an accelerator, beside a session.
pub(crate) struct NetworkNeeds<'a> {
    /// Whether segment sizes of any instance are clamped.
    pub clamps: bool,
    /// Whether the port of an instance is the accelerator's.
    pub is_behind: &'a dyn Fn(InstanceId) -> bool,
    /// The network that queues are below.
    pub network: &'a Network,
    /// The rates that sessions share, at the accelerator.
    pub shared: &'a SharedMeterObjects,
}

impl NetworkNeeds<'_> {
    /// The shared node that a session's queues are below at an accelerator.
    ///
    /// # Errors
    /// Why the session stays.
    pub fn queue_node(&self, plan: &EgressQueues, can: &Capabilities) -> Result<SharedNodeId, Stays> {
        node_of(self.network, plan, can.queues.as_ref())
    }
}

/// Whether a session can leave.
///
/// # Errors
/// Why it stays, the first of several.
pub(super) fn can_leave(slot: &Slot, can: &Capabilities, network: &NetworkNeeds<'_>) -> Result<(), Stays> {
    let image = &*slot.image;
    let block = &*image.block;
    let needs = [
        (image.meter_share != MeterShare::Whole, Stays::Moving),
        (image.rules.nat().is_some(), Stays::Nat),
        (is_looked_into(slot), Stays::Inspection),
        (counts_by_packet(slot), Stays::Accounting),
        (!network.shared.keeps_all_of(block), Stays::SharedRate),
        (!block.forwards.iter().all(can_forward), Stays::Action),
    ];
    if let Some((_, why)) = needs.into_iter().find(|(is_so, _)| *is_so) {
        return Err(why);
    }
    let leaves = |forward: &Forward| matches!(forward.kind, ForwardKind::Tunnel | ForwardKind::Plain);
    if !block
        .forwards
        .iter()
        .filter(|forward| leaves(forward))
        .all(|forward| (network.is_behind)(forward.egress))
    {
        return Err(Stays::Port);
    }
    for direction in Direction::BOTH {
        if let Some(plan) = image.egress_queues(direction) {
            network.queue_node(plan, can)?;
        }
    }
    // SYNs may come in by any instance.
    let can_clamp = !network.clamps || can.actions.contains(Actions::CLAMP_MSS);
    let marks_l4s = image.rules.qers().iter().any(|qer| qer.optional.marks_l4s);
    match can_clamp && !marks_l4s && is_within(image, can) {
        true => Ok(()),
        false => Err(Stays::Capability),
    }
}

/// Whether an accelerator can do all that a block asks for, exactly enough: what it counts is what is charged, and no
/// more than an interval of it can be lost.
fn is_within(image: &SessionImage, can: &Capabilities) -> bool {
    let block = &*image.block;
    let is_bounded = block.bounds.iter().any(|bounds| *bounds != Bounds::NONE);
    let can_count = |kind: CounterKind| can.can_count(kind);
    can.byte_basis == ByteBasis::InnerIp
        && can.counts_every.is_some()
        && (can.limits || !is_bounded)
        && can.actions.contains(actions_of(block))
        && counter_kinds(block).all(|(_, kind)| can_count(kind))
        && can.qers_per_flow >= qers(image)
        && usize::from(CounterPlaces::number(block)) <= BlockImage::MAX_URRS
        && can.counters_per_flow >= CounterPlaces::number(block)
}

fn actions_of(block: &BlockImage) -> Actions {
    let has_meters = block.meters.iter().flatten().any(Option::is_some);
    let is_metered = has_meters || block.shared != SharedId::NONE;
    let is_gated = block.closed_ul | block.closed_dl != 0;
    let marks = block.marks.iter().any(|mark| *mark != Mark::NONE);
    let of_session = Actions::DECAPSULATE
        .with_if(Actions::METER, is_metered)
        .with_if(Actions::GATE, is_gated)
        .with_if(Actions::MARK, marks);
    block.forwards.iter().fold(of_session, |actions, forward| {
        let outer = forward.template.map(|template| template.addresses);
        let keeps = forward.flags.contains(ForwardFlags::KEEP_EXTENSIONS);
        actions
            .with_if(
                Actions::ENCAPSULATE_V4,
                matches!(outer, Some(OuterAddresses::V4 { .. })),
            )
            .with_if(
                Actions::ENCAPSULATE_V6,
                matches!(outer, Some(OuterAddresses::V6 { .. })),
            )
            .with_if(Actions::KEEP_EXTENSIONS, keeps)
    })
}

fn is_looked_into(slot: &Slot) -> bool {
    slot.classifier.may_read_detection() || slot.classifier.has_access_list()
}

/// Whether there is something that only this node's packet path counts or reports.
fn counts_by_packet(slot: &Slot) -> bool {
    let image = &*slot.image;
    slot.classifier.content_rest().is_some()
        || image.inactivity.is_some()
        || image.awaits_pause
        || image.event_slots().next().is_some()
        || !image.pools.is_empty()
        || !image.quota_actions.is_empty()
        || !image.reported_statuses.is_empty()
        || !image.dropped.is_empty()
}

fn can_forward(forward: &Forward) -> bool {
    let has_kind = match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain => true,
        ForwardKind::Drop => forward.flags == ForwardFlags::NONE,
        _ => false,
    };
    has_kind && forward.mirror.is_none()
}
