//! The fields that leaf IEs are made of, and those that a flag makes present.

use core::fmt;
use core::net::{Ipv4Addr, Ipv6Addr};

use crate::error::{Fault, NoRoom};
use crate::tlv::{Reader, Writer};

/// Something of a definite form inside a leaf IE.
pub trait Field<'a>: Sized {
    /// Whether every content has a meaning.
    const NEVER_WRONG: bool = true;

    /// Reads the field.
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault>;

    /// Where the field that begins at `at` ends, if a fast check shows that its content is good. Else, or if the field
    /// is cut, somewhere beyond the value.
    #[inline(always)]
    fn skip(_value: &[u8], _at: usize) -> usize {
        BEYOND
    }

    /// Writes the field.
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>;
}

/// Beyond any value, with room for more fields behind.
const BEYOND: usize = usize::MAX / 2;

macro_rules! number_fields {
    ($($int:ident)*) => {$(
        impl<'a> Field<'a> for $int {
            #[inline]
            fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
                r.fixed(|octets| $int::from_be_bytes(*octets))
            }

            #[inline(always)]
            fn skip(_value: &[u8], at: usize) -> usize {
                at + size_of::<$int>()
            }

            #[inline]
            fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                w.array(self.to_be_bytes())
            }
        }
    )*};
}

number_fields! { u8 u16 u32 u64 }

impl<'a, const N: usize> Field<'a> for [u8; N] {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.array()
    }

    #[inline(always)]
    fn skip(_value: &[u8], at: usize) -> usize {
        at + size_of::<Self>()
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.array(*self)
    }
}

impl<'a> Field<'a> for Ipv4Addr {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.fixed(|octets: &[u8; 4]| Self::from(*octets))
    }

    #[inline(always)]
    fn skip(_value: &[u8], at: usize) -> usize {
        at + size_of::<Self>()
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.array(self.octets())
    }
}

impl<'a> Field<'a> for Ipv6Addr {
    #[inline]
    fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
        r.fixed(|octets: &[u8; 16]| Self::from(*octets))
    }

    #[inline(always)]
    fn skip(_value: &[u8], at: usize) -> usize {
        at + size_of::<Self>()
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        w.array(self.octets())
    }
}

macro_rules! counted_octets {
    ($($(#[$meta:meta])* $name:ident: $int:ident;)*) => {$(
        $(#[$meta])*
        #[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, "\"{}\"", self.0.escape_ascii())
            }
        }

        impl<'a> Field<'a> for $name<'a> {
            #[inline]
            fn read(r: &mut Reader<'a>) -> Result<Self, Fault> {
                let length = r.fixed(|octets| $int::from_be_bytes(*octets))?;
                r.take(usize::from(length)).map(Self)
            }

            #[inline(always)]
            fn skip(value: &[u8], at: usize) -> usize {
                match value.get(at..).unwrap_or_default().first_chunk() {
                    Some(length) => at + size_of::<$int>() + usize::from($int::from_be_bytes(*length)),
                    None => BEYOND,
                }
            }

            #[inline]
            fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                let length = $int::try_from(self.0.len()).map_err(|_| NoRoom)?;
                let w = w.array(length.to_be_bytes())?;
                w.bytes(self.0)
            }
        }
    )*};
}

counted_octets! {
    /// Octets behind a length of one octet: at most 255.
    Octets8: u8;
    /// Octets behind a length of two octets: at most 65,535.
    Octets16: u16;
}

/// A field that a flag announces, or the flag alone.
pub trait Flagged<'a>: Sized {
    /// Whether every content has a meaning.
    const NEVER_WRONG: bool;

    /// Reads what the flag announces.
    fn read(r: &mut Reader<'a>, set: bool) -> Result<Self, Fault>;

    /// As [`read`](Self::read), in place. `self` is the default before.
    fn read_into(&mut self, r: &mut Reader<'a>, set: bool) -> Result<(), Fault>;

    /// As [`Field::skip`]; `at` where the flag is not set.
    fn skip(value: &[u8], at: usize, set: bool) -> usize;

    /// Whether the flag is to be set.
    fn is_set(&self) -> bool;
    /// Writes what the flag announces.
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom>;
}

impl<'a> Flagged<'a> for bool {
    const NEVER_WRONG: bool = true;

    #[inline]
    fn read(_r: &mut Reader<'a>, set: bool) -> Result<Self, Fault> {
        Ok(set)
    }

    #[inline(always)]
    fn read_into(&mut self, _r: &mut Reader<'a>, set: bool) -> Result<(), Fault> {
        *self = set;
        Ok(())
    }

    #[inline(always)]
    fn skip(_value: &[u8], at: usize, _set: bool) -> usize {
        at
    }

    #[inline]
    fn is_set(&self) -> bool {
        *self
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        Ok(w)
    }
}

impl<'a, T: Field<'a>> Flagged<'a> for Option<T> {
    const NEVER_WRONG: bool = T::NEVER_WRONG;

    #[inline]
    fn read(r: &mut Reader<'a>, set: bool) -> Result<Self, Fault> {
        if set { T::read(r).map(Some) } else { Ok(None) }
    }

    #[inline(always)]
    fn read_into(&mut self, r: &mut Reader<'a>, set: bool) -> Result<(), Fault> {
        if set {
            *self = Some(T::read(r)?);
        }
        Ok(())
    }

    #[inline(always)]
    fn skip(value: &[u8], at: usize, set: bool) -> usize {
        if set { T::skip(value, at) } else { at }
    }

    #[inline]
    fn is_set(&self) -> bool {
        self.is_some()
    }

    #[inline]
    fn write<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
        match self {
            Some(field) => field.write(w),
            None => Ok(w),
        }
    }
}
