//! Replies to packets for own addresses, written over the packet: ARP, Neighbour Discovery, ICMP echo.
//!
//! Stateless: the worker that received the packet owns the buffer and sends it back by the port it came from. Each
//! function checks what it reads; after `None` or an error the packet has to be dropped. The link layer address that a
//! packet reports is returned for [`Neighbours`](crate::Neighbours), which decides whether to use it.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use packet::checksum::{self, Sum};
use packet::tuple::proto;
use packet::{DropReason, MacAddr, PacketBuf};

use crate::{NeighbourMessage, solicit};

/// Octets of an ARP packet for IPv4 over Ethernet.
const ARP_LEN: usize = 28;
const ARP_REQUEST: u16 = 1;
const ARP_REPLY: u16 = 2;
const ECHO_REQUEST: u8 = 8;
const ECHO_REPLY: u8 = 0;
const ECHO_REQUEST_V6: u8 = 128;
const ECHO_REPLY_V6: u8 = 129;
/// The ICMPv6 type of a Neighbour Solicitation (RFC 4861 §4.3).
pub const NEIGHBOUR_SOLICITATION: u8 = 135;
const NEIGHBOUR_ADVERTISEMENT: u8 = 136;
const SOURCE_LINK_LAYER_ADDRESS: u8 = 1;
const TARGET_LINK_LAYER_ADDRESS: u8 = 2;
/// The hop limit that shows that no router forwarded a discovery message (RFC 4861 §7.1).
const ON_LINK: u8 = 255;
/// The hop limit and TTL of our own packets.
const TTL: u8 = 64;
const IPV6_HEADER: usize = 40;

/// The neighbour that a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NeighbourReport {
    /// Its address.
    pub address: IpAddr,
    /// Its link layer address.
    pub mac: MacAddr,
    /// The kind of message.
    pub message: NeighbourMessage,
}

/// The own IPv6 address of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OwnIpv6 {
    /// The address.
    pub address: Ipv6Addr,
    /// Its link layer address.
    pub mac: MacAddr,
    /// Whether it is in use; a tentative address or a duplicate is not (RFC 4862 §5.4).
    pub is_usable: bool,
}

/// The outcome of an ARP or discovery message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// Whether the frame is now the reply, to be sent back by the port it came from.
    pub is_reply: bool,
    /// The neighbour that it names.
    pub report: Option<NeighbourReport>,
}

impl Outcome {
    /// Another station claims an own address.
    fn claim(address: IpAddr, mac: MacAddr) -> Self {
        Self {
            is_reply: false,
            report: Some(NeighbourReport {
                address,
                mac,
                message: NeighbourMessage::Claim,
            }),
        }
    }
}

/// Handles the ARP packet at octet `l3` of `frame` (RFC 826). A request for `ours` becomes the reply. Another station
/// that sends from `ours` is reported as [`NeighbourMessage::Claim`] (RFC 5227 §2.4).
///
/// # Errors
/// [`DropReason::TruncatedArp`], [`DropReason::BadArp`] (also for a sender that is a group, or that has our own MAC
/// address), [`DropReason::NotForUs`].
pub fn arp(frame: &mut [u8], l3: usize, ours: Ipv4Addr, mac: MacAddr) -> Result<Outcome, DropReason> {
    let arp = frame
        .get_mut(l3..)
        .and_then(|arp| arp.first_chunk_mut::<ARP_LEN>());
    let arp = arp.ok_or(DropReason::TruncatedArp)?;
    let [h0, h1, p0, p1, h_len, p_len, op0, op1, ..] = *arp;
    let sender = MacAddr([arp[8], arp[9], arp[10], arp[11], arp[12], arp[13]]);
    let from = Ipv4Addr::new(arp[14], arp[15], arp[16], arp[17]);
    let about = Ipv4Addr::new(arp[24], arp[25], arp[26], arp[27]);
    if [h0, h1, p0, p1, h_len, p_len] != [0, 1, 8, 0, 6, 4] || !sender.is_station() || sender == mac {
        return Err(DropReason::BadArp);
    }
    let operation = u16::from_be_bytes([op0, op1]);
    let message = match operation {
        ARP_REPLY if about == ours => NeighbourMessage::Reply,
        ARP_REQUEST if about == ours => NeighbourMessage::Request,
        ARP_REQUEST | ARP_REPLY => NeighbourMessage::Announcement,
        _ => return Err(DropReason::BadArp),
    };
    if from == ours {
        return Ok(Outcome::claim(ours.into(), sender));
    }
    let probe = from.is_unspecified();
    let report = (!probe).then_some(NeighbourReport {
        address: from.into(),
        mac: sender,
        message,
    });
    if operation != ARP_REQUEST || about != ours {
        let told = report.filter(|_| message == NeighbourMessage::Reply || from == about);
        return if told.is_some() {
            Ok(Outcome {
                is_reply: false,
                report: told,
            })
        } else {
            Err(DropReason::NotForUs)
        };
    }
    arp[6..8].copy_from_slice(&ARP_REPLY.to_be_bytes());
    arp[18..24].copy_from_slice(&sender.0);
    arp[24..28].copy_from_slice(&from.octets());
    arp[8..14].copy_from_slice(&mac.0);
    arp[14..18].copy_from_slice(&ours.octets());
    turn_round(frame, sender, mac)?;
    Ok(Outcome {
        is_reply: true,
        report,
    })
}

/// Makes the echo request for one of our IPv4 addresses at octet `l3`, whose ICMP header is at `l4`, the reply
/// (RFC 792).
///
/// # Errors
/// [`DropReason::TruncatedIcmp`]; [`DropReason::NotForUs`] for other ICMP messages.
pub fn echo_v4(frame: &mut [u8], l3: usize, l4: usize, mac: MacAddr) -> Result<(), DropReason> {
    swap_icmp_type(frame, l4, ECHO_REQUEST, ECHO_REPLY)?;
    let ip = frame
        .get_mut(l3..l4)
        .filter(|ip| ip.len() >= 20)
        .ok_or(DropReason::TruncatedIpv4)?;
    let (source, destination) = ip[12..20].split_at_mut(4);
    source.swap_with_slice(destination);
    ip[8] = TTL;
    ip[10..12].fill(0);
    let sum = checksum::of(ip);
    ip[10..12].copy_from_slice(&sum.to_be_bytes());
    send_back(frame, mac)
}

/// Makes the echo request for one of our IPv6 addresses at octet `l3`, whose ICMPv6 header is at `l4`, the reply
/// (RFC 4443 §4.2).
///
/// # Errors
/// As [`echo_v4`].
pub fn echo_v6(frame: &mut [u8], l3: usize, l4: usize, mac: MacAddr) -> Result<(), DropReason> {
    swap_icmp_type(frame, l4, ECHO_REQUEST_V6, ECHO_REPLY_V6)?;
    let ip = frame
        .get_mut(l3..)
        .filter(|ip| ip.len() >= IPV6_HEADER)
        .ok_or(DropReason::TruncatedIpv6)?;
    let (source, destination) = ip[8..40].split_at_mut(16);
    source.swap_with_slice(destination);
    ip[7] = TTL;
    send_back(frame, mac)
}

/// Whether an ICMPv6 message of this type belongs to Neighbour Discovery.
pub fn is_discovery(kind: u8) -> bool {
    (133..=137).contains(&kind)
}

/// Handles the discovery message whose IPv6 header is at octet `l3` and whose ICMPv6 header is at `l4` (RFC 4861 §7). A
/// solicitation for the own address becomes the advertisement, if the address is usable. A probe for an address that is
/// not, and an advertisement of the own address, by another station, are reported as [`NeighbourMessage::Claim`] (RFC
/// 4862 §5.4.3, §5.4.4).
///
/// # Errors
/// [`DropReason::NotForUs`] for a message about another address, or that was not sent on the link,
/// [`DropReason::TruncatedIcmp`] also for a wrong checksum, [`DropReason::BadIcmp`] for an option of length 0 or beyond
/// the message, and for a probe that is invalid by RFC 4861 §7.1.1.
pub fn discovery<B: PacketBuf>(
    buf: &mut B,
    l3: usize,
    l4: usize,
    own: OwnIpv6,
) -> Result<Outcome, DropReason> {
    let ours = own.address;
    let frame = buf.data();
    let ip = frame
        .get(l3..)
        .and_then(|ip| ip.first_chunk::<IPV6_HEADER>())
        .ok_or(DropReason::TruncatedIpv6)?;
    let (source, destination, end) = (address(ip, 8), address(ip, 24), end_of(ip, l3));
    let message = frame
        .get(l4..end)
        .filter(|message| message.len() >= 24)
        .ok_or(DropReason::TruncatedIcmp)?;
    if ip[7] != ON_LINK || message[1] != 0 {
        return Err(DropReason::NotForUs);
    }
    let sum = Sum::default().pseudo_v6(
        source.octets(),
        destination.octets(),
        proto::ICMPV6,
        message.len() as u16,
    );
    if sum.bytes(message).folded() != 0xffff {
        return Err(DropReason::TruncatedIcmp);
    }
    if !matches!(message[0], NEIGHBOUR_SOLICITATION | NEIGHBOUR_ADVERTISEMENT) {
        return Err(DropReason::NotForUs);
    }
    let options = DiscoveryOptions::parse(message)?;
    let target = address(message, 8);
    match message[0] {
        NEIGHBOUR_SOLICITATION if target == ours && source.is_unspecified() => {
            if destination != solicit::solicited_node(ours) || options.has(SOURCE_LINK_LAYER_ADDRESS) {
                return Err(DropReason::BadIcmp);
            }
            let sender = source_mac(frame).filter(|sender| *sender != own.mac);
            let Some(sender) = sender.filter(|_| !own.is_usable) else {
                let is_reply = sender.is_some();
                if is_reply {
                    advertise(buf, l3, l4, ours, own.mac)?;
                }
                return Ok(Outcome {
                    is_reply,
                    report: None,
                });
            };
            Ok(Outcome::claim(ours.into(), sender))
        }
        NEIGHBOUR_SOLICITATION if target == ours && !own.is_usable => Ok(Outcome {
            is_reply: false,
            report: None,
        }),
        NEIGHBOUR_SOLICITATION if target == ours && source != ours => {
            let sender = options.link_layer_address(SOURCE_LINK_LAYER_ADDRESS);
            advertise(buf, l3, l4, ours, own.mac)?;
            let report = sender.map(|mac| NeighbourReport {
                address: source.into(),
                mac,
                message: NeighbourMessage::Request,
            });
            Ok(Outcome {
                is_reply: true,
                report,
            })
        }
        NEIGHBOUR_ADVERTISEMENT => advertised(frame, message, options, destination, own),
        _ => Err(DropReason::NotForUs),
    }
}

/// What a neighbour advertisement reports of its target.
fn advertised(
    frame: &[u8],
    message: &[u8],
    options: DiscoveryOptions<'_>,
    destination: Ipv6Addr,
    own: OwnIpv6,
) -> Result<Outcome, DropReason> {
    let target = address(message, 8);
    let mac = options
        .link_layer_address(TARGET_LINK_LAYER_ADDRESS)
        .or_else(|| source_mac(frame))
        .ok_or(DropReason::NotForUs)?;
    if target == own.address {
        let is_looped_back = mac == own.mac || source_mac(frame) == Some(own.mac);
        return match is_looped_back {
            true => Err(DropReason::NotForUs),
            false => Ok(Outcome::claim(target.into(), mac)),
        };
    }
    let solicited = message[4] & 0x40 != 0 && destination == own.address;
    let message = if solicited {
        NeighbourMessage::Reply
    } else {
        NeighbourMessage::Announcement
    };
    Ok(Outcome {
        is_reply: false,
        report: Some(NeighbourReport {
            address: target.into(),
            mac,
            message,
        }),
    })
}

/// Whether `group` is one in which the owner of `ours` receives solicitations: its solicited-node group or all nodes.
pub fn listens_to(ours: Ipv6Addr, group: Ipv6Addr) -> bool {
    group == solicit::solicited_node(ours) || group == Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1)
}

/// Writes the advertisement of `ours` over the solicitation (RFC 4861 §7.2.4).
fn advertise<B: PacketBuf>(
    buf: &mut B,
    l3: usize,
    l4: usize,
    ours: Ipv6Addr,
    mac: MacAddr,
) -> Result<(), DropReason> {
    /// Solicited and override.
    const FLAGS: u8 = 0x60;
    const LEN: usize = 32;
    // The reply has no extension header.
    let (_, whole) = (l4, l3 + IPV6_HEADER + LEN);
    resize(buf, whole)?;
    let frame = buf.data_mut();
    let solicitor = source_mac(frame).ok_or(DropReason::NotForUs)?;
    let packet = frame.get_mut(l3..whole).ok_or(DropReason::TruncatedIpv6)?;
    let source = address(packet, 8);
    // Duplicate Address Detection solicits from `::`: the advertisement goes to all nodes.
    let all_nodes = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);
    let (to, flags) = if source.is_unspecified() {
        (all_nodes, FLAGS & 0x20)
    } else {
        (source, FLAGS)
    };
    packet[4..8].copy_from_slice(&[0, LEN as u8, proto::ICMPV6, ON_LINK]);
    packet[8..24].copy_from_slice(&ours.octets());
    packet[24..40].copy_from_slice(&to.octets());
    let message = &mut packet[IPV6_HEADER..];
    message[..8].copy_from_slice(&[NEIGHBOUR_ADVERTISEMENT, 0, 0, 0, flags, 0, 0, 0]);
    message[8..24].copy_from_slice(&ours.octets());
    message[24..26].copy_from_slice(&[2, 1]);
    message[26..32].copy_from_slice(&mac.0);
    let sum = Sum::default()
        .pseudo_v6(ours.octets(), to.octets(), proto::ICMPV6, LEN as u16)
        .bytes(message)
        .checksum();
    message[2..4].copy_from_slice(&sum.to_be_bytes());
    let station = if to == all_nodes {
        solicit::multicast_mac(all_nodes)
    } else {
        solicitor
    };
    turn_round(frame, station, mac)
}

/// Makes the packet `len` octets long.
fn resize<B: PacketBuf>(buf: &mut B, len: usize) -> Result<(), DropReason> {
    match len.checked_sub(buf.len()) {
        Some(more) if more > 0 => buf.append(more).map(|_| ()).ok_or(DropReason::NoHeadroom),
        _ if buf.truncate(len) => Ok(()),
        _ => Err(DropReason::NoHeadroom),
    }
}

/// Changes an ICMP type and the checksum with it; the message may be longer than its first part.
fn swap_icmp_type(frame: &mut [u8], l4: usize, from: u8, to: u8) -> Result<(), DropReason> {
    let icmp = frame
        .get_mut(l4..)
        .and_then(|icmp| icmp.first_chunk_mut::<8>())
        .ok_or(DropReason::TruncatedIcmp)?;
    if icmp[0] != from || icmp[1] != 0 {
        return Err(DropReason::NotForUs);
    }
    let sum = u16::from_be_bytes([icmp[2], icmp[3]]);
    let sum = checksum::update_word(sum, u16::from_be_bytes([from, 0]), u16::from_be_bytes([to, 0]));
    icmp[0] = to;
    icmp[2..4].copy_from_slice(&sum.to_be_bytes());
    Ok(())
}

/// Addresses the frame to the station it came from.
///
/// # Errors
/// [`DropReason::TruncatedEthernet`], [`DropReason::MartianSource`] when that is a group.
pub fn send_back(frame: &mut [u8], mac: MacAddr) -> Result<(), DropReason> {
    let from = source_mac(frame).ok_or(DropReason::MartianSource)?;
    turn_round(frame, from, mac)
}

fn turn_round(frame: &mut [u8], to: MacAddr, from: MacAddr) -> Result<(), DropReason> {
    let header = frame
        .first_chunk_mut::<12>()
        .ok_or(DropReason::TruncatedEthernet)?;
    header[..6].copy_from_slice(&to.0);
    header[6..].copy_from_slice(&from.0);
    Ok(())
}

/// The station that sent the frame, unless it is none.
fn source_mac(frame: &[u8]) -> Option<MacAddr> {
    let [_, _, _, _, _, _, mac @ ..] = *frame.first_chunk::<12>()?;
    Some(MacAddr(mac)).filter(|mac| mac.is_station())
}

/// The address at octet `at`; unspecified beyond the end.
fn address(bytes: &[u8], at: usize) -> Ipv6Addr {
    let octets = bytes.get(at..).and_then(|rest| rest.first_chunk::<16>());
    octets.map_or(Ipv6Addr::UNSPECIFIED, |octets| Ipv6Addr::from(*octets))
}

/// Where the packet ends whose header `ip` is at `l3`.
fn end_of(ip: &[u8; IPV6_HEADER], l3: usize) -> usize {
    l3 + IPV6_HEADER + usize::from(u16::from_be_bytes([ip[4], ip[5]]))
}

/// The options of a solicitation or advertisement (RFC 4861 §4.6), all of them whole.
#[derive(Clone, Copy)]
struct DiscoveryOptions<'a>(&'a [u8]);

impl<'a> DiscoveryOptions<'a> {
    /// Octets of a solicitation or advertisement before its options.
    const START: usize = 24;

    /// Reads the options of a message. A message with an option of length 0, or with one that exceeds it, is discarded
    /// as a whole (RFC 4861 §4.6, §7.1.1, §7.1.2).
    ///
    /// # Errors
    /// [`DropReason::BadIcmp`].
    fn parse(message: &'a [u8]) -> Result<Self, DropReason> {
        let options = Self(message.get(Self::START..).unwrap_or_default());
        let whole: usize = options.iter().map(<[u8]>::len).sum();
        (whole == options.0.len())
            .then_some(options)
            .ok_or(DropReason::BadIcmp)
    }

    /// The options with their type and length octet, up to the first one of a bad length.
    fn iter(self) -> impl Iterator<Item = &'a [u8]> {
        let mut rest = self.0;
        std::iter::from_fn(move || {
            let &[_, units, ..] = rest else { return None };
            let option;
            (option, rest) = rest
                .split_at_checked(usize::from(units) * 8)
                .filter(|_| units > 0)?;
            Some(option)
        })
    }

    /// Whether there is an option of this type.
    fn has(self, kind: u8) -> bool {
        self.iter().any(|option| option[0] == kind)
    }

    /// The station of the first link layer address option of this type (RFC 4861 §4.6.1).
    fn link_layer_address(self, kind: u8) -> Option<MacAddr> {
        let octets = self.iter().find_map(|option| match *option {
            [found, 1, ref octets @ ..] if found == kind => octets.try_into().ok(),
            _ => None,
        });
        octets.map(MacAddr).filter(|mac| mac.is_station())
    }
}

#[cfg(test)]
mod tests;
