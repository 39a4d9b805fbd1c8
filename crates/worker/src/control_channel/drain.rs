//! Drains: each ends when every packet that was in the inbox at its begin was taken from it.
//!
//! The inbox is first in, first out. A drain counts packets, so it ends however many are added meanwhile.

use std::collections::VecDeque;

use flow::OpId;

use crate::Event;
use crate::control_channel::event_queue::EventQueue;
use crate::stats::Stats;

/// Capacity from the start. Control has one or two drains at a time.
const USUAL: usize = 8;

/// A drain that is not done.
struct Drain {
    op: OpId,
    /// Number of packets taken from the inbox, since the start of the worker, at which it is done.
    served: u64,
}

/// Drains under way, in order.
pub(crate) struct Drains {
    waiting: VecDeque<Drain>,
}

impl Drains {
    /// No drains.
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(USUAL),
        }
    }

    /// Begins a drain that is done when `served` packets have been taken from the inbox since the worker's start.
    pub fn begin(&mut self, op: OpId, served: u64) {
        self.waiting.push_back(Drain { op, served });
    }

    /// Pushes the response of each drain that is done, as far as the event queue has room.
    pub fn answer(&mut self, events: &mut EventQueue, stats: &mut Stats) {
        while let Some(&Drain { op, served }) = self.waiting.front()
            && served <= stats.inbox
            && events.has_room_for_response()
        {
            self.waiting.pop_front();
            events.push_response(stats, Event::Fenced { op, outcome: Ok(()) });
        }
    }
}
