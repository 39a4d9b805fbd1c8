//! MSS clamping: the maximum segment size in SYNs of users is bounded as their instances say.

use packet::tuple::proto;
use packet::{Fragment, IpTuple};

use super::arrival::Arrival;
use super::session::Session;
use super::verdict::Outcome;
use crate::network::{InstanceId, Mss};

/// The flag SYN, and the options that are looked at.
const SYN: u8 = 0x02;
const END: u8 = 0;
const NOP: u8 = 1;
const SIZE: u8 = 2;

/// Lowers the maximum segment size in a packet that is forwarded, if it has one.
pub(super) fn clamp(
    session: Session<'_>,
    ingress: InstanceId,
    arrival: &Arrival<'_>,
    tuple: &IpTuple,
    outcome: &mut Outcome,
) {
    let (bytes, egress) = match outcome {
        Outcome::Forwarded { bytes, egress, .. } => (bytes, *egress),
        Outcome::Recirculated {
            bytes,
            ingress,
            is_answer: false,
            ..
        } => (bytes, *ingress),
        Outcome::Recirculated { .. } | Outcome::Consumed | Outcome::Dropped(_) => return,
    };
    let to_group = tuple.addrs.has_unforwardable_destination();
    if tuple.proto != proto::TCP || tuple.fragment == Fragment::Later || to_group {
        return;
    }
    let start = bytes.len().saturating_sub(tuple.total_len.into());
    let came_in = match arrival {
        Arrival::Tunnel(tunnel) => tunnel.headers,
        Arrival::Plain { .. } => 0,
    };
    let sides = [(ingress, came_in), (egress, start)];
    if let Some(most) = largest_segment(session, sides, tuple.addrs.is_v4()) {
        clamp_to(&mut bytes[start + usize::from(tuple.l4_offset)..], most);
    }
}

/// What the instances of both sides allow, with this number of octets of headers before users' packets.
fn largest_segment(session: Session<'_>, sides: [(InstanceId, usize); 2], is_v4: bool) -> Option<u16> {
    let instance = |id| session.network.instance(id);
    let said: Vec<Mss> = sides
        .iter()
        .filter_map(|&(id, _)| Some(instance(id)?.mss))
        .collect();
    let mut limits: Vec<i64> = said
        .iter()
        .filter_map(|mss| match mss {
            Mss::AtMost(octets) => Some(i64::from(*octets)),
            _ => None,
        })
        .collect();
    if said.contains(&Mss::Auto) {
        for (id, headers) in sides {
            let mtu = i64::from(instance(id)?.mtu);
            let least_headers = if is_v4 { 40 } else { 60 };
            limits.push((mtu - headers as i64 - least_headers).max(536));
        }
    }
    limits.into_iter().min().map(|most| most as u16)
}

/// Lowers the MSS of a segment with SYN, all of whose options can be read.
fn clamp_to(segment: &mut [u8], most: u16) {
    let Some(end) = segment.get(12).map(|offset| usize::from(offset >> 4) * 4) else {
        return;
    };
    if segment[12..].get(1).is_none_or(|flags| flags & SYN == 0) || end < 20 || end > segment.len() {
        return;
    }
    let Some(sizes) = sizes(&segment[..end]) else {
        return;
    };
    for at in sizes {
        let told = u16::from_be_bytes([segment[at], segment[at + 1]]);
        if told > most {
            for (at, octet) in [at, at + 1].into_iter().zip(most.to_be_bytes()) {
                write(segment, at, octet);
            }
        }
    }
}

/// The places of the sizes; `None` when an option has no right length.
fn sizes(header: &[u8]) -> Option<Vec<usize>> {
    let (mut at, mut found) = (20, Vec::new());
    while at < header.len() {
        match header[at] {
            END => break,
            NOP => at += 1,
            kind => {
                let len = usize::from(*header.get(at + 1)?);
                if len < 2 || at + len > header.len() || (kind == SIZE && len != 4) {
                    return None;
                }
                if kind == SIZE {
                    found.push(at + 2);
                }
                at += len;
            }
        }
    }
    Some(found)
}

/// Writes an octet, and what that does to the checksum: HC' = ~(~HC + ~m + m') (RFC 1624 §3).
fn write(segment: &mut [u8], at: usize, octet: u8) {
    let word = |segment: &[u8], at: usize| u32::from(u16::from_be_bytes([segment[at], segment[at + 1]]));
    let even = at & !1;
    let (sum, old) = (word(segment, 16), word(segment, even));
    segment[at] = octet;
    let mut total = (!sum & 0xffff) + (!old & 0xffff) + word(segment, even);
    while total > 0xffff {
        total = (total & 0xffff) + (total >> 16);
    }
    segment[16..18].copy_from_slice(&(!total as u16).to_be_bytes());
}
