//! The addresses of a pool in the order of how many free blocks they have.
//!
//! Each change moves one address by one block, which is one swap: addresses with the same number of free blocks follow
//! each other, and where each of these groups starts is known.

/// The addresses of a pool, numbered from 0 on. 10 octets for each address, and 4 for each block of one address.
#[derive(Debug)]
pub(crate) struct ByFree {
    /// How many free blocks each address has.
    free: Vec<u16>,
    /// The addresses, those with the fewest free blocks first.
    order: Vec<u32>,
    /// Where in `order` each address is.
    places: Vec<u32>,
    /// By a number of free blocks: how many addresses have fewer. The last number is one that no address reaches.
    fewer: Vec<u32>,
}

impl ByFree {
    /// `addresses` of them that have `each` free blocks.
    pub(crate) fn new(addresses: u32, each: u16) -> Self {
        let mut fewer = vec![0; usize::from(each) + 1];
        fewer.push(addresses);
        Self {
            free: vec![each; addresses as usize],
            order: (0..addresses).collect(),
            places: (0..addresses).collect(),
            fewer,
        }
    }

    /// How many addresses there are.
    pub(crate) const fn addresses(&self) -> u32 {
        self.order.len() as u32
    }

    /// How many have no free block.
    pub(crate) fn full(&self) -> u32 {
        self.fewer.get(1).copied().unwrap_or(0)
    }

    /// How many free blocks an address has; 0 where there is no such address.
    pub(crate) fn free_of(&self, address: u32) -> u16 {
        self.free.get(address as usize).copied().unwrap_or(0)
    }

    /// The addresses with free blocks of which none has more than `slack` fewer than any other address of the pool.
    pub(crate) fn near_most(&self, slack: u16) -> &[u32] {
        let most = self.order.last().map_or(0, |address| self.free_of(*address));
        let least = most.saturating_sub(slack).max(1);
        let start = self.fewer.get(usize::from(least)).copied();
        start
            .and_then(|start| self.order.get(start as usize..))
            .unwrap_or(&[])
    }

    /// A block of an address is no longer free.
    pub(crate) fn take(&mut self, address: u32) {
        let count = self.free_of(address);
        if count > 0 {
            // To the front of its group, which then starts behind it.
            let start = self.fewer[usize::from(count)];
            self.swap(address, start);
            self.fewer[usize::from(count)] += 1;
            self.free[address as usize] -= 1;
        }
    }

    /// A block of an address is free again.
    pub(crate) fn give_back(&mut self, address: u32) {
        let more = usize::from(self.free_of(address)) + 1;
        if more + 1 < self.fewer.len() && (address as usize) < self.free.len() {
            // To the end of its group, where the next one then starts.
            self.fewer[more] -= 1;
            self.swap(address, self.fewer[more]);
            self.free[address as usize] += 1;
        }
    }

    fn swap(&mut self, address: u32, to: u32) {
        let (from, to) = (self.places[address as usize] as usize, to as usize);
        self.order.swap(from, to);
        self.places[self.order[from] as usize] = from as u32;
        self.places[self.order[to] as usize] = to as u32;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn addresses_near_the_most_free_blocks_are_those_of_a_plain_search(
            each in 1u16..5, steps in prop::collection::vec((any::<bool>(), 0u32..6), 0..100), slack in 0u16..3,
        ) {
            let mut by_free = ByFree::new(6, each);
            let mut model = [each; 6];
            for (takes, address) in steps {
                let free = &mut model[address as usize];
                if takes {
                    by_free.take(address);
                    *free = free.saturating_sub(1);
                } else {
                    by_free.give_back(address);
                    *free = each.min(*free + 1);
                }
                let most = model.into_iter().max().unwrap();
                let near = |free: u16| free > 0 && most - free <= slack;
                let mut found = by_free.near_most(slack).to_vec();
                found.sort_unstable();
                let expected: Vec<u32> = (0..6).filter(|address| near(model[*address as usize])).collect();
                prop_assert_eq!(found, expected);
                prop_assert!((0..6).all(|address| by_free.free_of(address) == model[address as usize]));
                prop_assert_eq!(by_free.full() as usize, model.iter().filter(|free| **free == 0).count());
            }
        }
    }
}
