//! What is known of the flows whose host matters: one record for both directions of each.
//!
//! A fixed number of records in sets of four. Where a set is full, one gives way: its flow keeps its entries, and is as
//! if it had just begun when it is decided anew. It is one of the same session, so that the flows of one UE push out no
//! more than a quarter of all records; else one of a flow in which no UE has sent anything; else any. Of several it is
//! the one that has not been looked at for longest.

use dpi::{FlowIndex, Protocol};
use flow::slab::in_huge_pages;
use flow::{KeyFields, Nanos, SessionIndex, prefetch};
use packet::IpTuple;
use rules::classifier::Side;

use super::host_pool::HostPlace;
use super::looks::{Looks, NdpiLook};
use super::questions::Questions;
use crate::burst::descriptor::Descriptor;
use crate::stats::Stats;

/// Records of a set.
const WAYS: usize = 4;

/// What is known of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FlowState {
    /// Nothing, and nothing of the UE's has come: it is not inspected yet.
    Unseen,
    /// Nothing yet: it is inspected.
    Undecided(Looks),
    /// Nothing, and nothing will be.
    Undetected,
    /// What it is, and for.
    Known(Protocol, Option<HostPlace>),
    /// Requests of HTTP/1, each of which may be for something else.
    Requests(Requests),
    /// Queries of DNS, each of which may ask for something else. Those to a resolver that wait for their answers.
    Queries(Questions),
}

/// The requests of a connection of HTTP/1.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Requests {
    /// What the last one is for.
    pub(super) host: Option<HostPlace>,
    /// The inspection of the next one, whose head has come in part.
    pub(super) next: Option<FlowIndex>,
    /// The sequence number at which the next one begins, if it is known.
    pub(super) begins_at: Option<u32>,
}

impl FlowState {
    /// Of a flow that these look at, or have looked at: what the inspector may still find counts more than what nDPI
    /// has found.
    pub(super) fn after(looks: Looks, stats: &mut Stats) -> Self {
        let state = match (looks.own, looks.ndpi) {
            (Some(_), _) | (None, NdpiLook::Open(_)) => return Self::Undecided(looks),
            (None, NdpiLook::Found(protocol)) => {
                stats.ndpi_found += 1;
                Self::Known(Protocol::Ndpi(protocol), None)
            }
            (None, NdpiLook::None | NdpiLook::Over) => Self::Undetected,
        };
        stats.undetected_flows += 1;
        state
    }

    /// What the flow is, and for, if that is known.
    pub(super) fn found(self) -> Option<(Protocol, Option<HostPlace>)> {
        match self {
            Self::Known(protocol, host) => Some((protocol, host)),
            Self::Requests(requests) => Some((Protocol::Http1, requests.host)),
            Self::Queries(_) => Some((Protocol::Dns, None)),
            Self::Unseen | Self::Undecided(_) | Self::Undetected => None,
        }
    }
}

/// Where a direction of a flow has its entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct EntryPlace {
    /// Where its packets come in.
    pub side: Side,
    /// The fields of its key.
    pub shape: KeyFields,
    /// What its packets had that last came here, where the key has it: each direction has its own.
    pub tos: u8,
    pub flow_label: u32,
}

impl EntryPlace {
    /// That of a packet with this tuple.
    pub(crate) fn of(descriptor: &Descriptor, tuple: Option<&IpTuple>) -> Self {
        Self {
            side: descriptor.side,
            shape: descriptor.shape,
            tos: tuple.map_or(0, |tuple| tuple.tos),
            flow_label: tuple.map_or(0, |tuple| tuple.flow_label),
        }
    }
}

/// The record of a flow. A cache line.
#[derive(Clone, Copy, Debug)]
#[repr(align(64))]
pub(super) struct FlowRecord {
    /// A keyed hash of session, addresses, ports and protocol.
    id: u64,
    pub(super) state: FlowState,
    pub(super) session: SessionIndex,
    /// The entry of what the server sends, where the client's next request may outdate it.
    pub(super) responder: Option<EntryPlace>,
    /// When it was looked at last, in units of 0.5 s.
    touched: u32,
    /// A mark of that entry of the initiator's which was decided last, since what is known of the flow has changed
    /// last: 0 of none.
    pub(super) initiator: u16,
    is_used: bool,
    pub(super) notes: Notes,
}

/// What is so of a flow, or not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Notes(u8);

impl Notes {
    /// A resolver had given the session the address of the other end for what the flow is for, when it was found.
    pub(super) const IS_CONFIRMED: Self = Self(1);
    /// A request of the flow was not read to its end: it is not known what for the next packets are.
    pub(super) const HAS_LOST_REQUEST: Self = Self(1 << 1);
    /// The lower end opened the flow.
    pub(super) const INITIATOR_IS_LOW: Self = Self(1 << 2);

    pub(super) fn has(self, note: Self) -> bool {
        self.0 & note.0 != 0
    }

    pub(super) fn set(&mut self, note: Self, is_so: bool) {
        self.0 = match is_so {
            true => self.0 | note.0,
            false => self.0 & !note.0,
        };
    }
}

const _: () = assert!(size_of::<FlowRecord>() == 64);

impl FlowRecord {
    const FREE: Self = Self {
        id: 0,
        state: FlowState::Undetected,
        session: SessionIndex(0),
        responder: None,
        touched: 0,
        initiator: 0,
        is_used: false,
        notes: Notes(0),
    };
}

/// Some 0.5 s.
fn half_seconds(now: Nanos) -> u32 {
    (now.0 >> 29) as u32
}

/// The place of a record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RecordPlace(pub(super) u32);

/// A fixed number of records.
pub(super) struct FlowRecords {
    records: Box<[FlowRecord]>,
    sets: u32,
    /// The place that is looked at next for one that gives way.
    hand: usize,
}

impl FlowRecords {
    /// Room for `records`, rounded up to whole sets; 0: for none.
    pub(super) fn new(records: u32) -> Self {
        let sets = records.div_ceil(WAYS as u32);
        Self {
            records: in_huge_pages(sets as usize * WAYS, |_| FlowRecord::FREE),
            sets,
            hand: 0,
        }
    }

    /// Whether there is room for any.
    pub(super) fn is_on(&self) -> bool {
        self.sets > 0
    }

    fn first_of(&self, id: u64) -> usize {
        // The high half of a product with the number of sets: below it, and even.
        let set = ((id >> 32) * u64::from(self.sets)) >> 32;
        set as usize * WAYS
    }

    /// Asks for the memory in which the record of a flow is, if there is one.
    pub(super) fn prefetch(&self, id: u64) {
        let first = self.first_of(id);
        if let Some(set) = self.records.get(first..first + WAYS) {
            prefetch::lines(set, WAYS);
        }
    }

    /// Where the record of a flow is, if there is one. It counts as looked at.
    pub(super) fn find(&mut self, id: u64, now: Nanos) -> Option<RecordPlace> {
        let first = self.first_of(id);
        let set = self.records.get_mut(first..first + WAYS)?;
        let way = set.iter().position(|record| record.is_used && record.id == id)?;
        set[way].touched = half_seconds(now);
        Some(RecordPlace((first + way) as u32))
    }

    /// The same, for one who only wants to know.
    pub(super) fn peek(&self, id: u64) -> Option<RecordPlace> {
        let first = self.first_of(id);
        let set = self.records.get(first..first + WAYS)?;
        let way = set.iter().position(|record| record.is_used && record.id == id)?;
        Some(RecordPlace((first + way) as u32))
    }

    /// A place for the record of a session's flow that has none, which is free then; and the record that gave way for
    /// it. Where the UE has sent nothing yet, those of its own flows have no reason to.
    pub(super) fn make(
        &mut self,
        ((id, session), is_uplink): ((u64, SessionIndex), bool),
        initiator_is_low: bool,
        now: Nanos,
    ) -> Option<(RecordPlace, Option<FlowRecord>)> {
        let first = self.first_of(id);
        let set = self.records.get_mut(first..first + WAYS)?;
        let now = half_seconds(now);
        let idle = |record: &FlowRecord| now.wrapping_sub(record.touched);
        let (way, record) = set.iter_mut().enumerate().max_by_key(|(_, record)| {
            let is_own = is_uplink && record.session == session;
            let is_unseen = record.state == FlowState::Unseen;
            (!record.is_used, is_own, is_unseen, idle(record))
        })?;
        let old = record.is_used.then_some(*record);
        *record = FlowRecord {
            id,
            session,
            touched: now,
            is_used: true,
            ..FlowRecord::FREE
        };
        record.notes.set(Notes::INITIATOR_IS_LOW, initiator_is_low);
        Some((RecordPlace((first + way) as u32), old))
    }

    /// The next record, if its flow is for a host and nothing is read for another: with its session and its host.
    pub(super) fn next_with_host(&mut self) -> Option<(RecordPlace, SessionIndex, HostPlace)> {
        let place = self.hand;
        self.hand = (place + 1) % self.records.len().max(1);
        let record = self.records.get(place).filter(|record| record.is_used)?;
        let host = match record.state {
            FlowState::Known(_, host) | FlowState::Requests(Requests { host, next: None, .. }) => host?,
            _ => return None,
        };
        Some((RecordPlace(place as u32), record.session, host))
    }

    /// Frees the place of a record. What it has of elsewhere has been given back, or will be.
    pub(super) fn free(&mut self, place: RecordPlace) {
        if let Some(record) = self.at_mut(place) {
            *record = FlowRecord::FREE;
        }
    }

    pub(super) fn at(&self, RecordPlace(place): RecordPlace) -> Option<&FlowRecord> {
        self.records.get(place as usize)
    }

    pub(super) fn at_mut(&mut self, RecordPlace(place): RecordPlace) -> Option<&mut FlowRecord> {
        self.records.get_mut(place as usize)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: u64) -> Nanos {
        Nanos(seconds * 1_000_000_000)
    }

    #[test]
    fn the_record_that_was_not_looked_at_for_longest_gives_way() {
        let mut records = FlowRecords::new(1);
        let known = |place| FlowState::Undecided(Looks::of_inspector(FlowIndex(place)));
        for id in 1..=4 {
            let of = (id, SessionIndex(id as u32));
            let (place, old) = records.make((of, true), true, at(id)).expect("there is room");
            assert!(old.is_none());
            records.at_mut(place).expect("it is there").state = known(id as u32);
        }
        assert!(records.find(1, at(5)).is_some());
        let (_, old) = records
            .make(((5, SessionIndex(5)), true), true, at(6))
            .expect("there is room");
        assert_eq!(old.map(|old| old.state), Some(known(2)));
        assert!(records.find(2, at(6)).is_none());
        assert!([1, 3, 4, 5].iter().all(|id| records.find(*id, at(7)).is_some()));
    }

    #[test]
    fn those_of_the_same_session_and_those_in_which_the_ue_sent_nothing_give_way_first() {
        let mut records = FlowRecords::new(1);
        let mut make = |id, session, state, time| {
            let of = (id, SessionIndex(session));
            let made = records.make((of, state != FlowState::Unseen), true, at(time));
            let (place, old) = made.expect("there is room");
            records.at_mut(place).expect("it is there").state = state;
            old.map(|old| old.id)
        };
        let known = FlowState::Known(Protocol::Tls, None);
        for (id, session, state) in [
            (1, 1, known),
            (2, 2, known),
            (3, 3, FlowState::Unseen),
            (4, 2, known),
        ] {
            assert_eq!(make(id, session, state, id), None);
        }
        // One session's flood pushes out one record of others at most, and that one first in which no UE has sent.
        assert_eq!(make(5, 9, known, 5), Some(3));
        assert_eq!(make(6, 9, known, 6), Some(5));
        // Of its own ones the one that was not looked at for longest.
        assert_eq!(make(7, 2, known, 7), Some(2));
        // What comes to a UE pushes out none of that UE's in particular.
        assert_eq!(make(8, 2, FlowState::Unseen, 8), Some(1));
        assert_eq!(make(9, 2, FlowState::Unseen, 9), Some(8));
    }

    #[test]
    fn without_room_there_are_none() {
        let mut records = FlowRecords::new(0);
        assert!(
            records.make(((1, SessionIndex(1)), true), true, at(0)).is_none()
                && records.find(1, at(0)).is_none()
        );
    }
}
