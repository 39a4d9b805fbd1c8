//! IEs that say what is done with a packet: forwarded, buffered, given or rid of headers.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Leaf;
use super::fields::{Field, Flagged, Octets8, Octets16};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

growing_flags! {
    /// What is done with packets. Exactly one of DROP, FORW, BUFF, IPMA and IPMD is to be set.
    ApplyAction: u64, 1 to 8 octets = 44, "§8.2.26" {
        DROP = 5/1 "Drop",
        FORW = 5/2 "Forward",
        BUFF = 5/3 "Buffer",
        NOCP = 5/4 "Notify the CP function of the first buffered downlink packet",
        DUPL = 5/5 "Duplicate",
        IPMA = 5/6 "Accept joining an IP multicast group",
        IPMD = 5/7 "Deny joining an IP multicast group",
        DFRT = 5/8 "Duplicate for redundant transmission",
        EDRT = 6/1 "Eliminate duplicates of redundant transmission",
        BDPN = 6/2 "Notify the CP function of the first buffered downlink packet, for delivery status",
        DDPN = 6/3 "Notify the CP function of the first discarded downlink packet",
        FSSM = 6/4 "Forward to a lower layer SSM",
        MBSU = 6/5 "Forward and replicate MBS data by unicast",
    }
}

codes! {
    /// The side a packet goes to.
    DestinationInterface & 0x0f = 42, "§8.2.24" {
        ACCESS = 0 "Access",
        CORE = 1 "Core",
        SGI_LAN = 2 "SGi-LAN/N6-LAN",
        CP_FUNCTION = 3 "CP-function",
        LI_FUNCTION = 4 "LI Function",
        FIVE_G_VN_INTERNAL = 5 "5G VN Internal",
    }
}

flags! {
    /// Flags of a Session Modification Request, some of which also stand in Update Forwarding Parameters.
    PfcpSmReqFlags = 49, "§8.2.31" {
        DROBU = 0x01 "Drop the buffered packets",
        SNDEM = 0x02 "Send End Markers to the old F-TEID",
        QAURR = 0x04 "Report all URRs at once",
        SUMPC = 0x08 "Stop usage measurement, to pause charging",
        RUMUC = 0x10 "Resume usage measurement",
        DETEID = 0x20 "Delete all downlink N3mb and N19mb F-TEIDs",
    }
    /// Flags of a Session Establishment Request.
    PfcpSeReqFlags = 186, "§8.2.136" {
        RESTI = 0x01 "The session restores one that was",
        SUMPC = 0x02 "Stop usage measurement, to pause charging",
    }
    /// Flags of a Session Report Request.
    PfcpSrReqFlags = 161, "§8.2.119" {
        PSDBU = 0x01 "The UP function deletes the session",
    }
    /// Flags of a Session Report Response.
    PfcpSrRspFlags = 50, "§8.2.32" {
        DROBU = 0x01 "Drop the buffered packets",
    }
    /// Flags of a Session Deletion Response.
    PfcpSdRspFlags = 318, "§8.2.215" {
        PURU = 0x01 "Usage reports are on their way, not yet acknowledged",
    }
    /// Which requests of the UE's the UP function answers itself.
    Proxying = 137, "§8.2.97" {
        ARP = 0x01 "ARP",
        INS = 0x02 "IPv6 Neighbour Solicitation",
    }
    /// Whether the sum of downlink packets' sizes is to be reported.
    MtEdtControlInformation = 249, "§8.2.172" {
        RDSI = 0x01 "Report the size",
    }
    /// When copies of a packet are made, and whether other PDRs are looked at too.
    PacketReplicationAndDetectionCarryOnInformation = 179, "§8.2.130" {
        PRIUEAI = 0x01 "No copy of a packet that came from the session's UE",
        PRIN19I = 0x02 "No copy of a packet that came over N19",
        PRIN6I = 0x04 "No copy of a packet that came over N6",
        DCARONI = 0x08 "Continue with PDRs of other sessions",
    }
    /// Whether Reliable Data Service applies.
    RdsConfigurationInformation = 262, "§8.2.180" {
        RDS = 0x01 "Reliable Data Service",
    }
}

numbers_of_octets! {
    /// DSCP and mask (0xfc) to set in the outer header: ToS or Traffic Class.
    TransportLevelMarking: 2 = 30, "§8.2.12";
}

numbers! {
    /// How long to wait before the CP function is notified of a packet, in units of 50 ms. 0: no longer.
    DownlinkDataNotificationDelay: u8 = 46, "§8.2.28";
    /// How many packets, of both directions, to buffer.
    SuggestedBufferingPacketsCount: u8 = 140, "§8.2.100";
}

octets! {
    /// An access to a local data network (TS 23.501 §5.6.7).
    DataNetworkAccessIdentifier = 232, "§8.2.161";
}

/// The outer header to add (IE type 84, TS 29.244 §8.2.56).
///
/// `description` decides which fields are there; use [`OuterHeaderCreation::gtp_u`] for the common one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterHeaderCreation {
    /// One or more of the constants.
    pub description: u16,
    /// With GTP-U.
    pub teid: Option<super::Teid>,
    /// With any header over IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// With any header over IPv6.
    pub ipv6: Option<Ipv6Addr>,
    /// With UDP.
    pub port: Option<u16>,
    /// With C-TAG: in the form of the IE C-TAG.
    pub c_tag: Option<[u8; 3]>,
    /// With S-TAG: in the form of the IE S-TAG.
    pub s_tag: Option<[u8; 3]>,
}

impl OuterHeaderCreation {
    /// GTP-U/UDP/IPv4.
    pub const GTP_U_UDP_IPV4: u16 = 0x0100;
    /// GTP-U/UDP/IPv6.
    pub const GTP_U_UDP_IPV6: u16 = 0x0200;
    /// UDP/IPv4.
    pub const UDP_IPV4: u16 = 0x0400;
    /// UDP/IPv6.
    pub const UDP_IPV6: u16 = 0x0800;
    /// IPv4.
    pub const IPV4: u16 = 0x1000;
    /// IPv6.
    pub const IPV6: u16 = 0x2000;
    /// C-TAG.
    pub const C_TAG: u16 = 0x4000;
    /// S-TAG.
    pub const S_TAG: u16 = 0x8000;
    /// N19 Indication.
    pub const N19_INDICATION: u16 = 0x0001;
    /// N6 Indication.
    pub const N6_INDICATION: u16 = 0x0002;
    /// Low Layer SSM and C-TEID.
    pub const LOW_LAYER_SSM_AND_C_TEID: u16 = 0x0004;

    /// GTP-U to a peer, at one address or two.
    pub fn gtp_u(teid: super::Teid, ipv4: Option<Ipv4Addr>, ipv6: Option<Ipv6Addr>) -> Self {
        let v4 = if ipv4.is_some() { Self::GTP_U_UDP_IPV4 } else { 0 };
        let v6 = if ipv6.is_some() { Self::GTP_U_UDP_IPV6 } else { 0 };
        Self {
            description: v4 | v6,
            teid: Some(teid),
            ipv4,
            ipv6,
            port: None,
            c_tag: None,
            s_tag: None,
        }
    }

    /// Whether any header of `kinds` is to be added.
    pub const fn adds(&self, kinds: u16) -> bool {
        self.description & kinds != 0
    }
}

impl<'a> Leaf<'a> for OuterHeaderCreation {
    const LEAF_TYPE: IeType = IeType::OUTER_HEADER_CREATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let description = r.u16()?;
        if let (Self::GTP_U_UDP_IPV4, Some((fields, _))) = (description, r.rest().split_first_chunk::<8>()) {
            let [t1, t2, t3, t4, ipv4 @ ..] = *fields;
            let teid = super::Teid(u32::from_be_bytes([t1, t2, t3, t4]));
            r.take(8)?;
            return Ok(Self::gtp_u(teid, Some(Ipv4Addr::from(ipv4)), None));
        }
        let with = |kinds: u16| description & kinds != 0;
        Ok(Self {
            description,
            teid: Flagged::read(r, with(Self::GTP_U_UDP_IPV4 | Self::GTP_U_UDP_IPV6))?,
            ipv4: Flagged::read(r, with(Self::GTP_U_UDP_IPV4 | Self::UDP_IPV4 | Self::IPV4))?,
            ipv6: Flagged::read(r, with(Self::GTP_U_UDP_IPV6 | Self::UDP_IPV6 | Self::IPV6))?,
            port: Flagged::read(r, with(Self::UDP_IPV4 | Self::UDP_IPV6))?,
            c_tag: Flagged::read(r, with(Self::C_TAG))?,
            s_tag: Flagged::read(r, with(Self::S_TAG))?,
        })
    }

    #[inline]
    fn is_surely_good(value: &[u8]) -> bool {
        matches!(value, [0x01, 0x00, ..]) && value.len() >= 10
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u16(self.description)?;
        let w = Flagged::write(&self.teid, w)?;
        let w = Flagged::write(&self.ipv4, w)?;
        let w = Flagged::write(&self.ipv6, w)?;
        let w = Flagged::write(&self.port, w)?;
        let w = Flagged::write(&self.c_tag, w)?;
        Flagged::write(&self.s_tag, w)
    }
}

impl<'a> Field<'a> for super::Teid {
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.u32().map(Self)
    }

    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u32(self.0)
    }
}

/// The outer header to take off (IE type 95, TS 29.244 §8.2.64).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OuterHeaderRemoval {
    /// One of the constants; others are spare.
    pub description: u8,
    /// GTP-U Extension Header Deletion, if the octet is there: bit 1, the PDU Session Container.
    pub extension_header_deletion: Option<u8>,
}

impl OuterHeaderRemoval {
    /// GTP-U/UDP/IPv4.
    pub const GTP_U_UDP_IPV4: Self = Self::of(0);
    /// GTP-U/UDP/IPv6.
    pub const GTP_U_UDP_IPV6: Self = Self::of(1);
    /// UDP/IPv4.
    pub const UDP_IPV4: Self = Self::of(2);
    /// UDP/IPv6.
    pub const UDP_IPV6: Self = Self::of(3);
    /// IPv4.
    pub const IPV4: Self = Self::of(4);
    /// IPv6.
    pub const IPV6: Self = Self::of(5);
    /// GTP-U/UDP/IP, of either version.
    pub const GTP_U_UDP_IP: Self = Self::of(6);
    /// One VLAN tag.
    pub const VLAN_TAG_POP: Self = Self::of(7);
    /// Two VLAN tags.
    pub const VLAN_TAGS_POP_POP: Self = Self::of(8);

    const fn of(description: u8) -> Self {
        Self {
            description,
            extension_header_deletion: None,
        }
    }

    /// Whether GTP-U is to be taken off, over IPv4, IPv6 or either.
    pub const fn is_gtp_u(self) -> bool {
        matches!(self.description, 0 | 1 | 6)
    }

    /// Whether the PDU Session Container is to be deleted rather than kept for forwarding.
    pub const fn deletes_pdu_session_container(self) -> bool {
        matches!(self.extension_header_deletion, Some(octet) if octet & 0x01 != 0)
    }
}

impl<'a> Leaf<'a> for OuterHeaderRemoval {
    const LEAF_TYPE: IeType = IeType::OUTER_HEADER_REMOVAL;

    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let description = r.u8()?;
        let there = !r.rest().is_empty();
        Ok(Self {
            description,
            extension_header_deletion: Flagged::read(r, there)?,
        })
    }

    #[inline]
    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.description)?;
        Flagged::write(&self.extension_header_deletion, w)
    }
}

/// Where traffic is redirected to (IE type 38, TS 29.244 §8.2.20).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct RedirectInformation<'a> {
    /// 0 IPv4 address, 1 IPv6 address, 2 URL, 3 SIP URI, 4 both addresses, 5 port, 6 IPv4 and port, 7 IPv6 and port,
    /// 8 both addresses and port.
    pub address_type: u8,
    /// The address, as text. Of an empty one the length octets are written all the same.
    pub address: Octets16<'a>,
    /// The other address, as text, where the type has two.
    pub other_address: Option<Octets16<'a>>,
    /// The port, where the type has one.
    pub port: Option<u16>,
}

impl RedirectInformation<'_> {
    const fn has_port(address_type: u8) -> bool {
        matches!(address_type, 5..=8)
    }
}

impl<'a> Leaf<'a> for RedirectInformation<'a> {
    const LEAF_TYPE: IeType = IeType::REDIRECT_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let address_type = r.u8()? & 0x0f;
        let address = Field::read(r)?;
        // R15 and R16 write the second length only with a second address, others always: it is there if octets are.
        let port_octets = if Self::has_port(address_type) { 2 } else { 0 };
        let other_address = Flagged::read(r, r.rest().len() > port_octets)?;
        let port = Flagged::read(r, Self::has_port(address_type))?;
        Ok(Self {
            address_type,
            address,
            other_address,
            port,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.address_type & 0x0f)?;
        let w = self.address.write(w)?;
        let w = Flagged::write(&self.other_address, w)?;
        Flagged::write(&self.port, w)
    }
}

/// A policy configured in the UP function (IE type 41, TS 29.244 §8.2.23).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ForwardingPolicy<'a> {
    /// Its name there.
    pub identifier: Octets8<'a>,
}

impl<'a> Leaf<'a> for ForwardingPolicy<'a> {
    const LEAF_TYPE: IeType = IeType::FORWARDING_POLICY;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            identifier: Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        self.identifier.write(w)
    }
}

/// A header field to add to requests (IE type 98, TS 29.244 §8.2.67).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeaderEnrichment<'a> {
    /// 0: HTTP.
    pub header_type: u8,
    /// The field's name.
    pub name: Octets8<'a>,
    /// The field's value.
    pub value: Octets8<'a>,
}

impl<'a> Leaf<'a> for HeaderEnrichment<'a> {
    const LEAF_TYPE: IeType = IeType::HEADER_ENRICHMENT;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            header_type: r.u8()? & 0x1f,
            name: Field::read(r)?,
            value: Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.header_type & 0x1f)?;
        let w = self.name.write(w)?;
        self.value.write(w)
    }
}

/// How many downlink packets to buffer (IE type 48, TS 29.244 §8.2.30), on one octet or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DlBufferingSuggestedPacketCount {
    /// Up to 255.
    Short(u8),
    /// Up to 65,535.
    Long(u16),
}

impl DlBufferingSuggestedPacketCount {
    /// The number of packets.
    pub const fn packets(self) -> u16 {
        match self {
            Self::Short(packets) => packets as u16,
            Self::Long(packets) => packets,
        }
    }
}

impl<'a> Leaf<'a> for DlBufferingSuggestedPacketCount {
    const LEAF_TYPE: IeType = IeType::DL_BUFFERING_SUGGESTED_PACKET_COUNT;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        if r.rest().len() == 1 {
            r.u8().map(Self::Short)
        } else {
            r.u16().map(Self::Long)
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Short(packets) => w.u8(*packets),
            Self::Long(packets) => w.u16(*packets),
        }
    }
}

flagged! {
    /// What a downlink packet that waits is about.
    DownlinkDataServiceInformation(u8) = 45, "§8.2.27" {
        0x01 /// PPI: the DSCP of the user's packet.
        paging_policy_indication: Option<u8>,
        0x02 /// QFII: the QoS flow.
        qfi: Option<u8>,
    }
    /// Addresses and ports to put in place of a packet's own. At least one address.
    IpAddressAndPortNumberReplacement(u16) = 293, "§8.2.200" {
        0x0100 /// The new destination.
        destination_ipv4: Option<Ipv4Addr>,
        0x0200 /// The new destination.
        destination_ipv6: Option<Ipv6Addr>,
        0x0400 /// The new destination port.
        destination_port: Option<u16>,
        0x0800 /// The new source.
        source_ipv4: Option<Ipv4Addr>,
        0x1000 /// The new source.
        source_ipv6: Option<Ipv6Addr>,
        0x2000 /// The new source port.
        source_port: Option<u16>,
    }
}
