//! The 512 buckets that sessions are placed in, by the Toeplitz function that NICs use for RSS.
//!
//! A session's bucket is that of its primary UE address or prefix, else of its TEID; a table elsewhere maps buckets
//! to workers. The function is linear over XOR, so a random TEID is moved into a wanted bucket by changing its low 9
//! bits alone: [`adjust_teid`]. It is *not* for hash tables: a sender that knows the key can aim at a bucket.

use core::fmt;
use std::net::IpAddr;

/// How many buckets there are: the size of the redirection table of the NICs in use, and 9 bits.
pub const BUCKETS: usize = 512;

/// A bucket: `0..512`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(transparent)]
pub struct Bucket(u16);

impl Bucket {
    /// `None` when `number` is not below [`BUCKETS`].
    pub const fn new(number: u16) -> Option<Self> {
        if (number as usize) < BUCKETS {
            Some(Self(number))
        } else {
            None
        }
    }

    /// The bucket of an RSS hash: its low 9 bits.
    #[inline]
    pub const fn of_rss_hash(hash: u32) -> Self {
        Self((hash % BUCKETS as u32) as u16)
    }

    /// The number, always below [`BUCKETS`].
    #[inline]
    pub const fn index(self) -> usize {
        self.0 as usize % BUCKETS
    }

    /// All buckets in ascending order.
    pub fn all() -> impl Iterator<Item = Self> {
        (0..BUCKETS as u16).map(Self)
    }
}

impl fmt::Display for Bucket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// The key: the one of the RSS verification suite, which every NIC's driver knows and most use by default. Unlike
/// the symmetric keys (a pattern repeated every 16 bits) it spreads single addresses over all buckets.
pub const KEY: [u8; 40] = [
    0x6d, 0x5a, 0x56, 0xda, 0x25, 0x5b, 0x0e, 0xc2, 0x41, 0x67, 0x25, 0x3d, 0x43, 0xa3, 0x8f, 0xb0, 0xd0,
    0xca, 0x2b, 0xcb, 0xae, 0x7b, 0x30, 0xb4, 0x77, 0xcb, 0x2d, 0xa3, 0x80, 0x30, 0xf2, 0x0c, 0x6a, 0x42,
    0xb7, 0x3b, 0xbe, 0xac, 0x01, 0xfa,
];

/// The bucket of an IPv4 UE address, hashed alone (RSS over the source of uplink, the destination of downlink).
#[inline]
pub const fn of_ipv4(address: [u8; 4]) -> Bucket {
    let [a, b, c, d] = address;
    Bucket(
        BY_OCTET[0][a as usize] ^ BY_OCTET[1][b as usize] ^ BY_OCTET[2][c as usize] ^ BY_OCTET[3][d as usize],
    )
}

/// The bucket of the first 64 bits of an IPv6 UE address: a UE chooses the rest itself.
#[inline]
pub const fn of_ipv6_prefix(prefix: [u8; 8]) -> Bucket {
    let [a, b, c, d, e, f, g, h] = prefix;
    let high = of_ipv4([a, b, c, d]).0;
    let low =
        BY_OCTET[4][e as usize] ^ BY_OCTET[5][f as usize] ^ BY_OCTET[6][g as usize] ^ BY_OCTET[7][h as usize];
    Bucket(high ^ low)
}

/// The bucket of a UE address.
#[inline]
pub const fn of_address(address: IpAddr) -> Bucket {
    match address {
        IpAddr::V4(address) => of_ipv4(address.octets()),
        IpAddr::V6(address) => {
            let [a, b, c, d, e, f, g, h, ..] = address.octets();
            of_ipv6_prefix([a, b, c, d, e, f, g, h])
        }
    }
}

/// The bucket of an IPv4 address and a port behind it, as a NIC hashes the destination address and port of a packet and
/// nothing else. Linear over XOR: the bucket of the address alone ([`of_ipv4`]) by that of the port at address 0.
#[inline]
pub const fn of_endpoint(address: [u8; 4], port: u16) -> Bucket {
    let [high, low] = port.to_be_bytes();
    Bucket(of_ipv4(address).0 ^ BY_OCTET[4][high as usize] ^ BY_OCTET[5][low as usize])
}

/// The bucket of a TEID in the order of the wire.
#[inline]
pub const fn of_teid(teid: u32) -> Bucket {
    of_ipv4(teid.to_be_bytes())
}

/// A TEID in the bucket `want` whose upper 23 bits are those of `random`: a wanted bucket costs 9 bits of randomness.
pub const fn adjust_teid(random: u32, want: Bucket) -> u32 {
    let mut difference = of_teid(random).0 ^ want.0;
    let mut teid = random;
    while difference != 0 {
        teid ^= CORRECTION[difference.trailing_zeros() as usize % 9];
        difference &= difference - 1;
    }
    teid
}

/// The Toeplitz hash of `input`, at most 36 octets, as the RSS specification defines it.
const fn toeplitz(input: &[u8]) -> u32 {
    let mut hash = 0;
    let mut bit = 0;
    while bit < input.len() * 8 {
        if input[bit / 8] & (0x80 >> (bit % 8)) != 0 {
            hash ^= key_window(bit);
        }
        bit += 1;
    }
    hash
}

/// The 32 bits of the key that start at bit `first`, below 288.
const fn key_window(first: usize) -> u32 {
    let mut window = 0u64;
    let mut octet = 0;
    while octet < 5 {
        window = window << 8 | KEY[first / 8 + octet] as u64;
        octet += 1;
    }
    (window >> (8 - first % 8)) as u32
}

/// What an octet at each of the first eight places adds to the bucket.
static BY_OCTET: [[u16; 256]; 8] = {
    let mut table = [[0; 256]; 8];
    let mut place = 0;
    while place < 8 {
        let mut value = 0;
        while value < 256 {
            let mut input = [0; 8];
            input[place] = value as u8;
            table[place][value] = (toeplitz(&input) % BUCKETS as u32) as u16;
            value += 1;
        }
        place += 1;
    }
    table
};

/// For each of a bucket's 9 bits, the change to a TEID's low 9 bits that flips it and no other: the inverse of the
/// matrix by which those bits reach the bucket.
const CORRECTION: [u32; 9] = {
    // Each row: what a TEID's change flips in the bucket (low half), and the change itself (high half).
    let mut rows = [0u64; 9];
    let mut bit = 0;
    while bit < 9 {
        let change = 1u32 << bit;
        rows[bit] = (change as u64) << 32 | (toeplitz(&change.to_be_bytes()) % BUCKETS as u32) as u64;
        bit += 1;
    }
    reduce(rows)
};

/// Gauss-Jordan over the low 9 bits of the rows; gives their high halves. Does not compile for a singular matrix.
const fn reduce(mut rows: [u64; 9]) -> [u32; 9] {
    let mut column = 0;
    while column < 9 {
        let mut pivot = column;
        while rows[pivot] >> column & 1 == 0 {
            pivot += 1;
            assert!(
                pivot < 9,
                "the key does not let the low TEID bits reach every bucket"
            );
        }
        let row = rows[pivot];
        rows[pivot] = rows[column];
        rows[column] = row;
        let mut other = 0;
        while other < 9 {
            if other != column && rows[other] >> column & 1 != 0 {
                rows[other] ^= row;
            }
            other += 1;
        }
        column += 1;
    }
    let mut changes = [0; 9];
    let mut bit = 0;
    while bit < 9 {
        changes[bit] = (rows[bit] >> 32) as u32;
        bit += 1;
    }
    changes
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// The verification suite of the RSS specification, IPv4 without ports: source, destination, hash.
    #[test]
    fn toeplitz_agrees_with_the_rss_verification_suite() {
        let vectors = [
            ([66, 9, 149, 187], [161, 142, 100, 80], 0x323e_8fc2),
            ([199, 92, 111, 2], [65, 69, 140, 83], 0xd718_262a),
            ([24, 19, 198, 95], [12, 22, 207, 184], 0xd2d0_a5de),
            ([38, 27, 205, 30], [209, 142, 163, 6], 0x8298_9176),
            ([153, 39, 163, 191], [202, 188, 127, 2], 0x5d18_09c5),
        ];
        for (source, destination, hash) in vectors {
            let input: Vec<u8> = [source, destination].concat();
            assert_eq!(toeplitz(&input), hash);
            assert_eq!(
                of_ipv6_prefix(input.try_into().unwrap()),
                Bucket::of_rss_hash(hash)
            );
        }
    }

    #[test]
    fn neighbouring_addresses_fill_every_bucket_alike() {
        let mut seen = [0u32; BUCKETS];
        for host in 0..(BUCKETS as u32 * 64) {
            seen[of_ipv4((0x0a2d_0000 + host).to_be_bytes()).index()] += 1;
        }
        assert!(seen.iter().all(|&count| count == 64), "{seen:?}");
    }

    #[test]
    fn a_bucket_is_below_512() {
        assert_eq!(Bucket::new(511).map(Bucket::index), Some(511));
        assert_eq!(Bucket::new(512), None);
        assert_eq!(Bucket::all().count(), BUCKETS);
    }

    proptest! {
        #[test]
        fn tables_agree_with_the_definition(octets: [u8; 8], teid: u32) {
            prop_assert_eq!(of_ipv6_prefix(octets), Bucket::of_rss_hash(toeplitz(&octets)));
            prop_assert_eq!(of_teid(teid), Bucket::of_rss_hash(toeplitz(&teid.to_be_bytes())));
            let [a, b, c, d, high, low, ..] = octets;
            let endpoint = of_endpoint([a, b, c, d], u16::from_be_bytes([high, low]));
            prop_assert_eq!(endpoint, Bucket::of_rss_hash(toeplitz(&[a, b, c, d, high, low])));
        }

        #[test]
        fn an_adjusted_teid_is_in_the_wanted_bucket(random: u32, want in 0u16..512) {
            let want = Bucket(want);
            let teid = adjust_teid(random, want);
            prop_assert_eq!(of_teid(teid), want);
            prop_assert_eq!(teid >> 9, random >> 9);
        }

        #[test]
        fn a_teid_that_is_right_already_stays(random: u32) {
            prop_assert_eq!(adjust_teid(random, of_teid(random)), random);
        }
    }
}
