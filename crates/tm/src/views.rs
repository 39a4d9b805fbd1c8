//! What queues hold, and what became of their packets.

use crate::ids::LossReason;

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
    /// Nanoseconds that they had waited, all together.
    pub waited: u64,
    /// Of these, how many were marked.
    pub marks: u64,
    /// Packets refused or lost, by [`LossReason`]; those without a queue are not among them.
    pub drops: [u64; LossReason::COUNT],
}

/// What a shared node asks of its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct NodeDemand {
    /// Octets that left through it, with what packets take there beyond their own.
    pub octets: u64,
    /// Where its shaper has refused packets: the UEs that wait for it now, whatever classes they wait with.
    /// `None`: it could have sent more.
    pub waiting: Option<u32>,
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
