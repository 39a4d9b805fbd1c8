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
//!   poll there is another burst. So a packet that is forwarded costs what it costs without a backlog. Only in a flood
//!   of new flows, where a burst is to be made of packets that
//!   [are not refused](crate::ingress::new_flow_filter), [some](STANDING) are kept.
//!
//! A drop costs a few nanoseconds: of a packet that is dropped only the first cache lines are read, and buffers are
//! freed in bursts.

use std::collections::VecDeque;

use flow::{Nanos, PortId};
use packet::{DropReason, PacketBuf};

use crate::burst::batch::Batch;
use crate::egress::lags::Lags;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::priority::{is_ordinary, is_urgent};
use crate::io::{Io, PacketMetadata};
use crate::stats::Stats;

/// Bursts that are taken ahead of the one that is processed, where packets are kept.
const AHEAD: usize = 4;
/// The same where they are dropped.
const AHEAD_IN_OVERLOAD: usize = 16;
/// Packets that are left in a port's queue whose length is known, so that the worker never waits for some. As many
/// are kept in an overload that lasts, during a flood of new flows.
const STANDING: u16 = 256;
/// How long drops are counted before it is decided whether an overload lasts.
const WINDOW: Nanos = Nanos(10_000_000);
/// An overload lasts where one packet in as many, or more, was dropped.
const FEW: u64 = 64;

/// The packets of one port that wait for a later burst, and what became of the others.
struct Waiting<B> {
    packets: VecDeque<B>,
    window: Window,
    /// The overload lasts: no packet is kept.
    is_lasting: bool,
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
    surplus: Batch<B>,
    /// Room for packets of each port; 0: there is no backlog.
    most: usize,
}

impl<B: PacketBuf + PacketMetadata> RxBacklog<B> {
    /// For `ports` ports, with room for `most` packets of each.
    pub fn new(ports: usize, most: usize) -> Self {
        let waiting = |_| Waiting {
            packets: VecDeque::with_capacity(most),
            window: Window::default(),
            is_lasting: false,
        };
        Self {
            waiting: (0..ports).map(waiting).collect(),
            urgent: Batch::new(),
            taken: Batch::new(),
            surplus: Batch::new(),
            most,
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
        mut refuse: impl FnMut(&[B]) -> Option<u64>,
    ) -> Ahead {
        let Some(waiting) = self.waiting.get_mut(port.index()) else {
            return Ahead::default();
        };
        let received = stats.ports.get(port.index()).map_or(0, |port| port.rx.packets);
        waiting.begin(now, received);
        let bursts = if waiting.is_lasting {
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
            let refused = refuse(&self.taken);
            self.sort(stats, interfaces, port, refused);
            if !self.surplus.is_empty() {
                io.free(&mut self.surplus);
            }
            if ahead.is_emptied || self.urgent.is_full() {
                break;
            }
        }
        ahead
    }

    fn sort(&mut self, stats: &mut Stats, interfaces: &L3Interfaces, port: PortId, refused: Option<u64>) {
        let Some(waiting) = self.waiting.get_mut(port.index()) else {
            return;
        };
        let most = match (waiting.is_lasting, refused) {
            (false, _) => self.most,
            (true, None) => 0,
            (true, Some(_)) => self.most.min(STANDING.into()),
        };
        let (refused, has_dscps) = (refused.unwrap_or_default(), interfaces.urgent_dscps != 0);
        let before = waiting.packets.len();
        let (mut dropped, mut over_budget) = (0, 0);
        let dscps = interfaces.urgent_dscps;
        if most == 0 && self.taken.iter().all(|buf| is_ordinary(buf.data(), dscps)) {
            std::mem::swap(&mut self.taken, &mut self.surplus);
            dropped = self.surplus.len() as u64;
        }
        for (place, buf) in self.taken.drain().enumerate() {
            let is_refused = refused >> place & 1 == 1;
            // Of what is refused only a DSCP can be urgent.
            let is_usual = is_refused && !has_dscps
                || is_ordinary(buf.data(), interfaces.urgent_dscps)
                || !is_urgent(interfaces, &buf);
            // Both have as much room as a burst has packets, but for urgent packets of a burst before.
            if !is_usual && !self.urgent.is_full() {
                stats.urgent += 1;
                let _ = self.urgent.push(buf);
            } else if is_refused {
                over_budget += 1;
                let _ = self.surplus.push(buf);
            } else if waiting.packets.len() < most {
                waiting.packets.push_back(buf);
            } else {
                dropped += 1;
                let _ = self.surplus.push(buf);
            }
        }
        stats.drop_many(DropReason::SlowPathBudget, over_budget);
        stats.drop_many(DropReason::Overload, dropped);
        waiting.window.dropped += dropped;
        stats.backlog += (waiting.packets.len() - before) as u64;
    }
}
