//! Blocks that follow from addresses (RFC 7422): each address of a prefix has one block of a pool for good.
//!
//! Arithmetic only. Which UE had a public address and port is known without a record of it. Which session holds the
//! block is not known here: [`PortBlocks::take`](crate::blocks::PortBlocks::take) gives it to one.

use std::net::Ipv4Addr;

use super::fixed::DeterministicError;
use super::numbering::{BlockId, NatPoolId, Numbering};

/// The addresses of an inside prefix and the blocks of a pool, each in their order: address number n has block number n
/// of the pool. Neighbours share a public address, as many as it has blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Deterministic {
    pool: NatPoolId,
    inside: u32,
    count: u64,
    block: u32,
}

impl Deterministic {
    /// The prefix of `len` bits (0..=32) that `inside` is in, mapped to the blocks of a pool.
    ///
    /// # Errors
    /// There is no such prefix or pool, or the pool has fewer blocks than the prefix has addresses.
    pub fn new(
        pools: &Numbering,
        pool: NatPoolId,
        inside: Ipv4Addr,
        len: u8,
    ) -> Result<Self, DeterministicError> {
        let host_bits = u8::checked_sub(32, len).ok_or(DeterministicError::Length(len))?;
        let own = pools.blocks_of(pool);
        let count = 1u64 << host_bits;
        let blocks = own.clone().count() as u32;
        match blocks {
            0 => Err(DeterministicError::NoPool(pool.0)),
            _ if count > u64::from(blocks) => Err(DeterministicError::TooSmall {
                addresses: count,
                blocks,
            }),
            _ => Ok(Self {
                pool,
                inside: inside.to_bits() & !((count - 1) as u32),
                count,
                block: *own.start(),
            }),
        }
    }

    /// The prefix: its first address and its length.
    pub const fn prefix(&self) -> (Ipv4Addr, u8) {
        let len = 32 - self.count.trailing_zeros() as u8;
        (Ipv4Addr::from_bits(self.inside), len)
    }

    /// The block of an inside address; `None` outside the prefix.
    pub fn block_of(&self, inside: Ipv4Addr) -> Option<BlockId> {
        let number = inside.to_bits().checked_sub(self.inside)?;
        (u64::from(number) < self.count).then_some(BlockId(self.block + number))
    }

    /// The inside address of a block; `None` where no address of the prefix has it.
    pub fn inside_of_block(&self, block: BlockId) -> Option<Ipv4Addr> {
        let number = block.0.checked_sub(self.block)?;
        (u64::from(number) < self.count).then(|| Ipv4Addr::from_bits(self.inside + number))
    }

    /// The inside address that has a port of a public address; `None` where none has. `pools` are those that it was
    /// made for.
    pub fn inside_of(&self, pools: &Numbering, public: Ipv4Addr, port: u16) -> Option<Ipv4Addr> {
        let vrf = pools.pool(self.pool)?.vrf;
        self.inside_of_block(pools.block_of(vrf, public, port)?)
    }
}

#[cfg(test)]
mod tests {
    use flow::{InstanceId, VrfId};
    use proptest::prelude::*;

    use super::*;
    use crate::pools::fixed::Fixed;
    use crate::pools::{Filtering, NatLimits, NatPool, NatPools, UnsolicitedPolicy};

    const POOL: NatPoolId = NatPoolId(1);

    /// Two pools; the second one has 4 addresses of 126 blocks, in two ranges.
    fn pools() -> NatPools {
        let ranges = |name: &str, vrf, ranges: &[(u32, u32)]| NatPool {
            name: name.into(),
            instance: InstanceId(0),
            vrf: VrfId(vrf),
            addresses: ranges
                .iter()
                .map(|(first, last)| Ipv4Addr::from_bits(*first)..=Ipv4Addr::from_bits(*last))
                .collect(),
            ports: 1_024..=65_535,
            block_bits: 9,
            filtering: Filtering::default(),
            unsolicited: UnsolicitedPolicy::default(),
            limits: NatLimits {
                blocks: 1,
                mappings: 512,
                mappings_per_second: 0,
            },
            fixed: Fixed::default(),
        };
        let second = ranges("b", 1, &[(0x0900_0007, 0x0900_0008), (0x0900_0001, 0x0900_0002)]);
        NatPools::new(vec![ranges("a", 0, &[(0x0900_0001, 0x0900_0002)]), second]).unwrap()
    }

    #[test]
    fn a_prefix_with_more_addresses_than_blocks_is_refused() {
        let pools = pools();
        let new = |pool, len| Deterministic::new(&pools, pool, Ipv4Addr::new(100, 64, 0, 0), len);
        let too_small = |addresses| {
            Err(DeterministicError::TooSmall {
                addresses,
                blocks: 504,
            })
        };
        assert_eq!(new(POOL, 23), too_small(512));
        assert_eq!(new(POOL, 0), too_small(1 << 32));
        assert_eq!(new(POOL, 33), Err(DeterministicError::Length(33)));
        assert_eq!(new(NatPoolId(2), 24), Err(DeterministicError::NoPool(2)));
        assert!(new(POOL, 24).is_ok() && new(POOL, 32).is_ok());
        let prefix = |len| new(POOL, len).unwrap().prefix();
        assert_eq!(prefix(24), (Ipv4Addr::new(100, 64, 0, 0), 24));
        assert_eq!(prefix(32), (Ipv4Addr::new(100, 64, 0, 0), 32));
    }

    #[test]
    fn inside_addresses_have_the_blocks_of_the_pool_in_order() {
        let pools = pools();
        let map = Deterministic::new(&pools, POOL, Ipv4Addr::new(100, 64, 7, 99), 24).unwrap();
        let block = |last| {
            let id = map.block_of(Ipv4Addr::new(100, 64, 7, last)).unwrap();
            pools.block(id).unwrap()
        };
        for (inside, public, first) in [(0, 7, 1_024), (125, 7, 65_024), (126, 8, 1_024), (252, 1, 1_024)] {
            let (pool, block) = block(inside);
            assert_eq!(
                (pool, block.address, block.first),
                (POOL, [9, 0, 0, public].into(), first)
            );
        }
        for outside in [[100, 64, 6, 255], [100, 64, 8, 0]] {
            assert_eq!(map.block_of(outside.into()), None);
        }
        let inside_of = |public: [u8; 4], port| map.inside_of(&pools, public.into(), port);
        assert_eq!(inside_of([9, 0, 0, 1], 2_559), Some([100, 64, 7, 254].into()));
        for (public, port) in [
            ([9, 0, 0, 7], 1_023),
            ([9, 0, 0, 3], 2_000),
            ([9, 0, 0, 1], 3_072),
        ] {
            assert_eq!(inside_of(public, port), None, "{public:?} {port}");
        }
    }

    proptest! {
        #[test]
        fn an_inside_address_is_found_by_each_port_of_its_block_and_by_no_other(
            inside: u32, len in 24u8..=32, port: u16, public in prop::sample::select(vec![1u8, 2, 7, 8, 9]),
        ) {
            let pools = pools();
            let map = Deterministic::new(&pools, POOL, inside.into(), len).unwrap();
            let public = Ipv4Addr::new(9, 0, 0, public);
            let first = inside & u32::MAX.checked_shl(32 - u32::from(len)).unwrap_or(0);
            let own = (0..1u32 << (32 - len)).map(|number| Ipv4Addr::from_bits(first + number));
            let holds = |address: &Ipv4Addr| {
                let (_, block) = pools.block(map.block_of(*address).unwrap()).unwrap();
                block.address == public && block.ports().contains(&port)
            };
            let holders: Vec<_> = own.filter(holds).collect();
            prop_assert!(holders.len() <= 1);
            prop_assert_eq!(map.inside_of(&pools, public, port), holders.first().copied());
        }
    }
}
