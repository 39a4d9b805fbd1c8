//! Builds what leaves, octet by octet, without the builders of the fast path.

use std::net::IpAddr;

use packet::gtpu::{Comprehension, ExtensionType, MessageType};
use packet::tuple::proto;
use packet::{DropReason, Teid};

use super::arrival::Tunnelled;
use crate::model::Qer;

/// The port of GTP-U (TS 29.281 §4.4.2).
const GTPU_PORT: u16 = 2152;

/// A GTP-U extension header: its type, and its content of 4n-2 octets.
pub(super) type Extension = (u8, Vec<u8>);

/// The PDU Session Container that a QER with a QFI calls for (TS 38.415 §5.5.2).
pub(super) fn container(qer: &Qer, is_uplink: bool) -> Option<Extension> {
    let qfi = qer.qfi?.get();
    let content = match (is_uplink, qer.ppi) {
        (true, _) => vec![0x10, qfi],
        (false, None) => vec![0x00, u8::from(qer.rqi) << 6 | qfi],
        (false, Some(ppi)) => vec![0x00, 0x80 | u8::from(qer.rqi) << 6 | qfi, ppi.get() << 5, 0, 0, 0],
    };
    Some((ExtensionType::PDU_SESSION_CONTAINER.0, content))
}

/// The received extension headers that a next tunnel gets: the first PDU Session Container if `keeps_psc`, then all
/// of other types, except unknown ones that an intermediate node takes out.
pub(super) fn kept_extensions(tunnel: &Tunnelled<'_>, keeps_psc: bool) -> Vec<Extension> {
    let is_psc = |kind: ExtensionType| kind == ExtensionType::PDU_SESSION_CONTAINER;
    let discarded =
        |kind: ExtensionType| !kind.is_known() && kind.comprehension() == Comprehension::DiscardIfUnknown;
    let containers = tunnel
        .extensions
        .iter()
        .filter(|header| is_psc(header.kind))
        .take(usize::from(keeps_psc));
    let others = tunnel
        .extensions
        .iter()
        .filter(|header| !is_psc(header.kind) && !discarded(header.kind));
    containers
        .chain(others)
        .map(|header| (header.kind.0, header.content.to_vec()))
        .collect()
}

/// Takes one from the TTL or hop limit, as a router does (RFC 1812 §5.3.1, RFC 8200 §3).
pub(super) fn decrement_ttl(packet: &mut [u8]) -> Result<(), DropReason> {
    let is_ipv4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let ttl = packet
        .get_mut(if is_ipv4 { 8 } else { 7 })
        .ok_or(DropReason::BadIpLength)?;
    if *ttl <= 1 {
        return Err(DropReason::TtlExpired);
    }
    *ttl -= 1;
    if is_ipv4 {
        let len = packet.first().map_or(0, |first| usize::from(first & 0x0f) * 4);
        fill_ipv4_checksum(packet.get_mut(..len).ok_or(DropReason::BadIpLength)?);
    }
    Ok(())
}

/// Writes the DSCP; the two bits of ECN stay.
pub(super) fn set_dscp(packet: &mut [u8], dscp: u8) -> Result<(), DropReason> {
    let Some([first, second, ..]) = packet.first_chunk_mut::<2>() else {
        return Err(DropReason::BadIpLength);
    };
    if *first >> 4 == 6 {
        let class = (*first << 4 | *second >> 4) & 3 | dscp << 2;
        (*first, *second) = (0x60 | class >> 4, class << 4 | *second & 0x0f);
        return Ok(());
    }
    *second = dscp << 2 | *second & 3;
    let len = usize::from(*first & 0x0f) * 4;
    fill_ipv4_checksum(packet.get_mut(..len).ok_or(DropReason::BadIpLength)?);
    Ok(())
}

/// What the outer headers of a tunnel say.
pub(super) struct OuterTunnel {
    pub(super) source: IpAddr,
    pub(super) peer: IpAddr,
    pub(super) teid: Teid,
    pub(super) tos: u8,
}

/// A GTP-U message in UDP and IP (TS 29.281 §5.1).
pub(super) fn outer_headers(
    tunnel: &OuterTunnel,
    message_type: MessageType,
    extensions: &[Extension],
    payload: &[u8],
) -> Result<Vec<u8>, DropReason> {
    let mut body = Vec::new();
    if !extensions.is_empty() {
        let mut kinds = extensions.iter().map(|(kind, _)| *kind);
        // No sequence number, no N-PDU number, the first extension's type.
        body.extend([0, 0, 0, kinds.next().unwrap_or(0)]);
        for (_, content) in extensions {
            body.push(((content.len() + 2) / 4) as u8);
            body.extend(content);
            body.push(kinds.next().unwrap_or(0));
        }
    }
    body.extend(payload);
    let flags = if extensions.is_empty() { 0x30 } else { 0x34 };
    let mut gtpu = vec![flags, message_type.0];
    gtpu.extend(length(body.len())?.to_be_bytes());
    gtpu.extend(tunnel.teid.0.to_be_bytes());
    gtpu.extend(body);

    let mut udp = Vec::new();
    udp.extend(GTPU_PORT.to_be_bytes());
    udp.extend(GTPU_PORT.to_be_bytes());
    udp.extend(length(gtpu.len() + 8)?.to_be_bytes());
    udp.extend([0, 0]);
    udp.extend(gtpu);
    ip_header(tunnel, udp)
}

fn ip_header(tunnel: &OuterTunnel, mut udp: Vec<u8>) -> Result<Vec<u8>, DropReason> {
    let (mut packet, tos) = (Vec::new(), tunnel.tos);
    match (tunnel.source, tunnel.peer) {
        (IpAddr::V4(source), IpAddr::V4(peer)) => {
            packet.extend([0x45, tos]);
            packet.extend(length(udp.len() + 20)?.to_be_bytes());
            // Identification 0 with DF (RFC 6864 §4.1), TTL 64, checksum to be filled in.
            packet.extend([0, 0, 0x40, 0, 64, proto::UDP, 0, 0]);
            packet.extend(source.octets());
            packet.extend(peer.octets());
            fill_ipv4_checksum(&mut packet);
        }
        (IpAddr::V6(source), IpAddr::V6(peer)) => {
            length(udp.len() + 40)?;
            fill_udp_checksum(&[source.octets(), peer.octets()].concat(), &mut udp);
            packet.extend([0x60 | tos >> 4, tos << 4, 0, 0]);
            packet.extend(length(udp.len())?.to_be_bytes());
            packet.extend([proto::UDP, 64]);
            packet.extend(source.octets());
            packet.extend(peer.octets());
        }
        _ => return Err(DropReason::NoRoute),
    }
    packet.extend(udp);
    Ok(packet)
}

/// A 16-bit length field.
fn length(octets: usize) -> Result<u16, DropReason> {
    u16::try_from(octets).map_err(|_| DropReason::TooBig)
}

/// Writes the checksum of an IPv4 header.
pub(super) fn fill_ipv4_checksum(header: &mut [u8]) {
    set(header, 10, 0);
    let checksum = !sum(header);
    set(header, 10, checksum);
}

/// Over IPv6 the checksum is there, and 0 is written as all ones (RFC 8200 §8.1).
fn fill_udp_checksum(addresses: &[u8], udp: &mut [u8]) {
    let length = (udp.len() as u32).to_be_bytes();
    let pseudo = [addresses, &length, &[0, 0, 0, proto::UDP], udp].concat();
    let checksum = !sum(&pseudo);
    set(udp, 6, if checksum == 0 { 0xffff } else { checksum });
}

fn set(octets: &mut [u8], at: usize, value: u16) {
    if let Some(field) = octets.get_mut(at..at + 2) {
        field.copy_from_slice(&value.to_be_bytes());
    }
}

/// The ones' complement sum of 16-bit words; an odd octet is the upper half of a word (RFC 1071).
fn sum(octets: &[u8]) -> u16 {
    let words = octets.chunks(2).map(|pair| match *pair {
        [high, low] => u64::from(u16::from_be_bytes([high, low])),
        [high] => u64::from(high) << 8,
        _ => 0,
    });
    let mut total: u64 = words.sum();
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    total as u16
}
