//! CG-NAT: IEs of the Broadband Forum's (TR-459.2, enterprise ID 3561).
//!
//! The value of each begins with the Enterprise ID. An IE of the same type with another one is another vendor's: it
//! counts as absent.

use core::net::Ipv4Addr;

use super::Leaf;
use crate::error::{Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

/// The SMI Private Enterprise Code of the Broadband Forum.
pub const BROADBAND_FORUM: u16 = 3561;

/// Takes the Enterprise ID off a value.
pub(crate) fn enterprise(r: &mut Reader<'_>, own: u16) -> Result<(), Fault> {
    match r.u16()? == own {
        true => Ok(()),
        false => Err(Fault::Value),
    }
}

/// What a user plane of broadband network gateways can do (IE type 32768, BBF UP Function Features): octets 7 to 10,
/// the first in the low byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BbfUpFunctionFeatures(pub u32);

impl BbfUpFunctionFeatures {
    /// NAT with addresses and ports that the user plane chooses.
    pub const NAT_UP: Self = Self(0x40);
}

impl<'a> Leaf<'a> for BbfUpFunctionFeatures {
    const LEAF_TYPE: IeType = IeType::BBF_UP_FUNCTION_FEATURES;
    const ENTERPRISE: Option<u16> = Some(BROADBAND_FORUM);

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        enterprise(r, BROADBAND_FORUM)?;
        Ok(Self(u32::from_le_bytes(r.array()?)))
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u16(BROADBAND_FORUM)?.array(self.0.to_le_bytes())
    }
}

/// The public address of a NAT (IE type 32782, BBF NAT Outside Address).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BbfNatOutsideAddress(pub Ipv4Addr);

impl<'a> Leaf<'a> for BbfNatOutsideAddress {
    const LEAF_TYPE: IeType = IeType::BBF_NAT_OUTSIDE_ADDRESS;
    const ENTERPRISE: Option<u16> = Some(BROADBAND_FORUM);

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        enterprise(r, BROADBAND_FORUM)?;
        Ok(Self(Ipv4Addr::from(r.array::<4>()?)))
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u16(BROADBAND_FORUM)?.array(self.0.octets())
    }
}

/// What is done with packets besides (IE type 32783, BBF Apply Action): flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BbfApplyAction(pub u8);

impl BbfApplyAction {
    /// They are translated (NAT).
    pub const NAT: Self = Self(0x01);
}

impl<'a> Leaf<'a> for BbfApplyAction {
    const LEAF_TYPE: IeType = IeType::BBF_APPLY_ACTION;
    const ENTERPRISE: Option<u16> = Some(BROADBAND_FORUM);

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        enterprise(r, BROADBAND_FORUM)?;
        Ok(Self(r.u8()?))
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u16(BROADBAND_FORUM)?.u8(self.0)
    }
}

/// Public ports, from the first to the last (IE type 32784, BBF NAT External Port Range). Of several the first is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BbfNatExternalPortRange {
    /// The first.
    pub first: u16,
    /// The last.
    pub last: u16,
}

impl<'a> Leaf<'a> for BbfNatExternalPortRange {
    const LEAF_TYPE: IeType = IeType::BBF_NAT_EXTERNAL_PORT_RANGE;
    const ENTERPRISE: Option<u16> = Some(BROADBAND_FORUM);

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        enterprise(r, BROADBAND_FORUM)?;
        let (first, last) = (r.u16()?, r.u16()?);
        Ok(Self { first, last })
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u16(BROADBAND_FORUM)?.u16(self.first)?.u16(self.last)
    }
}

/// The pool of public addresses that port blocks are of, by the name that it has in the user plane (IE type 32786, BBF
/// NAT Port Block).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct BbfNatPortBlock<'a>(pub &'a [u8]);

impl<'a> Leaf<'a> for BbfNatPortBlock<'a> {
    const LEAF_TYPE: IeType = IeType::BBF_NAT_PORT_BLOCK;
    const ENTERPRISE: Option<u16> = Some(BROADBAND_FORUM);

    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        enterprise(r, BROADBAND_FORUM)?;
        Ok(Self(r.take_rest()))
    }

    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.u16(BROADBAND_FORUM)?.bytes(self.0)
    }
}
