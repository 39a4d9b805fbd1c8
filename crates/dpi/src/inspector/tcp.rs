//! TCP: the start of the initiator's stream, which has a ClientHello or a request of HTTP.

use super::flow::{Flow, State};
use super::resources::{Outcome, Resources};
use crate::http1::{Body, Head, may_start_request, read_head};
use crate::reassembly::BLOCK_OCTETS;
use crate::tls;
use crate::verdict::{Found, PathStart, Protocol, Reason};

/// Looks at a segment of the initiator's.
pub(super) fn look(
    resources: &mut Resources,
    flow: &mut Flow,
    sequence: u32,
    has_syn: bool,
    payload: &[u8],
) -> Result<Outcome, Reason> {
    let Some((offset, piece)) = place_in_stream(flow, sequence, has_syn, payload)? else {
        return Ok(Outcome::Undecided);
    };
    let end = u16::try_from(offset + piece.len() as u64).unwrap_or(u16::MAX);
    flow.end = flow.end.max(end);
    // As nearly always, the message is in one segment and is read where it is.
    if offset == 0 && flow.block.is_none() {
        if let Some(found) = start_of(piece, &mut resources.scratch)? {
            return Ok(found_in(resources, flow, found, end));
        }
        resources.insert(flow, 0, piece)?;
        return Ok(Outcome::Undecided);
    }
    resources.insert(flow, offset, piece)?;
    let Some(block) = &flow.block else {
        return Ok(Outcome::Undecided);
    };
    let stream = resources.blocks.contiguous(block);
    match start_of(stream, &mut resources.scratch)? {
        Some(found) => Ok(found_in(resources, flow, found, end)),
        None if stream.len() == BLOCK_OCTETS => Err(Reason::TooLong),
        None => Ok(Outcome::Undecided),
    }
}

/// Where in the initiator's stream the payload of a segment is, and what of it is not before the stream's start.
/// Sequence numbers wrap around (RFC 9293 §3.4). SYN takes one number, and data may come with it (RFC 7413).
///
/// Where no SYN was seen, the stream starts with the first segment that looks like the start of a protocol; segments
/// before it are passed over.
fn place_in_stream<'p>(
    flow: &mut Flow,
    sequence: u32,
    has_syn: bool,
    payload: &'p [u8],
) -> Result<Option<(u64, &'p [u8])>, Reason> {
    let State::Tcp(start) = &mut flow.state else {
        return Err(Reason::Unknown);
    };
    let first = sequence.wrapping_add(u32::from(has_syn));
    if has_syn && *start.get_or_insert(first) != first {
        // Another SYN: which of the two connections the peer takes is not known.
        return Err(Reason::Ambiguous);
    }
    if payload.is_empty() {
        return Ok(None);
    }
    let start = match *start {
        Some(start) => start,
        None if payload[0] == tls::HANDSHAKE || may_start_request(payload) => *start.insert(first),
        None => return Ok(None),
    };
    let offset = i64::from(first.wrapping_sub(start) as i32);
    let before = usize::try_from(-offset).unwrap_or(0);
    let piece = payload.get(before..).filter(|piece| !piece.is_empty());
    Ok(piece.map(|piece| (u64::try_from(offset).unwrap_or(0), piece)))
}

/// What was found in a flow with a segment that ends there; the next request is where it is behind the start of the
/// stream.
fn found_in(resources: &mut Resources, flow: &Flow, mut found: Found, end: u16) -> Outcome {
    let is_of_it = flow.end <= end || found.next_request.is_some_and(|next| u32::from(flow.end) <= next);
    found.has_more = found.protocol == Protocol::Http1 && (flow.end == u16::MAX || !is_of_it);
    if let (State::Tcp(Some(start)), Some(next)) = (flow.state, &mut found.next_request) {
        *next = next.wrapping_add(start);
    }
    resources.found(found)
}

/// Octets of a request, its body included, if that is known, and sequence numbers tell what is behind it from what is
/// before it.
fn octets_of(head: &Head<'_>) -> Option<u32> {
    let Body::Octets(body) = head.body else {
        return None;
    };
    let octets = u32::try_from(body.checked_add(head.octets as u64)?).ok()?;
    (octets < 1 << 30).then_some(octets)
}

/// What a stream is for, by the message that it starts with; nothing if it ends before that does. Where the next
/// request begins is said from the start of the stream on.
fn start_of(stream: &[u8], scratch: &mut [u8]) -> Result<Option<Found>, Reason> {
    match stream.first() {
        None => Ok(None),
        Some(&tls::HANDSHAKE) => {
            let hello = tls::of_records(stream, scratch)?;
            Ok(hello.map(|hello| Found::of_hello(Protocol::Tls, &hello)))
        }
        Some(_) if may_start_request(stream) => Ok(read_head(stream)?.map(|head| Found {
            host: head.host,
            path: Some(PathStart::of(head.path)),
            next_request: octets_of(&head),
            ..Found::of(Protocol::Http1)
        })),
        Some(_) => Err(Reason::Unknown),
    }
}
