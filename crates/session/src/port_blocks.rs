//! The port blocks of sessions whose packets get public addresses (CG-NAT).
//!
//! A session gets its first block when it is established, and further ones of the same address as its worker asks for
//! them. Blocks that are its UE's by configuration ([`nat::pools::fixed`]) come first. Which session has had which
//! ports, and when, is reported by events: that is all that a log needs (RFC 6888 REQ-12). A worker gets a block by a
//! command without a response: until then it drops what would need one.

use flow::{Bucket, Nanos, SessionIndex};
use nat::blocks::{Drawn, PoolUse, PortBlocks, Wish};
use nat::pools::{BlockId, NatPoolId, NatPools, PortBlock, Ue};
use rules::network::ue_of_addresses;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use crate::ids::Seid;
use crate::keyed_map::{Keyed, keyed};
use crate::random::Random;
use crate::session::Session;
use crate::session_accounting::Subscriber;
use crate::ue_addresses::UeAddress;

/// A session got a block, or has it no more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PortBlockEvent {
    /// When.
    pub at: Nanos,
    /// The session.
    pub holder: Arc<BlockHolder>,
    /// The pool.
    pub pool: NatPoolId,
    /// The block.
    pub block: PortBlock,
    /// Whether it has it from now on.
    pub is_assigned: bool,
}

/// A session that has port blocks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockHolder {
    /// Its local SEID.
    pub seid: Seid,
    /// Whom it is for, as its control plane said when it got its first block.
    pub subscriber: Option<Arc<Subscriber>>,
    /// The UE's own IPv4 address; the first, where there are several.
    pub inside: Ipv4Addr,
}

/// What sessions have of a pool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NatPoolStatus {
    /// Its blocks.
    pub blocks: PoolUse,
    /// How often a session was to get a block, and none was free that it may have.
    pub exhausted: u64,
}

/// The blocks of one session, of one pool. Most have one.
#[derive(Debug)]
struct Holding {
    holder: Arc<BlockHolder>,
    pool: NatPoolId,
    blocks: SmallVec<[BlockId; 2]>,
}

/// Which session has which blocks.
#[derive(Debug)]
pub(crate) struct PortBlockHolders {
    blocks: PortBlocks,
    held: Keyed<SessionIndex, Holding>,
    random: Random,
    /// By pool: how often nothing was left.
    exhausted: Vec<u64>,
    events: VecDeque<PortBlockEvent>,
    /// Whether events are wanted: the caller empties them then.
    has_log: bool,
    /// Sessions are yet to come that hold blocks: none is drawn until then.
    is_waiting: bool,
}

impl PortBlockHolders {
    /// No blocks are held. Released ones rest for `quarantine`.
    pub(crate) fn new(
        pools: &Arc<NatPools>,
        quarantine: Duration,
        has_log: bool,
        mut random: Random,
    ) -> Self {
        Self {
            blocks: PortBlocks::new(Arc::clone(pools), quarantine),
            held: keyed(random.next_u64()),
            random,
            exhausted: vec![0; pools.all().len()],
            events: VecDeque::new(),
            has_log,
            is_waiting: false,
        }
    }

    /// The pools.
    pub(crate) fn pools(&self) -> &Arc<NatPools> {
        self.blocks.pools()
    }

    /// None is drawn from now on, or again.
    pub(crate) fn wait(&mut self, is_waiting: bool) {
        self.is_waiting = is_waiting;
    }

    /// The blocks that a session holds, in the order in which it got them.
    pub(crate) fn of(&self, session: SessionIndex) -> &[BlockId] {
        self.held.get(&session).map_or(&[], |holding| &holding.blocks)
    }

    /// The same, with their addresses and ports.
    pub(crate) fn blocks_of(&self, session: SessionIndex) -> impl Iterator<Item = PortBlock> + '_ {
        let blocks = self.of(session).iter();
        blocks.filter_map(|id| Some(self.pools().block(*id)?.1))
    }

    /// The session that holds a block.
    pub(crate) fn owner(&self, block: BlockId) -> Option<SessionIndex> {
        self.blocks.owner(block)
    }

    /// Who holds a block.
    pub(crate) fn holder(&self, block: BlockId) -> Option<&BlockHolder> {
        Some(&self.held.get(&self.owner(block)?)?.holder)
    }

    /// Whether a session holds blocks for another than this, or for another pool.
    pub(crate) fn holds_otherwise(&self, index: SessionIndex, subject: Option<&Subject>) -> bool {
        let holding = self.held.get(&index);
        holding.is_some_and(|holding| {
            let of_holding = (holding.holder.seid, holding.pool);
            subject.is_none_or(|subject| (subject.holder.seid, subject.pool) != of_holding)
        })
    }

    /// The blocks of a session that its UE's address, which is another now, does not let it hold.
    pub(crate) fn misheld(&self, subject: &Subject) -> SmallVec<[BlockId; 2]> {
        let held = self.of(subject.index).iter().copied();
        held.filter(|id| !self.pools().may_hold(*id, subject.ue))
            .collect()
    }

    /// The first block of those that are the UE's by configuration which its session does not hold.
    pub(crate) fn lacks(&self, subject: &Subject) -> Option<BlockId> {
        let held = self.of(subject.index);
        let mut own = self.pools().own_blocks(subject.pool, subject.ue);
        own.find(|id| !held.contains(id))
    }

    /// Gives a session a block that it already holds elsewhere, or that is its UE's. Whether it may hold it, and no
    /// other session has it.
    pub(crate) fn take(&mut self, subject: &Subject, block: BlockId, now: Nanos) -> bool {
        let is_free = self.pools().may_hold(block, subject.ue)
            && self.blocks.take(block, subject.index).is_ok()
            && !self.of(subject.index).contains(&block);
        if is_free {
            self.enter(subject, block, now);
        }
        is_free
    }

    /// How much of each pool is used.
    pub(crate) fn status(&mut self, now: Nanos) -> Vec<NatPoolStatus> {
        let pools = (0..).map(NatPoolId).zip(&self.exhausted);
        let status = |(id, exhausted): (NatPoolId, &u64)| NatPoolStatus {
            blocks: self.blocks.use_of(id, now),
            exhausted: *exhausted,
        };
        pools.map(status).collect()
    }

    /// By pool: how often nothing was left that a session may have.
    pub(crate) fn exhausted(&self) -> &[u64] {
        &self.exhausted
    }

    /// The next event.
    pub(crate) fn poll_event(&mut self) -> Option<PortBlockEvent> {
        self.events.pop_front()
    }

    /// A block for a session, if it may have another and one is free: its UE's, as long as it lacks any.
    pub(crate) fn draw(&mut self, subject: &Subject, now: Nanos) -> Option<BlockId> {
        let Subject {
            index, pool, bucket, ..
        } = *subject;
        if let Some(own) = self.lacks(subject) {
            // Another session of the UE may have it, which ends: until then there is none of the same address.
            return self.take(subject, own, now).then_some(own);
        }
        let most = self.pools().pool(pool)?.limits.blocks;
        let own = self.of(index);
        if self.is_waiting || own.len() >= usize::from(most) {
            return None;
        }
        let paired = own
            .first()
            .and_then(|id| Some(self.pools().block(*id)?.1.address));
        let random = self.random.next_u64();
        let wish = Wish {
            pool,
            session: index,
            bucket,
            paired,
            random,
        };
        match self.blocks.draw(wish, now) {
            Ok(Drawn { id, .. }) => {
                self.enter(subject, id, now);
                Some(id)
            }
            Err(_) => {
                if let Some(count) = self.exhausted.get_mut(usize::from(pool.0)) {
                    *count += 1;
                }
                None
            }
        }
    }

    /// A session holds a block from now on.
    fn enter(&mut self, subject: &Subject, block: BlockId, now: Nanos) {
        let holding = self.held.entry(subject.index).or_insert_with(|| Holding {
            holder: Arc::clone(&subject.holder),
            pool: subject.pool,
            blocks: SmallVec::new(),
        });
        holding.blocks.push(block);
        let holder = Arc::clone(&holding.holder);
        self.tell(holder, subject.pool, block, true, now);
    }

    fn tell(
        &mut self,
        holder: Arc<BlockHolder>,
        pool: NatPoolId,
        id: BlockId,
        is_assigned: bool,
        now: Nanos,
    ) {
        // Whose a block is that follows from an address is known without a log (RFC 7422).
        let is_logged = self.has_log && self.pools().deterministic(pool).is_none();
        let block = self.pools().block(id);
        if let Some((_, block)) = block.filter(|_| is_logged) {
            self.events.push_back(PortBlockEvent {
                at: now,
                holder,
                pool,
                block,
                is_assigned,
            });
        }
    }

    /// A session has these blocks, which rest from now on, no more; all, without any. Gives which they are.
    pub(crate) fn release(
        &mut self,
        index: SessionIndex,
        only: Option<BlockId>,
        now: Nanos,
    ) -> SmallVec<[BlockId; 2]> {
        let Some(holding) = self.held.get_mut(&index) else {
            return SmallVec::new();
        };
        let (holder, pool) = (Arc::clone(&holding.holder), holding.pool);
        let goes = |id: &BlockId| only.is_none_or(|only| only == *id);
        let gone: SmallVec<[BlockId; 2]> = holding.blocks.iter().copied().filter(goes).collect();
        holding.blocks.retain(|id| !goes(id));
        if holding.blocks.is_empty() {
            self.held.remove(&index);
        }
        for id in &gone {
            self.blocks.release(*id, index, now);
            self.tell(Arc::clone(&holder), pool, *id, false, now);
        }
        gone
    }
}

/// A session that is to have blocks.
pub(crate) struct Subject {
    pub(crate) index: SessionIndex,
    pub(crate) holder: Arc<BlockHolder>,
    /// The UE's address, with its address space.
    pub(crate) ue: Ue,
    pub(crate) pool: NatPoolId,
    pub(crate) bucket: Bucket,
}

impl Subject {
    /// Of a session of these addresses, where a pool is for it.
    pub(crate) fn new(
        session: &Session,
        pool: Option<NatPoolId>,
        addresses: &[UeAddress],
        pools: &NatPools,
    ) -> Option<Self> {
        let pool = pool?;
        // What has no address of IPv4 has no use for a public one.
        let ue = ue_of_addresses(pools, pool, addresses)?;
        Some(Self {
            index: session.index,
            holder: Arc::new(BlockHolder {
                seid: session.seid,
                subscriber: session.accounting.subscriber.clone(),
                inside: ue.1,
            }),
            ue,
            pool,
            bucket: session.bucket,
        })
    }

    pub(crate) fn of(session: &Session, pools: &NatPools) -> Option<Self> {
        Self::new(
            session,
            session.live.rules.nat(),
            &session.live.addresses.get(),
            pools,
        )
    }
}
