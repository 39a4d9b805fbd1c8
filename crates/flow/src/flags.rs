//! The macro that defines sets of bits in keys, entries and blocks.

/// Makes a set of bits with names.
macro_rules! flags {
    ($(#[$doc:meta])* $name:ident($int:ty) { $($(#[$bit_doc:meta])* $bit:ident = $value:expr;)* }) => {
        $(#[$doc])*
        #[derive(
            Clone,
            Copy,
            Default,
            PartialEq,
            Eq,
            Hash,
            zerocopy::FromBytes,
            zerocopy::IntoBytes,
            zerocopy::KnownLayout,
            zerocopy::Immutable,
        )]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// No bit.
            pub const NONE: Self = Self(0);
            $($(#[$bit_doc])* pub const $bit: Self = Self($value);)*
            const NAMES: &[(Self, &str)] = &[$((Self::$bit, stringify!($bit))),*];

            /// The bits as they are stored; bits without a name are kept.
            #[inline]
            pub const fn from_bits(bits: $int) -> Self {
                Self(bits)
            }

            /// The bits.
            #[inline]
            pub const fn bits(self) -> $int {
                self.0
            }

            /// Whether all bits of `other` are set.
            #[inline]
            pub const fn contains(self, other: Self) -> bool {
                self.0 & other.0 == other.0
            }

            /// Whether any bit of `other` is set.
            #[inline]
            pub const fn intersects(self, other: Self) -> bool {
                self.0 & other.0 != 0
            }

            /// These bits, and those of `other` if `condition` holds.
            #[inline]
            pub const fn with_if(self, other: Self, condition: bool) -> Self {
                if condition { Self(self.0 | other.0) } else { self }
            }
        }

        impl core::ops::BitOr for $name {
            type Output = Self;

            #[inline]
            fn bitor(self, other: Self) -> Self {
                Self(self.0 | other.0)
            }
        }

        impl core::ops::BitOrAssign for $name {
            #[inline]
            fn bitor_assign(&mut self, other: Self) {
                self.0 |= other.0;
            }
        }

        impl core::fmt::Debug for $name {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let names = Self::NAMES.iter().filter(|(bit, _)| self.contains(*bit)).map(|(_, name)| name);
                f.debug_set().entries(names).finish()
            }
        }
    };
}
pub(crate) use flags;
