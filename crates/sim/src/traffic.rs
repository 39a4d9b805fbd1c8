//! How much user traffic there is: rate, direction, packet sizes, and which UE is next.
//!
//! Deterministic: everything random comes from a seed.

use crate::schedule::Limits;

/// Most entries of a [`Sizes`] mix, by weight.
pub const MAX_WEIGHT: usize = 64;

/// Sizes of inner IP packets, octets, drawn at random by weight.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sizes {
    table: Vec<u16>,
}

/// Why a mix of sizes cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SizesError {
    /// The weights sum up to zero.
    Empty,
    /// The weights sum up to more than [`MAX_WEIGHT`].
    Weight(usize),
    /// A size is above [`Sizes::MAX`].
    Size(u16),
}

impl std::fmt::Display for SizesError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            SizesError::Empty => f.write_str("the weights of the packet sizes sum up to 0"),
            SizesError::Weight(sum) => {
                write!(
                    f,
                    "the weights of the packet sizes sum up to {sum}, above {MAX_WEIGHT}"
                )
            }
            SizesError::Size(size) => write!(f, "packet size {size} is above {}", Sizes::MAX),
        }
    }
}

impl std::error::Error for SizesError {}

impl Sizes {
    /// The largest inner IP packet, octets.
    pub const MAX: u16 = crate::payload::MAX as u16;

    /// One size, cut at [`Sizes::MAX`]. A path sends what is too short for a measurement at its
    /// [shortest](crate::path::Path::shortest).
    pub fn fixed(octets: u16) -> Sizes {
        Sizes {
            table: vec![octets.min(Sizes::MAX)],
        }
    }

    /// Sizes with their weights: how many packets in the sum of all weights have this size.
    pub fn mix(mix: &[(u16, u16)]) -> Result<Sizes, SizesError> {
        let weight = mix.iter().map(|(_, weight)| usize::from(*weight)).sum();
        if let Some((size, _)) = mix.iter().find(|(size, _)| *size > Sizes::MAX) {
            return Err(SizesError::Size(*size));
        }
        match weight {
            0 => Err(SizesError::Empty),
            1..=MAX_WEIGHT => {
                let entries = mix
                    .iter()
                    .flat_map(|(size, weight)| std::iter::repeat_n(*size, usize::from(*weight)));
                Ok(Sizes {
                    table: entries.collect(),
                })
            }
            _ => Err(SizesError::Weight(weight)),
        }
    }

    /// The mean size, octets, rounded down.
    pub fn mean(&self) -> u16 {
        let sum: usize = self.table.iter().map(|size| usize::from(*size)).sum();
        (sum / self.table.len()) as u16
    }

    #[inline]
    pub(crate) fn pick(&self, random: &mut Random) -> usize {
        match self.table[..] {
            [size] => usize::from(size),
            _ => usize::from(self.table[random.below(self.table.len() as u32) as usize]),
        }
    }
}

/// The offered load of one shard.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Traffic {
    /// Packets per second, both directions together; at most 2^32.
    pub rate: u64,
    /// Packets in a thousand that go uplink, 0 to 1000 (more counts as 1000).
    pub uplink_share: u16,
    /// Sizes of uplink packets.
    pub uplink_sizes: Sizes,
    /// Sizes of downlink packets.
    pub downlink_sizes: Sizes,
    /// Bounds of burst and backlog, for each direction.
    pub limits: Limits,
    /// Seed of the order of flows and sizes.
    pub seed: u64,
}

impl Default for Traffic {
    /// 100,000 packets per second, one in four uplink, 600 octets on the average: the shares and sizes of the
    /// published traffic model of 50,000 subscribers.
    fn default() -> Traffic {
        Traffic {
            rate: 100_000,
            uplink_share: 250,
            uplink_sizes: Sizes::fixed(600),
            downlink_sizes: Sizes::fixed(600),
            limits: Limits::default(),
            seed: 1,
        }
    }
}

impl Traffic {
    /// Packets per second, uplink and downlink.
    pub fn rates(&self) -> (u64, u64) {
        let uplink = u128::from(self.rate) * u128::from(self.uplink_share.min(1000)) / 1000;
        (uplink as u64, self.rate - uplink as u64)
    }
}

/// A small generator of random numbers (SplitMix64): fast, seeded, not for secrets.
#[derive(Debug, Clone)]
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Random {
        Random(seed)
    }

    #[inline]
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// A number below `bound`, or 0 if that is 0.
    #[inline]
    pub(crate) fn below(&mut self, bound: u32) -> u32 {
        (((self.next() >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// Which flow is next: each of a range once, spread over it, and then at random.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    first: u32,
    count: u32,
    /// How many have had their first turn.
    begun: u32,
    at: u32,
    stride: u32,
}

impl Order {
    pub(crate) fn new(flows: std::ops::Range<u32>) -> Order {
        let count = flows.end.saturating_sub(flows.start);
        Order {
            first: flows.start,
            count,
            begun: 0,
            at: 0,
            stride: coprime_stride(count),
        }
    }

    /// Whether there are none.
    pub(crate) const fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// The next flow; `None` if there are none.
    #[inline]
    pub(crate) fn next(&mut self, random: &mut Random) -> Option<u32> {
        if self.begun < self.count {
            let flow = self.at;
            self.begun += 1;
            self.at = ((u64::from(self.at) + u64::from(self.stride)) % u64::from(self.count)) as u32;
            return Some(self.first + flow);
        }
        (self.count > 0).then(|| self.first + random.below(self.count))
    }
}

/// A stride near the golden section of `count` that reaches every number below it.
fn coprime_stride(count: u32) -> u32 {
    let golden = (u64::from(count) * 618 / 1000).max(1) as u32;
    (golden..=count.max(1))
        .find(|stride| gcd(*stride, count) == 1)
        .unwrap_or(1)
}

fn gcd(one: u32, other: u32) -> u32 {
    if other == 0 { one } else { gcd(other, one % other) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashSet;

    #[test]
    fn sizes_keep_their_weights() {
        let sizes = Sizes::mix(&[(64, 7), (576, 4), (1500, 1)]).unwrap();
        assert_eq!(sizes.mean(), (7 * 64 + 4 * 576 + 1500) / 12);
        let mut random = Random::new(5);
        let drawn: Vec<_> = (0..12_000).map(|_| sizes.pick(&mut random)).collect();
        let share = |size| drawn.iter().filter(|drawn| **drawn == size).count();
        assert!(share(64).abs_diff(7000) < 200 && share(576).abs_diff(4000) < 200);
        assert_eq!(share(64) + share(576) + share(1500), 12_000);
    }

    #[test]
    fn sizes_out_of_bounds_are_refused() {
        assert_eq!(Sizes::mix(&[]), Err(SizesError::Empty));
        assert_eq!(Sizes::mix(&[(64, 65)]), Err(SizesError::Weight(65)));
        assert_eq!(Sizes::mix(&[(9217, 1)]), Err(SizesError::Size(9217)));
    }

    #[test]
    fn shares_add_up() {
        let traffic = Traffic {
            rate: 1001,
            uplink_share: 333,
            ..Traffic::default()
        };
        assert_eq!(traffic.rates(), (333, 668));
        let traffic = Traffic {
            rate: 10,
            uplink_share: 2000,
            ..Traffic::default()
        };
        assert_eq!(traffic.rates(), (10, 0));
    }

    proptest! {
        #[test]
        fn each_flow_has_its_turn_first(first in 0..1000u32, count in 0..2000u32, seed in any::<u64>()) {
            let (mut order, mut random) = (Order::new(first..first + count), Random::new(seed));
            let begun: HashSet<_> = (0..count).filter_map(|_| order.next(&mut random)).collect();
            prop_assert_eq!(begun, (first..first + count).collect::<HashSet<_>>());
            let later = order.next(&mut random);
            prop_assert_eq!(later.is_some(), count > 0);
            prop_assert!(later.is_none_or(|flow| (first..first + count).contains(&flow)));
        }
    }
}
