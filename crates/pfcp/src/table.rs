//! The macro that turns a presence table of TS 29.244 §7 into a struct that decodes and encodes itself.
//!
//! A row is `IE type, presence, field: type`. Presence is that of the table, with `n` where the IE may be repeated:
//!
//! | row | field | when absent | when its content is wrong |
//! |---|---|---|---|
//! | `M` | `T` | cause 66 | 66, 67, 68 or 69 as found |
//! | `Mn` | `Repeated<T>` | cause 66 | as `M` |
//! | `A` | `Option<T>` | cause 66, if the Cause accepts | as `M` |
//! | `C` | `Option<T>` | nothing: conditions are the session's to check | as `M`, but 67 for 66 |
//! | `Cn` | `Repeated<T>` | nothing | as `C` |
//! | `O` | `Option<T>` | nothing | 68 for a bad length, else the IE counts as absent |
//! | `On` | `Repeated<T>` | nothing | as `O` |
//!
//! (TS 29.244 §7.2.3.2, §7.6.6 to §7.6.10.) Of an IE that is no list the first occurrence counts.

use crate::error::Error;
use crate::ie::Ie;

/// Reads a conditional IE. A null length counts as absence (TS 29.244 §8.1.2).
#[inline]
pub(crate) fn conditional<'a, T: Ie<'a>>(value: &'a [u8]) -> Result<Option<T>, Error> {
    match T::decode(value) {
        Ok(content) => Ok(Some(content)),
        Err(_) if value.is_empty() => Ok(None),
        Err(error) => Err(error.within_conditional()),
    }
}

/// Reads an optional IE. A null length counts as absence, and so does a value without meaning (§7.6.8).
#[inline]
pub(crate) fn optional<'a, T: Ie<'a>>(value: &'a [u8]) -> Result<Option<T>, Error> {
    match T::decode(value) {
        Ok(content) => Ok(Some(content)),
        Err(error) if value.is_empty() || error.forgiven_in_optional() => Ok(None),
        Err(error) => Err(error),
    }
}

macro_rules! table {
    ($(#[$meta:meta])* $name:ident { $($number:literal $presence:ident $field:ident: $ty:ty,)* }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name<'a> {
            $(
                #[doc = concat!("IE type ", $number, ", ", slot!(text $presence), ".")]
                pub $field: slot!(type $presence $ty),
            )*
            /// The order of the octets that this was read from, and what in them this release does not know.
            pub layout: $crate::wire::Layout<'a>,
        }

        impl<'a> $name<'a> {
            const TYPES_AGREE: () = {
                $(assert!(<$ty as $crate::ie::Ie<'a>>::TYPE.0 == $number);)*
            };

            constructor! { [] [] $($presence $field: $ty,)* }

            #[allow(clippy::match_single_binding, reason = "a table may be empty")]
            fn read_table(body: &'a [u8]) -> Result<Self, $crate::Error> {
                let () = Self::TYPES_AGREE;
                $(let mut $field = slot!(empty $presence $ty);)*
                let mut tlvs = $crate::tlv::Tlvs::new(body);
                loop {
                    #[allow(unused_variables, reason = "only lists look at it")]
                    let from = tlvs.rest();
                    let Some(tlv) = tlvs.advance()? else { break };
                    match tlv.ie_type.0 {
                        $($number if slot!(open $presence $field) => slot!(take $presence $field $ty, tlv, from),)*
                        _ => {}
                    }
                }
                Ok(Self {
                    $($field: slot!(close $presence $field $number),)*
                    layout: $crate::wire::Layout::of(body),
                })
            }

            fn write_table(&self, w: &mut $crate::tlv::Writer<'_>) -> Result<(), $crate::NoRoom> {
                if !self.layout.is_empty() {
                    return self.write_by_layout(w);
                }
                $(slot!(put $presence self.$field, w);)*
                Ok(())
            }

            #[allow(unreachable_patterns, reason = "one type may stand for two fields")]
            fn write_by_layout(&self, w: &mut $crate::tlv::Writer<'_>) -> Result<(), $crate::NoRoom> {
                $(let mut $field = slot!(pending $presence self.$field);)*
                for tlv in self.layout.tlvs().flatten() {
                    match tlv.ie_type.0 {
                        $($number if $field.is_open() => $field.put_like(tlv.value, w)?,)*
                        $($number => {})*
                        _ => w.tlv(&tlv)?,
                    }
                }
                $($field.put(w)?;)*
                Ok(())
            }
        }
    };
}

/// What one row of a table becomes in each part of the code.
macro_rules! slot {
    (text M) => { "mandatory" };
    (text Mn) => { "mandatory, repeatable" };
    (text A) => { "mandatory in an acceptance" };
    (text C) => { "conditional" };
    (text Cn) => { "conditional, repeatable" };
    (text O) => { "optional" };
    (text On) => { "optional, repeatable" };

    (type M $ty:ty) => { $ty };
    (type A $ty:ty) => { Option<$ty> };
    (type C $ty:ty) => { Option<$ty> };
    (type O $ty:ty) => { Option<$ty> };
    (type $list:ident $ty:ty) => { $crate::wire::Repeated<'a, $ty> };

    (empty Mn $ty:ty) => { $crate::wire::Repeated::<'a, $ty>::NONE };
    (empty Cn $ty:ty) => { $crate::wire::Repeated::<'a, $ty>::NONE };
    (empty On $ty:ty) => { $crate::wire::Repeated::<'a, $ty>::NONE };
    (empty $one:ident $ty:ty) => { None::<$ty> };

    (open Mn $field:ident) => { true };
    (open Cn $field:ident) => { true };
    (open On $field:ident) => { true };
    (open $one:ident $field:ident) => { $field.is_none() };

    (take M $field:ident $ty:ty, $tlv:ident, $from:ident) => {
        $field = Some(<$ty as $crate::ie::Ie<'a>>::decode($tlv.value)?)
    };
    (take A $field:ident $ty:ty, $tlv:ident, $from:ident) => {
        $field = Some(<$ty as $crate::ie::Ie<'a>>::decode($tlv.value)?)
    };
    (take C $field:ident $ty:ty, $tlv:ident, $from:ident) => { $field = $crate::table::conditional($tlv.value)? };
    (take O $field:ident $ty:ty, $tlv:ident, $from:ident) => { $field = $crate::table::optional($tlv.value)? };
    (take Mn $field:ident $ty:ty, $tlv:ident, $from:ident) => { $field.met($from, $tlv.value)? };
    (take Cn $field:ident $ty:ty, $tlv:ident, $from:ident) => {
        $field.met($from, $tlv.value).map_err($crate::Error::within_conditional)?
    };
    (take On $field:ident $ty:ty, $tlv:ident, $from:ident) => {
        match $field.met($from, $tlv.value) {
            Err(error) if !error.forgiven_in_optional() => return Err(error),
            _ => {}
        }
    };

    (close M $field:ident $number:literal) => {
        match $field {
            Some(content) => content,
            None => return Err($crate::Error::missing($crate::IeType($number))),
        }
    };
    (close Mn $field:ident $number:literal) => {
        if $field.is_empty() { return Err($crate::Error::missing($crate::IeType($number))) } else { $field }
    };
    (close $other:ident $field:ident $number:literal) => { $field };

    (accepted A $this:ident.$field:ident $number:literal) => {
        if $this.$field.is_none() && $this.cause.is_accepted() {
            return Err($crate::Error::missing($crate::IeType($number)));
        }
    };
    (accepted $other:ident $this:ident.$field:ident $number:literal) => {};

    (put M $this:ident.$field:ident, $w:ident) => { $crate::ie::Ie::put(&$this.$field, $w)? };
    (put Mn $this:ident.$field:ident, $w:ident) => { $this.$field.put($w)? };
    (put Cn $this:ident.$field:ident, $w:ident) => { $this.$field.put($w)? };
    (put On $this:ident.$field:ident, $w:ident) => { $this.$field.put($w)? };
    (put $one:ident $this:ident.$field:ident, $w:ident) => {
        if let Some(content) = &$this.$field {
            $crate::ie::Ie::put(content, $w)?;
        }
    };

    (pending M $this:ident.$field:ident) => { $crate::wire::Pending::new(Some(&$this.$field)) };
    (pending Mn $this:ident.$field:ident) => { $crate::wire::PendingList::new(&$this.$field) };
    (pending Cn $this:ident.$field:ident) => { $crate::wire::PendingList::new(&$this.$field) };
    (pending On $this:ident.$field:ident) => { $crate::wire::PendingList::new(&$this.$field) };
    (pending $one:ident $this:ident.$field:ident) => { $crate::wire::Pending::new($this.$field.as_ref()) };
}

/// `new`: takes the mandatory fields, leaves out all others.
macro_rules! constructor {
    ([$($given:ident: $ty:ty,)*] [$($other:ident = $absent:expr,)*]) => {
        /// With the IEs that are mandatory; all others are absent.
        #[allow(clippy::new_without_default, reason = "not every table has mandatory rows")]
        pub const fn new($($given: $ty),*) -> Self {
            Self { $($given,)* $($other: $absent,)* layout: $crate::wire::Layout::EMPTY }
        }
    };
    ([$($given:tt)*] [$($other:tt)*] M $field:ident: $ty:ty, $($more:tt)*) => {
        constructor! { [$($given)* $field: $ty,] [$($other)*] $($more)* }
    };
    ([$($given:tt)*] [$($other:tt)*] Mn $field:ident: $ty:ty, $($more:tt)*) => {
        constructor! { [$($given)* $field: $crate::wire::Repeated<'a, $ty>,] [$($other)*] $($more)* }
    };
    ([$($given:tt)*] [$($other:tt)*] Cn $field:ident: $ty:ty, $($more:tt)*) => {
        constructor! { [$($given)*] [$($other)* $field = $crate::wire::Repeated::NONE,] $($more)* }
    };
    ([$($given:tt)*] [$($other:tt)*] On $field:ident: $ty:ty, $($more:tt)*) => {
        constructor! { [$($given)*] [$($other)* $field = $crate::wire::Repeated::NONE,] $($more)* }
    };
    ([$($given:tt)*] [$($other:tt)*] $one:ident $field:ident: $ty:ty, $($more:tt)*) => {
        constructor! { [$($given)*] [$($other)* $field = None,] $($more)* }
    };
}

/// Grouped IEs: `Name = IE type, "table" { rows }`.
macro_rules! groups {
    ($($(#[$meta:meta])* $name:ident = $type:literal, $table:literal { $($rows:tt)* })*) => {$(
        table! {
            $(#[$meta])*
            #[doc = ""]
            #[doc = concat!("IE type ", $type, ", TS 29.244 Table ", $table, ".")]
            $name { $($rows)* }
        }

        impl<'a> $crate::ie::Ie<'a> for $name<'a> {
            const TYPE: $crate::IeType = $crate::IeType($type);

            fn decode(value: &'a [u8]) -> Result<Self, $crate::Error> {
                Self::read_table(value)
            }

            fn write(&self, w: &mut $crate::tlv::Writer<'_>) -> Result<(), $crate::NoRoom> {
                self.write_table(w)
            }
        }
    )*};
}
