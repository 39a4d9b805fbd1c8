//! What sessions have counted, for who asks.

use flow::{ContentId, ContentUsage, Nanos, PacketTimes, SessionIndex, UrrCount};
use rules::image::{SessionImage, UsageSnapshot};
use rules::model::UrrId;

use super::{Sessions, Slot};
use crate::ApplyError;

impl Sessions {
    /// What a session's URRs have counted, for who keeps an account of that: when their packets came, and what came
    /// before QoS since that was told last, is told once.
    pub fn query(&mut self, session: SessionIndex) -> Result<UsageSnapshot, ApplyError> {
        let mut usage = self.usage(session)?;
        for (place, (urr, _)) in (0..).zip(&usage.counters) {
            usage
                .times
                .extend(self.take_times(session, place).map(|times| (*urr, times)));
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
        for place in told {
            self.blocks.forget_count(block, place);
        }
        Ok(usage)
    }

    /// When the packets came of the URR that a counter is of, since that was asked last.
    pub fn take_times(&mut self, session: SessionIndex, place: u8) -> Option<PacketTimes> {
        let slot = self.at(session)?;
        let of_events = slot.image.event_slots().find(|(event, _)| *event == place);
        let block = slot.installed.block;
        self.blocks
            .take_times(block, of_events.map_or(place, |(_, urr)| urr))
    }

    /// What a session's URRs have counted.
    pub fn usage(&self, session: SessionIndex) -> Result<UsageSnapshot, ApplyError> {
        let slot = self.at(session).ok_or(ApplyError::NotFound)?;
        let counters = self.counters(slot, |_| true);
        Ok(UsageSnapshot {
            session,
            counters,
            packets: self.packets(slot),
            tokens: self.tokens(slot),
            dropped: slot.image.dropped_counts().collect(),
            ..UsageSnapshot::default()
        })
    }

    /// What a session has counted before QoS and not told of.
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

    /// What a session has counted of contents, and was not told yet.
    pub fn contents(&self, session: SessionIndex, now: Nanos) -> Vec<ContentUsage> {
        let rest = self.at(session).and_then(|slot| self.rest(slot, now));
        self.blocks.contents(session).chain(rest).collect()
    }

    /// What a session has counted of contents that have no counter.
    pub(super) fn rest(&self, slot: &Slot, now: Nanos) -> Option<ContentUsage> {
        let count = self
            .blocks
            .get(slot.installed.block)?
            .urr(slot.image.content_rest?)?;
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
