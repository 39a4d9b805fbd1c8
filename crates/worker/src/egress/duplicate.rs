//! Duplication: carries out which packets of a burst are copied for mirrors, and makes the duplicates of FARs that
//! duplicate (DUPL, TS 29.244 §5.2.3.1). What is made is queued and sent by [`copies`](crate::egress::copies).
//!
//! A duplicate is the user packet as it is sent, or as it came where it is dropped or waits, in a tunnel of its own. It
//! is a packet of ours: no URR counts it, no meter sees it. A packet that waited was duplicated when it came. One that
//! is too long for its way leaves in fragments, if its instance lets packets leave so.

use flow::{Blocks, Forward, PackedForward};
use packet::PacketBuf;
use packet::buf::copy_behind;
use packet::gtpu::MessageType;
use packet::ip_fragmentation::FragmentSpec;
use rules::image::Copies as WantedCopies;

use crate::apply_rules::encap::{self, Chain, Cut, Hop, Message, Optional, addresses_v6};
use crate::burst::Burst;
use crate::burst::descriptor::Fate;
use crate::burst::outcome::CopyRequest;
use crate::egress::checksum_offload::UdpChecksum;
use crate::egress::copies::{Copies, Originated};
use crate::egress::forwarding::ForwardingTables;
use crate::egress::fragmentation::{FragmentationNeed, Fragmenter};
use crate::egress::path_mtus::path_of;
use crate::io::{Io, PacketMetadata};
use crate::sessions::Images;
use crate::stats::Stats;

/// State of the worker that copies are made with.
pub(crate) struct Copying<'a, I: Io> {
    pub io: &'a mut I,
    pub copies: &'a mut Copies<I::Buf>,
    pub fragmenter: &'a mut Fragmenter<I::Buf>,
    pub blocks: &'a Blocks,
    pub images: Images<'a>,
    pub tables: &'a ForwardingTables,
    pub stats: &'a mut Stats,
}

impl<I: Io> Copying<'_, I> {
    /// Makes the copies that `apply_rules` noted. Packets that have waited have been duplicated before, at this worker
    /// or the one that their session was with then.
    #[cold]
    #[inline(never)]
    pub fn copy_burst(&mut self, burst: &mut Burst<I::Buf>) {
        for number in 0..burst.outcome.copied.len() {
            let CopyRequest { index, port } = burst.outcome.copied[number];
            let index = usize::from(index);
            let spec = self.spec_of(burst, index);
            let packet = &burst.packets[index];
            if port != Forward::COPIES {
                self.copies.copy(self.io, self.stats, packet, spec, port);
                continue;
            }
            let Some(WantedCopies { mirror, duplicate }) = self.copies_of(burst, index) else {
                continue;
            };
            let is_sent = matches!(burst.descriptors[index].fate, Fate::Send(_));
            if let Some(port) = mirror.filter(|_| is_sent) {
                self.copies.copy(self.io, self.stats, packet, spec, port);
            }
            if !packet.ingress().has_waited() {
                let duplicate = self.duplicate(burst, index, &duplicate);
                self.copies.add(self.stats, duplicate);
            }
        }
        burst.outcome.copied.clear();
    }

    /// How a packet is cut up that leaves in fragments: to ourselves none does.
    fn spec_of(&self, burst: &Burst<I::Buf>, index: usize) -> Option<FragmentSpec> {
        let leaves = matches!(burst.descriptors[index].fate, Fate::Send(port) if port.recirculations() == 0);
        (leaves && self.fragmenter.has(index)).then(|| self.fragmenter.at(index))
    }

    /// What the session of a packet says of its copies.
    fn copies_of(&self, burst: &Burst<I::Buf>, index: usize) -> Option<WantedCopies> {
        let verdict = &burst.descriptors[index].verdict;
        let session = self.blocks.get(verdict.block)?.session();
        self.images.at(session)?.copies(verdict.forward)
    }

    /// The duplicate of a packet.
    fn duplicate(
        &mut self,
        burst: &Burst<I::Buf>,
        index: usize,
        forward: &Forward,
    ) -> Option<Originated<I::Buf>> {
        let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
        let octets = usize::from(descriptor.octets);
        let start = match descriptor.fate {
            Fate::Send(_) => packet.len().checked_sub(octets)?,
            _ => descriptor.offset.into(),
        };
        let adjacency = self.tables.adjacencies.resolved(forward.adjacency)?;
        let message = Message {
            forward: &PackedForward::from(forward),
            adjacency,
            message_type: MessageType::G_PDU,
            cut: Cut {
                offset: 0,
                octets,
                hop: Hop::None,
            },
            sum: UdpChecksum::Software,
        };
        let ends = forward.template.as_ref().map(path_of);
        let mtu = self.tables.path_mtus.of(ends, adjacency.link_mtu());
        let outer = encap::outer_len(message.forward);
        let spec = match outer + octets > usize::from(mtu) {
            false => None,
            true => Some(self.fragmenter.of_duplicate(FragmentationNeed {
                outer: outer as u16,
                mtu,
                how: adjacency.fragmentation(),
            })?),
        };
        let mut copy = self.io.alloc()?;
        // With its recirculations: a duplicate to this node that is duplicated again comes to an end.
        copy.set_ingress(packet.ingress());
        copy_behind(&mut copy, packet, start..start + octets, &mut || self.io.alloc())?;
        let addresses = || addresses_v6(forward);
        let done = message.put_on(&mut copy, Optional::None, &Chain::EMPTY, addresses);
        done.ok().map(|()| Originated {
            packet: copy,
            port: adjacency.port(),
            spec,
        })
    }
}
