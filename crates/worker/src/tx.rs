//! Stage `tx`: every packet goes where its fate says, in bursts, and is accounted.
//!
//! Packets leave in the order they came in, for each port and each worker. What finds no room is dropped and counted
//! at once; nothing is held from poll to poll.

use flow::{PortId, WorkerId};
use packet::{DropReason, PacketBuf};

use crate::batch::Batch;
use crate::descriptor::{Descriptor, Fate};
use crate::io::Io;
use crate::stats::Stats;

/// Where packets wait for the end of their burst.
pub(crate) struct Outgoing<B> {
    /// By port.
    ports: Vec<Batch<B>>,
    /// By worker.
    workers: Vec<Batch<B>>,
    free: Batch<B>,
}

impl<B: PacketBuf> Outgoing<B> {
    /// For so many ports and workers.
    pub fn new(ports: usize, workers: usize) -> Self {
        let batches = |count| (0..count).map(|_| Batch::new()).collect();
        Self {
            ports: batches(ports),
            workers: batches(workers),
            free: Batch::new(),
        }
    }

    /// Sorts a burst by fate, and empties it. Full batches go at once.
    pub fn sort<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        burst: &mut Batch<B>,
        descriptors: &[Descriptor],
    ) {
        for (buf, descriptor) in burst.drain().zip(descriptors) {
            match descriptor.fate {
                Fate::Send(port) => self.send(io, stats, port, buf),
                Fate::HandOver(worker) => self.hand_over(io, stats, worker, buf),
                Fate::Consumed => {
                    stats.consumed += 1;
                    self.free(io, buf);
                }
                Fate::Drop(reason) => {
                    stats.drop(reason);
                    self.free(io, buf);
                }
                // Every stage before settles what it lets pass.
                Fate::Open => {
                    stats.drop(DropReason::UnsupportedAction);
                    self.free(io, buf);
                }
            }
        }
    }

    /// Puts a packet of our own behind what waits for `port`.
    pub fn send<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, port: PortId, buf: B) {
        let Some(batch) = self.ports.get_mut(port.index()) else {
            stats.drop(DropReason::PortDown);
            return self.free(io, buf);
        };
        let Err(buf) = batch.push(buf) else { return };
        transmit(io, stats, port, batch, &mut self.free);
        let _ = batch.push(buf);
    }

    fn hand_over<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, to: WorkerId, buf: B) {
        let Some(batch) = self.workers.get_mut(to.index()) else {
            stats.drop(DropReason::InboxFull);
            return self.free(io, buf);
        };
        let Err(buf) = batch.push(buf) else { return };
        give(io, stats, to, batch, &mut self.free);
        let _ = batch.push(buf);
    }

    fn free<I: Io<Buf = B>>(&mut self, io: &mut I, buf: B) {
        if let Err(buf) = self.free.push(buf) {
            io.free(&mut self.free);
            let _ = self.free.push(buf);
        }
    }

    /// Sends, hands over and frees whatever waits.
    pub fn flush<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats) {
        for (port, batch) in self
            .ports
            .iter_mut()
            .enumerate()
            .filter(|(_, batch)| !batch.is_empty())
        {
            transmit(io, stats, PortId(port as u16), batch, &mut self.free);
        }
        for (worker, batch) in self
            .workers
            .iter_mut()
            .enumerate()
            .filter(|(_, batch)| !batch.is_empty())
        {
            give(io, stats, WorkerId(worker as u16), batch, &mut self.free);
        }
        if !self.free.is_empty() {
            io.free(&mut self.free);
        }
    }
}

fn octets<B: PacketBuf>(batch: &Batch<B>) -> u64 {
    batch.iter().map(|buf| buf.len() as u64).sum()
}

fn transmit<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    port: PortId,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
) {
    let (packets, length) = (batch.len() as u64, octets(batch));
    io.tx(port, batch);
    let tx = &mut stats.ports[port.index()].tx;
    tx.packets += packets - batch.len() as u64;
    tx.octets += length - octets(batch);
    drop_rest(io, stats, batch, free, DropReason::TxFull);
}

fn give<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    to: WorkerId,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
) {
    let packets = batch.len() as u64;
    io.hand_over(to, batch);
    stats.handed_over += packets - batch.len() as u64;
    drop_rest(io, stats, batch, free, DropReason::InboxFull);
}

/// Frees what found no room.
fn drop_rest<I: Io>(
    io: &mut I,
    stats: &mut Stats,
    batch: &mut Batch<I::Buf>,
    free: &mut Batch<I::Buf>,
    reason: DropReason,
) {
    for buf in batch.drain() {
        stats.drop(reason);
        if let Err(buf) = free.push(buf) {
            io.free(free);
            let _ = free.push(buf);
        }
    }
}
