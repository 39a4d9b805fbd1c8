//! What is done when packets come in faster than they can be worked on: what may not wait goes first, some of the rest
//! waits, and what is too much is dropped here, where it is known what it is, rather than by the port, which does not
//! know.
//!
//! Nothing of it costs a worker anything that empties its ports. One that finds a port's burst full looks ahead, a few
//! bursts at a time, so that the port's own queue stays short; what it has taken waits in order.

use std::collections::VecDeque;

use flow::{PortId, prefetch};
use packet::{DropReason, PacketBuf};

use crate::burst::batch::Batch;
use crate::egress::lags::Lags;
use crate::ingress::l3_interfaces::L3Interfaces;
use crate::ingress::priority::is_urgent;
use crate::io::{Io, PacketMetadata};
use crate::stats::Stats;

/// Bursts that are looked at ahead of the one that is worked on.
const AHEAD: usize = 4;

/// Packets that wait for their turn.
pub(crate) struct RxBacklog<B> {
    /// By port.
    waiting: Vec<VecDeque<B>>,
    urgent: Batch<B>,
    taken: Batch<B>,
    surplus: Batch<B>,
    /// Room for packets of each port; 0: there is no backlog.
    most: usize,
}

impl<B: PacketBuf + PacketMetadata> RxBacklog<B> {
    /// For `ports` ports, with room for `most` packets of each.
    pub fn new(ports: usize, most: usize) -> Self {
        Self {
            waiting: (0..ports).map(|_| VecDeque::with_capacity(most)).collect(),
            urgent: Batch::new(),
            taken: Batch::new(),
            surplus: Batch::new(),
            most,
        }
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
            .is_some_and(|waiting| !waiting.is_empty())
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
            let some = burst.room().min(waiting.len());
            waiting.drain(..some).for_each(|packet| drop(burst.push(packet)));
            stats.backlog -= some as u64;
        }
    }

    /// Takes what has come in by a port behind what is worked on, and sorts it. Gives how many packets that were.
    pub fn look_ahead<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        (interfaces, lags): (&L3Interfaces, &Lags),
        port: PortId,
    ) -> usize {
        let mut packets = 0;
        for _ in 0..AHEAD {
            io.rx(port, &mut self.taken);
            let octets: usize = self.taken.iter().map(PacketBuf::len).sum();
            stats.received(port, self.taken.len() as u64, octets as u64);
            packets += self.taken.len();
            let is_last = !self.taken.is_full();
            if !lags.is_empty() {
                lags.receive(port, &mut self.taken);
            }
            self.sort(stats, interfaces, port);
            if !self.surplus.is_empty() {
                io.free(&mut self.surplus);
            }
            if is_last {
                break;
            }
        }
        packets
    }

    fn sort(&mut self, stats: &mut Stats, interfaces: &L3Interfaces, port: PortId) {
        let Some(waiting) = self.waiting.get_mut(port.index()) else {
            return;
        };
        self.taken.iter().for_each(|buf| prefetch::read(buf.data()));
        for buf in self.taken.drain() {
            let buf = match self.urgent.is_full() || !is_urgent(interfaces, &buf) {
                false => self.urgent.push(buf).err(),
                true => Some(buf),
            };
            match buf {
                None => stats.urgent += 1,
                Some(buf) if waiting.len() < self.most => {
                    stats.backlog += 1;
                    waiting.push_back(buf);
                }
                Some(buf) => {
                    stats.drop(DropReason::Overload);
                    // It has as much room as a burst has packets.
                    let _ = self.surplus.push(buf);
                }
            }
        }
    }
}
