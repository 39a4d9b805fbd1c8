//! The packets that wait to be taken to the host, in two bounded queues.

use std::collections::VecDeque;

use flow::Bucket;
use offload::exception::Reason;

/// A packet for the host, as it was received.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exception<B> {
    /// The packet, with its ingress: the port, or the LAG, that it came in by, and how often it has recirculated.
    pub packet: B,
    /// Why it is the host's.
    pub reason: Reason,
    /// Whether it may overtake others: then it belongs to no flow.
    pub is_urgent: bool,
    /// How often it was exchanged with the host: 0 from the wire, else as it was
    /// [reinjected](crate::accelerator::Engine::reinject).
    pub hops: u8,
    /// The bucket that its session may be in, where the host wants to know.
    pub bucket: Option<Bucket>,
}

/// The queues, each in the order in which packets came.
pub(super) struct Exceptions<B> {
    urgent: VecDeque<Exception<B>>,
    usual: VecDeque<Exception<B>>,
    capacity: usize,
    /// By reason, those that were put in.
    counts: [u64; Reason::COUNT],
    /// Those that found no room.
    lost: u64,
    /// Packets that found no room, until they are dropped.
    rejected: Vec<B>,
}

impl<B> Exceptions<B> {
    /// Room for `capacity` in each queue; `held` packets may become exceptions at once.
    pub fn new(capacity: usize, held: usize) -> Self {
        Self {
            urgent: VecDeque::with_capacity(capacity),
            usual: VecDeque::with_capacity(capacity),
            capacity,
            counts: [0; Reason::COUNT],
            lost: 0,
            rejected: Vec::with_capacity(held + 1),
        }
    }

    /// Puts a packet in. What finds no room is [rejected](Self::take_rejected). Whether there was room.
    pub fn push(&mut self, packet: B, (reason, bucket): (Reason, Option<Bucket>), hops: u8) -> bool {
        let is_urgent = reason.is_urgent();
        let queue = if is_urgent {
            &mut self.urgent
        } else {
            &mut self.usual
        };
        if queue.len() >= self.capacity {
            self.lost += 1;
            self.rejected.push(packet);
            return false;
        }
        self.counts[reason.index()] += 1;
        queue.push_back(Exception {
            packet,
            reason,
            is_urgent,
            hops,
            bucket,
        });
        true
    }

    /// Takes a packet that found no room: it is to be dropped.
    pub fn take_rejected(&mut self) -> Option<B> {
        self.rejected.pop()
    }

    /// Takes the next, the urgent ones first.
    pub fn pop(&mut self) -> Option<Exception<B>> {
        self.urgent.pop_front().or_else(|| self.usual.pop_front())
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.urgent.len() + self.usual.len()
    }

    /// By reason, those that were put in.
    pub const fn counts(&self) -> &[u64; Reason::COUNT] {
        &self.counts
    }

    /// Those that found no room.
    pub const fn lost(&self) -> u64 {
        self.lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urgent_ones_come_first_and_have_room_of_their_own() {
        let mut exceptions = Exceptions::new(2, 0);
        for packet in 0..3 {
            assert_eq!(exceptions.push(packet, (Reason::NoFlow, None), 0), packet < 2);
        }
        assert!(exceptions.push(9, (Reason::NotUserPacket, None), 0));
        assert_eq!((exceptions.len(), exceptions.lost()), (3, 1));
        assert_eq!(exceptions.counts()[Reason::NoFlow.index()], 2);
        assert_eq!(exceptions.take_rejected(), Some(2));
        let order: Vec<_> = std::iter::from_fn(|| exceptions.pop())
            .map(|taken| taken.packet)
            .collect();
        assert_eq!(order, [9, 0, 1]);
    }
}
