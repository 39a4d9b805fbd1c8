//! A look at the headers of a packet that is parsed later, if it is kept: what a flow's key has of IPv4 packets of the
//! common forms.
//!
//! These are UDP datagrams and TCP segments without IP options that are not fragmented, plain, or in a G-PDU as
//! [`common_gtpu_form`](crate::common_gtpu_form) describes it. Octets that all packets of a form have are compared by
//! words. Checksums are not verified; all else that is read is as it is parsed.

use zerocopy::FromBytes;

use crate::common_gtpu_form::{MARKED_LEN, OUTER_LEN, Outer};
use crate::gtpu::{ExtensionType, MessageType, flags};
use crate::tuple::{L4, proto};
use crate::{Qfi, Teid, gtpu, ipv4, psc, udp};

/// The fields of a UDP datagram or TCP segment over IPv4 that a flow's key may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Previewed {
    /// Source address.
    pub source: [u8; 4],
    /// Destination address.
    pub destination: [u8; 4],
    /// Source and destination port.
    pub ports: [u16; 2],
    /// IP protocol: UDP or TCP.
    pub protocol: u8,
    /// DSCP and ECN.
    pub tos: u8,
}

/// A G-PDU and the user packet that it carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreviewedGpdu {
    /// Outer destination address.
    pub destination: [u8; 4],
    /// The receiver's tunnel endpoint identifier.
    pub teid: Teid,
    /// The QoS flow, of the form with a PDU Session Container.
    pub qfi: Option<Qfi>,
    /// The user packet.
    pub inner: Previewed,
}

/// Octets that the headers of a form have at constant places, as words in little-endian order.
struct Form<const WORDS: usize> {
    octets: [u64; WORDS],
    /// Which of their bits count.
    mask: [u64; WORDS],
}

/// The place of an octet, its value, and which of its bits count.
type Octet = (usize, u8, u8);

impl<const WORDS: usize> Form<WORDS> {
    const fn new<const OCTETS: usize>(octets: [Octet; OCTETS]) -> Self {
        let mut form = Self {
            octets: [0; WORDS],
            mask: [0; WORDS],
        };
        let mut number = 0;
        while number < OCTETS {
            let (place, value, mask) = octets[number];
            let (word, shift) = (place / 8, place % 8 * 8);
            form.octets[word] |= ((value & mask) as u64) << shift;
            form.mask[word] |= (mask as u64) << shift;
            number += 1;
        }
        form
    }

    /// Whether headers start as this form does; false where they are shorter.
    #[inline(always)]
    fn is_of(&self, headers: &[u8]) -> bool {
        let (words, _) = headers.as_chunks::<8>();
        let Some(words) = words.first_chunk::<WORDS>() else {
            return false;
        };
        let mut differences = 0;
        for (number, word) in words.iter().enumerate() {
            differences |= (u64::from_le_bytes(*word) ^ self.octets[number]) & self.mask[number];
        }
        differences == 0
    }
}

/// All bits of an octet.
const ALL: u8 = 0xff;
/// The bits of the octet with an IPv4 packet's flags of which a whole packet has none.
const FRAGMENT: u8 = ((ipv4::MORE_FRAGMENTS | ipv4::FRAGMENT_OFFSET) >> 8) as u8;
/// Octets of an IPv4 header without options and of the shortest UDP datagram behind it.
const START_LEN: usize = ipv4::HEADER_LEN + udp::HEADER_LEN;

const PLAIN: Form<1> = Form::new([(0, 0x45, ALL), (6, 0, FRAGMENT), (7, 0, ALL)]);

const MARKED: Form<7> = Form::new([
    (0, 0x45, ALL),
    (6, 0, FRAGMENT),
    (7, 0, ALL),
    (9, proto::UDP, ALL),
    (28, flags::VERSION_1 | flags::E, ALL),
    (29, MessageType::G_PDU.0, ALL),
    (39, ExtensionType::PDU_SESSION_CONTAINER.0, ALL),
    (40, 1, ALL),
    (43, ExtensionType::NONE.0, ALL),
    (44, 0x45, ALL),
    (50, 0, FRAGMENT),
    (51, 0, ALL),
]);

const UNMARKED: Form<6> = Form::new([
    (0, 0x45, ALL),
    (6, 0, FRAGMENT),
    (7, 0, ALL),
    (9, proto::UDP, ALL),
    (28, flags::VERSION_1, ALL),
    (29, MessageType::G_PDU.0, ALL),
    (36, 0x45, ALL),
    (42, 0, FRAGMENT),
    (43, 0, ALL),
]);

/// Looks at the packet that starts at `packet[0]` with its IPv4 header, as at one that no tunnel carries.
/// `available` is how many octets were received from there on, of which `packet` holds at least the headers. `None`
/// when it is of another form.
#[inline(always)]
pub fn plain(packet: &[u8], available: usize) -> Option<Previewed> {
    let headers = packet.first_chunk()?;
    if !PLAIN.is_of(headers) {
        return None;
    }
    fields(headers, available)
}

/// The same as at a G-PDU: `packet[0]` is that of its outer IPv4 header.
#[inline(always)]
pub fn gpdu(packet: &[u8], available: usize) -> Option<PreviewedGpdu> {
    let (outer, _) = Outer::ref_from_prefix(packet).ok()?;
    // What distinguishes tunnelled packets from others comes first.
    if outer.udp.dst_port.get() != gtpu::PORT || !outer.has_room(available) {
        return None;
    }
    let message = outer.message_len();
    let (qfi, inner) = if let Some(headers) = packet.first_chunk::<{ OUTER_LEN + MARKED_LEN + START_LEN }>()
        && MARKED.is_of(headers)
    {
        let (qfi, _) = psc::Summary::of_short(headers[41], headers[42])?;
        let inner = headers.last_chunk()?;
        (Some(qfi), fields(inner, message.checked_sub(MARKED_LEN)?)?)
    } else {
        let headers = packet.first_chunk::<{ OUTER_LEN + START_LEN }>()?;
        let inner = headers.last_chunk()?;
        UNMARKED.is_of(headers).then_some(())?;
        (None, fields(inner, message)?)
    };
    Some(PreviewedGpdu {
        destination: outer.ip.dst,
        teid: Teid(outer.gtpu.teid.get()),
        qfi,
        inner,
    })
}

/// The fields behind a form, where the packet is whole.
#[inline(always)]
fn fields(headers: &[u8; START_LEN], available: usize) -> Option<Previewed> {
    let (total, protocol) = (be16(headers, 2), headers[9]);
    let is_whole = total <= available && total >= ipv4::HEADER_LEN + L4::common_len(protocol);
    is_whole.then_some(Previewed {
        source: [headers[12], headers[13], headers[14], headers[15]],
        destination: [headers[16], headers[17], headers[18], headers[19]],
        ports: [be16(headers, 20) as u16, be16(headers, 22) as u16],
        protocol,
        tos: headers[1],
    })
}

#[inline(always)]
fn be16<const OCTETS: usize>(headers: &[u8; OCTETS], at: usize) -> usize {
    u16::from_be_bytes([headers[at], headers[at + 1]]).into()
}
