//! Newtypes for the numbers that packets carry, so that a TEID is not mistaken for an address nor a QFI for a 5QI.

use core::fmt;
use core::str::FromStr;

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout, Unaligned};

/// An IEEE 802 MAC address, in the order of the wire.
#[derive(
    Clone,
    Copy,
    PartialEq,
    Eq,
    Hash,
    PartialOrd,
    Ord,
    Default,
    FromBytes,
    IntoBytes,
    KnownLayout,
    Immutable,
    Unaligned,
)]
#[repr(transparent)]
pub struct MacAddr(pub [u8; 6]);

impl MacAddr {
    /// ff:ff:ff:ff:ff:ff.
    pub const BROADCAST: Self = Self([0xff; 6]);
    /// 00:00:00:00:00:00, never a station's address.
    pub const ZERO: Self = Self([0; 6]);

    /// Whether the group bit is set (broadcast included).
    #[inline]
    pub const fn is_multicast(self) -> bool {
        self.0[0] & 1 != 0
    }

    /// Whether this can be the source of a frame: neither a group nor zero.
    #[inline]
    pub fn is_station(self) -> bool {
        !self.is_multicast() && self != Self::ZERO
    }
}

impl fmt::Display for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [a, b, c, d, e, g] = self.0;
        write!(f, "{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{g:02x}")
    }
}

impl fmt::Debug for MacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A text that is not a MAC address: six pairs of hexadecimal digits with colons between them are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadMacAddr;

impl fmt::Display for BadMacAddr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a MAC address is six pairs of hexadecimal digits, such as 02:00:00:00:00:01")
    }
}

impl core::error::Error for BadMacAddr {}

impl FromStr for MacAddr {
    type Err = BadMacAddr;

    fn from_str(text: &str) -> Result<Self, BadMacAddr> {
        let mut octets = [0; 6];
        let mut pairs = text.split(':');
        for octet in &mut octets {
            let pair = pairs.next().ok_or(BadMacAddr)?;
            if pair.len() != 2 || !pair.bytes().all(|digit| digit.is_ascii_hexdigit()) {
                return Err(BadMacAddr);
            }
            *octet = u8::from_str_radix(pair, 16).map_err(|_| BadMacAddr)?;
        }
        match pairs.next() {
            None => Ok(Self(octets)),
            Some(_) => Err(BadMacAddr),
        }
    }
}

/// A GTP-U Tunnel Endpoint Identifier (TS 29.281 §5.1), any 32-bit value; 0 names no tunnel.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
#[repr(transparent)]
pub struct Teid(pub u32);

impl Teid {
    /// What path management messages carry (TS 29.281 §5.1).
    pub const ZERO: Self = Self(0);
}

impl fmt::Display for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:#010x}", self.0)
    }
}

impl fmt::Debug for Teid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Makes a newtype of `u8` or `u16` whose values are in `0..=$max`.
macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident($int:ty) max $max:literal) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
        #[repr(transparent)]
        pub struct $name($int);

        impl $name {
            /// The largest value.
            pub const MAX: Self = Self($max);

            /// `None` when `value` is above [`Self::MAX`].
            #[inline]
            pub const fn new(value: $int) -> Option<Self> {
                if value <= $max { Some(Self(value)) } else { None }
            }

            /// The low bits of a field; higher bits, which belong to other fields, are cut off.
            #[inline]
            pub const fn from_low_bits(bits: $int) -> Self {
                Self(bits & $max)
            }

            /// The number.
            #[inline]
            pub const fn get(self) -> $int {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                fmt::Display::fmt(&self.0, f)
            }
        }

        impl fmt::Debug for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(f, concat!(stringify!($name), "({})"), self.0)
            }
        }
    };
}

bounded! {
    /// A QoS Flow Identifier, 0..=63 (TS 38.415 §5.5.3.3, TS 23.501 §5.7.1.1).
    Qfi(u8) max 0x3f
}

bounded! {
    /// A Paging Policy Indicator, 0..=7 (TS 23.501 §5.4.3.2).
    Ppi(u8) max 0x07
}

bounded! {
    /// A Differentiated Services Code Point, 0..=63 (RFC 2474 §3).
    Dscp(u8) max 0x3f
}

bounded! {
    /// An IEEE 802.1Q VLAN identifier, 0..=4095; 0 is a priority tag, 4095 is reserved.
    VlanId(u16) max 0x0fff
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mac_addresses_read_what_they_print() {
        let mac = MacAddr([0x02, 0, 0xab, 0xcd, 0xef, 9]);
        assert_eq!(mac.to_string(), "02:00:ab:cd:ef:09");
        assert_eq!("02:00:AB:cd:ef:09".parse(), Ok(mac));
        for bad in [
            "",
            "02:00:ab:cd:ef",
            "02:00:ab:cd:ef:09:01",
            "+2:00:ab:cd:ef:09",
            "2:0:ab:cd:ef:9",
            "é2:00",
        ] {
            assert_eq!(bad.parse::<MacAddr>(), Err(BadMacAddr), "{bad}");
        }
    }

    #[test]
    fn stations_are_neither_groups_nor_zero() {
        assert!(MacAddr([2, 0, 0, 0, 0, 1]).is_station());
        assert!(!MacAddr::BROADCAST.is_station());
        assert!(!MacAddr::ZERO.is_station());
        assert!(!MacAddr([0x01, 0x80, 0xc2, 0, 0, 2]).is_station());
    }

    #[test]
    fn bounded_numbers_keep_their_bounds() {
        assert_eq!(Qfi::new(63).map(Qfi::get), Some(63));
        assert_eq!(Qfi::new(64), None);
        assert_eq!(Qfi::from_low_bits(0xc9).get(), 9);
        assert_eq!(Ppi::new(8), None);
        assert_eq!(VlanId::new(4096), None);
        assert_eq!(VlanId::from_low_bits(0xf123).get(), 0x123);
        assert_eq!(format!("{:?} {}", Qfi::MAX, Teid(0x2001)), "Qfi(63) 0x00002001");
    }
}
