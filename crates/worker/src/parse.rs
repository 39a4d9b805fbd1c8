//! Stage `parse`: what is this packet, and for whom?
//!
//! Reads headers and nothing else: no session, no flow. Malformed packets and those for nobody here end in this
//! stage. The packet is not changed.

use flow::{LocalId, prefetch};
use packet::eth::{L2, ether_type};
use packet::gtpu::MessageType;
use packet::{DropReason, Fragment, GtpuFrame, IpFrame, MacAddr, PacketBuf, frame};
use rules::classifier::Side;

use crate::Ingress;
use crate::descriptor::{Descriptor, Fate, Kind, Tunnel};
use crate::places::{Place, Places};

/// Reads each packet of a burst.
pub(crate) fn parse<B: PacketBuf + Ingress>(places: &Places, burst: &[B], descriptors: &mut [Descriptor]) {
    burst.iter().for_each(|buf| prefetch::read(buf.data()));
    for (buf, descriptor) in burst.iter().zip(descriptors) {
        if let Err(reason) = read(places, buf, descriptor) {
            descriptor.fate = Fate::Drop(reason);
        }
    }
}

fn read<B: PacketBuf + Ingress>(places: &Places, buf: &B, to: &mut Descriptor) -> Result<(), DropReason> {
    let bytes = buf.data();
    let l2 = L2::parse(bytes)?;
    let place = places
        .find(buf.ingress(), l2.vlan)
        .ok_or(DropReason::VlanNotConfigured)?;
    to.instance = place.instance();
    let ours = is_to(bytes, place.interface.mac);
    match l2.ether_type {
        ether_type::IPV4 | ether_type::IPV6 if ours => read_ip(place, buf, &l2, to),
        ether_type::IPV6 if is_to_group(bytes) => {
            keep(to, Kind::Group, &IpFrame::parse(bytes, buf.len(), &l2)?);
            Ok(())
        }
        ether_type::ARP if ours || is_to_group(bytes) => {
            (to.kind, to.offset) = (Kind::Arp, l2.len);
            Ok(())
        }
        ether_type::ARP | ether_type::IPV4 | ether_type::IPV6 => Err(DropReason::NotForUs),
        _ => Err(DropReason::UnknownEtherType),
    }
}

fn is_to(bytes: &[u8], mac: MacAddr) -> bool {
    bytes.first_chunk() == Some(&mac.0)
}

fn is_to_group(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|octet| octet & 1 != 0)
}

#[inline]
fn read_ip<B: PacketBuf>(place: &Place, buf: &B, l2: &L2, to: &mut Descriptor) -> Result<(), DropReason> {
    let ip = IpFrame::parse(buf.data(), buf.len(), l2)?;
    let destination = ip.tuple.addrs.dst();
    match place.local(destination) {
        Some(_) if ip.tuple.fragment != Fragment::None => Err(DropReason::Fragment),
        Some(local) if local.gtpu && ip.may_be_gtpu() => {
            to.local = Some(local.id);
            read_gtpu(buf.data(), local.id, &GtpuFrame::parse(buf.data(), &ip)?, to);
            Ok(())
        }
        Some(local) => {
            to.local = Some(local.id);
            keep(to, Kind::Host, &ip);
            Ok(())
        }
        None if place.plain => read_plain(place, &ip, to),
        None => Err(DropReason::NotForUs),
    }
}

#[inline]
fn keep(to: &mut Descriptor, kind: Kind, ip: &IpFrame) {
    (to.kind, to.offset, to.tuple) = (kind, ip.l2_len, Some(ip.tuple));
}

#[inline]
fn read_gtpu(bytes: &[u8], local: LocalId, gtpu: &GtpuFrame, to: &mut Descriptor) {
    to.side = Side::Tunnel {
        local,
        teid: gtpu.teid,
        qfi: gtpu.qfi,
    };
    to.offset = gtpu.payload_offset;
    to.tunnel = Some(Tunnel::from(gtpu));
    to.kind = match gtpu.message_type {
        MessageType::G_PDU => Kind::Tunnelled,
        MessageType::END_MARKER | MessageType::TUNNEL_STATUS => Kind::Relayed,
        _ => Kind::Signalling,
    };
    if gtpu.message_type == MessageType::G_PDU {
        match frame::parse_inner(bytes, gtpu) {
            Ok(tuple) => {
                to.tuple = Some(tuple);
                // A tunnel's entry may not look at the destination, so these pass by all entries.
                if tuple.addrs.has_unforwardable_destination() {
                    to.defect = Some(DropReason::MartianDestination);
                }
            }
            // Whether the tunnel is there is the first question (TS 29.281 §7.3.1): `slow` asks it.
            Err(defect) => to.defect = Some(defect),
        }
    }
}

#[inline]
fn read_plain(place: &Place, ip: &IpFrame, to: &mut Descriptor) -> Result<(), DropReason> {
    if ip.tuple.addrs.has_unforwardable_source() {
        return Err(DropReason::MartianSource);
    }
    keep(to, Kind::Plain, ip);
    to.side = Side::Plain { vrf: place.vrf };
    Ok(())
}

/// The GTP-U message of a packet that is as it was received, for the rare packets that need all of it.
///
/// # Errors
/// None for a packet that was read as GTP-U before.
#[cold]
pub(crate) fn read_again<B: PacketBuf>(buf: &B) -> Result<GtpuFrame, DropReason> {
    let l2 = L2::parse(buf.data())?;
    let ip = IpFrame::parse(buf.data(), buf.len(), &l2)?;
    GtpuFrame::parse(buf.data(), &ip)
}
