//! Which session holds which block.
//!
//! Owned by control, which draws blocks for sessions and takes them back. A block that is released rests before another
//! draw gives it out ([`QUARANTINE`]). A pool that is exhausted refuses: no session loses a block to another.
//!
//! How many blocks a session may hold ([`NatLimits`](crate::pools::NatLimits)) and which ones it holds are not known
//! here. Nor are random numbers made here: they come with each draw, so that an outsider that sees public ports of
//! some UEs predicts the next ones as little as it predicts the caller's source of randomness (RFC 6056 §3.1).

use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use flow::{Bucket, Nanos, SessionIndex, bucket};

use crate::bits::Bits;
use crate::by_free::ByFree;
use crate::pools::{BlockId, NatPoolId, NatPools, PortBlock};

/// How long a block rests between two sessions unless the configuration says otherwise (RFC 6888 REQ-8).
pub const QUARANTINE: Duration = Duration::from_secs(120);

/// Rests end at multiples of this, at the first that is not too early.
pub const REST_STEP: Duration = Duration::from_millis(100);
const STEP_NANOS: u64 = REST_STEP.as_nanos() as u64;

/// The addresses that a session's first block may come from have at most one in this number fewer free blocks, of those
/// of an address, than the address with the most.
const NEAR_MOST: u16 = 16;

/// How many addresses are looked at for a free block in the wanted bucket. Of an address with 126 blocks, one in four
/// has one: fewer than one draw in 90 fails for want of looks.
const LOOKS: u32 = 16;

/// What is wanted of a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wish {
    /// The pool.
    pub pool: NatPoolId,
    /// The session that is to hold the block.
    pub session: SessionIndex,
    /// Its bucket. Blocks are preferred that are in it, see [`bucket_of_block`].
    pub bucket: Bucket,
    /// The public address of the blocks of the pool that the session already holds, if it does: the next one has the
    /// same (RFC 4787 REQ-2, RFC 6888 REQ-2).
    pub paired: Option<Ipv4Addr>,
    /// 64 bits that an outsider cannot predict, anew for each draw.
    pub random: u64,
}

/// A block that was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Drawn {
    /// Its number.
    pub id: BlockId,
    /// Its address and ports.
    pub block: PortBlock,
}

/// Why no block was drawn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exhausted {
    /// There is no pool with this number.
    NoPool,
    /// All blocks of the pool are held or rest.
    Pool,
    /// All blocks of the public address that the session has are held or rest, or the pool has no such address.
    Address,
    /// The blocks of the pool follow from addresses: none is drawn.
    Deterministic,
}

/// Why a session cannot have the block that it says it holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// No pool has a block with this number.
    NoBlock,
    /// Another session holds it: this one.
    By(SessionIndex),
}

/// How much of a pool is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PoolUse {
    /// How many blocks it has.
    pub blocks: u32,
    /// How many of them sessions hold.
    pub held: u32,
    /// How many of them rest.
    pub resting: u32,
    /// How many of them are kept for UEs with port forwards that have no session now.
    pub reserved: u32,
    /// How many addresses it has.
    pub addresses: u32,
    /// How many of them have no free block: sessions that are paired with them get no further one.
    pub full_addresses: u32,
}

/// The bucket of a block: that of its address and first port ([`bucket::of_endpoint`]).
///
/// Downlink packets of the block's sessions arrive at a NIC by their destination address and port. One that computes
/// the Toeplitz hash of these two with the low bits of the port masked, as many as a block has, finds this bucket for
/// each port of the block. Where it is the bucket of the session that holds the block, the packets come to the worker
/// that owns the session; else another worker receives them and hands them over. A wanted bucket costs 9 bits of
/// randomness in the choice of a block, for an outsider that knows the bucket.
pub const fn bucket_of_block(block: PortBlock) -> Bucket {
    bucket::of_endpoint(block.address.octets(), block.first)
}

/// Numbers for one draw, from its random bits: SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
struct Dice(u64);

impl Dice {
    /// A number below `bound`, or 0 if that is 0.
    fn below(&mut self, bound: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        let mixed = mixed ^ mixed >> 31;
        (((mixed >> 32) * u64::from(bound)) >> 32) as u32
    }
}

/// What is known of a pool. Its addresses are numbered from 0 in the order of their blocks; so are the blocks of each.
#[derive(Debug)]
struct PoolState {
    /// The number of the first block among those of all pools.
    base: u32,
    /// How many blocks an address has, at most 4,096.
    each: u16,
    /// The first port of the first block of each address.
    first_port: u16,
    by_free: ByFree,
    /// The blocks of an address, each with the bucket that its port would have at address 0, in the order of these.
    by_port_bucket: Vec<(u16, u16)>,
    held: u32,
    resting: u32,
    /// Blocks of port forwards that no session holds. They are not free, and do not rest.
    reserved: u32,
}

impl PoolState {
    fn new(pools: &NatPools, id: NatPoolId) -> Self {
        let own = pools.blocks_of(id);
        let block = |number| pools.block(BlockId(number)).map(|(_, block)| block);
        let first = block(*own.start());
        let address = first.map(|block| block.address);
        let of_first = own.clone().map_while(block);
        let of_first = of_first.take_while(|block| Some(block.address) == address);
        let mut by_port_bucket: Vec<(u16, u16)> = of_first
            .zip(0..)
            .map(|(block, number)| (port_bucket(bucket_of_block(block), block.address), number))
            .collect();
        by_port_bucket.sort_unstable();
        let each = by_port_bucket.len() as u16;
        let addresses = own.clone().count() as u32 / u32::from(each).max(1);
        Self {
            base: *own.start(),
            each,
            first_port: first.map_or(0, |block| block.first),
            by_free: ByFree::new(addresses, each),
            by_port_bucket,
            held: 0,
            resting: 0,
            reserved: 0,
        }
    }

    fn blocks(&self) -> u32 {
        self.by_free.addresses() * u32::from(self.each)
    }

    /// The address of a block of the pool.
    fn address_of(&self, id: BlockId) -> Option<u32> {
        let number = id.0.checked_sub(self.base)?.checked_div(self.each.into())?;
        (number < self.by_free.addresses()).then_some(number)
    }

    /// The first block of an address.
    fn first_of(&self, address: u32) -> u32 {
        self.base + address * u32::from(self.each)
    }

    /// The blocks of an address whose ports have this bucket at address 0, numbered among those of the address.
    fn of_port_bucket(&self, bucket: u16) -> &[(u16, u16)] {
        let start = self.by_port_bucket.partition_point(|(own, _)| *own < bucket);
        let end = self.by_port_bucket.partition_point(|(own, _)| *own <= bucket);
        &self.by_port_bucket[start..end]
    }
}

/// What the port of an endpoint in this bucket adds to the bucket of its address: the function is linear over XOR.
const fn port_bucket(bucket: Bucket, address: Ipv4Addr) -> u16 {
    (bucket.index() ^ bucket::of_ipv4(address.octets()).index()) as u16
}

/// Blocks that are given out again at the same moment.
#[derive(Debug)]
struct Rests {
    /// When, in [`REST_STEP`]s since the epoch.
    until: u64,
    /// The blocks. One that was taken meanwhile does not count any more.
    blocks: Vec<u32>,
}

/// All blocks of all pools.
///
/// For each block there are 4 octets and 2 bits, for each block that rests 4 octets more, and for each address 10.
#[derive(Debug)]
pub struct PortBlocks {
    pools: Arc<NatPools>,
    /// Each at the place of its number.
    states: Vec<PoolState>,
    free: Bits,
    held: Bits,
    /// Of a block that is held: by which session. Of one that rests: the low bits of the end of its rest.
    words: Vec<u32>,
    /// In order of their ends.
    rests: VecDeque<Rests>,
    quarantine: Duration,
}

impl PortBlocks {
    /// The blocks of `pools`, all free. Released ones rest for `quarantine`, as a rule [`QUARANTINE`].
    pub fn new(pools: Arc<NatPools>, quarantine: Duration) -> Self {
        let mut free = Bits::new(pools.blocks());
        (0..pools.blocks()).for_each(|block| free.set(block, true));
        let ids = (0..=u16::MAX).map(NatPoolId).zip(pools.all());
        let mut states: Vec<PoolState> = ids.map(|(id, _)| PoolState::new(&pools, id)).collect();
        for (state, id) in states.iter_mut().zip((0..).map(NatPoolId)) {
            for block in pools.reserved(id) {
                free.set(block.0, false);
                state.reserved += 1;
                if let Some(address) = state.address_of(block) {
                    state.by_free.take(address);
                }
            }
        }
        Self {
            states,
            free,
            held: Bits::new(pools.blocks()),
            words: vec![0; pools.blocks() as usize],
            rests: VecDeque::new(),
            quarantine,
            pools,
        }
    }

    /// The pools.
    pub const fn pools(&self) -> &Arc<NatPools> {
        &self.pools
    }

    /// A free block of a pool for a session, which holds it from now on.
    ///
    /// A first block comes from an address that has about as many free blocks as any other: addresses are used alike,
    /// and their sessions have blocks left to grow. Which of these it is, is random; of some, one is preferred that has
    /// a free block in the wanted bucket. Among the free blocks of the address those in the bucket are preferred, and
    /// one is drawn at random. The time that it takes does not depend on the size of the pool, but for blocks whose
    /// rest has ended since the last call, each of which is made free once.
    ///
    /// # Errors
    /// No block is free that the session may have; see [`Exhausted`].
    pub fn draw(&mut self, wish: Wish, now: Nanos) -> Result<Drawn, Exhausted> {
        self.end_rests(now);
        let state = self
            .states
            .get(usize::from(wish.pool.0))
            .ok_or(Exhausted::NoPool)?;
        if self.pools.deterministic(wish.pool).is_some() {
            return Err(Exhausted::Deterministic);
        }
        let dice = &mut Dice(wish.random);
        let (address, exhausted) = match wish.paired {
            Some(address) => (self.number_of(state, wish.pool, address), Exhausted::Address),
            None => (self.choose_address(state, wish.bucket, dice), Exhausted::Pool),
        };
        let id = address.and_then(|address| self.choose_block(state, address, wish.bucket, dice));
        let id = id.ok_or(exhausted)?;
        let (_, block) = self.pools.block(id).ok_or(exhausted)?;
        self.hold(wish.pool, id, wish.session);
        Ok(Drawn { id, block })
    }

    /// Gives a session a block that it already holds elsewhere or in its record, or that is its UE's, whether it rests
    /// or not. Twice is as good as once. Nothing makes sure that its blocks have one address, or that it may hold this
    /// one ([`NatPools::may_hold`]).
    ///
    /// # Errors
    /// Another session holds it, or there is no such block.
    pub fn take(&mut self, id: BlockId, session: SessionIndex) -> Result<(), Taken> {
        let (pool, _) = self.pools.block(id).ok_or(Taken::NoBlock)?;
        match self.owner(id) {
            Some(owner) if owner == session => Ok(()),
            Some(owner) => Err(Taken::By(owner)),
            None => {
                self.hold(pool, id, session);
                Ok(())
            }
        }
    }

    /// Takes a block back, which rests from now on, unless no other UE ever gets it. Returns whether the session held
    /// it; else nothing changes.
    pub fn release(&mut self, id: BlockId, session: SessionIndex, now: Nanos) -> bool {
        let Some((pool, _)) = self.pools.block(id).filter(|_| self.owner(id) == Some(session)) else {
            return false;
        };
        self.held.set(id.0, false);
        self.states[usize::from(pool.0)].held -= 1;
        if self.pools.deterministic(pool).is_some() {
            self.make_free(pool, id);
        } else if self.pools.ue_of(id).is_some() {
            self.states[usize::from(pool.0)].reserved += 1;
        } else {
            self.rest(pool, id, now);
        }
        true
    }

    /// A block that is no longer held rests from now on.
    fn rest(&mut self, pool: NatPoolId, id: BlockId, now: Nanos) {
        let until = (now + self.quarantine).0.div_ceil(STEP_NANOS);
        let until = match self.rests.back_mut() {
            // Rests are in order also if time is not.
            Some(last) if last.until >= until => {
                last.blocks.push(id.0);
                last.until
            }
            _ => {
                let blocks = vec![id.0];
                self.rests.push_back(Rests { until, blocks });
                until
            }
        };
        self.words[id.0 as usize] = until as u32;
        self.states[usize::from(pool.0)].resting += 1;
    }

    /// The session that holds a block.
    pub fn owner(&self, id: BlockId) -> Option<SessionIndex> {
        let word = self.words.get(id.0 as usize)?;
        self.held.has(id.0).then_some(SessionIndex(*word))
    }

    /// How much of a pool is used; zeros where there is none.
    pub fn use_of(&mut self, pool: NatPoolId, now: Nanos) -> PoolUse {
        self.end_rests(now);
        let state = self.states.get(usize::from(pool.0));
        state.map_or_else(PoolUse::default, |state| PoolUse {
            blocks: state.blocks(),
            held: state.held,
            resting: state.resting,
            reserved: state.reserved,
            addresses: state.by_free.addresses(),
            full_addresses: state.by_free.full(),
        })
    }

    /// The number of a public address among those of its pool.
    fn number_of(&self, state: &PoolState, pool: NatPoolId, address: Ipv4Addr) -> Option<u32> {
        let vrf = self.pools.pool(pool)?.vrf;
        let first = self.pools.block_of(vrf, address, state.first_port)?;
        state.address_of(first)
    }

    /// An address for a session without blocks; `None` when none has a free block.
    fn choose_address(&self, state: &PoolState, bucket: Bucket, dice: &mut Dice) -> Option<u32> {
        let near = state.by_free.near_most((state.each / NEAR_MOST).max(1));
        let mut looks = (0..LOOKS).filter_map(|_| near.get(dice.below(near.len() as u32) as usize).copied());
        let first = looks.next()?;
        let has_wanted = |address: &u32| self.in_bucket(state, *address, bucket).next().is_some();
        if has_wanted(&first) {
            return Some(first);
        }
        looks.find(has_wanted).or(Some(first))
    }

    /// A free block of an address, in the bucket if there is one.
    fn choose_block(
        &self,
        state: &PoolState,
        address: u32,
        bucket: Bucket,
        dice: &mut Dice,
    ) -> Option<BlockId> {
        let wanted = self.in_bucket(state, address, bucket).count() as u32;
        if wanted > 0 {
            let skip = dice.below(wanted) as usize;
            return self.in_bucket(state, address, bucket).nth(skip);
        }
        let first = state.first_of(address);
        let skip = dice.below(state.by_free.free_of(address).into());
        let block = self.free.nth_of(first..first + u32::from(state.each), skip);
        block.map(BlockId)
    }

    /// The free blocks of an address that are in a bucket: of 4,096, 8 at most as a rule.
    fn in_bucket<'a>(
        &'a self,
        state: &'a PoolState,
        address: u32,
        bucket: Bucket,
    ) -> impl Iterator<Item = BlockId> + 'a {
        let first = state.first_of(address);
        let public = self.pools.block(BlockId(first)).map(|(_, block)| block.address);
        let numbers = public.map(|public| state.of_port_bucket(port_bucket(bucket, public)));
        let blocks = numbers.into_iter().flatten();
        let blocks = blocks.map(move |(_, number)| first + u32::from(*number));
        blocks.filter(|block| self.free.has(*block)).map(BlockId)
    }

    /// A session holds a block from now on that was free, rested, or is its UE's.
    fn hold(&mut self, pool: NatPoolId, id: BlockId, session: SessionIndex) {
        let state = &mut self.states[usize::from(pool.0)];
        if self.free.has(id.0) {
            self.free.set(id.0, false);
            if let Some(address) = state.address_of(id) {
                state.by_free.take(address);
            }
        } else if self.pools.ue_of(id).is_some() {
            state.reserved -= 1;
        } else {
            state.resting -= 1;
        }
        state.held += 1;
        self.held.set(id.0, true);
        self.words[id.0 as usize] = session.0;
    }

    /// Makes blocks free whose rest has ended.
    fn end_rests(&mut self, now: Nanos) {
        let now = now.0 / STEP_NANOS;
        while let Some(rests) = self.rests.pop_front_if(|rests| rests.until <= now) {
            for block in rests.blocks {
                self.end_rest(BlockId(block), rests.until);
            }
        }
    }

    fn end_rest(&mut self, id: BlockId, until: u64) {
        let word = self.words[id.0 as usize];
        let rests = !self.free.has(id.0) && !self.held.has(id.0);
        // Else it was taken meanwhile, and may have been released again.
        if let Some((pool, _)) = self.pools.block(id).filter(|_| rests && word == until as u32) {
            self.states[usize::from(pool.0)].resting -= 1;
            self.make_free(pool, id);
        }
    }

    fn make_free(&mut self, pool: NatPoolId, id: BlockId) {
        self.free.set(id.0, true);
        let state = &mut self.states[usize::from(pool.0)];
        if let Some(address) = state.address_of(id) {
            state.by_free.give_back(address);
        }
    }
}

#[cfg(test)]
mod tests;
