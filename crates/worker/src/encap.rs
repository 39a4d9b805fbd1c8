//! The headers that go on: outer IP, UDP and GTP-U of a tunnel, and Ethernet.
//!
//! The IPv4 outer header is written here in one piece; it is the same, octet for octet, as
//! [`packet::build::GtpuTemplate`] makes, which serves IPv6.

use flow::{ForwardFlags, Mark, PackedForward};
use packet::build::{
    GtpuEncap, GtpuTemplate, Marking, PerPacket, RelayedContainer, fill_udp_checksum, leave_udp_checksum,
    relay_optional_part,
};
use packet::eth::ether_type;
use packet::gtpu::{self, ExtensionHeader, ExtensionType, MessageType, flags};
use packet::psc::PduType;
use packet::tuple::proto;
use packet::{Addrs, DropReason, GtpuFrame, PacketBuf, Ppi, Qfi, Teid, ipv4, ipv6, udp};
use transport::Adjacency;
use zerocopy::{Immutable, IntoBytes};

use crate::descriptor::Tunnel;
use crate::parse::read_again;
use crate::sums::UdpSum;

/// Octets of IPv4, UDP and the mandatory part of GTP-U.
pub(crate) const OUTER_V4: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// The longest optional part of a GTP-U header that is relayed, octets.
const MAX_OPTIONAL: usize = 1024;
/// Octets of IPv6, UDP and the mandatory part of GTP-U.
const OUTER_V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;

/// What comes between the mandatory GTP-U header and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optional {
    /// Nothing.
    None,
    /// A PDU Session Container alone: the optional part of the GTP-U header and 4 octets of it.
    Short([u8; 8]),
    /// The same with a Paging Policy Indicator: 8 octets of it.
    Long([u8; 12]),
    /// What lies in the [`Chain`].
    Chain,
}

impl Optional {
    /// Octets.
    #[inline(always)]
    pub fn len(self, chain: &Chain) -> usize {
        match self {
            Self::None => 0,
            Self::Short(_) => 8,
            Self::Long(_) => 12,
            Self::Chain => chain.len,
        }
    }
}

/// What a QER's mark adds to the GTP-U header of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Added {
    /// Nothing.
    Nothing,
    /// A PDU Session Container.
    Container(Marking),
    /// The extension header of this Service Class Indicator.
    ServiceClass(u8),
}

impl Added {
    /// What a mark asks for in a tunnel. Service classes are of downlink packets (TS 29.244 §5.4.12).
    #[inline(always)]
    pub fn of(flags: ForwardFlags, mark: Mark) -> Self {
        match (marking(flags, mark), mark.sci()) {
            (Some(marking), _) => Self::Container(marking),
            (None, Some(sci)) if marks_service_class(flags) => Self::ServiceClass(sci),
            _ => Self::Nothing,
        }
    }
}

#[inline(always)]
fn marks_service_class(flags: ForwardFlags) -> bool {
    flags.contains(ForwardFlags::NEEDS_MARKING) && !flags.contains(ForwardFlags::UPLINK_CONTAINER)
}

/// The optional part of the GTP-U header with the extension header of a Service Class Indicator (TS 29.281 §5.2.2.3).
#[inline(always)]
const fn service_class(sci: u8) -> [u8; 8] {
    [0, 0, 0, ExtensionType::SERVICE_CLASS_INDICATOR.0, 1, sci, 0, 0]
}

impl From<Added> for Optional {
    #[inline(always)]
    fn from(added: Added) -> Self {
        let marking = match added {
            Added::Nothing => return Self::None,
            Added::ServiceClass(sci) => return Self::Short(service_class(sci)),
            Added::Container(marking) => marking,
        };
        let octets = marking.octets();
        match octets.first_chunk() {
            Some(short) if marking.len() == 8 => Self::Short(*short),
            _ => Self::Long(octets),
        }
    }
}

/// The container that a QER's mark asks for in a tunnel.
#[inline(always)]
fn marking(flags: ForwardFlags, mark: Mark) -> Option<Marking> {
    if !flags.contains(ForwardFlags::NEEDS_MARKING) {
        return None;
    }
    let qfi = Qfi::from_low_bits(mark.qfi()?);
    if flags.contains(ForwardFlags::UPLINK_CONTAINER) {
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

/// What a QER's mark asks for, as far as it is short: `Long` stands for any container that is not.
#[inline(always)]
pub(crate) fn short_container(flags: ForwardFlags, mark: Mark) -> Optional {
    let Some(qfi) = mark.qfi().filter(|_| flags.contains(ForwardFlags::NEEDS_MARKING)) else {
        return match mark.sci().filter(|_| marks_service_class(flags)) {
            Some(sci) => Optional::Short(service_class(sci)),
            None => Optional::None,
        };
    };
    const PSC: u8 = ExtensionType::PDU_SESSION_CONTAINER.0;
    if flags.contains(ForwardFlags::UPLINK_CONTAINER) {
        return Optional::Short([0, 0, 0, PSC, 1, (PduType::Uplink as u8) << 4, qfi, 0]);
    }
    if mark.ppi().is_some() {
        return Optional::Long([0; 12]);
    }
    let rqi = u8::from(mark.rqi()) << 6;
    Optional::Short([0, 0, 0, PSC, 1, (PduType::Downlink as u8) << 4, rqi | qfi, 0])
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
    /// that is `added`, else the received one if `keeps_psc`; then the service class that is added, and the others,
    /// except those of the same type and unknown ones that a node in the middle takes out.
    ///
    /// # Errors
    /// [`DropReason::NoHeadroom`] when the chain is longer than fits, and as [`relay_optional_part`].
    pub fn collect<B: PacketBuf>(
        &mut self,
        buf: &B,
        tunnel: &Tunnel,
        added: Added,
        keeps_psc: bool,
    ) -> Result<Optional, DropReason> {
        let relays_psc = !matches!(added, Added::Container(_)) && keeps_psc && tunnel.has_psc;
        if !tunnel.has_other_extensions && !relays_psc {
            return Ok(added.into());
        }
        let container = match added {
            Added::Container(marking) => RelayedContainer::Replace(marking),
            _ if relays_psc => RelayedContainer::Keep,
            _ => RelayedContainer::Delete,
        };
        let sci = match added {
            Added::ServiceClass(sci) => Some([sci, 0]),
            _ => None,
        };
        let added = sci.as_ref().map(|content| ExtensionHeader {
            kind: ExtensionType::SERVICE_CLASS_INDICATOR,
            content,
        });
        self.build(buf.data(), &read_again(buf)?, container, added)
    }

    #[cold]
    fn build(
        &mut self,
        frame: &[u8],
        gtpu: &GtpuFrame,
        container: RelayedContainer,
        added: Option<ExtensionHeader<'_>>,
    ) -> Result<Optional, DropReason> {
        let mut message = gtpu.message(frame)?;
        // They count in the tunnel that the message came in.
        (message.sequence, message.npdu) = (None, None);
        (_, self.len) = relay_optional_part(&message, container, added, &mut self.octets)?;
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
#[inline(always)]
pub(crate) fn outer_len(forward: &PackedForward) -> usize {
    match forward.version() {
        0 => 0,
        4 => OUTER_V4,
        _ => OUTER_V6,
    }
}

/// What a packet is cut out of, and what goes before it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Cut {
    /// Octets before the packet that stays.
    pub offset: usize,
    /// Octets of it.
    pub octets: usize,
    /// Whether it is IPv4 and has a TTL to be decremented; or IPv6; or nothing that is routed here.
    pub hop: Hop,
}

/// The hop that a packet makes here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hop {
    /// None: from tunnel to tunnel.
    None,
    V4,
    V6,
}

impl Hop {
    /// That of a packet of this family, if it is routed here.
    #[inline(always)]
    pub const fn of(routed: bool, is_v4: bool) -> Self {
        match (routed, is_v4) {
            (false, _) => Self::None,
            (true, true) => Self::V4,
            (true, false) => Self::V6,
        }
    }

    /// Makes the hop: `packet` starts with an IP header.
    #[inline(always)]
    fn make(self, packet: &mut [u8]) -> Result<(), DropReason> {
        match self {
            Self::None => Ok(()),
            Self::V4 => ipv4::decrement_ttl(packet),
            Self::V6 => ipv6::decrement_hop_limit(packet),
        }
    }
}

/// Makes the packet a plain one in Ethernet.
///
/// # Errors
/// [`DropReason::BadIpLength`], [`DropReason::NoHeadroom`], [`DropReason::TtlExpired`].
#[inline(always)]
pub(crate) fn plain<B: PacketBuf>(
    buf: &mut B,
    cut: Cut,
    is_v4: bool,
    adjacency: &Adjacency,
) -> Result<(), DropReason> {
    let l2 = adjacency.header();
    let data = buf.reframe(cut.offset, cut.octets, l2.len() + 2)?;
    let (head, packet) = data
        .split_at_mut_checked(l2.len() + 2)
        .ok_or(DropReason::NoHeadroom)?;
    cut.hop.make(packet)?;
    write_l2(head, l2, if is_v4 { ether_type::IPV4 } else { ether_type::IPV6 })
}

#[inline(always)]
fn write_l2(room: &mut [u8], l2: &[u8], kind: u16) -> Result<(), DropReason> {
    let [high, low] = kind.to_be_bytes();
    // Without a tag and with one, of lengths that the compiler knows.
    if let (Some(to), Some(from)) = (
        room.first_chunk_mut::<14>().filter(|_| l2.len() == 12),
        l2.first_chunk::<12>(),
    ) {
        to[..12].copy_from_slice(from);
        (to[12], to[13]) = (high, low);
        return Ok(());
    }
    if let (Some(to), Some(from)) = (
        room.first_chunk_mut::<18>().filter(|_| l2.len() == 16),
        l2.first_chunk::<16>(),
    ) {
        to[..16].copy_from_slice(from);
        (to[16], to[17]) = (high, low);
        return Ok(());
    }
    let (before, rest) = room
        .split_at_mut_checked(l2.len())
        .ok_or(DropReason::NoHeadroom)?;
    before.copy_from_slice(l2);
    rest.copy_from_slice(&[high, low]);
    Ok(())
}

/// A message that goes into a tunnel.
pub(crate) struct Message<'a> {
    /// The tunnel, but for its addresses if they are IPv6.
    pub forward: &'a PackedForward,
    /// The neighbour that it leads over.
    pub adjacency: &'a Adjacency,
    /// What kind of message.
    pub message_type: MessageType,
    /// What its payload is cut out of.
    pub cut: Cut,
    /// Who computes its checksum if it goes over IPv6; over IPv4 it has none.
    pub sum: UdpSum,
}

impl Message<'_> {
    /// Makes the packet this message. `addresses_v6` tells both addresses of a tunnel over IPv6, ours first.
    ///
    /// # Errors
    /// [`DropReason::TooBig`], [`DropReason::BadIpLength`], [`DropReason::NoHeadroom`], [`DropReason::TtlExpired`],
    /// and those of `addresses_v6`.
    #[cold]
    pub fn put_on<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: Optional,
        chain: &Chain,
        addresses_v6: impl FnOnce() -> Result<([u8; 16], [u8; 16]), DropReason>,
    ) -> Result<(), DropReason> {
        let (short, long);
        let optional = match optional {
            Optional::None => &[][..],
            Optional::Short(octets) => {
                short = octets;
                &short
            }
            Optional::Long(octets) => {
                long = octets;
                &long
            }
            Optional::Chain => chain.octets(),
        };
        if self.forward.version() == 6 {
            return self.put_on_v6(buf, optional, addresses_v6()?);
        }
        let optional_room = self.put_on_v4(buf, optional.len())?;
        optional_room.copy_from_slice(optional);
        Ok(())
    }

    /// Makes the packet this message, in a tunnel over IPv4, with this or no optional part.
    ///
    /// # Errors
    /// As [`put_on`](Self::put_on).
    #[inline(always)]
    pub fn put_on_marked<B: PacketBuf>(
        &self,
        buf: &mut B,
        container: Option<&[u8; 8]>,
    ) -> Result<(), DropReason> {
        let room = self.put_on_v4(buf, if container.is_some() { 8 } else { 0 })?;
        if let (Some(room), Some(container)) = (room.first_chunk_mut(), container) {
            *room = *container;
        }
        Ok(())
    }

    /// Writes all headers but the optional part, whose room it gives.
    #[inline(always)]
    fn put_on_v4<'b, B: PacketBuf>(
        &self,
        buf: &'b mut B,
        optional_len: usize,
    ) -> Result<&'b mut [u8], DropReason> {
        let l2 = self.adjacency.header();
        let total = OUTER_V4 + optional_len + self.cut.octets;
        let total = u16::try_from(total).map_err(|_| DropReason::TooBig)?;
        let head = l2.len() + 2 + OUTER_V4 + optional_len;
        let data = buf.reframe(self.cut.offset, self.cut.octets, head)?;
        let (l2_room, rest) = data
            .split_at_mut_checked(l2.len() + 2)
            .ok_or(DropReason::NoHeadroom)?;
        let (outer, rest) = rest
            .split_first_chunk_mut::<OUTER_V4>()
            .ok_or(DropReason::NoHeadroom)?;
        let (variable, packet) = rest
            .split_at_mut_checked(optional_len)
            .ok_or(DropReason::NoHeadroom)?;
        self.cut.hop.make(packet)?;
        write_l2(l2_room, l2, ether_type::IPV4)?;
        *outer = self.outer_v4(total, optional_len > 0);
        Ok(variable)
    }

    /// The headers of an IPv4 packet of `total` octets: TTL 64, DF, identification 0, no UDP checksum.
    #[inline(always)]
    fn outer_v4(&self, total: u16, extended: bool) -> [u8; OUTER_V4] {
        let forward = self.forward;
        let (source, destination) = forward.addresses_v4();
        let tos = forward.tos();
        let headers = OuterV4 {
            ip: ipv4::Header {
                version_ihl: 0x45,
                tos,
                total_len: total.into(),
                id: 0.into(),
                fragment: ipv4::DONT_FRAGMENT.into(),
                ttl: 64,
                proto: proto::UDP,
                checksum: checksum_v4(tos, total, source, destination).into(),
                src: source,
                dst: destination,
            },
            udp: udp::Header {
                src_port: forward.source_port().into(),
                dst_port: gtpu::PORT.into(),
                len: (total - ipv4::HEADER_LEN as u16).into(),
                checksum: 0.into(),
            },
            gtpu: gtpu::Header {
                flags: flags::VERSION_1 | if extended { flags::E } else { 0 },
                message_type: self.message_type.0,
                length: (total - OUTER_V4 as u16).into(),
                teid: forward.teid().into(),
            },
        };
        zerocopy::transmute!(headers)
    }

    #[cold]
    fn put_on_v6<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: &[u8],
        (src, dst): ([u8; 16], [u8; 16]),
    ) -> Result<(), DropReason> {
        let encap = GtpuEncap {
            src_port: self.forward.source_port(),
            tos: self.forward.tos(),
            ..GtpuEncap::new(Addrs::V6 { src, dst }, Teid(self.forward.teid()))
        };
        let template = GtpuTemplate::new(&encap);
        let l2 = self.adjacency.header();
        let outer_len = template.header_len(None) + optional.len();
        self.cut
            .hop
            .make(buf.reframe(self.cut.offset, self.cut.octets, 0)?)?;
        let asks = self.sum == UdpSum::Port && buf.ask_udp_checksum(l2.len() + 2);
        let payload = (!asks).then(|| buf.sum_from(0));
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
        template.apply_optional(outer, self.cut.octets, flags, &packet)?;
        match payload {
            Some(payload) => fill_udp_checksum(outer, payload),
            None => leave_udp_checksum(outer),
        }
    }
}

/// The outer headers of a tunnel over IPv4.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct OuterV4 {
    ip: ipv4::Header,
    udp: udp::Header,
    gtpu: gtpu::Header,
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
    use flow::{Forward, ForwardKind, Template};
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
            let forward = Forward { kind: ForwardKind::Tunnel, template: Some(template), ..Forward::DROP };
            let interface = crate::places::tests::interface();
            let message = Message {
                forward: &PackedForward::from(&forward),
                adjacency: &Adjacency::resolved(&interface, packet::MacAddr([2; 6])),
                message_type: MessageType::G_PDU,
                cut: Cut { offset: 3, octets: len, hop: Hop::None },
                sum: UdpSum::Ours,
            };
            let mut buf = VecBuf::new(&vec![7; len + 9]);
            let container = match Optional::from(marking.map_or(Added::Nothing, Added::Container)) {
                Optional::Short(container) => Some(container),
                _ => None,
            };
            message.put_on_marked(&mut buf, container.as_ref()).expect("there is room");

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
