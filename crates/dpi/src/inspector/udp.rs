//! UDP: QUIC, queries of DNS, and what is recognised by its form.
//!
//! A query begins with a number that may be any, so that it may begin as another protocol does. It is looked for behind
//! QUIC and before the others. Of QUIC's versions none has the octets of a query's flags and counts where its version
//! is, and STUN has its cookie where a query has a count of one: neither can be the other. A query with a number and a
//! length of its sender's choice has the form of a handshake of WireGuard, or of a packet of RTP, of which few octets
//! are fixed. The reverse does not happen by chance: of a query all octets but number, flags, name and type are fixed,
//! and it ends where its lengths say.

use core::ops::Range;

use super::flow::{Flow, State};
use super::packet::Sender;
use super::resources::{Outcome, Resources};
use crate::dns::Query;
use crate::heuristics::{Rtp, is_stun, is_wireguard_handshake, may_be_rtp};
use crate::quic::{self, KeySource, crypto_frames};
use crate::reassembly::BLOCK_OCTETS;
use crate::tls;
use crate::verdict::{Found, Protocol, Reason};

/// Looks at a datagram.
pub(super) fn look(
    resources: &mut Resources,
    flow: &mut Flow,
    sender: Sender,
    payload: &[u8],
) -> Result<Outcome, Reason> {
    let is_from_client = sender == Sender::Initiator;
    match &mut flow.state {
        State::Quic(keys) if is_from_client => {
            let keys = *keys;
            look_at_quic(resources, flow, keys, payload)
        }
        State::Udp(_) if is_from_client && quic::packets(payload).next().is_some() => {
            if !cfg!(feature = "quic") {
                return Err(Reason::NoQuic);
            }
            look_at_quic(resources, flow, KeySource::default(), payload)
        }
        State::Udp(_) if is_from_client && let Some(query) = Query::parse(payload) => {
            Ok(resources.found(Found::of_query(&query)))
        }
        State::Udp(rtp) => recognise(&mut rtp[sender as usize], payload).map(|recognised| match recognised {
            Some(protocol) => resources.found(Found::of(protocol)),
            None => Outcome::Undecided,
        }),
        State::Quic(_) | State::Tcp(_) => Ok(Outcome::Undecided),
    }
}

/// Looks at the Initial packets of a datagram of the client's. One that does not open is passed over: it may be of
/// another connection, or damaged.
fn look_at_quic(
    resources: &mut Resources,
    flow: &mut Flow,
    mut keys: KeySource,
    datagram: &[u8],
) -> Result<Outcome, Reason> {
    for initial in quic::packets(datagram) {
        if let Some(payload) = keys.open(&initial, &mut resources.scratch)
            && let found @ Outcome::Found = look_at_scratch(resources, flow, payload)?
        {
            return Ok(found);
        }
    }
    flow.state = State::Quic(keys);
    Ok(Outcome::Undecided)
}

/// Looks at the frames of a payload that is in the scratch.
fn look_at_scratch(
    resources: &mut Resources,
    flow: &mut Flow,
    payload: Range<usize>,
) -> Result<Outcome, Reason> {
    let scratch = core::mem::take(&mut resources.scratch);
    let looked = look_at_frames(resources, flow, scratch.get(payload).unwrap_or_default());
    resources.scratch = scratch;
    looked
}

fn look_at_frames(resources: &mut Resources, flow: &mut Flow, payload: &[u8]) -> Result<Outcome, Reason> {
    for frame in crypto_frames(payload) {
        let frame = frame?;
        // Often one frame has all of the ClientHello, which is then read where it is.
        if frame.offset == 0
            && flow.block.is_none()
            && let Some(hello) = tls::of_handshake(frame.data, BLOCK_OCTETS)?
        {
            return Ok(resources.found(Found::of_hello(Protocol::Quic, &hello)));
        }
        resources.insert(flow, frame.offset, frame.data)?;
    }
    let Some(block) = &flow.block else {
        return Ok(Outcome::Undecided);
    };
    let hello = tls::of_handshake(resources.blocks.contiguous(block), BLOCK_OCTETS)?;
    Ok(hello.map_or(Outcome::Undecided, |hello| {
        resources.found(Found::of_hello(Protocol::Quic, &hello))
    }))
}

/// The protocol that a payload is of by its form, if it is of one; nothing yet if those that follow may show it.
fn recognise(rtp: &mut Rtp, payload: &[u8]) -> Result<Option<Protocol>, Reason> {
    if is_stun(payload) {
        return Ok(Some(Protocol::Stun));
    }
    if is_wireguard_handshake(payload) {
        return Ok(Some(Protocol::WireGuard));
    }
    if rtp.recognises(payload) {
        return Ok(Some(Protocol::Rtp));
    }
    // Another version of QUIC may be followed by one that is known (RFC 9000 §6); 0-RTT may overtake an Initial packet.
    let may_follow = payload.is_empty() || may_be_rtp(payload) || quic::is_long_header(payload);
    may_follow.then_some(None).ok_or(Reason::Unknown)
}
