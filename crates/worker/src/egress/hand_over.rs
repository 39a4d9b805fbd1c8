//! The hand-over of packets to the workers that own their sessions: a queue for each worker, emptied into its inbox.
//!
//! Worker selection sets the fate of such a packet ([`HandOver`](crate::burst::descriptor::Fate::HandOver)), stage `tx`
//! queues it here, [`Io::hand_over`] puts it into the inbox of its worker, and that worker takes it as if it had
//! received it ([`Io::inbox`]). What finds no room in the inbox is dropped and counted.

use flow::WorkerId;
use packet::DropReason;

use crate::burst::batch::Batch;
use crate::egress::free::{drop_rest, free_one};
use crate::io::Io;
use crate::stats::Stats;

/// Packets of a burst that other workers get, by worker.
pub(crate) struct HandOverQueues<B>(Vec<Batch<B>>);

impl<B> HandOverQueues<B> {
    /// Empty queues for this number of workers.
    pub fn new(workers: usize) -> Self {
        Self((0..workers).map(|_| Batch::new()).collect())
    }

    /// Queues a packet for a worker; a full queue is handed over at once.
    pub fn push<I: Io<Buf = B>>(
        &mut self,
        io: &mut I,
        stats: &mut Stats,
        to: WorkerId,
        buf: B,
        free: &mut Batch<B>,
    ) {
        let Some(batch) = self.0.get_mut(to.index()) else {
            stats.drop(DropReason::InboxFull);
            return free_one(io, free, buf);
        };
        let Err(buf) = batch.push(buf) else { return };
        hand_over(io, stats, to, batch, free);
        let _ = batch.push(buf);
    }

    /// Hands all queued packets over.
    #[inline]
    pub fn flush<I: Io<Buf = B>>(&mut self, io: &mut I, stats: &mut Stats, free: &mut Batch<B>) {
        for (worker, batch) in self.0.iter_mut().enumerate() {
            if !batch.is_empty() {
                hand_over(io, stats, WorkerId(worker as u16), batch, free);
            }
        }
    }
}

/// Hands a queue over. What finds no room in the inbox is dropped.
fn hand_over<I: Io>(
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
