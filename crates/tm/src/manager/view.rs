//! Views of queues and classes.

use flow::Nanos;

use super::Manager;
use crate::ids::{Class, QueueId};
use crate::packets::{Room, STAMP_SHIFT};
use crate::queue::Kind;
use crate::views::{ClassView, QueueView};

impl<R: Room> Manager<R> {
    /// All queues of a class.
    pub const fn class(&self, class: Class) -> &ClassView {
        &self.classes[class.number() as usize]
    }

    /// A queue, if there is such.
    pub fn queue(&self, queue: QueueId, now: Nanos) -> Option<QueueView> {
        let line = self.line(queue).ok()?;
        let now = self.now.max(now.0);
        let other = (self.queues.of[line].kind == Kind::CLASSIC).then_some(line + 1);
        let mut view = QueueView {
            sojourn: u64::from(self.queues.of[line].sojourn) << STAMP_SHIFT,
            low_latency: other.map_or(0, |line| self.queues.of[line].packets),
            ..QueueView::default()
        };
        for line in [line].into_iter().chain(other) {
            let (of, counters) = (&self.queues.of[line], &self.queues.counters[line]);
            view.packets += of.packets;
            view.octets += of.octets;
            view.waiting = view
                .waiting
                .max(of.first(&self.packets).map_or(0, |first| first.sojourn(now)));
            view.marks = view.marks.wrapping_add(counters.marks);
            for (sum, drops) in view.drops.iter_mut().zip(counters.drops) {
                *sum = sum.wrapping_add(drops);
            }
        }
        Some(view)
    }
}
