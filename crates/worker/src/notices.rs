//! The way of events to Control: answers always have room, everything else is told as long as there is plenty.

use std::hash::BuildHasher;
use std::net::IpAddr;
use std::time::Duration;

use flow::{InstanceId, Nanos};
use rtrb::Producer;

use crate::Event;
use crate::stats::Stats;

/// Next hops that are remembered as asked for.
const ASKED: usize = 64;
/// How long a next hop is not asked for again.
const AGAIN: Duration = Duration::from_millis(100);

/// Sends events; strangers cannot fill the queue that answers need.
pub(crate) struct Notices {
    events: Producer<Event>,
    /// Places that only answers to commands may use.
    reserve: usize,
    asked: [Option<(InstanceId, IpAddr, Nanos)>; ASKED],
    hasher: foldhash::quality::RandomState,
}

impl Notices {
    /// Over this queue, of which half is kept for answers.
    pub fn new(events: Producer<Event>) -> Self {
        let reserve = events.buffer().capacity() / 2;
        Self {
            events,
            reserve,
            asked: [None; ASKED],
            hasher: Default::default(),
        }
    }

    /// Whether an answer has room.
    pub fn has_room(&self) -> bool {
        self.events.slots() > 0
    }

    /// Answers a command; [`has_room`](Self::has_room) was asked before.
    pub fn answer(&mut self, stats: &mut Stats, event: Event) {
        if self.events.push(event).is_err() {
            stats.events_lost += 1;
        }
    }

    /// Tells what a packet brought, if there is plenty of room; whether there was.
    pub fn tell(&mut self, stats: &mut Stats, event: Event) -> bool {
        let is_told = self.events.slots() > self.reserve && self.events.push(event).is_ok();
        stats.events_lost += u64::from(!is_told);
        is_told
    }

    /// Asks for a next hop, unless that was done just now.
    pub fn ask(&mut self, stats: &mut Stats, instance: InstanceId, address: IpAddr, now: Nanos) {
        let place = self.hasher.hash_one((instance, address)) as usize % ASKED;
        match self.asked[place] {
            Some((i, a, until)) if (i, a) == (instance, address) && now < until => {}
            _ => {
                self.asked[place] = Some((instance, address, now + AGAIN));
                self.tell(stats, Event::Resolve { instance, address });
            }
        }
    }
}
