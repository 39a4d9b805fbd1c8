//! Reports of traced packets that wait: they are complete when the packet has left its queue, or is lost there.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use flow::{Direction, Nanos};
use packet::{DropReason, PacketBuf};
use tm::{LossReason, QueueId, Slot};

use super::{Chosen, Queueing};
use crate::burst::batch::BURST;
use crate::io::PacketMetadata;
use crate::sessions::Sessions;
use crate::trace::report::{QueueEnd, Traced, TracedQueueing};

/// A report, and the request that it is for.
pub(crate) struct QueueReport {
    pub request: u64,
    pub traced: Box<Traced>,
}

impl QueueReport {
    fn end(&mut self, end: QueueEnd, now: Nanos) {
        let since = self.traced.time;
        if let Some(queueing) = &mut self.traced.queueing {
            (queueing.end, queueing.waited) = (end, now.since(since));
        }
    }
}

/// A packet of the burst that is reported, and what became of it.
struct Noted {
    index: usize,
    queue: QueueId,
    direction: Direction,
    /// Octets that waited in its queue before it.
    before: u32,
    /// `None`: it is held back, and no more is known.
    queued: Option<Result<Slot, DropReason>>,
}

/// The reports of a worker's queues.
#[derive(Default)]
pub(super) struct Reports {
    /// Packets of the burst that are reported: bit n is index n.
    selected: u64,
    noted: Vec<Noted>,
    /// By slot; a packet that several requests select has several.
    waiting: HashMap<u32, Vec<QueueReport>, foldhash::quality::RandomState>,
    /// In the order in which packets left their queues.
    complete: VecDeque<QueueReport>,
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
        if !self.waiting.is_empty() {
            self.complete_with(slot, end, now);
        }
    }

    #[cold]
    fn complete_with(&mut self, slot: Slot, end: QueueEnd, now: Nanos) {
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

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// These packets of the burst are reported: bit n is index n.
    pub fn select_reported(&mut self, selected: u64) {
        self.reports.selected = selected;
    }

    /// Octets that wait in a queue.
    pub(super) fn octets_of(&self, queue: QueueId, now: Nanos) -> u32 {
        self.manager.queue(queue, now).map_or(0, |view| view.octets)
    }

    /// Notes what became of a packet of the burst that is reported.
    #[cold]
    #[inline(never)]
    pub(super) fn note_reported(
        &mut self,
        index: usize,
        chosen: &Chosen,
        before: u32,
        queued: Option<Result<Slot, LossReason>>,
    ) {
        self.reports.noted.push(Noted {
            index,
            queue: chosen.queue,
            direction: chosen.charge.direction(),
            before,
            queued: queued.map(|queued| queued.map_err(drop_reason)),
        });
    }

    /// Takes the report of a packet of the burst, if that waits; else gives it back, with what is known of its queue.
    pub fn keep_report(
        &mut self,
        index: usize,
        mut report: QueueReport,
        sessions: &Sessions,
    ) -> Option<QueueReport> {
        let Some(noted) = self.reports.noted.iter().find(|noted| noted.index == index) else {
            return Some(report);
        };
        let class = report.traced.session.as_ref().and_then(|traced| {
            let plan = sessions
                .at(traced.session)?
                .image
                .egress_queues(noted.direction)?;
            let place = self
                .line(traced.session, noted.direction)?
                .place_of(noted.queue)?;
            Some(plan.queues.get(usize::from(place))?.class)
        });
        let end = match noted.queued {
            Some(Err(reason)) => QueueEnd::Lost(reason),
            Some(Ok(_)) | None => QueueEnd::Waits,
        };
        report.traced.queueing = Some(TracedQueueing {
            class,
            before: noted.before,
            waited: Duration::ZERO,
            end,
        });
        let Some(Ok(slot)) = noted.queued else {
            return Some(report);
        };
        self.reports.waiting.entry(slot.0).or_default().push(report);
        None
    }

    /// The burst is over.
    pub fn forget_reported(&mut self) {
        self.reports.selected = 0;
        self.reports.noted.clear();
    }

    /// Reports for a request are complete now, whatever their packets wait for: it is over.
    pub fn give_up_reports(&mut self, request: u64, now: Nanos) {
        let Reports {
            waiting, complete, ..
        } = &mut self.reports;
        for reports in waiting.values_mut() {
            for mut report in reports.extract_if(.., |report| report.request == request) {
                report.end(QueueEnd::Waits, now);
                complete.push_back(report);
            }
        }
        waiting.retain(|_, reports| !reports.is_empty());
    }

    /// Takes a report that is complete.
    pub fn next_report(&mut self) -> Option<QueueReport> {
        self.reports.complete.pop_front()
    }
}
