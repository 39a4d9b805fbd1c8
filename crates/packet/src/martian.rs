//! Martian addresses: those that no packet may come from or go to (RFC 1812 §5.3.7). Packets that have one are dropped
//! as [`DropReason::MartianSource`](crate::DropReason::MartianSource) or
//! [`DropReason::MartianDestination`](crate::DropReason::MartianDestination).

use std::net::IpAddr;

/// Whether no station has this address.
#[inline]
pub fn is_martian(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(address) => is_martian_v4(address.octets()),
        IpAddr::V6(address) => is_martian_v6(address.octets()),
    }
}

/// Whether no station has this address: "this network", loopback, multicast, class E and limited broadcast
/// (RFC 1812 §5.3.7, RFC 6890 §2.2.2). Private ranges are for configuration to judge.
#[inline]
pub const fn is_martian_v4(address: [u8; 4]) -> bool {
    matches!(address[0], 0 | 127 | 224..=255)
}

/// Whether no station has this address: multicast and ::/64, which holds the unspecified address, loopback and IPv4
/// addresses in two forms that are never on a link (RFC 4291 §2.4, §2.5.5, §2.7; RFC 6890 §2.2.3).
#[inline]
pub fn is_martian_v6(address: [u8; 16]) -> bool {
    address[0] == 0xff || address.first_chunk() == Some(&[0; 8])
}

/// Whether a packet from or to this address never passes a router as unicast: martians and link-local addresses
/// (RFC 3927 §7).
#[inline]
pub const fn is_unforwardable_v4(address: [u8; 4]) -> bool {
    is_martian_v4(address) || matches!(address, [169, 254, _, _])
}

/// Whether a packet from or to this address never passes a router as unicast: martians and link-local addresses
/// (RFC 4291 §2.5.6). The first 64 bits decide.
#[inline]
pub fn is_unforwardable_v6(address: [u8; 16]) -> bool {
    is_martian_v6(address) || (address[0] == 0xfe && address[1] & 0xc0 == 0x80)
}

#[cfg(test)]
mod tests {
    use std::net::Ipv6Addr;

    use super::*;

    #[test]
    fn martians_of_ipv4() {
        for address in [[0, 0, 0, 1], [127, 0, 0, 1], [224, 0, 0, 1], [255; 4]] {
            assert!(is_martian_v4(address) && is_unforwardable_v4(address));
            assert!(is_martian(address.into()));
        }
        assert!(!is_martian_v4([169, 254, 0, 1]) && is_unforwardable_v4([169, 254, 0, 1]));
        for address in [
            [10, 45, 0, 2],
            [1, 0, 0, 1],
            [126, 0, 0, 1],
            [223, 255, 255, 255],
            [169, 253, 0, 1],
        ] {
            assert!(!is_unforwardable_v4(address) && !is_martian(address.into()));
        }
    }

    #[test]
    fn martians_of_ipv6() {
        let octets = |text: &str| text.parse::<Ipv6Addr>().unwrap().octets();
        for text in ["::", "::1", "::ffff:10.0.0.1", "ff02::1"] {
            assert!(is_martian_v6(octets(text)) && is_unforwardable_v6(octets(text)));
            assert!(is_martian(text.parse().unwrap()));
        }
        for text in ["fe80::1", "febf::1"] {
            assert!(!is_martian_v6(octets(text)) && is_unforwardable_v6(octets(text)));
        }
        for text in ["2001:db8::1", "64:ff9b::1", "fec0::1", "fd00::1"] {
            assert!(!is_unforwardable_v6(octets(text)) && !is_martian(text.parse().unwrap()));
        }
    }
}
