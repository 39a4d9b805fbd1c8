//! `Manager`: all nodes, queues and packets of one worker.

mod active;
mod configure;
mod demand;
mod dequeue;
mod due;
mod enqueue;
mod ready;
mod transfer;
mod view;

use std::collections::VecDeque;
use std::fmt;

use flow::Nanos;
use flow::slab::Slab;

use crate::aqm::codel::CodelTimes;
use crate::aqm::dual::DualTimes;
use crate::aqm::wred::Wred;
use crate::chunks::Chunks;
use crate::ids::{Class, LossReason, QueueId, Slot, UeId};
use crate::node::Node;
use crate::packets::{Descriptor, Packets, Room};
use crate::queue::QueueShaper;
use crate::runs::Runs;
use crate::spec::{Limits, MOST_WRED_PROFILES, TmError};
use crate::ue::Ue;
use crate::views::ClassView;
use crate::wheel::Wheels;

pub use self::enqueue::Arrival;
pub use self::transfer::{Held, UeState};

/// The traffic manager of one worker.
pub struct Manager<R = Descriptor> {
    limits: Limits,
    /// The latest time that was passed in, in nanoseconds: a clock that goes back is taken for this.
    now: u64,
    chunks: Chunks,
    wheels: Wheels,
    nodes: Vec<Option<Node>>,
    /// Those without a parent.
    ports: Vec<u16>,
    ues: Slab<Ue>,
    /// Numbers of UEs that are free; those that were free last are at the end.
    free_ues: Vec<u32>,
    /// UEs that were removed, and are in rings yet.
    leaving: u32,
    queues: Runs,
    shapers: Slab<QueueShaper>,
    free_shapers: Vec<u32>,
    packets: Packets<R>,
    /// Octets held.
    octets: u64,
    /// Packets held.
    held: u32,
    /// Losses that the caller did not take yet: never more than there is room for.
    losses: VecDeque<Loss>,
    codel: CodelTimes,
    dual: DualTimes,
    /// By profile.
    wred: Vec<Wred>,
    random: Random,
    classes: [ClassView; Class::COUNT],
}

/// A packet that may leave now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Its slot, which is free from now on.
    pub slot: Slot,
    /// The queue that it was in.
    pub queue: QueueId,
    /// Its length in octets.
    pub octets: u16,
    /// Whether its ECN field has to say that congestion was experienced.
    pub marks_ce: bool,
    /// Nanoseconds that it has waited, in steps of 64 and up to 275 s.
    pub sojourn: u64,
}

/// A packet that was held and is lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// Its slot, which holds no packet from now on.
    pub slot: Slot,
    /// The queue that it was in.
    pub queue: QueueId,
    /// Why.
    pub reason: LossReason,
}

impl Departure {
    /// No packet: what an array for them may start with.
    pub const NONE: Self = Self {
        slot: Slot(0),
        queue: QueueId {
            ue: UeId(0),
            place: 0,
        },
        octets: 0,
        marks_ce: false,
        sojourn: 0,
    };
}

impl Manager {
    /// A manager without nodes, for a caller that keeps packets elsewhere, by their slots.
    ///
    /// # Errors
    /// [`TmError::Limit`] and [`TmError::Memory`].
    pub fn new(limits: Limits) -> Result<Self, TmError> {
        Self::with_rooms(limits)
    }
}

impl<R: Room> Manager<R> {
    /// A manager without nodes, with room for packets as `R` has it.
    ///
    /// # Errors
    /// [`TmError::Limit`] and [`TmError::Memory`]. Rooms that there is no memory for end the process.
    pub fn with_rooms(limits: Limits) -> Result<Self, TmError> {
        limits.check()?;
        // Room for some that were removed and are in rings yet.
        let ues = limits.ues + limits.ues / 8 + 8;
        let nodes = usize::from(limits.nodes);
        let waiting = ues as usize + limits.shapers as usize + nodes;
        let in_rings = 8 * (ues as usize + nodes);
        Ok(Self {
            limits,
            now: 0,
            chunks: Chunks::new(&[(waiting, Wheels::LISTS), (in_rings, 8 * nodes)])?,
            wheels: Wheels::new()?,
            nodes: Vec::with_capacity(nodes),
            ports: Vec::with_capacity(nodes),
            ues: Slab::new(ues as usize)?,
            free_ues: (0..ues).rev().collect(),
            leaving: 0,
            queues: Runs::new(limits.queues)?,
            shapers: Slab::new(limits.shapers as usize)?,
            free_shapers: (0..limits.shapers).rev().collect(),
            packets: Packets::new(limits.packets),
            octets: 0,
            held: 0,
            losses: VecDeque::with_capacity(limits.losses as usize),
            codel: CodelTimes::new(&limits.aqm),
            dual: DualTimes::new(&limits.aqm),
            wred: Vec::with_capacity(MOST_WRED_PROFILES),
            random: Random(0),
            classes: [ClassView::default(); Class::COUNT],
        })
    }

    /// The room of a slot: what a caller keeps there of a packet stays as long as the slot is its, and until another is
    /// queued then.
    #[inline(always)]
    pub fn room(&mut self, slot: Slot) -> Option<&mut R> {
        self.packets.room_mut(slot.0)
    }

    /// Its limits.
    pub const fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Packets held.
    pub const fn packets(&self) -> u32 {
        self.held
    }

    /// Octets held.
    pub const fn octets(&self) -> u64 {
        self.octets
    }

    /// Takes the oldest loss that the caller does not know of. Packets are lost when green ones push yellow ones out,
    /// and by active queue management. Take all after each call that queues or takes packets, as their slots are free
    /// again; while [`Limits::losses`] wait, nothing else is given up.
    pub fn pop_loss(&mut self) -> Option<Loss> {
        self.losses.pop_front()
    }

    /// A packet of a class is held.
    #[inline]
    fn count_in(&mut self, class: u8, octets: u16) {
        self.octets += u64::from(octets);
        self.held += 1;
        let of = &mut self.classes[usize::from(class & 7)];
        of.packets += 1;
        of.octets += u64::from(octets);
    }

    /// It is held no longer.
    #[inline]
    fn count_out(&mut self, class: u8, octets: u16) {
        self.octets -= u64::from(octets);
        self.held -= 1;
        let of = &mut self.classes[usize::from(class & 7)];
        of.packets -= 1;
        of.octets -= u64::from(octets);
    }

    /// A packet of the queue in a line is held no longer, and lost.
    fn lose(&mut self, slot: u32, packet: &Descriptor, queue: QueueId, line: usize, reason: LossReason) {
        self.count_out(self.queues.of[line].class(), packet.octets);
        self.count_loss(line, reason);
        self.losses.push_back(Loss {
            slot: Slot(slot),
            queue,
            reason,
        });
    }

    #[cold]
    fn count_loss(&mut self, line: usize, reason: LossReason) {
        let class = self.queues.of[line].class();
        self.classes[usize::from(class)].drops[reason as usize] += 1;
        self.queues.counters[line].drops[reason as usize] += 1;
    }

    fn has_room_for_loss(&self) -> bool {
        self.losses.len() < self.limits.losses as usize
    }

    /// The time of a call, in nanoseconds.
    #[inline]
    fn at(&mut self, now: Nanos) -> u64 {
        self.now = self.now.max(now.0);
        self.now
    }
}

/// Numbers that look like ones at random, the same in each manager: SplitMix64 (G. Steele, D. Lea, C. Flood, 2014).
struct Random(u64);

impl Random {
    fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl<R> fmt::Debug for Manager<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Manager")
            .field("limits", &self.limits)
            .field("packets", &self.held)
            .field("octets", &self.octets)
            .finish_non_exhaustive()
    }
}
