//! IEs about multicast and broadcast services.

use core::net::{Ipv4Addr, Ipv6Addr};

use super::fields::{Field, Flagged};
use super::{Leaf, Teid};
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

numbers! {
    /// The area of a location dependent service.
    AreaSessionId: u16 = 314, "§8.2.213";
}

flags! {
    /// Flags of a Session Establishment Request to an MB-UPF.
    Mbsn4mbReqFlags = 307, "§8.2.208" {
        PLLSSM = 0x01 "Provide a lower layer SSM",
        JMBSSM = 0x02 "Join the multicast tree of the session's SSM",
        MBS_RESTI = 0x04 "The session restores one that was",
    }
    /// Flags of responses about a session with MBS.
    Mbsn4RespFlags = 312, "§8.2.211" {
        NN19DT = 0x01 "A new N19mb downlink tunnel was allocated",
        JMTI = 0x02 "The multicast tree was joined",
        N19DTR = 0x04 "The N19mb downlink tunnel is being removed",
    }
}

/// An address behind an octet of type and length: IPv4 (0, 4) or IPv6 (1, 16).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TypedAddress {
    /// Type 0, length 4.
    Ipv4(Ipv4Addr),
    /// Type 1, length 16.
    Ipv6(Ipv6Addr),
}

impl<'a> Field<'a> for TypedAddress {
    const NEVER_WRONG: bool = false;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        match r.u8()? {
            0x04 => Field::read(r).map(Self::Ipv4),
            0x50 => Field::read(r).map(Self::Ipv6),
            _ => Err(Fault::Value),
        }
    }

    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Ipv4(address) => w.u8(0x04).and_then(|w| address.write(w)),
            Self::Ipv6(address) => w.u8(0x50).and_then(|w| address.write(w)),
        }
    }
}

/// A multicast group and who may send to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceSpecificMulticast {
    /// The group.
    pub group: TypedAddress,
    /// The sender.
    pub source: TypedAddress,
}

impl<'a> Field<'a> for SourceSpecificMulticast {
    const NEVER_WRONG: bool = false;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        Ok(Self {
            group: Field::read(r)?,
            source: Field::read(r)?,
        })
    }

    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = self.group.write(w)?;
        self.source.write(w)
    }
}

flagged! {
    /// Which MBS session is meant.
    MbsSessionIdentifier(u8) = 305, "§8.2.206" {
        0x01 /// TMGI: octets 3 to 8 of figure 10.5.154 of TS 24.008.
        tmgi: Option<[u8; 6]>,
        0x02 /// SSMI: by its multicast group.
        ssm: Option<SourceSpecificMulticast>,
        0x04 /// NIDI: eleven hexadecimal digits and four bits of zero.
        nid: Option<[u8; 6]>,
    }
}

/// The lower layer multicast that MBS data is sent over (IE type 306, TS 29.244 §8.2.207).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct MulticastTransportInformation {
    /// The Common Tunnel Endpoint Identifier.
    pub common_teid: Teid,
    /// Group and source.
    pub ssm: SourceSpecificMulticast,
}

impl<'a> Leaf<'a> for MulticastTransportInformation {
    const LEAF_TYPE: IeType = IeType::MULTICAST_TRANSPORT_INFORMATION;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.u8()?;
        Ok(Self {
            common_teid: Field::read(r)?,
            ssm: Field::read(r)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let w = w.u8(0)?;
        let w = self.common_teid.write(w)?;
        self.ssm.write(w)
    }
}

/// Where MBS data comes in over UDP, or the wish that the UP function picks it (IE type 308, TS 29.244 §8.2.209).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LocalIngressTunnel {
    /// A UDP port and addresses.
    Endpoint {
        /// The port.
        port: u16,
        /// The IPv4 address.
        ipv4: Option<Ipv4Addr>,
        /// The IPv6 address.
        ipv6: Option<Ipv6Addr>,
    },
    /// CHOOSE: the UP function assigns port and address. No octets stand for them.
    Choose {
        /// An IPv4 address is wanted.
        v4: bool,
        /// An IPv6 address is wanted.
        v6: bool,
    },
}

impl<'a> Leaf<'a> for LocalIngressTunnel {
    const LEAF_TYPE: IeType = IeType::LOCAL_INGRESS_TUNNEL;

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        let flags = r.u8()?;
        let (v4, v6) = (flags & 0x01 != 0, flags & 0x02 != 0);
        if flags & 0x04 != 0 {
            return Ok(Self::Choose { v4, v6 });
        }
        Ok(Self::Endpoint {
            port: r.u16()?,
            ipv4: Flagged::read(r, v4)?,
            ipv6: Flagged::read(r, v6)?,
        })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Self::Endpoint { port, ipv4, ipv6 } => {
                let w = w.u8(u8::from(ipv6.is_some()) << 1 | u8::from(ipv4.is_some()))?;
                let w = w.u16(*port)?;
                let w = Flagged::write(ipv4, w)?;
                Flagged::write(ipv6, w)
            }
            Self::Choose { v4, v6 } => w.u8(0x04 | u8::from(*v6) << 1 | u8::from(*v4)),
        }
    }
}
