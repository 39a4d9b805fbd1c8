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
//! (TS 29.244 §7.2.3.2, §7.6.6 to §7.6.10.) Of an IE that is no list the first occurrence counts. A null length counts
//! as absence here, since a table does not know whether it is used in an update (§5.6.3); `check_values` is for where
//! it does not.
//!
//! Reading a message checks every IE on every level and keeps the fields of the message itself (`read_table`). Groups
//! are checked with it and not kept (`check_table`); `fill_table` reads their fields, and cannot fail, when the
//! message's field is read or its list is iterated. All of them expect the IEs in the table's order, which peers should
//! use (§8.1.2): one comparison a row and no jump. From the first IE in another order on, the plain loop of
//! `check_disorder` or `fill_disorder` continues, with the same result.

use crate::error::Error;
use crate::ie::Ie;
use crate::ie_type::IeType;

/// Checks a conditional IE; returns whether it counts as present. A null length counts as absence (TS 29.244 §8.1.2).
#[inline]
pub(crate) fn check_conditional<'a, T: Ie<'a>>(value: &'a [u8]) -> Result<bool, Error> {
    match T::check(value) {
        Ok(()) => Ok(true),
        Err(_) if value.is_empty() => Ok(false),
        Err(error) => Err(error.within_conditional()),
    }
}

/// Checks an optional IE; returns whether it counts as present. A null length counts as absence, and so does an
/// incorrect value (TS 29.244 §7.6.8).
#[inline]
pub(crate) fn check_optional<'a, T: Ie<'a>>(value: &'a [u8]) -> Result<bool, Error> {
    match T::check(value) {
        Ok(()) => Ok(true),
        Err(error) if value.is_empty() || error.forgiven_in_optional() => Ok(false),
        Err(error) => Err(error),
    }
}

/// The error of a null length of an IE that is not mandatory, in a message that can remove nothing: that of an empty
/// value. Names and texts may be empty.
#[cold]
pub(crate) fn check_null<'a, T: Ie<'a>>() -> Result<(), Error> {
    T::check(&[]).map_err(Error::within_conditional)
}

/// The error of a null length of an IE in an update, if the rule must have the IE.
#[cold]
pub(crate) fn check_removal<'a, T: Ie<'a>>() -> Result<(), Error> {
    T::check(&[]).map_err(|_| Error::incorrect(T::TYPE))
}

/// No row: tables have at most 63.
const NO_ROW: u32 = 63;

/// The row for the next IE of a type, after the rows that have been `seen`; [`NO_ROW`] if there is none.
pub(crate) fn row(types: &[u16], lists: u64, ie_type: IeType, seen: u64) -> u32 {
    let open = |row: &usize| lists & 1 << row != 0 || seen & 1 << row == 0;
    let row = (0..types.len()).find(|row| types.get(*row) == Some(&ie_type.0) && open(row));
    row.map_or(NO_ROW, |row| row as u32)
}

/// The error about the first of the rows that are `missing`.
#[cold]
pub(crate) fn missing(types: &[u16], missing: u64) -> Error {
    let ie_type = types.get(missing.trailing_zeros() as usize).copied().unwrap_or(0);
    Error::missing(IeType(ie_type))
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

        #[allow(clippy::match_single_binding, unused_mut, unused_variables, reason = "a table may be empty")]
        #[allow(unused_labels, reason = "a table may be empty")]
        #[allow(unreachable_patterns, reason = "one type may stand for two fields")]
        #[allow(unused_imports, reason = "a table may lack rows of some presence")]
        const _: () = {
            use $crate::ie::Ie;
            use $crate::tlv::{Cursor, Writer};
            use $crate::wire::{Blank, Layout, Pending, PendingList, Repeated};
            use $crate::{Error, IeType, NoRoom};

            #[allow(non_camel_case_types, dead_code, reason = "named like the fields")]
            enum Index { $($field),* }

            /// The rows, counted from 0 in the order of the table. Row `n` has bit `n` where rows are collected.
            #[allow(dead_code, reason = "a table may be empty")]
            struct Row;

            #[allow(non_upper_case_globals, reason = "named like the fields")]
            impl Row {
                $(const $field: u32 = Index::$field as u32;)*
            }

            const TYPES: &[u16] = &[$($number),*];
            const REQUIRED: u64 = 0 $(| slot!(required $presence 1 << Row::$field))*;
            const LISTS: u64 = 0 $(| slot!(list $presence 1 << Row::$field))*;

            impl<'a> $name<'a> {
                const TYPES_AGREE: () = { $(assert!(<$ty as Ie<'a>>::TYPE.0 == $number);)* };

                constructor! { [] [] $($presence $field: $ty,)* }

                /// That no IE came with a null length whose value needs octets. A null length removes a parameter of a
                /// rule that there is (TS 29.244 §5.6.3); in a rule that is new it is an invalid length (§7.6.7).
                /// Groups within this one are not looked into.
                ///
                /// # Errors
                /// Cause 68, of a group 67, and the IE.
                pub fn check_values(&self) -> Result<(), Error> {
                    self.check_values_but(&[])
                }

                /// As [`check_values`](Self::check_values), but IEs of the `removable` types may have null lengths.
                ///
                /// # Errors
                /// Cause 68, of a group 67, and the IE.
                pub fn check_values_but(&self, removable: &[IeType]) -> Result<(), Error> {
                    for tlv in self.layout.tlvs().flatten().filter(|tlv| tlv.value.is_empty()) {
                        match tlv.ie_type.0 {
                            _ if removable.contains(&tlv.ie_type) => {}
                            $($number => $crate::table::check_null::<$ty>()?,)*
                            _ => {}
                        }
                    }
                    Ok(())
                }

                /// That no IE came with a null length whose parameter an update cannot remove, since the rule needs it
                /// (TS 29.244 §5.6.3). Lists can be removed; groups within this one are not looked into.
                ///
                /// # Errors
                /// Cause 69 and the IE.
                pub fn check_removals(&self) -> Result<(), Error> {
                    for tlv in self.layout.tlvs().flatten().filter(|tlv| tlv.value.is_empty()) {
                        match tlv.ie_type.0 {
                            $($number => slot!(removal $presence $ty)?,)*
                            _ => {}
                        }
                    }
                    Ok(())
                }

                /// Whether an IE of this type came with a null length.
                pub fn removes(&self, ie_type: IeType) -> bool {
                    let mut nulls = self.layout.tlvs().flatten().filter(|tlv| tlv.value.is_empty());
                    nulls.any(|tlv| tlv.ie_type == ie_type)
                }

                /// As `check_table` and `fill_table` in one, for messages. `self` is blank before, and of no meaning
                /// after an error.
                #[allow(dead_code, reason = "groups are checked with their message, and filled later")]
                fn read_table(&mut self, body: &'a [u8]) -> Result<(), Error> {
                    let () = Self::TYPES_AGREE;
                    self.layout = Layout::of(body);
                    let mut seen = 0_u64;
                    let mut at = Cursor::new(body);
                    'rows: {
                        $(slot!(when $presence at.is_at($number, <$ty as Ie<'a>>::FIXED), {
                            let (value, behind) = at.split(<$ty as Ie<'a>>::FIXED)?;
                            if <$ty as Ie<'a>>::is_surely_good(value) || slot!(check $presence $ty, value)? {
                                seen |= 1 << Row::$field;
                            }
                            slot!(fill $presence self.$field, $ty, value, at);
                            if !at.go_on(behind) {
                                break 'rows;
                            }
                        });)*
                    }
                    if !at.is_done() {
                        seen = Self::check_disorder(at, seen)?;
                        self.fill_disorder(body);
                    }
                    match REQUIRED & !seen {
                        0 => Ok(()),
                        rows => Err($crate::table::missing(TYPES, rows)),
                    }
                }

                /// Looks at every IE, on all levels, without keeping any.
                #[allow(dead_code, reason = "messages are checked and filled in one")]
                fn check_table(body: &'a [u8]) -> Result<(), Error> {
                    let () = Self::TYPES_AGREE;
                    let mut seen = 0_u64;
                    let mut at = Cursor::new(body);
                    'rows: {
                        $(slot!(when $presence at.is_at($number, <$ty as Ie<'a>>::FIXED), {
                            let (value, behind) = at.split(<$ty as Ie<'a>>::FIXED)?;
                            if <$ty as Ie<'a>>::is_surely_good(value) || slot!(check $presence $ty, value)? {
                                seen |= 1 << Row::$field;
                            }
                            if !at.go_on(behind) {
                                break 'rows;
                            }
                        });)*
                    }
                    if !at.is_done() {
                        seen = Self::check_disorder(at, seen)?;
                    }
                    match REQUIRED & !seen {
                        0 => Ok(()),
                        rows => Err($crate::table::missing(TYPES, rows)),
                    }
                }

                /// Continues where the IEs leave the order of the table, or have a length that is not the usual one.
                #[cold]
                fn check_disorder(mut at: Cursor<'a>, mut seen: u64) -> Result<u64, Error> {
                    while !at.is_done() {
                        let (value, behind) = at.split(0)?;
                        let row = $crate::table::row(TYPES, LISTS, at.ie_type(), seen);
                        let good = match row {
                            $(Row::$field => slot!(check $presence $ty, value)?,)*
                            _ => false,
                        };
                        seen |= u64::from(good) << row;
                        at = Cursor::new(behind);
                    }
                    Ok(seen)
                }

                /// Takes the fields from octets that `check_table` has approved. `self` is blank before.
                #[allow(dead_code, reason = "messages are checked and filled in one")]
                fn fill_table(&mut self, body: &'a [u8]) {
                    self.layout = Layout::of(body);
                    let mut at = Cursor::new(body);
                    'rows: {
                        $(slot!(when $presence at.is_at($number, <$ty as Ie<'a>>::FIXED), {
                            let Ok((value, behind)) = at.split(<$ty as Ie<'a>>::FIXED) else { return };
                            slot!(fill $presence self.$field, $ty, value, at);
                            if !at.go_on(behind) {
                                break 'rows;
                            }
                        });)*
                    }
                    if !at.is_done() {
                        self.fill_disorder(body);
                    }
                }

                /// Begins anew where the IEs are not in the order of the table.
                #[cold]
                fn fill_disorder(&mut self, body: &'a [u8]) {
                    *self = Self::blank();
                    self.layout = Layout::of(body);
                    let mut seen = 0_u64;
                    let mut at = Cursor::new(body);
                    while !at.is_done() {
                        let Ok((value, behind)) = at.split(0) else { return };
                        let row = $crate::table::row(TYPES, LISTS, at.ie_type(), seen);
                        let filled: bool = match row {
                            $(Row::$field => slot!(fill $presence self.$field, $ty, value, at),)*
                            _ => false,
                        };
                        seen |= u64::from(filled) << row;
                        at = Cursor::new(behind);
                    }
                }

                fn write_table<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                    if !self.layout.is_empty() {
                        return self.write_by_layout(w);
                    }
                    let mut w = w;
                    $(slot!(put $presence self.$field, w);)*
                    Ok(w)
                }

                #[inline(never)]
                fn write_by_layout<'b>(&self, w: Writer<'b>) -> Result<Writer<'b>, NoRoom> {
                    let mut w = w;
                    $(let mut $field = slot!(pending $presence self.$field);)*
                    for tlv in self.layout.tlvs().flatten() {
                        match tlv.ie_type.0 {
                            $($number if $field.is_open() => w = $field.put_like(tlv.value, w)?,)*
                            $($number => {})*
                            _ => w = w.tlv(&tlv)?,
                        }
                    }
                    $(w = $field.put(w)?;)*
                    Ok(w)
                }
            }

            #[cfg(test)]
            impl $crate::sample::Sample for $name<'static> {
                fn sample(source: &mut $crate::sample::Source) -> Self {
                    Self { $($field: slot!(sample $presence $field source),)* layout: Layout::EMPTY }
                }
            }

            impl<'a> Blank for $name<'a> {
                #[inline]
                fn blank() -> Self {
                    Self { $($field: slot!(blank $presence $ty),)* layout: Layout::EMPTY }
                }
            }
        };
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

    (blank M $ty:ty) => { <$ty as Blank>::blank() };
    (blank Mn $ty:ty) => { Repeated::none() };
    (blank Cn $ty:ty) => { Repeated::none() };
    (blank On $ty:ty) => { Repeated::none() };
    (blank $one:ident $ty:ty) => { None };

    (sample M $field:ident $source:ident) => { $crate::sample::Sample::sample($source) };
    (sample A $field:ident $source:ident) => { Some($crate::sample::Sample::sample($source)) };
    (sample Mn $field:ident $source:ident) => { $crate::sample::Sample::list($source, 1) };
    (sample Cn $field:ident $source:ident) => { $crate::sample::Sample::list($source, 0) };
    (sample On $field:ident $source:ident) => { $crate::sample::Sample::list($source, 0) };
    // Two rows of one type are distinguished by their order alone, so that the first has to be there.
    (sample C local_f_teid $source:ident) => { Some($crate::sample::Sample::sample($source)) };
    (sample C local_f_teid_for_redundant_transmission $source:ident) => {
        Some($crate::sample::Sample::sample($source))
    };
    (sample $one:ident $field:ident $source:ident) => { $crate::sample::Sample::maybe($source) };

    (required M $bit:expr) => { $bit };
    (required Mn $bit:expr) => { $bit };
    (required $other:ident $bit:expr) => { 0 };

    (list Mn $bit:expr) => { $bit };
    (list Cn $bit:expr) => { $bit };
    (list On $bit:expr) => { $bit };
    (list $one:ident $bit:expr) => { 0 };

    (removal Mn $ty:ty) => { Ok::<(), Error>(()) };
    (removal Cn $ty:ty) => { Ok::<(), Error>(()) };
    (removal On $ty:ty) => { Ok::<(), Error>(()) };
    (removal $one:ident $ty:ty) => { $crate::table::check_removal::<$ty>() };

    (when Mn $is_at:expr, $block:block) => { while $is_at $block };
    (when Cn $is_at:expr, $block:block) => { while $is_at $block };
    (when On $is_at:expr, $block:block) => { while $is_at $block };
    (when $one:ident $is_at:expr, $block:block) => { if $is_at $block };

    (check M $ty:ty, $value:ident) => { <$ty as Ie<'a>>::check($value).map(|()| true) };
    (check A $ty:ty, $value:ident) => { <$ty as Ie<'a>>::check($value).map(|()| true) };
    (check C $ty:ty, $value:ident) => { $crate::table::check_conditional::<$ty>($value) };
    (check O $ty:ty, $value:ident) => { $crate::table::check_optional::<$ty>($value) };
    (check Mn $ty:ty, $value:ident) => {
        if $value.is_empty() { Ok(false) } else { <$ty as Ie<'a>>::check($value).map(|()| true) }
    };
    (check Cn $ty:ty, $value:ident) => {
        if $value.is_empty() { Ok(false) } else { $crate::table::check_conditional::<$ty>($value) }
    };
    (check On $ty:ty, $value:ident) => {
        if $value.is_empty() { Ok(false) } else { $crate::table::check_optional::<$ty>($value) }
    };

    (fill M $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => {{
        Ie::fill(&mut $this.$field, $value);
        true
    }};
    (fill O $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => {
        Ie::fill_optional(&mut $this.$field, $value)
    };
    (fill Mn $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => { $this.$field.met($at.rest, $value) };
    (fill Cn $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => { $this.$field.met($at.rest, $value) };
    (fill On $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => {
        $this.$field.met_optional($at.rest, $value)
    };
    (fill $one:ident $this:ident.$field:ident, $ty:ty, $value:ident, $at:ident) => {
        if <$ty as Ie<'a>>::ENOUGH == usize::MAX && $value.is_empty() {
            Ie::fill_optional(&mut $this.$field, $value)
        } else {
            Ie::fill_slot(&mut $this.$field, $value)
        }
    };

    (accepted A $this:ident.$field:ident $number:literal) => {
        if $this.$field.is_none() && $this.cause.is_accepted() {
            return Err($crate::Error::missing($crate::IeType($number)));
        }
    };
    (accepted $other:ident $this:ident.$field:ident $number:literal) => {};

    (put M $this:ident.$field:ident, $w:ident) => { $w = Ie::put(&$this.$field, $w)? };
    (put Mn $this:ident.$field:ident, $w:ident) => {
        $w = $this.$field.put($w)?
    };
    (put Cn $this:ident.$field:ident, $w:ident) => {
        $w = $this.$field.put($w)?
    };
    (put On $this:ident.$field:ident, $w:ident) => {
        $w = $this.$field.put($w)?
    };
    (put $one:ident $this:ident.$field:ident, $w:ident) => {
        if let Some(content) = &$this.$field {
            $w = Ie::put(content, $w)?;
        }
    };

    (pending M $this:ident.$field:ident) => { Pending::new(Some(&$this.$field)) };
    (pending Mn $this:ident.$field:ident) => { PendingList::new(&$this.$field) };
    (pending Cn $this:ident.$field:ident) => { PendingList::new(&$this.$field) };
    (pending On $this:ident.$field:ident) => { PendingList::new(&$this.$field) };
    (pending $one:ident $this:ident.$field:ident) => { Pending::new($this.$field.as_ref()) };
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

            const ENOUGH: usize = usize::MAX;
            const FIXED: usize = 0;
            const NEVER_WRONG: bool = false;

            #[inline]
            fn is_surely_good(_value: &[u8]) -> bool {
                false
            }

            fn check(value: &'a [u8]) -> Result<(), $crate::Error> {
                Self::check_table(value)
            }

            fn decode(value: &'a [u8]) -> Result<Self, $crate::Error> {
                Self::check_table(value)?;
                let mut group = <Self as $crate::wire::Blank>::blank();
                group.fill_table(value);
                Ok(group)
            }

            fn fill(&mut self, value: &'a [u8]) {
                self.fill_table(value);
            }

            fn fill_slot(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
                slot.insert($crate::wire::Blank::blank()).fill_table(value);
                true
            }

            fn fill_optional(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
                Self::check_table(value).is_ok() && Self::fill_slot(slot, value)
            }

            fn write<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::NoRoom> {
                self.write_table(w)
            }
        }
    )*};
}
