//! Drains: when has everything left the inbox that lay in it once?
//!
//! The inbox is first in, first out, so it is a matter of counting, and comes to an end however much is put in
//! meanwhile.

use std::collections::VecDeque;

use flow::OpId;

use crate::Event;
use crate::control_channel::event_queue::EventQueue;
use crate::stats::Stats;

/// Drains that Control waits for; it has one or two at a time.
const USUAL: usize = 8;

/// Drains under way, in order.
pub(crate) struct Drains {
    /// The operation, and the count of packets from the inbox at which it is done.
    waiting: VecDeque<(OpId, u64)>,
}

impl Drains {
    /// None.
    pub fn new() -> Self {
        Self {
            waiting: VecDeque::with_capacity(USUAL),
        }
    }

    /// One that is done when `served` packets have been taken from the inbox since the worker's start.
    pub fn begin(&mut self, op: OpId, served: u64) {
        self.waiting.push_back((op, served));
    }

    /// Answers what is done, as far as there is room for answers.
    pub fn answer(&mut self, events: &mut EventQueue, stats: &mut Stats) {
        while let Some(&(op, served)) = self.waiting.front()
            && served <= stats.inbox
            && events.has_room_for_response()
        {
            self.waiting.pop_front();
            events.push_response(stats, Event::Fenced { op, outcome: Ok(()) });
        }
    }
}
