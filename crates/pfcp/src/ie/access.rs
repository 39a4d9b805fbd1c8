//! IEs about accesses and services beside plain IP over 3GPP access: ATSSS, L2TP, direct reporting, paging policies.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Leaf;
use super::fields::{Field, Flagged, Octets8};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

codes! {
    /// How traffic is split between accesses.
    SteeringFunctionality & 0x0f = 171, "§8.2.124" {
        ATSSS_LL = 0 "ATSSS-LL",
        MPTCP = 1 "MPTCP",
    }
    /// By which rule traffic is split between accesses.
    SteeringMode & 0x0f = 172, "§8.2.125" {
        ACTIVE_STANDBY = 0 "Active-Standby",
        SMALLEST_DELAY = 1 "Smallest Delay",
        LOAD_BALANCING = 2 "Load Balancing",
        PRIORITY_BASED = 3 "Priority-based",
    }
    /// The rank of an access.
    Priority & 0x0f = 174, "§8.2.127" {
        ACTIVE = 0 "Active",
        STANDBY = 1 "Standby",
        NO_STANDBY = 2 "No Standby",
        HIGH = 3 "High",
        LOW = 4 "Low",
    }
}

numbers! {
    /// The share of an access, 0 to 100; others count as 0.
    Weight: u8 = 173, "§8.2.126";
    /// The longest packet that the UP function takes in over L2TP, in octets.
    MaximumReceiveUnit: u16 = 287, "§8.2.195";
}

flags! {
    /// Which changes of an access are to be reported.
    RequestedAccessAvailabilityInformation = 217, "§8.2.152" {
        RRCA = 0x01 "An access becoming available or unavailable",
    }
    /// Which form of MPTCP proxy is wanted.
    MptcpControlInformation = 222, "§8.2.154" {
        TCI = 0x01 "Transport Converter (RFC 8803)",
    }
    /// Whether ATSSS-LL is wanted.
    AtsssLlControlInformation = 223, "§8.2.155" {
        LLI = 0x01 "ATSSS-LL",
    }
    /// Whether there are resources for ATSSS-LL.
    AtsssLlInformation = 231, "§8.2.160" {
        LLI = 0x01 "ATSSS-LL",
    }
    /// Whether the PDR's traffic may use MPTCP.
    MptcpApplicableIndication = 265, "§8.2.181" {
        MAI = 0x01 "MPTCP is applicable",
    }
    /// What may change the split between accesses.
    SteeringModeIndicator = 289, "§8.2.197" {
        ALBI = 0x01 "Autonomous load balancing",
        UEAI = 0x02 "Assistance by the UE",
    }
    /// What the UP function asks the LNS for.
    L2tpSessionIndications = 284, "§8.2.192" {
        REUIA = 0x01 "The UE's address",
        REDSA = 0x02 "DNS server addresses",
        RENSA = 0x04 "NBNS server addresses",
    }
    /// How direct reports are made.
    ReportingFlags = 298, "§8.2.204" {
        DUPL = 0x01 "Report over N4 as well",
    }
}

octets! {
    /// The password of an L2TP tunnel, as text.
    TunnelPassword = 313, "§8.2.212";
    /// The calling number, as text.
    CallingNumber = 282, "§8.2.190";
    /// The called number, as text.
    CalledNumber = 283, "§8.2.191";
    /// Where direct reports go: a URI.
    EventNotificationUri = 296, "§8.2.202";
    /// What ties direct reports to their subscription.
    NotificationCorrelationId = 297, "§8.2.203";
}

numbers_of_octets! {
    /// The rank of an LNS among several.
    TunnelPreference: 3 = 281, "§8.2.189";
    /// The IPv4 address of a DNS server.
    DnsServerAddress: 4 = 285, "§8.2.193";
    /// The IPv4 address of an NBNS server.
    NbnsServerAddress: 4 = 286, "§8.2.194";
}

flagged! {
    /// Round trip time and loss from which on another access is used.
    Thresholds(u8) = 288, "§8.2.196" {
        0x01 /// RTT: in ms.
        round_trip_time: Option<u16>,
        0x02 /// PLR: in percent, 0 to 100; others count as 0.
        packet_loss_rate: Option<u8>,
    }
    /// The addresses by which the UE's accesses are told apart.
    UeLinkSpecificIpAddress(u8) = 229, "§8.2.158" {
        0x01 /// Over 3GPP access.
        ipv4: Option<Ipv4Addr>,
        0x02 /// Over 3GPP access.
        ipv6: Option<Ipv6Addr>,
        0x04 /// Over non-3GPP access.
        non_3gpp_ipv4: Option<Ipv4Addr>,
        0x08 /// Over non-3GPP access.
        non_3gpp_ipv6: Option<Ipv6Addr>,
    }
}

/// Whether an access is there (IE type 219, TS 29.244 §8.2.153).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct AccessAvailabilityInformation {
    /// 0 3GPP, 1 non-3GPP; 2 and 3 are spare.
    pub access_type: u8,
    /// 0 unavailable, 1 available; 2 and 3 are spare.
    pub availability_status: u8,
}

impl<'a> Leaf<'a> for AccessAvailabilityInformation {
    const LEAF_TYPE: IeType = IeType::ACCESS_AVAILABILITY_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let octet = r.u8()?;
        Ok(Self {
            access_type: octet & 0x03,
            availability_status: octet >> 2 & 0x03,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u8((self.availability_status & 0x03) << 2 | self.access_type & 0x03)
    }
}

/// What is wanted of the Performance Measurement Function (IE type 224, TS 29.244 §8.2.156).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PmfControlInformation<'a> {
    /// Flags, one or more of the constants.
    pub flags: u8,
    /// The QoS flows that are measured one by one; `None` where there is no octet for their number.
    pub qfis: Option<Octets8<'a>>,
}

impl PmfControlInformation<'_> {
    /// PMF is wanted.
    pub const PMFI: u8 = 0x01;
    /// Round trip times may not be measured.
    pub const DRTTI: u8 = 0x02;
    /// QoS flows are measured one by one.
    pub const PQPM: u8 = 0x04;
}

impl<'a> Leaf<'a> for PmfControlInformation<'a> {
    const LEAF_TYPE: IeType = IeType::PMF_CONTROL_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let there = !r.rest().is_empty();
        Ok(Self {
            flags,
            qfis: Flagged::read(r, there)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.flags)?;
        Flagged::write(&self.qfis, w)
    }
}

/// Where the MPTCP proxy is (IE type 228, TS 29.244 §8.2.157).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MptcpAddressInformation {
    /// The proxy's type (TS 24.193 §6.1.4).
    pub proxy_type: u8,
    /// The proxy's TCP port.
    pub port: u16,
    /// The proxy's IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// The proxy's IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
}

impl<'a> Leaf<'a> for MptcpAddressInformation {
    const LEAF_TYPE: IeType = IeType::MPTCP_ADDRESS_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        Ok(Self {
            proxy_type: r.u8()?,
            port: r.u16()?,
            ipv4: Flagged::read(r, flags & 0x01 != 0)?,
            ipv6: Flagged::read(r, flags & 0x02 != 0)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(u8::from(self.ipv6.is_some()) << 1 | u8::from(self.ipv4.is_some()))?;
        let w = w.u8(self.proxy_type)?;
        let w = w.u16(self.port)?;
        let w = Flagged::write(&self.ipv4, w)?;
        Flagged::write(&self.ipv6, w)
    }
}

/// Where the Performance Measurement Function is (IE type 230, TS 29.244 §8.2.159).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PmfAddressInformation {
    /// Its IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// Its IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// Its UDP ports for 3GPP and non-3GPP access; there with any IP address.
    pub ports: Option<[u16; 2]>,
    /// Its MAC addresses for 3GPP and non-3GPP access.
    pub macs: Option<[[u8; 6]; 2]>,
}

impl<'a> Leaf<'a> for PmfAddressInformation {
    const LEAF_TYPE: IeType = IeType::PMF_ADDRESS_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let ipv4 = Flagged::read(r, flags & 0x01 != 0)?;
        let ipv6 = Flagged::read(r, flags & 0x02 != 0)?;
        let ports = if flags & 0x03 != 0 {
            Some([r.u16()?, r.u16()?])
        } else {
            None
        };
        let macs = if flags & 0x04 != 0 {
            Some([r.array()?, r.array()?])
        } else {
            None
        };
        Ok(Self {
            ipv4,
            ipv6,
            ports,
            macs,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let ip = u8::from(self.ipv6.is_some()) << 1 | u8::from(self.ipv4.is_some());
        let w = w.u8(u8::from(self.macs.is_some()) << 2 | ip)?;
        let w = Flagged::write(&self.ipv4, w)?;
        let w = Flagged::write(&self.ipv6, w)?;
        let mut w = w;
        if ip != 0 {
            let [access, non_3gpp] = self.ports.unwrap_or_default();
            w = w.u16(access)?.u16(non_3gpp)?;
        }
        match self.macs {
            Some(macs) => w.bytes(macs.as_flattened()),
            None => Ok(w),
        }
    }
}

/// How the user proves who it is to the LNS (IE type 278, TS 29.244 §8.2.187, RFC 2661).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct L2tpUserAuthentication<'a> {
    /// Proxy Authen Type.
    pub authen_type: u16,
    /// Proxy Authen Name.
    pub name: Option<Octets8<'a>>,
    /// Proxy Authen Challenge.
    pub challenge: Option<Octets8<'a>>,
    /// Proxy Authen Response.
    pub response: Option<Octets8<'a>>,
    /// Proxy Authen ID.
    pub id: Option<u8>,
}

impl<'a> Leaf<'a> for L2tpUserAuthentication<'a> {
    const LEAF_TYPE: IeType = IeType::L2TP_USER_AUTHENTICATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let authen_type = r.u16()?;
        let flags = r.u8()?;
        Ok(Self {
            authen_type,
            name: Flagged::read(r, flags & 0x01 != 0)?,
            challenge: Flagged::read(r, flags & 0x02 != 0)?,
            response: Flagged::read(r, flags & 0x04 != 0)?,
            id: Flagged::read(r, flags & 0x08 != 0)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u16(self.authen_type)?;
        let flags = u8::from(self.id.is_some()) << 3
            | u8::from(self.response.is_some()) << 2
            | u8::from(self.challenge.is_some()) << 1
            | u8::from(self.name.is_some());
        let w = w.u8(flags)?;
        let w = Flagged::write(&self.name, w)?;
        let w = Flagged::write(&self.challenge, w)?;
        let w = Flagged::write(&self.response, w)?;
        Flagged::write(&self.id, w)
    }
}

/// The L2TP network server (IE type 280, TS 29.244 §8.2.188). The length tells the version.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LnsAddress {
    /// By an IPv4 address.
    Ipv4(Ipv4Addr),
    /// By an IPv6 address.
    Ipv6(Ipv6Addr),
}

impl<'a> Leaf<'a> for LnsAddress {
    const LEAF_TYPE: IeType = IeType::LNS_ADDRESS;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        if r.rest().len() < 16 {
            Field::read(r).map(Self::Ipv4)
        } else {
            Field::read(r).map(Self::Ipv6)
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Ipv4(address) => address.write(w),
            Self::Ipv6(address) => address.write(w),
        }
    }
}

/// Which marks stand for a paging policy (IE type 317, TS 29.244 §8.2.214).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DscpToPpiMappingInformation<'a> {
    /// The Paging Policy Indicator, 0 to 7.
    pub ppi: u8,
    /// The DSCP values, at most 63.
    pub dscps: &'a [u8],
}

impl<'a> Leaf<'a> for DscpToPpiMappingInformation<'a> {
    const LEAF_TYPE: IeType = IeType::DSCP_TO_PPI_MAPPING_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            ppi: r.u8()? & 0x07,
            dscps: r.take_rest(),
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(self.ppi & 0x07)?;
        w.bytes(self.dscps)
    }
}
