//! The way out of a packet: what it counts in, its route, its neighbour.

use std::net::IpAddr;

use flow::{
    AdjacencyId, Counted, FlowFlags, InstanceId, LiveBlock, Millisecond, Nanos, PackedForward, SessionIndex,
    Verdict,
};
use packet::{DropReason, PacketBuf};
use rules::model::AccessRuleId;
use rules::network::multipath::Spread;
use transport::{Adjacency, Via};

use crate::access_counts::AccessCounts;
use crate::burst::descriptor::AddressPair;
use crate::burst::outcome::{NextHop, Outcome, Undelivered, Why};
use crate::control_channel::event_queue::EventQueue;
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::{FragmentationNeed, Fragmenter};
use crate::egress::path_mtus::path_of;
use crate::ingress::l3_interfaces::L3Interface;
use crate::stats::Stats;

/// Octets of a packet that is sent.
#[derive(Clone, Copy)]
pub(super) struct PacketSize {
    /// Outer headers; 0 without a tunnel.
    pub outer: usize,
    /// The user packet.
    pub octets: usize,
}

impl PacketSize {
    #[inline(always)]
    const fn whole(self) -> usize {
        self.outer + self.octets
    }
}

/// A user packet in its buffer, as received.
pub(super) struct UserPacket<'a, B> {
    pub buf: &'a B,
    /// Offset of its first octet.
    pub offset: u16,
}

/// A forward of a session block.
#[derive(Clone, Copy)]
pub(super) struct BlockForward<'a> {
    pub block: &'a LiveBlock<'a>,
    pub slot: u8,
}

/// The tables and state with which the route, adjacency and size of a packet are found.
pub(crate) struct EgressContext<'a, B> {
    pub tables: &'a ForwardingTables,
    pub events: &'a mut EventQueue,
    pub stats: &'a mut Stats,
    pub access: &'a mut AccessCounts,
    pub now: Nanos,
    /// The millisecond that `now` is in.
    pub millisecond: Millisecond,
    /// What is found about packets of this burst.
    pub outcome: &'a mut Outcome,
    /// Packets of this burst that leave in fragments.
    pub fragmenter: &'a mut Fragmenter<B>,
}

impl<'a, B: PacketBuf> EgressContext<'a, B> {
    #[inline(always)]
    pub(super) fn adjacent(&mut self, id: AdjacencyId) -> Result<&'a Adjacency, DropReason> {
        match self.tables.adjacencies.resolved(id) {
            Some(adjacency) => Ok(adjacency),
            None => Err(self.lack(NextHop::Slot(id))),
        }
    }

    /// The TTL of the packet at `index` runs out here.
    #[cold]
    pub(super) fn expire(&mut self, index: usize) -> DropReason {
        let index = index as u8;
        let why = Why::Expired;
        let _ = self.outcome.undelivered.push(Undelivered { index, why });
        DropReason::TtlExpired
    }

    /// The access list of its session denies the packet at `index`, of a number of octets.
    #[cold]
    pub(super) fn deny(&mut self, index: usize, verdict: &Verdict, octets: u64) -> DropReason {
        self.access.denied(AccessRuleId(verdict.content), octets);
        if verdict.flags.contains(FlowFlags::REJECTED) {
            let (index, why) = (index as u8, Why::Prohibited);
            let _ = self.outcome.undelivered.push(Undelivered { index, why });
        }
        DropReason::AccessList
    }

    /// Checks the size of the packet at `index` against the MTU of its path. A packet that is longer leaves in
    /// fragments where its instance allows that.
    #[inline(always)]
    pub(super) fn check_size(
        &mut self,
        index: usize,
        size: PacketSize,
        adjacency: &Adjacency,
        packet: UserPacket<'_, B>,
        forward: BlockForward<'_>,
    ) -> Result<(), DropReason> {
        match check_size(size.whole(), adjacency.mtu()) {
            Ok(()) => Ok(()),
            Err(reason) => {
                let mtu = self.path_mtu(adjacency, forward);
                self.too_long(index, size, adjacency, mtu, packet)
                    .map_err(|()| reason)
            }
        }
    }

    /// The longest packet by a forward, which leaves by this adjacency.
    #[cold]
    fn path_mtu(&self, adjacency: &Adjacency, forward: BlockForward<'_>) -> u16 {
        let template = forward.block.whole_forward(forward.slot).template;
        let ends = template.as_ref().map(path_of);
        self.tables.path_mtus.of(ends, adjacency.link_mtu())
    }

    /// A packet that is too long leaves in fragments, or its sender may get an ICMP error.
    #[cold]
    fn too_long(
        &mut self,
        index: usize,
        size: PacketSize,
        adjacency: &Adjacency,
        mtu: u16,
        UserPacket { buf, offset }: UserPacket<'_, B>,
    ) -> Result<(), ()> {
        let (outer, whole) = (size.outer, size.whole());
        if whole <= usize::from(mtu) {
            return Ok(());
        }
        let packet = buf.data().get(usize::from(offset)..).unwrap_or_default();
        let need = FragmentationNeed {
            outer: outer as u16,
            mtu,
            how: adjacency.fragmentation(),
        };
        if whole <= usize::from(u16::MAX) && self.fragmenter.may(index, packet, need) {
            return Ok(());
        }
        let why = Why::TooLong(mtu.saturating_sub(outer as u16));
        let index = index as u8;
        let _ = self.outcome.undelivered.push(Undelivered { index, why });
        Err(())
    }

    #[cold]
    fn lack(&mut self, hop: NextHop) -> DropReason {
        let _ = self.outcome.missing.push(hop);
        DropReason::NoNeighbour
    }

    /// The next hop of a packet: the forward's, or that of the packet's own destination.
    #[inline(always)]
    pub(super) fn next_hop(
        &mut self,
        block: &LiveBlock<'_>,
        forward: &PackedForward,
        between: Option<AddressPair>,
    ) -> Result<AdjacencyId, DropReason> {
        match forward.adjacency() {
            AdjacencyId::BY_DESTINATION => {
                let between = between.ok_or(DropReason::NoMatchingPdr)?;
                self.route(block, forward.egress(), between)
            }
            id => Ok(id),
        }
    }

    /// Counts a packet, unless that is more than a limit allows. Whether it was counted.
    #[inline(always)]
    pub(crate) fn count(&mut self, block: &mut LiveBlock<'_>, verdict: &Verdict, octets: usize) -> bool {
        let counted = block.count(verdict.urrs, octets as u64, self.millisecond);
        counted == Counted::PASSED || self.reached(block.session(), counted)
    }

    /// The same for a packet that nothing [halts](LiveBlock::is_halted).
    #[inline(always)]
    pub(super) fn count_unhalted(
        &mut self,
        block: &mut LiveBlock<'_>,
        verdict: &Verdict,
        octets: usize,
    ) -> bool {
        let counted = block.count_unhalted(verdict.urrs, octets as u64, self.millisecond);
        counted == Counted::PASSED || self.reached(block.session(), counted)
    }

    /// The same of a packet whose URRs may count it as an event.
    #[cold]
    pub(super) fn count_with_events(
        &mut self,
        block: &mut LiveBlock<'_>,
        verdict: &Verdict,
        octets: usize,
    ) -> bool {
        let counted = block.count_with_units(verdict.urrs, octets as u64, self.millisecond);
        counted == Counted::PASSED || self.reached(block.session(), counted)
    }

    /// Counts a packet, as an event too; one that a limit does not allow goes no further.
    pub(crate) fn count_or_drop(
        &mut self,
        block: &mut LiveBlock<'_>,
        verdict: &Verdict,
        octets: usize,
    ) -> Result<(), DropReason> {
        match self.count_with_events(block, verdict, octets) {
            true => Ok(()),
            false => Err(self.stopped(block, verdict.urrs)),
        }
    }

    /// A packet arrives after its quota is exhausted. The first is reported where Control waits for one. Why it is
    /// dropped, if it is.
    #[cold]
    #[inline(never)]
    pub(super) fn stopped(&mut self, block: &mut LiveBlock<'_>, urrs: u64) -> DropReason {
        if block.trap(urrs) {
            self.events.mark_reached(block.session());
        }
        DropReason::QuotaExhausted
    }

    /// The next hop of a plain packet. A UE's packets leave towards data networks alone, also where N3 shares the VRF:
    /// no UE talks to gNBs.
    #[inline(always)]
    fn route(
        &mut self,
        block: &LiveBlock<'_>,
        egress: InstanceId,
        between: AddressPair,
    ) -> Result<AdjacencyId, DropReason> {
        self.route_by(block, egress, between, |egress| egress.plain)
    }

    /// The next hop of a message for another node, which is where tunnels lead.
    #[cold]
    pub(super) fn towards_node(
        &mut self,
        block: &LiveBlock<'_>,
        forward: &PackedForward,
        between: Option<AddressPair>,
    ) -> Result<AdjacencyId, DropReason> {
        let between = between.ok_or(DropReason::MartianDestination)?;
        let id = self.route_by(block, forward.egress(), between, |egress| egress.tunnels)?;
        let to_ourselves = |adjacency: &Adjacency| adjacency.port().recirculations() > 0;
        match self.tables.adjacencies.resolved(id).is_some_and(to_ourselves) {
            true => Err(DropReason::NoRoute),
            false => Ok(id),
        }
    }

    /// The next hop of a packet that leaves by an interface that is `fit`; the resolution of an unknown one is
    /// requested.
    #[inline(always)]
    fn route_by(
        &mut self,
        block: &LiveBlock<'_>,
        egress: InstanceId,
        AddressPair { source, destination }: AddressPair,
        fit: impl Fn(&L3Interface) -> bool,
    ) -> Result<AdjacencyId, DropReason> {
        let vrf = self.tables.interfaces.at(egress).ok_or(DropReason::NoRoute)?.vrf;
        let hop = self
            .tables
            .routes
            .lookup(vrf, destination)
            .ok_or(DropReason::NoRoute)?;
        if !self.tables.interfaces.at(hop.instance).is_some_and(fit) {
            return Err(DropReason::NoRoute);
        }
        let spread = || Spread::between(source, destination);
        match hop.via {
            Via::Gateway {
                adjacency: Some(id), ..
            } => Ok(id),
            Via::Gateway { address, .. } => Err(self.ask(block.session(), hop.instance, address)),
            Via::Group(group) => Ok(self.tables.adjacencies.path(group, spread())),
            Via::Slot(id) => Ok(id),
            Via::Paths(AdjacencyId(first)) => Ok(AdjacencyId(first.saturating_add(spread().path().into()))),
            Via::Nowhere => Err(DropReason::UeToUe),
            Via::Host => Err(DropReason::NoRoute),
            Via::Connected => match self.tables.adjacencies.find(hop.instance, destination) {
                Some(id) => Ok(id),
                None => Err(self.ask(block.session(), hop.instance, destination)),
            },
        }
    }

    /// Marks that a packet's counters have reached a limit, for Control. Whether the packet was counted.
    #[cold]
    fn reached(&mut self, session: SessionIndex, counted: Counted) -> bool {
        if counted.is_due {
            self.events.mark_due(session);
        }
        let is_due = counted.is_due;
        if counted
            != (Counted {
                is_due,
                ..Counted::PASSED
            })
        {
            self.events.mark_reached(session);
        }
        counted.action.is_none()
    }

    #[cold]
    fn ask(&mut self, session: SessionIndex, instance: InstanceId, next_hop: IpAddr) -> DropReason {
        self.events
            .request_resolution(self.stats, session, instance, next_hop, self.now);
        self.lack(NextHop::Address(instance, next_hop))
    }
}

/// Whether the packet fits the way out.
#[inline(always)]
pub(super) fn check_size(octets: usize, mtu: u16) -> Result<(), DropReason> {
    if octets > usize::from(mtu) {
        Err(DropReason::TooBig)
    } else {
        Ok(())
    }
}
