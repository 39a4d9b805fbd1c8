//! The numbers of pools, and of their port blocks.
//!
//! A block is 2^k consecutive ports of one public address, from a multiple of 2^k on. All blocks of all pools are
//! numbered, so that workers have arrays of them: which bucket's session holds a block is one look into memory.

use std::fmt;
use std::net::Ipv4Addr;
use std::ops::RangeInclusive;
use std::time::Duration;

use flow::{InstanceId, VrfId};

use super::fixed::{DeterministicError, Fixed, ForwardError};

/// The most blocks of all pools.
pub const MOST_BLOCKS: u32 = 1 << 24;
/// A block has 2 to the power of one of these ports.
pub const BLOCK_BITS: RangeInclusive<u8> = 4..=15;

/// The number of a block among those of all pools.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BlockId(pub u32);

/// The number of a pool: its place in [`NatPools::all`](Numbering::all).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NatPoolId(pub u16);

/// Who may send to a mapping (RFC 4787 §5).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Filtering {
    /// Anyone.
    #[default]
    EndpointIndependent,
    /// Addresses that the mapping has sent to.
    AddressDependent,
}

/// How long a mapping lives behind the last packet that its UE has sent by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// Of TCP, when a connection is established (RFC 5382 REQ-5).
    pub tcp_established: Duration,
    /// Of TCP, before that and behind a FIN or RST (RFC 5382 REQ-5, RFC 7857 §2).
    pub tcp_transitory: Duration,
    /// Of UDP (RFC 4787 REQ-5).
    pub udp: Duration,
    /// Of ICMP queries (RFC 5508 REQ-2).
    pub icmp: Duration,
}

impl Default for Lifetimes {
    fn default() -> Self {
        Self {
            tcp_established: Duration::from_secs(7_440),
            tcp_transitory: Duration::from_secs(240),
            udp: Duration::from_secs(300),
            icmp: Duration::from_secs(60),
        }
    }
}

/// What sessions of a pool may have of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NatLimits {
    /// Blocks of a session, at least 1.
    pub blocks: u8,
    /// Mappings of a session.
    pub mappings: u32,
    /// New mappings of a session a second, with as large a burst; 0: no limit.
    pub mappings_per_second: u32,
}

/// What becomes of *unsolicited* packets: those that come through a live mapping from an address that the mapping has
/// not sent to. Where only those addresses may send, there are none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnsolicitedPolicy {
    /// They wait for a UE that is idle, and have it paged, as all others do. Else they end there.
    pub pages: bool,
    /// They count in URRs, as all others do.
    pub charged: bool,
}

impl UnsolicitedPolicy {
    /// They are as all others.
    pub const AS_OTHERS: Self = Self {
        pages: true,
        charged: true,
    };
}

/// A pool of public addresses of one network instance, and how it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NatPool {
    /// Its name.
    pub name: String,
    /// The network instance by which translated packets leave.
    pub instance: InstanceId,
    /// The address space of that instance.
    pub vrf: VrfId,
    /// Its addresses; ranges of one address space do not overlap.
    pub addresses: Vec<RangeInclusive<Ipv4Addr>>,
    /// The ports that are used of each. Blocks that are not whole are left out.
    pub ports: RangeInclusive<u16>,
    /// A block is 2 to the power of this ports, one of [`BLOCK_BITS`].
    pub block_bits: u8,
    /// Who may send to a mapping.
    pub filtering: Filtering,
    /// What becomes of unsolicited packets.
    pub unsolicited: UnsolicitedPolicy,
    /// What sessions may have.
    pub limits: NatLimits,
    /// What of it is for certain UEs.
    pub fixed: Fixed,
}

impl NatPool {
    /// Whether unsolicited packets are distinguished from others.
    pub fn distinguishes_unsolicited(&self) -> bool {
        self.filtering == Filtering::EndpointIndependent && self.unsolicited != UnsolicitedPolicy::AS_OTHERS
    }

    /// The number of the first block of each address, counted from port 0, and how many there are.
    fn blocks_of_address(&self) -> (u32, u32) {
        let (first, last) = (u32::from(*self.ports.start()), u32::from(*self.ports.end()));
        let from = first.div_ceil(1 << self.block_bits);
        let end = (last + 1) >> self.block_bits;
        (from, end.saturating_sub(from))
    }
}

/// A block of ports: `1 << bits` of them, from `first` on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortBlock {
    /// The public address.
    pub address: Ipv4Addr,
    /// The first port.
    pub first: u16,
    /// How many there are, as a power of two.
    pub bits: u8,
}

impl PortBlock {
    /// The ports.
    pub fn ports(&self) -> RangeInclusive<u16> {
        self.first..=self.first | ((1u32 << self.bits) - 1) as u16
    }
}

/// Why pools contradict each other, or one itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PoolError {
    /// The pool with this name has no block.
    Empty(String),
    /// Two pools with this name.
    Name(String),
    /// An address is in two ranges of one address space; the first one that is.
    Overlap(String, Ipv4Addr),
    /// [`MOST_BLOCKS`] are exceeded by this pool, or it has a range of more than 2^16 addresses.
    TooMany(String),
    /// Blocks of this pool have a size that is none of [`BLOCK_BITS`].
    BlockSize(String),
    /// The blocks of this pool cannot follow from the addresses of UEs.
    Deterministic(String, DeterministicError),
    /// The port forward at this place of this pool cannot be.
    Forward(String, usize, ForwardError),
}

impl PoolError {
    /// The name of the pool.
    pub fn pool(&self) -> &str {
        match self {
            Self::Empty(name)
            | Self::Name(name)
            | Self::Overlap(name, _)
            | Self::TooMany(name)
            | Self::BlockSize(name)
            | Self::Deterministic(name, _)
            | Self::Forward(name, ..) => name,
        }
    }
}

impl fmt::Display for PoolError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty(name) => write!(f, "pool `{name}` has no address, or no whole block of ports"),
            Self::Name(name) => write!(f, "two pools have the name `{name}`"),
            Self::Overlap(name, address) => write!(f, "pool `{name}`: {address} is in another range, too"),
            Self::TooMany(name) => write!(
                f,
                "pool `{name}`: a range has more than 65536 addresses, or all pools have more than {MOST_BLOCKS} blocks"
            ),
            Self::BlockSize(name) => write!(
                f,
                "pool `{name}`: a block has a power of two of ports, 16 to 32768"
            ),
            Self::Deterministic(name, error) => write!(f, "pool `{name}`: deterministic: {error}"),
            Self::Forward(name, place, error) => write!(f, "pool `{name}`: forward {}: {error}", place + 1),
        }
    }
}

impl core::error::Error for PoolError {}

/// Addresses of a pool that follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Range {
    vrf: VrfId,
    first: u32,
    last: u32,
    pool: NatPoolId,
    /// The number of the first block of the first address.
    base: u32,
    /// As of the pool's [`blocks_of_address`](NatPool::blocks_of_address), and its size of blocks.
    from: u32,
    each: u32,
    bits: u8,
}

/// A public address of a pool, and where its blocks are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PublicAddress {
    /// The pool.
    pub pool: NatPoolId,
    /// The number of its first block.
    base: u32,
    from: u32,
    each: u32,
    bits: u8,
}

impl PublicAddress {
    /// The block of a port; `None` where the pool has it not.
    #[inline]
    pub fn block(&self, port: u16) -> Option<BlockId> {
        let number = (u32::from(port) >> self.bits).wrapping_sub(self.from);
        (number < self.each).then(|| BlockId(self.base + number))
    }
}

/// Pools, with their blocks numbered.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Numbering {
    pools: Vec<NatPool>,
    /// In order of address space and address, and so of no number.
    ranges: Vec<Range>,
    /// In order of their blocks.
    by_block: Vec<Range>,
    blocks: u32,
}

impl Numbering {
    /// These pools.
    ///
    /// # Errors
    /// The first pool that cannot be used; see [`PoolError`].
    pub fn new(pools: Vec<NatPool>) -> Result<Self, PoolError> {
        let mut all = Self::default();
        for (place, pool) in pools.iter().enumerate() {
            if pools[..place].iter().any(|other| other.name == pool.name) {
                return Err(PoolError::Name(pool.name.clone()));
            }
            all.add(NatPoolId(place as u16), pool)?;
        }
        all.by_block = all.ranges.clone();
        all.ranges.sort_by_key(|range| (range.vrf, range.first));
        let overlap = all
            .ranges
            .windows(2)
            .find(|two| two[0].vrf == two[1].vrf && two[1].first <= two[0].last);
        if let Some(two) = overlap {
            let name = pools[usize::from(two[1].pool.0)].name.clone();
            return Err(PoolError::Overlap(name, Ipv4Addr::from_bits(two[1].first)));
        }
        all.pools = pools;
        Ok(all)
    }

    fn add(&mut self, id: NatPoolId, pool: &NatPool) -> Result<(), PoolError> {
        if !BLOCK_BITS.contains(&pool.block_bits) {
            return Err(PoolError::BlockSize(pool.name.clone()));
        }
        let (from, each) = pool.blocks_of_address();
        if each == 0 || pool.addresses.iter().all(RangeInclusive::is_empty) {
            return Err(PoolError::Empty(pool.name.clone()));
        }
        for range in pool.addresses.iter().filter(|range| !range.is_empty()) {
            let (first, last) = (range.start().to_bits(), range.end().to_bits());
            let blocks = u64::from(last - first + 1) * u64::from(each);
            let end = u64::from(self.blocks) + blocks;
            if last - first > u32::from(u16::MAX) || end > u64::from(MOST_BLOCKS) {
                return Err(PoolError::TooMany(pool.name.clone()));
            }
            self.ranges.push(Range {
                vrf: pool.vrf,
                first,
                last,
                pool: id,
                base: self.blocks,
                from,
                each,
                bits: pool.block_bits,
            });
            self.blocks = end as u32;
        }
        Ok(())
    }

    /// All of them, each at the place of its number.
    pub fn all(&self) -> &[NatPool] {
        &self.pools
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.pools.is_empty()
    }

    /// The pool with this number.
    pub fn pool(&self, id: NatPoolId) -> Option<&NatPool> {
        self.pools.get(usize::from(id.0))
    }

    /// How many blocks there are in all: their numbers are below that.
    pub const fn blocks(&self) -> u32 {
        self.blocks
    }

    /// The numbers of a pool's blocks; those of one address follow each other.
    pub fn blocks_of(&self, id: NatPoolId) -> RangeInclusive<u32> {
        let mut own = self.by_block.iter().filter(|range| range.pool == id);
        let (Some(first), each) = (own.next(), self.each(id)) else {
            #[expect(clippy::reversed_empty_ranges, reason = "a pool that is not there has none")]
            return 1..=0;
        };
        let last = own.next_back().unwrap_or(first);
        first.base..=last.base + (last.last - last.first + 1) * each - 1
    }

    fn each(&self, id: NatPoolId) -> u32 {
        self.pool(id).map_or(0, |pool| pool.blocks_of_address().1)
    }

    #[inline]
    fn range(&self, vrf: VrfId, address: u32) -> Option<&Range> {
        let behind = self
            .ranges
            .partition_point(|range| (range.vrf, range.first) <= (vrf, address));
        let range = self.ranges.get(behind.checked_sub(1)?)?;
        (range.vrf == vrf && address <= range.last).then_some(range)
    }

    /// An address of an address space, if it is one of a pool.
    #[inline]
    pub fn public_address(&self, vrf: VrfId, address: Ipv4Addr) -> Option<PublicAddress> {
        let range = self.range(vrf, address.to_bits())?;
        Some(PublicAddress {
            pool: range.pool,
            base: range.base + (address.to_bits() - range.first) * range.each,
            from: range.from,
            each: range.each,
            bits: range.bits,
        })
    }

    /// The pool that an address of an address space is of.
    #[inline]
    pub fn pool_of(&self, vrf: VrfId, address: Ipv4Addr) -> Option<NatPoolId> {
        self.range(vrf, address.to_bits()).map(|range| range.pool)
    }

    /// The block of a port of a public address; `None` where no pool has it.
    #[inline]
    pub fn block_of(&self, vrf: VrfId, address: Ipv4Addr, port: u16) -> Option<BlockId> {
        self.public_address(vrf, address)?.block(port)
    }

    /// The block with this number, and its pool.
    pub fn block(&self, id: BlockId) -> Option<(NatPoolId, PortBlock)> {
        let behind = self.by_block.partition_point(|range| range.base <= id.0);
        let range = self.by_block.get(behind.checked_sub(1)?)?;
        let (address, number) = ((id.0 - range.base) / range.each, (id.0 - range.base) % range.each);
        (address <= range.last - range.first).then(|| {
            let block = PortBlock {
                address: Ipv4Addr::from_bits(range.first + address),
                first: ((range.from + number) << range.bits) as u16,
                bits: range.bits,
            };
            (range.pool, block)
        })
    }

    /// The number of a block, if it is one of this pool.
    pub fn id_of(&self, pool: NatPoolId, block: PortBlock) -> Option<BlockId> {
        let vrf = self.pool(pool)?.vrf;
        let id = self.block_of(vrf, block.address, block.first)?;
        (self.block(id)? == (pool, block)).then_some(id)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn range(first: [u8; 4], last: [u8; 4]) -> RangeInclusive<Ipv4Addr> {
        first.into()..=last.into()
    }

    fn pool(name: &str, vrf: u16, addresses: Vec<RangeInclusive<Ipv4Addr>>) -> NatPool {
        NatPool {
            name: name.into(),
            instance: InstanceId(1),
            vrf: VrfId(vrf),
            addresses,
            ports: 1_024..=65_535,
            block_bits: 9,
            filtering: Filtering::default(),
            unsolicited: UnsolicitedPolicy::default(),
            limits: NatLimits {
                blocks: 4,
                mappings: 2_048,
                mappings_per_second: 0,
            },
            fixed: Fixed::default(),
        }
    }

    #[test]
    fn blocks_are_numbered_one_behind_the_other() {
        let pools = Numbering::new(vec![
            pool(
                "a",
                0,
                vec![
                    range([9, 0, 0, 8], [9, 0, 0, 9]),
                    range([9, 0, 0, 0], [9, 0, 0, 0]),
                ],
            ),
            pool("b", 1, vec![range([9, 0, 0, 8], [9, 0, 0, 8])]),
        ])
        .unwrap();
        assert_eq!(pools.blocks(), 4 * 126);
        assert_eq!(pools.blocks_of(NatPoolId(0)), 0..=377);
        assert_eq!(pools.blocks_of(NatPoolId(1)), 378..=503);
        assert!(pools.blocks_of(NatPoolId(2)).is_empty());
        let block = |vrf, address: [u8; 4], port| pools.block_of(VrfId(vrf), address.into(), port);
        assert_eq!(block(0, [9, 0, 0, 8], 1_024), Some(BlockId(0)));
        assert_eq!(block(0, [9, 0, 0, 9], 65_535), Some(BlockId(251)));
        assert_eq!(block(0, [9, 0, 0, 0], 1_536), Some(BlockId(253)));
        assert_eq!(block(1, [9, 0, 0, 8], 1_024), Some(BlockId(378)));
        for none in [
            block(0, [9, 0, 0, 8], 1_023),
            block(0, [9, 0, 0, 1], 2_000),
            block(2, [9, 0, 0, 8], 2_000),
        ] {
            assert_eq!(none, None);
        }
        assert_eq!(pools.block(BlockId(504)), None);
    }

    #[test]
    fn pools_that_contradict_each_other_are_refused() {
        let one = || range([9, 0, 0, 1], [9, 0, 0, 5]);
        let again = Numbering::new(vec![pool("a", 0, vec![one()]), pool("a", 1, vec![one()])]);
        assert_eq!(again, Err(PoolError::Name("a".into())));
        let both = Numbering::new(vec![
            pool("a", 0, vec![one()]),
            pool("b", 0, vec![range([9, 0, 0, 5], [9, 0, 0, 9])]),
        ]);
        assert_eq!(both, Err(PoolError::Overlap("b".into(), [9, 0, 0, 5].into())));
        let none = Numbering::new(vec![NatPool {
            ports: 1_025..=1_600,
            ..pool("a", 0, vec![one()])
        }]);
        assert_eq!(none, Err(PoolError::Empty("a".into())));
        let large = Numbering::new(vec![pool("a", 0, vec![range([9, 0, 0, 0], [9, 1, 0, 0])])]);
        assert_eq!(large, Err(PoolError::TooMany("a".into())));
        let sizes = Numbering::new(vec![NatPool {
            block_bits: 3,
            ..pool("a", 0, vec![one()])
        }]);
        assert_eq!(sizes, Err(PoolError::BlockSize("a".into())));
    }

    proptest! {
        #[test]
        fn a_block_and_its_number_are_one_to_one(
            ports in any::<(u16, u16)>(), bits in BLOCK_BITS, sizes in prop::collection::vec((0u32..3, 0u8..2), 1..5),
        ) {
            let place = |at: usize| 0x0900_0000 + at as u32 * 16;
            let all = sizes.iter().enumerate().map(|(at, (size, vrf))| NatPool {
                ports: ports.0.min(ports.1)..=ports.0.max(ports.1),
                block_bits: bits,
                ..pool(&at.to_string(), (*vrf).into(), vec![
                    Ipv4Addr::from_bits(place(at) + 8)..=Ipv4Addr::from_bits(place(at) + 8 + size),
                    Ipv4Addr::from_bits(place(at))..=Ipv4Addr::from_bits(place(at) + size),
                ])
            });
            let Ok(pools) = Numbering::new(all.collect()) else { return Ok(()) };
            let mut seen = 0;
            for number in 0..pools.blocks() {
                let (id, block) = pools.block(BlockId(number)).expect("a block");
                let pool = pools.pool(id).expect("its pool");
                prop_assert!(pools.blocks_of(id).contains(&number));
                prop_assert_eq!(pools.id_of(id, block), Some(BlockId(number)));
                prop_assert!(pool.ports.contains(block.ports().start()) && pool.ports.contains(block.ports().end()));
                for port in [*block.ports().start(), *block.ports().end()] {
                    prop_assert_eq!(pools.block_of(pool.vrf, block.address, port), Some(BlockId(number)));
                }
                seen += block.ports().count();
            }
            let aligned = |port: u32| port >> bits << bits;
            let (first, last) = (u32::from(ports.0.min(ports.1)), u32::from(ports.0.max(ports.1)));
            let whole = aligned(last + 1).saturating_sub(first.div_ceil(1 << bits) << bits);
            let addresses: u32 = sizes.iter().map(|(size, _)| (size + 1) * 2).sum();
            prop_assert_eq!(seen as u32, whole * addresses);
        }
    }
}
