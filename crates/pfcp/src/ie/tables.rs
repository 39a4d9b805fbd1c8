//! The macros that make leaf IEs out of tables: numbers, codes, bit fields, octet strings, flagged fields.

/// Leaves that are one unsigned or signed number: `Name: type = IE type, "clause";`, optionally `& mask`.
macro_rules! numbers {
    ($($(#[$meta:meta])* $name:ident: $int:ident $(& $mask:literal)? = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub $int);

        impl $crate::wire::Blank for $name {
            #[inline]
            fn blank() -> Self {
                Self(0)
            }
        }

        impl<'a> $crate::ie::Leaf<'a> for $name {
            const LEAF_TYPE: $crate::IeType = $crate::IeType($number);
            const ENOUGH: usize = size_of::<$int>();
            const FIXED: usize = size_of::<$int>();

            #[inline]
            fn read(r: &mut $crate::tlv::Reader<'a>) -> Result<Self, $crate::error::Fault> {
                r.fixed(|octets| Self($int::from_be_bytes(*octets) $(& $mask)?))
            }

            #[inline]
            fn write_fields<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                w.array((self.0 $(& $mask)?).to_be_bytes())
            }

            #[inline]
            fn put_leaf<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                const N: usize = size_of::<$int>();
                let mut whole = [0; 4 + N];
                whole[..2].copy_from_slice(&u16::to_be_bytes($number));
                whole[3] = N as u8;
                whole[4..].copy_from_slice(&(self.0 $(& $mask)?).to_be_bytes());
                w.array(whole)
            }
        }
    )*};
}

/// Leaves that are a time of day in whole seconds since 1900-01-01 (RFC 5905 §6, the first four octets).
macro_rules! times {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {
        numbers! {$(
            $(#[$meta])*
            #[doc = ""]
            #[doc = "Whole seconds since 1900-01-01 00:00 UTC (RFC 5905 §6), modulo 2^32."]
            $name: u32 = $number, $clause;
        )*}
        $(
            impl $name {
                /// From seconds since 1970-01-01, as system clocks count.
                pub const fn from_unix(seconds: u64) -> Self {
                    Self(seconds.wrapping_add($crate::ie::UNIX_EPOCH_IN_1900) as u32)
                }

                /// Seconds since 1970-01-01, for times from 1970 to 2106.
                pub const fn unix(self) -> u64 {
                    self.0.wrapping_sub($crate::ie::UNIX_EPOCH_IN_1900 as u32) as u64
                }
            }
        )*
    };
}

/// Leaves that are one octet out of a table of values. Unknown values are kept; spare bits are masked off.
macro_rules! codes {
    ($($(#[$meta:meta])* $name:ident & $mask:literal = $number:literal, $clause:literal {
        $($constant:ident = $value:literal $text:literal,)*
    })*) => {$(
        numbers! { $(#[$meta])* $name: u8 & $mask = $number, $clause; }

        impl $name {
            $(
                #[doc = concat!($text, ".")]
                pub const $constant: Self = Self($value);
            )*

            /// What the value means in the table of the clause; `"spare"` for values it does not name.
            pub const fn name(self) -> &'static str {
                match self.0 {
                    $($value => $text,)*
                    _ => "spare",
                }
            }
        }
    )*};
}

/// Leaves that are one octet of flags. Bits without a name are kept.
macro_rules! flags {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal {
        $($constant:ident = $bit:literal $text:literal,)*
    })*) => {$(
        numbers! { $(#[$meta])* $name: u8 = $number, $clause; }

        impl $name {
            $(
                #[doc = concat!($text, ".")]
                pub const $constant: Self = Self($bit);
            )*

            /// Whether all flags of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }
    )*};
}

/// Leaves that are flags on one or more octets, a number that grows from release to release.
///
/// The lowest octet of the integer is the IE's octet 5: octet 6 bit 1 is `1 << 8`. How many octets there were is
/// kept and written again, but does not count in comparisons.
macro_rules! growing_flags {
    ($($(#[$meta:meta])* $name:ident: $int:ident, $fewest:literal to $most:literal octets = $number:literal, $clause:literal {
        $($constant:ident = $octet:literal / $bit:literal $text:literal,)*
    })*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ", ", $fewest, " to ", $most, " octets.")]
        #[derive(Clone, Copy)]
        pub struct $name {
            bits: $int,
            octets: u8,
        }

        impl $name {
            $(
                #[doc = concat!($text, " (octet ", $octet, ", bit ", $bit, ").")]
                pub const $constant: Self = Self::from_bits(1 << (($octet - 5) * 8 + $bit - 1));
            )*

            /// The flags of `bits`, octet 5 lowest, on as many octets as they need.
            pub const fn from_bits(bits: $int) -> Self {
                let octets = ($int::BITS - bits.leading_zeros()).div_ceil(8) as u8;
                Self { bits, octets: if octets < $fewest { $fewest } else { octets } }
            }

            /// No flag set.
            pub const fn empty() -> Self {
                Self::from_bits(0)
            }

            /// The flags, octet 5 lowest.
            pub const fn bits(self) -> $int {
                self.bits
            }

            /// How many octets the value takes in the IE.
            pub const fn octets(self) -> u8 {
                self.octets
            }

            /// The same flags on at least `octets` octets, for peers that want a certain length.
            #[must_use]
            pub const fn on_octets(self, octets: u8) -> Self {
                let octets = if octets > self.octets { octets } else { self.octets };
                Self { bits: self.bits, octets: if octets > $most { $most } else { octets } }
            }

            /// Whether all flags of `other` are set.
            pub const fn contains(self, other: Self) -> bool {
                self.bits & other.bits == other.bits
            }

            /// Whether any flag of `other` is set.
            pub const fn intersects(self, other: Self) -> bool {
                self.bits & other.bits != 0
            }

            /// All flags of both; usable in constants, where `|` is not.
            #[must_use]
            pub const fn union(self, other: Self) -> Self {
                Self::from_bits(self.bits | other.bits)
                    .on_octets(if self.octets > other.octets { self.octets } else { other.octets })
            }
        }

        impl $crate::wire::Blank for $name {
            #[inline]
            fn blank() -> Self {
                Self::empty()
            }
        }

        impl PartialEq for $name {
            fn eq(&self, other: &Self) -> bool {
                self.bits == other.bits
            }
        }

        impl Eq for $name {}

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "({:#x} on {})"), self.bits, self.octets)
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            fn bitor(self, other: Self) -> Self {
                self.union(other)
            }
        }

        impl<'a> $crate::ie::Leaf<'a> for $name {
            const LEAF_TYPE: $crate::IeType = $crate::IeType($number);
            const ENOUGH: usize = $fewest;

            #[inline]
            fn read(r: &mut $crate::tlv::Reader<'a>) -> Result<Self, $crate::error::Fault> {
                let octets = r.rest().len().clamp($fewest, $most);
                let taken = r.take(octets)?;
                let mut bits = 0;
                for octet in taken.iter().rev() {
                    bits = bits << 8 | $int::from(*octet);
                }
                Ok(Self { bits, octets: octets as u8 })
            }

            #[inline]
            fn write_fields<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                let octets = self.bits.to_le_bytes();
                match (self.octets, octets.as_slice()) {
                    (1, [a, ..]) => w.array([*a]),
                    (2, [a, b, ..]) => w.array([*a, *b]),
                    (3, [a, b, c, ..]) => w.array([*a, *b, *c]),
                    (more, octets) => w.bytes(octets.get(..usize::from(more)).unwrap_or(octets)),
                }
            }
        }
    )*};
}

/// Leaves that are a string of octets without inner form.
macro_rules! octets {
    ($($(#[$meta:meta])* $name:ident = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name<'a>(pub &'a [u8]);

        impl $crate::wire::Blank for $name<'_> {
            #[inline]
            fn blank() -> Self {
                Self(&[])
            }
        }

        impl core::fmt::Debug for $name<'_> {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                write!(f, concat!(stringify!($name), "(\"{}\")"), self.0.escape_ascii())
            }
        }

        impl<'a> $crate::ie::Leaf<'a> for $name<'a> {
            const LEAF_TYPE: $crate::IeType = $crate::IeType($number);
            const ENOUGH: usize = 0;

            #[inline]
            fn read(r: &mut $crate::tlv::Reader<'a>) -> Result<Self, $crate::error::Fault> {
                Ok(Self(r.take_rest()))
            }

            #[inline]
            fn write_fields<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                w.bytes(self.0)
            }
        }
    )*};
}

/// Leaves that are an octet (or, as `u16`, an octet and a spare one) of flags and then, in order, the fields whose
/// flags are set. A `bool` is a flag without a field.
macro_rules! flagged {
    ($($(#[$meta:meta])* $name:ident $(<$lt:lifetime>)? ($flags:ident) = $number:literal, $clause:literal {
        $($bit:literal $(#[$field_meta:meta])* $field:ident: $ty:ty,)*
    })*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
        pub struct $name $(<$lt>)? {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl<'a> $crate::wire::Blank for flagged!(@type $name $($lt)?) {
            #[inline]
            fn blank() -> Self {
                Self::default()
            }
        }

        impl<'a> $crate::ie::Leaf<'a> for flagged!(@type $name $($lt)?) {
            const LEAF_TYPE: $crate::IeType = $crate::IeType($number);
            const NEVER_WRONG: bool = true $(&& <$ty as $crate::ie::fields::Flagged<'a>>::NEVER_WRONG)*;

            #[inline]
            fn read(r: &mut $crate::tlv::Reader<'a>) -> Result<Self, $crate::error::Fault> {
                let flags = r.fixed(|octets| $flags::from_be_bytes(*octets))?;
                $(let $field = $crate::ie::fields::Flagged::read(r, flags & $bit != 0)?;)*
                Ok(Self { $($field),* })
            }

            #[inline]
            fn is_surely_good(value: &[u8]) -> bool {
                let Some(flags) = value.first_chunk() else { return false };
                let flags = $flags::from_be_bytes(*flags);
                let end = size_of::<$flags>();
                $(let end = <$ty as $crate::ie::fields::Flagged<'a>>::skip(value, end, flags & $bit != 0);)*
                end <= value.len()
            }

            #[inline]
            fn fill_leaf(slot: &mut Option<Self>, value: &'a [u8]) -> bool {
                let this = slot.insert(Self::default());
                let mut r = $crate::tlv::Reader::new(value);
                let filled = r.fixed(|octets| $flags::from_be_bytes(*octets)).and_then(|flags| {
                    $($crate::ie::fields::Flagged::read_into(&mut this.$field, &mut r, flags & $bit != 0)?;)*
                    Ok(())
                });
                if filled.is_err() {
                    *slot = None;
                }
                filled.is_ok()
            }

            #[inline]
            fn write_fields<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                let (front, mut w) = w.reserve()?;
                let mut flags: $flags = 0;
                $(if $crate::ie::fields::Flagged::is_set(&self.$field) {
                    flags |= $bit;
                    w = $crate::ie::fields::Flagged::write(&self.$field, w)?;
                })*
                *front = flags.to_be_bytes();
                Ok(w)
            }
        }
    )*};
    (@type $name:ident $lt:lifetime) => { $name<$lt> };
    (@type $name:ident) => { $name };
}

/// Leaves that are a fixed number of octets: `Name: octets = IE type, "clause";`.
macro_rules! numbers_of_octets {
    ($($(#[$meta:meta])* $name:ident: $octets:literal = $number:literal, $clause:literal;)*) => {$(
        $(#[$meta])*
        #[doc = ""]
        #[doc = concat!("IE type ", $number, ", TS 29.244 ", $clause, ".")]
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(pub [u8; $octets]);

        impl<'a> $crate::ie::Leaf<'a> for $name {
            const LEAF_TYPE: $crate::IeType = $crate::IeType($number);
            const ENOUGH: usize = $octets;
            const FIXED: usize = $octets;

            #[inline]
            fn read(r: &mut $crate::tlv::Reader<'a>) -> Result<Self, $crate::error::Fault> {
                r.array().map(Self)
            }

            #[inline]
            fn write_fields<'b>(&self, w: $crate::tlv::Writer<'b>) -> Result<$crate::tlv::Writer<'b>, $crate::error::NoRoom> {
                w.array(self.0)
            }
        }
    )*};
}
