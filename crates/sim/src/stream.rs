//! Packets of one direction: flow, time, size and result of each.

use crate::path::{Arrived, Path, Wrong};
use crate::payload::Stamp;
use crate::schedule::{Limits, Schedule};
use crate::tracker::Tracker;
use crate::traffic::{Order, Random, Sizes, Traffic};
use crate::{Direction, Nanos};
use std::ops::Range;

/// How many packets ahead cache lines are asked for.
const AHEAD: usize = 16;

/// One direction of a share of the flows.
#[derive(Debug)]
pub(crate) struct Stream {
    direction: Direction,
    pub(crate) tracker: Tracker,
    pub(crate) schedule: Schedule,
    limits: Limits,
    order: Order,
    sizes: Sizes,
    random: Random,
    /// Times that there was no room for a packet that was due.
    pub(crate) full: u64,
}

impl Stream {
    /// Sends the flows of `share`, tracks all of `flows`; nothing is due before [`Stream::start`].
    pub(crate) fn new(direction: Direction, flows: u32, share: Range<u32>, traffic: &Traffic) -> Stream {
        let sizes = match direction {
            Direction::Uplink => &traffic.uplink_sizes,
            Direction::Downlink => &traffic.downlink_sizes,
        };
        Stream {
            direction,
            tracker: Tracker::new(flows),
            schedule: Schedule::new(0, Nanos(0), traffic.limits),
            limits: traffic.limits,
            order: Order::new(share),
            sizes: sizes.clone(),
            random: Random::new(traffic.seed ^ direction as u64),
            full: 0,
        }
    }

    /// From now on `rate` packets per second are due; none, where there is no flow to send them.
    pub(crate) fn start(&mut self, rate: u64, now: Nanos) {
        self.schedule = Schedule::new(self.possible(rate), now, self.limits);
    }

    /// Continues at another rate, without a jump.
    pub(crate) fn change_rate(&mut self, rate: u64, now: Nanos) {
        self.schedule.change_rate(self.possible(rate), now);
    }

    const fn possible(&self, rate: u64) -> u64 {
        if self.order.is_empty() { 0 } else { rate }
    }

    /// Calls `send` with path, measurement header and inner size of each packet that is due, until it says that there
    /// is no room. The flow whose turn it was then loses its turn, but no sequence number.
    pub(crate) fn send_due(
        &mut self,
        now: Nanos,
        paths: &[Path],
        mut send: impl FnMut(&Path, &Stamp, usize) -> bool,
    ) {
        let due = self.schedule.take(now);
        let mut sent = 0;
        while sent < due {
            let mut flows = [0; AHEAD];
            let ahead = AHEAD.min((due - sent) as usize);
            for flow in self.pick(paths, &mut flows[..ahead]) {
                if !self.send_one(now, *flow, paths, &mut send) {
                    self.schedule.give_back(due - sent);
                    self.full += 1;
                    return;
                }
                sent += 1;
            }
        }
    }

    /// Whose turn it is, with their cache lines asked for.
    #[inline]
    fn pick<'f>(&mut self, paths: &[Path], flows: &'f mut [u32]) -> &'f [u32] {
        for flow in flows.iter_mut() {
            *flow = self.order.next(&mut self.random).unwrap_or(0);
            if let Some(path) = paths.get(*flow as usize) {
                path.prefetch(self.direction);
                self.tracker.prefetch(*flow);
            }
        }
        flows
    }

    #[inline]
    fn send_one(
        &mut self,
        now: Nanos,
        flow: u32,
        paths: &[Path],
        send: &mut impl FnMut(&Path, &Stamp, usize) -> bool,
    ) -> bool {
        let Some(path) = paths.get(flow as usize) else {
            return false;
        };
        let inner = self.sizes.pick(&mut self.random).max(path.shortest());
        let sequence = self.tracker.next_sequence(flow);
        let sent = send(
            path,
            &Stamp {
                direction: self.direction,
                flow,
                sequence,
                sent: now,
            },
            inner,
        );
        if sent {
            self.tracker.sent(flow, inner as u32);
        }
        sent
    }

    /// Counts a packet that came out of this direction's end.
    #[inline]
    pub(crate) fn count(&mut self, now: Nanos, seen: Result<Arrived, Wrong>) {
        match seen {
            Ok(Arrived { stamp, packet, .. }) => self.count_whole(now, &stamp, packet.len() as u32),
            Err(Wrong::Corrupted(flow)) => self.tracker.corrupted(flow),
            Err(Wrong::Misdirected(flow)) => self.tracker.misdirected(flow),
            Err(Wrong::Foreign) => self.tracker.foreign(),
        }
    }

    /// Counts a whole packet of `octets` in its place.
    #[inline]
    pub(crate) fn count_whole(&mut self, now: Nanos, stamp: &Stamp, octets: u32) {
        let latency = now.0.saturating_sub(stamp.sent.0);
        self.tracker.received(stamp.flow, stamp.sequence, octets, latency);
    }
}
