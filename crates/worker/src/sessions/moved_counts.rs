//! What packets that wait have counted, where their session moves to another worker: they count there then, so that
//! those which are lost there are credited back there.

use flow::{BlockRef, ContentUsage, Nanos, SessionIndex, UrrCount};
use rules::image::{Counter, SessionImage};

use crate::burst::credit::{Charge, ContentPlace};
use crate::sessions::table::Sessions;

/// Counts that one worker gives and another one takes.
#[derive(Default)]
pub(crate) struct MovedCounts {
    /// By slot in the worker that gives them.
    slots: Vec<Counter>,
    counts: Vec<MovedCount>,
    /// What was counted of contents, by the numbers of their counters in the worker that gives them.
    contents: Vec<ContentUsage>,
    /// Where they count in the worker that takes them.
    content_places: Vec<ContentPlace>,
}

struct MovedCount {
    counter: Counter,
    count: UrrCount,
    /// When the last packet came that the counter has counted.
    last: Option<Nanos>,
}

impl MovedCounts {
    /// The slot that each has in an image of the session.
    pub fn slots_in(&self, image: &SessionImage) -> Vec<Option<u8>> {
        self.slots.iter().map(|counter| image.slot_of(*counter)).collect()
    }

    /// Where each content counts, by the number of its counter in the worker that has given it.
    pub fn content_places(&self) -> &[ContentPlace] {
        &self.content_places
    }
}

impl Sessions {
    /// Takes back what packets of a session have counted. What was reported of their contents already, and what was
    /// counted of those that have no counter, stays counted here.
    pub fn take_counts<'a>(
        &mut self,
        session: SessionIndex,
        charges: impl Iterator<Item = &'a mut Charge>,
    ) -> MovedCounts {
        let Some(slot) = self.at(session) else {
            return MovedCounts::default();
        };
        let (block, slots) = (slot.installed.block, slot.image.counters());
        let before = self.counts_by_slot(block, slots.len());
        let contents: Vec<_> = self.blocks.contents_by_number(session).collect();
        let all = 1u64
            .checked_shl(slots.len() as u32)
            .map_or(u64::MAX, |bit| bit - 1);
        charges.for_each(|charge| charge.leave(&mut self.blocks, all));
        let after = self.counts_by_slot(block, slots.len());
        let view = self.blocks.get(block);
        let of = |(slot, (counter, (before, after))): (u8, (&Counter, (UrrCount, UrrCount)))| MovedCount {
            counter: *counter,
            count: minus(&before, &after),
            last: view.and_then(|view| view.times(slot)).map(|times| times.last),
        };
        let counts = (0..).zip(slots.iter().zip(before.into_iter().zip(after))).map(of);
        let counts = counts.filter(|moved| moved.count != UrrCount::default());
        let left = self.blocks.contents_by_number(session);
        let contents = contents.into_iter().zip(left).map(|(before, left)| ContentUsage {
            count: minus(&before.count, &left.count),
            ..before
        });
        MovedCounts {
            counts: counts.collect(),
            contents: contents.collect(),
            slots,
            content_places: Vec::new(),
        }
    }

    /// Counts what packets have counted at another worker. What that reaches is not looked at: the session gets other
    /// bounds at once.
    pub fn add_counts(&mut self, session: SessionIndex, moved: &mut MovedCounts, now: Nanos) {
        let Some(slot) = self.at(session) else { return };
        let (block, rest) = (slot.installed.block, slot.classifier.content_rest());
        let counts = moved.counts.iter();
        let places: Vec<_> = counts
            .map(|moved| (slot.image.slot_of(moved.counter), moved))
            .collect();
        for (slot, moved) in places {
            let Some(slot) = slot else { continue };
            let own = self.blocks.get(block).and_then(|view| view.times(slot));
            let last = own.map(|times| times.last).max(moved.last);
            self.blocks
                .add_count(block, slot, &moved.count, last.unwrap_or(now));
        }
        for usage in &moved.contents {
            let number = match usage.is_nothing() {
                true => Some(0),
                false => self.blocks.add_content(session, usage),
            };
            let rest = rest.filter(|_| number.is_none());
            if let Some(slot) = rest {
                self.blocks.add_count(block, slot, &usage.count, usage.last);
            }
            moved.content_places.push(ContentPlace {
                number: number.unwrap_or(0),
                rest: rest.map_or(0, |slot| 1 << (slot & 63)),
            });
        }
    }

    fn counts_by_slot(&self, block: BlockRef, slots: usize) -> Vec<UrrCount> {
        let view = self.blocks.get(block);
        let count = |slot| view.and_then(|view| view.urr(slot)).unwrap_or_default();
        (0..slots as u8).map(count).collect()
    }
}

fn minus(all: &UrrCount, rest: &UrrCount) -> UrrCount {
    UrrCount {
        ul_packets: all.ul_packets.wrapping_sub(rest.ul_packets),
        ul_octets: all.ul_octets.wrapping_sub(rest.ul_octets),
        dl_packets: all.dl_packets.wrapping_sub(rest.dl_packets),
        dl_octets: all.dl_octets.wrapping_sub(rest.dl_octets),
        events: 0,
    }
}
