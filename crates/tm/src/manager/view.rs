//! What queues hold, and what became of their packets.

use flow::Nanos;

use super::Manager;
use crate::ids::{Class, LossReason, QueueId};
use crate::packets::STAMP_SHIFT;
use crate::queue::Kind;

/// All queues of a class. A queue with a guaranteed rate counts for its own class, whatever it sends in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ClassView {
    /// Packets held.
    pub packets: u64,
    /// Octets held.
    pub octets: u64,
    /// Packets that left.
    pub departed: u64,
    /// Their octets.
    pub departed_octets: u64,
    /// Of these, how many were marked.
    pub marks: u64,
    /// Packets refused or lost, by [`LossReason`]; those without a queue are not among them.
    pub drops: [u64; LossReason::COUNT],
}

/// A queue; of a dual queue both together, but for `low_latency`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueView {
    /// Packets held.
    pub packets: u32,
    /// Octets held.
    pub octets: u32,
    /// Of the packets held, those of the low latency queue of a dual queue.
    pub low_latency: u32,
    /// Nanoseconds that the oldest packet has waited so far.
    pub waiting: u64,
    /// Nanoseconds that the packet which left last had waited.
    pub sojourn: u64,
    /// Packets that were marked. Starts anew at 2^32, as do drops.
    pub marks: u32,
    /// Packets refused or lost, by [`LossReason`].
    pub drops: [u32; LossReason::COUNT],
}

impl Manager {
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
