//! What the sender of a packet receives that an access list denies, in the name of the end that the packet was for: a
//! reset of TCP, a redirection of HTTP, an answer of DNS.

use dpi::http1::may_start_request;
use dpi::{Layer4, dns};
use packet::checksum::Sum;
use packet::tuple::proto;
use packet::{IpTuple, PacketBuf, answer, udp};
use rules::model::AccessAction;

use crate::burst::Burst;
use crate::slow_path::inspection::layer4;

/// Octets of the longest answer of DNS: more than a name, a question and a record of an address.
const LONGEST_OF_DNS: usize = 512;

/// Who says something to the sender of a discarded packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AnswerKind {
    /// A router, by ICMP.
    IcmpError,
    /// The end that the packet was for.
    OfEnd,
}

/// Who says something to the sender of a packet of this protocol, which the access list's action has dropped, if one
/// has.
pub(crate) fn kind(action: Option<&AccessAction>, protocol: u8) -> AnswerKind {
    match action {
        Some(AccessAction::Reset | AccessAction::Redirect(_)) if protocol == proto::TCP => AnswerKind::OfEnd,
        Some(AccessAction::Sinkhole(_)) => AnswerKind::OfEnd,
        _ => AnswerKind::IcmpError,
    }
}

/// Writes the answer to the packet at `index`; how many octets it has. Only to a UE is said more than it has sent.
/// `None`: it gets none.
pub(crate) fn write<B: PacketBuf>(
    action: &AccessAction,
    burst: &Burst<B>,
    index: usize,
    from_ue: bool,
    out: &mut [u8],
) -> Option<usize> {
    let (descriptor, packet) = (&burst.descriptors[index], &burst.packets[index]);
    let tuple = descriptor.tuple(packet.data()).ok()?;
    let start = usize::from(descriptor.offset);
    let segment = start + usize::from(tuple.l4_offset)..start + usize::from(tuple.total_len);
    let user = packet.data().get(start..).unwrap_or_default();
    let request = answer::Request {
        headers: user,
        client: &tuple,
        sum: packet.sum_of(segment),
    };
    match action {
        AccessAction::Redirect(url) if from_ue && may_be_request(user, &tuple) => {
            answer::redirect(url.as_bytes(), request, out).ok()
        }
        AccessAction::Reset | AccessAction::Redirect(_) => answer::reset(request, out).ok(),
        AccessAction::Sinkhole(sinkhole) if from_ue => {
            let mut message = [0; LONGEST_OF_DNS];
            let length = dns::answer(datagram(user, &tuple)?, sinkhole, &mut message)?;
            answer::datagram(&tuple, message.get(..length)?, out).ok()
        }
        _ => None,
    }
}

/// Whether a segment carries nothing, or what may begin a request of HTTP.
fn may_be_request(user: &[u8], tuple: &IpTuple) -> bool {
    layer4(user, tuple).is_some_and(|layer4| {
        let payload = layer4.payload();
        payload.is_empty() || may_start_request(payload)
    })
}

/// What a datagram carries that is in one piece, and whose checksum is right.
fn datagram<'a>(user: &'a [u8], tuple: &IpTuple) -> Option<&'a [u8]> {
    let datagram = user.get(usize::from(tuple.l4_offset)..usize::from(tuple.total_len))?;
    match layer4(user, tuple)? {
        Layer4::Udp { payload } => {
            udp::verify_checksum(&tuple.addrs, datagram, Sum::default(), false).ok()?;
            Some(payload)
        }
        Layer4::Tcp { .. } => None,
    }
}
