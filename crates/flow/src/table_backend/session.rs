//! A session of a backend, and what its objects need of each other.

use std::collections::BTreeMap;

use crate::contract::{AnyKey, CounterKind, Flow, ObjectId, Refusal};
use crate::{
    BlockError, BlockImage, BlockRef, Blocks, Direction, ExtensionId, FlowEntry, FlowFlags, Installed,
    Raised, SessionIndex, Tick, UrrCount, Verdict,
};

/// A session that has at least one object here. What a flow has to find of it comes first, in 96 octets.
#[repr(C)]
pub(super) struct Session {
    pub(super) installed: Installed,
    /// The generation of its flows, once it was given.
    pub(super) generation: Option<u32>,
    /// Slots that have a forward, a bit each.
    forwards: [u64; 4],
    /// Slots that have a QER.
    qers: u64,
    /// Those of them that are metered, by [`Direction`].
    metered: [u64; 2],
    /// Slots that have a meter, by [`Direction`].
    meters: [u64; 2],
    /// Slots that have a counter: those of `counters`.
    counting: u64,
    pub(super) counters: BTreeMap<u8, CounterKind>,
    pub(super) image: BlockImage,
    /// Whether it has queues, by [`Direction`].
    pub(super) queues: [bool; 2],
    /// What was reported of its counters.
    pub(super) reported: Vec<(u8, UrrCount)>,
    /// What its counters have reached, as far as it was reported.
    pub(super) told: BTreeMap<u8, Raised>,
}

impl Session {
    /// One without objects but those of an image's meters.
    pub(super) fn new(image: BlockImage, installed: Installed) -> Self {
        let mut session = Self {
            installed,
            generation: None,
            forwards: [0; 4],
            qers: 0,
            metered: [0; 2],
            meters: [0; 2],
            counting: 0,
            counters: BTreeMap::new(),
            image: BlockImage::default(),
            queues: [false; 2],
            reported: Vec::new(),
            told: BTreeMap::new(),
        };
        session.set_block(image, installed);
        session
    }

    /// Its block is another, of this image.
    pub(super) fn set_block(&mut self, image: BlockImage, installed: Installed) {
        self.meters = Direction::BOTH.map(|way| {
            let slots = (0..).zip(&image.meters);
            slots.fold(0, |mask, (slot, pair): (u8, _)| {
                mask | u64::from(pair[way as usize].is_some()) << slot
            })
        });
        (self.image, self.installed) = (image, installed);
    }

    pub(super) fn set_forward(&mut self, slot: u8, is_there: bool) {
        if let Some(mask) = self.forwards.get_mut(usize::from(slot / 64)) {
            set(mask, slot % 64, is_there);
        }
    }

    pub(super) fn has_forward(&self, slot: u8) -> bool {
        let mask = self.forwards.get(usize::from(slot / 64));
        mask.is_some_and(|mask| has(*mask, slot % 64))
    }

    /// A QER is there, with these directions metered; `None`: it is not.
    pub(super) fn set_qer(&mut self, slot: u8, metered: Option<[bool; 2]>) {
        set(&mut self.qers, slot, metered.is_some());
        for way in Direction::BOTH {
            let is_metered = metered.is_some_and(|metered| metered[way as usize]);
            set(&mut self.metered[way as usize], slot, is_metered);
        }
    }

    pub(super) fn has_qer(&self, slot: u8) -> bool {
        has(self.qers, slot)
    }

    /// Sets what a counter is; `None`: it is not there.
    pub(super) fn set_counter(&mut self, slot: u8, kind: Option<CounterKind>) {
        set(&mut self.counting, slot, kind.is_some());
        match kind {
            Some(kind) => self.counters.insert(slot, kind),
            None => self.counters.remove(&slot),
        };
        self.told.remove(&slot);
    }

    pub(super) fn has_counter(&self, slot: u8) -> bool {
        has(self.counting, slot)
    }

    pub(super) fn has_meter(&self, qer: u8, direction: Direction) -> bool {
        has(self.meters[direction as usize], qer)
    }

    /// Whether a flow would pass a QER without one of its meters.
    pub(super) fn lacks_meter(&self, slot: u8, metered: [bool; 2], flow: &Flow) -> bool {
        let way = direction(flow);
        names(flow, ObjectId::Qer(slot)) && metered[way as usize] && !self.has_meter(slot, way)
    }

    /// Whether a counter needs an object.
    pub(super) fn weighs_for(&self, id: ObjectId) -> bool {
        let weighs = |kind: &CounterKind| {
            kind.weight
                .is_some_and(|weight| ObjectId::Counter(weight.of) == id)
        };
        self.counters.values().any(weighs)
    }

    /// Whether there is all that a flow names.
    pub(super) fn has_all_of(&self, flow: &Flow) -> bool {
        let way = direction(flow) as usize;
        let marking = flow
            .marking
            .map_or(0, |slot| 1_u64.checked_shl(slot.into()).unwrap_or(0));
        let is_marking_there = flow.marking.is_none_or(|slot| slot < 64);
        let qers = flow.qers | marking;
        self.has_forward(flow.forward)
            && is_marking_there
            && qers & !self.qers == 0
            && qers & self.metered[way] & !self.meters[way] == 0
            && flow.urrs & !self.counting == 0
    }
}

/// The entry of a flow of a session with this block; `None` where there is no such block, or no room for its content's
/// counter.
pub fn entry_of(
    flow: &Flow,
    session: SessionIndex,
    block: BlockRef,
    blocks: &mut Blocks,
) -> Option<FlowEntry<AnyKey>> {
    let mut entry = FlowEntry {
        verdict: Verdict {
            qers: flow.qers,
            urrs: flow.urrs,
            flags: flow.flags,
            forward: flow.forward,
            marking: flow.marking.unwrap_or(Verdict::NO_MARK),
            ..Verdict::NONE
        },
        key: flow.key,
        extension: ExtensionId::NONE,
        idle: flow.idle.min(Tick::MAX_IDLE),
        snapshot: 0,
    };
    if flow.content.is_some() {
        entry.verdict.content = blocks.content(session, flow.content)?;
    }
    blocks.get(block)?.fill_entry(block, &mut entry);
    Some(entry)
}

pub(super) fn direction(flow: &Flow) -> Direction {
    Direction::BOTH[usize::from(flow.flags.contains(FlowFlags::DOWNLINK))]
}

/// Whether a flow needs this object.
pub(super) fn names(flow: &Flow, id: ObjectId) -> bool {
    match id {
        ObjectId::Forward(slot) => flow.forward == slot,
        ObjectId::Qer(slot) => flow.qers >> slot & 1 == 1 || flow.marking == Some(slot),
        ObjectId::Meter(slot, of) => flow.qers >> slot & 1 == 1 && direction(flow) == of,
        ObjectId::Counter(slot) => flow.urrs >> slot & 1 == 1,
        _ => false,
    }
}

/// Sets one slot of a list, which grows if it has to.
pub(super) fn at<T: Clone>(list: &mut Vec<T>, slot: u8, blank: T, value: T) {
    let slot = usize::from(slot);
    if slot >= list.len() {
        list.resize(slot + 1, blank);
    }
    list[slot] = value;
}

/// Sets one bit, of 64.
pub(super) const fn set(mask: &mut u64, slot: u8, bit: bool) {
    *mask = *mask & !(1 << slot) | (bit as u64) << slot;
}

const fn has(mask: u64, slot: u8) -> bool {
    slot < 64 && mask >> slot & 1 == 1
}

pub(super) fn refusal(error: BlockError) -> Refusal {
    match error {
        BlockError::Full { .. } => Refusal::Full,
        BlockError::OutOfBounds => Refusal::Unsupported,
        BlockError::Dead => Refusal::Missing,
    }
}
