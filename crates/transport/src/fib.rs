//! Longest prefix match: a tree of nodes with a place for each value of an octet.
//!
//! A place names the next node, or what is found there, so an address takes as many reads as the longest prefix on its
//! way has octets: one for a default route beside none longer than 8 bits, three beside /24s, eight at most beside
//! IPv6 prefixes of 64 bits. A shorter prefix is written into every place below it that no longer one has. A node is 1
//! KiB; a prefix needs one for each of its octets but the first, shared with those that begin alike.
//!
//! It is made once, from all prefixes; `rte_fib` would give the same in one or two reads, for 64 MiB of every VRF and
//! with DPDK beneath, which this crate and its tests do without.

/// A place of a node: nothing, a value, or another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Place(u32);

impl Place {
    const EMPTY: Self = Self(0);
    const NODE: u32 = 1 << 31;

    const fn value(value: u32) -> Self {
        Self(value + 1)
    }

    const fn node(node: usize) -> Self {
        Self(Self::NODE | node as u32)
    }

    /// The node that it leads to.
    #[inline(always)]
    const fn leads_to(self) -> Option<usize> {
        if self.0 & Self::NODE != 0 {
            Some((self.0 ^ Self::NODE) as usize)
        } else {
            None
        }
    }

    #[inline(always)]
    const fn found(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// Values by prefix of an address of `N` octets. A value is below 2^31 - 1.
#[derive(Clone, Debug)]
pub(crate) struct Fib<const N: usize> {
    nodes: Vec<[Place; 256]>,
}

impl<const N: usize> Fib<N> {
    /// The values of these prefixes: an address, how many of its bits count (at most `8 * N`; the others are zero), and
    /// a value. Of equal prefixes the last counts.
    pub(crate) fn new(mut prefixes: Vec<([u8; N], u8, u32)>) -> Self {
        prefixes.sort_by_key(|(_, length, _)| *length);
        let mut fib = Self {
            nodes: vec![[Place::EMPTY; 256]],
        };
        for (network, length, value) in prefixes {
            fib.add(network, usize::from(length).min(8 * N), value);
        }
        fib
    }

    /// Adds a prefix that is as long as those before, or longer.
    fn add(&mut self, network: [u8; N], length: usize, value: u32) {
        let depth = length.saturating_sub(1) / 8;
        let node = network[..depth]
            .iter()
            .fold(0, |node, octet| self.below(node, *octet));
        let rest = length - 8 * depth;
        let first = usize::from(network[depth]);
        self.nodes[node][first..first + (256 >> rest)].fill(Place::value(value));
    }

    /// The node that an octet leads to, made if there is none: with what is found without it in all its places.
    fn below(&mut self, node: usize, octet: u8) -> usize {
        let place = self.nodes[node][usize::from(octet)];
        place.leads_to().unwrap_or_else(|| {
            self.nodes.push([place; 256]);
            let made = self.nodes.len() - 1;
            self.nodes[node][usize::from(octet)] = Place::node(made);
            made
        })
    }

    /// The value of the longest prefix that holds the address.
    #[inline(always)]
    pub(crate) fn lookup(&self, address: [u8; N]) -> Option<u32> {
        let mut node = 0;
        for octet in address {
            let place = self.nodes[node][usize::from(octet)];
            match place.leads_to() {
                Some(below) => node = below,
                None => return place.found(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn masked(address: u32, length: u8) -> u32 {
        address & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
    }

    /// Addresses that share their first octets often.
    fn addresses() -> impl Strategy<Value = u32> {
        let octet = || prop::sample::select(vec![0, 1, 10, 127, 128, 255]);
        (octet(), octet(), octet(), any::<u8>()).prop_map(|(a, b, c, d)| u32::from_be_bytes([a, b, c, d]))
    }

    proptest! {
        #[test]
        fn the_longest_prefix_is_found(
            drawn in prop::collection::vec((addresses(), 0..=32_u8), 0..40),
            probes in prop::collection::vec(addresses(), 40),
        ) {
            let prefixes: Vec<_> = drawn
                .iter()
                .enumerate()
                .map(|(place, (address, length))| (masked(*address, *length), *length, place as u32))
                .collect();
            let fib = Fib::new(prefixes.iter().map(|(net, length, value)| (net.to_be_bytes(), *length, *value)).collect());
            for address in probes {
                let holds = |(net, length, _): &&(u32, u8, u32)| masked(address, *length) == *net;
                let longest = prefixes.iter().filter(holds).max_by_key(|(_, length, place)| (*length, *place));
                prop_assert_eq!(fib.lookup(address.to_be_bytes()), longest.map(|(.., value)| *value));
            }
        }

        #[test]
        fn the_last_octet_of_a_long_address_counts(octets: [u8; 16], other: u8) {
            let fib = Fib::new(vec![(octets, 128, 7), ([0; 16], 0, 3)]);
            prop_assert_eq!(fib.lookup(octets), Some(7));
            let mut near = octets;
            near[15] = other;
            prop_assert_eq!(fib.lookup(near), Some(if near == octets { 7 } else { 3 }));
        }
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        assert_eq!(Fib::<4>::new(Vec::new()).lookup([1, 2, 3, 4]), None);
        let fib = Fib::new(vec![([10, 0, 0, 0], 8, 0)]);
        assert_eq!(
            (fib.lookup([10, 9, 9, 9]), fib.lookup([11, 0, 0, 0])),
            (Some(0), None)
        );
    }
}
