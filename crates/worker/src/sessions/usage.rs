//! Usage: what sessions have counted.

use flow::{
    ContentId, ContentUsage, Direction, MarkedBlock, Nanos, PacketTimes, Reached, SessionBlock, SessionIndex,
    UrrCount,
};
use rules::image::{PacketsLeft, SessionImage, TokensLeft, UsageSnapshot};
use rules::model::UrrId;

use crate::ApplyError;
use crate::sessions::table::{Sessions, Slot};

/// A counter that has reached a bound.
pub(crate) struct ReachedCounter {
    /// Its slot in the session block.
    pub slot: u8,
    /// The URR that it belongs to.
    pub urr: UrrId,
    /// The count of that URR.
    pub count: UrrCount,
    pub reached: Reached,
}

impl Sessions {
    /// The packets of the counter by which inactivity of a session is detected.
    pub fn activity(&self, session: SessionIndex) -> u64 {
        let count = || {
            let slot = self.at(session)?;
            let block = self.blocks.get(slot.installed.block)?;
            block.urr(slot.image.inactivity?.counter)
        };
        count().map_or(0, |count| count.ul_packets.wrapping_add(count.dl_packets))
    }

    /// The first counter of a session, from slot `from` on, that has reached a bound.
    pub fn reached(&self, session: SessionIndex, from: u8) -> Option<ReachedCounter> {
        let slot = self.at(session)?;
        let block = self.blocks.get(slot.installed.block)?;
        let image = &slot.image;
        let urrs = (0..).zip(&image.urr_ids);
        let urrs = urrs.map(|(index, _)| (index, index, block.reached(index)));
        let events = image.event_slots();
        let events = events.map(|event| (event.slot, event.urr, block.reached(event.slot).of_events()));
        let mut reached = urrs.chain(events).skip(from.into());
        let (slot, urr, reached) = reached.find(|(.., reached)| !reached.is_nothing())?;
        Some(ReachedCounter {
            slot,
            urr: *image.urr_ids.get(usize::from(urr))?,
            count: count_of(image, &block, urr),
            reached,
        })
    }

    /// The counts of the URR slots that `wanted` names.
    pub(super) fn counters(&self, slot: &Slot, wanted: impl Fn(u8) -> bool) -> Vec<(UrrId, UrrCount)> {
        let Some(block) = self.blocks.get(slot.installed.block) else {
            return Vec::new();
        };
        let ids = slot
            .image
            .urr_ids
            .iter()
            .enumerate()
            .filter(|(index, _)| wanted(*index as u8));
        ids.map(|(index, id)| (*id, count_of(&slot.image, &block, index as u8)))
            .collect()
    }

    /// The URRs of a session.
    pub fn urrs(&self, session: SessionIndex) -> usize {
        self.at(session).map_or(0, |slot| slot.image.urr_ids.len())
    }

    /// What a session's URRs have counted.
    pub fn counts(&self, session: SessionIndex) -> impl Iterator<Item = (UrrId, UrrCount)> + '_ {
        let slot = self.at(session);
        let found = slot.and_then(|slot| Some((slot, self.blocks.get(slot.installed.block)?)));
        found.into_iter().flat_map(|(slot, block)| {
            let ids = (0..).zip(&slot.image.urr_ids);
            ids.map(move |(index, id)| (*id, count_of(&slot.image, &block, index)))
        })
    }

    /// What a look at a session's counters finds.
    pub fn marked(&self, session: SessionIndex) -> Option<MarkedBlock> {
        self.blocks.marked(self.at(session)?.installed.block)
    }

    /// When the packets came of the URR slots that `wanted` names.
    pub(super) fn times(&self, slot: &Slot, wanted: impl Fn(u8) -> bool) -> Vec<(UrrId, PacketTimes)> {
        let Some(block) = self.blocks.get(slot.installed.block) else {
            return Vec::new();
        };
        let ids = (0..).zip(&slot.image.urr_ids).filter(|(index, _)| wanted(*index));
        ids.filter_map(|(index, id)| Some((*id, block.times(index)?)))
            .collect()
    }

    /// The QERs of a session that have packet rates.
    pub fn packet_rates(&self, session: SessionIndex) -> usize {
        self.at(session)
            .map_or(0, |slot| slot.image.packet_slots().count())
    }

    /// What is left of a session's packet rates.
    pub fn packets_left(&self, session: SessionIndex) -> impl Iterator<Item = PacketsLeft> + '_ {
        self.at(session).into_iter().flat_map(|slot| self.packets(slot))
    }

    /// The same.
    pub(super) fn packets(&self, slot: &Slot) -> impl Iterator<Item = PacketsLeft> {
        let block = self.blocks.get(slot.installed.block);
        let slots = block.into_iter().flat_map(|block| {
            let slots = slot.image.packet_slots();
            slots.map(move |(index, qer)| (block, index, qer))
        });
        slots.map(|(block, index, qer)| PacketsLeft {
            qer,
            states: Direction::BOTH.map(|direction| block.packets(index, direction).unwrap_or_default()),
        })
    }

    /// What the meters of a session's bit rates hold.
    pub(super) fn tokens(&self, slot: &Slot) -> Vec<TokensLeft> {
        let Some(block) = self.blocks.get(slot.installed.block) else {
            return Vec::new();
        };
        let left = |index| Direction::BOTH.map(|direction| block.tokens(index, direction));
        let qers = (0..).zip(slot.image.rules.qers());
        let all = qers.map(|(slot, qer)| TokensLeft {
            qer: qer.id,
            tokens: left(slot),
        });
        all.filter(|left| left.tokens != [None; 2]).collect()
    }

    /// What a session's URRs have counted, for Control's accounts. The times of their packets, and what was
    /// counted before QoS since the last report, are reported once.
    pub fn query(&mut self, session: SessionIndex) -> Result<UsageSnapshot, ApplyError> {
        let mut usage = self.usage(session)?;
        for (index, (urr, _)) in (0..).zip(&usage.counters) {
            usage
                .times
                .extend(self.take_times(session, index).map(|times| (*urr, times)));
        }
        let slot = self.at(session).ok_or(ApplyError::NotFound)?;
        usage.before_qos = self.before_qos(slot);
        let block = slot.installed.block;
        let told: Vec<u8> = slot
            .image
            .counter_slots()
            .before_qos()
            .map(|one| one.slot)
            .collect();
        for index in told {
            self.blocks.forget_count(block, index);
        }
        Ok(usage)
    }

    /// When the packets came of the URR that a counter is of, since that was asked last.
    pub fn take_times(&mut self, session: SessionIndex, index: u8) -> Option<PacketTimes> {
        let slot = self.at(session)?;
        let of_events = slot.image.event_slots().find(|event| event.slot == index);
        let block = slot.installed.block;
        self.blocks
            .take_times(block, of_events.map_or(index, |event| event.urr))
    }

    /// What a session's URRs have counted.
    pub fn usage(&self, session: SessionIndex) -> Result<UsageSnapshot, ApplyError> {
        let slot = self.at(session).ok_or(ApplyError::NotFound)?;
        let counters = self.counters(slot, |_| true);
        Ok(UsageSnapshot {
            session,
            counters,
            packets: self.packets(slot).collect(),
            tokens: self.tokens(slot),
            dropped: slot.image.dropped_counts().collect(),
            ..UsageSnapshot::default()
        })
    }

    /// What a session has counted before QoS and not reported.
    pub(super) fn before_qos(&self, slot: &Slot) -> Vec<(UrrId, UrrCount)> {
        let Some(block) = self.blocks.get(slot.installed.block) else {
            return Vec::new();
        };
        let slots = slot.image.counter_slots().before_qos();
        let counts = slots.map(|one| (one.urr, block.urr(one.slot).unwrap_or_default()));
        counts
            .filter(|(_, count)| *count != UrrCount::default())
            .collect()
    }

    /// What a session has counted of contents, and was not reported yet.
    pub fn contents(&self, session: SessionIndex, now: Nanos) -> Vec<ContentUsage> {
        let rest = self.at(session).and_then(|slot| self.rest(slot, now));
        self.blocks.contents(session).chain(rest).collect()
    }

    /// What a session has counted of contents that have no counter.
    pub(super) fn rest(&self, slot: &Slot, now: Nanos) -> Option<ContentUsage> {
        let count = self
            .blocks
            .get(slot.installed.block)?
            .urr(slot.classifier.content_rest()?)?;
        let usage = ContentUsage {
            content: ContentId::NONE,
            count,
            first: now,
            last: now,
        };
        (!usage.is_nothing()).then_some(usage)
    }

    /// Takes what a session has counted of contents that it does not count any more when `image` takes the place of
    /// what it runs: all, if that is another session.
    pub(super) fn take_contents(
        &mut self,
        image: &SessionImage,
        is_same_session: bool,
        revokes: bool,
    ) -> Vec<ContentUsage> {
        let (session, slots) = (image.session, image.counter_slots());
        let contents = self
            .blocks
            .take_contents(session, |content| !is_same_session || !slots.bills(content));
        if revokes {
            self.blocks
                .retain_contents(session, |content| slots.bills(content));
        }
        contents
    }
}

/// What the URR in a slot has counted, with the events.
fn count_of(image: &SessionImage, block: &SessionBlock<'_>, urr: u8) -> UrrCount {
    let mut events = image.event_slots();
    let events = events.find(|event| event.urr == urr);
    let events = events.and_then(|event| block.urr(event.slot)).unwrap_or_default();
    UrrCount {
        events: events.ul_octets.wrapping_add(events.dl_octets),
        ..block.urr(urr).unwrap_or_default()
    }
}
