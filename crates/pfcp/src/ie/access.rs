//! IEs about accesses and services beside plain IP over 3GPP access: ATSSS, L2TP, direct reporting, paging policies.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Leaf;
use super::fields::{Field, Flagged, Octets8};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// The longest packet that the UP function takes in over L2TP, in octets.
    MaximumReceiveUnit: u16 = 287, "§8.2.195";
}

flags! {
    /// Which changes of an access are to be reported.
    RequestedAccessAvailabilityInformation = 217, "§8.2.152" {
        RRCA = 0x01 "An access becoming available or unavailable",
    }
    /// Whether the PDR's traffic may use MPTCP.
    MptcpApplicableIndication = 265, "§8.2.181" {
        MAI = 0x01 "MPTCP is applicable",
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

/// The L2TP network server (IE type 280, TS 29.244 §8.2.188). The length determines the version.
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
