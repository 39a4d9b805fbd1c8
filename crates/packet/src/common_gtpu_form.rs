//! Shortcut for the most common form of a G-PDU: outer IPv4 without options, UDP, GTP-U with one short PDU Session
//! Container or nothing optional, and an unfragmented inner IPv4 packet of UDP or TCP.
//!
//! Every field of this form is at a constant offset, and a few comparisons recognise it. All other packets, valid or
//! not, are parsed by [`GtpuFrame`](crate::GtpuFrame) and [`parse_inner`](crate::frame::parse_inner), which give the
//! same result for this form.

use zerocopy::{FromBytes, Immutable, KnownLayout, Unaligned};

use crate::gtpu::{self, ExtensionType, MessageType, flags};
use crate::tuple::{Start, proto};
use crate::{IpTuple, Qfi, Teid, checksum, ipv4, psc, udp};

/// A G-PDU of the common form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CommonGpdu {
    /// Outer destination address.
    pub destination: [u8; 4],
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// The QoS flow, of the form with a PDU Session Container.
    pub qfi: Option<Qfi>,
    /// Octets before the user packet, from the start of the outer IP header.
    pub offset: u16,
    /// The user packet.
    pub tuple: IpTuple,
}

/// The outer headers.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
pub(crate) struct Outer {
    pub ip: ipv4::Header,
    pub udp: udp::Header,
    pub gtpu: gtpu::Header,
}

/// What follows them.
#[derive(FromBytes, KnownLayout, Immutable, Unaligned)]
#[repr(C)]
struct Marked {
    optional: gtpu::OptionalFields,
    container: [u8; 4],
    inner: Start<ipv4::Header>,
}

pub(crate) const OUTER_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// Octets of the optional part with a short container.
pub(crate) const MARKED_LEN: usize = gtpu::OPTIONAL_LEN + 4;

impl Outer {
    /// Whether these are the headers of a whole G-PDU, in a packet of which `available` octets were received.
    #[inline(always)]
    fn is_common(&self, available: usize) -> bool {
        let fragment = self.ip.fragment.get() & (ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET);
        // What distinguishes tunnelled packets from others comes first.
        self.udp.dst_port.get() == gtpu::PORT
            && self.ip.version_ihl == 0x45
            && self.ip.proto == proto::UDP
            && fragment == 0
            && self.gtpu.message_type == MessageType::G_PDU.0
            && self.has_room(available)
            && checksum::is_right_20(zerocopy::transmute_ref!(&self.ip))
    }

    /// Whether each of these headers is in what the one before announces, and the packet in what was received.
    #[inline(always)]
    pub fn has_room(&self, available: usize) -> bool {
        let (total, datagram) = (
            usize::from(self.ip.total_len.get()),
            usize::from(self.udp.len.get()),
        );
        total <= available
            && ipv4::HEADER_LEN + datagram <= total
            && udp::HEADER_LEN + gtpu::HEADER_LEN + self.message_len() <= datagram
    }

    /// Octets behind the first eight of the GTP-U header.
    #[inline(always)]
    pub fn message_len(&self) -> usize {
        self.gtpu.length.get().into()
    }
}

impl Marked {
    /// The QoS flow of a short container, if this is one and nothing else.
    #[inline(always)]
    fn qfi(&self) -> Option<Qfi> {
        let [units, first, second, next] = self.container;
        let is_short = self.optional.next_extension == ExtensionType::PDU_SESSION_CONTAINER.0
            && (units, next) == (1, ExtensionType::NONE.0);
        let (qfi, _) = psc::Summary::of_short(first, second).filter(|_| is_short)?;
        Some(qfi)
    }
}

/// Reads the G-PDU that starts at `packet[0]` with its outer IPv4 header. `available` is how many octets were received
/// from there on, of which `packet` holds at least the headers. Both header checksums are verified. `None` when it is
/// not of this form.
#[inline(always)]
pub fn parse(packet: &[u8], available: usize) -> Option<CommonGpdu> {
    let (outer, rest) = Outer::ref_from_prefix(packet).ok()?;
    if !outer.is_common(available) {
        return None;
    }
    let message = outer.message_len();
    let (qfi, optional, inner) = match outer.gtpu.flags {
        0x34 => {
            let (marked, _) = Marked::ref_from_prefix(rest).ok()?;
            (Some(marked.qfi()?), MARKED_LEN, &marked.inner)
        }
        flags::VERSION_1 => (None, 0, Start::ref_from_prefix(rest).ok()?.0),
        _ => return None,
    };
    Some(CommonGpdu {
        destination: outer.ip.dst,
        teid: Teid(outer.gtpu.teid.get()),
        qfi,
        offset: (OUTER_LEN + optional) as u16,
        tuple: inner.common_tuple(message.checked_sub(optional)?)?,
    })
}

const _: () = assert!(flags::VERSION_1 | flags::E == 0x34);

#[cfg(test)]
mod tests {
    use zerocopy::IntoBytes;

    use super::*;
    use crate::Addrs;
    use crate::build::{GtpuEncap, GtpuTemplate, Marking};

    fn g_pdu(marking: Option<Marking>) -> Vec<u8> {
        let addrs = Addrs::V4 {
            src: [10, 0, 0, 1],
            dst: [10, 0, 0, 2],
        };
        let fields = ipv4::Fields {
            src: [10, 45, 0, 1].into(),
            dst: [8, 8, 8, 8].into(),
            proto: proto::UDP,
            ttl: 64,
            tos: 0,
            id: 0,
            dont_fragment: true,
        };
        let header = fields.header(udp::HEADER_LEN + 5).expect("short enough");
        let datagram = [0x03, 0xe8, 0, 53, 0, 13, 0, 0, b'h', b'e', b'l', b'l', b'o'];
        let inner = [header.as_bytes(), &datagram].concat();
        let template = GtpuTemplate::new(&GtpuEncap::new(addrs, Teid(77)));
        let mut outer = vec![0; template.header_len(marking)];
        template.apply(&mut outer, inner.len(), marking).expect("it fits");
        [outer, inner].concat()
    }

    /// What [`preview`](crate::preview) makes of it.
    fn previewed(packet: &[u8]) -> Option<([u8; 4], Teid, Option<Qfi>, u16)> {
        let found = crate::preview::gpdu(packet, packet.len())?;
        Some((found.destination, found.teid, found.qfi, found.inner.ports[1]))
    }

    #[test]
    fn both_common_forms_are_recognised() {
        for (marking, qfi, offset) in [
            (None, None, 36),
            (
                Some(Marking::uplink(Qfi::from_low_bits(9))),
                Some(Qfi::from_low_bits(9)),
                44,
            ),
        ] {
            let packet = g_pdu(marking);
            let found = parse(&packet, packet.len()).expect("it is of the common form");
            assert_eq!((found.destination, found.teid), ([10, 0, 0, 2], Teid(77)));
            assert_eq!((found.qfi, found.offset), (qfi, offset));
            assert_eq!((found.tuple.src_port, found.tuple.dst_port), (1000, 53));
            assert_eq!(
                previewed(&packet),
                Some((found.destination, found.teid, found.qfi, 53))
            );
            assert_eq!(parse(&packet, packet.len() - 1), None);
        }
    }

    #[test]
    fn others_are_not() {
        // Options, another protocol, a fragment, another port, another message, a wrong checksum, inner options.
        for (at, octet) in [
            (0, 0x46),
            (9, 6),
            (7, 1),
            (23, 0x69),
            (29, 254),
            (10, 0),
            (36, 0x46),
        ] {
            let mut packet = g_pdu(None);
            packet[at] = octet;
            assert_eq!(parse(&packet, packet.len()), None, "octet {at}");
        }
    }
}
