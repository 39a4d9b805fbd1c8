//! A session of a backend, and what its objects need of each other.

use std::collections::{BTreeMap, BTreeSet};

use crate::contract::{AnyKey, CounterKind, Flow, ObjectId, Refusal};
use crate::{
    BlockError, BlockImage, BlockRef, Blocks, Direction, ExtensionId, FlowEntry, FlowFlags, Installed,
    Reached, SessionIndex, Tick, UrrCount, Verdict,
};

/// A session that has at least one object here.
pub(super) struct Session {
    pub(super) image: BlockImage,
    pub(super) installed: Installed,
    pub(super) forwards: BTreeSet<u8>,
    /// With the directions that have meters.
    pub(super) qers: BTreeMap<u8, [bool; 2]>,
    pub(super) counters: BTreeMap<u8, CounterKind>,
    /// The generation of its flows, once it was given.
    pub(super) generation: Option<u32>,
    /// What was reported of its counters.
    pub(super) reported: Vec<(u8, UrrCount)>,
    /// What its counters have reached, as far as it was reported.
    pub(super) told: BTreeMap<u8, Reached>,
}

impl Session {
    /// One without objects.
    pub(super) fn new(image: BlockImage, installed: Installed) -> Self {
        Self {
            image,
            installed,
            forwards: BTreeSet::new(),
            qers: BTreeMap::new(),
            counters: BTreeMap::new(),
            generation: None,
            reported: Vec::new(),
            told: BTreeMap::new(),
        }
    }

    /// Whether a flow would pass a QER without one of its meters.
    pub(super) fn lacks_meter(&self, slot: u8, metered: [bool; 2], flow: &Flow) -> bool {
        let way = direction(flow);
        names(flow, ObjectId::Qer(slot)) && metered[way as usize] && !self.meter(slot, way)
    }

    /// Whether a counter needs an object.
    pub(super) fn weighs_for(&self, id: ObjectId) -> bool {
        let weighs = |kind: &CounterKind| {
            kind.weight
                .is_some_and(|weight| ObjectId::Counter(weight.of) == id)
        };
        self.counters.values().any(weighs)
    }
    pub(super) fn meter(&self, qer: u8, direction: Direction) -> bool {
        let pair = self.image.meters.get(usize::from(qer));
        pair.is_some_and(|pair| pair[direction as usize].is_some())
    }

    pub(super) fn has_all_of(&self, flow: &Flow) -> bool {
        let direction = direction(flow);
        let has_qer = |slot: u8| {
            let metered = self.qers.get(&slot).map(|metered| metered[direction as usize]);
            metered.is_some_and(|metered| !metered || self.meter(slot, direction))
        };
        self.forwards.contains(&flow.forward)
            && slots(flow.qers).chain(flow.marking).all(has_qer)
            && slots(flow.urrs).all(|slot| self.counters.contains_key(&slot))
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

fn slots(mask: u64) -> impl Iterator<Item = u8> {
    (0..64).filter(move |slot| mask >> slot & 1 == 1)
}

/// Sets one slot of a list, which grows if it has to.
pub(super) fn at<T: Clone>(list: &mut Vec<T>, slot: u8, blank: T, value: T) {
    let slot = usize::from(slot);
    if slot >= list.len() {
        list.resize(slot + 1, blank);
    }
    list[slot] = value;
}

pub(super) fn set(mask: &mut u64, slot: u8, bit: bool) {
    *mask = *mask & !(1 << slot) | u64::from(bit) << slot;
}

pub(super) fn refusal(error: BlockError) -> Refusal {
    match error {
        BlockError::Full { .. } => Refusal::Full,
        BlockError::OutOfBounds => Refusal::Unsupported,
        BlockError::Dead => Refusal::Missing,
    }
}
