//! A worker's packet I/O with its transmit queues and LAGs, and packets of our own.

use flow::PortId;
use packet::DropReason;

use crate::egress::lags::Lags;
use crate::egress::tx_queues::TxQueues;
use crate::io::Io;
use crate::stats::Stats;

/// Where packets leave.
pub(crate) struct Ports<I: Io> {
    pub io: I,
    pub tx: TxQueues<I::Buf>,
    pub lags: Lags,
}

/// A packet of our own, ready to be sent.
pub(crate) struct OwnPacket<B> {
    pub port: PortId,
    pub packet: B,
}

impl<I: Io> Ports<I> {
    /// Sends a packet of our own, which belongs to no flow.
    pub fn send_own(&mut self, stats: &mut Stats, OwnPacket { port, packet }: OwnPacket<I::Buf>) {
        let port = self.lags.way(port, &packet);
        self.tx.send(&mut self.io, stats, port, packet);
    }

    /// Drops a packet that is in no queue.
    pub fn drop(&mut self, stats: &mut Stats, packet: I::Buf, reason: DropReason) {
        self.tx.give_up_one(&mut self.io, stats, packet, reason);
    }

    /// Sends, hands over and frees everything that is queued.
    pub fn flush(&mut self, stats: &mut Stats) {
        self.tx.flush(&mut self.io, stats);
    }
}
