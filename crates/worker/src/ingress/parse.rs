//! Stage `parse`: reads the headers of each packet into its descriptor and key.
//!
//! It reads no session and no flow, and does not change the packet. Malformed packets, packets for other nodes and
//! packets with a martian source get their drop reason in this stage.

use flow::{LocalId, prefetch};
use packet::eth::{L2, ether_type};
use packet::gtpu::{MessageType, Unknown};
use packet::tuple::proto;
use packet::{
    Addrs, DropReason, Fragment, GtpuFrame, IpFrame, IpTuple, MacAddr, PacketBuf, common_gtpu_form, frame,
};
use rules::classifier::Side;

use crate::PacketMetadata;
use crate::burst::descriptor::{Deferral, Descriptor, Fate, Keys, Kind, PacketFlags, Tunnel};
use crate::ingress::l3_interfaces::{L3Interface, L3Interfaces, Local};
use crate::ingress::last_ingress::LastIngress;
use crate::ingress::martian_source::check_source;

/// Reads each packet of a burst into its descriptor, which is new, and the key of its user packet. Returns the union of
/// the flags of all packets.
#[inline(never)]
pub(crate) fn parse<B: PacketBuf + PacketMetadata>(
    interfaces: &L3Interfaces,
    burst: &[B],
    descriptors: &mut [Descriptor],
    keys: &mut Keys,
) -> PacketFlags {
    let mut flags = PacketFlags::NONE;
    burst.iter().for_each(|buf| prefetch::read(buf.data()));
    let mut last = LastIngress::default();
    for (index, (buf, descriptor)) in burst.iter().zip(descriptors).enumerate() {
        let mut to = To {
            descriptor,
            keys,
            index,
            flags: &mut flags,
        };
        if let Err(reason) = read(interfaces, buf, &mut last, &mut to) {
            descriptor.fate = Fate::Drop(reason);
            descriptor.flags = descriptor.flags.and(scattered(buf));
            flags = flags.and(descriptor.flags);
        }
    }
    flags
}

/// Octets that are linearized in front of a packet whose headers are in several segments of a chained buffer: more
/// than any headers have.
pub(crate) const HEADERS: usize = 1_280;

/// Linearizes the headers of a packet for who reads more of them than parsing did; false when they stay where they
/// are.
#[cold]
pub(crate) fn gather_headers<B: PacketBuf>(buf: &mut B) -> bool {
    buf.gather(HEADERS.min(buf.len()))
}

#[cold]
fn scattered<B: PacketBuf>(buf: &B) -> PacketFlags {
    match buf.is_chained() {
        true => PacketFlags::SCATTERED,
        false => PacketFlags::NONE,
    }
}

/// Linearizes the headers of chained packets that could not be read, and reads them again. Returns the union of their
/// flags.
#[cold]
pub(crate) fn gather<B: PacketBuf + PacketMetadata>(
    interfaces: &L3Interfaces,
    burst: &mut [B],
    descriptors: &mut [Descriptor],
    keys: &mut Keys,
) -> PacketFlags {
    let mut flags = PacketFlags::NONE;
    for (index, (buf, descriptor)) in burst.iter_mut().zip(descriptors).enumerate() {
        let is_scattered = descriptor.flags.any(PacketFlags::SCATTERED) && buf.is_chained();
        if !is_scattered || !gather_headers(buf) {
            continue;
        }
        descriptor.reset(descriptor.from_inbox);
        let mut to = To {
            descriptor,
            keys,
            index,
            flags: &mut flags,
        };
        if let Err(reason) = read(interfaces, buf, &mut LastIngress::default(), &mut to) {
            descriptor.fate = Fate::Drop(reason);
        }
    }
    flags
}

/// The descriptor and key that a packet is read into.
struct To<'a> {
    descriptor: &'a mut Descriptor,
    keys: &'a mut Keys,
    index: usize,
    /// Of the whole burst.
    flags: &'a mut PacketFlags,
}

impl To<'_> {
    /// Sets flags that few packets have.
    #[inline(always)]
    fn note(&mut self, flags: PacketFlags) {
        if flags != PacketFlags::NONE {
            self.descriptor.flags = flags;
            *self.flags = self.flags.and(flags);
        }
    }
}

#[inline(always)]
fn read<'a, B: PacketBuf + PacketMetadata>(
    interfaces: &'a L3Interfaces,
    buf: &B,
    last: &mut LastIngress<'a>,
    to: &mut To<'_>,
) -> Result<(), DropReason> {
    let bytes = buf.data();
    let Some((ingress, l2)) = last.of_ip(interfaces, bytes, buf.ingress()) else {
        return read_others(interfaces, buf, to);
    };
    to.descriptor.instance = ingress.instance();
    if l2.ether_type == ether_type::IPV6 {
        return read_ipv6(ingress, buf, &l2, to);
    }
    if read_usual(ingress, buf, l2.len, to) {
        return Ok(());
    }
    let ip = IpFrame::parse_v4(bytes, buf.len(), &l2)?;
    read_ip(ingress, bytes, &ip, to)
}

/// Reads what is no IP packet for our MAC address, or one of which not even four octets are there.
#[inline(never)]
fn read_others<B: PacketBuf + PacketMetadata>(
    interfaces: &L3Interfaces,
    buf: &B,
    to: &mut To<'_>,
) -> Result<(), DropReason> {
    let bytes = buf.data();
    let l2 = L2::parse(bytes)?;
    let Some(ingress) = interfaces.find(buf.ingress(), l2.vlan) else {
        return member_frame(interfaces, buf, &l2, to);
    };
    to.descriptor.instance = ingress.instance();
    let ours = is_to(bytes, ingress.interface.mac);
    match l2.ether_type {
        ether_type::IPV4 | ether_type::IPV6 if ours => IpFrame::parse(bytes, buf.len(), &l2).map(drop),
        ether_type::IPV6 if is_to_group(bytes) => {
            keep(to, Kind::Group, &IpFrame::parse(bytes, buf.len(), &l2)?);
            Ok(())
        }
        ether_type::ARP if ours || is_to_group(bytes) => {
            (to.descriptor.kind, to.descriptor.offset) = (Kind::Arp, l2.len);
            Ok(())
        }
        _ if ingress.host && (ours || is_to_group(bytes)) => read_for_host(buf, &l2, to),
        ether_type::ARP | ether_type::IPV4 | ether_type::IPV6 => Err(DropReason::NotForUs),
        _ => Err(DropReason::UnknownEtherType),
    }
}

/// Reads packets that only the host's network stack may use: IPv4 to a link-local group (routing protocols), and frames
/// without IP. Broadcasts are dropped.
#[cold]
#[inline(never)]
fn read_for_host<B: PacketBuf>(buf: &B, l2: &L2, to: &mut To<'_>) -> Result<(), DropReason> {
    if l2.ether_type == ether_type::IPV4 {
        let ip = IpFrame::parse_v4(buf.data(), buf.len(), l2)?;
        if !matches!(
            ip.tuple.addrs,
            Addrs::V4 {
                dst: [224, 0, 0, _],
                ..
            }
        ) {
            return Err(DropReason::NotForUs);
        }
        keep(to, Kind::Group, &ip);
    } else if is_broadcast(buf.data()) {
        return Err(DropReason::UnknownEtherType);
    } else {
        (to.descriptor.kind, to.descriptor.offset) = (Kind::Foreign, l2.len);
    }
    Ok(())
}

fn is_broadcast(bytes: &[u8]) -> bool {
    bytes.first_chunk() == Some(&[0xff; 6])
}

/// Reads a packet of a port and VLAN without a network instance: LACP and markers of LAG members; others are dropped.
#[cold]
#[inline(never)]
fn member_frame<B: PacketBuf + PacketMetadata>(
    interfaces: &L3Interfaces,
    buf: &B,
    l2: &L2,
    to: &mut To<'_>,
) -> Result<(), DropReason> {
    if interfaces.member(buf.ingress()).is_none() {
        return Err(DropReason::VlanNotConfigured);
    }
    if l2.ether_type != ether_type::SLOW || l2.vlan.is_some() {
        return Err(DropReason::MemberNotCollecting);
    }
    to.descriptor.kind = Kind::Slow;
    Ok(())
}

fn is_to(bytes: &[u8], mac: MacAddr) -> bool {
    bytes.first_chunk() == Some(&mac.0)
}

fn is_to_group(bytes: &[u8]) -> bool {
    bytes.first().is_some_and(|octet| octet & 1 != 0)
}

/// Reads a G-PDU of the common form. Returns false and writes nothing for any other packet.
#[inline(always)]
fn read_usual<B: PacketBuf>(ingress: &L3Interface, buf: &B, l2_octets: u16, to: &mut To<'_>) -> bool {
    let l2_len = usize::from(l2_octets);
    let packet = buf.data().get(l2_len..).unwrap_or_default();
    let Some(found) = common_gtpu_form::parse(packet, buf.len().saturating_sub(l2_len)) else {
        return false;
    };
    let local = ingress.local_v4(found.destination);
    let Some(local) = local.filter(|local| local.gtpu) else {
        return false;
    };
    let side = Side::Tunnel {
        local: local.id,
        teid: found.teid,
        qfi: found.qfi,
    };
    let descriptor = &mut *to.descriptor;
    (descriptor.kind, descriptor.side) = (Kind::Tunnelled, side);
    (descriptor.local, descriptor.offset) = (Some(local.id), l2_octets + found.offset);
    descriptor.tunnel = Some(Tunnel {
        message_type: MessageType::G_PDU,
        unknown: Unknown::NONE,
        has_psc: found.qfi.is_some(),
        has_other_extensions: false,
    });
    keep_inner(to, side, &found.tuple, buf.data());
    true
}

/// Writes key and flags of a user packet that was received in a tunnel.
#[inline(always)]
fn keep_inner(to: &mut To<'_>, side: Side, tuple: &IpTuple, bytes: &[u8]) {
    let descriptor = &mut *to.descriptor;
    (descriptor.octets, descriptor.ttl) = (tuple.total_len, tuple.ttl);
    if tuple.addrs.has_unforwardable_destination() {
        // A tunnel's flow entry may lack the destination, so these packets have no entry.
        descriptor.defect = Some(DropReason::MartianDestination);
    } else {
        descriptor.family = to.keys.put(to.index, side, tuple);
        let offset = descriptor.offset;
        to.note(PacketFlags::of(tuple, bytes, offset));
    }
}

/// IPv6 has a function of its own, so that addresses stay in registers.
#[inline(never)]
fn read_ipv6<B: PacketBuf>(
    ingress: &L3Interface,
    buf: &B,
    l2: &L2,
    to: &mut To<'_>,
) -> Result<(), DropReason> {
    let ip = IpFrame::parse_v6(buf.data(), buf.len(), l2)?;
    read_ip(ingress, buf.data(), &ip, to)
}

#[inline(always)]
fn read_ip(ingress: &L3Interface, bytes: &[u8], ip: &IpFrame, to: &mut To<'_>) -> Result<(), DropReason> {
    match ingress.local(&ip.tuple.addrs) {
        Some(local) if ip.tuple.fragment != Fragment::None => read_fragment(local, ip, to),
        Some(local) if local.gtpu && ip.may_be_gtpu() => {
            to.descriptor.local = Some(local.id);
            read_gtpu(bytes, local.id, &GtpuFrame::parse(bytes, ip)?, to);
            Ok(())
        }
        Some(local) => {
            to.descriptor.local = Some(local.id);
            keep(to, Kind::Host, ip);
            Ok(())
        }
        None if ingress.plain => read_plain(ingress, bytes, ip, to),
        None => Err(DropReason::NotForUs),
    }
}

/// Reads a fragment for an own address. It is reassembled where the address is a GTP-U endpoint.
#[cold]
fn read_fragment(local: Local, ip: &IpFrame, to: &mut To<'_>) -> Result<(), DropReason> {
    if !local.gtpu || ip.tuple.proto != proto::UDP {
        return Err(DropReason::Fragment);
    }
    to.descriptor.fate = Fate::Defer(Deferral::Reassembly);
    to.note(PacketFlags::OUTER_FRAGMENT);
    Ok(())
}

#[inline(always)]
fn keep(to: &mut To<'_>, kind: Kind, ip: &IpFrame) {
    let descriptor = &mut *to.descriptor;
    (descriptor.kind, descriptor.offset) = (kind, ip.l2_len);
    (descriptor.octets, descriptor.ttl) = (ip.tuple.total_len, ip.tuple.ttl);
}

#[inline(never)]
fn read_gtpu(bytes: &[u8], local: LocalId, gtpu: &GtpuFrame, to: &mut To<'_>) {
    let side = Side::Tunnel {
        local,
        teid: gtpu.teid,
        qfi: gtpu.qfi,
    };
    let descriptor = &mut *to.descriptor;
    descriptor.side = side;
    (descriptor.offset, descriptor.octets) = (gtpu.payload_offset, gtpu.payload_len);
    descriptor.tunnel = Some(Tunnel::from(gtpu));
    descriptor.kind = match gtpu.message_type {
        MessageType::G_PDU => Kind::Tunnelled,
        MessageType::END_MARKER | MessageType::TUNNEL_STATUS => Kind::Relayed,
        _ => Kind::Signalling,
    };
    let end = usize::from(gtpu.payload_offset) + usize::from(gtpu.payload_len);
    let is_whole = end <= bytes.len();
    if gtpu.message_type == MessageType::G_PDU {
        match frame::parse_inner(bytes, gtpu) {
            Ok(tuple) => keep_inner(to, side, &tuple, bytes),
            // The slow path checks first whether the tunnel has a context (TS 29.281 §7.3.1).
            Err(defect) => {
                descriptor.defect = Some(defect);
                if !is_whole {
                    to.note(PacketFlags::SCATTERED);
                }
            }
        }
    } else if !is_whole {
        to.note(PacketFlags::SCATTERED);
    }
}

#[inline(always)]
fn read_plain(ingress: &L3Interface, bytes: &[u8], ip: &IpFrame, to: &mut To<'_>) -> Result<(), DropReason> {
    check_source(&ip.tuple.addrs)?;
    keep(to, Kind::Plain, ip);
    let side = Side::Plain { vrf: ingress.vrf };
    to.descriptor.side = side;
    to.descriptor.family = to.keys.put(to.index, side, &ip.tuple);
    to.note(PacketFlags::of(&ip.tuple, bytes, ip.l2_len));
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

#[cfg(test)]
mod tests {
    use flow::PortId;
    use rules::testing;

    use super::*;
    use crate::HostRates;
    use crate::mem::MemBuf;

    /// What is too short for an IP header is malformed, also where the host's network stack gets what is no IP.
    #[test]
    fn an_ip_packet_of_few_octets_is_truncated() {
        let mac = MacAddr([2, 0, 0, 0, 0, 1]);
        let rates = HostRates {
            urgent: 1_000,
            usual: 1_000,
        };
        for host in [None, Some(rates)] {
            let interfaces = L3Interfaces::new(&testing::network(), &[mac; 4]).with_host(&[host; 3], &[]);
            for (ether_type, first, reason) in [
                ([8, 0], 0x45, DropReason::TruncatedIpv4),
                ([0x86, 0xdd], 0x60, DropReason::TruncatedIpv6),
            ] {
                for octets in 0..8 {
                    let packet = vec![first; octets];
                    let mut buf = MemBuf::new(&[&mac.0[..], &[2; 6], &ether_type, &packet].concat());
                    buf.set_ingress(PortId(1));
                    let (mut descriptor, mut keys) = ([Descriptor::NEW], Keys::new());
                    parse(
                        &interfaces,
                        std::slice::from_ref(&buf),
                        &mut descriptor,
                        &mut keys,
                    );
                    assert_eq!(descriptor[0].fate, Fate::Drop(reason), "{octets} octets");
                }
            }
        }
    }
}
