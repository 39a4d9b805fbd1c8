//! The copies of a burst: for mirrors, and the duplicates of FARs that duplicate (DUPL, TS 29.244 §5.2.3.1).
//!
//! A duplicate is the user packet as it is sent, or as it came where it is dropped or waits, in a tunnel of its own. It
//! is a packet of ours: no URR counts it, no meter sees it. A packet that waited was duplicated when it came. One that is
//! too long for its way leaves in fragments, if its instance lets packets leave so.

use flow::{Forward, PackedForward};
use packet::PacketBuf;
use packet::buf::copy_behind;
use packet::gtpu::MessageType;
use packet::split::Split;
use rules::image::Copies;

use crate::act::encap::{self, Cut, Hop, Message, Optional};
use crate::burst::descriptor::Fate;
use crate::egress::checksum_offload::UdpChecksum;
use crate::egress::fragmentation::FragmentationNeed;
use crate::egress::mirror::Originated;
use crate::io::{Ingress, Io};
use crate::{Worker, act};

impl<I: Io> Worker<I> {
    /// Makes the copies that `act` noted. Packets that have waited have been duplicated before, at this worker or the
    /// one that their session was with then.
    #[cold]
    #[inline(never)]
    pub(super) fn copy_wanted(&mut self) {
        for number in 0..self.copies.wanted.len() {
            let (place, port) = self.copies.wanted[number];
            let place = usize::from(place);
            let order = self.order_of(place);
            let (io, stats) = (&mut self.io, &mut self.stats);
            if port != Forward::COPIES {
                self.copies.copy(io, stats, (&self.burst[place], order), port);
                continue;
            }
            let Some(Copies { mirror, duplicate }) = self.copies_of(place) else {
                continue;
            };
            let is_sent = matches!(self.descriptors[place].fate, Fate::Send(_));
            if let Some(port) = mirror.filter(|_| is_sent) {
                let (io, stats) = (&mut self.io, &mut self.stats);
                self.copies.copy(io, stats, (&self.burst[place], order), port);
            }
            if !self.burst[place].ingress().has_waited() {
                let duplicate = self.duplicate(place, &duplicate);
                self.copies.add(&mut self.stats, duplicate);
            }
        }
        self.copies.wanted.clear();
    }

    /// How a packet is cut up that leaves in fragments: to ourselves none does.
    fn order_of(&self, place: usize) -> Option<Split> {
        let leaves = matches!(self.descriptors[place].fate, Fate::Send(port) if port.lap() == 0);
        (leaves && self.fragmenter.has(place)).then(|| self.fragmenter.at(place))
    }

    /// What the session of a packet says of its copies.
    fn copies_of(&self, place: usize) -> Option<Copies> {
        let (verdict, _) = self
            .flows
            .extended()
            .whole(&self.descriptors[place].verdict, place);
        let session = self.sessions.blocks.get(verdict.block)?.session();
        self.sessions.at(session)?.image.copies(verdict.forward)
    }

    /// The duplicate of a packet.
    fn duplicate(&mut self, place: usize, forward: &Forward) -> Option<Originated<I::Buf>> {
        let (descriptor, packet) = (&self.descriptors[place], &self.burst[place]);
        let octets = usize::from(descriptor.octets);
        let start = match descriptor.fate {
            Fate::Send(_) => packet.len().checked_sub(octets)?,
            _ => descriptor.offset.into(),
        };
        let adjacency = self.adjacencies.resolved(forward.adjacency)?;
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
        let ends = forward.template.as_ref().map(act::ends_of);
        let mtu = self.path_mtus.of(ends, adjacency.link_mtu());
        let outer = encap::outer_len(message.forward);
        let order = match outer + octets > usize::from(mtu) {
            false => None,
            true => Some(self.fragmenter.of_duplicate(FragmentationNeed {
                outer: outer as u16,
                mtu,
                how: adjacency.fragmentation(),
            })?),
        };
        let mut copy = self.io.alloc()?;
        // With its lap: a duplicate to ourselves that is duplicated again comes to an end.
        copy.set_ingress(packet.ingress());
        copy_behind(&mut copy, packet, (start, octets), &mut || self.io.alloc())?;
        let addresses = || act::addresses_v6(forward);
        let done = message.put_on(&mut copy, Optional::None, &self.chain, addresses);
        done.ok().map(|()| Originated {
            packet: copy,
            port: adjacency.port(),
            order,
        })
    }
}
