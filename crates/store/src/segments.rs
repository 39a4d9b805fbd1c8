//! The segments that there are, from the oldest to the newest, and how much of each is live.

use std::collections::VecDeque;

use crate::form::Listed;
use crate::index::{BATCH, Slot};

/// The index of a segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum IndexFile {
    /// It is to be made, when nothing is written to the segment any more.
    #[default]
    Wanted,
    /// It is there, and has these octets.
    There(u64),
    /// There is damage in the segment: the next process finds it there.
    Impossible,
}

/// A segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Segment {
    pub(crate) number: u64,
    /// Octets of its header.
    pub(crate) header: u64,
    /// Octets that count.
    pub(crate) octets: u64,
    pub(crate) index: IndexFile,
    /// Behind here the process before may not have confirmed them.
    pub(crate) doubtful_from: Option<u64>,
    /// Of these, those of records that the durable state needs.
    pub(crate) live_octets: u64,
    pub(crate) live_records: u64,
}

/// The segments. In the index they go by ids, which are given again when a segment is gone.
#[derive(Debug, Default)]
pub(crate) struct Segments {
    by_id: Vec<Option<Segment>>,
    order: VecDeque<u16>,
    free: Vec<u16>,
    octets: u64,
    index_octets: u64,
    live_octets: u64,
}

impl Segments {
    /// Whether there is an id for another one.
    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty() || self.by_id.len() < usize::from(BATCH)
    }

    /// Adds the newest one. Returns its id, if there is room.
    pub(crate) fn push(&mut self, segment: Segment) -> Option<u16> {
        let id = match self.free.pop() {
            Some(id) => id,
            None => u16::try_from(self.by_id.len()).ok().filter(|id| *id != BATCH)?,
        };
        match self.by_id.get_mut(usize::from(id)) {
            Some(place) => *place = Some(segment),
            None => self.by_id.push(Some(segment)),
        }
        self.order.push_back(id);
        self.octets += segment.octets;
        self.live_octets += segment.live_octets;
        Some(id)
    }

    pub(crate) fn get(&self, id: u16) -> Option<&Segment> {
        self.by_id.get(usize::from(id))?.as_ref()
    }

    /// The oldest one and its id.
    pub(crate) fn oldest(&self) -> Option<(u16, Segment)> {
        let id = *self.order.front()?;
        Some((id, *self.get(id)?))
    }

    /// The id of the newest one.
    pub(crate) fn newest(&self) -> Option<u16> {
        self.order.back().copied()
    }

    pub(crate) fn remove_oldest(&mut self) {
        let Some(id) = self.order.pop_front() else { return };
        if let Some(gone) = self.by_id.get_mut(usize::from(id)).and_then(Option::take) {
            self.octets -= gone.octets;
            self.live_octets -= gone.live_octets;
            if let IndexFile::There(octets) = gone.index {
                self.index_octets -= octets;
            }
            self.free.push(id);
        }
    }

    /// The oldest segment whose index is to be made: all of it is confirmed and is needed, and the newest one comes
    /// behind it, whose header says how much of it counts.
    pub(crate) fn to_index(&self) -> Option<(u16, Segment)> {
        let older = self.order.iter().take(self.order.len().saturating_sub(1));
        let mut older = older.filter_map(|id| Some((*id, *self.get(*id)?)));
        older.find(|(_, segment)| {
            segment.index == IndexFile::Wanted && segment.doubtful_from.is_none() && segment.live_records > 0
        })
    }

    /// What has become of the index of a segment.
    pub(crate) fn set_index(&mut self, id: u16, index: IndexFile) {
        let Some(segment) = self.get_mut(id) else { return };
        segment.index = index;
        if let IndexFile::There(octets) = index {
            self.index_octets += octets;
        }
    }

    /// All of them, as the header of a new one lists them.
    pub(crate) fn list(&self) -> Vec<Listed> {
        let segments = self.order.iter().filter_map(|id| self.get(*id));
        let listed = segments.map(|segment| Listed {
            number: segment.number,
            octets: segment.octets,
            confirmed: segment.doubtful_from.unwrap_or(segment.octets),
        });
        listed.collect()
    }

    /// What is behind these octets may not have been confirmed.
    pub(crate) fn doubt(&mut self, id: u16, from: u64) {
        if let Some(segment) = self.get_mut(id) {
            segment.doubtful_from = Some(from);
        }
    }

    /// More octets of a segment are confirmed.
    pub(crate) fn grow(&mut self, id: u16, octets: u64) {
        if let Some(segment) = self.get_mut(id) {
            segment.octets += octets;
            self.octets += octets;
        }
    }

    /// A record of the durable state is here.
    pub(crate) fn add_live(&mut self, slot: Slot) {
        let octets = u64::from(slot.octets());
        if let Some(segment) = self.get_mut(slot.segment()) {
            segment.live_octets += octets;
            segment.live_records += 1;
            self.live_octets += octets;
        }
    }

    /// The durable state no longer needs the record that is here.
    pub(crate) fn drop_live(&mut self, slot: Slot) {
        let octets = u64::from(slot.octets());
        if let Some(segment) = self.get_mut(slot.segment()) {
            segment.live_octets -= octets;
            segment.live_records -= 1;
            self.live_octets -= octets;
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn octets(&self) -> u64 {
        self.octets
    }

    /// Octets of the indexes of segments.
    pub(crate) fn index_octets(&self) -> u64 {
        self.index_octets
    }

    pub(crate) fn live_octets(&self) -> u64 {
        self.live_octets
    }

    fn get_mut(&mut self, id: u16) -> Option<&mut Segment> {
        self.by_id.get_mut(usize::from(id))?.as_mut()
    }
}
