//! The frames of a capture: their packets, their PFCP messages, and packets as frames of an instance.

use super::super::capture::{Captured, ETHERNET, Reader};
use super::super::fields;
use super::super::replay::{Asked, Head};
use flow::{InstanceId, PortId};
use packet::eth::{L2, ether_type};
use packet::{IpFrame, MacAddr};
use rules::network::{Instance, Network};
use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use worker::TraceFilter;

pub(super) const PFCP: u16 = 8805;
/// Link layer addresses of next hops, which a capture need not have.
pub(super) const NEIGHBOUR: MacAddr = MacAddr([2, 0, 0x5e, 0, 0x53, 1]);
/// Frames at most.
const MOST_FRAMES: usize = 8_000_000;
/// Octets of the longest frame: an IP packet and its link layer.
pub(super) const LONGEST: usize = 65_535 + 64;

/// Why a capture cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OfflineError(pub(super) String);

impl OfflineError {
    pub(super) fn of(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

impl fmt::Display for OfflineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for OfflineError {}

/// What is replayed.
pub struct Capture<'a> {
    /// A capture.
    pub file: &'a [u8],
    /// Another one, of N4, if that was captured by itself.
    pub n4: Option<&'a [u8]>,
    /// The port that the first one's packets came in by; else the interfaces' names determine it, or the packets'
    /// addresses.
    pub port: Option<&'a str>,
    /// Which packets are reported.
    pub filter: TraceFilter,
}

/// The two ends of a PFCP message.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ends {
    /// The sender.
    pub(super) from: SocketAddr,
    /// The receiver.
    pub(super) to: SocketAddr,
}

/// A frame of a capture, with what its interface says.
pub(super) struct Frame<'a> {
    pub(super) time_ns: u64,
    pub(super) link: u16,
    pub(super) interface: Option<Arc<str>>,
    pub(super) captured: Captured<'a>,
}

pub(super) type Frames<'a> = (Vec<Frame<'a>>, Vec<String>);

/// The frames of both captures in the order of their times, and where they cannot be read on.
pub(super) fn read_all<'a>(capture: &Capture<'a>) -> Result<Frames<'a>, OfflineError> {
    let (mut frames, mut notes) = (Vec::new(), Vec::new());
    for (name, file) in [
        ("the capture", Some(capture.file)),
        ("the N4 capture", capture.n4),
    ] {
        let Some(file) = file else { continue };
        let mut reader = Reader::new(file).map_err(|error| OfflineError(format!("{name}: {error}")))?;
        loop {
            match reader.next() {
                Ok(Some(_)) if frames.len() == MOST_FRAMES => {
                    notes.push(format!("only the first {MOST_FRAMES} frames are looked at"));
                    break;
                }
                Ok(Some(captured)) => {
                    let interface = &reader.interfaces()[captured.interface];
                    frames.push(Frame {
                        time_ns: captured.time_ns,
                        link: interface.link,
                        interface: interface.name.clone(),
                        captured,
                    });
                }
                Ok(None) => break,
                Err(error) => {
                    notes.push(format!("{name} cannot be read on {error}"));
                    break;
                }
            }
        }
    }
    if capture.n4.is_some() {
        frames.sort_by_key(|frame| frame.time_ns);
    }
    Ok((frames, notes))
}

/// The IP packet of a frame: its octets, zeros where they were not kept, and the length of the link layer.
pub(super) fn packet_of(frame: &Frame<'_>) -> Option<Vec<u8>> {
    let octets = frame.captured.octets;
    let start = match frame.link {
        ETHERNET => {
            let l2 = L2::parse(octets).ok()?;
            let is_ip = l2.ether_type == ether_type::IPV4 || l2.ether_type == ether_type::IPV6;
            is_ip.then_some(usize::from(l2.len))?
        }
        // Linux "cooked", two versions.
        113 => 16,
        276 => 20,
        // BSD loopback.
        0 | 108 => 4,
        // Raw IP by all its numbers.
        12 | 14 | 101 | 228 | 229 => 0,
        _ => return None,
    };
    let mut packet = octets.get(start..)?.to_vec();
    matches!(packet.first()? >> 4, 4 | 6).then_some(())?;
    let wanted = frame.captured.len.min(LONGEST).saturating_sub(start);
    packet.resize(wanted.max(packet.len()), 0);
    Some(packet)
}

/// What a packet's headers say.
pub(super) fn read_ip(packet: &[u8]) -> Option<IpFrame> {
    let kind = match packet.first()? >> 4 {
        6 => ether_type::IPV6,
        _ => ether_type::IPV4,
    };
    let l2 = L2 {
        len: 0,
        ether_type: kind,
        vlan: None,
    };
    IpFrame::parse(packet, packet.len(), &l2).ok()
}

/// PFCP in a packet: who sent it to whom, and the message.
pub(super) fn pfcp_of(packet: &[u8]) -> Option<(Ends, &[u8])> {
    let ip = read_ip(packet)?;
    let tuple = &ip.tuple;
    if tuple.proto != packet::tuple::proto::UDP || (tuple.src_port != PFCP && tuple.dst_port != PFCP) {
        return None;
    }
    let message = packet.get(usize::from(tuple.l4_offset) + 8..usize::from(tuple.total_len))?;
    let from = SocketAddr::new(tuple.addrs.src(), tuple.src_port);
    let to = SocketAddr::new(tuple.addrs.dst(), tuple.dst_port);
    Some((Ends { from, to }, message))
}

/// Every PFCP response of the capture, by its request.
pub(super) fn answers_of(frames: &[Frame<'_>]) -> HashMap<Asked, Vec<u8>> {
    let mut answers = HashMap::new();
    let is_whole = |frame: &&Frame<'_>| frame.captured.octets.len() >= frame.captured.len;
    for packet in frames.iter().filter(is_whole).filter_map(packet_of) {
        let Some((ends, message)) = pfcp_of(&packet) else {
            continue;
        };
        if let Some(head) = Head::read(message)
            && let Some(request) = head.answered()
        {
            let asked = Asked {
                from: ends.to.ip(),
                kind: request,
                sequence: head.sequence,
            };
            answers.insert(asked, message.to_vec());
        }
    }
    answers
}

pub(super) fn our_mac(port: usize) -> MacAddr {
    MacAddr([2, 0, 0, 0, 0, port as u8 + 1])
}

/// A packet as it comes in by an instance.
pub(super) fn framed(instance: &Instance, packet: &[u8]) -> Vec<u8> {
    let kind = match packet.first().is_some_and(|first| first >> 4 == 6) {
        true => ether_type::IPV6,
        false => ether_type::IPV4,
    };
    let mut frame = our_mac(instance.port.index()).0.to_vec();
    frame.extend(NEIGHBOUR.0);
    if let Some(vlan) = instance.vlan {
        let (tags, len) = vlan.octets();
        frame.extend(&tags[..len]);
    }
    frame.extend(kind.to_be_bytes());
    frame.extend(packet);
    frame.resize(frame.len().max(60), 0);
    frame
}

/// The next hop that a frame of this node requests, if it is an ARP request or a Neighbour Solicitation.
pub(super) fn asked_for(network: &Network, port: PortId, frame: &[u8]) -> Option<(InstanceId, IpAddr)> {
    let l2 = L2::parse(frame).ok()?;
    let instance = fields::instance_at(network, port, l2.vlan)?;
    let body = frame.get(usize::from(l2.len)..)?;
    let address: IpAddr = match l2.ether_type {
        ether_type::ARP if body.get(6..8) == Some(&[0, 1]) => {
            let octets: [u8; 4] = *body.get(24..)?.first_chunk()?;
            octets.into()
        }
        ether_type::IPV6 if body.get(6) == Some(&58) && body.get(40) == Some(&135) => {
            let octets: [u8; 16] = *body.get(48..)?.first_chunk()?;
            octets.into()
        }
        _ => return None,
    };
    let is_own = network.local(address).is_some();
    (!is_own).then_some((instance.id, address))
}
