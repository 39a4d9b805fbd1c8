//! The rewrite that a NAT makes of ICMP errors (RFC 5508 §4, RFC 4787 REQ-12, RFC 5382 REQ-10): of the packet that
//! carries the error, of the packet that the error quotes, and of all checksums by what the change adds to them
//! (RFC 1624).
//!
//! An error goes to the sender of the packet that it quotes. So where the destination of the error becomes an inside
//! address the source of the quoted packet does, and where the source of the error becomes a public address the
//! destination of the quoted packet does.
//!
//! Left alone: ICMP extensions behind the quoted packet (RFC 4884), and errors that quote an error. Not translated:
//! Source Quench, which no host heeds (RFC 6633 §3), and Redirect, which is for one link (RFC 1812 §5.2.7.2).

use crate::rewrite::Ends;
use crate::tuple::proto;
use crate::{DropReason, checksum, icmp, ipv4};

/// Octets of its transport header that an error has to quote (RFC 792).
const LEAST: usize = 8;

/// What an ICMP error says of the packet that it is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quoted {
    /// Addresses and ports, as the quoted packet has them. The identifier of an ICMP echo request or reply is both
    /// ports: it is the port of whichever end is translated (RFC 3022 §2.2).
    pub ends: Ends,
    /// Its protocol: one with ports, or ICMP.
    pub protocol: u8,
}

/// What becomes of the packet that carries an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outer {
    /// The error comes from outside: its destination becomes this inside address.
    Destination([u8; 4]),
    /// The error comes from inside: its source becomes this public address, which is that of the mapping, or any of
    /// the NAT's where a router behind the UE sent it (RFC 5508 REQ-5).
    Source([u8; 4]),
}

/// An address and a port of the quoted packet; of an ICMP echo the port is the identifier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Address.
    pub address: [u8; 4],
    /// Port or identifier.
    pub port: u16,
}

/// What the ICMP error in the IPv4 packet that `packet` starts with quotes.
///
/// `None` where there is no error: other packets, fragments behind the first, and types that are not translated; where
/// the quoted packet is a fragment behind the first, ends before 8 octets of its transport header, or has neither ports
/// nor the identifier of an echo, as another ICMP error; and where a header's form is wrong.
///
/// No checksum is verified: [`is_intact`] does that.
pub fn quoted(packet: &[u8]) -> Option<Quoted> {
    let places = Places::of(packet).ok()?;
    let header = packet
        .get(places.quoted..)?
        .first_chunk::<{ ipv4::HEADER_LEN }>()?;
    let transport = packet.get(places.transport..)?.first_chunk::<LEAST>()?;
    let word = |at: usize| u16::from_be_bytes([transport[at], transport[at + 1]]);
    let ports = if header[9] == proto::ICMP {
        [word(4); 2]
    } else {
        [word(0), word(2)]
    };
    Some(Quoted {
        ends: Ends {
            source: [header[12], header[13], header[14], header[15]],
            destination: [header[16], header[17], header[18], header[19]],
            source_port: ports[0],
            destination_port: ports[1],
        },
        protocol: header[9],
    })
}

/// Whether the checksums are right that a NAT verifies of an error which [`quoted`] reads: that of the ICMP message,
/// all of which has to be in `packet`, and that of the quoted IPv4 header (RFC 5508 REQ-3). That of the quoted
/// transport is not to be verified.
pub fn is_intact(packet: &[u8]) -> bool {
    let Ok(places) = Places::of(packet) else {
        return false;
    };
    let len = packet
        .first_chunk::<4>()
        .map_or(0, |start| u16::from_be_bytes([start[2], start[3]]));
    let message = packet.get(places.message..usize::from(len));
    let header = packet.get(places.quoted..places.transport);
    message.is_some_and(checksum::is_right) && header.is_some_and(checksum::is_right)
}

/// Rewrites the ICMP error in the IPv4 packet that `packet` starts with. Of the quoted packet `embedded` becomes the
/// source where the destination of the error changes, and the destination where its source does. Checksums that were
/// wrong stay wrong; that of the quoted transport is updated where all of it is quoted and it covers what changes.
///
/// # Errors
/// [`TruncatedIpv4`](DropReason::TruncatedIpv4), [`BadIpv4Header`](DropReason::BadIpv4Header) and
/// [`BadIpLength`](DropReason::BadIpLength) for the outer header; [`TruncatedIcmp`](DropReason::TruncatedIcmp) when the
/// message ends before 8 octets of the quoted transport header; [`BadIcmp`](DropReason::BadIcmp) when what is quoted is
/// no IPv4 packet; [`UnsupportedAction`](DropReason::UnsupportedAction) for all else of which [`quoted`] gives none,
/// and when the port of SCTP is to change, whose CRC cannot be updated by a sum. The packet has not changed then.
pub fn rewrite_error(packet: &mut [u8], outer: Outer, embedded: Endpoint) -> Result<(), DropReason> {
    let places = Places::of(packet)?;
    let truncated = DropReason::TruncatedIcmp;
    let packet = packet.get_mut(..places.end).ok_or(truncated)?;
    let (ip, message) = packet.split_at_mut_checked(places.message).ok_or(truncated)?;
    let (message, quoted) = message
        .split_first_chunk_mut::<{ icmp::HEADER_LEN }>()
        .ok_or(truncated)?;
    let (header, transport) = quoted
        .split_at_mut_checked(places.transport - places.quoted)
        .ok_or(truncated)?;
    let ip = ip.first_chunk_mut::<{ ipv4::HEADER_LEN }>().ok_or(truncated)?;
    let header = header
        .first_chunk_mut::<{ ipv4::HEADER_LEN }>()
        .ok_or(truncated)?;

    let (end, address) = match outer {
        Outer::Destination(address) => (End::Source, address),
        Outer::Source(address) => (End::Destination, address),
    };
    // The quoted transport first: it is what can be refused.
    let adds = end.adds(header, embedded.address);
    let in_transport = set_port(transport, header[9], end, embedded.port, adds)?;
    let in_header = set_address(header, end, embedded.address, adds);
    let adds = end.other().adds(ip, address);
    set_address(ip, end.other(), address, adds);
    update(message, 2, checksum::both_add(in_transport, in_header));
    Ok(())
}

/// Where the headers of an error begin, in octets from the start of its packet. All are in the packet: the quoted IPv4
/// header whole, and [`LEAST`] octets behind it.
struct Places {
    /// The ICMP header.
    message: usize,
    /// The quoted IPv4 header.
    quoted: usize,
    /// The quoted transport header.
    transport: usize,
    /// The end of the quoted packet, as far as it is there.
    end: usize,
}

impl Places {
    /// Those of an error whose quoted packet has what a NAT finds a mapping by; see [`rewrite_error`] for the errors.
    fn of(packet: &[u8]) -> Result<Self, DropReason> {
        let outer = Header::read(packet).ok_or(DropReason::TruncatedIpv4)?;
        let message = ipv4::header_len(outer.version_ihl)?;
        if outer.protocol != proto::ICMP || outer.is_later_fragment {
            return Err(DropReason::UnsupportedAction);
        }
        if outer.total_len < message {
            return Err(DropReason::BadIpLength);
        }
        let packet = packet
            .get(..outer.total_len.min(packet.len()))
            .unwrap_or_default();
        let kind = packet.get(message).ok_or(DropReason::TruncatedIcmp)?;
        if !is_translated(*kind) {
            return Err(DropReason::UnsupportedAction);
        }
        let quoted = message + icmp::HEADER_LEN;
        let rest = packet.get(quoted..).ok_or(DropReason::TruncatedIcmp)?;
        let (len, end) = quoted_transport(rest)?;
        Ok(Self {
            message,
            quoted,
            transport: quoted + len,
            end: quoted + end,
        })
    }
}

/// Octets of the IPv4 header that `packet` starts with, and of the packet without what is behind it.
fn quoted_transport(packet: &[u8]) -> Result<(usize, usize), DropReason> {
    let header = Header::read(packet).ok_or(DropReason::TruncatedIcmp)?;
    let len = ipv4::header_len(header.version_ihl).map_err(|_| DropReason::BadIcmp)?;
    // Padding and extensions may follow (RFC 4884 §5).
    let end = packet.len().min(header.total_len);
    let transport = packet
        .get(len..end)
        .filter(|transport| transport.len() >= LEAST)
        .ok_or(DropReason::TruncatedIcmp)?;
    let is_known = match header.protocol {
        proto::ICMP => matches!(
            transport.first(),
            Some(&(icmp::v4_type::ECHO_REQUEST | icmp::v4_type::ECHO_REPLY))
        ),
        proto::TCP | proto::UDP | proto::UDP_LITE | proto::DCCP | proto::SCTP => true,
        _ => false,
    };
    if header.is_later_fragment || !is_known {
        return Err(DropReason::UnsupportedAction);
    }
    Ok((len, end))
}

/// Whether errors of this type are translated.
fn is_translated(kind: u8) -> bool {
    use icmp::v4_type::{PARAMETER_PROBLEM, TIME_EXCEEDED, UNREACHABLE};
    matches!(kind, UNREACHABLE | TIME_EXCEEDED | PARAMETER_PROBLEM)
}

/// What is read of an IPv4 header here.
struct Header {
    version_ihl: u8,
    total_len: usize,
    is_later_fragment: bool,
    protocol: u8,
}

impl Header {
    fn read(packet: &[u8]) -> Option<Self> {
        let header = packet.first_chunk::<{ ipv4::HEADER_LEN }>()?;
        Some(Self {
            version_ihl: header[0],
            total_len: u16::from_be_bytes([header[2], header[3]]).into(),
            is_later_fragment: u16::from_be_bytes([header[6], header[7]]) & ipv4::FRAGMENT_OFFSET != 0,
            protocol: header[9],
        })
    }
}

/// An end of a packet.
#[derive(Clone, Copy)]
enum End {
    Source,
    Destination,
}

impl End {
    fn other(self) -> Self {
        match self {
            End::Source => End::Destination,
            End::Destination => End::Source,
        }
    }

    /// The octet of an IPv4 header at which its address begins.
    fn address_at(self) -> usize {
        match self {
            End::Source => 12,
            End::Destination => 16,
        }
    }

    /// The octet of a transport header at which its port begins.
    fn port_at(self) -> usize {
        match self {
            End::Source => 0,
            End::Destination => 2,
        }
    }

    /// What a new address adds to a sum that covers the one in the header.
    fn adds(self, header: &[u8; ipv4::HEADER_LEN], new: [u8; 4]) -> u16 {
        let at = self.address_at();
        let old = [header[at], header[at + 1], header[at + 2], header[at + 3]];
        checksum::u32_adds(u32::from_be_bytes(old), u32::from_be_bytes(new))
    }
}

/// Gives a header another address, which `adds` to its sum; returns what all of that adds to a sum that covers the
/// header.
fn set_address(header: &mut [u8; ipv4::HEADER_LEN], end: End, address: [u8; 4], adds: u16) -> u16 {
    let at = end.address_at();
    header[at..at + 4].copy_from_slice(&address);
    checksum::both_add(adds, update(header, 10, adds))
}

/// Gives the quoted transport header another port, and its checksum what that and the address add, where all of it is
/// quoted; returns what all of that adds to a sum that covers the header.
fn set_port(header: &mut [u8], protocol: u8, end: End, port: u16, addresses: u16) -> Result<u16, DropReason> {
    let (start, _) = header
        .split_first_chunk_mut::<LEAST>()
        .ok_or(DropReason::TruncatedIcmp)?;
    let at = if protocol == proto::ICMP { 4 } else { end.port_at() };
    let old = u16::from_be_bytes([start[at], start[at + 1]]);
    if protocol == proto::SCTP {
        return if old == port {
            Ok(0)
        } else {
            Err(DropReason::UnsupportedAction)
        };
    }
    [start[at], start[at + 1]] = port.to_be_bytes();
    let adds = checksum::word_adds(old, port);
    let summed = match protocol {
        // It covers no address.
        proto::ICMP => update(start, 2, adds),
        proto::TCP => header.first_chunk_mut::<18>().map_or(0, |header| {
            update(header, 16, checksum::both_add(adds, addresses))
        }),
        proto::DCCP => update(start, 6, checksum::both_add(adds, addresses)),
        _ => update_of_udp(start, checksum::both_add(adds, addresses)),
    };
    Ok(checksum::both_add(adds, summed))
}

/// Updates the checksum at an even octet by what is added to what it covers; returns what that adds to a sum that
/// covers the checksum.
fn update<const LEN: usize>(octets: &mut [u8; LEN], at: usize, adds: u16) -> u16 {
    let before = u16::from_be_bytes([octets[at], octets[at + 1]]);
    let after = checksum::update_by(before, adds);
    [octets[at], octets[at + 1]] = after.to_be_bytes();
    checksum::word_adds(before, after)
}

/// The same of UDP and UDP-Lite, where 0 means that there is none (RFC 768, RFC 3828 §3.1).
fn update_of_udp(header: &mut [u8; LEAST], adds: u16) -> u16 {
    let before = u16::from_be_bytes([header[6], header[7]]);
    if before == 0 {
        return 0;
    }
    let after = match checksum::update_by(before, adds) {
        0 => 0xffff,
        after => after,
    };
    [header[6], header[7]] = after.to_be_bytes();
    checksum::word_adds(before, after)
}
