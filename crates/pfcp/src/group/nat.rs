//! CG-NAT: what a session got. The group is Travelping's (enterprise ID 18681), of IEs of the Broadband Forum's.

use crate::error::{Error, NoRoom};
use crate::ie::*;
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};
use crate::wire::Blank;

/// The SMI Private Enterprise Code of Travelping.
pub const TRAVELPING: u16 = 18_681;

table! {
    /// Created NAT Binding.
    ///
    /// IE type 32778.
    CreatedNatBinding {
        32786 O port_block: BbfNatPortBlock<'a>,
        32782 O outside_address: BbfNatOutsideAddress,
        32784 O external_port_range: BbfNatExternalPortRange,
    }
}

/// The IEs of the group: what is behind the Enterprise ID.
fn content(value: &[u8]) -> Result<&[u8], Error> {
    let mut reader = Reader::new(value);
    match enterprise(&mut reader, TRAVELPING) {
        Ok(()) => Ok(reader.rest()),
        Err(fault) => Err(Error::at(fault, IeType::CREATED_NAT_BINDING, value.len())),
    }
}

impl<'a> Ie<'a> for CreatedNatBinding<'a> {
    const TYPE: IeType = IeType::CREATED_NAT_BINDING;

    const ENOUGH: usize = usize::MAX;
    const FIXED: usize = 0;
    const NEVER_WRONG: bool = false;

    fn is_surely_good(_value: &[u8]) -> bool {
        false
    }

    fn check(value: &'a [u8]) -> Result<(), Error> {
        Self::check_table(content(value)?)
    }

    fn decode(value: &'a [u8]) -> Result<Self, Error> {
        Self::check(value)?;
        let mut group = Self::blank();
        group.fill(value);
        Ok(group)
    }

    fn fill(&mut self, value: &'a [u8]) {
        self.fill_table(content(value).unwrap_or_default());
    }

    fn fill_slot(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        slot.insert(Self::blank()).fill(value);
        true
    }

    fn fill_optional(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        Self::check(value).is_ok() && Self::fill_slot(slot, value)
    }

    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        self.write_table(w.u16(TRAVELPING)?)
    }
}
