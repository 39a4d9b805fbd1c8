//! Encapsulation: outer IP, UDP and GTP-U of a tunnel, and Ethernet.
//!
//! The outer headers are written here in one piece; they are the same, octet for octet, as
//! [`packet::build::GtpuTemplate`] makes.

use flow::{Forward, ForwardFlags, Mark, OuterAddresses, PackedForward};
use packet::build::{Marking, RelayedContainer, relay_optional_part};
use packet::eth::ether_type;
use packet::gtpu::{self, ExtensionHeader, ExtensionType, MessageType, flags};
use packet::psc::PduType;
use packet::tuple::proto;
use packet::{Addrs, DropReason, GtpuFrame, PacketBuf, Ppi, Qfi, ipv4, ipv6, udp};
use transport::Adjacency;
use zerocopy::{Immutable, IntoBytes};

use crate::burst::descriptor::Tunnel;
use crate::egress::checksum_offload::UdpChecksum;
use crate::ingress::parse::read_again;

/// Octets of IPv4, UDP and the mandatory part of GTP-U.
pub(crate) const OUTER_V4: usize = ipv4::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// Octets of IPv6, UDP and the mandatory part of GTP-U.
const OUTER_V6: usize = ipv6::HEADER_LEN + udp::HEADER_LEN + gtpu::HEADER_LEN;
/// The longest optional part of a GTP-U header that is relayed, octets.
const MAX_OPTIONAL: usize = 1024;

/// What comes between the mandatory GTP-U header and the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Optional {
    /// Nothing.
    None,
    /// A PDU Session Container alone: the optional part of the GTP-U header and 4 octets of it.
    Short([u8; 8]),
    /// The same with a Paging Policy Indicator: 8 octets of it.
    Long([u8; 12]),
    /// The contents of the [`Chain`].
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
    /// The optional header that a mark requires in a tunnel. Service classes are of downlink packets (TS 29.244
    /// §5.4.12).
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

/// The PDU Session Container that a QER's mark requires in a tunnel.
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

/// What a QER's mark asks for, as far as it is short: `Long` is any container that is not.
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
    /// No extension headers.
    pub const EMPTY: Self = Self::new();

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
        self.len = relay_optional_part(&message, container, added, &mut self.octets)?.octets;
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
    /// What computes its checksum over IPv6; over IPv4 it has none.
    pub sum: UdpChecksum,
}

impl Message<'_> {
    /// Makes the packet this message. `addresses_v6` has both addresses of a tunnel over IPv6, ours first.
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
        let (source, destination) = (forward.source_v4(), forward.destination_v4());
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
            gtpu: self.gtpu(total - OUTER_V4 as u16, extended),
        };
        zerocopy::transmute!(headers)
    }

    fn put_on_v6<B: PacketBuf>(
        &self,
        buf: &mut B,
        optional: &[u8],
        (src, dst): ([u8; 16], [u8; 16]),
    ) -> Result<(), DropReason> {
        let l2 = self.adjacency.header();
        let len = udp::HEADER_LEN + gtpu::HEADER_LEN + optional.len() + self.cut.octets;
        let len = u16::try_from(len).map_err(|_| DropReason::TooBig)?;
        self.cut
            .hop
            .make(buf.reframe(self.cut.offset, self.cut.octets, 0)?)?;
        let asks = self.sum == UdpChecksum::Offloaded && buf.ask_udp_checksum(l2.len() + 2);
        let payload = (!asks).then(|| buf.sum_from(0));
        let room = buf
            .prepend(l2.len() + 2 + OUTER_V6 + optional.len())
            .ok_or(DropReason::NoHeadroom)?;
        let (head, headers) = room
            .split_at_mut_checked(l2.len() + 2)
            .ok_or(DropReason::NoHeadroom)?;
        let (outer, variable) = headers
            .split_first_chunk_mut::<OUTER_V6>()
            .ok_or(DropReason::NoHeadroom)?;
        variable
            .get_mut(..optional.len())
            .ok_or(DropReason::NoHeadroom)?
            .copy_from_slice(optional);
        write_l2(head, l2, ether_type::IPV6)?;
        *outer = self.outer_v6(len, !optional.is_empty(), (src, dst));
        let datagram = headers
            .get_mut(ipv6::HEADER_LEN..)
            .ok_or(DropReason::NoHeadroom)?;
        let addrs = Addrs::V6 { src, dst };
        match payload {
            Some(payload) => udp::fill_checksum(&addrs, datagram, payload),
            None => udp::leave_checksum(&addrs, datagram),
        }
        .ok_or(DropReason::NoHeadroom)
    }

    /// The headers of a UDP datagram of `len` octets over IPv6: hop limit 64, no flow label, a checksum of 0.
    fn outer_v6(&self, len: u16, extended: bool, (src, dst): ([u8; 16], [u8; 16])) -> [u8; OUTER_V6] {
        let forward = self.forward;
        let headers = OuterV6 {
            ip: ipv6::Header {
                version_class_flow: (6 << 28 | u32::from(forward.tos()) << 20).into(),
                payload_len: len.into(),
                next_header: proto::UDP,
                hop_limit: 64,
                src,
                dst,
            },
            udp: udp::Header {
                src_port: forward.source_port().into(),
                dst_port: gtpu::PORT.into(),
                len: len.into(),
                checksum: 0.into(),
            },
            gtpu: self.gtpu(len - (udp::HEADER_LEN + gtpu::HEADER_LEN) as u16, extended),
        };
        zerocopy::transmute!(headers)
    }

    /// The mandatory part of the GTP-U header, with `length` octets behind it.
    #[inline(always)]
    fn gtpu(&self, length: u16, extended: bool) -> gtpu::Header {
        gtpu::Header {
            flags: flags::VERSION_1 | if extended { flags::E } else { 0 },
            message_type: self.message_type.0,
            length: length.into(),
            teid: self.forward.teid().into(),
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

/// The outer headers of a tunnel over IPv6.
#[derive(IntoBytes, Immutable)]
#[repr(C)]
struct OuterV6 {
    ip: ipv6::Header,
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

/// Both addresses of a tunnel over IPv6, ours first.
#[cold]
pub(crate) fn addresses_v6(forward: &Forward) -> Result<([u8; 16], [u8; 16]), DropReason> {
    match forward.template.map(|template| template.addresses) {
        Some(OuterAddresses::V6 { source, destination }) => Ok((source, destination)),
        _ => Err(DropReason::FarNoTunnel),
    }
}

#[cfg(test)]
mod tests {
    use flow::{ForwardKind, Template};
    use packet::build::{GtpuEncap, GtpuTemplate, fill_udp_checksum};
    use packet::checksum::Sum;
    use packet::{Teid, VecBuf, checksum};
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_short_way_makes_what_the_template_makes(
            addrs in prop_oneof![
                any::<([u8; 4], [u8; 4])>().prop_map(|(src, dst)| Addrs::V4 { src, dst }),
                any::<([u8; 16], [u8; 16])>().prop_map(|(src, dst)| Addrs::V6 { src, dst }),
            ],
            teid: u32, source_port: u16, tos: u8, len in 0usize..2000, qfi in proptest::option::of(0u8..64)
        ) {
            let marking = qfi.map(|qfi| Marking::downlink(Qfi::from_low_bits(qfi)));
            let template = match addrs {
                Addrs::V4 { src, dst } => Template::ipv4(teid, src, dst),
                Addrs::V6 { src, dst } => Template::ipv6(teid, src, dst),
            };
            let template = Template { source_port, tos, ..template };
            let forward = Forward { kind: ForwardKind::Tunnel, template: Some(template), ..Forward::DROP };
            let interface = crate::ingress::l3_interfaces::tests::interface();
            let message = Message {
                forward: &PackedForward::from(&forward),
                adjacency: &Adjacency::resolved(&interface, packet::MacAddr([2; 6])),
                message_type: MessageType::G_PDU,
                cut: Cut { offset: 3, octets: len, hop: Hop::None },
                sum: UdpChecksum::Software,
            };
            let mut buf = VecBuf::new(&vec![7; len + 9]);
            let optional = Optional::from(marking.map_or(Added::Nothing, Added::Container));
            let chain = Chain::new();
            let done = match (addrs, optional) {
                (Addrs::V4 { .. }, Optional::Short(container)) => message.put_on_marked(&mut buf, Some(&container)),
                (Addrs::V4 { .. }, _) => message.put_on_marked(&mut buf, None),
                (Addrs::V6 { src, dst }, _) => message.put_on(&mut buf, optional, &chain, || Ok((src, dst))),
            };
            done.expect("there is room");

            let encap = GtpuEncap { src_port: source_port, tos, ..GtpuEncap::new(addrs, Teid(teid)) };
            let slow = GtpuTemplate::new(&encap);
            let mut headers = vec![0; slow.header_len(marking)];
            slow.apply(&mut headers, len, marking).expect("it fits");
            match addrs {
                Addrs::V4 { .. } => prop_assert!(checksum::is_right(&headers[..20])),
                Addrs::V6 { .. } => {
                    fill_udp_checksum(&mut headers, Sum::default().bytes(&vec![7; len])).expect("headers");
                }
            }
            prop_assert_eq!(&buf.data()[14..14 + headers.len()], &headers[..]);
        }
    }
}
