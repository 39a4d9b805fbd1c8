//! Packets of data networks to public addresses: for which UE they are.

use flow::{Nanos, SessionIndex, VrfId};
use nat::mappings::{Inbound, Protocol, PublicEnd, PublicHash, Segment};
use packet::icmp_rewrite::{Outer, rewrite_error};
use packet::preview::Previewed;
use packet::rewrite::{Ends, Rewrite};
use packet::{DropReason, PacketBuf};
use rules::classifier::Side;

use super::NatStage;
use super::endpoint::Endpoint;
use super::message::{Kind, quoted, user_packet_mut};
use super::packets::{Arrival, PublicPacket};
use crate::burst::batch::BURST;
use crate::burst::descriptor::{Deferral, Descriptor, Family, Fate, Keys};
use crate::ingress::parse::gather_headers;

impl NatStage {
    /// Makes packets to public addresses packets for the UEs that have them; those of no mapping end here. Fragments
    /// have the ports of their first one, or wait for it if it `is_awaited`.
    pub fn admit<B: PacketBuf>(
        &mut self,
        packets: &mut [B],
        descriptors: &mut [Descriptor],
        keys: &mut Keys,
        is_awaited: bool,
        now: Nanos,
    ) {
        self.admitted = 0;
        self.unsolicited.clear();
        let mut arrivals = std::mem::take(&mut self.arrivals);
        arrivals.clear();
        for (index, (buf, descriptor)) in packets.iter().zip(&*descriptors).enumerate() {
            let Side::Plain { vrf } = descriptor.side else {
                continue;
            };
            let Some(packet) = PublicPacket::new(buf, descriptor, keys, index) else {
                continue;
            };
            let pools = self.network.nat().pools();
            let Some(address) = packet.public_address(pools, vrf) else {
                continue;
            };
            let end = packet.public_end((pools, vrf, address), || quoted(buf, descriptor));
            arrivals.push(Arrival {
                index: index as u8,
                end,
                hash: end.map_or_else(PublicHash::default, |end| self.mappings.public_hash(end)),
            });
        }
        // In a loop of its own, as those of UEs' packets.
        for arrival in &arrivals {
            self.mappings.prefetch_inbound(arrival.hash);
        }
        for Arrival { index, end, hash } in &arrivals {
            let index = usize::from(*index);
            let (buf, descriptor) = (&mut packets[index], &mut descriptors[index]);
            if descriptor.flags.lacks_ports() {
                descriptor.fate = await_first(is_awaited);
                continue;
            }
            let packet = PublicPacket::new(buf, descriptor, keys, index);
            let (Some(end), Some(packet)) = (*end, packet) else {
                descriptor.fate = Fate::Drop(DropReason::NatNoMapping);
                continue;
            };
            match self.admit_one((buf, descriptor, index), &packet, (end, *hash), now) {
                Ok(inside) => {
                    let key = &mut keys.v4[index % BURST];
                    key.destination = inside.address;
                    if matches!(packet.message.kind, Kind::Ports | Kind::Later) {
                        key.ports[1] = inside.port;
                    }
                }
                Err(reason) => descriptor.fate = Fate::Drop(reason),
            }
        }
        self.arrivals = arrivals;
    }

    /// Fragments to public addresses whose first one has not come wait for it, at the worker that has received them.
    #[cold]
    pub fn hold_fragments(&self, descriptors: &mut [Descriptor], keys: &Keys) {
        for (index, descriptor) in descriptors.iter_mut().enumerate() {
            if descriptor.flags.lacks_ports() && self.is_to_public(descriptor, keys, index) {
                descriptor.fate = await_first(true);
            }
        }
    }

    /// Whether a packet is of a data network and for a public address.
    pub fn is_to_public(&self, descriptor: &Descriptor, keys: &Keys, index: usize) -> bool {
        let Side::Plain { vrf } = descriptor.side else {
            return false;
        };
        let destination = keys.v4[index % BURST].destination;
        descriptor.family == Family::V4
            && descriptor.is_open_user()
            && self.pools().pool_of(vrf, destination.into()).is_some()
    }

    /// What a packet of a data network is once it is admitted; `None` where it is for a public address and no mapping.
    pub fn as_admitted(&self, vrf: VrfId, packet: Previewed, now: Nanos) -> Option<Previewed> {
        let (pools, [_, port]) = (self.pools(), packet.ports);
        if pools.pool_of(vrf, packet.destination.into()).is_none() {
            return Some(packet);
        }
        let protocol = Protocol::of(packet.protocol).filter(|protocol| *protocol != Protocol::Icmp)?;
        let block = pools.block_of(vrf, packet.destination.into(), port)?;
        let (_, inside) = self.mappings.lookup_public(block, port, protocol, now)?;
        Some(Previewed {
            destination: inside.address,
            ports: [packet.ports[0], inside.port],
            ..packet
        })
    }

    /// Gives one packet the address of its UE.
    ///
    /// # Errors
    /// [`DropReason::NatNoMapping`], and those of a packet that cannot be rewritten.
    #[inline(always)]
    fn admit_one<B: PacketBuf>(
        &mut self,
        (buf, descriptor, index): (&mut B, &Descriptor, usize),
        packet: &PublicPacket,
        end: (PublicEnd, PublicHash),
        now: Nanos,
    ) -> Result<Endpoint, DropReason> {
        let none = DropReason::NatNoMapping;
        let quoted = match packet.message.kind {
            Kind::Error => Some(quoted(buf, descriptor).ok_or(none)?),
            _ => None,
        };
        // Anyone on the way may notify of an error (RFC 5508 REQ-4), about what the UE has sent to where it may send.
        let remote = quoted.map_or(packet.source, |quoted| quoted.ends.destination);
        let Inbound {
            address,
            port,
            is_unsolicited,
        } = self.inbound(packet, end, remote, now).ok_or(none)?;
        let inside = Endpoint { address, port };
        if buf.is_chained() {
            gather_headers(buf);
        }
        let public = Endpoint {
            address: packet.destination,
            port: end.0.port,
        };
        let bytes = user_packet_mut(buf, descriptor);
        if let Some(quoted) = quoted {
            if quoted.ends.source != packet.destination {
                return Err(none);
            }
            rewrite_error(bytes, Outer::Destination(inside.address), inside.into())?;
        } else {
            let to = |Endpoint { address, port }: Endpoint| Ends {
                destination: address,
                destination_port: port,
                ..Ends::default()
            };
            Rewrite::new(&to(public), &to(inside)).apply(bytes)?;
        }
        self.destinations[index % BURST] = public;
        self.admitted |= 1 << (index % BURST);
        if is_unsolicited {
            self.unsolicited.note(index);
        } else if quoted.is_some() && !self.mappings.counts_as_known(end, packet.source) {
            self.unsolicited.note_error(index);
        }
        Ok(inside)
    }

    /// The UE's own end of the mapping that a packet is for, if that lets what `remote` sends pass. For an error, that
    /// is the destination that it quotes, not its sender.
    #[inline(always)]
    fn inbound(
        &mut self,
        packet: &PublicPacket,
        (end, hash): (PublicEnd, PublicHash),
        remote: [u8; 4],
        now: Nanos,
    ) -> Option<Inbound> {
        let segment = match packet.message.segment {
            // Anyone may send a FIN or RST that is taken for the other end's: only the UE's close.
            Segment::Finishes | Segment::Resets => Segment::Within,
            segment => segment,
        };
        self.mappings.inbound_by(hash, end, remote, segment, now).ok()
    }
}

/// What becomes of a fragment whose first one has not come.
#[cold]
fn await_first(is_awaited: bool) -> Fate {
    match is_awaited {
        // Which session it is for is not known yet: all of these share what may wait of one session's.
        true => Fate::Defer(Deferral::FirstFragment(SessionIndex(u32::MAX))),
        false => Fate::Drop(DropReason::NatNoMapping),
    }
}
