//! Longest prefix match: a trie with a stride of 8 bits. A node has a slot for each value of an octet.
//!
//! A slot is empty, or has the next node or the value that is found. A lookup reads one slot for each octet of the
//! longest prefix on its path: one for a default route if no prefix is longer than 8 bits, three with /24s, eight with
//! IPv6 prefixes of 64 bits. A shorter prefix is expanded into all slots below it that no longer prefix has. A node is
//! 1 KiB; a prefix needs one for each of its octets but the first, shared with prefixes that begin alike.
//!
//! The trie is built once, from all prefixes. `rte_fib` needs one or two reads, but 64 MiB for each VRF, and DPDK,
//! which this crate and its tests do without.

/// A slot of a node: empty, a value, or another node.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct NodeSlot(u32);

impl NodeSlot {
    const EMPTY: Self = Self(0);
    const NODE: u32 = 1 << 31;

    const fn value(value: u32) -> Self {
        Self(value + 1)
    }

    const fn node(node: usize) -> Self {
        Self(Self::NODE | node as u32)
    }

    /// The next node.
    #[inline(always)]
    const fn next_node(self) -> Option<usize> {
        if self.0 & Self::NODE != 0 {
            Some((self.0 ^ Self::NODE) as usize)
        } else {
            None
        }
    }

    #[inline(always)]
    const fn found_value(self) -> Option<u32> {
        self.0.checked_sub(1)
    }
}

/// A prefix and its value.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FibPrefix<const N: usize> {
    /// The network; bits behind the length are zero.
    pub network: [u8; N],
    /// Length in bits, at most `8 * N`.
    pub length: u8,
    /// Below 2^31 - 1.
    pub value: u32,
}

/// Values by prefix of an address of `N` octets.
#[derive(Clone, Debug)]
pub(crate) struct Fib<const N: usize> {
    nodes: Vec<[NodeSlot; 256]>,
}

impl<const N: usize> Fib<N> {
    /// The trie of these prefixes. Of equal prefixes the last counts.
    pub(crate) fn new(mut prefixes: Vec<FibPrefix<N>>) -> Self {
        prefixes.sort_by_key(|prefix| prefix.length);
        let mut fib = Self {
            nodes: vec![[NodeSlot::EMPTY; 256]],
        };
        for FibPrefix {
            network,
            length,
            value,
        } in prefixes
        {
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
        self.nodes[node][first..first + (256 >> rest)].fill(NodeSlot::value(value));
    }

    /// The next node of an octet. A new node has the slot's value in all its slots.
    fn below(&mut self, node: usize, octet: u8) -> usize {
        let slot = self.nodes[node][usize::from(octet)];
        slot.next_node().unwrap_or_else(|| {
            self.nodes.push([slot; 256]);
            let made = self.nodes.len() - 1;
            self.nodes[node][usize::from(octet)] = NodeSlot::node(made);
            made
        })
    }

    /// The value of the longest prefix that holds the address.
    #[inline(always)]
    pub(crate) fn lookup(&self, address: [u8; N]) -> Option<u32> {
        let mut node = 0;
        for octet in address {
            let slot = self.nodes[node][usize::from(octet)];
            match slot.next_node() {
                Some(below) => node = below,
                None => return slot.found_value(),
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const fn prefix<const N: usize>(network: [u8; N], length: u8, value: u32) -> FibPrefix<N> {
        FibPrefix {
            network,
            length,
            value,
        }
    }

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
            let fib = Fib::new(prefixes.iter().map(|(net, length, value)| prefix(net.to_be_bytes(), *length, *value)).collect());
            for address in probes {
                let holds = |(net, length, _): &&(u32, u8, u32)| masked(address, *length) == *net;
                let longest = prefixes.iter().filter(holds).max_by_key(|(_, length, place)| (*length, *place));
                prop_assert_eq!(fib.lookup(address.to_be_bytes()), longest.map(|(.., value)| *value));
            }
        }

        #[test]
        fn the_last_octet_of_a_long_address_counts(octets: [u8; 16], other: u8) {
            let fib = Fib::new(vec![prefix(octets, 128, 7), prefix([0; 16], 0, 3)]);
            prop_assert_eq!(fib.lookup(octets), Some(7));
            let mut near = octets;
            near[15] = other;
            prop_assert_eq!(fib.lookup(near), Some(if near == octets { 7 } else { 3 }));
        }
    }

    #[test]
    fn nothing_is_found_where_there_is_nothing() {
        assert_eq!(Fib::<4>::new(Vec::new()).lookup([1, 2, 3, 4]), None);
        let fib = Fib::new(vec![prefix([10, 0, 0, 0], 8, 0)]);
        assert_eq!(
            (fib.lookup([10, 9, 9, 9]), fib.lookup([11, 0, 0, 0])),
            (Some(0), None)
        );
    }
}
