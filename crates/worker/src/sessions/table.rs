//! The table of sessions: by index, by tunnel and by UE address.

use std::net::IpAddr;

use flow::slab::in_huge_pages;
use flow::{BlockRef, Blocks, Direction, SessionIndex, TokenLevel, Verdict, prefetch};
use packet::DropReason;
use rules::classifier::{Classifier, Side};
use rules::image::{SessionChange, SessionImage};

use crate::WorkerConfig;
use crate::burst::descriptor::Family;
use crate::lookup::flow_tables::FlowAccounts;
use crate::sessions::fixed_map::{FixedMap, tunnel_key};
use crate::sessions::inactivity::InactivityTimers;
use crate::sessions::ue_map::UeMap;
use crate::slow_path::deficit_round_robin::RoundRobinState;

/// A session in its place: a cache line.
#[repr(align(64))]
pub(crate) struct Slot {
    /// What Control compiled, but for the classifier, which is here: one step less on the way to it; and for the block,
    /// which is in [`Blocks`].
    pub image: Box<SessionImage>,
    pub classifier: Classifier,
    /// Its block and the generation of valid flow entries.
    pub installed: flow::Installed,
    /// What it has had of the slow path.
    pub account: Account,
}

/// What a session has had of what all share.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Account {
    /// Its flow entries of the block's generation: those that packets can use.
    pub flows: u32,
    /// Its rounds in the slow path's budgets.
    pub rounds: RoundRobinState,
    /// Its rate of new flow entries.
    pub rate: TokenLevel,
}

const _: () = assert!(size_of::<Option<Slot>>() == 64);

impl Slot {
    pub(super) fn new(mut image: Box<SessionImage>, installed: flow::Installed, account: Account) -> Self {
        Self {
            classifier: std::mem::take(&mut image.classifier),
            image,
            installed,
            account,
        }
    }

    /// What Control compiled, but for the block.
    pub(super) fn into_image(self) -> Box<SessionImage> {
        let Self {
            mut image,
            classifier,
            ..
        } = self;
        image.classifier = classifier;
        image
    }
}

/// All sessions of a worker.
pub(crate) struct Sessions {
    /// By [`SessionIndex`].
    pub(super) slots: Box<[Option<Slot>]>,
    pub(super) tunnels: FixedMap<2>,
    pub(super) addresses: UeMap,
    pub(crate) blocks: Blocks,
    /// The sessions that have an inactivity timer.
    pub(crate) inactivity_timers: InactivityTimers,
    pub(super) count: usize,
    /// Flow entries that sessions lost to changes since it was last asked.
    pub(super) revoked: usize,
    /// Images keep what their blocks were made from.
    pub(super) keeps_blocks: bool,
}

/// The sessions' images, while their blocks are borrowed.
pub(crate) struct Images<'a>(&'a mut [Option<Slot>]);

impl Images<'static> {
    /// No session has one.
    pub const fn none() -> Self {
        Self(&mut [])
    }
}

impl Images<'_> {
    /// Notes that a Pause of Charging of this session is reported: false if it was, or is not wanted.
    pub fn begin_pause(&mut self, session: SessionIndex) -> bool {
        let slot = self.0.get_mut(session.index()).and_then(Option::as_mut);
        slot.is_some_and(|slot| std::mem::take(&mut slot.image.awaits_pause))
    }

    /// The event queue had no room: the next message counts as the first.
    pub fn forget_pause(&mut self, session: SessionIndex) {
        if let Some(slot) = self.0.get_mut(session.index()).and_then(Option::as_mut) {
            slot.image.awaits_pause = true;
        }
    }

    /// What Control compiled for the session with this index.
    pub fn at(&self, session: SessionIndex) -> Option<&SessionImage> {
        let slot = self.0.get(session.index())?.as_ref()?;
        Some(&slot.image)
    }
}

impl Sessions {
    /// Room for sessions with an index below `max_sessions`, of which this worker owns at most `own`, and for their
    /// `content_counters`.
    ///
    /// # Errors
    /// When the memory for the blocks cannot be had.
    pub fn new(
        max_sessions: usize,
        own: usize,
        content_counters: usize,
    ) -> Result<Self, flow::slab::OutOfMemory> {
        Ok(Self {
            slots: in_huge_pages(max_sessions, |_| None),
            tunnels: FixedMap::new(WorkerConfig::tunnels(own)),
            // One address of each family; a few have more.
            addresses: UeMap::new(WorkerConfig::addresses(own)),
            blocks: Blocks::new(own, Blocks::TYPICAL_LINES)?.with_contents(max_sessions, content_counters)?,
            inactivity_timers: InactivityTimers::new(max_sessions, own),
            count: 0,
            revoked: 0,
            keeps_blocks: false,
        })
    }

    /// Has images keep what their blocks are made from, which is given to control otherwise.
    pub fn keep_blocks(&mut self, keeps_blocks: bool) {
        self.keeps_blocks = keeps_blocks;
    }

    /// How many sessions there are.
    pub fn len(&self) -> usize {
        self.count
    }

    /// The session with this index.
    #[inline]
    pub fn at(&self, session: SessionIndex) -> Option<&Slot> {
        self.slots.get(session.index())?.as_ref()
    }

    /// The image of a session, in which its worker notes what it has reported.
    pub fn image_mut(&mut self, session: SessionIndex) -> Option<&mut SessionImage> {
        let slot = self.slots.get_mut(session.index())?.as_mut()?;
        Some(&mut *slot.image)
    }

    /// The session that a packet with this verdict is of.
    pub fn of(&self, verdict: &Verdict) -> Option<SessionIndex> {
        self.blocks.get(verdict.block).map(|block| block.session())
    }

    /// The blocks to be changed, and what Control compiled.
    #[inline]
    pub fn split(&mut self) -> (&mut Blocks, Images<'_>) {
        (&mut self.blocks, Images(&mut self.slots))
    }

    /// All sessions, in the order of their indexes.
    pub fn iter(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().flatten()
    }

    /// Entries of the tables that lead packets to sessions: by tunnel, by UE address.
    pub fn keys(&self) -> (usize, usize) {
        (self.tunnels.len(), self.addresses.len())
    }

    /// The account of the session with this index.
    #[inline]
    pub fn account_mut(&mut self, session: SessionIndex) -> Option<&mut Account> {
        let slot = self.slots.get_mut(session.index())?.as_mut()?;
        Some(&mut slot.account)
    }

    /// Prefetches the slot of a session.
    #[inline]
    pub fn prefetch(&self, session: SessionIndex) {
        prefetch::nth_to_write(&self.slots, session.index());
    }

    /// The session that a packet of this side belongs to; plain ones by where they go.
    ///
    /// # Errors
    /// [`DropReason::UnknownTeid`], [`DropReason::UnknownUeAddress`].
    #[inline]
    pub fn find(&self, side: Side, destination: Option<IpAddr>) -> Result<SessionIndex, DropReason> {
        let (found, reason) = match side {
            Side::Tunnel { local, teid, .. } => (
                self.tunnels.at(&tunnel_key((local, teid))),
                DropReason::UnknownTeid,
            ),
            Side::Plain { vrf } => {
                let found = destination.and_then(|address| self.addresses.lookup(vrf, address));
                (found, DropReason::UnknownUeAddress)
            }
        };
        found.map(SessionIndex).ok_or(reason)
    }

    /// Prefetches the memory that [`find`](Self::find) reads first.
    #[inline]
    pub fn prefetch_find(&self, side: Side, destination: Option<IpAddr>) {
        match (side, destination) {
            (Side::Tunnel { local, teid, .. }, _) => self.tunnels.prefetch(&tunnel_key((local, teid))),
            (Side::Plain { vrf }, Some(address)) => self.addresses.prefetch(vrf, address),
            (Side::Plain { .. }, None) => {}
        }
    }

    /// The sessions whose prefixes hold an address that a change gives to another session.
    pub fn around<'a>(&'a self, change: &'a SessionChange) -> impl Iterator<Item = SessionIndex> + 'a {
        let image = match change {
            SessionChange::Install(image) | SessionChange::Replace(image, _) => Some(image),
            SessionChange::Bound(..) | SessionChange::Remove(_) => None,
        };
        let addresses = image.into_iter().flat_map(|image| image.ue_addresses.iter());
        let owners = addresses.filter_map(|&(vrf, prefix)| self.addresses.lookup(vrf, prefix.address()));
        owners
            .map(SessionIndex)
            .filter(|owner| *owner != change.session())
    }

    /// How many flow entries sessions lost to changes since this was last asked: they are of no use any more.
    pub fn take_revoked(&mut self) -> usize {
        std::mem::take(&mut self.revoked)
    }
}

impl FlowAccounts for Sessions {
    fn forget(&mut self, _: Family, block: BlockRef, generation: u32) -> bool {
        let is_live = self.blocks.is_live(block, generation, Direction::Uplink);
        let session = self
            .blocks
            .session_in(block, Direction::Uplink)
            .filter(|_| is_live);
        match session.and_then(|session| self.account_mut(session)) {
            Some(account) => {
                account.flows = account.flows.saturating_sub(1);
                true
            }
            None => false,
        }
    }

    fn foresee_forget(&self, block: BlockRef) {
        self.blocks.prefetch_read_line(block, Direction::Uplink);
    }
}
