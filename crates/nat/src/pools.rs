//! Pools of public addresses, their port blocks, and which of these are of certain UEs.

pub mod deterministic;
pub mod fixed;
mod fixed_blocks;
mod numbering;

pub use numbering::{
    BLOCK_BITS, BlockId, Filtering, Lifetimes, MOST_BLOCKS, NatLimits, NatPool, NatPoolId, Numbering,
    PoolError, PortBlock, PublicAddress, UnsolicitedPolicy,
};

use std::net::Ipv4Addr;
use std::ops::Deref;

use flow::VrfId;

use self::deterministic::Deterministic;
use self::fixed::Forward;
use self::fixed_blocks::FixedBlocks;

/// A UE by its address space and address.
pub type Ue = (VrfId, Ipv4Addr);

/// All pools, with their blocks numbered, and which of these are of certain UEs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NatPools {
    numbering: Numbering,
    /// By pool.
    fixed: Vec<FixedBlocks>,
}

impl Deref for NatPools {
    type Target = Numbering;

    fn deref(&self) -> &Numbering {
        &self.numbering
    }
}

impl NatPools {
    /// These pools.
    ///
    /// # Errors
    /// The first pool that cannot be used; see [`PoolError`].
    pub fn new(pools: Vec<NatPool>) -> Result<Self, PoolError> {
        let numbering = Numbering::new(pools)?;
        let ids = (0..=u16::MAX).map(NatPoolId).zip(numbering.all());
        let fixed: Result<_, _> = ids
            .map(|(id, pool)| FixedBlocks::new(&numbering, id, pool))
            .collect();
        Ok(Self {
            fixed: fixed?,
            numbering,
        })
    }

    fn fixed(&self, pool: NatPoolId) -> Option<&FixedBlocks> {
        self.fixed.get(usize::from(pool.0))
    }

    fn fixed_of_block(&self, id: BlockId) -> Option<&FixedBlocks> {
        self.fixed(self.block(id)?.0)
    }

    /// Which block of a pool follows from which address, if that is so.
    pub fn deterministic(&self, pool: NatPoolId) -> Option<&Deterministic> {
        self.fixed(pool)?.deterministic()
    }

    /// The blocks of a pool that a session of a UE has before any other, in this order.
    pub fn own_blocks(&self, pool: NatPoolId, (vrf, ue): Ue) -> impl Iterator<Item = BlockId> + '_ {
        let known = self.pool(pool).filter(|known| known.vrf == vrf);
        let fixed = known.and_then(|_| self.fixed(pool));
        fixed.into_iter().flat_map(move |fixed| fixed.blocks_of(ue))
    }

    /// The address of a session by which blocks of a pool are its own; the first of them where none are.
    pub fn ue_of_session(&self, pool: NatPoolId, addresses: impl Iterator<Item = Ue> + Clone) -> Option<Ue> {
        let mut own = addresses.clone();
        let own = own.find(|ue| self.own_blocks(pool, *ue).next().is_some());
        own.or_else(|| { addresses }.next())
    }

    /// Whether a session of a UE may hold a block: it is its own, or of no UE and of the public address that it has to
    /// have.
    pub fn may_hold(&self, id: BlockId, (vrf, ue): Ue) -> bool {
        let Some((pool, block)) = self.block(id) else {
            return false;
        };
        let Some(fixed) = self.fixed(pool) else {
            return false;
        };
        let is_of_space = self.pool(pool).is_some_and(|pool| pool.vrf == vrf);
        match fixed.ue_of(id) {
            Some(owner) => is_of_space && owner == ue,
            None if fixed.deterministic().is_some() => false,
            None if !is_of_space => true,
            None => fixed.public_of(ue).is_none_or(|public| public == block.address),
        }
    }

    /// The UE that alone may hold a block; `None` where others may, or none may.
    pub fn ue_of(&self, id: BlockId) -> Option<Ipv4Addr> {
        self.fixed_of_block(id)?.ue_of(id)
    }

    /// The blocks of a pool that are of UEs with port forwards. None where all follow from addresses.
    pub fn reserved(&self, pool: NatPoolId) -> impl Iterator<Item = BlockId> + '_ {
        let fixed = self.fixed(pool).filter(|fixed| fixed.deterministic().is_none());
        fixed.into_iter().flat_map(FixedBlocks::reserved)
    }

    /// The port forwards in a block.
    pub fn forwards_of(&self, id: BlockId) -> impl Iterator<Item = &Forward> {
        let fixed = self.fixed_of_block(id);
        let forwards = fixed.map_or(&[][..], |fixed| fixed.forwards_of(id));
        forwards.iter().map(|(_, forward)| forward)
    }

    /// For how many addresses that UEs have sent to there should be room in a table of as many mappings, beside the
    /// latest of each: as many again where those of others are refused, a quarter where they are only distinguished.
    pub fn remotes(&self, mappings: usize) -> usize {
        match self.all() {
            all if all
                .iter()
                .any(|pool| pool.filtering == Filtering::AddressDependent) =>
            {
                mappings
            }
            all if all.iter().any(NatPool::distinguishes_unsolicited) => mappings.div_ceil(4),
            _ => 0,
        }
    }

    /// How many port forwards there are in all pools.
    pub fn forwards(&self) -> usize {
        self.fixed.iter().map(FixedBlocks::forwards).sum()
    }
}
