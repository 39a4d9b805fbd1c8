//! Answers to single packets in the name of the end that they are for, by a node between two ends that keeps nothing:
//! to a segment of TCP a reset, or the response of HTTP that redirects; to a datagram of UDP another one.
//!
//! The node is in the middle of the path, not an end: it sees one packet, and takes all numbers from that. The end that
//! the packet is for learns nothing of the answer, so its side of a connection stays open until its own timers end it.
//!
//! There is one answer at most to a packet, and answers to answers end: a reset gets none; a redirection has FIN, and a
//! segment with FIN gets a reset at most. A reset is no longer than a segment without options. A redirection, of up to
//! [`LONGEST`] octets, and a datagram may be longer than what they answer: the caller sends them only to addresses that
//! it knows the sender to have, as a session's, since a source may be forged.

use zerocopy::IntoBytes;

use crate::checksum::Sum;
use crate::tuple::proto;
use crate::udp::pseudo_header;
use crate::{Addrs, DropReason, Fragment, IpTuple, ipv6, own_ip_header, tcp, udp};

/// Octets of the longest answer of TCP: what every link carries (RFC 8200 §5).
pub const LONGEST: usize = 1_280;
/// Octets of the longest URL: with it a response fits into one segment.
pub const LONGEST_URL: usize = 1_024;
/// Octets of the longest segment: no response is longer.
pub const SEGMENT: u16 = 1_220;

const BEFORE_URL: &[u8] = b"HTTP/1.1 302 Found\r\nLocation: ";
const BEHIND_URL: &[u8] = b"\r\nContent-Length: 0\r\nCache-Control: no-store\r\nConnection: close\r\n\r\n";

/// The parts of a body without data.
const NO_DATA: [&[u8]; 3] = [&[]; 3];

const _: () = assert!(BEFORE_URL.len() + LONGEST_URL + BEHIND_URL.len() <= SEGMENT as usize);
const _: () = assert!(ipv6::HEADER_LEN + tcp::HEADER_LEN + SEGMENT as usize <= LONGEST);

/// The flags of the segment that ends a response.
pub(crate) const LAST: u8 = tcp::flags::PSH | tcp::flags::ACK | tcp::flags::FIN;

/// Whether `url` can be redirected to: visible ASCII, 1 to [`LONGEST_URL`] octets.
pub fn is_url(url: &[u8]) -> bool {
    (1..=LONGEST_URL).contains(&url.len()) && url.iter().all(u8::is_ascii_graphic)
}

/// A packet of TCP: what an answer depends on.
#[derive(Clone, Copy, Debug)]
pub struct Request<'a> {
    /// The packet from its IP header to the end of its TCP header at least. The payload may be in other buffers.
    pub headers: &'a [u8],
    /// What the headers say.
    pub client: &'a IpTuple,
    /// The sum over the whole segment: TCP header and payload.
    pub sum: Sum,
}

/// A reset in the name of the server, in IP, written to the start of `out`; its octets. Either end may have sent the
/// segment: here "client" is the one that did.
///
/// It is what an end says that knows no such connection (RFC 9293 §3.10.7.1): its number is what the segment
/// acknowledges, so that the client takes it.
///
/// # Errors
/// [`AccessList`](DropReason::AccessList) for what gets no answer: resets, other protocols than TCP, fragments,
/// segments with a wrong checksum, and those from or to an address that no station has.
/// [`TruncatedTcp`](DropReason::TruncatedTcp) when the TCP header is longer than the segment, or not contiguous.
/// [`NoHeadroom`](DropReason::NoHeadroom) when `out` has no room.
pub fn reset(request: Request<'_>, out: &mut [u8]) -> Result<usize, DropReason> {
    answer(request, out, |segment| {
        (!segment.has(tcp::flags::RST)).then(|| (segment.reset(), NO_DATA))
    })
}

/// What the server says to a segment of a client of HTTP/1 whose request is not to reach it, in IP, written to the
/// start of `out`; its octets. To data it is the response 302 to `url`, with FIN; to a SYN or a FIN a [`reset`].
///
/// The caller knows that the connection is one of HTTP/1 and that the segment is of its client, and that `url` is one
/// ([`is_url`]). A request in several segments gets the same again for each; the client takes the first. What the
/// server has said before without an acknowledgement is lost: the client waits for it, and gets a reset when it gives
/// up. A client that ends its side with the request itself gets a reset.
///
/// # Errors
/// As [`reset`], and [`AccessList`](DropReason::AccessList) for an acknowledgement alone too, and for data without one.
pub fn redirect(url: &[u8], request: Request<'_>, out: &mut [u8]) -> Result<usize, DropReason> {
    use tcp::flags::{ACK, FIN, RST, SYN};
    answer(request, out, |segment| {
        if segment.has(RST) {
            return None;
        }
        if segment.has(SYN) || segment.has(FIN) {
            return Some((segment.reset(), NO_DATA));
        }
        if !segment.has(ACK) || segment.octets == 0 {
            return None;
        }
        let body = cut(response(url), 0, SEGMENT.into());
        Some((segment.say(LAST, segment.acknowledges), body))
    })
}

/// A datagram of UDP in answer to one with these headers: to where it came from, from where it was sent to, in IP,
/// written to the start of `out`; its octets. Whether the checksum of what is answered is right, the caller has
/// verified ([`udp::verify_checksum`]).
///
/// # Errors
/// [`AccessList`](DropReason::AccessList) for what gets no answer: other protocols than UDP, fragments, and what is
/// from or to an address that no station has. [`NoHeadroom`](DropReason::NoHeadroom) when `out` has no room, or there
/// are more octets than a datagram holds.
pub fn datagram(client: &IpTuple, payload: &[u8], out: &mut [u8]) -> Result<usize, DropReason> {
    if !may_be_answered(client, proto::UDP) {
        return Err(DropReason::AccessList);
    }
    write_datagram(client, payload, out).ok_or(DropReason::NoHeadroom)
}

/// Whether it is a whole packet of this protocol, from one station to one other.
fn may_be_answered(client: &IpTuple, proto: u8) -> bool {
    client.proto == proto
        && client.fragment == Fragment::None
        && !client.addrs.has_martian_source()
        && !client.reversed().addrs.has_martian_source()
}

/// Writes what `say` makes of a segment.
fn answer<'a>(
    request: Request<'_>,
    out: &mut [u8],
    say: impl FnOnce(&Segment<'_>) -> Option<(Say, [&'a [u8]; 3])>,
) -> Result<usize, DropReason> {
    let client = request.client;
    if !may_be_answered(client, proto::TCP) {
        return Err(DropReason::AccessList);
    }
    let segment = Segment::read(request)?.ok_or(DropReason::AccessList)?;
    let (say, body) = say(&segment).ok_or(DropReason::AccessList)?;
    write_segment(client, &say, &[], body, out).ok_or(DropReason::NoHeadroom)
}

/// The response that redirects to `url`, in parts.
pub(crate) fn response(url: &[u8]) -> [&[u8]; 3] {
    [BEFORE_URL, url, BEHIND_URL]
}

/// `octets` of what the parts are together, behind the first `from`.
pub(crate) fn cut(parts: [&[u8]; 3], from: u32, octets: u32) -> [&[u8]; 3] {
    let (mut from, mut left) = (from as usize, octets as usize);
    parts.map(|part| {
        let start = from.min(part.len());
        let end = part.len().min(start + left);
        from -= start;
        left -= end - start;
        part.get(start..end).unwrap_or_default()
    })
}

/// A client's segment.
pub(crate) struct Segment<'a> {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledges: u32,
    /// Octets of its data.
    pub octets: u32,
    pub options: &'a [u8],
}

/// The header of a segment of the server's.
pub(crate) struct Say {
    pub flags: u8,
    pub sequence: u32,
    pub acknowledges: u32,
}

impl<'a> Segment<'a> {
    /// The segment of a request; none of other protocols, fragments, and segments with a wrong checksum.
    pub fn read(request: Request<'a>) -> Result<Option<Segment<'a>>, DropReason> {
        let client = request.client;
        if client.proto != proto::TCP || client.fragment != Fragment::None {
            return Ok(None);
        }
        let segment_len = client.total_len.checked_sub(client.l4_offset);
        let segment_len = segment_len.ok_or(DropReason::TruncatedTcp)?;
        let received = request.headers.get(client.l4_offset.into()..).unwrap_or_default();
        let (header, header_len) = tcp::Header::parse(received, segment_len.into())?;
        let before = pseudo_header(&client.addrs, proto::TCP, segment_len);
        if !request.sum.after(before).is_right() {
            return Ok(None);
        }
        let options = received.get(tcp::HEADER_LEN..header_len);
        Ok(Some(Segment {
            flags: header.flags,
            sequence: header.sequence.get(),
            acknowledges: header.acknowledgement.get(),
            octets: (usize::from(segment_len) - header_len) as u32,
            options: options.ok_or(DropReason::TruncatedTcp)?,
        }))
    }

    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// The number behind the segment.
    pub fn end(&self) -> u32 {
        let numbers =
            self.octets + u32::from(self.has(tcp::flags::SYN)) + u32::from(self.has(tcp::flags::FIN));
        self.sequence.wrapping_add(numbers)
    }

    /// An answer that acknowledges all of the segment.
    pub fn say(&self, flags: u8, sequence: u32) -> Say {
        Say {
            flags,
            sequence,
            acknowledges: self.end(),
        }
    }

    /// RFC 9293 §3.10.7.1.
    pub fn reset(&self) -> Say {
        if self.has(tcp::flags::ACK) {
            return Say {
                acknowledges: 0,
                ..self.say(tcp::flags::RST, self.acknowledges)
            };
        }
        self.say(tcp::flags::RST | tcp::flags::ACK, 0)
    }
}

/// Writes a segment to the client.
pub(crate) fn write_segment(
    client: &IpTuple,
    say: &Say,
    options: &[u8],
    body: [&[u8]; 3],
    out: &mut [u8],
) -> Option<usize> {
    let mut header = tcp::Header::new(client.dst_port, client.src_port, say.sequence, say.flags);
    header.acknowledgement = say.acknowledges.into();
    header.data_offset = (((tcp::HEADER_LEN + options.len()) / 4) << 4) as u8;
    let [first, second, third] = body;
    let parts = [header.as_bytes(), options, first, second, third];
    let (addrs, written, segment) = write(client, proto::TCP, &parts, out)?;
    tcp::fill_checksum(&addrs, segment)?;
    Some(written)
}

fn write_datagram(client: &IpTuple, payload: &[u8], out: &mut [u8]) -> Option<usize> {
    let header = udp::Header::new(client.dst_port, client.src_port, payload.len())?;
    let (addrs, written, datagram) = write(client, proto::UDP, &[header.as_bytes(), payload], out)?;
    udp::fill_checksum(&addrs, datagram, Sum::default())?;
    Some(written)
}

/// Writes these parts behind an IP header to the client. Addresses and octets of the packet, and what is in it.
fn write<'o>(
    client: &IpTuple,
    proto: u8,
    parts: &[&[u8]],
    out: &'o mut [u8],
) -> Option<(Addrs, usize, &'o mut [u8])> {
    let payload_len = parts.iter().map(|part| part.len()).sum();
    let addrs = client.reversed().addrs;
    let ip_len = own_ip_header::len(&addrs);
    let written = ip_len + payload_len;
    let (ip, payload) = out.get_mut(..written)?.split_at_mut(ip_len);
    own_ip_header::write(ip, &addrs, proto, payload_len)?;
    let mut at = 0;
    for part in parts {
        payload.get_mut(at..at + part.len())?.copy_from_slice(part);
        at += part.len();
    }
    Some((addrs, written, payload))
}
