//! The counters of a session's URRs, and what they count as events.

use crate::boxed_option::{Absent, BoxedOption};
use crate::model::UrrId;
use crate::network::EventLogic;

/// A counter of a URR.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Counter {
    /// That of octets and packets, which every URR has.
    Volume(UrrId),
    /// That of events.
    Events(UrrId),
}

impl Counter {
    /// The URR.
    pub const fn urr(self) -> UrrId {
        match self {
            Self::Volume(urr) | Self::Events(urr) => urr,
        }
    }
}

impl From<UrrId> for Counter {
    fn from(urr: UrrId) -> Self {
        Self::Volume(urr)
    }
}

/// The counters of events, of which a packet is one or none in each, and what is an event.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct EventCounters {
    /// The slot of each URR that counts events, in the order of their counters: those are behind the counters of all
    /// URRs.
    pub urrs: Vec<u8>,
    /// What is an event among the packets of a PDR, by the slot of the PDR in rising order.
    pub logic: Vec<PdrEvents>,
}

impl Absent for EventCounters {
    const ABSENT: &'static Self = &Self {
        urrs: Vec::new(),
        logic: Vec::new(),
    };
}

impl From<EventCounters> for BoxedOption<EventCounters> {
    /// Those of nothing are not there.
    fn from(counters: EventCounters) -> Self {
        match counters.urrs.is_empty() && counters.logic.is_empty() {
            true => Self::NONE,
            false => Self::some(counters),
        }
    }
}

impl EventCounters {
    /// What is an event among the packets of the PDR in this slot; nothing of most.
    pub fn of(&self, pdr: u16) -> EventLogic {
        let place = self.logic.binary_search_by_key(&pdr, |one| one.pdr);
        let logic = place.ok().and_then(|place| self.logic.get(place));
        logic.map_or(EventLogic::default(), |one| one.logic)
    }
}

/// What is an event among the packets of a PDR.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PdrEvents {
    /// The slot of the PDR.
    pub pdr: u16,
    /// What is an event.
    pub logic: EventLogic,
}
