//! The counter slots that a session's rules need, in this order: of each URR, of the events of each URR that counts
//! them, of inactivity, of contents without a counter of their own, of volumes before QoS enforcement, the event mark,
//! and the weights of members in credit pools.

use flow::ContentId;
use smallvec::SmallVec;

use crate::model::{Aggregated, MAX_WEIGHT, MeasurementMethod, Pdr, SessionRules, Urr, UrrId};

/// The counter slot of a URR in addition to its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct UrrSlot {
    /// The slot.
    pub slot: u8,
    /// The URR.
    pub urr: UrrId,
}

/// The counters of a credit pool in a session's block.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PoolSlots {
    /// The slot of the pool itself.
    pub pool: u8,
    /// Those of its members.
    pub members: SmallVec<[PoolMember; 4]>,
}

/// A member of a credit pool.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PoolMember {
    /// Its counter slot.
    pub slot: u8,
    /// How often a packet of it counts in the pool's counter; 0 if it measures no volume.
    pub weight: u16,
    /// The slot that has this weight, where packets of the pool do not all count once.
    pub weight_slot: Option<u8>,
}

impl PoolSlots {
    /// The slots that packets of its members count in: bit n is slot n. Those of the weights where there are any.
    pub fn member_mask(&self) -> u64 {
        let slots = self
            .members
            .iter()
            .map(|member| member.weight_slot.unwrap_or(member.slot));
        slots.fold(0, |mask, slot| mask | bit(slot.into()))
    }

    /// Whether its packets count by weight.
    pub fn is_weighted(&self) -> bool {
        self.members.iter().any(|member| member.weight_slot.is_some())
    }
}

/// The counter slots of a session's rules: how many there are of each kind is found once.
#[derive(Clone, Copy)]
pub struct CounterSlots<'a> {
    rules: &'a SessionRules,
    /// The URRs that count events.
    counting_events: usize,
    /// Those that report volumes before QoS enforcement.
    before_qos: usize,
    has_pools: bool,
    /// Whether any rulebase that a PDR activates has a content.
    bills: bool,
}

impl<'a> CounterSlots<'a> {
    /// Those of these rules.
    pub fn of(rules: &'a SessionRules) -> Self {
        let mut slots = Self {
            rules,
            counting_events: 0,
            before_qos: 0,
            has_pools: false,
            bills: false,
        };
        for urr in rules.urrs() {
            slots.counting_events += usize::from(urr.counts_events());
            slots.before_qos += usize::from(urr.measures_before_qos());
            slots.has_pools |= urr.pool().is_some();
        }
        let mut rulebases = rules.pdrs().iter().flat_map(|pdr| pdr.rulebases.iter());
        slots.bills = rulebases.any(|rulebase| !rulebase.contents().is_empty());
        slots
    }

    /// Whether packets that a PDR detects may be billed as this content.
    pub fn bills(self, content: ContentId) -> bool {
        let mut rulebases = self.rules.pdrs().iter().flat_map(|pdr| pdr.rulebases.iter());
        self.bills && rulebases.any(|rulebase| rulebase.contents().binary_search(&content).is_ok())
    }

    /// The slot for contents that have no counter; `None` where no rulebase that a PDR activates has any content.
    pub fn content_rest(self) -> Option<u8> {
        let slot = self.urr_counters() + usize::from(self.rules.inactivity_timer().is_some());
        u8::try_from(slot).ok().filter(|_| self.bills)
    }

    /// The slots for events, of each URR that counts them.
    pub fn events(self) -> impl Iterator<Item = UrrSlot> + use<'a> {
        let counting = self.rules.urrs().iter().filter(|urr| urr.counts_events());
        urr_slots(self.rules.urrs().len(), counting.take(self.counting_events))
    }

    /// How many slots are of URRs: one each, and another one of each that counts events.
    pub fn urr_counters(self) -> usize {
        self.rules.urrs().len() + self.counting_events
    }

    /// The last slot but those of weights, if any URR counts events: it counts nothing, and has a worker examine
    /// packets for events.
    pub(crate) fn event_mark(self) -> Option<usize> {
        (self.counting_events > 0).then(|| self.first_before_qos() + self.before_qos)
    }

    /// The counters of credit pools. The slots of their weights are the last ones.
    pub fn pools(self) -> Vec<PoolSlots> {
        match self.has_pools {
            true => self.pools_from(self.first_weight()),
            false => Vec::new(),
        }
    }

    fn first_weight(self) -> usize {
        let marks = usize::from(self.counting_events > 0);
        self.first_before_qos() + self.before_qos + marks
    }

    fn first_before_qos(self) -> usize {
        let own =
            usize::from(self.rules.inactivity_timer().is_some()) + usize::from(self.content_rest().is_some());
        self.urr_counters() + own
    }

    /// The slots for volumes before QoS enforcement, of each URR that reports them.
    pub fn before_qos(self) -> impl Iterator<Item = UrrSlot> + use<'a> {
        let measuring = self.rules.urrs().iter().filter(|urr| urr.measures_before_qos());
        urr_slots(self.first_before_qos(), measuring.take(self.before_qos))
    }

    /// How many slots there are beside one for each URR.
    pub(crate) fn extra(self) -> usize {
        let own = self.first_weight() - self.rules.urrs().len();
        let pools = self.pools();
        let members = pools.iter().flat_map(|pool| &pool.members);
        own + members.filter(|member| member.weight_slot.is_some()).count()
    }

    /// For each URR by its slot, the slots that its packets count in: bit n is slot n. None while it is paused.
    pub(crate) fn masks(self) -> SmallVec<[u64; 8]> {
        let mut before = self.before_qos();
        let mut events = self.events();
        let event_mark = self.event_mark().map_or(0, bit);
        let next =
            |slots: &mut dyn Iterator<Item = UrrSlot>| slots.next().map_or(0, |one| bit(one.slot.into()));
        let masks = self.rules.urrs().iter().enumerate().map(|(slot, urr)| {
            let event = match urr.counts_events() {
                true => next(&mut events) | event_mark,
                false => 0,
            };
            let before = match urr.measures_before_qos() {
                true => next(&mut before),
                false => 0,
            };
            if urr.is_paused() {
                0
            } else {
                bit(slot) | event | before
            }
        });
        let mut masks = masks.collect();
        for pool in self.pools() {
            count_in_pool(&mut masks, &pool);
        }
        masks
    }

    /// The counters of the pools, whose weights have slots from `first` on.
    fn pools_from(self, first: usize) -> Vec<PoolSlots> {
        let mut next = first;
        let pools = (0..)
            .zip(self.rules.urrs())
            .filter_map(|(slot, urr)| Some((slot, urr, urr.pool()?)));
        let pools = pools.map(|(pool, urr, members)| {
            let mut slots: SmallVec<[PoolMember; 4]> =
                members.iter().filter_map(|one| self.member(urr, one)).collect();
            if urr.method.contains(MeasurementMethod::VOLUM) && self.is_weighted(members, &slots) {
                for (member, slot) in slots.iter_mut().zip(next..) {
                    member.weight_slot = Some(slot.min(u8::MAX.into()) as u8);
                }
                next += slots.len();
            }
            PoolSlots { pool, members: slots }
        });
        pools.collect()
    }

    /// A member of a pool, without a slot for its weight.
    fn member(self, pool: &Urr, one: &Aggregated) -> Option<PoolMember> {
        let mut urrs = self.rules.urrs().iter().enumerate();
        let (slot, urr) = urrs.find(|(_, urr)| urr.id == one.urr)?;
        let measures = urr.method.contains(MeasurementMethod::VOLUM);
        let weight = (one.multiplier.billionths() / pool.unit()).min(MAX_WEIGHT) as u16;
        Some(PoolMember {
            slot: slot as u8,
            weight: if measures { weight } else { 0 },
            weight_slot: None,
        })
    }

    /// Whether not every packet of a pool counts once: members have different weights, or a packet may be of several.
    fn is_weighted(self, members: &[Aggregated], slots: &[PoolMember]) -> bool {
        let counts_in = |pdr: &Pdr| members.iter().filter(|one| pdr.may_count_in(one.urr)).count() > 1;
        slots.iter().any(|member| member.weight != 1) || self.rules.pdrs().iter().any(counts_in)
    }
}

/// Slots from `first` on, one for each of `urrs`.
fn urr_slots<'a, I: Iterator<Item = &'a Urr>>(
    first: usize,
    urrs: I,
) -> impl Iterator<Item = UrrSlot> + use<'a, I> {
    let slots = (first..).map(|slot| slot.min(u8::MAX.into()) as u8);
    slots.zip(urrs).map(|(slot, urr)| UrrSlot { slot, urr: urr.id })
}

fn bit(slot: usize) -> u64 {
    1u64.checked_shl(slot as u32).unwrap_or(0)
}

/// Has packets of a pool's members count in the pool, too, and no others.
fn count_in_pool(masks: &mut SmallVec<[u64; 8]>, pool: &PoolSlots) {
    let own = masks.get_mut(usize::from(pool.pool)).map_or(0, std::mem::take);
    for member in pool.members.iter().filter(|_| own != 0) {
        if let Some(mask) = masks.get_mut(usize::from(member.slot)).filter(|mask| **mask != 0) {
            *mask |= own | member.weight_slot.map_or(0, |slot| bit(slot.into()));
        }
    }
}
