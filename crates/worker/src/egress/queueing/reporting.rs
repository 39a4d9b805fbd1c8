//! What queues report of traced packets that wait in them.

use std::time::Duration;

use flow::Nanos;
use packet::PacketBuf;

use super::Queueing;
use super::reports::{QueueReport, Reports};
use crate::io::PacketMetadata;
use crate::sessions::Sessions;
use crate::trace::report::{QueueEnd, TracedQueueing};

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// These packets of the burst are reported: bit n is index n.
    pub fn select_reported(&mut self, selected: u64) {
        self.reports.selected = selected;
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
                .queues_of(traced.session, noted.direction)?
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

    /// Forgets the reports for all other requests.
    pub fn keep_reports_for(&mut self, is_there: impl Fn(u64) -> bool) {
        let Reports {
            waiting, complete, ..
        } = &mut self.reports;
        for reports in waiting.values_mut() {
            reports.retain(|report| is_there(report.request));
        }
        waiting.retain(|_, reports| !reports.is_empty());
        complete.retain(|report| is_there(report.request));
    }

    /// Takes a report that is complete.
    pub fn next_report(&mut self) -> Option<QueueReport> {
        self.reports.complete.pop_front()
    }
}
