//! Stage `parse`: what is this packet, and for whom?
//!
//! Reads headers and nothing else: no session, no flow. Malformed packets and those for nobody here end in this
//! stage. The packet is not changed.

use std::net::IpAddr;

use flow::prefetch;
use packet::eth::{L2, ether_type};
use packet::gtpu::MessageType;
use packet::tuple::proto;
use packet::{DropReason, Fragment, GtpuFrame, IpFrame, MacAddr, PacketBuf, frame};
use rules::classifier::Side;

use crate::Ingress;
use crate::descriptor::{Descriptor, Fate, Kind};
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
            to.kind = Kind::Host(IpFrame::parse(bytes, buf.len(), &l2)?, None);
            Ok(())
        }
        ether_type::ARP if ours || is_to_group(bytes) => {
            to.kind = Kind::Arp(l2.len);
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
        Some(local) if ip.tuple.fragment != Fragment::None => {
            to.local = Some(local);
            Err(DropReason::Fragment)
        }
        Some(local) if local.gtpu && ip.may_be_gtpu() => {
            to.local = Some(local);
            read_gtpu(buf.data(), GtpuFrame::parse(buf.data(), &ip)?, to)
        }
        Some(local) => {
            (to.local, to.kind) = (Some(local), Kind::Host(ip, Some(local)));
            Ok(())
        }
        None if place.plain => read_plain(place, ip, to),
        None => Err(DropReason::NotForUs),
    }
}

#[inline]
fn read_gtpu(bytes: &[u8], gtpu: GtpuFrame, to: &mut Descriptor) -> Result<(), DropReason> {
    let local = to.local.ok_or(DropReason::NotForUs)?.id;
    to.side = Side::Tunnel {
        local,
        teid: gtpu.teid,
        qfi: gtpu.qfi,
    };
    to.user_offset = gtpu.payload_offset;
    to.gtpu = Some(gtpu);
    to.kind = match gtpu.message_type {
        MessageType::G_PDU => Kind::Tunnelled,
        MessageType::END_MARKER | MessageType::TUNNEL_STATUS => Kind::Relayed,
        _ => Kind::Signalling,
    };
    if gtpu.message_type == MessageType::G_PDU {
        match frame::parse_inner(bytes, &gtpu) {
            Ok(tuple) => to.tuple = Some(tuple),
            // Whether the tunnel is there is the first question (TS 29.281 §7.3.1): `slow` asks it.
            Err(defect) => to.defect = Some(defect),
        }
    }
    Ok(())
}

#[inline]
fn read_plain(place: &Place, ip: IpFrame, to: &mut Descriptor) -> Result<(), DropReason> {
    if ip.tuple.addrs.has_martian_source() {
        return Err(DropReason::MartianSource);
    }
    to.kind = Kind::Plain;
    to.side = Side::Plain { vrf: place.vrf };
    to.user_offset = ip.l2_len;
    to.tuple = Some(ip.tuple);
    Ok(())
}

/// Whether an IP packet is an ICMP message of its family.
pub(crate) fn is_icmp(ip: &IpFrame) -> bool {
    let icmp = match ip.tuple.addrs.dst() {
        IpAddr::V4(_) => proto::ICMP,
        IpAddr::V6(_) => proto::ICMPV6,
    };
    ip.tuple.proto == icmp
}
