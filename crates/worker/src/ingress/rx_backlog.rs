//! The receive backlog: what is done when packets arrive faster than they can be processed.
//!
//! A worker that finds a port's burst full looks ahead: it takes what else the port has received, so that the port's
//! own queue stays short. Urgent packets are processed next. What becomes of the others depends on how long it lasts:
//!
//! - A burst of packets, or an absence of the worker's thread, is bridged: they wait in order, each port's apart, and
//!   only those that find no room are dropped.
//! - Where more than one in [`FEW`] of a port's packets was dropped within [`WINDOW`], and polls seldom found the port
//!   empty, the overload *lasts*. A queue would delay packets and bring none of them through, so none is kept: the
//!   worker takes a burst from the port, processes it, and drops what the port has received behind it. By the next
//!   poll there is another burst. So a packet that is forwarded costs what it costs without a backlog.
//!
//! In a flood of new flows most packets [are refused](crate::ingress::new_flow_filter). The others are kept until they
//! make bursts, and these are processed at once, while their headers are in the caches. Where the port's queue stays
//! long nevertheless, [some bursts](Share) are dropped without that look, until it is short: urgent packets are in it
//! too.
//!
//! Urgent is what looks so, any sender's. So that a flood of it does not go first for long, urgent packets of a port
//! whose bursts are full are [bounded](Waiting::urgent_credit): what is more is treated as any other packet, or stays
//! in a queue of its own. Where a burst is not full the worker keeps up, and there is no bound.
//!
//! A drop costs a few nanoseconds: of a packet that is dropped only the first cache lines are read, and buffers are
//! freed in bursts.

use std::collections::VecDeque;

use flow::{Nanos, PortId};
use packet::{DropReason, PacketBuf};

use crate::burst::batch::{BURST, Batch};
use crate::egress::lags::Lags;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::new_flow_filter::Filtered;
use crate::ingress::priority::{is_ordinary, is_urgent};
use crate::io::{Io, PacketMetadata};
use crate::stats::Stats;

/// Bursts that are taken ahead of the one that is processed, where packets are kept.
const AHEAD: usize = 4;
/// The same where they are dropped.
const AHEAD_IN_OVERLOAD: usize = 16;
/// Packets that are left in a port's queue whose length is known, so that the worker never waits for some.
const STANDING: u16 = 256;
/// Packets that are kept in a flood of new flows, at most: what is left of a burst, and two looks ahead.
const KEPT_IN_FLOOD: usize = 2 * AHEAD * BURST + BURST;
/// How long drops are counted before it is decided whether an overload lasts.
const WINDOW: Nanos = Nanos(10_000_000);
/// An overload lasts where one packet in as many, or more, was dropped.
const FEW: u64 = 64;
/// Urgent packets that may come at once before they are bounded.
const URGENT_BURST: i32 = 512;
/// Beyond it, for each burst of a port that has more than a burst: one packet in nine. Where the operator has named
/// DSCPs, user packets are urgent as well: one in two.
const URGENT_BESIDE: [i32; 2] = [BURST as i32 / 8, BURST as i32];

/// The packets of one port that wait for a later burst, and what became of the others.
struct Waiting<B> {
    packets: VecDeque<B>,
    window: Window,
    /// The overload lasts: no packet is kept.
    is_lasting: bool,
    share: Share,
    /// How many urgent packets may go first; less than 0 where a burst of them was more.
    urgent_credit: i32,
}

/// Of how many bursts the new flows are looked for, in a flood of them; of the others all packets are dropped that are
/// not urgent, at the cost of a drop. All bursts, as long as looks ahead leave the port's queue empty often enough:
/// beyond [`PATIENCE`](Self::PATIENCE) one in [`ALL`](Self::ALL) fewer for each look that does not, and one more for
/// each that does. So an absence of the worker's thread is bridged by the port's queue, and a flood that the worker
/// cannot look at in time does not fill it.
#[derive(Clone, Copy)]
struct Share {
    /// Bursts of [`ALL`](Self::ALL); what is more is patience.
    bursts: u32,
    credit: u32,
}

impl Share {
    const ALL: u32 = 256;
    /// Looks that may leave packets in the port's queue, more than those that do not: some milliseconds of them.
    const PATIENCE: u32 = 128;
    /// Some bursts are always looked at.
    const LEAST: u32 = Self::ALL / 8;

    fn note_look(&mut self, is_emptied: bool) {
        self.bursts = match is_emptied {
            true => (self.bursts + 1).min(Self::ALL + Self::PATIENCE),
            false => (self.bursts - 1).max(Self::LEAST),
        };
    }

    /// Whether the next burst is looked at.
    fn takes_next(&mut self) -> bool {
        self.credit += self.bursts.min(Self::ALL);
        let takes = self.credit >= Self::ALL;
        self.credit -= if takes { Self::ALL } else { 0 };
        takes
    }
}

/// A look ahead.
#[derive(Clone, Copy)]
pub(crate) struct Look {
    /// Where.
    pub port: PortId,
    /// When.
    pub now: Nanos,
    /// New flows are refused: none of what has been received may be left where it is.
    pub is_flooded: bool,
}

/// What a look ahead has found.
#[derive(Clone, Copy, Default)]
pub(crate) struct Ahead {
    /// Packets taken.
    pub packets: usize,
    /// Whether the port has no more, or few.
    pub is_emptied: bool,
}

/// A span of time in which drops are counted.
#[derive(Clone, Copy, Default)]
struct Window {
    since: Nanos,
    /// What the port had received when it began.
    received: u64,
    dropped: u64,
    /// Looks ahead.
    looks: u64,
    /// Polls that found nothing to receive.
    empty: u64,
}

/// What is to become of the usual packets of a burst that was taken.
#[derive(Clone, Copy)]
enum Usual {
    /// They wait, where there is room.
    Wait,
    /// The same, but for those that are over the slow path's budget.
    WaitUnless(Filtered),
    /// They are dropped.
    Drop,
}

impl<B> Waiting<B> {
    /// Notes the time of a look ahead, before which the port has `received` packets.
    fn begin(&mut self, now: Nanos, received: u64) {
        let Window {
            since,
            received: before,
            dropped,
            looks,
            empty,
        } = self.window;
        self.window.looks += 1;
        let age = now.0.saturating_sub(since.0);
        if age < WINDOW.0 {
            return;
        }
        // Where no packet had to wait for long, no overload lasts; nor where the worker had time: what it dropped was
        // of bursts, which can wait.
        let many = dropped * FEW > received.saturating_sub(before);
        self.is_lasting = many && age < 2 * WINDOW.0 && empty <= looks;
        self.window = Window {
            since: now,
            received,
            ..Window::default()
        };
    }
}

/// Packets that were received and wait for a later burst.
pub(crate) struct RxBacklog<B> {
    /// By port.
    waiting: Vec<Waiting<B>>,
    urgent: Batch<B>,
    taken: Batch<B>,
    /// Room for packets of each port; 0: there is no backlog.
    most: usize,
    /// See [`URGENT_BESIDE`].
    urgent_beside: i32,
}

impl<B: PacketBuf + PacketMetadata> RxBacklog<B> {
    /// For `ports` ports, with room for `most` packets of each. `has_dscps`: DSCPs are urgent.
    pub fn new(ports: usize, most: usize, has_dscps: bool) -> Self {
        let waiting = |_| Waiting {
            packets: VecDeque::with_capacity(most),
            window: Window::default(),
            is_lasting: false,
            share: Share {
                bursts: Share::ALL + Share::PATIENCE,
                credit: 0,
            },
            urgent_credit: URGENT_BURST,
        };
        Self {
            waiting: (0..ports).map(waiting).collect(),
            urgent: Batch::new(),
            taken: Batch::new(),
            most,
            urgent_beside: URGENT_BESIDE[usize::from(has_dscps)],
        }
    }

    /// From now on `most` packets of each port may wait, no more than it was made for.
    pub fn limit(&mut self, most: usize) {
        self.most = most;
    }

    /// Whether there may be a backlog.
    #[inline]
    pub fn is_on(&self) -> bool {
        self.most > 0
    }

    /// Whether packets of a port wait.
    #[inline]
    pub fn has_waiting(&self, port: PortId) -> bool {
        self.waiting
            .get(port.index())
            .is_some_and(|waiting| !waiting.packets.is_empty())
    }

    /// How many packets of this port wait.
    pub fn waiting(&self, port: PortId) -> usize {
        self.waiting
            .get(port.index())
            .map_or(0, |waiting| waiting.packets.len())
    }

    /// Whether urgent packets of this port may go first.
    #[inline]
    pub fn admits_urgent(&self, port: PortId) -> bool {
        self.waiting
            .get(port.index())
            .is_none_or(|waiting| waiting.urgent_credit > 0)
    }

    /// Notes urgent packets of this port that went first.
    #[inline]
    pub fn note_urgent(&mut self, port: PortId, packets: usize) {
        if let Some(waiting) = self.waiting.get_mut(port.index()) {
            waiting.urgent_credit -= packets as i32;
        }
    }

    /// Notes a burst of this port's other packets, and whether it was full.
    #[inline]
    pub fn note_burst(&mut self, port: PortId, is_full: bool) {
        if let Some(waiting) = self.waiting.get_mut(port.index()) {
            waiting.urgent_credit = match is_full {
                true => (waiting.urgent_credit + self.urgent_beside).min(URGENT_BURST),
                false => URGENT_BURST,
            };
        }
    }

    /// Notes that a poll has found nothing to receive by this port, and that nothing waits.
    #[inline]
    pub fn note_empty(&mut self, port: PortId) {
        if let Some(waiting) = self.waiting.get_mut(port.index()) {
            waiting.window.empty += 1;
        }
    }

    /// Whether packets are to go first.
    pub fn has_urgent(&self) -> bool {
        !self.urgent.is_empty()
    }

    /// Puts the packets that go first into `burst`, which is empty.
    pub fn take_urgent(&mut self, burst: &mut Batch<B>) {
        std::mem::swap(&mut self.urgent, burst);
    }

    /// Puts packets of a port whose turn it is into `burst`, as many as it has room for.
    pub fn take_waiting(&mut self, stats: &mut Stats, port: PortId, burst: &mut Batch<B>) {
        if let Some(waiting) = self.waiting.get_mut(port.index()) {
            let some = burst.room().min(waiting.packets.len());
            let packets = waiting.packets.drain(..some);
            packets.for_each(|packet| drop(burst.push(packet)));
            stats.backlog -= some as u64;
        }
    }

    /// Whether another burst of what waits is to be processed in a flood of new flows, after a look ahead: a full one,
    /// or the last where the port `is_emptied`.
    pub fn has_another(&self, port: PortId, is_emptied: bool) -> bool {
        let waiting = self.waiting(port);
        waiting >= BURST || is_emptied && waiting > 0
    }

    /// Takes what a port has received behind the burst that is processed, and sorts it, until the port has no more, or
    /// as many urgent packets as a burst has. `refuse` returns which packets of a burst are over the slow path's
    /// budget, bit n of packet n: they are dropped unless they are urgent; `None`: there is no flood of new flows.
    pub fn look_ahead<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        (interfaces, lags): (&L3Interfaces, &Lags),
        Look {
            port,
            now,
            is_flooded,
        }: Look,
        mut refuse: impl FnMut(&[B]) -> Option<Filtered>,
    ) -> Ahead {
        let Some(waiting) = self.waiting.get_mut(port.index()) else {
            return Ahead::default();
        };
        let received = stats.ports.get(port.index()).map_or(0, |port| port.rx.packets);
        waiting.begin(now, received);
        let is_lasting = waiting.is_lasting;
        let bursts = if is_lasting && !is_flooded {
            AHEAD_IN_OVERLOAD
        } else {
            AHEAD
        };
        let mut ahead = Ahead::default();
        for _ in 0..bursts {
            let leaves_some = !is_flooded && !self.has_waiting(port);
            if leaves_some && io.has_more_than(port, STANDING) == Some(false) {
                ahead.is_emptied = true;
                break;
            }
            io.rx(port, &mut self.taken);
            let octets: usize = self.taken.iter().map(PacketBuf::len).sum();
            stats.received(port, self.taken.len() as u64, octets as u64);
            ahead.packets += self.taken.len();
            ahead.is_emptied = !self.taken.is_full();
            if !lags.is_empty() {
                lags.receive(port, &mut self.taken);
            }
            let share = self
                .waiting
                .get_mut(port.index())
                .map(|waiting| &mut waiting.share);
            let is_dropped = match is_flooded {
                true => share.is_some_and(|share| !share.takes_next()),
                false => is_lasting,
            };
            let usual = match is_dropped {
                true => Usual::Drop,
                false => refuse(&self.taken).map_or(Usual::Wait, Usual::WaitUnless),
            };
            self.sort(stats, interfaces, port, usual);
            if !self.taken.is_empty() {
                io.free(&mut self.taken);
            }
            if ahead.is_emptied || self.urgent.is_full() {
                break;
            }
        }
        if let Some(waiting) = self.waiting.get_mut(port.index()).filter(|_| is_flooded) {
            waiting.share.note_look(ahead.is_emptied);
        }
        ahead
    }

    /// Sorts the burst that was taken: urgent packets go first, others wait where there is room. What is left of the
    /// burst afterwards is to be freed.
    fn sort(&mut self, stats: &mut Stats, interfaces: &L3Interfaces, port: PortId, usual: Usual) {
        let Some(waiting) = self.waiting.get_mut(port.index()) else {
            return;
        };
        let (most, filtered) = match usual {
            Usual::Wait => (self.most, Filtered::default()),
            Usual::WaitUnless(filtered) => (self.most.min(KEPT_IN_FLOOD), filtered),
            Usual::Drop => (0, Filtered::default()),
        };
        let refused = filtered.refused;
        let most = most.saturating_sub(waiting.packets.len());
        let all = self.taken.places();
        // Of what is known to be ordinary only a DSCP can be urgent.
        let ordinary = match interfaces.urgent_dscps {
            0 => filtered.ordinary,
            _ => 0,
        };
        let mut unread = all & !(ordinary & refused);
        let (mut urgent, mut kept) = (0_u64, 0_u64);
        // Both have as much room as a burst has packets, but for urgent packets of a burst before.
        let room = self.urgent.room().min(waiting.urgent_credit.max(0) as usize);
        while unread != 0 {
            let place = unread.trailing_zeros() as usize;
            unread &= unread - 1;
            let Some(buf) = self.taken.get(place) else { break };
            let is_usual = ordinary >> place & 1 == 1
                || is_ordinary(buf.data(), interfaces.urgent_dscps)
                || !is_urgent(interfaces, buf);
            if !is_usual && (urgent.count_ones() as usize) < room {
                urgent |= 1 << place;
            } else if refused >> place & 1 == 0 && (kept.count_ones() as usize) < most {
                kept |= 1 << place;
            }
        }
        let (mut chosen, first) = (urgent | kept, self.taken.partition(urgent | kept));
        for buf in self.taken.drain_from(first) {
            match urgent >> chosen.trailing_zeros() & 1 {
                1 => drop(self.urgent.push(buf)),
                _ => waiting.packets.push_back(buf),
            }
            chosen &= chosen - 1;
        }
        let count = |places: u64| u64::from(places.count_ones());
        let dropped = count(all & !refused & !urgent & !kept);
        stats.urgent += count(urgent);
        waiting.urgent_credit -= urgent.count_ones() as i32;
        stats.drop_many(DropReason::SlowPathBudget, count(all & refused & !urgent));
        stats.drop_many(DropReason::Overload, dropped);
        waiting.window.dropped += dropped;
        stats.backlog += count(kept);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of a thousand bursts, how many are looked at.
    fn looked_at(share: &mut Share) -> usize {
        (0..1_000).filter(|_| share.takes_next()).count()
    }

    #[test]
    fn fewer_bursts_are_looked_at_while_a_port_is_not_emptied_but_always_some() {
        let mut share = Share {
            bursts: Share::ALL + Share::PATIENCE,
            credit: 0,
        };
        assert_eq!(looked_at(&mut share), 1_000);
        (0..Share::PATIENCE).for_each(|_| share.note_look(false));
        assert_eq!(looked_at(&mut share), 1_000);
        (0..128).for_each(|_| share.note_look(false));
        assert!((499..=501).contains(&looked_at(&mut share)));
        (0..1_000).for_each(|_| share.note_look(false));
        assert!((124..=126).contains(&looked_at(&mut share)));
        (0..1_000).for_each(|_| share.note_look(true));
        assert_eq!(looked_at(&mut share), 1_000);
    }
}
