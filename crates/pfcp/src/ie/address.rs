//! IEs that are addresses: of sessions, tunnels, UEs and peers.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::Leaf;
use super::fields::{Field, Flagged, Octets16};
use crate::error::{Fault, NoRoom};
use crate::header::Seid;
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

/// A GTP-U Tunnel Endpoint Identifier (TS 29.281 §5.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Teid(pub u32);

/// One end of a session (IE type 57, TS 29.244 §8.2.37). At least one address is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FSeid {
    /// What the peer is to put into its headers.
    pub seid: Seid,
    /// Where the peer is to send to, by IPv4.
    pub ipv4: Option<Ipv4Addr>,
    /// Where the peer is to send to, by IPv6.
    pub ipv6: Option<Ipv6Addr>,
}

impl<'a> Leaf<'a> for FSeid {
    const LEAF_TYPE: IeType = IeType::F_SEID;

    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let seid = Seid(u64::read(r)?);
        let ipv4: Option<Ipv4Addr> = Flagged::read(r, flags & 0x02 != 0)?;
        let ipv6: Option<Ipv6Addr> = Flagged::read(r, flags & 0x01 != 0)?;
        if ipv4.is_none() && ipv6.is_none() {
            Err(Fault::Value)
        } else {
            Ok(Self { seid, ipv4, ipv6 })
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(u8::from(self.ipv4.is_some()) << 1 | u8::from(self.ipv6.is_some()))?;
        let w = w.array(self.seid.0.to_be_bytes())?;
        let w = Flagged::write(&self.ipv4, w)?;
        Flagged::write(&self.ipv6, w)
    }
}

/// A GTP-U tunnel's end, or the wish that the UP function picks one (IE type 21, TS 29.244 §8.2.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FTeid {
    /// A tunnel's end. Peers that set neither V4 nor V6 are read as they are; the session decides.
    Endpoint {
        /// Shared by both addresses.
        teid: Teid,
        /// The end's IPv4 address.
        ipv4: Option<Ipv4Addr>,
        /// The end's IPv6 address.
        ipv6: Option<Ipv6Addr>,
    },
    /// CHOOSE: the UP function assigns TEID and address. No octets stand for them.
    Choose {
        /// An IPv4 address is wanted.
        v4: bool,
        /// An IPv6 address is wanted. Some peers set both flags, some neither.
        v6: bool,
        /// CHOOSE ID: within a message, equal ones get the same F-TEID.
        choose_id: Option<u8>,
    },
}

impl<'a> Leaf<'a> for FTeid {
    const LEAF_TYPE: IeType = IeType::F_TEID;

    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let (v4, v6) = (flags & 0x01 != 0, flags & 0x02 != 0);
        if flags & 0x04 != 0 {
            return Ok(Self::Choose {
                v4,
                v6,
                choose_id: Flagged::read(r, flags & 0x08 != 0)?,
            });
        }
        let teid = Teid(r.u32()?);
        Ok(Self::Endpoint {
            teid,
            ipv4: Flagged::read(r, v4)?,
            ipv6: Flagged::read(r, v6)?,
        })
    }

    #[inline]
    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Endpoint { teid, ipv4, ipv6 } => {
                let w = w.u8(u8::from(ipv6.is_some()) << 1 | u8::from(ipv4.is_some()))?;
                let w = w.u32(teid.0)?;
                let w = Flagged::write(ipv4, w)?;
                Flagged::write(ipv6, w)
            }
            Self::Choose { v4, v6, choose_id } => {
                let id = u8::from(choose_id.is_some()) << 3;
                let w = w.u8(id | 0x04 | u8::from(*v6) << 1 | u8::from(*v4))?;
                Flagged::write(choose_id, w)
            }
        }
    }
}

flagged! {
    /// An address or prefix of the UE, or the wish that the UP function picks one.
    UeIpAddress(u8) = 93, "§8.2.62" {
        0x04 /// S/D: in a PDI, the address is the packets' destination, not their source. Some peers never set it.
        is_destination: bool,
        0x10 /// CHV4: the UP function assigns an IPv4 address.
        choose_v4: bool,
        0x20 /// CHV6: the UP function assigns an IPv6 prefix.
        choose_v6: bool,
        0x02 /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The IPv6 address, whose first 64 bits count unless the following say otherwise.
        ipv6: Option<Ipv6Addr>,
        0x08 /// Bits, out of 64, that the UE may delegate: 4 means that /60 counts. 0: the UP function decides.
        ipv6_prefix_delegation_bits: Option<u8>,
        0x40 /// The prefix's length in bits, 1 to 128. 0: the UP function decides.
        ipv6_prefix_length: Option<u8>,
    }
    /// The far end of a GTP-U path.
    RemoteGtpUPeer<'a>(u8) = 103, "§8.2.70" {
        0x02 /// The peer's IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The peer's IPv6 address.
        ipv6: Option<Ipv6Addr>,
        0x04 /// The side the peer is on, in the form of a Destination Interface.
        destination_interface: Option<Octets16<'a>>,
        0x08 /// The network the peer is in, in the form of a Network Instance.
        network_instance: Option<Octets16<'a>>,
    }
    /// Another address of the SMF.
    AlternativeSmfIpAddress(u8) = 178, "§8.2.129" {
        0x04 /// PPE: to be preferred when the UPF chooses anew.
        is_preferred: bool,
        0x02 /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The IPv6 address.
        ipv6: Option<Ipv6Addr>,
    }
    /// A PFCP entity of the CP function, whose sessions are to be retained.
    CpPfcpEntityIpAddress(u8) = 185, "§8.2.135" {
        0x02 /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The IPv6 address.
        ipv6: Option<Ipv6Addr>,
    }
    /// An address of the CP function, whose sessions are moved.
    CpIpAddress(u8) = 292, "§8.2.199" {
        0x02 /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The IPv6 address.
        ipv6: Option<Ipv6Addr>,
    }
    /// The source of a multicast flow, or the source address of a message.
    SourceIpAddress(u8) = 192, "§8.2.138" {
        0x02 /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        0x01 /// The IPv6 address.
        ipv6: Option<Ipv6Addr>,
        0x04 /// Length of the mask or prefix in bits.
        prefix_length: Option<u8>,
    }
    /// How many UE addresses a pool has.
    NumberOfUeIpAddresses(u8) = 268, "§8.2.183" {
        0x01 /// IPv4 addresses.
        ipv4: Option<u32>,
        0x02 /// IPv6 prefixes.
        ipv6: Option<u32>,
    }
}

flags! {
    /// Which versions of IP a pool has addresses of.
    IpVersion = 258, "§8.2.177" {
        V4 = 0x01 "IPv4",
        V6 = 0x02 "IPv6",
    }
}

/// Multicast groups (IE type 191, TS 29.244 §8.2.137).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum IpMulticastAddress {
    /// All groups.
    Any,
    /// The groups from one address to another; without the second, one group.
    Ipv4(Ipv4Addr, Option<Ipv4Addr>),
    /// The groups from one address to another; without the second, one group.
    Ipv6(Ipv6Addr, Option<Ipv6Addr>),
}

impl<'a> Leaf<'a> for IpMulticastAddress {
    const LEAF_TYPE: IeType = IeType::IP_MULTICAST_ADDRESS;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let range = flags & 0x04 != 0;
        match flags & 0x0b {
            0x08 => Ok(Self::Any),
            0x02 => Ok(Self::Ipv4(Field::read(r)?, Flagged::read(r, range)?)),
            0x01 => Ok(Self::Ipv6(Field::read(r)?, Flagged::read(r, range)?)),
            _ => Err(Fault::Value),
        }
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Any => w.u8(0x08),
            Self::Ipv4(start, end) => {
                let w = w.u8(0x02 | u8::from(end.is_some()) << 2)?;
                let w = start.write(w)?;
                Flagged::write(end, w)
            }
            Self::Ipv6(start, end) => {
                let w = w.u8(0x01 | u8::from(end.is_some()) << 2)?;
                let w = start.write(w)?;
                Flagged::write(end, w)
            }
        }
    }
}

/// A pool of UE addresses, by name (IE type 177, TS 29.244 §8.2.128).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct UeIpAddressPoolIdentity<'a>(pub Octets16<'a>);

impl<'a> Leaf<'a> for UeIpAddressPoolIdentity<'a> {
    const LEAF_TYPE: IeType = IeType::UE_IP_ADDRESS_POOL_IDENTITY;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Field::read(r).map(Self)
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        self.0.write(w)
    }
}
