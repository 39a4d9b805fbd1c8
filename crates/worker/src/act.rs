//! Stage `act`: what was decided is done.
//!
//! Gates, then counters, then headers: off, on, TTL. Everything that a packet needs was prefetched by `lookup`. The
//! order of the checks is that of `rules::interpret`, so that a packet which fails several is dropped for the same
//! reason: gate, action, extension headers, TTL; then it counts; then route and neighbour.

use std::net::IpAddr;

use flow::{
    AdjacencyId, Blocks, FlowFlags, Forward, ForwardFlags, ForwardKind, InstanceId, LiveBlock, Nanos, PortId,
};
use packet::build::Marking;
use packet::gtpu::MessageType;
use packet::{Addrs, DropReason, PacketBuf, ipv4, ipv6};
use transport::{Adjacencies, Adjacency, Routes, Via};

use crate::descriptor::{Descriptor, Fate, Kind, Verdict};
use crate::encap::{self, Chain, Into, Optional};
use crate::notices::Notices;
use crate::places::Places;
use crate::stats::Stats;

/// What the stage works with.
pub(crate) struct Act<'a> {
    pub ways: Ways<'a>,
    pub blocks: &'a mut Blocks,
    pub chain: &'a mut Chain,
}

/// What it takes to find a packet's way out.
pub(crate) struct Ways<'a> {
    pub places: &'a Places,
    pub adjacencies: &'a Adjacencies,
    pub routes: &'a Routes,
    pub notices: &'a mut Notices,
    pub stats: &'a mut Stats,
    pub now: Nanos,
}

/// The way out of a packet.
struct Exit {
    adjacency: Adjacency,
    /// The largest IP packet on that way.
    mtu: u16,
}

impl Act<'_> {
    /// Does with each packet of a burst what its verdict says.
    pub fn act<B: PacketBuf>(&mut self, burst: &mut [B], descriptors: &mut [Descriptor]) {
        for (buf, descriptor) in burst.iter_mut().zip(descriptors) {
            if !descriptor.is_open_user() {
                continue;
            }
            let done = match (descriptor.kind, &descriptor.verdict) {
                (Kind::Relayed, Some(verdict)) => self.relay(buf, descriptor, verdict),
                (_, Some(verdict)) => self.user_packet(buf, descriptor, verdict),
                (_, None) => Err(DropReason::NoMatchingPdr),
            };
            descriptor.fate = match done {
                Ok(port) => Fate::Send(port),
                Err(reason) => Fate::Drop(reason),
            };
        }
    }

    #[inline]
    fn user_packet<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
        verdict: &Verdict,
    ) -> Result<PortId, DropReason> {
        let tuple = descriptor.tuple.as_ref().ok_or(DropReason::NoMatchingPdr)?;
        let octets = usize::from(tuple.total_len);
        let direction = verdict.direction() as usize;
        self.ways.stats.directions[direction].matched.add(octets);
        let mut block = live(self.blocks, verdict)?;
        if block.is_closed(verdict.qers) {
            return Err(DropReason::GateClosed);
        }
        let forward = block.forward(verdict.forward);
        check_action(&forward)?;
        check_extensions(&forward, descriptor)?;
        let routed = forward.kind == ForwardKind::Plain || descriptor.tunnel.is_none();
        if routed && tuple.ttl <= 1 {
            return Err(DropReason::TtlExpired);
        }
        let exit = self.ways.exit(&forward, &tuple.addrs);
        if let Err(DropReason::NoRoute) = exit {
            block.count(verdict.urrs, octets as u64);
        }
        let exit = exit?;
        let marking = encap::marking(&forward, block.mark(verdict.marking));
        let optional = optional(self.chain, buf, descriptor, &forward, (marking, verdict))?;
        check_size(&forward, octets + optional.len(self.chain), exit.mtu)?;
        block.count(verdict.urrs, octets as u64);
        cut_out(buf, descriptor.offset.into(), octets)?;
        if routed {
            decrement_ttl(buf.data_mut(), &tuple.addrs)?;
        }
        let l2 = &exit.adjacency;
        match &forward.template {
            None => encap::plain(buf, l2, tuple.addrs.is_v4())?,
            Some(template) => {
                Into::tunnel(template, l2, MessageType::G_PDU).put_on(buf, optional, self.chain)?
            }
        }
        self.ways.stats.directions[direction].forwarded.add(octets);
        Ok(exit.adjacency.port())
    }

    /// End Marker and Tunnel Status: from tunnel to tunnel, neither gated nor counted.
    #[cold]
    fn relay<B: PacketBuf>(
        &mut self,
        buf: &mut B,
        descriptor: &Descriptor,
        verdict: &Verdict,
    ) -> Result<PortId, DropReason> {
        let block = live(self.blocks, verdict)?;
        let forward = block.forward(verdict.forward);
        let tunnel = descriptor.tunnel.ok_or(DropReason::UnsupportedGtpuMessage)?;
        check_action(&forward)?;
        let template = forward
            .template
            .as_ref()
            .ok_or(DropReason::UnsupportedGtpuMessage)?;
        check_extensions(&forward, descriptor)?;
        let exit = self.ways.adjacent(forward.egress, forward.adjacency)?;
        let optional = optional(self.chain, buf, descriptor, &forward, (None, verdict))?;
        let octets = usize::from(tunnel.payload_len);
        check_size(&forward, octets + optional.len(self.chain), exit.mtu)?;
        cut_out(buf, descriptor.offset.into(), octets)?;
        Into::tunnel(template, &exit.adjacency, tunnel.message_type).put_on(buf, optional, self.chain)?;
        Ok(exit.adjacency.port())
    }
}

/// What the next GTP-U header has behind its mandatory part.
#[inline]
fn optional<B: PacketBuf>(
    chain: &mut Chain,
    buf: &B,
    descriptor: &Descriptor,
    forward: &Forward,
    (marking, verdict): (Option<Marking>, &Verdict),
) -> Result<Optional, DropReason> {
    match &descriptor.tunnel {
        Some(tunnel) if forward.flags.contains(ForwardFlags::KEEP_EXTENSIONS) => {
            let keeps_psc = !verdict.flags.contains(FlowFlags::DELETES_PSC);
            chain.collect(buf, tunnel, marking, keeps_psc)
        }
        _ => Ok(marking.map_or(Optional::None, Optional::Marking)),
    }
}

/// Whether the packet fits the way out. `octets` are those behind the mandatory outer headers.
#[inline]
fn check_size(forward: &Forward, octets: usize, mtu: u16) -> Result<(), DropReason> {
    let outer = forward.template.as_ref().map_or(0, encap::outer_len);
    if outer + octets > usize::from(mtu) {
        Err(DropReason::TooBig)
    } else {
        Ok(())
    }
}

impl Ways<'_> {
    /// Where the packet leaves, and in whose name.
    #[inline]
    fn exit(&mut self, forward: &Forward, addrs: &Addrs) -> Result<Exit, DropReason> {
        if forward.adjacency != AdjacencyId::BY_DESTINATION {
            return self.adjacent(forward.egress, forward.adjacency);
        }
        let (instance, id) = self.route(forward.egress, addrs.dst())?;
        self.adjacent(instance, id)
    }

    #[inline]
    fn adjacent(&self, instance: InstanceId, id: AdjacencyId) -> Result<Exit, DropReason> {
        let adjacency = self
            .adjacencies
            .at(id)
            .filter(|adjacency| adjacency.is_resolved());
        let adjacency = *adjacency.ok_or(DropReason::NoNeighbour)?;
        let mtu = self.places.at(instance).map_or(u16::MAX, |place| place.mtu);
        Ok(Exit { adjacency, mtu })
    }

    /// The way of a plain packet; a next hop that nobody has asked for yet is asked for.
    #[inline]
    fn route(
        &mut self,
        egress: InstanceId,
        destination: IpAddr,
    ) -> Result<(InstanceId, AdjacencyId), DropReason> {
        let vrf = self.places.at(egress).ok_or(DropReason::NoRoute)?.vrf;
        let hop = self.routes.lookup(vrf, destination).ok_or(DropReason::NoRoute)?;
        // A UE's packets leave towards data networks alone, also where N3 shares the VRF: no UE talks to gNBs.
        if !self.places.at(hop.instance).is_some_and(|place| place.plain) {
            return Err(DropReason::NoRoute);
        }
        let (next_hop, id) = match hop.via {
            Via::Gateway { address, adjacency } => (address, adjacency),
            Via::Connected => (destination, self.adjacencies.find(hop.instance, destination)),
        };
        let Some(id) = id else {
            self.notices.ask(self.stats, hop.instance, next_hop, self.now);
            return Err(DropReason::NoNeighbour);
        };
        Ok((hop.instance, id))
    }
}

#[inline]
fn live<'a>(blocks: &'a mut Blocks, verdict: &Verdict) -> Result<LiveBlock<'a>, DropReason> {
    let block = blocks.live_at(verdict.block, verdict.generation, verdict.direction());
    block.ok_or(DropReason::NoMatchingPdr)
}

#[inline]
fn check_action(forward: &Forward) -> Result<(), DropReason> {
    match forward.kind {
        ForwardKind::Tunnel | ForwardKind::Plain => Ok(()),
        ForwardKind::Buffer => Err(DropReason::FarBuffer),
        ForwardKind::Punt => Err(DropReason::UnsupportedAction),
        ForwardKind::Drop if forward.flags.contains(ForwardFlags::NO_TUNNEL) => Err(DropReason::FarNoTunnel),
        ForwardKind::Drop if forward.flags.contains(ForwardFlags::UNSUPPORTED) => {
            Err(DropReason::UnsupportedAction)
        }
        ForwardKind::Drop => Err(DropReason::FarDrop),
    }
}

/// Extension headers that are not known here and must be (TS 29.281 §5.2.1).
#[inline]
fn check_extensions(forward: &Forward, descriptor: &Descriptor) -> Result<(), DropReason> {
    let Some(tunnel) = &descriptor.tunnel else {
        return Ok(());
    };
    let refused = match forward.kind {
        ForwardKind::Tunnel => tunnel.unknown.refused_by_intermediate(),
        _ => tunnel.unknown.refused_by_endpoint(),
    };
    if refused {
        Err(DropReason::UnknownGtpuExtension)
    } else {
        Ok(())
    }
}

/// Leaves `octets` octets from `offset` on: what comes before is taken off, padding behind it cut off.
#[inline]
fn cut_out<B: PacketBuf>(buf: &mut B, offset: usize, octets: usize) -> Result<(), DropReason> {
    let cut = buf.trim_front(offset) && buf.truncate(octets);
    if cut { Ok(()) } else { Err(DropReason::BadIpLength) }
}

#[inline]
fn decrement_ttl(packet: &mut [u8], addrs: &Addrs) -> Result<(), DropReason> {
    if addrs.is_v4() {
        ipv4::decrement_ttl(packet)
    } else {
        ipv6::decrement_hop_limit(packet)
    }
}
