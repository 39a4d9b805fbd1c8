//! The web server that redirects (TS 29.244 §5.4.7), written again in the words of its connections: who is how far.

use packet::build::packet as build;
use packet::tuple::proto;
use packet::{DropReason, Fragment, IpTuple, redirect, tcp};
use std::net::SocketAddr;

use super::detect::owns_address;
use super::session::Session;
use super::verdict::Outcome;
use crate::model::Redirect;
use crate::network::InstanceId;

/// What of the server's a client has had.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Had {
    /// Its SYN.
    Syn,
    /// Its FIN, and no response.
    Fin,
    /// So much of its response, and no FIN.
    Some(usize),
    /// All.
    All,
}

pub(super) fn leave_redirected(
    session: Session<'_>,
    ingress: InstanceId,
    to: &Redirect,
    client: &IpTuple,
    packet: &[u8],
) -> Result<Outcome, DropReason> {
    // Its answers are for itself.
    let home = session
        .network
        .instance(ingress)
        .ok_or(DropReason::NotRedirected)?;
    if !owns_address(session, home.vrf, client.addrs.src()) {
        return Err(DropReason::NotRedirected);
    }
    if client.proto != proto::TCP || client.fragment != Fragment::None {
        return Err(DropReason::NotRedirected);
    }
    let segment = &packet[client.l4_offset.into()..client.total_len.into()];
    let (header, length) = tcp::Header::parse(segment, segment.len())?;
    if !tcp::checksum_is_right(&client.addrs, segment) {
        return Err(DropReason::NotRedirected);
    }
    let start = redirect::initial_sequence(session.network.redirect_secret(), client);
    let (options, data) = (&segment[20..length], segment.len() - length);
    let said = if client.dst_port == 80 {
        converse(start, to.url(), header, options, data, client.addrs.is_v4())
    } else {
        reset_unless_reset(header, data)
    };
    let (sequence, acknowledges, flags, data) = said.ok_or(DropReason::NotRedirected)?;
    let ends = [
        SocketAddr::new(client.addrs.dst(), client.dst_port),
        SocketAddr::new(client.addrs.src(), client.src_port),
    ];
    let bytes = segment_of(ends, (sequence, acknowledges, flags), &data).ok_or(DropReason::TooBig)?;
    Ok(Outcome::Recirculated {
        bytes,
        ingress,
        mirror: None,
        is_answer: true,
    })
}

/// Sequence number, acknowledgement, flags and data.
type Said = (u32, u32, u8, Vec<u8>);

/// The number behind a segment.
fn end(seen: &tcp::Header, octets: usize) -> u32 {
    let has = |flag| u32::from(seen.flags & flag != 0);
    let numbers = octets as u32 + has(tcp::flags::SYN) + has(tcp::flags::FIN);
    seen.sequence.get().wrapping_add(numbers)
}

fn reset_unless_reset(seen: &tcp::Header, octets: usize) -> Option<Said> {
    use tcp::flags::{ACK, RST};
    match (seen.flags & RST != 0, seen.flags & ACK != 0) {
        (true, _) => None,
        (false, true) => Some((seen.acknowledgement.get(), 0, RST, Vec::new())),
        (false, false) => Some((0, end(seen, octets), RST | ACK, Vec::new())),
    }
}

/// The answer to a segment to the port of HTTP, with these options and this number of octets of data.
fn converse(
    start: u32,
    url: &str,
    seen: &tcp::Header,
    options: &[u8],
    octets: usize,
    is_v4: bool,
) -> Option<Said> {
    use tcp::flags::{ACK, FIN, PSH, RST, SYN};
    let has = |flag| seen.flags & flag != 0;
    if has(RST) || (has(SYN) && has(ACK)) {
        return reset_unless_reset(seen, octets);
    }
    if has(SYN) {
        let start = if largest(options, is_v4) < 1220 {
            start + (1 << 31)
        } else {
            start
        };
        return Some((start, seen.sequence.get().wrapping_add(1), SYN | ACK, Vec::new()));
    }
    if !has(ACK) {
        return None;
    }
    let response = format!(
        "HTTP/1.1 302 Found\r\nLocation: {url}\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n"
    );
    let at = seen.acknowledgement.get();
    // It began with `start`, or half of all numbers away from it.
    let is_long = at.wrapping_sub(start) < 1 << 31;
    let begun = if is_long { start } else { start + (1 << 31) };
    let had = match (at.wrapping_sub(begun) as usize).checked_sub(1) {
        Some(0) => Had::Syn,
        Some(1) if octets == 0 => Had::Fin,
        Some(some) if some <= response.len() => Had::Some(some),
        Some(all) if all == response.len() + 1 => Had::All,
        _ => return reset_unless_reset(seen, octets),
    };
    let next = end(seen, octets);
    let piece = |from: usize| {
        let rest = &response.as_bytes()[from..];
        let most = if is_long { 1220 } else { 536 };
        let flags = if rest.len() <= most { PSH | ACK | FIN } else { ACK };
        Some((at, next, flags, rest[..rest.len().min(most)].to_vec()))
    };
    match had {
        Had::Syn if octets > 0 => piece(0),
        Had::Syn if has(FIN) => Some((at, next, FIN | ACK, Vec::new())),
        Had::Fin if has(FIN) => Some((at, next, ACK, Vec::new())),
        Had::All if octets > 0 || has(FIN) => Some((at, next, ACK, Vec::new())),
        Had::Some(some) => piece(some),
        Had::Syn | Had::Fin | Had::All => None,
    }
}

/// The largest segment that a client takes which begins with these options.
fn largest(options: &[u8], is_v4: bool) -> u16 {
    let mut rest = options;
    loop {
        match *rest {
            [2, 4, high, low, ..] => return u16::from_be_bytes([high, low]),
            [1, ..] => rest = &rest[1..],
            [kind, length, ..] if kind != 0 && length > 1 && usize::from(length) <= rest.len() => {
                rest = &rest[length.into()..];
            }
            _ => return if is_v4 { 536 } else { 1220 },
        }
    }
}

fn segment_of([from, to]: [SocketAddr; 2], said: (u32, u32, u8), data: &[u8]) -> Option<Vec<u8>> {
    let (sequence, acknowledges, flags) = said;
    let mut segment = Vec::new();
    segment.extend(from.port().to_be_bytes());
    segment.extend(to.port().to_be_bytes());
    segment.extend(sequence.to_be_bytes());
    segment.extend(acknowledges.to_be_bytes());
    let opens = flags & tcp::flags::SYN != 0;
    segment.extend([if opens { 0x60 } else { 0x50 }, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(opens.then_some([2, 4, 0x04, 0xc4]).into_iter().flatten());
    segment.extend(data);
    let addrs = build::addrs(from.ip(), to.ip())?;
    tcp::fill_checksum(&addrs, &mut segment)?;
    let options = build::IpOptions {
        ttl: 64,
        id: 0,
        ..build::IpOptions::default()
    };
    let mut packet = build::ip(&addrs, proto::TCP, &options, &segment)?;
    if addrs.is_v4() {
        // Never in fragments.
        packet[6] = 0x40;
        packet[10..12].fill(0);
        let checksum = packet::checksum::of(&packet[..20]);
        packet[10..12].copy_from_slice(&checksum.to_be_bytes());
    }
    Some(packet)
}
