//! The headers that go on: outer IP, UDP and GTP-U of a tunnel, and Ethernet.
//!
//! The IPv4 outer header is written here in one piece; it is the same, octet for octet, as
//! [`packet::build::GtpuTemplate`] makes, which serves IPv6.

use flow::{Forward, ForwardFlags, Mark, OuterAddresses, Template};
use packet::build::{
    GtpuEncap, GtpuTemplate, Marking, PerPacket, RelayedContainer, fill_udp_checksum, relay_optional_part,
};
use packet::checksum::Sum;
use packet::eth::ether_type;
use packet::gtpu::{self, MessageType, flags};
use packet::psc::PduType;
use packet::tuple::proto;
use packet::{Addrs, DropReason, GtpuFrame, PacketBuf, Ppi, Qfi, Teid, ipv4, ipv6, udp};
use transport::Adjacency;

use crate::descriptor::Tunnel;
use crate::parse::read_again;

/// Octets of IPv4, UDP and the mandatory part of GTP-U.
const OUTER_V4: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// The longest optional part of a GTP-U header that is relayed, octets.
const MAX_OPTIONAL: usize = 1024;
/// Octets of IPv6, UDP and the mandatory part of GTP-U.
const OUTER_V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;

/// What comes between the mandatory GTP-U header and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optional {
    /// Nothing.
    None,
    /// A PDU Session Container alone.
    Marking(Marking),
    /// What lies in the [`Chain`].
    Chain,
}

impl Optional {
    /// Octets.
    #[inline]
    pub fn len(self, chain: &Chain) -> usize {
        match self {
            Self::None => 0,
            Self::Marking(marking) => marking.len(),
            Self::Chain => chain.len,
        }
    }
}

/// The container that a QER's mark asks for in a tunnel.
#[inline]
pub(crate) fn marking(forward: &Forward, mark: Mark) -> Option<Marking> {
    let qfi = Qfi::from_low_bits(
        mark.qfi()
            .filter(|_| forward.flags.contains(ForwardFlags::NEEDS_MARKING))?,
    );
    if forward.flags.contains(ForwardFlags::UPLINK_CONTAINER) {
        return Some(Marking::uplink(qfi));
    }
    let ppi = mark.ppi().map(Ppi::from_low_bits);
    Some(Marking {
        pdu_type: PduType::Downlink,
        qfi,
        rqi: mark.rqi(),
        ppi,
    })
}

/// A chain of extension headers, and the four optional octets before it, for a packet that is relayed.
pub(crate) struct Chain {
    octets: [u8; MAX_OPTIONAL],
    len: usize,
}

impl Chain {
    /// Nothing yet.
    pub const fn new() -> Self {
        Self {
            octets: [0; MAX_OPTIONAL],
            len: 0,
        }
    }

    /// Collects what a message in `buf` has on in the next tunnel (TS 29.244 Table 8.2.64-1, NOTE 2): the container
    /// of `marking`, else the received one if `keeps_psc`; then the others, except unknown ones that a node in the
    /// middle takes out.
    ///
    /// # Errors
    /// [`DropReason::NoHeadroom`] when the chain is longer than fits, and as [`relay_optional_part`].
    pub fn collect<B: PacketBuf>(
        &mut self,
        buf: &B,
        tunnel: &Tunnel,
        marking: Option<Marking>,
        keeps_psc: bool,
    ) -> Result<Optional, DropReason> {
        let relays_psc = marking.is_none() && keeps_psc && tunnel.has_psc;
        if !tunnel.has_other_extensions && !relays_psc {
            return Ok(marking.map_or(Optional::None, Optional::Marking));
        }
        let container = match marking {
            Some(marking) => RelayedContainer::Replace(marking),
            None if relays_psc => RelayedContainer::Keep,
            None => RelayedContainer::Delete,
        };
        self.build(buf.data(), &read_again(buf)?, container)
    }

    #[cold]
    fn build(
        &mut self,
        frame: &[u8],
        gtpu: &GtpuFrame,
        container: RelayedContainer,
    ) -> Result<Optional, DropReason> {
        let mut message = gtpu.message(frame)?;
        // They count in the tunnel that the message came in.
        (message.sequence, message.npdu) = (None, None);
        (_, self.len) = relay_optional_part(&message, container, &mut self.octets)?;
        Ok(if self.len == 0 {
            Optional::None
        } else {
            Optional::Chain
        })
    }

    fn octets(&self) -> &[u8] {
        self.octets.get(..self.len).unwrap_or_default()
    }
}

/// Octets of the outer headers without optional part.
#[inline]
pub(crate) fn outer_len(template: &Template) -> usize {
    match template.addresses {
        OuterAddresses::V4 { .. } => OUTER_V4,
        OuterAddresses::V6 { .. } => OUTER_V6,
    }
}

/// Puts Ethernet before a plain packet.
///
/// # Errors
/// [`DropReason::NoHeadroom`].
#[inline]
pub(crate) fn plain<B: PacketBuf>(buf: &mut B, adjacency: &Adjacency, is_v4: bool) -> Result<(), DropReason> {
    let l2 = adjacency.header();
    let room = buf.prepend(l2.len() + 2).ok_or(DropReason::NoHeadroom)?;
    write_l2(room, l2, if is_v4 { ether_type::IPV4 } else { ether_type::IPV6 })
}

#[inline]
fn write_l2(room: &mut [u8], l2: &[u8], kind: u16) -> Result<(), DropReason> {
    let [high, low] = kind.to_be_bytes();
    // Without a tag, of a length that the compiler knows.
    if let (Some(to), Some(from)) = (
        room.first_chunk_mut::<14>().filter(|_| l2.len() == 12),
        l2.first_chunk::<12>(),
    ) {
        to[..12].copy_from_slice(from);
        (to[12], to[13]) = (high, low);
        return Ok(());
    }
    let (addresses, rest) = room
        .split_at_mut_checked(l2.len())
        .ok_or(DropReason::NoHeadroom)?;
    addresses.copy_from_slice(l2);
    rest.copy_from_slice(&[high, low]);
    Ok(())
}

/// A message that goes into a tunnel.
pub(crate) struct Into<'a> {
    /// The tunnel.
    pub template: &'a Template,
    /// The neighbour that it leads over.
    pub adjacency: &'a Adjacency,
    /// What kind of message.
    pub message_type: MessageType,
}

impl<'a> Into<'a> {
    /// A message of this type into a tunnel over this neighbour.
    #[inline]
    pub fn tunnel(template: &'a Template, adjacency: &'a Adjacency, message_type: MessageType) -> Self {
        Self {
            template,
            adjacency,
            message_type,
        }
    }

    /// Puts all headers before the payload in `buf`.
    ///
    /// # Errors
    /// [`DropReason::TooBig`], [`DropReason::NoHeadroom`].
    #[inline]
    pub fn put_on<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: Optional,
        chain: &Chain,
    ) -> Result<(), DropReason> {
        let marking = match optional {
            Optional::Marking(marking) => marking.octets(),
            _ => [0; 12],
        };
        let octets = match optional {
            Optional::None => &[][..],
            Optional::Marking(kind) => marking.get(..kind.len()).unwrap_or_default(),
            Optional::Chain => chain.octets(),
        };
        match self.template.addresses {
            OuterAddresses::V4 { source, destination } => self.put_on_v4(buf, octets, source, destination),
            OuterAddresses::V6 { source, destination } => self.put_on_v6(buf, octets, source, destination),
        }
    }

    #[inline]
    fn put_on_v4<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: &[u8],
        source: [u8; 4],
        destination: [u8; 4],
    ) -> Result<(), DropReason> {
        let l2 = self.adjacency.header();
        let total = u16::try_from(OUTER_V4 + optional.len() + buf.len()).map_err(|_| DropReason::TooBig)?;
        let outer = self.outer_v4(total, !optional.is_empty(), source, destination);
        let room = buf
            .prepend(l2.len() + 2 + OUTER_V4 + optional.len())
            .ok_or(DropReason::NoHeadroom)?;
        let (head, rest) = room
            .split_at_mut_checked(l2.len() + 2)
            .ok_or(DropReason::NoHeadroom)?;
        write_l2(head, l2, ether_type::IPV4)?;
        let (fixed, variable) = rest
            .split_at_mut_checked(OUTER_V4)
            .ok_or(DropReason::NoHeadroom)?;
        fixed.copy_from_slice(&outer);
        match (variable.first_chunk_mut::<8>(), optional.first_chunk::<8>()) {
            // A short container, of a length that the compiler knows.
            (Some(to), Some(from)) if optional.len() == 8 => *to = *from,
            _ => variable.copy_from_slice(optional),
        }
        Ok(())
    }

    /// The headers of an IPv4 packet of `total` octets: TTL 64, DF, identification 0, no UDP checksum.
    #[inline]
    fn outer_v4(&self, total: u16, extended: bool, source: [u8; 4], destination: [u8; 4]) -> [u8; OUTER_V4] {
        let &Template {
            teid,
            source_port,
            tos,
            ..
        } = self.template;
        let [l0, l1] = total.to_be_bytes();
        let [u0, u1] = (total - ipv4::HEADER_LEN as u16).to_be_bytes();
        let [g0, g1] = (total - OUTER_V4 as u16).to_be_bytes();
        let [p0, p1] = source_port.to_be_bytes();
        let [q0, q1] = gtpu::PORT.to_be_bytes();
        let [t0, t1, t2, t3] = teid.to_be_bytes();
        let [c0, c1] = checksum_v4(tos, total, source, destination).to_be_bytes();
        let ([s0, s1, s2, s3], [d0, d1, d2, d3]) = (source, destination);
        let flags = flags::VERSION_1 | if extended { flags::E } else { 0 };
        let kind = self.message_type.0;
        #[rustfmt::skip]
        let headers = [
            0x45, tos, l0, l1, 0, 0, 0x40, 0, 64, proto::UDP, c0, c1, s0, s1, s2, s3, d0, d1, d2, d3,
            p0, p1, q0, q1, u0, u1, 0, 0,
            flags, kind, g0, g1, t0, t1, t2, t3,
        ];
        headers
    }

    #[cold]
    fn put_on_v6<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: &[u8],
        src: [u8; 16],
        dst: [u8; 16],
    ) -> Result<(), DropReason> {
        let encap = GtpuEncap {
            src_port: self.template.source_port,
            tos: self.template.tos,
            ..GtpuEncap::new(Addrs::V6 { src, dst }, Teid(self.template.teid))
        };
        let template = GtpuTemplate::new(&encap);
        let (inner_len, l2) = (buf.len(), self.adjacency.header());
        let outer_len = template.header_len(None) + optional.len();
        let payload = whole_sum(buf);
        let room = buf
            .prepend(l2.len() + 2 + outer_len)
            .ok_or(DropReason::NoHeadroom)?;
        let (head, outer) = room
            .split_at_mut_checked(l2.len() + 2)
            .ok_or(DropReason::NoHeadroom)?;
        write_l2(head, l2, ether_type::IPV6)?;
        let start = outer.len().saturating_sub(optional.len());
        outer
            .get_mut(start..)
            .ok_or(DropReason::NoHeadroom)?
            .copy_from_slice(optional);
        let flags = if optional.is_empty() { 0 } else { flags::E };
        let packet = PerPacket {
            message_type: self.message_type,
            ..PerPacket::default()
        };
        template.apply_optional(outer, inner_len, flags, &packet)?;
        match payload {
            Some(payload) => fill_udp_checksum(outer, payload),
            // A chained buffer: the tunnel goes without (RFC 6935).
            None => Ok(()),
        }
    }
}

/// The sum over a packet that lies in one piece.
fn whole_sum<B: PacketBuf>(buf: &B) -> Option<Sum> {
    (buf.data().len() == buf.len()).then(|| Sum::default().bytes(buf.data()))
}

/// The checksum of an outer IPv4 header (RFC 791 §3.1).
#[inline]
fn checksum_v4(tos: u8, total: u16, source: [u8; 4], destination: [u8; 4]) -> u16 {
    // Version and length, TOS; DF; TTL 64 and protocol UDP.
    let fixed = 0x4500 + u32::from(tos) + 0x4000 + 0x4011;
    let halves = |address: [u8; 4]| {
        let bits = u32::from_be_bytes(address);
        (bits >> 16) + (bits & 0xffff)
    };
    let sum = fixed + u32::from(total) + halves(source) + halves(destination);
    let sum = (sum & 0xffff) + (sum >> 16);
    !((sum & 0xffff) + (sum >> 16)) as u16
}

#[cfg(test)]
mod tests {
    use packet::VecBuf;
    use packet::checksum;
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_short_way_makes_what_the_template_makes(
            source: [u8; 4], destination: [u8; 4], teid: u32, source_port: u16, tos: u8, len in 0usize..2000,
            qfi in proptest::option::of(0u8..64)
        ) {
            let marking = qfi.map(|qfi| Marking::downlink(Qfi::from_low_bits(qfi)));
            let template = Template { source_port, tos, ..Template::ipv4(teid, source, destination) };
            let interface = crate::places::tests::interface();
            let adjacency = Adjacency::resolved(&interface, packet::MacAddr([2; 6]));
            let into = Into::tunnel(&template, &adjacency, MessageType::G_PDU);
            let mut buf = VecBuf::new(&vec![7; len]);
            let optional = marking.map_or(Optional::None, Optional::Marking);
            into.put_on(&mut buf, optional, &Chain::new()).expect("there is room");

            let addrs = Addrs::V4 { src: source, dst: destination };
            let encap = GtpuEncap { src_port: source_port, tos, ..GtpuEncap::new(addrs, Teid(teid)) };
            let slow = GtpuTemplate::new(&encap);
            let mut headers = vec![0; slow.header_len(marking)];
            slow.apply(&mut headers, len, marking).expect("it fits");
            prop_assert_eq!(&buf.data()[14..14 + headers.len()], &headers[..]);
            prop_assert!(checksum::is_right(&headers[..20]));
        }
    }
}
