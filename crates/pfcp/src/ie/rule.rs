//! IEs that identify rules, or that say what a packet has to match.

use super::Leaf;
use super::fields::{Octets8, Octets16};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// A Packet Detection Rule of a session.
    PdrId: u16 = 56, "§8.2.36";
    /// A Forwarding Action Rule of a session. The top bit set: predefined in the UP function.
    FarId: u32 = 108, "§8.2.74";
    /// A QoS Enforcement Rule of a session. The top bit set: predefined in the UP function.
    QerId: u32 = 109, "§8.2.75";
    /// A Usage Reporting Rule of a session. The top bit set: predefined in the UP function.
    UrrId: u32 = 81, "§8.2.54";
    /// A Buffering Action Rule of a session.
    BarId: u8 = 88, "§8.2.57";
    /// A Multi-Access Rule of a session.
    MarId: u16 = 170, "§8.2.123";
    /// A Session Reporting Rule of a session.
    SrrId: u8 = 215, "§8.2.151";
    /// A traffic endpoint of a session.
    TrafficEndpointId: u8 = 131, "§8.2.92";
    /// The rank of a PDR: the lower, the earlier it is tried.
    Precedence: u32 = 29, "§8.2.11";
    /// Whether routing information is sent to or taken from the UE (RFC 2865 §5.10).
    FramedRouting: u32 = 154, "§8.2.110";
}

macro_rules! predefined {
    ($($name:ident)*) => {$(
        impl $name {
            /// Whether the rule is predefined in the UP function rather than provisioned by the CP function.
            pub const fn is_predefined(self) -> bool {
                self.0 & 0x8000_0000 != 0
            }
        }
    )*};
}

predefined! { FarId QerId UrrId }

times! {
    /// When the PDR starts to count.
    ActivationTime = 163, "§8.2.121";
    /// When the PDR ceases to count.
    DeactivationTime = 164, "§8.2.122";
}

octets! {
    /// A network of the UP function: a name in any spelling, or nothing.
    NetworkInstance = 22, "§8.2.4";
    /// An application, as known to the UP function.
    ApplicationId = 24, "§8.2.6";
    /// Rules predefined in the UP function, to be activated.
    ActivatePredefinedRules = 106, "§8.2.72";
    /// Rules predefined in the UP function, to be deactivated.
    DeactivatePredefinedRules = 107, "§8.2.73";
    /// Rules predefined in the UP function, which are active.
    PredefinedRulesName = 299, "§8.2.205";
    /// A route to the UE, as text (RFC 2865 §5.22).
    FramedRoute = 153, "§8.2.109";
    /// A route to the UE, as text (RFC 3162 §2.5).
    FramedIpv6Route = 155, "§8.2.111";
}

impl NetworkInstance<'_> {
    /// Whether this names `network`, a dotted name: spelled the same, or as DNS labels (a length octet before each
    /// label; a closing zero octet is allowed). Upper and lower case are the same.
    pub fn names(&self, network: &str) -> bool {
        self.0.eq_ignore_ascii_case(network.as_bytes()) || self.names_in_labels(network.as_bytes())
    }

    fn names_in_labels(&self, network: &[u8]) -> bool {
        let mut rest = self.0;
        for label in network.split(|octet| *octet == b'.') {
            let Some((length, behind)) = rest.split_first() else {
                return false;
            };
            let Some((have, behind)) = behind.split_at_checked(usize::from(*length)) else {
                return false;
            };
            if !have.eq_ignore_ascii_case(label) {
                return false;
            }
            rest = behind;
        }
        matches!(rest, [] | [0])
    }
}

codes! {
    /// The side a packet comes from.
    SourceInterface & 0x0f = 20, "§8.2.2" {
        ACCESS = 0 "Access",
        CORE = 1 "Core",
        SGI_LAN = 2 "SGi-LAN/N6-LAN",
        CP_FUNCTION = 3 "CP-function",
        FIVE_G_VN_INTERNAL = 4 "5G VN Internal",
    }
    /// The reference point that a packet comes from or goes to.
    ThreeGppInterfaceType & 0x3f = 160, "§8.2.118" {
        S1_U = 0 "S1-U",
        S5_S8_U = 1 "S5/S8-U",
        S4_U = 2 "S4-U",
        S11_U = 3 "S11-U",
        S12 = 4 "S12",
        GN_GP_U = 5 "Gn/Gp-U",
        S2A_U = 6 "S2a-U",
        S2B_U = 7 "S2b-U",
        ENODEB_DL_DATA_FORWARDING = 8 "eNodeB GTP-U interface for DL data forwarding",
        ENODEB_UL_DATA_FORWARDING = 9 "eNodeB GTP-U interface for UL data forwarding",
        SGW_UPF_DL_DATA_FORWARDING = 10 "SGW/UPF GTP-U interface for DL data forwarding",
        N3_3GPP_ACCESS = 11 "N3 3GPP Access",
        N3_TRUSTED_NON_3GPP_ACCESS = 12 "N3 Trusted Non-3GPP Access",
        N3_UNTRUSTED_NON_3GPP_ACCESS = 13 "N3 Untrusted Non-3GPP Access",
        N3_DATA_FORWARDING = 14 "N3 for data forwarding",
        N9 = 15 "N9",
        SGI = 16 "SGi",
        N6 = 17 "N6",
        N19 = 18 "N19",
        S8_U = 19 "S8-U",
        GP_U = 20 "Gp-U",
        N9_ROAMING = 21 "N9 for roaming",
        IU_U = 22 "Iu-U",
        N9_DATA_FORWARDING = 23 "N9 for data forwarding",
        SXA_U = 24 "Sxa-U",
        SXB_U = 25 "Sxb-U",
        SXC_U = 26 "Sxc-U",
        N4_U = 27 "N4-U",
        SGW_UPF_UL_DATA_FORWARDING = 28 "SGW/UPF GTP-U interface for UL data forwarding",
        N6MB_NMB9 = 29 "N6mb/Nmb9",
        N3MB = 30 "N3mb",
        N19MB = 31 "N19mb",
    }
    /// What kind of packets the session carries.
    PdnType & 0x07 = 113, "§8.2.79" {
        IPV4 = 1 "IPv4",
        IPV6 = 2 "IPv6",
        IPV4V6 = 3 "IPv4v6",
        NON_IP = 4 "Non-IP",
        ETHERNET = 5 "Ethernet",
    }
    /// The radio access technology that the session uses.
    RatType & 0xff = 275, "§8.2.186" {
        UTRAN = 1 "UTRAN",
        GERAN = 2 "GERAN",
        WLAN = 3 "WLAN",
        GAN = 4 "GAN",
        HSPA_EVOLUTION = 5 "HSPA Evolution",
        EUTRAN = 6 "EUTRAN (WB-E-UTRAN)",
        VIRTUAL = 7 "Virtual",
        EUTRAN_NB_IOT = 8 "EUTRAN-NB-IoT",
        LTE_M = 9 "LTE-M",
        NR = 10 "NR",
    }
}

flagged! {
    /// A filter on the headers of user packets. Which fields are there is the peer's choice, down to the ID alone.
    SdfFilter<'a>(u16) = 23, "§8.2.5" {
        0x0100 /// FD: an IPFilterRule as text (TS 29.212 §5.4.2), set as for downlink packets.
        flow_description: Option<Octets16<'a>>,
        0x0200 /// TTC: value and mask of the ToS or Traffic Class octet.
        tos_traffic_class: Option<[u8; 2]>,
        0x0400 /// SPI: of ESP or AH.
        security_parameter_index: Option<u32>,
        0x0800 /// FL: four spare bits and the 20 bits of an IPv6 flow label.
        flow_label: Option<[u8; 3]>,
        0x1000 /// BID: the SDF Filter ID of a filter that counts in both directions, unique in the session.
        sdf_filter_id: Option<u32>,
    }
    /// Packet Flow Descriptions: how to recognise an application.
    PfdContents<'a>(u16) = 61, "§8.2.39" {
        0x0100 /// FD: an IPFilterRule as text.
        flow_description: Option<Octets16<'a>>,
        0x0200 /// URL: a pattern.
        url: Option<Octets16<'a>>,
        0x0400 /// DN: a pattern.
        domain_name: Option<Octets16<'a>>,
        0x0800 /// CP: of the operator's own.
        custom_pfd_content: Option<Octets16<'a>>,
        0x1000 /// DNP: the protocol that the domain name is looked for in.
        domain_name_protocol: Option<Octets16<'a>>,
        0x2000 /// AFD: more flow descriptions, each behind two octets of length.
        additional_flow_description: Option<Octets16<'a>>,
        0x4000 /// AURL: more URLs, each behind two octets of length.
        additional_url: Option<Octets16<'a>>,
        0x8000 /// ADNP: more domain names and protocols, each behind two octets of length.
        additional_domain_name_and_protocol: Option<Octets16<'a>>,
    }
}

impl<'a> Octets16<'a> {
    /// Takes these octets for a row of strings, each behind two octets of length, as the additional fields of
    /// [`PfdContents`] are. Ends where a string is cut.
    pub fn strings(self) -> impl Iterator<Item = &'a [u8]> {
        let mut r = Reader::new(self.0);
        core::iter::from_fn(move || {
            let length = r.u16().ok()?;
            r.take(usize::from(length)).ok()
        })
    }
}

/// A rule that could not be applied (IE type 114, TS 29.244 §8.2.80).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FailedRuleId {
    /// A Packet Detection Rule.
    Pdr(PdrId),
    /// A Forwarding Action Rule; also the value for types of rules that R17 does not know.
    Far(FarId),
    /// A QoS Enforcement Rule.
    Qer(QerId),
    /// A Usage Reporting Rule.
    Urr(UrrId),
    /// A Buffering Action Rule.
    Bar(BarId),
    /// A Multi-Access Rule.
    Mar(MarId),
    /// A Session Reporting Rule.
    Srr(SrrId),
}

impl<'a> Leaf<'a> for FailedRuleId {
    const LEAF_TYPE: IeType = IeType::FAILED_RULE_ID;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        match r.u8()? & 0x1f {
            0 => Leaf::read(r).map(Self::Pdr),
            2 => Leaf::read(r).map(Self::Qer),
            3 => Leaf::read(r).map(Self::Urr),
            4 => Leaf::read(r).map(Self::Bar),
            5 => Leaf::read(r).map(Self::Mar),
            6 => Leaf::read(r).map(Self::Srr),
            _ => Leaf::read(r).map(Self::Far),
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Pdr(id) => w.u8(0).and_then(|w| id.write_fields(w)),
            Self::Far(id) => w.u8(1).and_then(|w| id.write_fields(w)),
            Self::Qer(id) => w.u8(2).and_then(|w| id.write_fields(w)),
            Self::Urr(id) => w.u8(3).and_then(|w| id.write_fields(w)),
            Self::Bar(id) => w.u8(4).and_then(|w| id.write_fields(w)),
            Self::Mar(id) => w.u8(5).and_then(|w| id.write_fields(w)),
            Self::Srr(id) => w.u8(6).and_then(|w| id.write_fields(w)),
        }
    }
}

/// A pattern for names in DNS queries (IE type 294, TS 29.244 §8.2.201).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DnsQueryFilter<'a> {
    /// A JSON object of the type FqdnPatternMatchingRule (TS 29.571 §5.2.4.23).
    pub domain_name_pattern: Octets16<'a>,
}

impl<'a> Leaf<'a> for DnsQueryFilter<'a> {
    const LEAF_TYPE: IeType = IeType::DNS_QUERY_FILTER;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            domain_name_pattern: super::fields::Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        super::fields::Field::write(&self.domain_name_pattern, w)
    }
}

/// A slice of the network (IE type 257, TS 29.244 §8.2.176, TS 23.003 §28.4.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SNssai {
    /// Slice/Service Type.
    pub sst: u8,
    /// Slice Differentiator; ff ff ff where there is none.
    pub sd: [u8; 3],
}

impl<'a> Leaf<'a> for SNssai {
    const LEAF_TYPE: IeType = IeType::S_NSSAI;
    const ENOUGH: usize = 4;
    const FIXED: usize = 4;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            sst: r.u8()?,
            sd: r.array()?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.sst)?;
        w.array(self.sd)
    }
}

/// What is to be traced and where the trace goes (IE type 152, TS 29.244 §8.2.108, TS 32.422).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct TraceInformation<'a> {
    /// MCC and MNC as TBCD digits, then the Trace ID.
    pub trace_reference: [u8; 6],
    /// What starts the trace.
    pub triggering_events: Octets8<'a>,
    /// How much is recorded.
    pub session_trace_depth: u8,
    /// Where it is recorded.
    pub interfaces: Octets8<'a>,
    /// The IPv4 (4 octets) or IPv6 address (16) of the Trace Collection Entity.
    pub collection_entity: Octets8<'a>,
}

impl<'a> Leaf<'a> for TraceInformation<'a> {
    const LEAF_TYPE: IeType = IeType::TRACE_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        use super::fields::Field;
        Ok(Self {
            trace_reference: r.array()?,
            triggering_events: Field::read(r)?,
            session_trace_depth: r.u8()?,
            interfaces: Field::read(r)?,
            collection_entity: Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        use super::fields::Field;
        let w = w.array(self.trace_reference)?;
        let w = self.triggering_events.write(w)?;
        let w = w.u8(self.session_trace_depth)?;
        let w = self.interfaces.write(w)?;
        self.collection_entity.write(w)
    }
}
