//! TCP: the start of the initiator's stream, which has a ClientHello or a request of HTTP.

use super::flow::{Flow, State};
use super::{Layer4, Outcome, Resources, Sender};
use crate::http1::{may_start_request, read_head};
use crate::reassembly::BLOCK_OCTETS;
use crate::tls::{self, ClientHello};
use crate::verdict::{Found, PathStart, Protocol, Reason};

/// What a stream starts with.
enum Start {
    Hello(ClientHello),
    /// Of HTTP; what was found is already kept.
    Request,
    Incomplete,
}

impl Resources {
    pub(super) fn look_at_segment(
        &mut self,
        flow: &mut Flow,
        sender: Sender,
        packet: &Layer4<'_>,
    ) -> Result<Outcome, Reason> {
        let &Layer4::Tcp {
            sequence,
            has_syn,
            payload,
        } = packet
        else {
            return Err(Reason::Unknown);
        };
        if sender == Sender::Responder {
            return Ok(Outcome::Undecided);
        }
        let Some((offset, piece)) = place_in_stream(flow, sequence, has_syn, payload)? else {
            return Ok(Outcome::Undecided);
        };
        let start = if offset == 0 && flow.block.is_none() {
            // As nearly always, the message is in one segment and is read where it is.
            match self.start_of(piece)? {
                Start::Incomplete => {
                    self.insert(flow, 0, piece)?;
                    Start::Incomplete
                }
                start => start,
            }
        } else {
            self.insert(flow, offset, piece)?;
            self.start_in_block(flow)?
        };
        Ok(match start {
            Start::Hello(hello) => self.found_hello(Protocol::Tls, &hello),
            Start::Request => Outcome::Found,
            Start::Incomplete => Outcome::Undecided,
        })
    }

    fn start_in_block(&mut self, flow: &Flow) -> Result<Start, Reason> {
        let Some(block) = &flow.block else {
            return Ok(Start::Incomplete);
        };
        let stream = self.blocks.contiguous(block);
        let start = start_of(stream, &mut self.scratch, &mut self.found)?;
        match start {
            Start::Incomplete if stream.len() == BLOCK_OCTETS => Err(Reason::TooLong),
            start => Ok(start),
        }
    }

    fn start_of(&mut self, stream: &[u8]) -> Result<Start, Reason> {
        start_of(stream, &mut self.scratch, &mut self.found)
    }
}

/// Where in the initiator's stream the payload of a segment is, and what of it is not before its start. Sequence numbers
/// wrap around (RFC 9293 §3.4). SYN takes one number, and data may come with it (RFC 7413).
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

/// What `stream` starts with.
fn start_of(stream: &[u8], scratch: &mut [u8], found: &mut Found) -> Result<Start, Reason> {
    match stream.first() {
        None => Ok(Start::Incomplete),
        Some(&tls::HANDSHAKE) => {
            let hello = tls::of_records(stream, scratch)?;
            Ok(hello.map_or(Start::Incomplete, Start::Hello))
        }
        Some(_) if may_start_request(stream) => Ok(match read_head(stream)? {
            None => Start::Incomplete,
            Some(head) => {
                *found = Found {
                    host: head.host,
                    path: (!head.path.is_empty()).then(|| PathStart::of(head.path)),
                    ..Found::of(Protocol::Http1)
                };
                Start::Request
            }
        }),
        Some(_) => Err(Reason::Unknown),
    }
}
