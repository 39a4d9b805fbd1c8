//! Packets that leave their queues, and wait for nothing but their port.

use flow::{Nanos, PortId};
use packet::{DropReason, PacketBuf, ecn};

use super::Queueing;
use super::packets::{Departing, Lost};
use crate::egress::tx_queues::TxQueues;
use crate::io::{Io, PacketMetadata};
use crate::stats::Stats;

/// Bursts of one port that leave in a poll.
const BURSTS: usize = 4;

impl<B: PacketBuf + PacketMetadata> Queueing<B> {
    /// Sends what may leave now by ports that take it. Gives out what has to be sent by other means, at most a burst;
    /// then there may be more.
    pub fn depart<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        tx: &TxQueues<B>,
        stats: &mut Stats,
        others: &mut Vec<Departing<B>>,
        now: Nanos,
    ) {
        for place in 0..self.nodes.ports.len() {
            let node = self.nodes.ports[place];
            for _ in 0..BURSTS {
                self.send(io, tx, stats);
                let room = self.outputs.iter().map(|output| output.batch.room()).min();
                let room = room
                    .unwrap_or(0)
                    .min(crate::BURST - others.len().min(crate::BURST));
                if room == 0 {
                    break;
                }
                let taken = self.manager.dequeue(node, now, &mut self.departures[..room]);
                for index in 0..taken {
                    self.depart_one(index, others);
                }
                self.note_losses();
                if taken < room {
                    break;
                }
            }
        }
        self.send(io, tx, stats);
    }

    /// Moves a packet from its queue to the output of its port.
    #[inline]
    fn depart_one(&mut self, index: usize, others: &mut Vec<Departing<B>>) {
        let departure = self.departures[index];
        let Some(mut waiting) = self.take(departure.slot) else {
            return;
        };
        if departure.marks_ce {
            let asks = waiting.packet.asks_udp_checksum().is_some();
            // It was read there when it came.
            let _ = ecn::mark(waiting.packet.data_mut(), waiting.user.into(), asks);
        }
        let split = match self.splits.is_empty() {
            true => None,
            false => self.splits.remove(&departure.slot.0),
        };
        match self.outputs.get_mut(waiting.port.index()) {
            Some(output) if split.is_none() && waiting.port.recirculations() == 0 => {
                output.charges.push_back(waiting.charge);
                let pushed = output.batch.push(waiting.packet);
                debug_assert!(pushed.is_ok(), "there is room for all that is taken");
            }
            _ => others.push(waiting.departing(split)),
        }
    }

    /// Sends what ports take.
    fn send<I: Io<Buf = B>>(&mut self, io: &mut I, tx: &TxQueues<B>, stats: &mut Stats) {
        for (port, output) in self.outputs.iter_mut().enumerate() {
            if output.batch.is_empty() {
                continue;
            }
            let before = output.batch.len();
            if tx.send_batch(io, stats, PortId(port as u16), &mut output.batch) {
                output.charges.drain(..before - output.batch.len());
                continue;
            }
            let charges = output.charges.drain(..);
            self.lost
                .extend(output.batch.drain().zip(charges).map(|(packet, charge)| Lost {
                    packet,
                    charge,
                    reason: DropReason::PortDown,
                }));
        }
    }
}
