//! IEs about nodes, associations, messages as a whole and the users they are for.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use super::Leaf;
use super::fields::{Field, Octets8};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

/// Seconds from 1900-01-01, where NTP counts from, to 1970-01-01 (RFC 5905 §6).
pub const UNIX_EPOCH_IN_1900: u64 = 2_208_988_800;

/// Whether a request was accepted, and if not, why (IE type 19, TS 29.244 §8.2.1). Never 0.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Cause(u8);

macro_rules! causes {
    ($($value:literal $constant:ident $text:literal,)*) => {
        impl Cause {
            $(
                #[doc = concat!($text, ".")]
                pub const $constant: Self = Self($value);
            )*

            /// What the value means in Table 8.2.1-1; `"spare"` for values it does not name.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "spare",
                }
            }
        }
    };
}

causes! {
    1 REQUEST_ACCEPTED "Request accepted",
    2 MORE_USAGE_REPORT_TO_SEND "More Usage Report to send",
    3 REQUEST_PARTIALLY_ACCEPTED "Request partially accepted",
    64 REQUEST_REJECTED "Request rejected, reason not specified",
    65 SESSION_CONTEXT_NOT_FOUND "Session context not found",
    66 MANDATORY_IE_MISSING "Mandatory IE missing",
    67 CONDITIONAL_IE_MISSING "Conditional IE missing",
    68 INVALID_LENGTH "Invalid length",
    69 MANDATORY_IE_INCORRECT "Mandatory IE incorrect",
    70 INVALID_FORWARDING_POLICY "Invalid Forwarding Policy",
    71 INVALID_F_TEID_ALLOCATION_OPTION "Invalid F-TEID allocation option",
    72 NO_ESTABLISHED_PFCP_ASSOCIATION "No established PFCP Association",
    73 RULE_CREATION_MODIFICATION_FAILURE "Rule creation/modification failure",
    74 PFCP_ENTITY_IN_CONGESTION "PFCP entity in congestion",
    75 NO_RESOURCES_AVAILABLE "No resources available",
    76 SERVICE_NOT_SUPPORTED "Service not supported",
    77 SYSTEM_FAILURE "System failure",
    78 REDIRECTION_REQUESTED "Redirection requested",
    79 ALL_DYNAMIC_ADDRESSES_ARE_OCCUPIED "All dynamic addresses are occupied",
    80 UNKNOWN_PREDEFINED_RULE "Unknown predefined rule",
    81 UNKNOWN_APPLICATION_ID "Unknown Application ID",
    82 L2TP_TUNNEL_ESTABLISHMENT_FAILURE "L2TP tunnel establishment failure",
    83 L2TP_SESSION_ESTABLISHMENT_FAILURE "L2TP session establishment failure",
    84 L2TP_TUNNEL_RELEASE "L2TP tunnel release",
    85 L2TP_SESSION_RELEASE "L2TP session release",
    86 RESTORATION_RESOURCE_NOT_AVAILABLE "Session restoration failure, requested resource not available",
    90 PFD_CONTENTS_SYNTAX_ERROR "PFD Contents syntax error",
    91 PFD_CONTENTS_SEMANTICS_ERROR "PFD Contents semantics error",
    92 PFD_APPLICATION_ID_UNKNOWN "PFD Application ID unknown",
}

impl Cause {
    /// The cause of that number; `None` for 0, which is reserved.
    pub const fn new(value: u8) -> Option<Self> {
        if value == 0 { None } else { Some(Self(value)) }
    }

    /// The number, 1 to 255.
    pub const fn value(self) -> u8 {
        self.0
    }

    /// Whether the request was accepted: 1 to 63, known or not.
    pub const fn is_accepted(self) -> bool {
        self.0 < 64
    }
}

impl fmt::Debug for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Cause({} {})", self.0, self.name())
    }
}

impl<'a> Leaf<'a> for Cause {
    const LEAF_TYPE: IeType = IeType::CAUSE;

    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Self::new(r.u8()?).ok_or(Fault::Value)
    }

    #[inline]
    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u8(self.0)
    }
}

/// Who a node is, whatever its addresses (IE type 60, TS 29.244 §8.2.38).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum NodeId<'a> {
    /// By an IPv4 address.
    Ipv4(Ipv4Addr),
    /// By an IPv6 address.
    Ipv6(Ipv6Addr),
    /// By a name, as DNS labels (a length octet before each) without the closing zero octet.
    Fqdn(&'a [u8]),
}

impl fmt::Debug for NodeId<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ipv4(address) => write!(f, "NodeId({address})"),
            Self::Ipv6(address) => write!(f, "NodeId({address})"),
            Self::Fqdn(labels) => write!(f, "NodeId(\"{}\")", labels.escape_ascii()),
        }
    }
}

impl<'a> Leaf<'a> for NodeId<'a> {
    const LEAF_TYPE: IeType = IeType::NODE_ID;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        match r.u8()? & 0x0f {
            0 => Field::read(r).map(Self::Ipv4),
            1 => Field::read(r).map(Self::Ipv6),
            2 => Ok(Self::Fqdn(r.take_rest())),
            _ => Err(Fault::Value),
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Ipv4(address) => w.u8(0).and_then(|w| Field::write(address, w)),
            Self::Ipv6(address) => w.u8(1).and_then(|w| Field::write(address, w)),
            Self::Fqdn(labels) => w.u8(2).and_then(|w| w.bytes(labels)),
        }
    }
}

times! {
    /// When the node started; constant for a process's life.
    RecoveryTimeStamp = 96, "§8.2.65";
    /// When something happened.
    TimeStamp = 156, "§8.2.114";
}

numbers! {
    /// The IE that a rejection is about.
    OffendingIe: u16 = 40, "§8.2.22";
    /// Distinguishes newer load, overload or usage information from older.
    SequenceNumber: u32 = 52, "§8.2.33";
    /// Load, overload reduction or use of addresses, in percent.
    Metric: u8 = 53, "§8.2.34";
    /// Seconds for which usage information about addresses holds.
    ValidityTimer: u16 = 269, "§8.2.184";
}

impl OffendingIe {
    /// The IE of that type.
    pub const fn new(ie_type: IeType) -> Self {
        Self(ie_type.0)
    }

    /// The type of the IE.
    pub const fn ie_type(self) -> IeType {
        IeType(self.0)
    }
}

/// IEs that are a period in the coarse form of three bits of unit and five of value.
macro_rules! coarse_periods {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {
        numbers! {$($(#[$meta])* $name: u8 = $number, $clause;)*}
        $(impl $name {
            /// Without end.
            pub const INFINITE: Self = Self(0b1110_0000);

            /// The period in seconds; `None` when it has no end.
            pub const fn seconds(self) -> Option<u32> {
                let unit = match self.0 >> 5 {
                    0 => 2,
                    2 => 600,
                    3 => 3_600,
                    4 => 36_000,
                    7 => return None,
                    _ => 60,
                };
                Some((self.0 & 0x1f) as u32 * unit)
            }

            /// The shortest period the form can say that is not shorter than `seconds`; at most 310 hours.
            pub const fn from_seconds(seconds: u32) -> Self {
                let units: [(u8, u32); 5] = [(0, 2), (1, 60), (2, 600), (3, 3_600), (4, 36_000)];
                let mut i = 0;
                while i < units.len() {
                    let (code, unit) = units[i];
                    if seconds.div_ceil(unit) <= 31 {
                        return Self(code << 5 | seconds.div_ceil(unit) as u8);
                    }
                    i += 1;
                }
                Self(4 << 5 | 31)
            }
        })*
    };
}

coarse_periods! {
    /// How long downlink packets are to be buffered.
    DlBufferingDuration = 47, "§8.2.29";
    /// A period of validity or of waiting.
    Timer = 55, "§8.2.35";
    /// How long the association lasts after its release was announced.
    GracefulReleasePeriod = 112, "§8.2.78";
}

growing_flags! {
    /// What the UP function can do.
    UpFunctionFeatures: u128, 1 to 16 octets = 43, "§8.2.25" {
        BUCP = 5/1 "Downlink data buffering in the CP function",
        DDND = 5/2 "Downlink Data Notification Delay",
        DLBD = 5/3 "DL Buffering Duration",
        TRST = 5/4 "Traffic steering",
        FTUP = 5/5 "F-TEID allocation in the UP function",
        PFDM = 5/6 "PFD management",
        HEEU = 5/7 "Header enrichment of uplink traffic",
        TREU = 5/8 "Traffic redirection in the UP function",
        EMPU = 6/1 "Sending of End Marker packets",
        PDIU = 6/2 "Traffic endpoints, PDI optimised signalling",
        UDBC = 6/3 "Uplink and downlink buffering control",
        QUOAC = 6/4 "Quota action",
        TRACE = 6/5 "Trace",
        FRRT = 6/6 "Framed routing",
        PFDE = 6/7 "PFD contents with several values per property",
        EPFAR = 6/8 "Enhanced PFCP Association Release",
        DPDRA = 7/1 "Deferred activation and deactivation of PDRs",
        ADPDP = 7/2 "Activation and deactivation of predefined PDRs",
        UEIP = 7/3 "UE address allocation in the UP function",
        SSET = 7/4 "Sessions controlled in turn by the SMFs of a set",
        MNOP = 7/5 "Measurement of the number of packets",
        MTE = 7/6 "Several Traffic Endpoint IDs in a PDI",
        BUNDL = 7/7 "Several messages in a datagram",
        GCOM = 7/8 "5G VN group communication",
        MPAS = 8/1 "Several associations with the SMFs of a set",
        RTTL = 8/2 "Redundant transmission at transport layer",
        VTIME = 8/3 "Quota validity time",
        NORP = 8/4 "Number of Reports",
        IPTV = 8/5 "IPTV",
        IP6PL = 8/6 "IPv6 prefix lengths other than 64, several UE addresses",
        TSCU = 8/7 "Time sensitive communication",
        MPTCP = 8/8 "MPTCP proxy",
        ATSSS_LL = 9/1 "ATSSS-LL steering",
        QFQM = 9/2 "QoS monitoring per QoS flow",
        GPQM = 9/3 "QoS monitoring per GTP-U path",
        MT_EDT = 9/4 "Reporting the size of downlink data packets",
        CIOT = 9/5 "Small data packet rate enforcement",
        ETHAR = 9/6 "Relocation of Ethernet session anchors",
        DDDS = 9/7 "Reporting the first buffered or discarded downlink packet",
        RDS = 9/8 "Reliable Data Service",
        RTTWP = 10/1 "Round trip time towards the UE without PMF",
        QUASF = 10/2 "Exempted application or SDF filter for quota action",
        NSPOC = 10/3 "Start of pause of charging via user plane",
        L2TP = 10/4 "L2TP",
        UPBER = 10/5 "Uplink buffering during relocation of an edge server",
        RESPS = 10/6 "Restoration of sessions by FQ-CSID, group or CP address",
        IPREP = 10/7 "IP address and port number replacement",
        DNSTS = 10/8 "DNS traffic steering",
        DRQOS = 11/1 "Direct reporting of QoS monitoring events",
        MBSN4 = 11/2 "MBS multicast data over PDU sessions",
        PSUPRM = 11/3 "Per slice UP resource management",
        EPPPI = 11/4 "Enhanced provisioning of Paging Policy Indicators",
        RATP = 11/5 "Redirection to ports",
        UPIDP = 11/6 "User plane inactivity detection per PDR",
        EML4S = 12/8 "ECN marking for L4S",
        PAPFD = 15/7 "Partial acceptance of PFDs",
    }
    /// What the CP function can do, as far as it concerns the UP function.
    CpFunctionFeatures: u64, 1 to 8 octets = 89, "§8.2.58" {
        LOAD = 5/1 "Load control",
        OVRL = 5/2 "Overload control",
        EPFAR = 5/3 "Enhanced PFCP Association Release",
        SSET = 5/4 "Sessions controlled in turn by the SMFs of a set",
        BUNDL = 5/5 "Several messages in a datagram",
        MPAS = 5/6 "Several associations from an SMF set",
        ARDR = 5/7 "Additional usage reports after a Session Deletion Response",
        UIAUR = 5/8 "UE IP address usage reporting",
        PSUCC = 6/1 "Partial success",
        RPGUR = 6/2 "Reporting of peer GTP-U entity restarts",
        PAPFD = 6/3 "Partial acceptance of PFDs",
    }
}

flags! {
    /// Whether the overload is the node's.
    OciFlags = 110, "§8.2.76" {
        AOCI = 0x01 "Associate the overload control information with the Node ID",
    }
    /// The UP function wants the association to end.
    PfcpAssociationReleaseRequest = 111, "§8.2.77" {
        SARR = 0x01 "The release of the association is requested",
        URSS = 0x02 "All usage reports that are not zero have been sent",
    }
    /// What a node report is about.
    NodeReportType = 101, "§8.2.69" {
        UPFR = 0x01 "User plane path failure",
        UPRR = 0x02 "User plane path recovery",
        CKDR = 0x04 "Clock drift",
        GPQR = 0x08 "QoS of a GTP-U path",
        PURR = 0x10 "Restart of a GTP-U peer",
        VSR = 0x20 "Vendor-specific",
    }
    /// Flags of an Association Setup Request.
    PfcpAsReqFlags = 259, "§8.2.178" {
        UUPSI = 0x01 "The UPF is configured for IPUPS",
    }
    /// Flags of an Association Setup Response.
    PfcpAsRspFlags = 184, "§8.2.134" {
        PSREI = 0x01 "The sessions of the former association have been kept",
        UUPSI = 0x02 "The UPF is configured for IPUPS",
    }
    /// Flags of an Association Update Request.
    PfcpAuReqFlags = 162, "§8.2.120" {
        PARPS = 0x01 "Preparation of the association's release starts",
    }
}

octets! {
    /// A group of sessions that are restored together.
    GroupId = 291, "§8.2.198";
    /// A Data Network Name or Access Point Name, as DNS labels (TS 23.003 §9.1).
    ApnDnn = 159, "§8.2.117";
}

numbers_of_octets! {
    /// Who a network function is: a UUID (TS 29.571).
    NfInstanceId: 16 = 253, "§8.2.175";
}

flagged! {
    /// Who the user is.
    UserId<'a>(u8) = 141, "§8.2.101" {
        0x01 /// TBCD digits (TS 29.274 §8.3).
        imsi: Option<Octets8<'a>>,
        0x02 /// TBCD digits (TS 29.274 §8.10).
        imei: Option<Octets8<'a>>,
        0x04 /// TBCD digits (TS 29.274 §8.11).
        msisdn: Option<Octets8<'a>>,
        0x08 /// Network Access Identifier (RFC 4282).
        nai: Option<Octets8<'a>>,
        0x10 /// A global cable or line identifier (TS 29.571).
        supi: Option<Octets8<'a>>,
        0x20 /// An external identifier (TS 29.571).
        gpsi: Option<Octets8<'a>>,
        0x40 /// A MAC address or extended unique identifier (TS 29.571).
        pei: Option<Octets8<'a>>,
    }
}

/// The SMF set that a node belongs to (IE type 180, TS 29.244 §8.2.131).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SmfSetId<'a> {
    /// A name, as DNS labels without the closing zero octet.
    pub fqdn: &'a [u8],
}

impl<'a> Leaf<'a> for SmfSetId<'a> {
    const LEAF_TYPE: IeType = IeType::SMF_SET_ID;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.u8()?;
        Ok(Self { fqdn: r.take_rest() })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(0)?;
        w.bytes(self.fqdn)
    }
}

/// A set of sessions, named by the node that made it (IE type 65, TS 29.244 §8.2.43).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FqCsid<'a> {
    /// The node, in a form of its type.
    pub node: FqCsidNode,
    /// The sets' numbers, two octets each, at most 15.
    pub csids: &'a [[u8; 2]],
    /// What kind of node it is: 0 MME, 1 SGW-C, 2 PGW-C/SMF, 3 ePDG, 4 TWAN, 5 PGW-U/SGW-U/UPF. `None`: not said,
    /// as nodes of before R14.2 do.
    pub node_type: Option<u8>,
}

/// The node in an [`FqCsid`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FqCsidNode {
    /// A global IPv4 address.
    Ipv4(Ipv4Addr),
    /// A global IPv6 address.
    Ipv6(Ipv6Addr),
    /// 20 bits of MCC * 1000 + MNC, 12 bits that the operator assigns.
    Operator(u32),
}

impl<'a> Leaf<'a> for FqCsid<'a> {
    const LEAF_TYPE: IeType = IeType::FQ_CSID;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let first = r.u8()?;
        let node = match first >> 4 {
            0 => FqCsidNode::Ipv4(Field::read(r)?),
            1 => FqCsidNode::Ipv6(Field::read(r)?),
            2 => FqCsidNode::Operator(r.u32()?),
            _ => return Err(Fault::Value),
        };
        let (csids, _) = r.take(usize::from(first & 0x0f) * 2)?.as_chunks();
        let node_type = if r.rest().is_empty() {
            None
        } else {
            Some(r.u8()? & 0x0f)
        };
        Ok(Self {
            node,
            csids,
            node_type,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let count = u8::try_from(self.csids.len())
            .ok()
            .filter(|count| *count < 16)
            .ok_or(NoRoom)?;
        let w = match self.node {
            FqCsidNode::Ipv4(address) => w.u8(count).and_then(|w| address.write(w)),
            FqCsidNode::Ipv6(address) => w.u8(0x10 | count).and_then(|w| address.write(w)),
            FqCsidNode::Operator(id) => w.u8(0x20 | count).and_then(|w| w.u32(id)),
        }?;
        let w = w.bytes(self.csids.as_flattened())?;
        match self.node_type {
            Some(node_type) => w.u8(node_type & 0x0f),
            None => Ok(w),
        }
    }
}

/// The offending IE with its value (IE type 274, TS 29.244 §8.2.185).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OffendingIeInformation<'a> {
    /// The IE's type.
    pub ie_type: IeType,
    /// The IE's value as it was received.
    pub value: &'a [u8],
}

impl<'a> Leaf<'a> for OffendingIeInformation<'a> {
    const LEAF_TYPE: IeType = IeType::OFFENDING_IE_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            ie_type: IeType(r.u16()?),
            value: r.take_rest(),
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u16(self.ie_type.0)?;
        w.bytes(self.value)
    }
}

/// What a vendor's node report is about (IE type 320, TS 29.244 §8.2.217).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct VendorSpecificNodeReportType<'a> {
    /// The vendor's SMI Private Enterprise Code.
    pub enterprise_id: u16,
    /// The vendor's flags, one octet at least.
    pub flags: &'a [u8],
}

impl<'a> Leaf<'a> for VendorSpecificNodeReportType<'a> {
    const LEAF_TYPE: IeType = IeType::VENDOR_SPECIFIC_NODE_REPORT_TYPE;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            enterprise_id: r.u16()?,
            flags: r.take_rest(),
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u16(self.enterprise_id)?;
        w.bytes(self.flags)
    }
}
