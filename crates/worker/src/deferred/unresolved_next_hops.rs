//! Packets whose next hop has no link layer address yet: they wait in the buffers until it is resolved (RFC 1122
//! §2.3.2.2).

use flow::meter::SharedMeters;
use flow::{AdjacencyId, LiveBlock, Nanos};
use packet::{DropReason, PacketBuf};

use crate::burst::Burst;
use crate::burst::descriptor::{Deferral, Fate, Kind};
use crate::burst::outcome::NextHop;
use crate::deferred::buffering::{Buffers, Flow, QueueKey, UnresolvedHop};
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::nat::Unsolicited;
use crate::sessions::Sessions;
use crate::stats::Stats;

/// State of the worker that packets without a next hop need.
pub(crate) struct Context<'a> {
    pub sessions: &'a mut Sessions,
    pub interfaces: &'a L3Interfaces,
    pub shared_meters: &'a mut SharedMeters,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

/// Finds the queues of the packets of this burst whose next hops are unresolved. Packets without a queue are dropped.
/// Meters and counts are as if a packet that waits had not arrived yet.
#[cold]
#[inline(never)]
pub(crate) fn expect_unresolved<B: PacketBuf>(
    context: &mut Context<'_>,
    burst: &mut Burst<B>,
    buffers: &mut Buffers<B>,
    unsolicited: Unsolicited,
) {
    let mut missing = 0;
    for index in 0..burst.len() {
        if burst.descriptors[index].fate == Fate::Drop(DropReason::NoNeighbour) {
            let hop = burst.outcome.missing.get(missing).copied();
            missing += 1;
            if hop
                .and_then(|hop| park(context, burst, buffers, (index, unsolicited), hop))
                .is_some()
            {
                burst.descriptors[index].fate = Fate::Defer(Deferral::Buffer);
            }
        }
    }
    burst.outcome.missing.clear();
}

fn park<B: PacketBuf>(
    context: &mut Context<'_>,
    burst: &Burst<B>,
    buffers: &mut Buffers<B>,
    (index, unsolicited): (usize, Unsolicited),
    hop: NextHop,
) -> Option<()> {
    let descriptor = &burst.descriptors[index];
    let verdict = descriptor.verdict;
    if let NextHop::Address(instance, address) = hop
        && !context
            .interfaces
            .at(instance)
            .is_some_and(|home| home.may_answer(address))
    {
        // No neighbour can have this address.
        return None;
    }
    let sessions = &mut *context.sessions;
    let block = sessions.blocks.get(verdict.block)?;
    let (session, direction) = (block.session(), verdict.direction());
    let is_named = block.forward(verdict.forward).adjacency != AdjacencyId::BY_DESTINATION;
    let rules = &sessions.at(session)?.image.rules;
    let far = rules.fars().get(usize::from(verdict.forward))?.id;
    let pdr = rules.pdrs().get(usize::from(verdict.pdr))?.id;
    let charged_octets = unsolicited.charged_octets(index, descriptor.octets);
    let packet = Flow::new(session, pdr, charged_octets, &verdict);
    let owner = QueueKey { session, far };
    let hop = UnresolvedHop {
        next_hop: hop,
        is_named,
    };
    if !buffers.park(index, owner, packet, hop, context.now) {
        return None;
    }
    if descriptor.kind != Kind::Relayed {
        let octets = u32::from(descriptor.octets);
        context.stats.directions[direction as usize]
            .matched
            .take_back(u64::from(octets));
        let block = sessions
            .blocks
            .live_at(verdict.block, verdict.generation, direction);
        if let Some(mut block) = block.filter(LiveBlock::is_metered) {
            block.unmeter(verdict.qers, octets, context.shared_meters);
        }
    }
    Some(())
}
