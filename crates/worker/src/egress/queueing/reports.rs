//! Reports of traced packets that wait: they are complete when the packet has left its queue, or is lost there.

use std::collections::{HashMap, VecDeque};

use flow::{Direction, Nanos};
use packet::DropReason;
use tm::{LossReason, QueueId, Slot};

use crate::burst::batch::BURST;
use crate::trace::report::{QueueEnd, Traced};

/// A report, and the request that it is for.
pub(crate) struct QueueReport {
    pub request: u64,
    pub traced: Box<Traced>,
}

impl QueueReport {
    pub fn end(&mut self, end: QueueEnd, now: Nanos) {
        let since = self.traced.time;
        if let Some(queueing) = &mut self.traced.queueing {
            (queueing.end, queueing.waited) = (end, now.since(since));
        }
    }
}

/// A packet of the burst that is reported, and what became of it.
pub(super) struct Noted {
    pub index: usize,
    pub queue: QueueId,
    pub direction: Direction,
    /// Octets that waited in its queue before it.
    pub before: u32,
    /// `None`: it is held back, and no more is known.
    pub queued: Option<Result<Slot, DropReason>>,
}

/// The reports of a worker's queues.
#[derive(Default)]
pub(super) struct Reports {
    /// Packets of the burst that are reported: bit n is index n.
    pub selected: u64,
    pub noted: Vec<Noted>,
    /// By slot; a packet that several requests select has several.
    pub waiting: HashMap<u32, Vec<QueueReport>, foldhash::quality::RandomState>,
    /// In the order in which packets left their queues.
    pub complete: VecDeque<QueueReport>,
}

impl Reports {
    /// Whether a packet of the burst is reported.
    #[inline(always)]
    pub fn selects(&self, index: usize) -> bool {
        self.selected >> (index % BURST) & 1 == 1
    }

    /// A packet leaves its slot: its reports, if it has any, end so.
    #[inline(always)]
    pub fn end(&mut self, slot: Slot, end: QueueEnd, now: Nanos) {
        if !self.waiting.is_empty() || !self.noted.is_empty() {
            self.complete_with(slot, end, now);
        }
    }

    /// Notes what became of a packet of the burst that is reported.
    #[cold]
    #[inline(never)]
    pub fn note(
        &mut self,
        index: usize,
        (queue, direction): (QueueId, Direction),
        before: u32,
        queued: Option<Result<Slot, LossReason>>,
    ) {
        self.noted.push(Noted {
            index,
            queue,
            direction,
            before,
            queued: queued.map(|queued| queued.map_err(drop_reason)),
        });
    }

    #[cold]
    fn complete_with(&mut self, slot: Slot, end: QueueEnd, now: Nanos) {
        // One of this burst that had the slot has been pushed out by a later one, which may have it now.
        if let QueueEnd::Lost(reason) = end {
            let mut noted = self.noted.iter_mut();
            if let Some(lost) = noted.find(|noted| noted.queued == Some(Ok(slot))) {
                lost.queued = Some(Err(reason));
                return;
            }
        }
        for mut report in self.waiting.remove(&slot.0).into_iter().flatten() {
            report.end(end, now);
            self.complete.push_back(report);
        }
    }
}

/// Why a packet is lost in a queue.
pub(super) const fn drop_reason(reason: LossReason) -> DropReason {
    match reason {
        LossReason::Aqm => DropReason::EgressDelay,
        _ => DropReason::EgressQueueFull,
    }
}

#[cfg(test)]
mod tests {
    use tm::UeId;

    use super::*;

    #[test]
    fn a_packet_that_is_pushed_out_in_its_burst_is_lost_and_its_slot_anothers() {
        let mut reports = Reports::default();
        let place = (
            QueueId {
                ue: UeId(1),
                place: 0,
            },
            Direction::Downlink,
        );
        reports.note(3, place, 0, Some(Ok(Slot(5))));
        reports.end(Slot(5), QueueEnd::Lost(DropReason::EgressQueueFull), Nanos(1));
        reports.note(4, place, 0, Some(Ok(Slot(5))));
        let queued: Vec<_> = reports.noted.iter().map(|noted| noted.queued).collect();
        assert_eq!(
            queued,
            [Some(Err(DropReason::EgressQueueFull)), Some(Ok(Slot(5)))]
        );
    }
}
