//! Stage `slow`: the first packets of flows, and messages that never have a flow.
//!
//! Finds the session, matches its PDRs, and writes the decision down as a flow entry, within a budget for each burst;
//! over budget a packet is dropped and counted. Decisions are `rules`'; nothing is cached that
//! [`Classifier`](rules::classifier::Classifier) did not call correct for the key.

use flow::{Blocks, Direction, FlowFlags, ForwardKind, KeyFields, Tick};
use packet::{DropReason, IpTuple, PacketBuf};
use rules::classifier::{PacketView, Side};
use rules::image::Decision;

use crate::descriptor::{Descriptor, Fate, Keys, Kind, Verdict};
use crate::flows::Flows;
use crate::sessions::{Sessions, Slot};
use crate::stats::Stats;

/// What the slow path is allowed, and how it writes entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SlowPath {
    /// Packets for each burst.
    pub budget: u16,
    /// Every entry has the 5-tuple in its key, for measurements.
    pub force_five_tuple: bool,
    /// How long an entry may idle, in ticks.
    pub idle: u16,
}

impl SlowPath {
    /// Decides about every open user packet that has no verdict; how many it was.
    pub fn decide<B: PacketBuf>(
        &self,
        sessions: &Sessions,
        flows: &mut Flows,
        stats: &mut Stats,
        burst: Burst<'_, B>,
        now: Tick,
    ) -> usize {
        let mut left = self.budget;
        let Burst {
            packets,
            descriptors,
            keys,
        } = burst;
        for (place, (packet, descriptor)) in packets.iter().zip(descriptors).enumerate() {
            if !descriptor.is_open_user() || descriptor.verdict.is_some() {
                continue;
            }
            if left == 0 {
                descriptor.fate = Fate::Drop(DropReason::SlowPathBudget);
                continue;
            }
            left -= 1;
            match decide(sessions, descriptor, packet.data()) {
                Ok((verdict, shape)) => {
                    descriptor.verdict = verdict;
                    self.write_down(flows, stats, keys, (place, descriptor), shape, now);
                }
                Err(reason) => descriptor.fate = Fate::Drop(reason),
            }
        }
        usize::from(self.budget - left)
    }

    fn write_down(
        &self,
        flows: &mut Flows,
        stats: &mut Stats,
        keys: &Keys,
        packet: (usize, &Descriptor),
        shape: Option<KeyFields>,
        now: Tick,
    ) {
        let Some(shape) = shape else {
            stats.bypassed += 1;
            return;
        };
        let shape = if self.force_five_tuple {
            KeyFields::from_bits(shape.bits() & !KeyFields::ADDRESS.bits()) | KeyFields::TUPLE
        } else {
            shape
        };
        if flows.insert(keys, packet, shape, (self.idle, now)) {
            stats.installed += 1;
        } else {
            stats.not_installed += 1;
        }
    }
}

/// A burst as the slow path sees it: packets as they were received, what is known of them, their whole keys.
pub(crate) struct Burst<'a, B> {
    pub packets: &'a [B],
    pub descriptors: &'a mut [Descriptor],
    pub keys: &'a Keys,
}

/// The decision about one packet, and the fields of the widest key that it is right for; `None` when it is right for
/// this packet alone.
fn decide(
    sessions: &Sessions,
    descriptor: &Descriptor,
    bytes: &[u8],
) -> Result<(Verdict, Option<KeyFields>), DropReason> {
    let is_unreadable = descriptor
        .defect
        .is_some_and(|defect| defect != DropReason::MartianDestination);
    if descriptor.kind == Kind::Relayed || is_unreadable {
        return decide_without_packet(sessions, descriptor);
    }
    let tuple = &descriptor.tuple(bytes)?;
    let side = descriptor.side;
    let slot = session(sessions, side, Some(tuple))?;
    let view = PacketView { side, tuple };
    let found = slot
        .image
        .classifier
        .classify(&view)
        .ok_or(DropReason::NoMatchingPdr)?;
    let decision = decision(slot, found.slot)?;
    if !slot
        .image
        .allows_source(decision.source_check, view.tuple.addrs.src())
    {
        return Err(DropReason::SpoofedSource);
    }
    if view.tuple.addrs.has_unforwardable_destination() && is_routed(slot, decision, view.side) {
        return Err(DropReason::MartianDestination);
    }
    let key = descriptor.defect.is_none().then_some(found.key);
    Ok((verdict(&sessions.blocks, slot, decision), key))
}

/// Whether a data network is at either end, so that this node is a router to the packet.
fn is_routed(slot: &Slot, decision: &Decision, side: Side) -> bool {
    let forward = slot.image.block.forwards.get(usize::from(decision.forward));
    matches!(side, Side::Plain { .. }) || forward.is_some_and(|forward| forward.kind == ForwardKind::Plain)
}

/// For what has no user packet, or none that can be read.
#[cold]
fn decide_without_packet(
    sessions: &Sessions,
    descriptor: &Descriptor,
) -> Result<(Verdict, Option<KeyFields>), DropReason> {
    let slot = session(sessions, descriptor.side, None)?;
    if let Some(defect) = descriptor.defect {
        return Err(defect);
    }
    let pdr = signalling_pdr(slot, descriptor.side).ok_or(DropReason::NoMatchingPdr)?;
    Ok((verdict(&sessions.blocks, slot, decision(slot, pdr)?), None))
}

fn session<'a>(sessions: &'a Sessions, side: Side, tuple: Option<&IpTuple>) -> Result<&'a Slot, DropReason> {
    match side {
        Side::Tunnel { local, teid, .. } => sessions.by_tunnel(local, teid).ok_or(DropReason::UnknownTeid),
        Side::Plain { vrf } => {
            let destination = tuple.map(|tuple| tuple.addrs.dst());
            let slot = destination.and_then(|address| sessions.by_address(vrf, address));
            slot.ok_or(DropReason::UnknownUeAddress)
        }
    }
}

fn signalling_pdr(slot: &Slot, side: Side) -> Option<u16> {
    match side {
        Side::Tunnel { local, teid, qfi } => slot.image.classifier.classify_signalling(local, teid, qfi),
        Side::Plain { .. } => None,
    }
}

fn decision(slot: &Slot, pdr: u16) -> Result<&Decision, DropReason> {
    slot.image
        .decisions
        .get(usize::from(pdr))
        .ok_or(DropReason::NoMatchingPdr)
}

fn verdict(blocks: &Blocks, slot: &Slot, decision: &Decision) -> Verdict {
    let downlink = decision.direction == Direction::Downlink;
    let block = blocks.get(slot.installed.block);
    Verdict {
        qers: decision.qers,
        urrs: decision.urrs,
        block: slot.installed.block,
        generation: slot.installed.generation,
        flags: FlowFlags::NONE
            .with_if(FlowFlags::DOWNLINK, downlink)
            .with_if(FlowFlags::REMOVES_OUTER, decision.removes_outer)
            .with_if(FlowFlags::DELETES_PSC, decision.deletes_psc),
        pdr: decision.pdr,
        forward: decision.forward,
        marking: decision.marking,
        meters: block.map_or(0, |block| block.meters_hint(decision.qers, decision.direction)),
    }
}
