//! Blocks that are of certain UEs: those that follow from addresses (RFC 7422), and those of port forwards. Sessions of
//! other UEs never hold them.

use std::net::Ipv4Addr;

use packet::tuple::proto;

use super::deterministic::Deterministic;
use super::fixed::{DeterministicError, Forward, ForwardError};
use super::numbering::{BlockId, NatPool, NatPoolId, Numbering, PoolError};

/// What of one pool is for certain UEs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct FixedBlocks {
    deterministic: Option<Deterministic>,
    /// By block.
    forwards: Vec<(BlockId, Forward)>,
    /// The blocks of forwards, by UE.
    by_ue: Vec<(Ipv4Addr, BlockId)>,
}

impl FixedBlocks {
    /// What is fixed of one of these pools.
    ///
    /// # Errors
    /// [`PoolError::Deterministic`], [`PoolError::Forward`].
    pub fn new(pools: &Numbering, id: NatPoolId, pool: &NatPool) -> Result<Self, PoolError> {
        let deterministic = pool.fixed.deterministic;
        let deterministic = deterministic.map(|(ue, len)| Deterministic::new(pools, id, ue, len));
        let fault = |error: DeterministicError| PoolError::Deterministic(pool.name.clone(), error);
        let mut fixed = Self {
            deterministic: deterministic.transpose().map_err(fault)?,
            ..Self::default()
        };
        for (place, forward) in pool.fixed.forwards.iter().enumerate() {
            let fault = |error| PoolError::Forward(pool.name.clone(), place, error);
            fixed.add(pools, id, forward).map_err(fault)?;
        }
        Ok(fixed)
    }

    fn add(&mut self, pools: &Numbering, id: NatPoolId, forward: &Forward) -> Result<(), ForwardError> {
        let pool = pools.pool(id).ok_or(ForwardError::NoBlock)?;
        let (ue, public) = (forward.ue, forward.public);
        if !matches!(forward.protocol, proto::TCP | proto::UDP) {
            return Err(ForwardError::Protocol);
        }
        let block = pools.block_of(pool.vrf, public, forward.public_port);
        let block = block.filter(|block| pools.block(*block).is_some_and(|(own, _)| own == id));
        let block = block.ok_or(ForwardError::NoBlock)?;
        let same = self.forwards.iter().map(|(_, other)| other);
        for other in same.filter(|other| other.protocol == forward.protocol) {
            if (other.public, other.public_port) == (public, forward.public_port) {
                return Err(ForwardError::PublicPort);
            }
            if (other.ue, other.port) == (ue, forward.port) {
                return Err(ForwardError::Port);
            }
        }
        if let Some(other) = self.public_of(ue).filter(|other| *other != public) {
            return Err(ForwardError::Address(other));
        }
        let owner = self.ue_of(block);
        if owner != Some(ue) && (owner.is_some() || self.deterministic.is_some()) {
            return Err(ForwardError::Block(owner));
        }
        let place = self.forwards.partition_point(|other| *other < (block, *forward));
        self.forwards.insert(place, (block, *forward));
        if let Err(place) = self.by_ue.binary_search(&(ue, block)) {
            self.by_ue.insert(place, (ue, block));
        }
        let most = pool.limits.blocks;
        match self.of_ue(ue).len() > usize::from(most) {
            true => Err(ForwardError::Blocks(most)),
            false => Ok(()),
        }
    }

    /// The blocks of the forwards of a UE.
    fn of_ue(&self, ue: Ipv4Addr) -> &[(Ipv4Addr, BlockId)] {
        let start = self.by_ue.partition_point(|(other, _)| *other < ue);
        let end = self.by_ue.partition_point(|(other, _)| *other <= ue);
        self.by_ue.get(start..end).unwrap_or_default()
    }

    pub const fn deterministic(&self) -> Option<&Deterministic> {
        self.deterministic.as_ref()
    }

    /// The blocks that a session of a UE has before any other.
    pub fn blocks_of(&self, ue: Ipv4Addr) -> impl Iterator<Item = BlockId> + '_ {
        let first = self.deterministic.and_then(|map| map.block_of(ue));
        // Its forwards are in the same one.
        let forwards = match self.deterministic {
            Some(_) => &[],
            None => self.of_ue(ue),
        };
        first.into_iter().chain(forwards.iter().map(|(_, block)| *block))
    }

    /// The UE that alone may hold a block, if there is one.
    pub fn ue_of(&self, block: BlockId) -> Option<Ipv4Addr> {
        match self.deterministic {
            Some(map) => map.inside_of_block(block),
            None => self.forwards_of(block).first().map(|(_, forward)| forward.ue),
        }
    }

    /// The blocks of forwards, each once, in their order.
    pub fn reserved(&self) -> impl Iterator<Item = BlockId> + '_ {
        let groups = self.forwards.chunk_by(|(one, _), (other, _)| one == other);
        groups.filter_map(|group| Some(group.first()?.0))
    }

    /// The forwards in a block.
    pub fn forwards_of(&self, block: BlockId) -> &[(BlockId, Forward)] {
        let start = self.forwards.partition_point(|(other, _)| *other < block);
        let end = self.forwards.partition_point(|(other, _)| *other <= block);
        self.forwards.get(start..end).unwrap_or_default()
    }

    /// How many forwards there are.
    pub fn forwards(&self) -> usize {
        self.forwards.len()
    }

    /// The public address of a UE with forwards.
    pub fn public_of(&self, ue: Ipv4Addr) -> Option<Ipv4Addr> {
        let (_, block) = self.of_ue(ue).first()?;
        let (_, forward) = self.forwards_of(*block).first()?;
        Some(forward.public)
    }
}

#[cfg(test)]
mod tests;
