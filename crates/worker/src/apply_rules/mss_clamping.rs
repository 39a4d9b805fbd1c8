//! MSS clamping: SYNs of users announce no larger segments than fit (`instances.*.mss`).
//!
//! It is done behind `apply_rules`, to packets that have their headers: only then it is known by which sides a packet
//! comes in and leaves. The checksum of a GTP-U packet over IPv6 stays right, since the sum of the segment in it does
//! not change. Bursts without a SYN do not come here.

use flow::Blocks;
use packet::eth::{self, L2};
use packet::{IpTuple, PacketBuf, mss};
use rules::network::{Leg, Mss};

use crate::burst::Burst;
use crate::burst::descriptor::{Descriptor, Family, Fate, PacketFlags};
use crate::egress::forwarding::ForwardingTables;
use crate::egress::path_mtus::{Path, path_of};
use crate::ingress::l3_interfaces::L3Interface;
use crate::ingress::parse::HEADERS;
use crate::stats::Stats;

/// State of the worker that the bounds follow from.
pub(crate) struct MssClamping<'a> {
    pub tables: &'a ForwardingTables,
    pub blocks: &'a Blocks,
    pub stats: &'a mut Stats,
}

impl MssClamping<'_> {
    /// Lowers the MSS of the SYNs of this burst that are sent.
    #[cold]
    #[inline(never)]
    pub fn clamp_burst<B: PacketBuf>(&mut self, burst: &mut Burst<B>) {
        for index in 0..burst.len() {
            let descriptor = &burst.descriptors[index];
            let sends = matches!(descriptor.fate, Fate::Send(_));
            if sends && descriptor.kind.is_user() && descriptor.flags.any(PacketFlags::OPENING) {
                let clamped = self.clamp_segment(burst, index);
                self.stats.mss_clamped += u64::from(clamped == Some(true));
            }
        }
    }

    /// Whether the size was lowered; `None` where no bound is configured.
    fn clamp_segment<B: PacketBuf>(&self, burst: &mut Burst<B>, index: usize) -> Option<bool> {
        let (descriptor, buf) = (&burst.descriptors[index], &burst.packets[index]);
        let octets = usize::from(descriptor.octets);
        let l2 = L2::parse(buf.data()).ok()?;
        let Fate::Send(port) = descriptor.fate else {
            return None;
        };
        let from = self.tables.interfaces.at(descriptor.instance)?;
        let to = self
            .tables
            .interfaces
            .find(port.with_recirculations(0), l2.vlan)?;
        let start = buf.len().checked_sub(octets)?;
        let headers = start.checked_sub(l2.len.into())?;
        let mut legs = [leg(from, headers_of(descriptor, from)), leg(to, headers)];
        if !self.tables.path_mtus.is_empty() {
            let outer = &buf.data()[usize::from(l2.len)..];
            let ends = IpTuple::parse(outer, buf.len()).ok().filter(|_| headers > 0);
            let ends = ends.map(|tuple| Path {
                local: tuple.addrs.src(),
                peer: tuple.addrs.dst(),
            });
            let back = self.least_way_back(descriptor, from.interface.mtu);
            legs[0].room = legs[0].room.saturating_sub(from.interface.mtu - back);
            let there = self.tables.path_mtus.of(ends, to.interface.mtu);
            legs[1].room = legs[1].room.saturating_sub(to.interface.mtu - there);
        }
        let buf = &mut burst.packets[index];
        let most = Mss::limit(legs, descriptor.family == Family::V4)?;
        buf.gather((start + HEADERS).min(buf.len()));
        let end = buf.data().len().min(start + octets);
        let packet = buf.data_mut().get_mut(start..end)?;
        let tuple = IpTuple::parse(packet, octets).ok()?;
        let segment = packet.get_mut(tuple.l4_offset.into()..)?;
        Some(mss::clamp(segment, most))
    }

    /// The least MTU of the session's other tunnels: by one of them goes what answers the packet, if that came in a
    /// tunnel. `link` where nothing is known of them.
    fn least_way_back(&self, descriptor: &Descriptor, link: u16) -> u16 {
        let verdict = &descriptor.verdict;
        let Some(block) = self.blocks.get(verdict.block) else {
            return link;
        };
        let others = (0..block.forwards()).filter(|slot| *slot != verdict.forward);
        let tunnels = others.filter_map(|slot| block.forward(slot).template);
        let mtus = tunnels.map(|template| self.tables.path_mtus.of(Some(path_of(&template)), link));
        match descriptor.tunnel {
            Some(_) => mtus.min().unwrap_or(link),
            None => link,
        }
    }
}

/// One side, with the octets of headers before users' packets there.
fn leg(side: &L3Interface, headers: usize) -> Leg {
    Leg {
        mss: side.mss,
        room: side.interface.mtu.saturating_sub(headers as u16),
    }
}

/// Octets of the tunnel's headers that a packet came in with: those that go the other way have as many.
fn headers_of(descriptor: &Descriptor, from: &L3Interface) -> usize {
    let tags = from.interface.vlan.map_or(0, |vlan| vlan.octets().1);
    match descriptor.tunnel {
        Some(_) => usize::from(descriptor.offset).saturating_sub(eth::HEADER_LEN + tags),
        None => 0,
    }
}
