//! Whole packets in vectors, for tests, the simulator and examples; never on a packet's way.
//!
//! A family mismatch or a length above 65,535 gives `None`.

use core::net::{IpAddr, SocketAddr};

use zerocopy::IntoBytes;

use crate::checksum::Sum;
use crate::tuple::proto;
use crate::{Addrs, DropReason, eth, icmp, ipv4, ipv6, tcp, udp};

use super::{GtpuEncap, GtpuTemplate, Marking, PerPacket, fill_udp_checksum};

/// What an IP header is made of, besides addresses and protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IpOptions {
    /// DSCP and ECN.
    pub tos: u8,
    /// TTL or hop limit.
    pub ttl: u8,
    /// IPv4 identification.
    pub id: u16,
    /// IPv6 flow label.
    pub flow_label: u32,
}

impl Default for IpOptions {
    /// DSCP 0, TTL 64, identification 1, flow label 0.
    fn default() -> Self {
        Self {
            tos: 0,
            ttl: 64,
            id: 1,
            flow_label: 0,
        }
    }
}

/// Both addresses, when they are of one family.
pub fn addrs(src: IpAddr, dst: IpAddr) -> Option<Addrs> {
    match (src, dst) {
        (IpAddr::V4(src), IpAddr::V4(dst)) => Some((src, dst).into()),
        (IpAddr::V6(src), IpAddr::V6(dst)) => Some((src, dst).into()),
        _ => None,
    }
}

/// An IP packet with this payload.
pub fn ip(addrs: &Addrs, proto: u8, options: &IpOptions, payload: &[u8]) -> Option<Vec<u8>> {
    let IpOptions {
        tos,
        ttl,
        id,
        flow_label,
    } = *options;
    Some(match *addrs {
        Addrs::V4 { src, dst } => {
            let (src, dst) = (src.into(), dst.into());
            let fields = ipv4::Fields {
                src,
                dst,
                proto,
                ttl,
                tos,
                id,
                dont_fragment: false,
            };
            [fields.header(payload.len())?.as_bytes(), payload].concat()
        }
        Addrs::V6 { src, dst } => {
            let (src, dst, next_header, hop_limit, traffic_class) = (src.into(), dst.into(), proto, ttl, tos);
            let fields = ipv6::Fields {
                src,
                dst,
                next_header,
                hop_limit,
                traffic_class,
                flow_label,
            };
            [fields.header(payload.len())?.as_bytes(), payload].concat()
        }
    })
}

/// A UDP datagram in an IP packet, with checksums.
pub fn udp(src: SocketAddr, dst: SocketAddr, payload: &[u8]) -> Option<Vec<u8>> {
    udp_with(src, dst, &IpOptions::default(), payload)
}

/// The same with a choice of IP header fields.
pub fn udp_with(src: SocketAddr, dst: SocketAddr, options: &IpOptions, payload: &[u8]) -> Option<Vec<u8>> {
    let addrs = addrs(src.ip(), dst.ip())?;
    let header = udp::Header::new(src.port(), dst.port(), payload.len())?;
    let mut datagram = [header.as_bytes(), payload].concat();
    udp::fill_checksum(&addrs, &mut datagram, Sum::default())?;
    ip(&addrs, proto::UDP, options, &datagram)
}

/// A TCP segment in an IP packet, with checksums.
pub fn tcp(src: SocketAddr, dst: SocketAddr, sequence: u32, flags: u8, payload: &[u8]) -> Option<Vec<u8>> {
    let addrs = addrs(src.ip(), dst.ip())?;
    let header = tcp::Header::new(src.port(), dst.port(), sequence, flags);
    let mut segment = [header.as_bytes(), payload].concat();
    tcp::fill_checksum(&addrs, &mut segment)?;
    ip(&addrs, proto::TCP, &IpOptions::default(), &segment)
}

/// An ICMP echo request of the addresses' family, with checksums.
pub fn echo_request(src: IpAddr, dst: IpAddr, id: u16, sequence: u16, payload: &[u8]) -> Option<Vec<u8>> {
    let addrs = addrs(src, dst)?;
    let (proto, kind) = match addrs {
        Addrs::V4 { .. } => (proto::ICMP, icmp::v4_type::ECHO_REQUEST),
        Addrs::V6 { .. } => (proto::ICMPV6, icmp::v6_type::ECHO_REQUEST),
    };
    let header = icmp::Header::new(kind, 0, u32::from(id) << 16 | u32::from(sequence));
    let mut message = [header.as_bytes(), payload].concat();
    icmp::fill_checksum(&addrs, &mut message)?;
    ip(&addrs, proto, &IpOptions::default(), &message)
}

/// A G-PDU around `inner`, from the outer IP header on, with a UDP checksum where the outer header is IPv6.
///
/// # Errors
/// [`DropReason::TooBig`].
pub fn g_pdu(encap: &GtpuEncap, marking: Option<Marking>, inner: &[u8]) -> Result<Vec<u8>, DropReason> {
    tunnelled(encap, marking, &PerPacket::default(), inner)
}

/// The same with another message type, source port, DSCP or identification.
///
/// # Errors
/// [`DropReason::TooBig`].
pub fn tunnelled(
    encap: &GtpuEncap,
    marking: Option<Marking>,
    packet: &PerPacket,
    inner: &[u8],
) -> Result<Vec<u8>, DropReason> {
    let template = GtpuTemplate::new(encap);
    let mut out = vec![0; template.header_len(marking)];
    template.apply_with(&mut out, inner.len(), marking, packet)?;
    if template.needs_udp_checksum() {
        fill_udp_checksum(&mut out, Sum::default().bytes(inner))?;
    }
    out.extend_from_slice(inner);
    Ok(out)
}

/// A frame around `payload`, padded with zeros to the 60 octets that Ethernet asks for.
pub fn ethernet(encap: &eth::Encap, payload: &[u8]) -> Vec<u8> {
    const LEAST: usize = 60;
    let mut frame = vec![0; encap.len()];
    // The vector has the length that the header asks for, so that there is nothing to fail.
    let _ = encap.write(&mut frame);
    frame.extend_from_slice(payload);
    frame.resize(frame.len().max(LEAST), 0);
    frame
}
