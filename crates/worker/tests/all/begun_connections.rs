//! The connections that a UE has begun, as RFC 4787 and RFC 6092 tell them: every packet of the UE is remembered, for
//! ever, and each packet to it is compared with all of them.

use std::net::IpAddr;

use flow::Direction;
use packet::{DropReason, Fragment, IpTuple};
use rules::model::{AccessAction, Filtering};
use rules::reference_interpreter::{EvaluatedAccess, Outcome, Verdict};

/// What the UE has sent.
#[derive(Default)]
pub struct BegunConnections {
    sent: Vec<IpTuple>,
    /// Packets to the UE that belonged to one.
    pub solicited: u64,
    /// Packets that belonged to none.
    pub unsolicited: u64,
}

impl BegunConnections {
    /// A packet was interpreted.
    pub fn note(&mut self, access: &EvaluatedAccess<'_>, packet: &[u8], verdict: &Verdict) {
        let asks = access
            .list
            .rules()
            .any(|(_, rule)| rule.action == AccessAction::Solicited);
        let is_refused = matches!(
            verdict.outcome,
            Outcome::Dropped(
                DropReason::UnknownTeid
                    | DropReason::AccessList
                    | DropReason::NoMatchingPdr
                    | DropReason::SpoofedSource
                    | DropReason::MartianDestination
            )
        );
        if access.direction == Direction::Uplink && asks && !is_refused {
            let begins = match icmp_type(access, packet) {
                None => !answers_only(access, packet),
                Some((1, kind)) => kind == 8 || kind == 13,
                Some((_, kind)) => kind == 128,
            };
            self.sent.extend(begins.then_some(access.tuple));
        }
        if access.is_plain && access.rule.action == AccessAction::Solicited {
            let is_denied = matches!(verdict.outcome, Outcome::Dropped(DropReason::AccessList));
            *if is_denied {
                &mut self.unsolicited
            } else {
                &mut self.solicited
            } += 1;
        }
    }

    /// Whether a packet belongs to one of them.
    pub fn have(&self, access: &EvaluatedAccess<'_>, packet: &[u8]) -> bool {
        let tuple = &access.tuple;
        let filtering = access
            .list
            .connections()
            .map(|policy| policy.filtering)
            .unwrap_or_default();
        match icmp_type(access, packet) {
            None => self.sent.iter().any(|sent| answers(sent, tuple, filtering)),
            Some((1, 0 | 14) | (58, 129)) => self.sent.iter().any(|sent| answers(sent, tuple, filtering)),
            Some((1, 3 | 11 | 12) | (58, 1..=4)) => {
                let message = &packet[usize::from(tuple.l4_offset)..usize::from(tuple.total_len)];
                let about = message
                    .get(8..)
                    .and_then(|quoted| IpTuple::parse(quoted, 65_535).ok());
                about.is_some_and(|about| {
                    about.fragment != Fragment::Later
                        && about.addrs.src() == tuple.addrs.dst()
                        && self
                            .sent
                            .iter()
                            .any(|sent| answers(sent, &about.reversed(), filtering))
                })
            }
            Some(_) => false,
        }
    }
}

/// Whether a packet belongs to the connection of what the UE has sent.
fn answers(sent: &IpTuple, answer: &IpTuple, filtering: Filtering) -> bool {
    let end = |address: IpAddr, port: u16| (address, port);
    let is_same_ue = sent.proto == answer.proto
        && end(sent.addrs.src(), sent.src_port) == end(answer.addrs.dst(), answer.dst_port);
    let is_same_address = sent.addrs.dst() == answer.addrs.src();
    let has_ports = matches!(sent.proto, 6 | 17 | 33 | 132 | 136);
    is_same_ue
        && match filtering {
            Filtering::EndpointIndependent => is_same_address || has_ports,
            Filtering::AddressDependent => is_same_address,
            Filtering::AddressAndPortDependent => is_same_address && sent.dst_port == answer.src_port,
        }
}

/// An octet of the user packet behind its IP header.
fn octet(access: &EvaluatedAccess<'_>, packet: &[u8], at: usize) -> Option<u8> {
    let outer = IpTuple::parse(packet, packet.len()).ok()?;
    // In a tunnel it is the end of what is there.
    let user = usize::from(outer.total_len).checked_sub(usize::from(access.tuple.total_len))?;
    packet
        .get(user + usize::from(access.tuple.l4_offset) + at)
        .copied()
}

/// Whether a packet is a segment with RST or FIN, or with SYN and ACK.
fn answers_only(access: &EvaluatedAccess<'_>, packet: &[u8]) -> bool {
    let is_tcp = access.tuple.proto == 6 && access.tuple.fragment != Fragment::Later;
    let flags = octet(access, packet, 13).filter(|_| is_tcp).unwrap_or_default();
    match flags & 2 {
        0 => flags & 5 != 0,
        _ => flags & 16 != 0,
    }
}

/// Protocol and type of an ICMP message of the packet's IP version. What follows a first fragment is taken for an
/// answer.
fn icmp_type(access: &EvaluatedAccess<'_>, packet: &[u8]) -> Option<(u8, u8)> {
    let tuple = &access.tuple;
    let is_icmp = matches!((tuple.proto, tuple.addrs.is_v4()), (1, true) | (58, false));
    if !is_icmp {
        return None;
    }
    if tuple.fragment == Fragment::Later {
        return Some((tuple.proto, if tuple.proto == 1 { 0 } else { 129 }));
    }
    Some((tuple.proto, octet(access, packet, 0)?))
}
