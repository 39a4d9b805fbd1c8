//! Which sessions an accelerator can pass, and why the others stay.

use flow::contract::{Actions, ByteBasis, Capabilities, CounterKind};
use flow::meter::{MeterSpec, SharedId};
use flow::{BlockImage, Bounds, Forward, ForwardFlags, ForwardKind, InstanceId, Mark, OuterAddresses};
use rules::image::{MeterShare, SessionImage};

use super::counter_places::CounterPlaces;
use super::objects::counter_kinds;
use crate::sessions::Slot;

/// Why a session's packets pass in software.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Stays {
    /// A FAR buffers, redirects, duplicates, mirrors, or drops what is to be reported.
    Action,
    /// Packets are to be looked into, or pass an access list.
    Inspection,
    /// It has public addresses of a NAT pool.
    Nat,
    /// Contents or events are counted, credit is pooled, inactivity is watched, or something is reported by packet.
    Accounting,
    /// It shares a rate with other sessions.
    SharedRate,
    /// It is on its way from a worker to another.
    Moving,
    /// Packets leave by a port that is not the accelerator's.
    Port,
    /// The accelerator cannot do something that it needs.
    Capability,
    /// A packet of it needed this node, or the accelerator has refused it, not long ago.
    Refused,
    /// Packets of it wait, as for a next hop that does not answer yet: later ones would leave before them.
    Waiting,
}

impl Stays {
    /// All of them, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::Action,
        Self::Inspection,
        Self::Nat,
        Self::Accounting,
        Self::SharedRate,
        Self::Moving,
        Self::Port,
        Self::Capability,
        Self::Refused,
        Self::Waiting,
    ];

    /// The label of a metric.
    pub const fn label(self) -> &'static str {
        match self {
            Self::Action => "action",
            Self::Inspection => "inspection",
            Self::Nat => "nat",
            Self::Accounting => "accounting",
            Self::SharedRate => "shared_rate",
            Self::Moving => "moving",
            Self::Port => "port",
            Self::Capability => "capability",
            Self::Refused => "refused",
            Self::Waiting => "waiting",
        }
    }
}

/// What the network asks of an accelerator, beside a session.
pub(crate) struct NetworkNeeds<'a> {
    /// Whether segment sizes of any instance are clamped.
    pub clamps: bool,
    /// Whether the port of an instance is the accelerator's.
    pub is_behind: &'a dyn Fn(InstanceId) -> bool,
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
        (counts_by_packet(image), Stays::Accounting),
        (shares_rate(block), Stays::SharedRate),
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
    // SYNs may come in by any instance.
    let can_clamp = !network.clamps || can.actions.contains(Actions::CLAMP_MSS);
    match can_clamp && is_within(block, can) {
        true => Ok(()),
        false => Err(Stays::Capability),
    }
}

/// Whether an accelerator can do all that a block asks for, exactly enough: what it counts is what is charged, and no
/// more than an interval of it can be lost.
fn is_within(block: &BlockImage, can: &Capabilities) -> bool {
    let is_bounded = block.bounds.iter().any(|bounds| *bounds != Bounds::NONE);
    let can_count = |kind: CounterKind| can.can_count(kind);
    can.byte_basis == ByteBasis::InnerIp
        && can.counts_every.is_some()
        && (can.limits || !is_bounded)
        && can.actions.contains(actions_of(block))
        && counter_kinds(block).all(|(_, kind)| can_count(kind))
        && usize::from(can.qers_per_flow) >= block.marks.len().max(block.meters.len())
        && usize::from(CounterPlaces::number(block)) <= BlockImage::MAX_URRS
        && can.counters_per_flow >= CounterPlaces::number(block)
}

fn actions_of(block: &BlockImage) -> Actions {
    let is_metered = block.meters.iter().flatten().any(Option::is_some);
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
fn counts_by_packet(image: &SessionImage) -> bool {
    image.content_rest.is_some()
        || image.inactivity.is_some()
        || image.awaits_pause
        || image.event_slots().next().is_some()
        || !image.pools.is_empty()
        || !image.quota_actions.is_empty()
        || !image.reported_statuses.is_empty()
        || !image.dropped.is_empty()
}

fn shares_rate(block: &BlockImage) -> bool {
    let mut meters = block.meters.iter().flatten().flatten();
    block.shared != SharedId::NONE || meters.any(|meter| matches!(meter, MeterSpec::Shared(_)))
}

fn can_forward(forward: &Forward) -> bool {
    let has_kind = match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain => true,
        ForwardKind::Drop => forward.flags == ForwardFlags::NONE,
        _ => false,
    };
    has_kind && forward.mirror.is_none()
}
