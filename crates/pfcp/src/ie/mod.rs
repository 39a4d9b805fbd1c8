//! The leaf IEs of TS 29.244 R17, one type each, grouped by topic.
//!
//! A leaf is a small `Copy` value; what has no bound (names, filters, containers) borrows from the datagram.
//! Values keep what is needed to write the same octets again, including how many octets a growing bit field had.
//! Octets behind the fields that R17 knows are accepted and left to the message's [`Layout`](crate::Layout).
//! Spare bits of enumerations are dropped on reading and written as zero (TS 29.244 §8.1.2).

use crate::error::{Error, Fault, NoRoom};
use crate::ie_type::IeType;
use crate::tlv::{Reader, Writer};

#[macro_use]
mod tables;

mod access;
mod address;
mod blank;
mod ethernet;
mod fields;
mod forwarding;
mod nat;
mod node;
mod opaque;
mod qos;
mod rule;
mod usage;

pub use access::*;
pub use address::*;
pub use ethernet::*;
pub use fields::{Octets8, Octets16};
pub use forwarding::*;
pub use nat::*;
pub use node::*;
pub use opaque::*;
pub use qos::*;
pub use rule::*;
pub use usage::*;

/// A value that can stand in one IE: a leaf or a grouped IE.
pub trait Ie<'a>: Sized {
    /// The IE's type (TS 29.244 §8.1.2).
    const TYPE: IeType;

    /// Octets from which on a value cannot be wrong, whatever they are; `usize::MAX` where that needs a look.
    #[doc(hidden)]
    const ENOUGH: usize;

    /// The usual length of a value that has only one; else 0.
    #[doc(hidden)]
    const FIXED: usize;

    /// Whether a value that is long enough always has a meaning.
    #[doc(hidden)]
    const NEVER_WRONG: bool;

    /// Whether a fast check shows that `value` passes [`check`](Self::check). A value that passes may get a no.
    #[doc(hidden)]
    fn is_surely_good(value: &[u8]) -> bool;

    /// Whether the octets behind the IE's length field are such an IE, on all levels.
    ///
    /// # Errors
    /// Cause and offending IE as TS 29.244 §7.6 wants them.
    fn check(value: &'a [u8]) -> Result<(), Error>;

    /// Reads the octets behind the IE's length field.
    ///
    /// # Errors
    /// Those of [`check`](Self::check).
    fn decode(value: &'a [u8]) -> Result<Self, Error>;

    /// Becomes what `value` says, which has passed [`check`](Self::check). If it has not, what comes out is some
    /// value of the type.
    #[doc(hidden)]
    fn fill(&mut self, value: &'a [u8]);

    /// As [`fill`](Self::fill), but into an empty slot. Says whether there is something in it now.
    #[doc(hidden)]
    fn fill_slot(slot: &mut Option<Self>, value: &'a [u8]) -> bool;

    /// As [`fill_slot`](Self::fill_slot), but leaves the slot empty if `value` does not pass [`check`](Self::check).
    #[doc(hidden)]
    fn fill_optional(slot: &mut Option<Self>, value: &'a [u8]) -> bool;

    /// Writes what goes behind the IE's length field.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>;

    /// The octets of `value` behind what this release knows. Groups have none: there, a whole IE is unknown.
    fn surplus(_value: &'a [u8]) -> &'a [u8] {
        &[]
    }

    /// Writes the IE: type, length, value.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline]
    fn put<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let (mark, w) = w.begin(Self::TYPE)?;
        Ok(self.write(w)?.end(mark))
    }

    /// Writes the IE, and after it what `original`, the value it was read from, had beyond this release.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    fn put_like<'b>(&self, original: &'a [u8], w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let (mark, w) = w.begin(Self::TYPE)?;
        Ok(self.write(w)?.bytes(Self::surplus(original))?.end(mark))
    }
}

/// A leaf IE: fields, no IEs inside.
pub trait Leaf<'a>: Sized {
    /// The IE's type (TS 29.244 §8.1.2).
    const LEAF_TYPE: IeType;

    /// Octets from which on the fields cannot be wrong, whatever they are; `usize::MAX` where that needs a look.
    const ENOUGH: usize = usize::MAX;

    /// The length of a value, where R17 has only one; else 0.
    const FIXED: usize = 0;

    /// Whether a value that is long enough always has a meaning.
    const NEVER_WRONG: bool = Self::ENOUGH < usize::MAX;

    /// The vendor that defines the IE: its Enterprise ID is in front of the fields (TS 29.244 §8.1.1).
    const ENTERPRISE: Option<u16> = None;

    /// Reads the fields, front to back. What `r` has left afterwards belongs to a newer release.
    ///
    /// # Errors
    /// [`Fault::Short`] where a field is cut, [`Fault::Value`] where the value cannot be meant.
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault>;

    /// Whether a fast check shows that [`read`](Self::read) accepts `value`. A value that it takes may get a no.
    #[doc(hidden)]
    #[inline]
    fn is_surely_good(value: &[u8]) -> bool {
        value.len() >= Self::ENOUGH
    }

    /// Reads the fields into an empty slot; says whether there is something in it now.
    #[doc(hidden)]
    #[inline]
    fn fill_leaf(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        *slot = Self::read(&mut Reader::new(value)).ok();
        slot.is_some()
    }

    /// Writes the fields, front to back.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    fn write_fields<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>;

    /// Writes type, length and fields; leaves of a fixed size do it in one store.
    ///
    /// # Errors
    /// [`NoRoom`] when the buffer ends before.
    #[inline]
    fn put_leaf<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        let (mark, w) = w.begin(Self::LEAF_TYPE)?;
        Ok(self.write_fields(w)?.end(mark))
    }
}

impl<'a, T: Leaf<'a>> Ie<'a> for T {
    const TYPE: IeType = T::LEAF_TYPE;
    const ENOUGH: usize = T::ENOUGH;
    const FIXED: usize = T::FIXED;
    const NEVER_WRONG: bool = T::NEVER_WRONG;

    #[inline]
    fn is_surely_good(value: &[u8]) -> bool {
        T::is_surely_good(value)
    }

    #[inline]
    fn check(value: &'a [u8]) -> Result<(), Error> {
        match T::read(&mut Reader::new(value)) {
            Ok(_) => Ok(()),
            Err(fault) => Err(Error::at(fault, T::LEAF_TYPE, value.len())),
        }
    }

    #[inline]
    fn fill(&mut self, value: &'a [u8]) {
        if let Ok(leaf) = T::read(&mut Reader::new(value)) {
            *self = leaf;
        }
    }

    #[inline]
    fn fill_slot(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        T::fill_leaf(slot, value)
    }

    #[inline]
    fn fill_optional(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
        Self::fill_slot(slot, value)
    }

    #[inline]
    fn decode(value: &'a [u8]) -> Result<Self, Error> {
        T::read(&mut Reader::new(value)).map_err(|fault| Error::at(fault, T::LEAF_TYPE, value.len()))
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        self.write_fields(w)
    }

    fn surplus(value: &'a [u8]) -> &'a [u8] {
        let mut reader = Reader::new(value);
        match T::read(&mut reader) {
            Ok(_) => reader.rest(),
            Err(_) => &[],
        }
    }

    #[inline]
    fn put<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        self.put_leaf(w)
    }
}
