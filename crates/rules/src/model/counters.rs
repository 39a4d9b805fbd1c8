//! The counter slots that a session's rules ask for, in this order: of each URR, of events, of inactivity, of content that
//! has no counter of its own, of what comes before QoS enforcement, a mark, and the weights of members in credit pools.

use flow::ContentId;
use smallvec::SmallVec;

use super::ids::UrrId;
use super::pool::PoolSlots;
use super::session_rules::SessionRules;

impl SessionRules {
    /// Whether packets that a PDR detects may be billed as this content.
    pub fn bills(&self, content: ContentId) -> bool {
        let mut rulebases = self.pdrs().iter().flat_map(|pdr| &pdr.rulebases);
        rulebases.any(|rulebase| rulebase.contents().binary_search(&content).is_ok())
    }

    /// The counter slot behind those of URRs and of the inactivity timer, for contents that have no counter; `None`
    /// where no rulebase that a PDR activates is of any content.
    pub fn content_rest(&self) -> Option<u8> {
        let mut rulebases = self.pdrs().iter().flat_map(|pdr| &pdr.rulebases);
        let bills = rulebases.any(|rulebase| !rulebase.contents().is_empty());
        let slot = self.urr_counters() + usize::from(self.inactivity_timer().is_some());
        u8::try_from(slot).ok().filter(|_| bills)
    }

    /// The counter slots behind those of the URRs, where events count: of each URR that counts them.
    pub fn event_slots(&self) -> impl Iterator<Item = (u8, UrrId)> + '_ {
        let slots = (self.urrs().len()..).map(|slot| slot.min(u8::MAX.into()) as u8);
        let counting = self.urrs().iter().filter(|urr| urr.counts_events());
        slots.zip(counting.map(|urr| urr.id))
    }

    /// How many counter slots are of URRs: one each, and another one each of those that count events.
    pub fn urr_counters(&self) -> usize {
        self.urrs().len() + self.event_slots().count()
    }

    /// The last counter slot, if any URR counts events: it counts before QoS enforcement for nobody, and has a worker
    /// look at packets among which events may be.
    pub(crate) fn event_mark(&self) -> Option<usize> {
        let counts = self.event_slots().next().is_some();
        counts.then(|| self.first_before_qos() + self.before_qos_slots().count())
    }

    /// The counters of credit pools. The slots that say how much the members of one count are the last ones.
    pub fn pools(&self) -> Vec<PoolSlots> {
        match self.urrs().iter().any(|urr| urr.pool().is_some()) {
            true => self.pools_from(self.first_weight()),
            false => Vec::new(),
        }
    }

    fn first_weight(&self) -> usize {
        let marks = usize::from(self.event_mark().is_some());
        self.first_before_qos() + self.before_qos_slots().count() + marks
    }

    fn first_before_qos(&self) -> usize {
        let own = usize::from(self.inactivity_timer().is_some()) + usize::from(self.content_rest().is_some());
        self.urr_counters() + own
    }

    /// The counter slots behind all others, where packets count before QoS enforcement: of each URR that tells of it.
    pub fn before_qos_slots(&self) -> impl Iterator<Item = (u8, UrrId)> + '_ {
        let first = self.first_before_qos();
        let measuring = self.urrs().iter().filter(|urr| urr.measures_before_qos());
        let slots = (first..).map(|slot| slot.min(u8::MAX.into()) as u8);
        slots.zip(measuring.map(|urr| urr.id))
    }

    /// For each URR by its slot, the counter slots that packets count in which count in it: bit n is slot n. None while
    /// it is paused.
    pub(crate) fn counter_slots(&self) -> SmallVec<[u64; 8]> {
        let bit = |slot: usize| 1u64.checked_shl(slot as u32).unwrap_or(0);
        let mut before = self.before_qos_slots();
        let mut events = self.event_slots();
        let event_mark = self.event_mark().map_or(0, bit);
        let slots = self.urrs().iter().enumerate().map(|(slot, urr)| {
            let own = bit(slot);
            let event = match urr.counts_events() {
                true => events.next().map_or(0, |(slot, _)| bit(slot.into())) | event_mark,
                false => 0,
            };
            let before = match urr.measures_before_qos() {
                true => before.next().map_or(0, |(slot, _)| bit(slot.into())),
                false => 0,
            };
            if urr.is_paused() { 0 } else { own | event | before }
        });
        let mut slots = slots.collect();
        for pool in self.pools() {
            count_in_pool(&mut slots, &pool);
        }
        slots
    }
}

/// Has packets of a pool's members count in the pool, too, and no others.
fn count_in_pool(slots: &mut SmallVec<[u64; 8]>, pool: &PoolSlots) {
    let own = slots.get_mut(usize::from(pool.pool)).map_or(0, std::mem::take);
    for (member, _, weight) in pool.members.iter().filter(|_| own != 0) {
        if let Some(slots) = slots.get_mut(usize::from(*member)).filter(|slots| **slots != 0) {
            *slots |= own | weight.map_or(0, |slot| 1u64.checked_shl(slot.into()).unwrap_or(0));
        }
    }
}
